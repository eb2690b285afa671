package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	kept "github.com/autosched/autosched/controller/findings"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/act"
	"github.com/autosched/autosched/patterns/recommend"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// recommendOptions are the flags of recommend.
type recommendOptions struct {
	scan      patternsScanOptions
	scheduler string
	windows   int
	seed      uint64
	actions   string
}

func newRecommendCmd() *cobra.Command {
	o := &recommendOptions{}
	cmd := patternsScanCommand(&o.scan)
	cmd.Use, cmd.Short = "recommend", "Rank what to do about the waste of a cluster, with its simulated effect"
	cmd.Long = `Scans a trace and telemetry as 'autosched patterns scan' does and ranks what to do by
the GPU-hours a month that it concerns. Cancelling idle jobs an hour after they were
found, right-sizing jobs that hoard, and holding keys that crash are simulated: windows of
the trace run with and without, under one scheduler. Where the action is another configuration,
the one of shortest waits is chosen on every other window, of presets and single changes,
and compared with the defaults on the rest. Other advice says that it was not simulated.

With --actions, advice has the site's command for its largest finding, which is not run.`
	cmd.Example = `  autosched recommend --trace sacct.psv --nodes 40 --telemetry gpus.csv.zst --price 2
  autosched recommend --trace sample --nodes 20 --json`
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return show(cmd.OutOrStdout(), o.scan.json, "recommendations/v1", r, r.print)
	}
	fl := cmd.Flags()
	fl.StringVar(&o.scheduler, "scheduler", "fifo", "scheduler to simulate, under its default configuration")
	fl.IntVar(&o.windows, "windows", 20, "windows of the trace to simulate at most, a day or longer each")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of the intervals")
	fl.StringVar(&o.actions, "actions", "", "YAML file of the site's commands for actions, to print them")
	return cmd
}

func (o *recommendOptions) check() error {
	if o.scan.trace == "" {
		return usageError{errors.New("--trace is missing: name a trace")}
	}
	if o.windows < 1 {
		return usageError{fmt.Errorf("--windows: %d is not positive", o.windows)}
	}
	if _, err := schedulers.Find(o.scheduler); err != nil {
		return usageError{err}
	}
	return o.scan.check()
}

// advice is what to do about the findings of a rule.
type advice struct {
	Rule       string            `json:"rule"`
	Action     string            `json:"action"`
	Words      string            `json:"words"` // of the largest finding
	Findings   int               `json:"findings"`
	Confidence float64           `json:"mean_confidence"`
	Monthly    float64           `json:"gpu_hours_a_month"`
	Cost       float64           `json:"cost_a_month,omitempty"`
	Simulated  *recommend.Effect `json:"simulated,omitempty"`
	// Configuration is what Simulated has in place of the defaults, for actions that are another one; Set are its
	// values that differ.
	Configuration string   `json:"configuration,omitempty"`
	Set           []string `json:"set,omitempty"`
	// Command is the site's, for the largest finding; NoCommand says what it lacks.
	Command   []string `json:"command,omitempty"`
	NoCommand string   `json:"no_command,omitempty"`
}

// recommendations is the result.
type recommendations struct {
	Trace     string   `json:"trace"`
	Scheduler string   `json:"scheduler"`
	Advice    []advice `json:"advice"`
	Examined  []string `json:"examined"`
	Rules     []string `json:"rules"`
	Notes     []string `json:"notes"`
}

func (o *recommendOptions) run(ctx context.Context, notes io.Writer) (*recommendations, error) {
	var rules *patterns.RuleSet
	var commands *act.Commands
	if o.actions != "" {
		var err error
		if rules, err = readRules(o.scan.rules, nil); err != nil {
			return nil, err
		}
		if commands, err = readActions(o.actions, rules); err != nil {
			return nil, err
		}
	}
	found, err := o.scan.run(ctx, notes)
	if err != nil {
		return nil, err
	}
	w, _, err := openTrace(ctx, io.Discard, o.scan.trace, o.scan.how)
	if err != nil {
		return nil, err
	}
	out := &recommendations{Trace: w.Name(), Scheduler: o.scheduler, Advice: []advice{}, Examined: found.Examined,
		Rules: found.Rules, Notes: found.Notes}
	first, last := w.Span()
	months := max(1, (last-first).Hours()/24) / 30
	byRule := map[string][]patternsFinding{}
	for _, f := range found.Findings { // most wasted first
		byRule[f.Rule] = append(byRule[f.Rule], f)
	}
	for _, rule := range sortedKeys(byRule) {
		list := byRule[rule]
		a := advice{Rule: rule, Action: list[0].Action, Words: list[0].Words, Findings: len(list)}
		for _, f := range list {
			a.Confidence += f.Confidence / float64(len(list))
			a.Monthly += f.WastedGPUHours / months
			a.Cost += f.Cost / months
		}
		if kept.Reconfigures(a.Action) {
			err = o.reconfigure(ctx, w, &a)
		} else {
			a.Simulated, err = o.simulate(ctx, w, list)
		}
		if err != nil {
			return nil, err
		}
		if commands != nil && commands.Has(a.Action) {
			f := &patterns.Finding{Rule: rule, Action: a.Action, Entity: list[0].Entity, Job: list[0].Job,
				Node: list[0].Node, WastedGPUHours: list[0].WastedGPUHours}
			if a.Command, err = commands.Render(a.Action, act.Values(f, ruleGroups(rules, rule))); err != nil {
				a.NoCommand = err.Error()
			}
		}
		out.Advice = append(out.Advice, a)
	}
	slices.SortStableFunc(out.Advice, func(a, b advice) int {
		if a.Monthly > b.Monthly {
			return -1
		} else if a.Monthly < b.Monthly {
			return 1
		}
		return 0
	})
	return out, nil
}

