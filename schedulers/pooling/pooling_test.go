package pooling_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/pooling"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Two tenants with 4 of 8 GPUs each. A restart takes 10 s.

type job struct {
	tenant                 string
	submit, duration, gpus int // seconds
}

// play returns the times of the jobs, in seconds: start-end, with the number of
// preemptions if there were any.
func play(t *testing.T, o simulator.Options, vcs []workload.VC, set []string, jobs ...job) string {
	t.Helper()
	list := make([]workload.Job, len(jobs))
	for i, j := range jobs {
		list[i] = workload.Job{ID: fmt.Sprint(i), Tenant: j.tenant, Submit: time.Duration(j.submit) * time.Second,
			Duration: time.Duration(j.duration) * time.Second,
			GPUs:     workload.GPUs(j.gpus), Model: "resnet50"}
	}
	w, err := workload.New("test", time.Time{}, list)
	if err != nil {
		t.Fatal(err)
	}
	s, err := space.New(pooling.Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Parse(s.Default(), set)
	if err != nil {
		t.Fatal(err)
	}
	models := *simulator.DefaultModels()
	models.Restart = func(int, int64) time.Duration { return 10 * time.Second }
	o.Models = &models
	var sim simulator.Sim
	if err := sim.Start(workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 8}}, VCs: vcs}, w,
		pooling.New(c), o); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, x := range sim.Outcomes(nil) {
		line := fmt.Sprintf("%g-%g", x.Start.Seconds(), x.End.Seconds())
		if x.Preemptions > 0 {
			line += fmt.Sprintf("!%d", x.Preemptions)
		}
		out = append(out, line)
	}
	return strings.Join(out, " ")
}

var (
	halves  = []workload.VC{{Tenant: "a", GPUs: 4}, {Tenant: "b", GPUs: 4}}
	borrows = simulator.Options{Quota: simulator.QuotaBorrow}
)

func TestLendAndReclaim(t *testing.T) {
	// a borrows b's quota for its second job; b comes at 100.
	jobs := []job{{"a", 0, 1000, 4}, {"a", 0, 1000, 4}, {"b", 100, 500, 4}}
	for set, want := range map[string]string{
		// After 60 s of grace job 1 stops, with 160 s done. b has the GPUs until 660,
		// then job 1 does the other 840 after a restart.
		"grace=60": "0-1000 0-1510!1 160-660",
		"grace=0":  "0-1000 0-1510!1 100-600",
		// A grace longer than the jobs: b waits for a's end.
		"grace=7200": "0-1000 0-1000 1000-1500",
		// Nothing lent: job 1 waits for job 0.
		"lend=0":      "0-1000 1000-2000 100-600",
		"guarantee=1": "0-1000 1000-2000 100-600",
	} {
		if got := play(t, borrows, halves, []string{set}, jobs...); got != want {
			t.Errorf("%s: %s, want %s", set, got, want)
		}
	}
	// Strict quotas lend nothing; without quotas it is first come, first served.
	if got := play(t, simulator.Options{Quota: simulator.QuotaStrict}, halves, []string{"grace=0"},
		jobs...); got != "0-1000 1000-2000 100-600" {
		t.Errorf("strict: %s", got)
	}
	if got := play(t, simulator.Options{}, halves, []string{"grace=0"}, jobs...); got != "0-1000 0-1000 1000-1500" {
		t.Errorf("off: %s", got)
	}
}

