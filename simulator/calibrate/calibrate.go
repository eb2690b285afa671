// Package calibrate estimates the simulator's performance models from a history of
// jobs: the cost of a restart, and how much slower a spread job runs.
package calibrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

// Run is the recorded run of a job that has ended.
type Run struct {
	Key, Model string
	GPUs       int
	Held       time.Duration // from start to stop, over all spells
	Stops      int           // preemptions
	Spread     bool          // over more nodes than its size needs, in some spell
	End        time.Duration // on a clock that all runs have
}

// Estimate is a number of the models with the number of runs behind it.
type Estimate struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Runs  int     `json:"runs"`
}

// LeftOut counts the runs that Models cannot use, each once, by the first reason
// that holds.
type LeftOut struct {
	NoKey     int `json:"no_key"`
	Both      int `json:"stopped_and_spread"`
	Restarted int `json:"stopped_more_than_once"`
	NoModel   int `json:"spread_without_model"`
	NoTime    int `json:"no_time_on_gpus"`
	// FewPlain are of keys, at one width, with too few undisturbed runs.
	FewPlain int `json:"few_undisturbed_of_key"`
	// FewDisturbed are too few for the estimate that they belong to, or of more
	// models than a models file holds.
	FewDisturbed int `json:"few_for_estimate"`
}

// String lists the reasons with a count.
func (n LeftOut) String() string {
	var out []string
	for _, x := range []struct {
		n   int
		why string
	}{
		{n.NoKey, "without a key"}, {n.Both, "stopped and spread"}, {n.Restarted, "stopped more than once"},
		{n.NoModel, "spread without a model"},
		{n.NoTime, "without time on GPUs"},
		{n.FewPlain, fmt.Sprintf("of keys with fewer than %d undisturbed", minBase)},
		{n.FewDisturbed, fmt.Sprintf("of fewer than the %d of an estimate", minRuns)},
	} {
		if x.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", x.n, x.why))
		}
	}
	if len(out) == 0 {
		return "left out: none"
	}
	return "left out: " + strings.Join(out, ", ")
}

// add counts a run that cannot be compared with others, and reports whether it is
// one.
func (n *LeftOut) add(r *Run) bool {
	switch {
	case r.Key == "":
		n.NoKey++
	case r.Stops > 0 && r.Spread:
		n.Both++
	case r.Stops > 1:
		n.Restarted++
	case r.Spread && r.Model == "":
		n.NoModel++
	case r.Held <= 0:
		n.NoTime++
	default:
		return false
	}
	return true
}

// minBase is the number of undisturbed runs from which a key's run time is known,
// and minRuns the number of disturbed runs of an estimate: below, the median of a
// few failed jobs would pass for a measurement.
const (
	minBase = 3
	minRuns = 8
)

// group is the runs that should take equally long.
type group struct {
	key  string
	gpus int
}

// Models estimates the costs of restarts and spreading from recurring jobs. Runs of
// one key and width should take equally long, so the time that a run preempted once
// holds GPUs beyond the median of the key's undisturbed runs is the cost of a
// restart (median per step of the default table; of several restarts some may have
// been cut short by the next preemption), and a spread run's time over that median
// is the slowdown of its model (median per model). Where there are too few runs the
// default stays. Runs that were both preempted and spread are left out, as are jobs
// without a key and, for the slowdown, without a model. Runs left out are counted,
// with an error too.
func Models(runs []Run) (*simulator.ModelSpec, []Estimate, LeftOut, error) {
	spec := simulator.DefaultModelSpec()
	costs, slowdowns, left := disturbances(runs, spec.Restart.Steps)
	restarts := setRestarts(spec.Restart, costs, &left)
	spreads := setSlowdowns(spec.Classes, slowdowns, &left)
	if len(restarts)+len(spreads) == 0 {
		return nil, nil, left, fmt.Errorf("nothing to learn from %d runs: "+
			"it takes keys with %d undisturbed runs and %d stopped or spread ones; %v",
			len(runs), minBase, minRuns, left)
	}
	learned := &simulator.ModelSpec{}
	if len(restarts) > 0 {
		learned.Restart = spec.Restart
		learned.Restart.Source = "learnt from recorded jobs; steps with too few as TitanSched"
	}
	if len(spreads) > 0 {
		learned.Classes = spec.Classes
		learned.Classes.Source = "slowdowns of some learnt from recorded jobs; the rest: " + learned.Classes.Source
	}
	return learned, append(restarts, spreads...), left, nil
}

// undisturbed is the median time in seconds of the runs of a group that were neither
// preempted nor spread.
func undisturbed(runs []Run) map[group]float64 {
	held := map[group][]float64{}
	for _, r := range runs {
		if r.Key != "" && r.Stops == 0 && !r.Spread && r.Held > 0 {
			g := group{r.Key, r.GPUs}
			held[g] = append(held[g], r.Held.Seconds())
		}
	}
	out := make(map[group]float64, len(held))
	for g, h := range held {
		if len(h) >= minBase {
			out[g] = median(h)
		}
	}
	return out
}

// disturbances are the costs of restarts in seconds by step, and the slowdowns of
// spread runs by model.
func disturbances(runs []Run, steps []simulator.RestartStep) (
	costs [][]float64, slowdowns map[string][]float64, left LeftOut) {
	base := undisturbed(runs)
	costs, slowdowns = make([][]float64, len(steps)), map[string][]float64{}
	for _, r := range runs {
		if left.add(&r) {
			continue
		}
		alone, ok := base[group{r.Key, r.GPUs}]
		switch {
		case !ok:
			left.FewPlain++
		case r.Stops == 1:
			i := len(steps) - 1
			for i > 0 && steps[i].GPUs > r.GPUs {
				i--
			}
			cost := r.Held.Seconds() - alone
			if i == len(steps)-1 {
				cost *= float64(steps[i].GPUs) / float64(r.GPUs) // proportional beyond the last step
			}
			costs[i] = append(costs[i], cost)
		case r.Spread:
			slowdowns[r.Model] = append(slowdowns[r.Model], r.Held.Seconds()/alone)
		}
	}
	return costs, slowdowns, left
}

func setRestarts(spec *simulator.RestartSpec, costs [][]float64, left *LeftOut) (out []Estimate) {
	for i, c := range costs {
		if len(c) < minRuns {
			left.FewDisturbed += len(c)
			continue
		}
		step := &spec.Steps[i]
		step.Seconds = min(max(0, median(c)), 1e6)
		out = append(out, Estimate{fmt.Sprintf("restart from %d GPUs on (s)", step.GPUs), step.Seconds, len(c)})
	}
	return out
}

func setSlowdowns(spec *simulator.ClassSpec, slowdowns map[string][]float64, left *LeftOut) (out []Estimate) {
	for _, model := range slices.Sorted(maps.Keys(slowdowns)) {
		ratios := slowdowns[model]
		if len(ratios) < minRuns || len(spec.List) >= simulator.MaxClasses {
			left.FewDisturbed += len(ratios)
			continue
		}
		i := slices.IndexFunc(spec.List, func(c simulator.ModelClass) bool { return c.Name == model })
		if i < 0 {
			// Weight 0: jobs that name no model do not draw it.
			i = len(spec.List)
			spec.List = append(spec.List, simulator.ModelClass{Name: model, Util: .75})
		}
		c := &spec.List[i]
		c.Slowdown = min(max(1, median(ratios)), 1000)
		c.On = nil // it was measured on this cluster's interconnect
		out = append(out, Estimate{"spread slowdown of " + model, c.Slowdown, len(ratios)})
	}
	return out
}

func median(v []float64) float64 {
	slices.Sort(v)
	return stats.Quantile(v, .5)
}

// Collector gathers the runs of jobs from events in order of time.
type Collector struct {
	// PerNode is the number of GPUs of a node, from which a spread placement is
	// recognised.
	PerNode int
	Runs    []Run

	open map[string]*openRun
}

type openRun struct {
	Run
	running bool
	from    time.Duration
	bad     bool // its times cannot be compared
}

// Add processes an event. Jobs without a submission, and jobs that were resized,
// failed or were cancelled, are left out.
func (p *Collector) Add(e workload.Event) {
	if p.open == nil {
		p.open = map[string]*openRun{}
	}
	if e.Kind == workload.Submitted {
		if p.open[e.Job.ID] == nil {
			p.open[e.Job.ID] = &openRun{Run: Run{Key: e.Job.Key, Model: e.Job.Model, GPUs: e.Job.GPUs.Whole()}}
		}
		return
	}
	r := p.open[e.Job.ID]
	if r == nil {
		return
	}
	switch e.Kind {
	case workload.Started, workload.Resumed:
		fewest := (r.GPUs + p.PerNode - 1) / p.PerNode
		r.running, r.from, r.Spread = true, e.Time, r.Spread || len(e.Placement) > fewest
	case workload.Preempted:
		r.stop(e.Time)
		r.Stops++
	case workload.Resized:
		r.bad = true
	case workload.Finished:
		r.stop(e.Time)
		r.End = e.Time
		if !r.bad && r.Held > 0 && (e.Job.Status == workload.Completed || e.Job.Status == workload.Unknown) {
			p.Runs = append(p.Runs, r.Run)
		}
		delete(p.open, e.Job.ID)
	}
}

func (r *openRun) stop(at time.Duration) {
	if r.running && at >= r.from {
		r.Held += at - r.from
	} else {
		r.bad = true
	}
	r.running = false
}
