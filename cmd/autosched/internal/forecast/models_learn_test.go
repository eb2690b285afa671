package forecast

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/calibrate"
	"github.com/autosched/autosched/workload"
)

// TestModelsLearnFromService reads the events that a service stored.
func TestModelsLearnFromService(t *testing.T) {
	dir := t.TempDir()
	r, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var events []workload.Event
	tell := func(id string, kind workload.EventKind, at time.Duration) {
		e := workload.Event{ID: fmt.Sprintf("%09d", len(events)), Kind: kind, Time: at, Job: workload.Job{ID: id}}
		switch kind {
		case workload.Submitted:
			e.Job.Key, e.Job.GPUs = "k", workload.GPUs(1)
		case workload.Started, workload.Resumed:
			e.Placement = workload.Shares([]workload.NodeGPUs{{Node: 0, GPUs: 1}})
		}
		events = append(events, e)
	}
	for i := range 10 {
		at := time.Duration(i) * 1000 * time.Second
		plain, stopped := fmt.Sprint("plain", i), fmt.Sprint("stopped", i)
		tell(plain, workload.Submitted, at)
		tell(plain, workload.Started, at)
		tell(stopped, workload.Submitted, at)
		tell(stopped, workload.Started, at)
		tell(stopped, workload.Preempted, at+10*time.Second)
		tell(stopped, workload.Resumed, at+50*time.Second)
		tell(plain, workload.Finished, at+100*time.Second)
		tell(stopped, workload.Finished, at+165*time.Second) // held 10 + 115 s
	}
	if err := r.AppendEvents(context.Background(), "s", events); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "m.json")
	code, text, errs := clitest.Run("forecast", "models", "learn", "--runs", dir, "--out", out)
	if code != 0 || !strings.Contains(text, "restart from 1 GPUs on (s): 25, from 10 of 20 runs") {
		t.Fatalf("exit %d: %s%s", code, text, errs)
	}
	if code, _, errs := clitest.Run("forecast", "models", "learn", "--runs", t.TempDir(), "--out",
		out); code != 1 ||
		!strings.Contains(errs, "no events") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestModelsLearnCountsWhatItLeavesOut, each run once.
func TestModelsLearnCountsWhatItLeavesOut(t *testing.T) {
	dir := t.TempDir()
	text := "key,model,gpus,held_s,preemptions,strayed\n" +
		strings.Repeat("k,,1,100,0,false\n", 5) + strings.Repeat("k,,1,130,1,false\n", 9) + // learnt from
		strings.Repeat(",,1,100,2,true\n", 4) + strings.Repeat("k,,1,100,2,true\n", 2) + "k,,1,100,1,true\n" +
		strings.Repeat("k,,1,100,3,false\n", 2) +
		strings.Repeat("k,,1,150,0,true\n", 20) + strings.Repeat("rare,,1,130,1,false\n", 30) + "k,,1,0,0,false\n" +
		strings.Repeat("k,vgg16,1,150,0,true\n", 7)
	runs := filepath.Join(dir, "runs.csv")
	if err := os.WriteFile(runs, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := clitest.Run("forecast", "models", "learn", "--runs", runs, "--out",
		filepath.Join(dir, "m.json"))
	if want := "from 9 of 81 runs\n" +
		"left out: 4 without a key, 3 stopped and spread, 2 stopped more than once, 20 spread without a model, 1 " +
		"without time on GPUs, " +
		"30 of keys with fewer than 3 undisturbed, 7 of fewer than the 8 of an estimate\n"; code != 0 ||
		!strings.HasSuffix(out, want) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, _ = clitest.Run("forecast", "models", "learn", "--runs", runs, "--out",
		filepath.Join(dir, "m.json"),
		"--json")
	var got struct {
		LeftOut calibrate.LeftOut `json:"left_out"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 ||
		got.LeftOut != (calibrate.LeftOut{NoKey: 4, Both: 3, Restarted: 2, NoModel: 20, NoTime: 1, FewPlain: 30,
			FewDisturbed: 7}) {
		t.Errorf("exit %d, %+v, %v", code, got, err)
	}
	if err := os.WriteFile(runs,
		[]byte("key,model,gpus,held_s,preemptions,strayed\n"+strings.Repeat(",,1,100,1,false\n", 9)),
		0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs = clitest.Run("forecast", "models", "learn", "--runs", runs, "--out",
		filepath.Join(dir, "none.json"))
	if code != 1 || !strings.Contains(errs, "nothing to learn from 9 runs: ") ||
		!strings.Contains(errs, "left out: 9 without a key\n") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestModelsLearnRoundTrip: on a cluster where restarts and spreading have other costs than in the built-in models,
// both are learnt from the outcomes of recurring jobs, and a simulation with the learnt models comes close to that
// cluster.
func TestModelsLearnRoundTrip(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	var trace strings.Builder
	trace.WriteString("job_id,submit_time,duration_s,gpus,key,model\n")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3000 {
		key := i * 7 % 24
		gpus := []int{1, 2, 4, 6}[key%4]
		at = at.Add(time.Duration(150+i*37%400) * time.Second)
		fmt.Fprintf(&trace, "j%04d,%s,%d,%d,k%d,%s\n",
			i, at.Format(time.RFC3339), 1500+key*150, gpus, key, []string{"vgg16", "resnet50"}[key/4%2])
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	jobs := write("trace.csv", trace.String())
	code, text, errs := clitest.Run("forecast", "models", "show")
	if code != 0 {
		t.Fatal(errs)
	}
	spec, err := simulator.ReadModels(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := range spec.Restart.Steps {
		spec.Restart.Steps[i].Seconds = 200
	}
	for i := range spec.Classes.List {
		spec.Classes.List[i].Slowdown, spec.Classes.List[i].On = 1.6, nil
	}
	var truth strings.Builder
	if err := spec.Write(&truth); err != nil {
		t.Fatal(err)
	}
	play := func(more ...string) float64 {
		t.Helper()
		code, text, errs := clitest.Run(append([]string{"simulate", "--trace", jobs, "--nodes", "4", "--scheduler",
			"tiresias", "--set", "pack_limit=0.2", "--json"}, more...)...)
		var r struct {
			AvgJCT float64 `json:"avg_jct_s"`
		}
		if code != 0 || json.Unmarshal([]byte(text), &r) != nil {
			t.Fatal(errs)
		}
		return r.AvgJCT
	}
	done, learnt := filepath.Join(dir, "done.csv"), filepath.Join(dir, "learnt.json")
	real := play("--models", write("truth.json", truth.String()), "--jobs-out", done)
	code, text, errs = clitest.Run("forecast", "models", "learn", "--runs", done, "--out", learnt, "--json")
	var got struct{ Learned []calibrate.Estimate }
	if code != 0 || json.Unmarshal([]byte(text), &got) != nil {
		t.Fatalf("exit %d: %s", code, errs)
	}
	restarts, slowdowns := 0, 0
	for _, l := range got.Learned {
		want := 1.6
		if strings.HasPrefix(l.What, "restart") {
			want = 200
			restarts++
		} else {
			slowdowns++
		}
		if math.Abs(l.Value-want) > .01*want {
			t.Errorf("%s: %g, want %g", l.What, l.Value, want)
		}
	}
	if restarts < 2 || slowdowns < 1 {
		t.Errorf("learnt %+v", got.Learned)
	}
	built, again := play(), play("--models", learnt)
	if math.Abs(again-real) > .2*math.Abs(built-real) {
		t.Errorf("JCT %g with what was learnt, %g in truth, %g as built in", again, real, built)
	}
}

// TestModelsLearnPairs: the speeds of measured pairs make a models file, which is the built-in set of that GPU.
func TestModelsLearnPairs(t *testing.T) {
	single := testshared.Path(t, "traces", "telemetry", "h100", "single.csv")
	pairs := testshared.Path(t, "traces", "telemetry", "h100", "pairs.csv")
	out := filepath.Join(t.TempDir(), "m.json")
	code, text, errs := clitest.Run("forecast", "models", "learn", "--single", single, "--pairs", pairs, "--out", out)
	if code != 0 || !strings.Contains(text, "pairs of 6 loads; of others: 1.1 - 0.533 x SM use - 0.355 x SM use x") {
		t.Fatalf("exit %d: %s%s", code, text, errs)
	}
	table := func(models string) string {
		code, text, errs := clitest.Run("forecast", "models", "show", "--models", models)
		if code != 0 {
			t.Fatal(errs)
		}
		spec, err := simulator.ReadModels(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		spec.Pairs.Source = "" // names of files
		sharing, err := json.Marshal(spec.Pairs)
		if err != nil {
			t.Fatal(err)
		}
		return string(sharing)
	}
	if got := table(out); got != table("h100") || !strings.Contains(got, "resnet18-cifar") {
		t.Errorf("%s\nwant\n%s", got, table("h100"))
	}
	restarts := testshared.Path(t, "traces", "telemetry", "h100", "restart.csv")
	code, text, errs = clitest.Run("forecast", "models", "learn", "--restarts", restarts, "--out", out)
	if code != 0 || !strings.Contains(text, "restarts: 8.75 s and 3.07 s for each GB of state") {
		t.Errorf("exit %d: %s%s", code, text, errs)
	}
	for _, c := range []struct{ args, want string }{
		{"--restarts nope.csv", "--restarts: open nope.csv"},
		{"--pairs x.csv", "--single and --pairs go together"},
		{"--single nope.csv --pairs nope.csv", "nope.csv"},
		{"", "--runs is missing"},
	} {
		args := append([]string{"forecast", "models", "learn", "--out", out}, strings.Fields(c.args)...)
		if code, _, errs := clitest.Run(args...); code == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d: %s", c.args, code, errs)
		}
	}
}
