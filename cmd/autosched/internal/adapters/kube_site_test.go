package adapters_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
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

// workloads are the objects that a cluster keeps after a recorded run, on each of some days, a minute for a
// second.
func workloads(t *testing.T, run string, days int) []byte {
	t.Helper()
	rows, err := csv.NewReader(testshared.Open(t, "golden", "kubernetes", "runs", run)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	var items []any
	for day := range days {
		zero := time.Date(2026, 3, 1+day, 9, 0, 0, 0, time.UTC)
		for _, row := range rows[1:] {
			at := func(name string) string {
				s, err := strconv.ParseFloat(row[column[name]], 64)
				if err != nil {
					t.Fatal(err)
				}
				return zero.Add(time.Duration(s * float64(time.Second) * 60)).Format(time.RFC3339)
			}
			count, _ := strconv.Atoi(row[column["pods"]])
			priority, _ := strconv.Atoi(row[column["priority"]])
			name := fmt.Sprintf("%s-%d", row[column["job"]], day)
			queue := "tenant-" + row[column["tenant"]]
			pod := map[string]any{"containers": []any{map[string]any{"resources": map[string]any{
				"requests": map[string]any{"nvidia.com/gpu": row[column["gpus"]]}}}}}
			items = append(items, map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
				"metadata": map[string]any{"name": name, "namespace": "default", "uid": "uid-" + name,
					"creationTimestamp": at("submit_s")},
				"spec": map[string]any{"queueName": queue, "priority": priority, "podSets": []any{map[string]any{
					"name": "main", "count": count, "template": map[string]any{"spec": pod}}}},
				"status": map[string]any{"admission": map[string]any{"clusterQueue": queue}, "conditions": []any{
					map[string]any{"type": "Admitted", "status": "True", "lastTransitionTime": at("start_s"),
						"reason": "Admitted"},
					map[string]any{"type": "Finished", "status": "True", "lastTransitionTime": at("end_s"),
						"reason": "Succeeded"}}}})
		}
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestKubeSite: the commands that ask about a history work on a site of Kueue and the Workloads that it keeps, and the
// answer is a script that changes the queues.
func TestKubeSite(t *testing.T) {
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", "kueue.strict.json"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := kube.Describe("prod", map[string][]byte{"queues.json": queues,
		"workloads.json": workloads(t, "kueue.strict.a.csv", 14)})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "site")
	folder := site.Folder(dir)
	if err := d.Write(folder, cli.Registration("kueue")); err != nil {
		t.Fatal(err)
	}
	history, script := folder.Path(kube.History), filepath.Join(t.TempDir(), "tuned.sh")
	for _, c := range []struct{ args, want string }{
		{"fidelity --trace " + history + " --site " + dir, "kueue (recorded: kueue)"},
		{"compare --trace " + history + " --site " + dir + " --row kueue:reclaim --ignore-fidelity", "reclaim"},
		{"tune --trace " + history + " --site " + dir + " --budget 40 --futures 2 --conf-out " + script +
			" --guard off --ignore-fidelity", "\n+tenant-0 queueingStrategy: BestEffortFIFO\n"},
		{"evaluate --trace " + history + " --site " + dir + " --methods current,fixed-history --fixed-budget 20 --seeds 1 --ignore-fidelity --out " +
			filepath.Join(t.TempDir(), "report"), "fixed-history"},
		{"recommend --trace " + history + " --site " + dir + " --ignore-fidelity", ""},
	} {
		code, out, errs := clitest.Run(strings.Fields(c.args)...)
		if code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s: %d %s%s, want %q", c.args, code, out, errs, c.want)
		}
	}
	text, err := os.ReadFile(script)
	for _, want := range []string{`clusterqueue tenant-0 --type=json -p '[{"op":"test","path":"/spec/queueingStrategy",` +
		`"value":"StrictFIFO"},{"op":"replace","path":"/spec/queueingStrategy","value":"BestEffortFIFO"}]' "$@"`,
		`"value":"BestEffortFIFO"},{"op":"replace","path":"/spec/queueingStrategy","value":"StrictFIFO"}]' "$@"`} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("no %s: %v in %s", want, err, text)
		}
	}
}
