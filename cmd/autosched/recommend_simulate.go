package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/act"
	"github.com/autosched/autosched/recommend"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// recommendSimulation simulates actions on windows of a trace.
type recommendSimulation struct {
	o       *recommendOptions
	in      replayInput
	cluster workload.Cluster
	running space.Config
	monthly float64          // windows of a trace in a month
	another *reconfiguration // for any rule, as it does not depend on that; nil until one asks
	effect  *recommend.Effect
}

func (o *recommendOptions) simulation(w *workload.Workload, t *energy.Tariff) (*recommendSimulation, error) {
	s := &recommendSimulation{o: o, cluster: o.scan.cluster}
	s.in.trace = w
	s.in.from, s.in.to = w.Span()
	var err error
	if s.in.scheduler, s.running, err = o.replay.configured(&o.config); err != nil {
		return nil, err
	}
	if s.in.options, err = o.replay.simulate(); err != nil {
		return nil, err
	}
	o.replay.cluster = s.cluster
	s.in.to++ // the last submission counts
	if len(s.cluster.Groups) == 0 {
		return s, nil
	}
	return s, o.tariff.measure(t, &s.in, s.cluster, io.Discard)
}

// changes are what acting on findings does to jobs, nil where it is not simulated. What they say is taken to be so.
func changes(w *workload.Workload, list []patternsFinding) []recommend.Job {
	jobs := make([]recommend.Job, w.Len())
	at := map[string]*recommend.Job{}
	for i, j := range w.Jobs() {
		jobs[i] = recommend.Job{Job: j, Used: float64(j.GPUs.Whole()), Useful: j.Duration}
		at[j.ID] = &jobs[i]
	}
	ran := func(j *recommend.Job, at time.Duration) (time.Duration, bool) {
		return max(0, at-j.Submit-j.Wait), j.HasWait
	}
	var found []*patterns.Finding
	for _, x := range list {
		f := &patterns.Finding{Rule: x.Rule, Entity: x.Entity, Job: x.Job, WastedGPUHours: x.WastedGPUHours,
			Began: x.Began.Sub(w.Zero()), Opened: x.Opened.Sub(w.Zero()), Closed: x.Closed.Sub(w.Zero())}
		for _, e := range x.Evidence {
			f.Evidence = append(f.Evidence, patterns.Evidence{What: e.What, Value: e.Value})
		}
		j := at[x.Job]
		switch {
		case j == nil:
		case recommend.Idles(f.Rule):
			if f.Closed < j.Submit+j.Wait+j.Duration-10*time.Minute {
				continue // it worked again
			}
			if had, known := ran(j, f.Began); known {
				j.Useful = had
			}
		default:
			if keep := recommend.Keep(j, f); keep > 0 {
				j.Used = float64(keep)
			}
			used := float64(j.GPUs.Whole()) * (1 - float64(recommend.Lost(j, f))/float64(max(1, j.Useful)))
			j.Used = min(j.Used, used)
		}
		found = append(found, f)
	}
	if recommend.Act(jobs, found, ran) == 0 {
		return nil
	}
	for i := range jobs {
		if x := jobs[i].Acted; x != nil && x.Drop {
			jobs[i].Used = 0 // it would have failed, too
		}
	}
	return jobs
}

// act simulates acting on findings of a rule, as far as that can be.
func (s *recommendSimulation) act(ctx context.Context, a *advice, list []patternsFinding) error {
	jobs := changes(s.in.trace, list)
	if jobs == nil || len(s.cluster.Groups) == 0 {
		return nil
	}
	var before, after []recommend.Result
	for _, one := range s.cut(jobs) {
		b, c, err := recommend.Pair(ctx, s.cluster, one, s.in.options,
			func() simulator.Policy { return s.in.scheduler.New(s.running) })
		if err != nil {
			return err
		}
		before, after = append(before, b), append(after, c)
	}
	if len(before) == 0 {
		return nil
	}
	e := recommend.Compare(before, after, s.o.replay.seed)
	a.Simulated, a.Effect = &e, s.month(&e, e.Freed)
	return nil
}

// month is an effect by the month; hours are of a window.
func (s *recommendSimulation) month(e *recommend.Effect, hours recommend.Interval) *monthlyEffect {
	m := &monthlyEffect{GPUHours: hours.Times(s.monthly)}
	if s.o.scan.price > 0 {
		cost := m.GPUHours.Times(s.o.scan.price)
		m.Cost = &cost
	}
	if s.in.options.Meter != nil {
		kWh := e.Energy.Times(s.monthly)
		m.Energy = &kWh
		m.EnergyCost = (e.After.EnergyCost - e.Before.EnergyCost) * s.monthly
		m.CO2 = (e.After.CO2Kg - e.Before.CO2Kg) * s.monthly
	}
	return m
}

// cut is the windows of a trace in which jobs run.
func (s *recommendSimulation) cut(jobs []recommend.Job) (out []*recommend.Window) {
	first, last := s.in.trace.Span()
	length := max(24*time.Hour, (last-first)/time.Duration(s.o.windows)+1)
	all := 0
	for from := first; from <= last; from += length {
		all++
		one := &recommend.Window{From: from, To: from + length}
		for _, j := range jobs {
			if j.Submit >= from && j.Submit < from+length && s.cluster.Fits(&j.Job) && j.Duration > 0 {
				one.Jobs = append(one.Jobs, j)
			}
		}
		if slices.ContainsFunc(one.Jobs, func(j recommend.Job) bool { return j.Acted == nil || !j.Acted.Drop }) {
			out = append(out, one)
		}
	}
	s.monthly = (30 * 24 * time.Hour).Hours() / length.Hours() * float64(len(out)) / float64(max(1, all))
	return out
}

