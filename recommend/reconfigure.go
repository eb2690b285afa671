package recommend

import (
	"cmp"
	"context"
	"fmt"

	"github.com/autosched/autosched/patterns/act"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

// Reconfiguration is advice to run another configuration.
type Reconfiguration struct {
	// Configuration is simulated in place of the running one; Set are its values that differ.
	Configuration string         `json:"configuration,omitempty"`
	Set           []string       `json:"set,omitempty"`
	Guards        *replay.Guards `json:"guards,omitempty"`
	// Apply are the commands that check, apply and take it back, and Settings the change of slurm.conf. Withheld says
	// why there are none.
	Apply    []string               `json:"apply,omitempty"`
	Settings *replay.SettingsChange `json:"settings,omitempty"`
	Withheld string                 `json:"withheld,omitempty"`

	config space.Config
}

// leastWindows are needed to choose a configuration on some and to measure it on others.
const leastWindows = 6

// reconfigure simulates another configuration.
func (s *simulation) reconfigure(ctx context.Context, a *Advice) (err error) {
	if s.another == nil {
		s.another = &Reconfiguration{}
		if len(s.Cluster.Groups) > 0 {
			s.effect, err = s.choose(ctx, s.another)
		}
		if err == nil && s.effect != nil && s.another.Withheld == "" {
			err = s.apply(ctx, s.another)
		}
		if err != nil {
			return err
		}
	}
	if s.effect == nil {
		a.Withheld = s.another.Withheld
		return nil
	}
	a.Simulated, a.Effect, a.Reconfiguration = s.effect, s.month(s.effect, s.effect.Used), *s.another
	return nil
}

// choose finds the configuration with the shortest waits among the scheduler's presets and single changes of parameters
// with few values, without those that break a guard: chosen on every other window, it is compared with the running one
// on the rest. The effect is nil if none is better, or if there are too few windows.
func (s *simulation) choose(ctx context.Context, out *Reconfiguration) (*Effect, error) {
	jobs := make([]Job, s.Trace.Len())
	for i, j := range s.Trace.Jobs() {
		jobs[i] = Job{Job: j, Used: float64(j.GPUs.Whole()), Useful: j.Duration}
	}
	windows := s.cut(jobs)
	if n := len(windows); n < leastWindows {
		unit := "windows"
		if n == 1 {
			unit = "window"
		}
		out.Withheld = fmt.Sprintf("the trace has %d %s, and choosing and measuring a configuration takes %d", n, unit,
			leastWindows)
		return nil, nil
	}
	measure := func(c space.Config, from int) (out []Result, wait float64, err error) {
		for i := from; i < len(windows); i += 2 {
			r, err := Run(ctx, s.Cluster, windows[i], s.Simulation, s.Scheduler.New(c), false)
			if err != nil {
				return nil, 0, err
			}
			out, wait = append(out, r), wait+r.WaitS
		}
		return out, wait, nil
	}
	best := s.Running
	chosenOn, least, err := measure(best, 0)
	if err != nil {
		return nil, err
	}
	broken := 0
	for _, c := range alternatives(s.Scheduler, s.Running) {
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
	if best.Equal(s.Running) {
		out.Withheld = "no preset and no single change has shorter waits"
		if broken > 0 {
			out.Withheld = fmt.Sprintf("of presets and single changes, %d have shorter waits, and none keeps the guards",
				broken)
		}
		return nil, nil
	}
	before, _, err := measure(s.Running, 1)
	if err != nil {
		return nil, err
	}
	after, _, err := measure(best, 1)
	if err != nil {
		return nil, err
	}
	e := Compare(before, after, s.Seed)
	out.Configuration, out.Guards, out.config = best.String(), guardsOf(before, after), best
	for _, d := range space.DiffConfigs(s.Running, best) {
		if v := best.Get(d.Field); !v.IsZero() {
			p, _ := s.Scheduler.Space.Param(d.Field)
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

// guardsOf compares guarded metrics over windows.
func guardsOf(before, after []Result) *replay.Guards {
	var changes []round.JobChange
	for i := range before {
		was := map[string]round.JobResult{}
		for _, j := range before[i].Ran {
			was[j.ID] = j.JobResult
		}
		for _, j := range after[i].Ran {
			if b, ok := was[j.ID]; ok {
				changes = append(changes, round.JobChange{Job: j.Job, Before: b, After: j.JobResult})
			}
		}
	}
	return replay.GuardJobs(changes)
}

// apply fills in the commands that put the configuration in force, the same for every rule.
func (s *simulation) apply(ctx context.Context, r *Reconfiguration) (err error) {
	if s.Change != nil {
		r.Settings, err = s.Change(ctx, r.config)
		if err == nil && r.Settings != nil {
			r.Apply = r.Settings.Commands
		}
		return err
	}
	name := cmp.Or(s.Service, "SCHEDULER")
	var sets []string
	for _, set := range r.Set {
		sets = append(sets, "--set", set)
	}
	line := func(words ...string) string { return act.Line(append([]string{"autosched"}, words...)) }
	r.Apply = []string{
		line(append([]string{"scheduler", "what-if", name}, sets...)...),
		line(append(append([]string{"scheduler", "config", "pin", name}, sets...), "--reason",
			"autosched recommend")...),
		line("scheduler", "config", "unpin", name)}
	return nil
}

// alternatives returns the presets of a scheduler, and the running configuration with another value of one parameter
// that has few.
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
