package round

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
)

// TestFloorsBoundValues: of every metric, no configuration of a scheduler is below the
// floor that another one is measured with, and all have the same floors. A gain on the
// controllable part means nothing otherwise.
func TestFloorsBoundValues(t *testing.T) {
	testshared.Full(t)
	hours, configs := []int{8, 11, 15}, 6
	for _, s := range schedulers.All {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for i, hour := range hours {
				r := rand.New(rand.NewPCG(uint64(hour), 1))
				x := floorScenarios(t, s, r, uint64(i+1), time.Duration(hour)*time.Hour)
				candidates := []space.Config{s.Space.Default()}
				for _, p := range s.Presets {
					candidates = append(candidates, p.Config)
				}
				for range configs {
					candidates = append(candidates, randomConfig(r, s.Space))
				}
				checkFloors(t, fmt.Sprintf("hour %d", hour), s, x, candidates)
			}
		})
	}
}

// floorScenarios are three that begin at an instant of a random workload under a random
// configuration: on from there, the same without the arrivals, and all of the workload
// from the start. Some jobs have deadlines, early and late ones.
func floorScenarios(t *testing.T, s *schedulers.Scheduler, r *rand.Rand, seed uint64, at time.Duration) []Scenario {
	t.Helper()
	c := workload.Uniform(3, 8)
	w, err := synth.Generate(t.Context(), synth.Options{Days: 1, Load: 1 + 1.5*r.Float64(), Cluster: c,
		MaxDuration: 6 * time.Hour,
		Seed:        seed})
	if err != nil {
		t.Fatal(err)
	}
	jobs := slices.Clone(w.Jobs())
	for i := range jobs {
		if r.IntN(3) == 0 {
			jobs[i].Deadline = jobs[i].Submit + 1 + time.Duration(3*r.Float64()*float64(jobs[i].Duration))
		}
	}
	if w, err = workload.New("random", w.Zero(), jobs); err != nil {
		t.Fatal(err)
	}
	cluster, ledger := live.Cluster{}, workload.NewLedger(c)
	cluster.Send = func(e workload.Event) { ledger.Apply(e) }
	if err := cluster.Sim.Start(c, w, s.New(randomConfig(r, s.Space)),
		simulator.Options{Observer: cluster.Observe}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Sim.RunUntil(context.Background(), at); err != nil {
		t.Fatal(err)
	}
	state := ledger.State(at)
	if len(state.Jobs) == 0 {
		t.Fatalf("no job is active at %v", at)
	}
	ids := map[string]simulator.ID{}
	for i := range jobs {
		ids[jobs[i].ID] = simulator.ID(i)
	}
	var left []time.Duration
	for i := range state.Jobs {
		left = append(left, cluster.Sim.JobLeft(ids[state.Jobs[i].ID]))
	}
	from := slices.IndexFunc(jobs, func(j workload.Job) bool { return j.Submit > at })
	later, err := workload.New("later", w.Zero(), jobs[from:])
	if err != nil {
		t.Fatal(err)
	}
	return []Scenario{{State: &state, Left: left, Arrivals: later}, {State: &state, Left: left}, {Arrivals: w}}
}

// checkFloors measures every metric that can be an objective.
func checkFloors(t *testing.T, what string, s *schedulers.Scheduler, x []Scenario, candidates []space.Config) {
	t.Helper()
	p := &Problem{Scheduler: s, Cluster: x[0].State.Cluster, Goal: Minimise(Metrics()[0])}
	p.Options.Meter = tariff{before: 1, after: 1}
	scorer, err := NewScorer(p, x)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Metrics() {
		if !metrics[name].tenants {
			if err := scorer.Add(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	var first []search.Metric
	for _, c := range candidates {
		m, err := scorer.Measure(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if m.Exhausted {
			continue
		}
		if first == nil {
			first = m.Secondary
		}
		for i, metric := range m.Secondary {
			for k, v := range metric.Values {
				floor := first[i].Floors[k]
				if !(floor >= 0 && floor <= v) || math.IsInf(v, 0) {
					t.Errorf("%s, scenario %d, %v: %s is %v, the floor %v", what, k, c, metric.Name, v, floor)
				}
				if metric.Floors[k] != floor {
					t.Errorf("%s, scenario %d, %v: the floor of %s is %v, of another configuration %v",
						what, k, c, metric.Name, metric.Floors[k], floor)
				}
			}
		}
	}
	if first == nil {
		t.Fatal("every configuration ran out of events")
	}
}

// TestFloorOfElasticJobs: on sixteen times the GPUs that it asks for, or on all that
// there are, a job takes its run time over its speedup. One that was observed on more
// GPUs than a policy would give it may keep them.
func TestFloorOfElasticJobs(t *testing.T) {
	const speedOn16, speedOn8 = 10.89, 3.63 + 4./12*(10.89-3.63) // of resnet50
	one := workload.Job{ID: "one", GPUs: workload.GPUs(1), Model: "resnet50"}
	wide := one
	wide.GPUs = workload.GPUs(8)
	state := func(c workload.Cluster, job workload.Job, held int) *workload.State {
		a := workload.ActiveJob{Job: job, RunTime: time.Hour, Attained: time.Hour}
		if held > 0 {
			a.Running, a.Starts, a.Held = true, 1, held
			a.Placement = []workload.NodeGPUs{{Node: 0, GPUs: held}}
		}
		return &workload.State{At: time.Hour, Cluster: c, Jobs: []workload.ActiveJob{a}}
	}
	for _, tt := range []struct {
		name, scheduler string
		state           *workload.State
		want            float64 // hours to go
	}{
		{"rigid", "tiresias", state(workload.Uniform(4, 8), one, 0), 1},
		{"rigid, observed on 8", "tiresias", state(workload.Uniform(4, 8), one, 8), 1 / speedOn8},
		{"elastic", "optimus", state(workload.Uniform(4, 8), one, 0), 1 / speedOn16},
		{"elastic, of all GPUs", "pollux", state(workload.Uniform(2, 8), wide, 0), speedOn8 / speedOn16},
		{"elastic, on its own number", "pollux", state(workload.Uniform(1, 8), wide, 8), 1},
	} {
		s, err := schedulers.Find(tt.scheduler)
		if err != nil {
			t.Fatal(err)
		}
		x := Scenario{State: tt.state, Left: []time.Duration{time.Hour}}
		scorer, err := NewScorer(&Problem{Scheduler: s, Cluster: tt.state.Cluster, Goal: Minimise("avg_jct")},
			[]Scenario{x})
		if err != nil {
			t.Fatal(err)
		}
		m, err := scorer.Measure(context.Background(), s.Space.Default())
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Floors[0]/3600 - 1; math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: a floor of %v h from now on, want %v", tt.name, got, tt.want)
		}
	}
}