// changes are what acting on findings does to jobs, nil where it is not simulated.
func changes(w *workload.Workload, list []patternsFinding) []recommend.Job {
	jobs := make([]recommend.Job, w.Len())
	at := map[string]int{}
	for i, j := range w.Jobs() {
		gpus := j.GPUs.Whole()
		jobs[i] = recommend.Job{Job: j, Used: float64(gpus), Useful: j.Duration}
		at[j.ID] = i
	}
	n := 0
	for _, f := range list {
		i, known := at[f.Job]
		began, opened, closed := f.Began.Sub(w.Zero()), f.Opened.Sub(w.Zero()), f.Closed.Sub(w.Zero())
		switch f.Rule {
		case "idle_allocation", "never_ending":
			if !known || !jobs[i].HasWait {
				continue
			}
			j := &jobs[i]
			start := j.Submit + j.Wait
			if closed < start+j.Duration-10*time.Minute {
				continue // it worked again
			}
			j.Useful = max(0, began-start)
			j.Acted = &recommend.Change{Duration: min(j.Duration, opened-start+time.Hour), GPUs: j.GPUs.Whole(),
				Useful: j.Useful}
			n++
		case "hoarding":
			if !known || closed <= began {
				continue
			}
			j := &jobs[i]
			gpus := j.GPUs.Whole()
			keep := gpus - int(math.Floor(f.WastedGPUHours/(closed-began).Hours()+.01))
			if keep < 1 || keep >= gpus {
				continue
			}
			j.Used = float64(keep)
			held := time.Duration(float64(time.Hour) * float64(gpus-keep) / float64(keep)) // until it is resized
			j.Acted = &recommend.Change{Duration: j.Duration + held, GPUs: keep, Useful: j.Duration + held}
			n++
		case "crash_loop":
			for k := range jobs {
				j := &jobs[k]
				if f.Entity.Name == j.User+"/"+j.Key && j.Submit > opened && j.Submit <= closed {
					j.Used, j.Acted = 0, &recommend.Change{Drop: true}
					n++
				}
			}
		}
	}
	if n == 0 {
		return nil
	}
	return jobs
}

// simulate runs windows with and without acting on findings of a rule; nil where it cannot.
func (o *recommendOptions) simulate(ctx context.Context, w *workload.Workload, list []patternsFinding) (
	*recommend.Effect, error) {
	jobs := changes(w, list)
	if jobs == nil || len(o.scan.cluster.Groups) == 0 {
		return nil, nil
	}
	s, err := schedulers.Find(o.scheduler)
	if err != nil {
		return nil, err
	}
	var before, after []recommend.Result
	for _, one := range o.cut(w, jobs) {
		b, a, err := recommend.Pair(ctx, o.scan.cluster, one,
			func() simulator.Policy { return s.New(s.Space.Default()) })
		if err != nil {
			return nil, err
		}
		before, after = append(before, b), append(after, a)
	}
	if len(before) == 0 {
		return nil, nil
	}
	e := recommend.Compare(before, after, o.seed)
	return &e, nil
}

// cut is the windows of a trace in which jobs run.
func (o *recommendOptions) cut(w *workload.Workload, jobs []recommend.Job) (out []*recommend.Window) {
	first, last := w.Span()
	length := max(24*time.Hour, (last-first)/time.Duration(o.windows)+1)
	for from := first; from <= last; from += length {
		one := &recommend.Window{From: from, To: from + length}
		for _, j := range jobs {
			if j.Submit >= from && j.Submit < from+length && o.scan.cluster.Fits(&j.Job) && j.Duration > 0 {
				one.Jobs = append(one.Jobs, j)
			}
		}
		if slices.ContainsFunc(one.Jobs, func(j recommend.Job) bool { return j.Acted == nil || !j.Acted.Drop }) {
			out = append(out, one)
		}
	}
	return out
}

// leastWindows are needed to choose a configuration on some and to measure it on others.
const leastWindows = 6