// leastWindows are needed to choose a configuration on some and to measure it on others.
const leastWindows = 6

// reconfigure simulates another configuration.
func (s *recommendSimulation) reconfigure(ctx context.Context, a *advice) (err error) {
	if s.another == nil {
		s.another = &reconfiguration{}
		if len(s.cluster.Groups) > 0 {
			s.effect, err = s.choose(ctx, s.another)
		}
		if err == nil && s.effect != nil && s.another.Withheld == "" {
			err = s.apply(ctx)
		}
		if err != nil {
			return err
		}
	}
	if s.effect == nil {
		a.Withheld = s.another.Withheld
		return nil
	}
	a.Simulated, a.Effect, a.reconfiguration = s.effect, s.month(s.effect, s.effect.Used), *s.another
	return nil
}

// choose finds the configuration that waits are shortest under, of the scheduler's presets and of single changes of
// what has a few values, among those that keep the guards: chosen on every other window, it is compared with what runs
// on the rest. It is nil if none is better, or if there are too few windows.
func (s *recommendSimulation) choose(ctx context.Context, out *reconfiguration) (*recommend.Effect, error) {
	jobs := make([]recommend.Job, s.in.trace.Len())
	for i, j := range s.in.trace.Jobs() {
		jobs[i] = recommend.Job{Job: j, Used: float64(j.GPUs.Whole()), Useful: j.Duration}
	}
	windows := s.cut(jobs)
	if len(windows) < leastWindows {
		out.Withheld = fmt.Sprintf("the trace has %s, and choosing and measuring a configuration takes %d",
			plural(len(windows), "window"), leastWindows)
		return nil, nil
	}
	measure := func(c space.Config, from int) (out []recommend.Result, wait float64, err error) {
		for i := from; i < len(windows); i += 2 {
			r, err := recommend.Run(ctx, s.cluster, windows[i], s.in.options, s.in.scheduler.New(c),
				false)
			if err != nil {
				return nil, 0, err
			}
			out, wait = append(out, r), wait+r.WaitS
		}
		return out, wait, nil
	}
	best := s.running
	chosenOn, least, err := measure(best, 0)
	if err != nil {
		return nil, err
	}
	broken := 0
	for _, c := range alternatives(s.in.scheduler, s.running) {
		got, wait, err := measure(c, 0)
		if err != nil {
			return nil, err
		}
		if wait >= least {
			continue
		}
		if len(guardsOf(chosenOn, got).Broken) > 0 {
			broken++
			continue
		}
		best, least = c, wait
	}
	if best.Equal(s.running) {
		out.Withheld = "no preset and no single change has shorter waits"
		if broken > 0 {
			out.Withheld = fmt.Sprintf("of presets and single changes, %d have shorter waits, and none keeps the guards",
				broken)
		}
		return nil, nil
	}
	before, _, err := measure(s.running, 1)
	if err != nil {
		return nil, err
	}
	after, _, err := measure(best, 1)
	if err != nil {
		return nil, err
	}
	e := recommend.Compare(before, after, s.o.replay.seed)
	out.Configuration, out.Guards, out.config = best.String(), guardsOf(before, after), best
	for _, d := range space.DiffConfigs(s.running, best) {
		if v := best.Get(d.Field); !v.IsZero() {
			p, _ := s.in.scheduler.Space.Param(d.Field)
			out.Set = append(out.Set, d.Field+"="+p.Format(v))
		}
	}
	switch {
	case len(out.Guards.Broken) > 0:
		out.Withheld = "on the other windows it breaks a guard"
	case !(e.WaitHigh < 0):
		out.Withheld = "shorter waits may be chance: the interval is not below 0"
	}
	return &e, nil
}

// guardsOf compares what is guarded over windows.
func guardsOf(before, after []recommend.Result) *replay.Guards {
	jobs := func(list []recommend.Result) (out []replay.GuardedJob) {
		for i := range list {
			for _, j := range list[i].Ran {
				out = append(out, replay.GuardedJob(j))
			}
		}
		return out
	}
	return replay.GuardJobs(jobs(before), jobs(after))
}

// apply fills in the commands that put the configuration in force, the same for every rule.
func (s *recommendSimulation) apply(ctx context.Context) (err error) {
	r := s.another
	if s.o.site.dir != "" {
		r.Settings, err = s.o.site.change(ctx, &s.in, &s.o.replay, s.running, r.config)
		if err == nil && r.Settings != nil {
			r.Apply = r.Settings.Commands
		}
		return err
	}
	name := cmp.Or(s.o.service, "SCHEDULER")
	var sets []string
	for _, set := range r.Set {
		sets = append(sets, "--set", set)
	}
	line := func(words ...string) string { return act.Line(append([]string{"autosched"}, words...)) }
	r.Apply = []string{
		line(append([]string{"what-if", name}, sets...)...),
		line(append(append([]string{"config", "pin", name}, sets...), "--reason", "autosched recommend")...),
		line("config", "unpin", name)}
	return nil
}

// alternatives are the presets of a scheduler, and what runs with another value of one parameter that has names
// for them.
func alternatives(s *schedulers.Scheduler, running space.Config) (out []space.Config) {
	for _, p := range s.Presets {
		out = append(out, p.Config)
	}
	for _, p := range s.Space.Params() {
		values := p.Categories
		if p.Kind == space.KindBool {
			values = []string{"false", "true"}
		}
		for _, v := range values {
			if c, err := s.Space.Parse(running, []string{p.ID + "=" + v}); err == nil && !c.Equal(running) {
				out = append(out, c)
			}
		}
	}
	return out
}
