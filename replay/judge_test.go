package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// change is a change of configuration at an instant of an evaluation, judged afterwards.
type change struct {
	at            time.Duration
	good, applied space.Config
	// ratio is the applied configuration's controllable objective over the good one's
	// in the true future.
	ratio float64
	live  *Cluster
	in    *RoundInput
}

// changeTo runs the live simulation under good until an instant.
func changeTo(t *testing.T, e *Evaluation, at time.Duration, good, applied space.Config) *change {
	t.Helper()
	ctx := t.Context()
	c := &change{at: at, good: good, applied: applied}
	var err error
	if c.live, err = e.Start(good, true); err != nil {
		t.Fatal(err)
	}
	if err := c.live.Sim.RunUntil(ctx, at); err != nil {
		t.Fatal(err)
	}
	c.in = e.Input(c.live, 0, at, good)
	scorer, err := e.Scorer(e.Truth(c.in))
	if err != nil {
		t.Fatal(err)
	}
	was, err := scorer.Measure(ctx, good)
	if err != nil {
		t.Fatal(err)
	}
	now, err := scorer.Measure(ctx, applied)
	if err != nil {
		t.Fatal(err)
	}
	c.ratio = search.Gain(search.Trial{Config: good, Measurement: was},
		search.Trial{Config: applied, Measurement: now}).Ratio
	return c
}

// predict returns the promise for a configuration.
func (c *change) predict(t *testing.T, e *Evaluation, promised space.Config) *round.Prediction {
	t.Helper()
	in := e.decideInput(c.in)
	in.Simulator = simulator.Options{} // whatever the cluster's models are
	p, err := round.Predict(t.Context(), in, promised, c.good)
	if err != nil {
		t.Fatal(err)
	}
	p.Applied = c.applied
	return p
}

// judged is the outcome of a change.
type judged struct {
	// effect is the age of the first observable effect: since then jobs have spent a hundredth more
	// time in the system than they would have otherwise, and were delayed by a fifth more. worse is
	// the age of that verdict. Negative if there is none.
	effect, worse time.Duration
	verdicts      []round.Verdict
}