// reconfigure simulates the configuration that waits are shortest under, of the scheduler's presets and of single
// changes of what has a few values: chosen on every other window, it is compared with the defaults on the rest. The
// advice stays as it is if none is better, or if there are too few windows.
func (o *recommendOptions) reconfigure(ctx context.Context, w *workload.Workload, a *advice) error {
	s, err := schedulers.Find(o.scheduler)
	if err != nil || len(o.scan.cluster.Groups) == 0 {
		return err
	}
	jobs := make([]recommend.Job, w.Len())
	for i, j := range w.Jobs() {
		jobs[i] = recommend.Job{Job: j, Used: float64(j.GPUs.Whole()), Useful: j.Duration}
	}
	windows := o.cut(w, jobs)
	if len(windows) < leastWindows {
		return nil
	}
	measure := func(c space.Config, from int) (out []recommend.Result, wait float64, err error) {
		for i := from; i < len(windows); i += 2 {
			r, err := recommend.Run(ctx, o.scan.cluster, windows[i], s.New(c))
			if err != nil {
				return nil, 0, err
			}
			out, wait = append(out, r), wait+r.WaitS
		}
		return out, wait, nil
	}
	best := s.Space.Default()
	_, least, err := measure(best, 0)
	if err != nil {
		return err
	}
	for _, c := range alternatives(s) {
		_, wait, err := measure(c, 0)
		if err != nil {
			return err
		}
		if wait < least {
			best, least = c, wait
		}
	}
	if best.Equal(s.Space.Default()) {
		return nil
	}
	before, _, err := measure(s.Space.Default(), 1)
	if err != nil {
		return err
	}
	after, _, err := measure(best, 1)
	if err != nil {
		return err
	}
	e := recommend.Compare(before, after, o.seed)
	a.Simulated, a.Configuration = &e, best.String()
	for _, d := range space.DiffConfigs(s.Space.Default(), best) {
		if v := best.Get(d.Field); !v.IsZero() {
			p, _ := s.Space.Param(d.Field)
			a.Set = append(a.Set, d.Field+"="+p.Format(v))
		}
	}
	return nil
}

// alternatives are the presets of a scheduler, and its defaults with another value of one parameter that has names
// for them.
func alternatives(s *schedulers.Scheduler) (out []space.Config) {
	for _, p := range s.Presets {
		out = append(out, p.Config)
	}
	for _, p := range s.Space.Params() {
		values := p.Categories
		if p.Kind == space.KindBool {
			values = []string{"false", "true"}
		}
		for _, v := range values {
			if c, err := s.Space.Parse(s.Space.Default(), []string{p.ID + "=" + v}); err == nil &&
				!c.Equal(s.Space.Default()) {
				out = append(out, c)
			}
		}
	}
	return out
}

func (r *recommendations) print(w io.Writer) error {
	if len(r.Advice) == 0 {
		verdict := "Nothing is wrong"
		if len(r.Examined) < len(r.Rules) {
			verdict = "Nothing was found"
		}
		fmt.Fprintf(w, "%s: %s: %d of %d rules had what they need, and none holds.\n", r.Trace, verdict,
			len(r.Examined), len(r.Rules))
	}
	for i, a := range r.Advice {
		fmt.Fprintf(w, "%d. %s: %s, confidence %.2f, %.1f GPU-hours a month", i+1, a.Rule, findings(a.Findings),
			a.Confidence, a.Monthly)
		if a.Cost > 0 {
			fmt.Fprintf(w, ", %.2f a month", a.Cost)
		}
		fmt.Fprintf(w, "\n   %s\n", a.Words)
		if a.Command != nil {
			fmt.Fprintf(w, "   Command: %s\n", act.Line(a.Command))
		} else if a.NoCommand != "" {
			fmt.Fprintf(w, "   No command: %s\n", a.NoCommand)
		}
		e := a.Simulated
		if e == nil {
			fmt.Fprintf(w, "   Not simulated.\n")
			continue
		}
		if len(a.Set) > 0 {
			fmt.Fprintf(w, "   With %s in place of the defaults of %s, chosen on other windows: "+
				"mean wait %+.1f %% (95 %% %+.1f to %+.1f),\n   p95 %.0f s to %.0f s. "+
				"In the service: autosched what-if SCHEDULER --set %s\n", strings.Join(a.Set, ", "), r.Scheduler,
				100*e.WaitChange, 100*e.WaitLow, 100*e.WaitHigh, e.Before.P95WaitS, e.After.P95WaitS,
				strings.Join(a.Set, " --set "))
		}
		fmt.Fprintf(w, "   Simulated under %s over %s: utilisation %.3f to %.3f (%+.1f %%, 95 %% %+.1f to %+.1f), "+
			"mean wait %.0f s to %.0f s;\n   small tenants %.0f s to %.0f s, large ones %.0f s to %.0f s; "+
			"Jain's index %.3f to %.3f; jobs wait longer in %s.\n",
			r.Scheduler, plural(e.Windows, "window"), e.Before.Utilization, e.After.Utilization, 100*e.Gain, 100*e.Low,
			100*e.High, e.Before.WaitS, e.After.WaitS, e.Before.SmallWaitS, e.After.SmallWaitS, e.Before.LargeWaitS,
			e.After.LargeWaitS, e.Before.Jain, e.After.Jain, plural(e.Longer, "window"))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	return nil
}