// TestProtectedBorrowers: a job that may not be stopped yet is stopped when it may.
func TestProtectedBorrowers(t *testing.T) {
	o := borrows
	o.Protect.MinRun = 5 * time.Minute
	jobs := []job{{"a", 0, 1000, 4}, {"a", 0, 1000, 4}, {"b", 100, 500, 4}}
	// Job 1 is stopped at 300 with 700 s to do, and goes on at 800.
	if got, want := play(t, o, halves, []string{"grace=0"}, jobs...), "0-1000 0-1510!1 300-800"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestPartsAreLent: of 4 idle GPUs half are lent; a guarantee of a quarter keeps
// one, and half of the other three is one.
func TestPartsAreLent(t *testing.T) {
	jobs := []job{{"a", 0, 100, 4}, {"a", 0, 100, 1}, {"a", 0, 100, 1}, {"a", 0, 100, 1}}
	for set, want := range map[string]string{
		"lend=0.5":                "0-100 0-100 0-100 100-200",
		"lend=0.5 guarantee=0.25": "0-100 0-100 100-200 100-200",
		"guarantee=0.25":          "0-100 0-100 0-100 0-100",
	} {
		if got := play(t, borrows, halves, strings.Fields(set), jobs...); got != want {
			t.Errorf("%s: %s, want %s", set, got, want)
		}
	}
	// A gang of 6 is wider than a could hold with half of b's idle GPUs: it may
	// borrow all it needs, or it would never run.
	if got := play(t, borrows, halves, []string{"lend=0.25"}, job{"b", 0, 50, 4},
		job{"a", 0, 100, 6}); got != "0-50 50-150" {
		t.Errorf("a wide job: %s", got)
	}
}

// TestWeightsDivide: 4 GPUs are in no quota. By weights of 3 and 1, a has three
// of them before b has its second, whatever the order of submission.
func TestWeightsDivide(t *testing.T) {
	vcs := []workload.VC{{Tenant: "a", GPUs: 2, Weight: 3}, {Tenant: "b", GPUs: 2, Weight: 1}}
	jobs := []job{{"b", 0, 100, 2}, {"b", 0, 100, 1}, {"b", 0, 100, 1}, {"b", 0, 100, 1}, {"a", 0, 100, 2},
		{"a", 0, 100, 1}, {"a", 0, 100, 1}, {"a", 0, 100, 1}, {"a", 0, 100, 1}}
	for set, want := range map[string]string{
		"weights=declared": "0-100 0-100 100-200 100-200 0-100 0-100 0-100 0-100 100-200",
		"weights=equal":    "0-100 0-100 0-100 100-200 0-100 0-100 0-100 100-200 100-200",
		"weights=quota":    "0-100 0-100 0-100 100-200 0-100 0-100 0-100 100-200 100-200",
	} {
		if got := play(t, borrows, vcs, []string{set}, jobs...); got != want {
			t.Errorf("%s: %s, want %s", set, got, want)
		}
	}
}

// TestVictims: of the borrowers, the tenant that borrows most for its weight
// gives back first, its job started last first.
func TestVictims(t *testing.T) {
	vcs := []workload.VC{{Tenant: "a", GPUs: 1}, {Tenant: "b", GPUs: 1}, {Tenant: "c", GPUs: 6}}
	jobs := []job{{"a", 0, 1000, 1}, {"b", 0, 1000, 1}, {"b", 5, 1000, 1}, {"a", 10, 1000, 1}, {"a", 20, 1000, 1},
		{"a", 30, 1000, 1}, {"c", 100, 500, 3}}
	// c needs 1 beside the 2 that are free: a borrows 3, b 1. Job 5, started at 30,
	// has done 70 s; it goes on at 600 when c ends.
	want := "0-1000 0-1000 5-1005 10-1010 20-1020 30-1540!1 100-600"
	if got := play(t, borrows, vcs, []string{"grace=0"}, jobs...); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestBlockingHead: without backfilling a tenant's head blocks its own jobs, not
// another tenant's.
func TestBlockingHead(t *testing.T) {
	jobs := []job{{"a", 0, 100, 3}, {"a", 0, 100, 4}, {"a", 0, 100, 1}, {"b", 0, 100, 4}}
	for set, want := range map[string]string{"backfill=false": "0-100 100-200 100-200 0-100",
		"backfill=true": "0-100 100-200 0-100 0-100"} {
		if got := play(t, borrows, halves, []string{set}, jobs...); got != want {
			t.Errorf("%s: %s, want %s", set, got, want)
		}
	}
}

// TestForksPlanAtTheSameInstants: where exchanges count GPUs only, each plan stops the borrower for the
// first job, which waits for nodes. A fork has no plan for the job behind it, nor a run one for a job that
// has started.
func TestForksPlanAtTheSameInstants(t *testing.T) {
	var list []workload.Job
	for i, j := range []struct {
		job
		on string
	}{
		{job{"c", 0, 1000, 1}, "A100"}, {job{"c", 0, 90, 1}, "A100"}, {job{"b", 0, 2000, 1}, "V100"},
		{job{"a", 5, 100, 2}, "A100"}, {job{"a", 40, 100, 2}, "A100"}, {job{"a", 66, 210, 1}, "A100"},
	} {
		list = append(list, workload.Job{ID: fmt.Sprint(i), Tenant: j.tenant,
			Submit: time.Duration(j.submit) * time.Second, Duration: time.Duration(j.duration) * time.Second,
			GPUs: workload.GPUs(j.gpus), Model: "resnet50", Requested: workload.Request{GPUModel: j.on}.Shared()})
	}
	w, err := workload.New("test", time.Time{}, list)
	if err != nil {
		t.Fatal(err)
	}
	s, err := space.New(pooling.Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Parse(s.Default(), []string{"grace=60", "lend=0"})
	if err != nil {
		t.Fatal(err)
	}
	cluster := workload.Cluster{VCs: []workload.VC{{Tenant: "a", GPUs: 3}, {Tenant: "c", GPUs: 2}},
		Groups: []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 4, GPUModel: "V100"},
			{Nodes: 1, GPUsPerNode: 2, GPUModel: "A100"}}}
	o := borrows
	o.Peer.QuotaOnly = true
	finish := func(sim *simulator.Sim) string {
		if err := sim.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v", sim.Outcomes(nil))
	}
	var run, fork simulator.Sim
	if err := run.Start(cluster, w, pooling.New(c), o); err != nil {
		t.Fatal(err)
	}
	forks := make([]string, 350)
	for at := range forks {
		if err := run.RunUntil(context.Background(), time.Duration(at)*time.Second); err != nil {
			t.Fatal(err)
		}
		run.Fork(&fork, pooling.New(c))
		forks[at] = finish(&fork)
	}
	want := finish(&run)
	// When the grace time of the first is over, as the last job comes, and as it starts and ends.
	if got := run.Outcomes(nil)[2].Preemptions; got != 4 {
		t.Errorf("the borrower is stopped %d times, want 4", got)
	}
	for at, got := range forks {
		if got != want {
			t.Fatalf("a fork at %d s: %s\nthe run: %s", at, got, want)
		}
	}
}