// observe applies a configuration until the prediction's end, and looks at it until it is found to be
// worse.
func (c *change) observe(t *testing.T, e *Evaluation, p *round.Prediction) judged {
	t.Helper()
	ctx := t.Context()
	o := &e.Options
	var instead simulator.Sim
	sim := &c.live.Sim
	left := map[simulator.ID]time.Duration{}
	for id := range sim.Submitted() {
		if sim.JobActive(id) {
			left[id] = sim.JobLeft(id)
		}
	}
	sim.Fork(&instead, o.Scheduler.New(c.good))
	sim.Reconfigure(o.Scheduler.New(c.applied))
	out := judged{effect: -1, worse: -1}
	trial := round.NewProbation(p)
	for age := round.BurstInterval; age <= p.Until(); age += round.BurstInterval {
		now := c.at + age
		for _, s := range []*simulator.Sim{sim, &instead} {
			if err := s.RunUntil(ctx, now); err != nil {
				t.Fatal(err)
			}
		}
		is, delay := jobTime(sim, c.at, now, left)
		was, before := jobTime(&instead, c.at, now, left)
		switch {
		case is <= 1.01*was || delay <= 1.2*before:
			out.effect = -1
		case out.effect < 0:
			out.effect = age
		}
		if now < trial.Next || out.worse >= 0 {
			continue
		}
		in := round.JudgeInput{Snapshot: e.Input(c.live, 0, now, c.applied).Snapshot, Scheduler: o.Scheduler.Name,
			Goal: o.Goal, Seed: 1}
		in.Simulator = simulator.Options{}
		v, err := trial.Look(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		out.verdicts = append(out.verdicts, v)
		if v.Judgement == round.Worse {
			out.worse = age
		}
	}
	return out
}

func (j *judged) count(of round.Judgement) (n int) {
	for _, v := range j.verdicts {
		if v.Judgement == of {
			n++
		}
	}
	return n
}

// jobTime is the integral of the number of active jobs since an instant, in seconds, and the part of
// it in which they made no progress. left is the work of the jobs active then.
func jobTime(s *simulator.Sim, since, at time.Duration, left map[simulator.ID]time.Duration) (spent, delay float64) {
	for id := range s.Submitted() {
		work, active := left[id]
		if !active {
			if s.JobSubmit(id) <= since {
				continue
			}
			work = s.Spec(id).Duration
		}
		end, ended := s.JobEnded(id)
		if !ended {
			end = at
		}
		d := end - max(since, s.JobSubmit(id))
		spent += d.Seconds()
		delay += (d - work + s.JobLeft(id)).Seconds()
	}
	return spent, delay
}

// changes yields n changes of an evaluation, between configurations of its scheduler at instants
// drawn, of which wanted holds.
func changes(t *testing.T, e *Evaluation, n int, wanted func(*change) bool) []*change {
	t.Helper()
	configs := configurations(e.Options.Scheduler, 10)
	draw := rand.New(rand.NewPCG(1, 2))
	span := int64((e.Options.To - e.Options.From - e.Options.Horizon) / time.Minute)
	var out []*change
	for try := 0; len(out) < n && try < 20*n; try++ {
		at := e.Options.From + time.Duration(draw.Int64N(span))*time.Minute
		good, applied := configs[draw.IntN(len(configs))], configs[draw.IntN(len(configs))]
		if good.Equal(applied) {
			continue
		}
		if c := changeTo(t, e, at, good, applied); wanted(c) {
			out = append(out, c)
		}
	}
	return out
}

// onTrial is an evaluation of the judge's tests: six rounds follow a change.
func onTrial(t *testing.T, o Options, scheduler string) *Evaluation {
	t.Helper()
	o.To, o.Horizon = o.From+36*time.Hour, 6*time.Hour
	var err error
	if o.Scheduler, err = schedulers.Find(scheduler); err != nil {
		t.Fatal(err)
	}
	e, err := prepare(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// small is the built-in trace on too few nodes.
func small(t *testing.T) Options {
	o := sample(t)
	o.Cluster = workload.Uniform(12, 8)
	return o
}

// long says whether tests take their largest inputs.
var long = os.Getenv("AUTOSCHED_LONG") == "1"

// judgedRuns calls a test with workloads of the judge, and how many changes it makes of each.
func judgedRuns(t *testing.T, test func(t *testing.T, n int, e *Evaluation)) {
	run := func(scheduler, trace string, n int, o Options) {
		t.Run(scheduler+"-"+trace, func(t *testing.T) {
			t.Parallel()
			test(t, n, onTrial(t, o, scheduler))
		})
	}
	if !long {
		const n = 3
		for _, s := range []string{"tiresias", "themis", "lucid"} {
			run(s, "sample", n, small(t))
		}
		return
	}
	for _, s := range []string{"tiresias", "themis", "lucid", "gandiva"} {
		run(s, "sample", 50, small(t))
		run(s, "philly", 12, philly(t, time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC), 40))
	}
}

// TestWorseAlarms: a configuration at least 20 % worse on the controllable part, of which no
// loss was promised, raises an alarm within a round of its first observable effect. Few do not, where
// jobs would have ended whose durations are not known yet.
func TestWorseAlarms(t *testing.T) {
	testshared.Full(t)
	judgedRuns(t, func(t *testing.T, n int, e *Evaluation) {
		seen, found, soon, early := 0, 0, 0, 0
		for _, c := range changes(t, e, n, func(c *change) bool { return c.ratio >= 1.2 }) {
			p := c.predict(t, e, c.good)
			got := c.observe(t, e, p)
			if got.effect < 0 || got.effect > p.Until()-e.Options.Interval {
				if got.worse >= 0 {
					early++
				}
				continue
			}
			seen++
			if got.worse >= 0 {
				found++
			}
			if got.worse >= 0 && got.worse <= got.effect+e.Options.Interval {
				soon++
				continue
			}
			t.Logf("%v after %v at %v: an effect from %v on, found worse at %v, last %+v", c.applied, c.good, c.at,
				got.effect, got.worse, got.verdicts[len(got.verdicts)-1])
		}
		t.Logf("%d planted, %d with an effect, of which %d raise an alarm, %d within a round; %d of the others", n,
			seen, found, soon, early)
		if seen-soon > 1+seen/10 || seen == 0 {
			t.Errorf("%d of %d raise an alarm within a round", soon, seen)
		}
	})
}

// TestSameDoesNotAlarm: neither equal values on a cluster that is slower than its simulation, nor
// values that make no difference, are found to be worse.
func TestSameDoesNotAlarm(t *testing.T) {
	testshared.Full(t)
	judgedRuns(t, func(t *testing.T, n int, e *Evaluation) {
		o := e.Options
		o.Simulate.Models = slower()
		slow, err := prepare(o)
		if err != nil {
			t.Fatal(err)
		}
		same := changes(t, slow, n/2, func(c *change) bool {
			c.applied = c.good
			return true
		})
		wrong := 0
		alike := changes(t, e, n-n/2, func(c *change) bool { return math.Abs(c.ratio-1) <= .01 })
		for i, c := range append(same, alike...) {
			on := e
			if i < len(same) {
				on = slow
			}
			if got := c.observe(t, on, c.predict(t, on, c.applied)); got.worse >= 0 {
				t.Errorf("%v after %v at %v is %.3f times as good: %+v", c.applied, c.good, c.at, 1/c.ratio,
					got.verdicts[len(got.verdicts)-1])
				wrong++
			}
		}
		t.Logf("%d of %d raise an alarm", wrong, len(same)+len(alike))
	})
}

// slower are the default models with restarts and pairs that cost more.
func slower() *simulator.Models {
	m := simulator.DefaultModels()
	restart, pair := m.Restart, m.Pair
	m.Restart = func(gpus int, memory int64) time.Duration { return 3 * restart(gpus, memory) }
	m.Pair = func(a, b int) (float64, float64) {
		x, y := pair(a, b)
		return .8 * x, .8 * y
	}
	return m
}

// TestBetterDoesNotAlarm: a configuration that is better, and was promised to be, is seldom found to
// be worse: where it has an effect that one that is worse might have as well.
func TestBetterDoesNotAlarm(t *testing.T) {
	testshared.Full(t)
	judgedRuns(t, func(t *testing.T, n int, e *Evaluation) {
		wrong := 0
		better := changes(t, e, n, func(c *change) bool {
			return c.ratio > 0 && c.ratio <= 1 && c.predict(t, e, c.applied).Ratio > 1
		})
		for _, c := range better {
			if got := c.observe(t, e, c.predict(t, e, c.applied)); got.worse >= 0 {
				t.Logf("%v after %v at %v is %.3f times as good; an effect from %v on, found worse at %v: %+v",
					c.applied, c.good, c.at, 1/c.ratio, got.effect, got.worse, got.verdicts[len(got.verdicts)-1])
				wrong++
			}
		}
		t.Logf("%d of %d raise an alarm", wrong, len(better))
		if wrong > 1+len(better)/10 {
			t.Errorf("%d of %d raise an alarm", wrong, len(better))
		}
	})
}

// crowded is an evaluation in which 300 jobs of a GPU come within an hour from an instant
// on, unlike anything before.
func crowded(t *testing.T, at time.Duration) *Evaluation {
	t.Helper()
	e := onTrial(t, small(t), "tiresias")
	o := e.Options
	jobs := slices.Clone(o.Trace.Jobs())
	for i := range 300 {
		jobs = append(jobs, workload.Job{ID: fmt.Sprintf("crowd%03d", i), Tenant: "crowd", GPUs: workload.GPUs(1),
			Submit: at + time.Duration(i+1)*12*time.Second, Duration: time.Duration(10+i%50) * time.Minute})
	}
	var err error
	if o.Trace, err = workload.New("crowd", o.Trace.Zero(), jobs); err != nil {
		t.Fatal(err)
	}
	if e, err = prepare(o); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestFlashCrowdIsNotToBlame: a crowd that no future had is not blamed on a configuration under which
// it waits no longer than under the last good one; one under which it does raises an alarm.
func TestFlashCrowdIsNotToBlame(t *testing.T) {
	if testing.Short() {
		t.Skip("judges two changes under a crowd")
	}
	at := onTrial(t, small(t), "tiresias").Options.From + 4*time.Hour
	e := crowded(t, at)
	sp := e.Options.Scheduler.Space
	for _, x := range []struct {
		sets  []string
		worse bool
	}{{[]string{"queue_thresholds=3250,7300"}, false}, {[]string{"queues=1", "queue_thresholds="}, true}} {
		applied, err := sp.Parse(sp.Default(), x.sets)
		if err != nil {
			t.Fatal(err)
		}
		c := changeTo(t, e, at, sp.Default(), applied)
		got := c.observe(t, e, c.predict(t, e, c.good))
		if worse := got.worse >= 0; worse != x.worse || !worse && got.count(round.DemandLeft) == 0 {
			t.Errorf("%s: found worse at %v, ratio %.2f, verdicts %+v", applied, got.worse, c.ratio, got.verdicts)
		}
	}
}
