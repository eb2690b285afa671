package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
)

// PastRun is what became of a job that has ended, as a history tells.
type PastRun struct {
	Key, Model string
	GPUs       int
	Held       time.Duration // from start to stop, over all spells
	Stops      int           // preemptions
	Spread     bool          // over more nodes than its size needs, in some spell
}

// Learned says where a number of LearnModels comes from.
type Learned struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Runs  int     `json:"runs"`
}

// LeftOut counts the runs that LearnModels learns nothing from, each once, by the
// first of the reasons that holds.
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

// String names those that there are.
func (n LeftOut) String() string {
	var out []string
	for _, x := range []struct {
		n   int
		why string
	}{
		{n.NoKey, "without a key"}, {n.Both, "stopped and spread"}, {n.Restarted, "stopped more than once"}, {n.NoModel, "spread without a model"},
		{n.NoTime, "without time on GPUs"}, {n.FewPlain, fmt.Sprintf("of keys with fewer than %d undisturbed", minBase)},
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

// add counts a run that has nothing to compare, and reports whether it is one.
func (n *LeftOut) add(r *PastRun) bool {
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

// minBase is how many undisturbed runs of a key tell how long it runs, and
// minRuns how many disturbed ones an estimate needs: below, the median of a few
// failed jobs would pass for a measurement.
const (
	minBase = 3
	minRuns = 8
)

// LearnModels estimates what restarts and spreading cost from recurring jobs:
// runs of one key and width should take equally long, so what a run that was
// stopped once holds GPUs beyond the median of the key's undisturbed runs is the
// cost of a restart (by the median per step of the default table; of several
// restarts some may have been cut short by the next stop), and a spread run's time over that median is the slowdown of its model (by the median
// per model). Where there are too few runs the default stays. Runs that were
// both stopped and spread are left out, as are jobs without a key, and without
// a model for the slowdown. What is left out is counted, with an error too.
func LearnModels(runs []PastRun) (*ModelSpec, []Learned, LeftOut, error) {
	type group struct {
		key  string
		gpus int
	}
	plain := map[group][]float64{}
	for _, r := range runs {
		if r.Key != "" && r.Stops == 0 && !r.Spread && r.Held > 0 {
			g := group{r.Key, r.GPUs}
			plain[g] = append(plain[g], r.Held.Seconds())
		}
	}
	base := make(map[group]float64, len(plain))
	for g, held := range plain {
		if len(held) >= minBase {
			base[g] = median(held)
		}
	}
	spec := DefaultModelSpec()
	steps := spec.Restart.Steps
	costs := make([][]float64, len(steps))
	slow := map[string][]float64{}
	var left LeftOut
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
				cost *= float64(steps[i].GPUs) / float64(r.GPUs) // it grows with the GPUs
			}
			costs[i] = append(costs[i], cost)
		case r.Spread:
			slow[r.Model] = append(slow[r.Model], r.Held.Seconds()/alone)
		}
	}
	var out []Learned
	for i, c := range costs {
		if len(c) < minRuns {
			left.FewDisturbed += len(c)
			continue
		}
		steps[i].Seconds = min(max(0, median(c)), 1e6)
		out = append(out, Learned{fmt.Sprintf("restart from %d GPUs on (s)", steps[i].GPUs), steps[i].Seconds, len(c)})
	}
	fromRestarts := len(out)
	for _, model := range sortedModels(slow) {
		ratios := slow[model]
		if len(ratios) < minRuns || len(spec.Classes.List) >= maxKinds {
			left.FewDisturbed += len(ratios)
			continue
		}
		i := slices.IndexFunc(spec.Classes.List, func(c ModelClass) bool { return c.Name == model })
		if i < 0 {
			// Known by name only: not drawn for jobs that name none.
			i = len(spec.Classes.List)
			spec.Classes.List = append(spec.Classes.List, ModelClass{Name: model, Util: .75})
		}
		spec.Classes.List[i].Slowdown = min(max(1, median(ratios)), 1000)
		spec.Classes.List[i].On = nil // it was measured on this cluster's
		out = append(out, Learned{"spread slowdown of " + model, spec.Classes.List[i].Slowdown, len(ratios)})
	}
	if len(out) == 0 {
		return nil, nil, left, fmt.Errorf("nothing to learn from %d runs: it takes keys with %d undisturbed runs and %d stopped or spread ones; %v", len(runs), minBase, minRuns, left)
	}
	learned := &ModelSpec{}
	if fromRestarts > 0 {
		learned.Restart = spec.Restart
		learned.Restart.Source = "learnt from recorded jobs; steps with too few as TitanSched"
	}
	if len(out) > fromRestarts {
		learned.Classes = spec.Classes
		learned.Classes.Source = "slowdowns of some learnt from recorded jobs; the rest: " + learned.Classes.Source
	}
	return learned, out, left, nil
}

func sortedModels(m map[string][]float64) []string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	slices.SortFunc(names, cmp.Compare[string])
	return names
}

func median(v []float64) float64 {
	slices.Sort(v)
	return stats.Quantile(v, .5)
}

// PastRuns gathers ended jobs from events in order of time.
type PastRuns struct {
	// PerNode is the GPUs of a node, which tells what is spread.
	PerNode int
	Runs    []PastRun

	open map[string]*openRun
}

type openRun struct {
	PastRun
	running bool
	from    time.Duration
	bad     bool // its times do not tell
}

// Add takes an event in. Jobs whose beginning is not told, that were resized,
// or that failed or were cancelled are left out.
func (p *PastRuns) Add(e workload.Event) {
	if p.open == nil {
		p.open = map[string]*openRun{}
	}
	if e.Kind == workload.Submitted {
		if p.open[e.Job.ID] == nil {
			p.open[e.Job.ID] = &openRun{PastRun: PastRun{Key: e.Job.Key, Model: e.Job.Model, GPUs: e.Job.GPUs.Whole()}}
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
		if !r.bad && r.Held > 0 && (e.Job.Status == workload.Completed || e.Job.Status == workload.Unknown) {
			p.Runs = append(p.Runs, r.PastRun)
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
