package adapters_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/adapter/site/kube"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// recorded is a job of a recorded run, on one of some days, with its times.
type recorded struct {
	name, queue, gpus string
	pods, priority    int
	at                map[string]string // of the columns of times
}

// table reads rows, and the places of columns by their names.
func table(t *testing.T, from io.Reader) (rows [][]string, column map[string]int) {
	t.Helper()
	rows, err := csv.NewReader(from).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column = map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	return rows[1:], column
}

// kept are the objects that a cluster keeps after a recorded run, on each of some days, a minute for a second. Times of
// jobs that are simulated are seconds since their submission.
func kept(t *testing.T, run string, days int, simulated map[string]map[string]float64,
	objects func(recorded) []any) []byte {
	t.Helper()
	rows, column := table(t, testshared.Open(t, "golden", "kubernetes", "runs", run))
	var items []any
	var submitted time.Time
	for day := range days {
		zero := time.Date(2026, 3, 1+day, 9, 0, 0, 0, time.UTC)
		for _, row := range rows {
			r := recorded{name: fmt.Sprintf("%s-%d", row[column["job"]], day), queue: "tenant-" + row[column["tenant"]],
				gpus: row[column["gpus"]], at: map[string]string{}}
			for _, name := range []string{"submit_s", "start_s", "end_s"} {
				s, err := strconv.ParseFloat(row[column[name]], 64)
				if err != nil {
					t.Fatal(err)
				}
				at := zero.Add(time.Duration(s * float64(time.Second) * 60))
				if after, is := simulated[r.uid()][name]; is {
					at = submitted.Add(time.Duration(after * float64(time.Second)))
				}
				if name == "submit_s" {
					submitted = at.Truncate(time.Second)
				}
				r.at[name] = at.Format(time.RFC3339)
			}
			r.pods, _ = strconv.Atoi(row[column["pods"]])
			r.priority, _ = strconv.Atoi(row[column["priority"]])
			items = append(items, objects(r)...)
		}
	}
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

type object = map[string]any

func (r *recorded) uid() string { return "uid-" + r.name }

func (r *recorded) meta(name string) object {
	return object{"name": name, "namespace": "default", "uid": "uid-" + name, "creationTimestamp": r.at["submit_s"]}
}

func (r *recorded) containers() []any {
	return []any{object{"resources": object{"requests": object{"nvidia.com/gpu": r.gpus}}}}
}

func workload(r recorded) []any {
	return []any{object{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": r.meta(r.name),
		"spec": object{"queueName": r.queue, "priority": r.priority, "podSets": []any{object{"name": "main",
			"count": r.pods, "template": object{"spec": object{"containers": r.containers()}}}}},
		"status": object{"admission": object{"clusterQueue": r.queue}, "conditions": []any{
			object{"type": "Admitted", "status": "True", "lastTransitionTime": r.at["start_s"], "reason": "Admitted"},
			object{"type": "Finished", "status": "True", "lastTransitionTime": r.at["end_s"],
				"reason": "Succeeded"}}}}}
}

// podGroup is a PodGroup with its Pods.
func podGroup(r recorded) []any {
	out := []any{object{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": r.meta(r.name),
		"spec": object{"queue": r.queue, "minMember": r.pods}}}
	for i := range r.pods {
		meta := r.meta(fmt.Sprintf("%s-%d", r.name, i))
		meta["annotations"] = object{"scheduling.k8s.io/group-name": r.name}
		out = append(out, object{"apiVersion": "v1", "kind": "Pod", "metadata": meta,
			"spec": object{"nodeName": fmt.Sprintf("node-%d", i), "containers": r.containers()},
			"status": object{"phase": "Succeeded", "startTime": r.at["start_s"], "containerStatuses": []any{
				object{"state": object{"terminated": object{"finishedAt": r.at["end_s"]}}}}}})
	}
	return out
}

// TestKubeSite: the commands that ask about a history work on a site of Kueue and the Workloads that it keeps, and the
// answer is a script that changes the queues.
func TestKubeSite(t *testing.T) {
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", "kueue.strict.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := described(t, kube.Kueue, map[string][]byte{"queues.json": queues,
		"workloads.json": kept(t, "kueue.strict.a.csv", 14, nil, workload)})
	script := asked(t, dir, "kueue", "reclaim", "\n+tenant-0 queueingStrategy: BestEffortFIFO\n")
	for _, want := range []string{`clusterqueue tenant-0 --type=json -p '[{"op":"test","path":"/spec/queueingStrategy",` +
		`"value":"StrictFIFO"},{"op":"replace","path":"/spec/queueingStrategy","value":"BestEffortFIFO"}]' "$@"`,
		`"value":"BestEffortFIFO"},{"op":"replace","path":"/spec/queueingStrategy","value":"StrictFIFO"}]' "$@"`} {
		if !strings.Contains(script, want) {
			t.Errorf("no %s in %s", want, script)
		}
	}
}

// TestKubeSiteAlone: settings without effect in a cluster, of cohorts where queues share none, are not in the space of
// a registration.
func TestKubeSiteAlone(t *testing.T) {
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", "kueue.strict.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		text   []byte
		params int
	}{{queues, 6}, {bytes.ReplaceAll(queues, []byte(`"cohortName": "all",`), nil), 2}} {
		path := site.Folder(described(t, kube.Kueue, map[string][]byte{"queues.json": want.text})).Path(site.Scheduler)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := cli.LoadSpace(text, path); err != nil || len(s.Params()) != want.params {
			t.Errorf("%v %v, want %d parameters", s, err, want.params)
		}
	}
}

