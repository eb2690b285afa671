package round

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// book is a ledger that jobs are entered into.
type book struct {
	*workload.Ledger
	t      *testing.T
	events int
}

func newBook(t *testing.T, c workload.Cluster) *book {
	return &book{Ledger: workload.NewLedger(c), t: t}
}

func (b *book) apply(e workload.Event) {
	b.t.Helper()
	b.events++
	e.ID = fmt.Sprint(b.events)
	if err := e.Validate(); err != nil {
		b.t.Fatal(err)
	}
	b.Apply(e)
}

// job enters a job that starts at once; it has not ended if takes is 0.
func (b *book) job(id, tenant string, submit, takes time.Duration, gpus int) {
	b.t.Helper()
	b.apply(workload.Event{Kind: workload.Submitted, Time: submit,
		Job: workload.Job{ID: id, Tenant: tenant, GPUs: workload.GPUs(gpus), Deadline: submit + 99*time.Hour}})
	b.apply(workload.Event{Kind: workload.Started, Time: submit, Job: workload.Job{ID: id}})
	if takes > 0 {
		b.apply(workload.Event{Kind: workload.Finished, Time: submit + takes,
			Job: workload.Job{ID: id, Status: workload.Completed}})
	}
}

func (b *book) snapshot(at time.Duration) *Snapshot {
	return &Snapshot{State: b.State(at), Ledger: b.Ledger, Zero: time.Unix(0, 0)}
}

// numbered returns the configurations of a space of one number, whose default is 0.
func numbered(t *testing.T) func(n int) space.Config {
	t.Helper()
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(n int) space.Config { return sp.Default().With("n", space.Int(n)) }
}

// line is a scheduler of one parameter: jobs run in order of submission if it is 0, the
// last first otherwise.
func line(t *testing.T) (s *schedulers.Scheduler, first, last space.Config) {
	t.Helper()
	at := numbered(t)
	return &schedulers.Scheduler{Name: "line", Space: at(0).Space(), New: func(c space.Config) simulator.Policy {
		sign := int64(1)
		if !c.Equal(c.Space().Default()) {
			sign = -1
		}
		return &lanes.Line{Key: func(_ *simulator.View, j simulator.ID) int64 { return sign * int64(j) }}
	}}, at(0), at(1)
}

// oneGPU are jobs of one GPU on a cluster of one.
type oneGPU []workload.Job

// add appends n jobs, each a second after the other from an instant on.
func (jobs *oneGPU) add(n int, tenant string, from, takes time.Duration) {
	for range n {
		from += time.Second
		*jobs = append(*jobs, workload.Job{ID: fmt.Sprint(len(*jobs)), Tenant: tenant, Submit: from, Duration: takes,
			GPUs: workload.GPUs(1)})
	}
}

func (jobs oneGPU) scenario(t *testing.T) Scenario {
	t.Helper()
	w, err := workload.New("one GPU", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return Scenario{Arrivals: w}
}

// TestGuardsOnFutures: a configuration that makes a guarded time worse breaks the guard, whatever it gains, and probes
// count for nothing else.
func TestGuardsOnFutures(t *testing.T) {
	s, first, last := line(t)
	p := Problem{Scheduler: s, Space: s.Space, Cluster: workload.Uniform(1, 1), Incumbent: first, Goal: Minimise("avg_jct")}
	var jobs oneGPU
	jobs.add(9, "", 0, 5*time.Minute)
	jobs.add(1, "", time.Minute, 30*time.Hour) // under last, it keeps the short ones waiting
	x := jobs.scenario(t)
	for _, tt := range []struct {
		share float64
		c     space.Config
		want  string
	}{{.1, first, ""}, {.1, last, "mean JCT of jobs of less than 10 minutes"}, {1e9, last, ""}} {
		g, err := p.guards(t.Context(), tt.share, []Scenario{x}, time.Hour, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.broken(t.Context(), tt.c)
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(got, func(b Broken) bool { return b.What == tt.want && b.After > b.Before })
		if found != (tt.want != "") || !found && len(got) > 0 {
			t.Errorf("%v with a share of %v: %v, want %q", tt.c, tt.share, got, tt.want)
		}
		if n := g.scorer.scenarios[0].Arrivals.Len(); n != len(jobs)+1 {
			t.Errorf("%d jobs with probes, of %d", n, len(jobs))
		}
	}
}

func TestLogRatio(t *testing.T) {
	for _, tt := range []struct{ a, b, want float64 }{
		{2, 1, math.Ln2}, {1, 2, -math.Ln2}, {3, 3, 0},
		{0, 0, 0}, {0, 1, -failed}, {1, 0, failed}, {-1, 1, -failed}, {1, -1, failed}, {-1, -2, 0},
		{1e9, 1, failed}, {1, 1e9, -failed},
	} {
		if got := logRatio(tt.a, tt.b); got != tt.want {
			t.Errorf("of %v and %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// TestShortJobs: short_avg_jct is over the jobs that run for less than ten minutes in all, their
// time before the round included.
func TestShortJobs(t *testing.T) {
	s, first, _ := line(t)
	measure := func(x Scenario) (float64, float64) {
		t.Helper()
		sc, err := NewScorer(&Problem{Scheduler: s, Cluster: workload.Uniform(1, 1), Goal: Minimise("short_avg_jct")},
			[]Scenario{x})
		if err != nil {
			t.Fatal(err)
		}
		m, err := sc.Measure(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		return m.Values[0], m.Floors[0]
	}
	var jobs oneGPU
	jobs.add(1, "", 0, 10*time.Minute-time.Second) // ends at 600 s, its JCT is 599 s
	jobs.add(1, "", 1*time.Second, 10*time.Minute) // to 1200 s, not short
	jobs.add(1, "", 99*time.Second, time.Minute)   // from 100 to 1260 s
	if got, floor := measure(jobs.scenario(t)); !near(got, (599+1160)/2.) || !near(floor, (599+60)/2.) {
		t.Errorf("%v with floor %v, want 879.5 with 329.5", got, floor)
	}
	if got, _ := measure(oneGPU{{ID: "long", Duration: time.Hour, GPUs: workload.GPUs(1)}}.scenario(t)); got != 0 {
		t.Errorf("no job is short: %v", got)
	}
	// Two jobs of which one minute is left: one has run for five minutes, one for ten.
	active := func(id string, running bool, ran time.Duration) workload.ActiveJob {
		a := workload.ActiveJob{Job: workload.Job{ID: id, GPUs: workload.GPUs(1)}, Running: running, RunTime: ran,
			Attained: ran, Starts: 1, WaitTime: time.Hour - ran}
		if running {
			a.Held, a.Since = 1, time.Hour-ran
		} else {
			a.Since, a.Preemptions = time.Hour, 1
		}
		return a
	}
	state := workload.State{At: time.Hour, Cluster: workload.Uniform(1, 1), Jobs: []workload.ActiveJob{
		active("short", true, 5*time.Minute), active("long", false, 10*time.Minute)}}
	if got, _ := measure(Scenario{State: &state, Left: []time.Duration{time.Minute, time.Minute}}); !near(got, 3660) {
		t.Errorf("resumed: %v, want 3660", got)
	}
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }
