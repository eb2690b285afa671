package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// configurations are the default, the presets and some random ones; fewer than none leaves the presets out.
func configurations(s *schedulers.Scheduler, random int) []space.Config {
	out := []space.Config{s.Space.Default()}
	if random >= 0 {
		for _, p := range s.Presets {
			out = append(out, p.Config)
		}
	}
	draw := rand.New(rand.NewPCG(1, uint64(len(s.Name))))
	for range max(0, random) {
		x := make([]float64, len(s.Space.Encode(s.Space.Default())))
		for i := range x {
			x[i] = draw.Float64()
		}
		out = append(out, s.Space.Decode(x))
	}
	if s.Name == "volcano" { // which waiting jobs are let in is not observed
		for i := range out {
			out[i], _ = s.Space.Project(out[i].With("actions", space.Text("allocate,backfill")).Values())
		}
	}
	return out
}

// meanJCTs yields, for each configuration that takes the place of another at an instant, the mean JCT of
// the jobs that are active then or submitted later: as a round with the true future measures it, and as the
// live simulation continues.
func meanJCTs(t *testing.T, o Options, at time.Duration, before space.Config, afters []space.Config,
	yield func(after space.Config, measured, live float64)) {
	t.Helper()
	ctx := t.Context()
	o.Horizon = 4 * time.Hour
	o.To = at + 1 + o.Horizon
	e, err := prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Start(before, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Sim.RunUntil(ctx, at); err != nil {
		t.Fatal(err)
	}
	scorer, err := e.Scorer(e.Truth(e.Input(l, 0, at, before)))
	if err != nil {
		t.Fatal(err)
	}
	one := func(sim *simulator.Sim, after space.Config) {
		measured, err := scorer.Measure(ctx, after)
		if err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(ctx); err != nil {
			t.Fatal(err)
		}
		sum, n := 0.0, 0.0
		for _, j := range sim.Outcomes(nil) {
			if j.End > at {
				sum += j.JCT().Seconds()
				n++
			}
		}
		yield(after, measured.Mean(), sum/n)
	}
	held := false
	for _, after := range afters {
		if held = held || after.Equal(before); after.Equal(before) {
			continue
		}
		var changed simulator.Sim
		l.Sim.Fork(&changed, o.Scheduler.New(after))
		one(&changed, after)
	}
	if held {
		one(&l.Sim, before)
	}
}

// rounding bounds the effect on a mean of nanoseconds lost at the instant of the observation.
const rounding = 1e-9

// exactly compares a round's measurements with the live simulation, for every
// scheduler.
func exactly(t *testing.T, o Options, instants []time.Duration, random int) {
	for _, s := range schedulers.All {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Scheduler = s
			for _, c := range configurations(s, random) {
				for _, at := range instants {
					meanJCTs(t, o, at, c, []space.Config{c}, func(_ space.Config, measured, live float64) {
						if gap := math.Abs(measured/live - 1); gap > rounding {
							t.Errorf("%v at %v: a round measures %.3f s, the live simulation has %.3f s: %.4f %% off",
								c, at, measured, live, 100*gap)
						}
					})
				}
			}
		})
	}
}

func hours(from time.Duration, at ...int) (out []time.Duration) {
	for _, h := range at {
		out = append(out, from+time.Duration(h)*time.Hour)
	}
	return out
}

// philly is three days of the Philly trace, on nodes of 8 GPUs.
func philly(t *testing.T, first time.Time, nodes int) Options {
	t.Helper()
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	from := first.Sub(w.Zero())
	wide := w.Window(from-round.Memory, from+4*24*time.Hour)
	jobs := slices.DeleteFunc(slices.Clone(wide.Jobs()), func(j workload.Job) bool { return j.GPUs.Whole() > nodes*8 })
	if w, err = workload.New("philly", w.Zero(), jobs); err != nil {
		t.Fatal(err)
	}
	return Options{Trace: w, From: from, To: from + 72*time.Hour, Cluster: workload.Uniform(nodes, 8)}
}

// TestRoundMeasuresWhatTheClusterDoes: with the true future, a configuration held
// has the measures of the live simulation under it.
func TestRoundMeasuresWhatTheClusterDoes(t *testing.T) {
	testshared.Full(t)
	o := sample(t)
	o.Cluster = workload.Uniform(14, 8)
	exactly(t, o, hours(o.From, 3, 10, 24), 3)
}

// TestRoundMeasuresPhilly is the same on two days of the Philly trace.
func TestRoundMeasuresPhilly(t *testing.T) {
	if testing.Short() {
		t.Skip("measures another trace")
	}
	from := time.Date(2017, 10, 17, 0, 0, 0, 0, time.UTC)
	o := philly(t, from, 60)
	if long {
		exactly(t, o, hours(o.From, 20, 40), 2)
	} else {
		exactly(t, o, hours(o.From, 20), -1)
	}
}

// TestRoundMeasuresChanges: with the true future, a configuration has the measures
// of the live simulation when it takes the place of another.
func TestRoundMeasuresChanges(t *testing.T) {
	testshared.Full(t)
	for _, s := range schedulers.All {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			o := sample(t)
			o.Cluster, o.Scheduler = workload.Uniform(14, 8), s
			configs := configurations(s, 2)
			instants := hours(o.From, 10, 24)
			compared, exhausted := 0, 0
			for _, before := range configs {
				for _, at := range instants {
					meanJCTs(t, o, at, before, configs, func(after space.Config, measured, live float64) {
						if measured == 0 {
							exhausted++ // a round bounds the events, the live simulation does not
							return
						}
						compared++
						if gap := math.Abs(measured/live - 1); gap > rounding {
							t.Errorf("%v after %v at %v: a round measures %.3f s, the live simulation has %.3f s: %.4f %% off",
								after, before, at, measured, live, 100*gap)
						}
					})
				}
			}
			if exhausted > compared {
				t.Errorf("%d measurements of %d exhausted their events", exhausted, exhausted+compared)
			}
		})
	}
}

// TestProfilerStallsNoJobs: where jobs queue, switching Lucid's profiler on leaves the
// mean JCT at most 15 % above that of going on without, and a round measures this and
// switching it off exactly.
func TestProfilerStallsNoJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("measures many changes of one scheduler")
	}
	lucid, err := schedulers.Find("lucid")
	if err != nil {
		t.Fatal(err)
	}
	o := philly(t, time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC), 24)
	o.Scheduler = lucid
	at := o.From + 52*time.Hour
	configs := configurations(lucid, 0)
	wide, err := lucid.Space.Parse(lucid.Space.Default(), []string{"profiler_nodes=4", "share_limit=4"})
	if err != nil {
		t.Fatal(err)
	}
	configs = append(configs, wide)
	profiles := func(c space.Config) bool { return c.Get("profiler_nodes").Int() > 0 }
	for _, before := range configs {
		afters := []space.Config{before}
		for _, after := range configs {
			if profiles(before) != profiles(after) || after.Equal(wide) {
				afters = append(afters, after)
			}
		}
		held, worst := 0.0, 0.0
		var slowest space.Config
		meanJCTs(t, o, at, before, afters, func(after space.Config, measured, live float64) {
			if gap := math.Abs(measured/live - 1); gap > rounding {
				t.Errorf("%v after %v: a round measures %.3f s, the live simulation has %.3f s: %.4f %% off",
					after, before, measured, live, 100*gap)
			}
			if after.Equal(before) {
				held = live
			} else if profiles(after) && live > worst {
				worst, slowest = live, after
			}
		})
		if worst > 1.15*held {
			t.Errorf("%v after %v: %.0f s, without change %.0f s", slowest, before, worst, held)
		}
	}
}

// TestFuturesAreOfTheirInput: futures do not depend on the rounds before, from which an engine
// remembers its models: a restart and a repetition have the same.
func TestFuturesAreOfTheirInput(t *testing.T) {
	if testing.Short() {
		t.Skip("learns from a history ten times")
	}
	o := sample(t)
	first, last := o.Trace.Span()
	o.From, o.To, o.Horizon = first, last+1, 4*time.Hour
	var err error
	if o.Scheduler, err = schedulers.Find("tiresias"); err != nil {
		t.Fatal(err)
	}
	e, err := prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	config := o.Scheduler.Space.Default()
	l, err := e.Start(config, true)
	if err != nil {
		t.Fatal(err)
	}
	engine := generation.NewEngine(o.Trace.Zero(), generation.Method{})
	for i, at := range hours(first, 49, 52, 60, 75, 90) {
		if err := l.Sim.RunUntil(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		m := e.Input(l, i, at, config)
		var drawn [2][]string
		for k, g := range []*generation.Engine{engine, nil} {
			futures, err := m.Forecast(t.Context(), g, o.Horizon, 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range futures {
				drawn[k] = append(drawn[k], fmt.Sprint(f.Left))
				for _, j := range f.Arrivals.Jobs() {
					drawn[k] = append(drawn[k], fmt.Sprint(j.ID, " ", j.Submit, " ", j.Duration))
				}
			}
		}
		if !slices.Equal(drawn[0], drawn[1]) {
			t.Errorf("after %v, %s", at-first, cmp.Diff(drawn[1], drawn[0]))
		}
	}
}
