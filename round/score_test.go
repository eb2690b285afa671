package round

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
)

// observed is a busy cluster under Tiresias at an instant: its ledger, and the
// simulation, which has the true durations.
type observed struct {
	live.Cluster
	w         *workload.Workload
	ledger    *workload.Ledger
	state     workload.State
	scheduler *schedulers.Scheduler
}

func observe(t testing.TB, at time.Duration, o simulator.Options) *observed {
	t.Helper()
	c := workload.Uniform(3, 8)
	w, err := synth.Generate(t.Context(), synth.Options{Days: 1, Load: 2, Cluster: c, MaxDuration: 6 * time.Hour,
		Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	x := &observed{w: w, ledger: workload.NewLedger(c)}
	if x.scheduler, err = schedulers.Find("tiresias"); err != nil {
		t.Fatal(err)
	}
	x.Send = func(e workload.Event) {
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		x.ledger.Apply(e)
	}
	o.Observer = x.Observe
	if err := x.Sim.Start(c, w, x.scheduler.New(x.scheduler.Space.Default()), o); err != nil {
		t.Fatal(err)
	}
	if err := x.Sim.RunUntil(context.Background(), at); err != nil {
		t.Fatal(err)
	}
	x.state = x.ledger.State(at)
	if len(x.state.Jobs) < 20 {
		t.Fatalf("only %d active jobs: nothing is contended", len(x.state.Jobs))
	}
	return x
}

func (x *observed) snapshot() Snapshot {
	return Snapshot{State: x.state, Ledger: x.ledger, Zero: x.w.Zero()}
}

func (x *observed) problem(metric string) Problem {
	s := x.scheduler
	return Problem{Scheduler: s, Space: s.Space, Cluster: x.state.Cluster, Goal: Minimise(metric),
		Incumbent: s.Space.Default()}
}

func (x *observed) futures(t testing.TB, count int) []Scenario {
	t.Helper()
	now := x.snapshot()
	s, err := now.Forecast(context.Background(), nil, 2*time.Hour, count, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func randomConfig(r *rand.Rand, s *space.Space) space.Config {
	x := make([]float64, s.Dims())
	for i := range x {
		x[i] = r.Float64()
	}
	return s.Decode(x)
}

// TestScorerMeasuresEveryJob: the objective is over the jobs active at the
// instant and those that arrive, all of them simulated to their end.
func TestScorerMeasuresEveryJob(t *testing.T) {
	testshared.Full(t)
	x := observe(t, 14*time.Hour, simulator.Options{})
	scenarios := x.futures(t, 2)
	config := x.scheduler.Presets[0].Config
	for _, objective := range Objectives {
		scorer, err := NewScorer(&Problem{Scheduler: x.scheduler, Cluster: x.state.Cluster, Goal: Minimise(objective)},
			scenarios)
		if err != nil {
			t.Fatal(err)
		}
		m, err := scorer.Measure(context.Background(), config)
		if err != nil {
			t.Fatal(err)
		}
		for k, s := range scenarios {
			var sim simulator.Sim
			if err := sim.Resume(s.State, s.Left, s.Arrivals, x.scheduler.New(config),
				simulator.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := sim.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			sum := sim.Summarize()
			if sum.Jobs != len(s.State.Jobs)+s.Arrivals.Len() {
				t.Errorf("%d jobs ended of %d active and %d to come", sum.Jobs, len(s.State.Jobs), s.Arrivals.Len())
			}
			want := map[string]float64{"avg_jct": sum.AvgJCT, "p50_jct": sum.P50JCT, "p95_jct": sum.P95JCT,
				"p99_jct": sum.P99JCT,
				"ftf":     unfairShare(&sim), "p95_rho": sum.P95Rho, "max_rho": sum.MaxRho}[objective]
			if m.Values[k] != want {
				t.Errorf("%s on future %d: %v, want %v", objective, k, m.Values[k], want)
			}
		}
	}
}

// TestScorerIsConcurrent: concurrent measurements equal sequential ones.
func TestScorerIsConcurrent(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	problem := x.problem("avg_jct")
	scorer, err := NewScorer(&problem, x.futures(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(2, 2))
	configs := make([]space.Config, 12)
	alone := make([]search.Measurement, len(configs))
	for i := range configs {
		configs[i] = randomConfig(r, x.scheduler.Space)
		if alone[i], err = scorer.Measure(context.Background(), configs[i]); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for i := range configs {
		group.Go(func() {
			got, err := scorer.Measure(context.Background(), configs[i])
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(alone[i], got); diff != "" {
				t.Errorf("%v (-alone +together):\n%s", configs[i], diff)
			}
		})
	}
	group.Wait()
}

// TestLivelockIsExhausted: thresholds below the restart cost with a short starve
// limit are no error, but a measurement that cannot win.
func TestLivelockIsExhausted(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	config, err := x.scheduler.Space.Parse(x.scheduler.Space.Default(),
		[]string{"queues=2", "queue_thresholds=60", "starve_limit=300", "order=submit"})
	if err != nil {
		t.Fatal(err)
	}
	problem := x.problem("avg_jct")
	scorer, err := NewScorer(&problem, x.futures(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	m, err := scorer.Measure(context.Background(), config)
	if err != nil || !m.Exhausted {
		t.Errorf("exhausted: %v, error %v", m.Exhausted, err)
	}
	if (search.Trial{Measurement: m}).OK() {
		t.Error("it could win")
	}
}

func TestNewScorerRefuses(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	c := x.state.Cluster
	some := x.futures(t, 1)
	unknown, problem := x.problem("throughput"), x.problem("avg_jct")
	if _, err := NewScorer(&unknown, some); err == nil || !strings.Contains(err.Error(), "avg_jct") {
		t.Errorf("an objective there is not: %v", err)
	}
	empty := Scenario{State: &workload.State{Cluster: c}}
	if _, err := NewScorer(&problem, []Scenario{empty, {}}); !errors.Is(err, errNothing) {
		t.Errorf("nothing to play on: %v", err)
	}
	scorer, err := NewScorer(&problem, []Scenario{empty, some[0], {Arrivals: some[0].Arrivals}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := scorer.Measure(context.Background(), x.scheduler.Space.Default())
	if err != nil || len(m.Values) != 2 {
		t.Errorf("%d of two scenarios with jobs measured, error %v", len(m.Values), err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := scorer.Measure(cancelled, x.scheduler.Space.Default()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// unfairShare of the jobs have a rho above 1.
func unfairShare(sim *simulator.Sim) float64 {
	out := sim.Outcomes(nil)
	n := 0.0
	for i := range out {
		if out[i].Rho > 1 {
			n++
		}
	}
	return n / float64(len(out))
}

// TestDigestTellsModels: the digest depends on the performance models.
func TestDigestTellsModels(t *testing.T) {
	x := observe(t, 14*time.Hour, simulator.Options{})
	futures := x.futures(t, 1)
	digest := func(change func(*simulator.ModelSpec)) string {
		problem := x.problem("avg_jct")
		if change != nil {
			spec := simulator.DefaultModelSpec()
			change(spec)
			problem.Options.Models = spec.Models()
		}
		scorer, err := NewScorer(&problem, futures)
		if err != nil {
			t.Fatal(err)
		}
		return scorer.Digest()
	}
	slow := func(f *simulator.ModelSpec) { f.Restart.Steps[0].Seconds = 60 }
	slower := func(f *simulator.ModelSpec) { f.Restart.Steps[0].Seconds = 61 }
	if first, again := digest(slow), digest(slow); first != again {
		t.Error("two digests for the same models")
	}
	if digest(nil) != digest(func(*simulator.ModelSpec) {}) {
		t.Error("the defaults have another digest when they are given")
	}
	if digest(slow) == digest(slower) || digest(slow) == digest(nil) {
		t.Error("one digest for different models")
	}
}
