package kube_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/adapter/site/kube"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/space"
)

func encode(r site.Registration) ([]byte, error) { return []byte("{}"), nil }

// written is a folder of the queues of a recording.
func written(t *testing.T, name string) (site.Folder, *kube.Description) {
	t.Helper()
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", name))
	if err != nil {
		t.Fatal(err)
	}
	d, err := kube.Kueue.Describe("prod", map[string][]byte{"queues.json": queues})
	if err != nil {
		t.Fatal(err)
	}
	folder := site.Folder(filepath.Join(t.TempDir(), "site"))
	if err := d.Write(folder, encode); err != nil {
		t.Fatal(err)
	}
	return folder, d
}

// run runs a script, and returns the arguments of kubectl.
func run(t *testing.T, script, text string, args ...string) string {
	t.Helper()
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	kubectl := []byte("#!/bin/sh\nprintf '%s\\n' \"$*\"\n")
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), kubectl, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{script}, args...)...)
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}

// TestChange: a script that sh takes has one command for each queue that changes, and the way back.
func TestChange(t *testing.T) {
	folder, _ := written(t, "kueue.limits.json")
	if missing := folder.Missing(kube.Queues, kube.History); missing != "" {
		t.Fatal(missing)
	}
	param := func(id string) space.Param {
		return space.Param{ID: id, Kind: space.KindFloat, Max: 1, Default: space.Num(1)}
	}
	of, err := space.New([]space.Param{param("borrowingLimit"), param("tenant-0.lendingLimit"), {
		ID: "queueingStrategy", Kind: space.KindCategorical, Categories: []string{"StrictFIFO", "BestEffortFIFO"},
		Default: space.Text("StrictFIFO")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	to, _ := of.Project(space.Values{"borrowingLimit": space.Num(1), "tenant-0.lendingLimit": space.Num(.25),
		"queueingStrategy": space.Text("StrictFIFO")})
	script := filepath.Join(t.TempDir(), "tuned.sh")
	c, err := kube.Kueue.Change(folder, to, script)
	if err != nil {
		t.Fatal(err)
	}
	does, undo := run(t, script, c.Text, "--dry-run=server"), run(t, script, c.Text, "undo")
	const resource = "/spec/resourceGroups/0/flavors/0/resources/0/"
	for _, want := range []string{"patch clusterqueue tenant-0 --type=json -p [", resource + "lendingLimit",
		" --dry-run=server\n"} {
		if !strings.Contains(does, want) {
			t.Errorf("no %q in %s", want, does)
		}
	}
	if strings.Count(does, "\n") != strings.Count(undo, "\n") || strings.Contains(undo, "dry-run") ||
		!strings.HasPrefix(undo, "patch clusterqueue tenant-2 ") {
		t.Errorf("%s\n%s", does, undo)
	}
	if !strings.Contains(c.Patch, "+tenant-0 lendingLimit: 8\n") || len(c.Commands) != 3 {
		t.Errorf("%s %q", c.Patch, c.Commands)
	}
}

// TestNothing: settings that are in force are no change.
func TestNothing(t *testing.T) {
	folder, _ := written(t, "kueue.strict.json")
	of, err := space.New([]space.Param{{ID: "queueingStrategy", Kind: space.KindCategorical,
		Categories: []string{"StrictFIFO", "BestEffortFIFO"}, Default: space.Text("StrictFIFO")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kube.Kueue.Change(folder, of.Default(), "x")
	if err != nil || c.Patch != "" || strings.Contains(c.Text, "kubectl patch") {
		t.Errorf("%+v %v", c, err)
	}
}

// TestFaults: errors name the file or say what is missing.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "List", "items": []}`: "there is no ClusterQueue",
		`{"kind": `:                     "x.json",
	} {
		if _, err := kube.Kueue.Describe("prod", map[string][]byte{"x.json": []byte(text)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestHostileName: a name that a shell would run gets into no script.
func TestHostileName(t *testing.T) {
	folder, _ := written(t, "kueue.besteffort.json")
	file := folder.Path(kube.Queues)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), "tenant-1", "tenant-1; id"))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	of, err := space.New([]space.Param{{ID: "queueingStrategy", Kind: space.KindCategorical,
		Categories: []string{"StrictFIFO", "BestEffortFIFO"}, Default: space.Text("StrictFIFO")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kube.Kueue.Change(folder, of.Default(), "x")
	if err == nil || !strings.Contains(err.Error(), "tenant-1; id") {
		t.Errorf("%+v %v", c, err)
	}
}

// TestVolcano: a change of Volcano is one of the scheduler's text, whole, and of the Queues whose weights change.
func TestVolcano(t *testing.T) {
	const text = "actions: 'enqueue, allocate, backfill'\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n" +
		"- plugins:\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n"
	scheduler, err := kube.ConfigMap([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", "volcano.weights.json"))
	if err != nil {
		t.Fatal(err)
	}
	const node = `{"kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{"nvidia.com/gpu":"8"}}}`
	files := map[string][]byte{"queues.json": queues, "nodes.json": []byte(node), "scheduler.json": scheduler}
	d, err := kube.Volcano.Describe("prod", files)
	if err != nil {
		t.Fatal(err)
	}
	folder := site.Folder(filepath.Join(t.TempDir(), "site"))
	if err := d.Write(folder, encode); err != nil {
		t.Fatal(err)
	}
	s, err := conf.Read(files)
	if err != nil {
		t.Fatal(err)
	}
	params, rules, values := s.Space()
	of, err := space.New(params, rules)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "tuned.sh")
	change := func() (diff, does, undo string) {
		t.Helper()
		to, _ := of.Project(values)
		c, err := kube.Volcano.Change(folder, to, script)
		if err != nil {
			t.Fatal(err)
		}
		return c.Patch, run(t, script, c.Text), run(t, script, c.Text, "undo")
	}
	if diff, does, undo := change(); diff+does+undo != "" {
		t.Errorf("values in force are a change: %s%s%s", diff, does, undo)
	}
	values["tenant-1.weight"] = space.Int(7)
	const weight = "patch queues.scheduling.volcano.sh tenant-1 --type=json -p "
	diff, does, undo := change()
	if diff != "-tenant-1 weight: 2\n+tenant-1 weight: 7\n" ||
		does != weight+`[{"op":"test","path":"/spec/weight","value":2},{"op":"replace","path":"/spec/weight","value":7}]`+"\n" ||
		!strings.HasPrefix(undo, weight+`[{"op":"test","path":"/spec/weight","value":7}`) {
		t.Errorf("%s%s%s", diff, does, undo)
	}
	values["overcommit-factor"], values["sla-waiting-time"] = space.Num(3), space.Num(3600)
	diff, does, undo = change()
	const configMap = "patch configmap volcano-scheduler-configmap -n volcano-system --type=json -p "
	for _, want := range []string{"\n-actions: 'enqueue, allocate, backfill'\n", "\n+      overcommit-factor: 3\n",
		"\n+      sla-waiting-time: 1h0m0s\n", "\n+tenant-1 weight: 7\n"} {
		if !strings.Contains(diff, want) {
			t.Errorf("no %q in %s", want, diff)
		}
	}
	if !strings.HasPrefix(does, configMap+`[{"op":"test","path":"/data/volcano-scheduler.conf",`+
		`"value":"actions: \u0027enqueue, allocate, backfill\u0027\n`) || strings.Count(does, "\n") != 2 ||
		!strings.HasPrefix(undo, weight) || !strings.Contains(undo, configMap) {
		t.Errorf("%s%s", does, undo)
	}
	for name, want := range map[string]string{"queues.json": "no Queue", "nodes.json": "no Node with GPUs",
		"scheduler.json": "text is not among"} {
		some := maps.Clone(files)
		if delete(some, name); name != "queues.json" {
			some[name] = []byte(`{"kind":"ConfigMap","metadata":{"name":"other"},"data":{}}`)
		}
		if _, err := kube.Volcano.Describe("prod", some); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v, want %q", name, err, want)
		}
	}
	for text, want := range map[string]string{
		string(scheduler): "x.json: ConfigMap volcano-system/volcano-scheduler-configmap: data.volcano-scheduler.conf: is in ",
		strings.ReplaceAll(string(scheduler), "nodeorder", "capacity"): "data.volcano-scheduler.conf: line 9: capacity",
		strings.ReplaceAll(string(scheduler), "enqueue", "x"):          `data.volcano-scheduler.conf: line 1: actions: "x"`,
	} {
		some := maps.Clone(files)
		if some["x.json"] = []byte(text); text != string(scheduler) {
			delete(some, "scheduler.json")
		}
		if _, err := kube.Volcano.Describe("prod", some); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