// TestVolcanoSite: the commands work on a site of Volcano and the PodGroups and Pods that it keeps, and the answer is
// a script that changes the scheduler's text.
func TestVolcanoSite(t *testing.T) {
	testshared.Full(t)
	read := func(file string) []byte {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := read(filepath.Join(testshared.Root(t), "schedulers", "volcano", "conf", "testdata", "volcano.default.conf"))
	scheduler, err := kube.ConfigMap(text)
	if err != nil {
		t.Fatal(err)
	}
	nodes := ""
	for i := range 8 {
		nodes += fmt.Sprintf(`{"kind":"Node","metadata":{"name":"node-%d"},"status":{"allocatable":{"nvidia.com/gpu":"8"}}}`,
			i)
	}
	queues := testshared.Path(t, "golden", "kubernetes", "queues", "volcano.equal.json")
	of := func(simulated map[string]map[string]float64) string {
		return described(t, kube.Volcano, map[string][]byte{"queues.json": read(queues), "scheduler.json": scheduler,
			"nodes.json":     []byte(nodes),
			"podgroups.json": kept(t, "volcano.default.equal.a.csv", 14, simulated, podGroup)})
	}
	// A second of the recording is a minute here, and Volcano's session is a second: its own times would not do.
	dir := of(simulated(t, of(nil)))
	script := asked(t, dir, "volcano", "pack", "\n+++ volcano-scheduler.conf\n")
	const path = `"path":"/data/volcano-scheduler.conf","value":"actions: `
	for _, want := range []string{"configmap volcano-scheduler-configmap -n volcano-system --type=json -p " +
		`'[{"op":"test",` + path, `{"op":"replace",` + path} {
		if strings.Count(script, want) != 2 { // and back
			t.Errorf("not twice %s in %s", want, script)
		}
	}
}

// simulated simulates the history of a site under its settings, and returns the times of jobs since their submission.
func simulated(t *testing.T, dir string) map[string]map[string]float64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.csv")
	code, _, errs := clitest.Run("simulate", "--trace", site.Folder(dir).Path(kube.History), "--site", dir,
		"--jobs-out", path)
	if code != 0 {
		t.Fatal(errs)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := map[string]map[string]float64{}
	rows, column := table(t, file)
	for _, row := range rows {
		at := map[string]float64{}
		for _, name := range []string{"submit_s", "start_s", "end_s"} {
			if at[name], err = strconv.ParseFloat(row[column[name]], 64); err != nil {
				t.Fatal(err)
			}
		}
		out[row[column["job_id"]]] = map[string]float64{"start_s": at["start_s"] - at["submit_s"],
			"end_s": at["end_s"] - at["submit_s"]}
	}
	return out
}

// described writes the site of objects.
func described(t *testing.T, s *kube.Scheduler, files map[string][]byte) (dir string) {
	t.Helper()
	d, err := s.Describe("prod", files)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "site")
	if err := d.Write(site.Folder(dir), cli.Registration(s.Name)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// asked runs the commands on a site, and returns the script of tune, whose answer has a text.
func asked(t *testing.T, dir, scheduler, preset, answer string) string {
	t.Helper()
	history, script := site.Folder(dir).Path(kube.History), filepath.Join(t.TempDir(), "tuned.sh")
	for _, c := range []struct{ args, want string }{
		{"fidelity --trace " + history + " --site " + dir, scheduler + " (recorded: " + scheduler + ")"},
		{"compare --trace " + history + " --site " + dir + " --row " + scheduler + ":" + preset + "",
			preset},
		{"tune --trace " + history + " --site " + dir + " --budget 40 --futures 2 --conf-out " + script +
			" --guard off", answer},
		{"evaluate --trace " + history + " --site " + dir + " --methods current,fixed-history --fixed-budget 20 " +
			"--seeds 1 --out " + filepath.Join(t.TempDir(), "report"), "fixed-history"},
		{"recommend --trace " + history + " --site " + dir + "", ""},
	} {
		code, out, errs := clitest.Run(strings.Fields(c.args)...)
		if code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s: %d %s%s, want %q", c.args, code, out, errs, c.want)
		}
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
