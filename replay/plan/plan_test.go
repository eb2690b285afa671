package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/replay/plan"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// history is of jobs of one GPU that run for an hour: each tenant submits its number of
// them at every full hour, for ten days.
func history(t *testing.T, tenants map[string]int) *workload.Workload {
	t.Helper()
	var jobs []workload.Job
	for _, tenant := range slices.Sorted(maps.Keys(tenants)) {
		for hour := range 240 {
			for k := range tenants[tenant] {
				jobs = append(jobs, workload.Job{ID: fmt.Sprint(tenant, "-", hour, "-", k), Tenant: tenant,
					Submit: time.Duration(hour) * time.Hour, Duration: time.Hour, GPUs: 1000})
			}
		}
	}
	w, err := workload.New("history", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func options(t *testing.T, w *workload.Workload, nodes int, keep ...string) plan.Options {
	t.Helper()
	s, err := schedulers.Find("fifo")
	if err != nil {
		t.Fatal(err)
	}
	o := plan.Options{Trace: w, Cluster: workload.Uniform(nodes, 2), Scheduler: s, Config: s.Space.Default(), Seed: 1}
	for _, text := range keep {
		c, err := round.ParseConstraint(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Keep = append(o.Keep, c)
	}
	return o
}

func run(t *testing.T, o plan.Options) *plan.Report {
	t.Helper()
	r, err := plan.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLeastNodes: 9 jobs begin at every hour and run for an hour, so that five nodes of two
// GPUs are the fewest on which none waits; every draw of days agrees.
func TestLeastNodes(t *testing.T) {
	w := history(t, map[string]int{"a": 9})
	for _, c := range []struct {
		nodes       int
		keep        string
		want        int
		kept, least int // cases
	}{
		{3, "p95_queue<=0", 5, 0, 3},
		{5, "p95_queue<=0", 5, 1, 3},
		{20, "avg_jct<=1*incumbent", 5, 1, 3},
		{20, "tenant_p95_queue<=1m", 5, 1, 3},
		{5, "avg_jct<=30m", 0, 0, 0},
	} {
		r := run(t, options(t, w, c.nodes, c.keep))
		a := r.Answer
		if a == nil || a.Nodes != c.want || a.Low != c.want || a.High != c.want || len(a.Broken) > 0 {
			t.Errorf("%d nodes, %s: %+v, want %d", c.nodes, c.keep, a, c.want)
			continue
		}
		if r.Cases[0].Name != "as it is" || r.Cases[0].Nodes != c.nodes || r.Cases[0].Keeps != (c.kept == 1) {
			t.Errorf("%d nodes, %s: %+v", c.nodes, c.keep, r.Cases[0])
		}
		if c.least > 0 && (r.Cases[c.least].Name != "enough" || !r.Cases[c.least].Keeps) {
			t.Errorf("%d nodes, %s: %+v", c.nodes, c.keep, r.Cases)
		}
		if r.Blocks != 10 || r.Block != "a day" || r.Short {
			t.Errorf("%d blocks of %s", r.Blocks, r.Block)
		}
	}
}

// TestIntervalCoversUnlikeDays: on one day in ten there are twice as many jobs. Draws without
// that day need fewer nodes, and none needs more than the nine on which no job ever waits.
func TestIntervalCoversUnlikeDays(t *testing.T) {
	w := history(t, map[string]int{"a": 9})
	jobs := append([]workload.Job(nil), w.Jobs()...)
	for k := range 24 * 9 {
		jobs = append(jobs, workload.Job{ID: fmt.Sprint("more", k), Submit: time.Duration(48+k%24) * time.Hour,
			Duration: time.Hour, GPUs: 1000, Tenant: "a"})
	}
	w, err := workload.New("history", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	a := run(t, options(t, w, 9, "p95_queue<=1m")).Answer
	if !(a.Low < a.Nodes && a.Nodes <= a.High && a.High == 9) {
		t.Errorf("%+v", a)
	}
}

func TestMovedQuota(t *testing.T) {
	o := options(t, history(t, map[string]int{"a": 2, "b": 6}), 4)
	o.Cluster.VCs = []workload.VC{{Tenant: "a", GPUs: 4}, {Tenant: "b", GPUs: 4}}
	o.Simulate.Quota = simulator.QuotaStrict
	o.Moves = []plan.Move{{From: "a", To: "b", GPUs: 2}, {From: "a", To: "b", GPUs: 4}}
	r := run(t, o)
	moved := r.Cases[3]
	if len(moved.Tenants) != 2 || moved.Tenants[1].Before != 4 || moved.Tenants[1].After != 6 ||
		moved.Tenants[1].Was.Value < 3600 || moved.Tenants[1].Is.Value != 0 || moved.Tenants[0].Is.Value != 0 {
		t.Errorf("%+v", moved)
	}
	if r := r.Cases[4].Refused; !strings.Contains(r, `"a" may hold 0`) {
		t.Errorf("all of a's quota is moved: %q", r)
	}
	if less := r.Cases[1].Refused; !strings.Contains(less, "add up to 8 GPUs") {
		t.Errorf("quotas of more than there is: %q", less)
	}
	for want, m := range map[string]plan.Move{
		`tenant "c" has no quota`: {From: "a", To: "c", GPUs: 1},
		"a has a quota of 4 GPUs": {From: "a", To: "b", GPUs: 5},
	} {
		o.Moves = []plan.Move{m}
		if _, err := plan.Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// TestOneNodeLessThanAJob: a job as wide as the cluster does not fit on less.
func TestOneNodeLessThanAJob(t *testing.T) {
	w, err := workload.New("history", time.Unix(0, 0), []workload.Job{{ID: "wide", GPUs: 6000, Duration: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, options(t, w, 3, "p95_queue<=0"))
	if !strings.Contains(r.Cases[1].Refused, `"wide"`) || r.Answer.Nodes != 3 || !r.Short {
		t.Errorf("%+v, %+v", r.Cases[1], r.Answer)
	}
}

func TestSameSeedSameReport(t *testing.T) {
	w := history(t, map[string]int{"a": 3, "b": 4})
	text := func(seed uint64) string {
		o := options(t, w, 3, "p95_queue<=10m")
		o.Seed = seed
		b, err := json.Marshal(run(t, o))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if first, second := text(1), text(1); first != second {
		t.Error("two runs differ")
	}
}
