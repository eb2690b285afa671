package replay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

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

// predict returns what is promised of a configuration.
func (c *change) predict(t *testing.T, e *Evaluation, promised space.Config) *round.Prediction {
	t.Helper()
	p, err := round.Predict(t.Context(), e.decideInput(c.in), promised, c.good)
	if err != nil {
		t.Fatal(err)
	}
	p.Applied = c.applied
	return p
}

// judged is the outcome of a change.
type judged struct {
	// effect is the age since which jobs have spent half a percent more time in the
	// system than they would have otherwise, worse that of the verdict; negative if there is none.
	effect, worse time.Duration
	verdicts      []round.Verdict
}

// observe applies a configuration and looks at it until it is found to be worse or until the
// prediction's end.
func (c *change) observe(t *testing.T, e *Evaluation, p *round.Prediction) judged {
	t.Helper()
	ctx := t.Context()
	o := &e.Options
	var instead simulator.Sim
	sim := &c.live.Sim
	sim.Fork(&instead, o.Scheduler.New(c.good))
	sim.Reconfigure(o.Scheduler.New(c.applied))
	out := judged{effect: -1, worse: -1}
	next, suspect := round.NextLook(0), false
	for age := 5 * time.Minute; age <= p.Until(); age += 5 * time.Minute {
		now := c.at + age
		for _, s := range []*simulator.Sim{sim, &instead} {
			if err := s.RunUntil(ctx, now); err != nil {
				t.Fatal(err)
			}
		}
		switch a, b := jobTime(sim, c.at, now), jobTime(&instead, c.at, now); {
		case a <= 1.005*b:
			out.effect = -1
		case out.effect < 0:
			out.effect = age
		}
		if age < next {
			continue
		}
		next = round.NextLook(age)
		v, err := round.Judge(ctx, &round.JudgeInput{Snapshot: e.Input(c.live, 0, now, c.applied).Snapshot,
			Scheduler: o.Scheduler.Name, Goal: o.Goal, Prediction: p, Suspect: suspect, Seed: uint64(age)})
		if err != nil {
			t.Fatal(err)
		}
		out.verdicts = append(out.verdicts, v)
		suspect = v.Suspect
		if v.Judgement == round.Worse {
			out.worse = age
			break
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

// jobTime is the integral of the number of active jobs in seconds.
func jobTime(s *simulator.Sim, since, at time.Duration) float64 {
	sum := 0.0
	for id := range s.Submitted() {
		end, ok := s.JobEnded(id)
		if !ok {
			end = at
		}
		if end > since {
			sum += (end - max(since, s.JobSubmit(id))).Seconds()
		}
	}
	return sum
}

// changes yields n changes of an evaluation, between configurations of its scheduler at instants
// drawn, of which wanted holds.
func changes(t *testing.T, e *Evaluation, n int, wanted func(*change) bool) []*change {
	t.Helper()
	configs := configurations(e.Options.Scheduler, 10)
	draw := rand.New(rand.NewPCG(1, 2))
	var out []*change
	for try := 0; len(out) < n && try < 20*n; try++ {
		at := e.Options.From + time.Duration(draw.Int64N(int64((e.Options.To-e.Options.From)/time.Minute)))*time.Minute
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

// onTrial are the workloads of the judge's tests.
func onTrial(t *testing.T, scheduler string) *Evaluation {
	t.Helper()
	o := sample(t)
	o.To, o.Horizon = o.From+36*time.Hour, 4*time.Hour
	o.Cluster = workload.Uniform(12, 8)
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

// fewOrMany is how many changes a test makes of each scheduler.
func fewOrMany() int {
	switch {
	case os.Getenv("AUTOSCHED_LONG") == "1":
		return 40
	case testing.Short():
		return 2
	}
	return 6
}

var judgedSchedulers = []string{"tiresias", "lucid", "gandiva"}

// TestWorseIsTakenBack: a configuration at least 20 % worse on the controllable part, of
// which no loss was promised, is found to be worse once jobs spend more time in the system
// because of it. What is not found: jobs slowed down by those on their GPUs, where none
// waits, are taken for longer jobs.
func TestWorseIsTakenBack(t *testing.T) {
	for _, s := range judgedSchedulers {
		t.Run(s, func(t *testing.T) {
			t.Parallel()
			e := onTrial(t, s)
			seen, found, soon := 0, 0, 0
			for _, c := range changes(t, e, fewOrMany(), func(c *change) bool { return c.ratio >= 1.2 }) {
				p := c.predict(t, e, c.good)
				got := c.observe(t, e, p)
				if got.effect < 0 || got.effect > p.Until()-e.Options.Interval {
					continue
				}
				seen++
				if got.worse < 0 {
					t.Logf("%v after %v at %v: more time in the system from %v on, %+v", c.applied, c.good, c.at,
						got.effect, got.verdicts[len(got.verdicts)-1])
					continue
				}
				found++
				if got.worse <= got.effect+e.Options.Interval {
					soon++
				}
			}
			t.Logf("%d with an effect, %d taken back, %d of them within a round", seen, found, soon)
			least := .8
			if s == "lucid" {
				least = .5
			}
			if seen == 0 && !testing.Short() || float64(found) < least*float64(seen) {
				t.Errorf("%d of %d taken back, %d within a round", found, seen, soon)
			}
		})
	}
}

// TestGoodIsNotTakenBack: neither an equal configuration nor one that is better, and was
// promised to be, is found to be worse.
func TestGoodIsNotTakenBack(t *testing.T) {
	for _, s := range judgedSchedulers {
		t.Run(s, func(t *testing.T) {
			t.Parallel()
			e := onTrial(t, s)
			better := changes(t, e, fewOrMany(), func(c *change) bool {
				return c.ratio > 0 && c.ratio <= 1 && c.predict(t, e, c.applied).Ratio > 1
			})
			wrong := 0
			for i, c := range better {
				if i%3 == 0 {
					c.applied = c.good
				}
				if got := c.observe(t, e, c.predict(t, e, c.applied)); got.worse >= 0 {
					t.Logf("%v after %v at %v is %.3f times as good: %+v", c.applied, c.good, c.at, 1/c.ratio,
						got.verdicts[len(got.verdicts)-1])
					wrong++
				}
			}
			t.Logf("%d of %d taken back", wrong, len(better))
			if 20*wrong > len(better) {
				t.Errorf("%d of %d taken back", wrong, len(better))
			}
		})
	}
}

// crowded is an evaluation in which 300 jobs of a GPU come within an hour from an instant
// on, unlike anything before.
func crowded(t *testing.T, at time.Duration) *Evaluation {
	t.Helper()
	e := onTrial(t, "tiresias")
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

// TestFlashCrowdIsNotToBlame: no configuration is blamed while a crowd is there that
// no future had, even one under which it waits longer. Without the comparison of demand
// it would be.
func TestFlashCrowdIsNotToBlame(t *testing.T) {
	at := onTrial(t, "tiresias").Options.From + 4*time.Hour
	e := crowded(t, at)
	sp := e.Options.Scheduler.Space
	slow, err := sp.Parse(sp.Default(), []string{"queues=1", "queue_thresholds="})
	if err != nil {
		t.Fatal(err)
	}
	for _, blind := range []bool{false, true} {
		c := changeTo(t, e, at, sp.Default(), slow)
		p := c.predict(t, e, c.good)
		if blind { // any demand was expected
			for k := range p.Futures[0] {
				p.Futures[0][k].Arrived, p.Futures[0][k].Demand = 1e9, 1e15
			}
		}
		got := c.observe(t, e, p)
		if blamed := got.worse >= 0; blamed != blind || !blind && got.count(round.DemandLeft) == 0 {
			t.Errorf("any demand expected: %v, found worse at %v, ratio %.2f, verdicts %+v", blind, got.worse, c.ratio,
				got.verdicts)
		}
	}
}

// TestReplayGoesBack: what a method adopts is watched, taken back and parked, and the
// rounds after that are distrusted.
func TestReplayGoesBack(t *testing.T) {
	e := onTrial(t, "tiresias")
	sp := e.Options.Scheduler.Space
	slow, err := sp.Parse(sp.Default(), []string{"queues=1", "queue_thresholds="})
	if err != nil {
		t.Fatal(err)
	}
	for _, judged := range []bool{true, false} {
		var out Outcome
		refused, distrusted := 0, 0
		tune := func(_ context.Context, m *RoundInput) (round.Result, error) {
			if m.Distrusted {
				distrusted++
			}
			if slices.ContainsFunc(m.Refused, slow.Equal) {
				refused++
			}
			return round.Result{Decision: round.Decision{Config: slow, Adopt: m.Round == 11, Ratio: 1.2}}, nil
		}
		m := &method{tune: func(*Evaluation) roundFunc { return tune }, serves: judged}
		if _, err := e.replay(t.Context(), m, &out, sp.Default()); err != nil {
			t.Fatal(err)
		}
		if !judged {
			if out.Rollbacks != 0 || out.Configuration != slow.String() || distrusted > 0 {
				t.Errorf("not judged: %d rollbacks, ends with %s", out.Rollbacks, out.Configuration)
			}
			continue
		}
		if out.Rollbacks != 1 || out.Changes != 2 || out.Configuration != sp.Default().String() {
			t.Errorf("%d rollbacks, %d changes, ends with %s", out.Rollbacks, out.Changes, out.Configuration)
		}
		if distrusted == 0 || distrusted > 24 || refused != distrusted {
			t.Errorf("%d rounds distrusted, %d refuse it", distrusted, refused)
		}
		k := slices.IndexFunc(out.Decisions, func(d Decision) bool {
			return d.Verdict != nil && d.Verdict.Judgement == round.Worse && d.Adopted &&
				d.Configuration == out.Configuration
		})
		if k < 0 {
			t.Errorf("no decision is the rollback: %+v", out.Decisions)
		}
	}
}
