package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// The output of every command with --json begins with its schema, a name of its own with a
// version. A command without a line here fails the test.
func TestJSONHasASchema(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	data, tiers := clitest.WriteRuns(t, dir)
	url, _ := clitest.ServeFile(t, []byte(clitest.JobLog), nil)
	address, _ := clitest.StartServe(t, filepath.Join(dir, "service"), "--evaluators",
		file("evaluators.yaml", "evaluators: [{id: testbed, command: [sh]}]\n"))
	jobs := file("jobs.csv", "job_id,submit_time_s,duration_s,num_gpus\na,0,100,1\nb,50,100,1\nc,60,100,1\n")
	space := file("space.yaml", "parameters: [{id: x, kind: int, min_value: 1, max_value: 3, default_value: 1}]\n")
	runs := file("runs-held.csv",
		"key,model,gpus,held_s,preemptions,strayed\n"+strings.Repeat("k,,1,100,0,false\n", 5)+
			strings.Repeat("k,,1,130,1,false\n", 9))
	model, graph := file("model.txt", ""), file("graph.json", "")
	node := file("node.yaml", "node: a\ndir: "+file("node", "")+"\nembedded: {}\n")
	const (
		small  = " --trace sample --to 2017-10-09T06:00:00Z --nodes 16"
		tuning = small + " --budget 6 --futures 2 --horizon 1h"
		online = " --server "
	)
	registered := online + address
	recorded := recordedService(t)
	slurmConf := clitest.FakeSlurm(t)
	for _, x := range []struct {
		command, args, schema string
		slow                  bool
	}{
		{"slurm doctor", "", "diagnosis", false},
		{"slurm apply", filepath.Dir(slurmConf) + "/autosched/autosched.conf --dry-run", "slurm-settings", false},
		{"slurm rollback", "", "slurm-rollback", false},
		{"trace stats", "sample", "trace-statistics", false},
		{"trace validate", jobs, "trace-validation", false},
		{"trace import", jobs + " --out " + file("i.csv", ""), "imported-trace", false},
		{"trace window", jobs + " --to 55 --out " + file("w.csv", ""), "written-trace", false},
		{"trace synth", "--days 1 --job-count 20 --nodes 2 --out " + file("s.csv", ""), "written-trace", false},
		{"trace export", "--id x --dir " + recorded + " --out " + file("e.jsonl", ""), "exported-events", false},
		{"trace fetch", "philly --url " + url + " --out " + file("p.json", ""), "fetched-trace", false},
		{"slurm init", "--saved " + clitest.Listings + " --out " + filepath.Join(dir, "site"), "slurm-init", false},
		{"simulate", small, "simulation", false},
		{"tune", "--trace sample --at 2017-10-10T12:00:00Z --nodes 20 --budget 6 --futures 2", "tuning", false},
		{"evaluate", tuning + " --methods default,preset", "evaluation", false},
		{"compare", small + " --schedulers fifo,tiresias", "comparison", false},
		{"fidelity", small, "fidelity", false},
		{"energy report", small + " --scheduler fifo", "energy-report", false},
		{"telemetry validate", file("q.csv", "time,queue,pending,pending_gpus,free_gpus,total_gpus\n1700000000,,0,0,1,8\n"),
			"telemetry-validation", false},
		{"plan", small, "plan", false},
		{"patterns scan", "--trace " + jobs + " --nodes 2", "patterns-scan", false},
		{"patterns rules", "", "pattern-rules", false},
		{"patterns lint", file("rules.yaml", "version: 1\nrules: [{id: x, group_by: [job], action: a, words: w, "+
			"set: {match: [{event: job.ended}]}}]\n"), "pattern-lint", false},
		{"recommend", "--trace " + jobs + " --nodes 2", "recommendations", false},
		{"forecast models learn", "--runs " + runs + " --out " + file("m.json", ""), "learned-models", false},
		{"scheduler spaces", "", "spaces", false},
		{"scheduler validate", space, "space-validation", false},
		{"scheduler register", "--builtin fifo --id x --nodes 2 --gpus-per-node 8" + registered, "scheduler", false},
		{"scheduler get", "x" + registered, "scheduler", false},
		{"scheduler list", registered, "schedulers", false},
		{"telemetry import", "x " + file("gpus.csv", "time,node,gpu,utilization_percent\n1700000000,n1,0,97\n") +
			registered, "telemetry-import", false},
		{"telemetry export", "x --out " + dir + "/exported.csv" + registered, "telemetry-export", false},
		{"scheduler findings list", "x" + registered, "findings", false},
		{"scheduler job list", "x" + registered, "jobs", false},
		{"scheduler load", "x" + registered, "load", false},
		{"scheduler tenants", "x" + registered, "tenants", false},
		{"scheduler energy", "x" + registered, "energy-account", false},
		{"scheduler forecast", "x" + registered, "forecast-quality", false},
		{"scheduler gain", "x" + registered, "tuning-gain", false},
		{"scheduler metrics report", "x --revision 1 wait=1" + registered, "report-metrics", false},
		{"scheduler update", "x --budget 7" + registered, "scheduler", false},
		{"scheduler revisions", "x" + registered, "scheduler-revisions", false},
		{"scheduler effects", "x" + registered, "causal-model", false},
		{"scheduler pause", "x" + registered, "scheduler", false},
		{"scheduler resume", "x" + registered, "scheduler", false},
		{"scheduler config get", "x" + registered, "configuration", false},
		{"scheduler config list", "x" + registered, "configurations", false},
		{"scheduler config ack", "x --revision 1 --outcome applied" + registered, "acknowledge-configuration", false},
		{"admin backup", "--out " + dir + "/b.tar" + registered, "backup", false},
		{"admin restore", "--backup " + dir + "/b.tar --dir " + dir + "/restored", "backup", false},
		{"admin compact", "--dir " + dir + "/restored", "compaction", false},
		{"admin compact", registered, "compaction", false},
		{"admin migrate", "--dir " + dir + "/restored --cluster " + node, "migration", false},
		{"admin doctor", "--dir " + dir + "/restored", "diagnosis", false},
		{"scheduler operations list", registered, "operations", false},
		{"scheduler rounds list", "x" + registered, "rounds", false},
		{"admin audit list", "x" + registered, "audit-records", false},
		{"admin audit verify", "--dir " + dir + "/restored", "audit-verification", false},
		{"scheduler config explain", "x" + registered, "explain-configuration", false},
		{"scheduler config propose", "x --set backfill=true --reason test --validate-only" + registered, "configuration",
			false},
		{"scheduler config pin", "x --set backfill=true --reason test" + registered, "configuration", false},
		{"scheduler config unpin", "x" + registered, "unpin-configuration", false},
		{"scheduler config parked", "x" + registered, "parked-configurations", false},
		{"scheduler config render", "x" + registered, "rendered-configuration", false},
		{"scheduler config forget", "x --instance=" + registered, "forget-instance", false},
		{"scheduler freeze", "x --reason test" + registered, "freeze-tuning", false},
		{"scheduler unfreeze", "x" + registered, "unfreeze-tuning", false},
		{"study create", "x/s --metric wait --trial-budget 3" + registered, "study", false},
		{"study list", "x" + registered, "studies", false},
		{"study pause", "x/s" + registered, "study", false},
		{"study resume", "x/s" + registered, "study", false},
		{"study trial ask", "x/s --client a" + registered, "suggest-trials", false},
		{"study trial tell", "x/s/1 wait=3" + registered, "trial", false},
		{"study trial ask", "x/s --client a" + registered, "suggest-trials", false},
		{"study trial fail", "x/s/2 --reason test" + registered, "trial", false},
		{"study trial add", "x/s --set backfill=true" + registered, "trial", false},
		{"study trial stop", "x/s/3" + registered, "trial", false},
		{"study trial list", "x/s" + registered, "trials", false},
		{"study get", "x/s" + registered, "study", false},
		{"study optimal", "x/s" + registered, "optimal-trials", false},
		{"study estimate", "x/s --trial-time 1s" + registered, "study-estimate", false},
		{"study evaluators", registered, "evaluators", false},
		{"study run", "x/s --evaluator testbed" + registered, "study", false},
		{"study export", "x/s --out " + dir + "/s.jsonl" + registered, "study-export", false},
		{"study import", "x/s " + dir + "/s.jsonl" + registered, "study-import", false},
		{"study trial add", "x/s --set backfill=false wait=2" + registered, "trial", false},
		{"study cancel", "x/s" + registered, "study", false},
		{"study propose", "x/s --trial 1" + registered, "configuration", false},
		{"study delete", "x/s" + registered, "empty", false},
		{"scheduler workload upload", "x/w " + jobs + registered, "upload-workload", false},
		{"scheduler workload list", "x" + registered, "workloads", false},
		{"scheduler workload get", "x/w" + registered, "workload", false},
		{"scheduler workload download", "x/w --out " + dir + "/w.csv" + registered, "workload", false},
		{"scheduler workload delete", "x/w" + registered, "empty", false},
		{"scheduler delete", "x" + registered, "scheduler", false},
		{"scheduler undelete", "x" + registered, "scheduler", false},
		{"explain learn", "--data " + data + " --tiers " + tiers + " --out " + graph, "", false},
		{"explain show", graph, "", false},
		{"explain effects", "--boosted=false --data " + data + " --tiers " + tiers, "causal-effects", false},
		{"explain whatif", "--boosted=false --set queues=2 --data " + data + " --tiers " + tiers, "what-if", false},
		{"explain dataset", small + " --segment 3h --configs 4 --out " + file("r.csv", "") + " --tiers-out " +
			file("t.json", ""), "causal-dataset", false},
		{"forecast durations train", "--trace sample --to 2017-10-10 --out " + model, "duration-model", false},
		{"forecast durations eval", "--trace sample --model " + model, "duration-evaluation", false},
		{"forecast eval", "--trace sample --from 2017-10-11T10:00:00Z --to 2017-10-11T12:00:00Z --futures 5 " +
			"--methods repeat", "forecast", false},
	} {
		covered[x.command] = true
		if x.slow && testing.Short() {
			continue
		}
		code, out, errs := clitest.Run(append(append(strings.Fields(x.command), strings.Fields(x.args)...),
			"--json")...)
		if code != 0 {
			t.Errorf("%s: exit %d: %s", x.command, code, errs)
			continue
		}
		var got struct{ Schema string }
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Errorf("%s: %v: %.200s", x.command, err, out)
		}
		want := "autosched." + x.schema + "/v1"
		if x.schema == "" {
			want = "causal-graph/v1" // a file of its own, which other commands read
		}
		if got.Schema != want || !regexp.MustCompile(`^\{\s*"schema": "`).MatchString(out) {
			t.Errorf("%s: schema %q, want %q first: %.80s", x.command, got.Schema, want, out)
		}
		checkWidth(t, x.command, append(strings.Fields(x.command), strings.Fields(x.args)...), filepath.Dir(dir))
		if null := regexp.MustCompile(`.*: null\b.*`).FindString(out); null != "" {
			t.Errorf("%s: a list is [] and what there is not is left out: %s", x.command, null)
		}
	}
	clitest.VisitCommands(clitest.NewRoot(), func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "autosched ")
		if !cmd.HasSubCommands() && cmd.Flag("json") != nil && !covered[name] {
			t.Errorf("%s --json: no line in this test", name)
		}
	})
}

// covered are the commands of the test. These need a service with more to show, and print
// the message of config get, or for an emulation its own.
var covered = map[string]bool{"scheduler config watch": true, "scheduler config approve": true, "scheduler config rollback": true,
	"scheduler config reject": true, "scheduler config park": true, "scheduler config unpark": true, "scheduler emulate": true,
	"scheduler rounds show": true, "admin replay": true, "scheduler what-if": true, "scheduler rounds trigger": true, "scheduler operations wait": true,
	"scheduler operations cancel": true, // operate.TestReplay has theirs
	// waste.TestFindingsInTheService
	"scheduler findings show": true, "scheduler findings ack": true, "scheduler findings snooze": true,
	"scheduler findings false-positive": true,
	"scheduler workload generate":       true, // prints the message of workload get
	"scheduler conformance":             true, // adapters.TestConformance
	// operate.TestJobs
	"scheduler job get": true, "scheduler job explain": true, "scheduler timeline": true,
}
