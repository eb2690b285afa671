// Package dataset measures configurations on segments of a trace, which makes the
// training set of a causal model.
package dataset

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/search/prune"
	"github.com/autosched/autosched/space"
)

// Options configure Train.
type Options struct {
	// Segment is the length of the pieces of the window that configurations are
	// measured on, each from the state of the cluster at its beginning.
	Segment time.Duration
	// Stride is the time between the beginnings of segments; 0 is Segment.
	Stride time.Duration
	// Configs per segment, spread over the space by a Sobol sequence of its own.
	Configs int
	// Incumbent is in force while the cluster runs from segment to segment.
	Incumbent space.Config
	// Progress is called after every configuration.
	Progress func(done, of int)
}

// Training is a training set for the causal model: configurations measured on segments
// of a trace.
type Training struct {
	// Table and Spec are the input of causal.Learn, which ignores the columns
	// SegmentColumn and BaseName.
	Table *causal.Table
	Spec  *causal.Spec
	// Segments are the indexes of the rows' segments, and Starts when those begin.
	Segments []int
	Starts   []string
	// Bases are, by row, the objective under the incumbent on the same segment.
	// The table's objective is a multiple of it; see RatioName.
	Bases []float64
	// Exhausted counts configurations that ran out of events and are left out.
	Exhausted int
}

// contexts are the columns that describe the workload of a segment.
var contexts = []struct {
	name string
	of   func(*segmentFacts) float64
}{
	{"arrivals_per_h", func(s *segmentFacts) float64 { return s.arrivals / s.hours }},
	{"offered_load", func(s *segmentFacts) float64 { return s.work / (s.capacity * s.hours) }},
	{"backlog_h", func(s *segmentFacts) float64 { return s.backlog / s.capacity }},
	{"active_jobs", func(s *segmentFacts) float64 { return s.active }},
	{"mean_gpus", func(s *segmentFacts) float64 { return s.gpus / max(1, s.arrivals) }},
	{"floor_s", func(s *segmentFacts) float64 { return s.floor }},
	{"incumbent_over_floor", func(s *segmentFacts) float64 { return s.base / max(s.floor, leastBase) }},
}

type segmentFacts struct{ arrivals, hours, capacity, work, backlog, active, gpus, floor, base float64 }

func facts(x *round.Scenario, cluster int, length time.Duration) segmentFacts {
	f := segmentFacts{hours: length.Hours(), capacity: float64(cluster)}
	for _, j := range x.Arrivals.Jobs() {
		f.arrivals++
		f.gpus += j.GPUs.Count()
		f.work += j.Duration.Hours() * j.GPUs.Count()
	}
	if x.State != nil {
		f.active = float64(len(x.State.Jobs))
		for i, left := range x.Left {
			f.backlog += left.Hours() * x.State.Jobs[i].GPUs.Count()
		}
	}
	return f
}

// SegmentColumn is the column of the beginning of the row's segment.
const SegmentColumn = "segment"

// BaseName is the column of an objective under the incumbent on the row's segment.
func BaseName(objective string) string { return objective + "_incumbent" }

// Train measures configurations on the segments of a window.
func Train(ctx context.Context, o replay.Options, t Options) (*Training, error) {
	if t.Segment <= 0 || t.Configs < 1 {
		return nil, fmt.Errorf("training: segments of %v and %d configurations each; both must be positive",
			t.Segment, t.Configs)
	}
	o.Horizon = t.Segment
	e, err := replay.Prepare(o)
	if err != nil {
		return nil, err
	}
	if t.Stride <= 0 {
		t.Stride = t.Segment
	}
	if t.Incumbent.IsZero() {
		t.Incumbent = e.Options.Scheduler.Space.Default()
	}
	live, err := e.Start(t.Incumbent, true)
	if err != nil {
		return nil, err
	}
	b := trainer{e: e, t: t, columns: prune.NewColumns(e.Options.Scheduler.Space)}
	for at := e.Options.From; at+t.Segment <= e.Options.To; at += t.Stride {
		if err := live.Sim.RunUntil(ctx, at); err != nil {
			return nil, err
		}
		m := e.Input(live, 0, at, t.Incumbent)
		x := e.Truth(m)
		if x.Jobs() == 0 {
			continue
		}
		b.starts = append(b.starts, e.Clock(at))
		b.segments = append(b.segments, x)
	}
	if len(b.segments) == 0 {
		return nil, fmt.Errorf("training: the window is shorter than a segment of %v", t.Segment)
	}
	return b.run(ctx)
}

// RatioName is the column of an objective over its value under the incumbent:
// run times cancel out, so that one model serves long and short jobs; rewards of a
// search are ratios too.
func RatioName(objective string) string { return objective + "_over_incumbent" }

// overBase maps metrics to the column of their difference from the incumbent's, as a
// multiple of the incumbent's objective, so that they add up to the objective's ratio.
// The raw metric is confounded by the load of the segment, the ratio is not.
var overBase = map[string]string{"avg_queue_s": "queue_change", "restart_s_per_job": "restart_change"}

// leastBase keeps objectives that can be zero, such as a share of jobs, finite.
const leastBase = 1e-3

type trainer struct {
	e        *replay.Evaluation
	t        Options
	columns  *prune.Columns
	segments []round.Scenario
	starts   []string
}

type trainingRow struct {
	config space.Config
	m      search.Measurement
	err    error
}

// run measures all, in parallel, and makes the table in order.
func (b *trainer) run(ctx context.Context) (*Training, error) {
	total := len(b.segments) * b.t.Configs
	rows := make([]trainingRow, total)
	var scorers []*round.Scorer
	var bases []search.Measurement
	for i := range b.segments {
		s, err := b.e.Scorer(b.segments[i])
		if err != nil {
			return nil, err
		}
		s.AllMetrics = true
		scorers = append(scorers, s)
		base, err := s.Measure(ctx, b.t.Incumbent)
		if err != nil {
			return nil, err
		}
		if base.Exhausted {
			return nil, fmt.Errorf("training: the incumbent runs out of events on the segment at %s", b.starts[i])
		}
		bases = append(bases, base)
		configs := search.Spread(b.e.Options.Scheduler.Space, round.Seed(b.e.Options.Seed, i), b.t.Configs)
		for k := range b.t.Configs {
			rows[i*b.t.Configs+k].config = configs[k]
		}
	}
	workers := b.e.Options.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next, done atomic.Int64
	var wg sync.WaitGroup
	var tell sync.Mutex
	for range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= total || ctx.Err() != nil {
					return
				}
				rows[i].m, rows[i].err = scorers[i/b.t.Configs].Measure(ctx, rows[i].config)
				if n := done.Add(1); b.t.Progress != nil {
					tell.Lock()
					b.t.Progress(int(n), total)
					tell.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return b.table(rows, bases)
}

// table lays the measurements out. Columns that never change are left out.
func (b *trainer) table(rows []trainingRow, bases []search.Measurement) (*Training, error) {
	out, kept, err := b.keep(rows, bases)
	if err != nil {
		return nil, err
	}
	l := layout{spec: &causal.Spec{Tiers: map[string]string{}}, rows: len(kept)}
	b.addContexts(&l, out.Segments, bases)
	b.addConfigs(&l, kept)
	for _, name := range round.MetricNames {
		addMetric(&l, name, kept, out, bases)
	}
	objective := b.e.Options.Goal.String()
	ratio := func(row int) float64 { return kept[row].m.Values[0] / out.Bases[row] }
	l.add(causal.TierObjective, RatioName(objective), ratio)
	starts := make([]string, len(kept))
	for i := range kept {
		starts[i] = b.starts[out.Segments[i]]
	}
	l.columns = append(l.columns, causal.NewCategorical(SegmentColumn, starts),
		causal.Column{Name: BaseName(objective), Values: slices.Clone(out.Bases)})
	l.spec.Ignore = []string{SegmentColumn, BaseName(objective)}
	out.Spec = l.spec
	out.Table, err = causal.NewTable(l.columns...)
	return out, err
}

// keep returns the rows that did not run out of events, with their segments and the
// incumbent's objective on these.
func (b *trainer) keep(rows []trainingRow, bases []search.Measurement) (*Training, []*trainingRow, error) {
	out := &Training{Starts: b.starts}
	var kept []*trainingRow
	for i := range rows {
		switch r := &rows[i]; {
		case r.err != nil:
			return nil, nil, fmt.Errorf("training: %s: %w", r.config, r.err)
		case r.m.Exhausted:
			out.Exhausted++
		default:
			segment := i / b.t.Configs
			kept = append(kept, r)
			out.Segments = append(out.Segments, segment)
			out.Bases = append(out.Bases, max(bases[segment].Values[0], leastBase))
		}
	}
	if len(kept) == 0 {
		return nil, nil, errors.New("training: every configuration ran out of events")
	}
	return out, kept, nil
}

// addContexts appends the description of each row's segment.
func (b *trainer) addContexts(l *layout, segments []int, bases []search.Measurement) {
	known := make([]segmentFacts, len(b.segments))
	for i := range known {
		known[i] = facts(&b.segments[i], b.e.Options.Cluster.TotalGPUs(), b.t.Segment)
		known[i].floor, known[i].base = bases[i].Floors[0], bases[i].Values[0]
	}
	for _, c := range contexts {
		l.add(causal.TierContext, c.name, func(row int) float64 { return c.of(&known[segments[row]]) })
	}
}

// addConfigs appends the parameters.
func (b *trainer) addConfigs(l *layout, kept []*trainingRow) {
	encoded := make([][]float64, len(kept))
	for i, r := range kept {
		encoded[i] = b.columns.Append(nil, r.config)
	}
	start := b.columns.Append(nil, b.t.Incumbent)
	l.spec.Start = map[string]string{}
	for k, name := range b.columns.Names() {
		values := l.values(func(row int) float64 { return encoded[row][k] })
		c := b.columns.Column(k, values)
		l.addColumn(causal.TierConfig, used(c))
		switch {
		case l.spec.Tiers[name] == "": // never changes
		case c.Kind == causal.Categorical:
			l.spec.Start[name] = c.Levels[int(start[k])]
		default:
			l.spec.Start[name] = strconv.FormatFloat(start[k], 'g', -1, 64)
		}
	}
}

// addMetric appends an intermediate metric, as its difference from the incumbent's where
// overBase names a column for that.
func addMetric(l *layout, name string, kept []*trainingRow, out *Training, bases []search.Measurement) {
	change, ok := overBase[name]
	if !ok {
		l.add(causal.TierMetric, name, func(row int) float64 { return kept[row].m.Metrics[name] })
		return
	}
	l.add(causal.TierMetric, change, func(row int) float64 {
		return (kept[row].m.Metrics[name] - bases[out.Segments[row]].Metrics[name]) / out.Bases[row]
	})
}

// layout is the columns of a table with their tiers.
type layout struct {
	spec    *causal.Spec
	columns []causal.Column
	rows    int
}

// add appends a numeric column.
func (l *layout) add(tier, name string, of func(row int) float64) {
	l.addColumn(tier, causal.Column{Name: name, Values: l.values(of)})
}

// addColumn appends a column unless it never changes. The objective is always there.
func (l *layout) addColumn(tier string, c causal.Column) {
	first := c.Values[0]
	if tier != causal.TierObjective && !slices.ContainsFunc(c.Values, func(v float64) bool { return v != first }) {
		return
	}
	l.spec.Tiers[c.Name] = tier
	l.columns = append(l.columns, c)
}

func (l *layout) values(of func(row int) float64) []float64 {
	out := make([]float64, l.rows)
	for i := range out {
		out[i] = of(i)
	}
	return out
}

// used drops the levels of a category that never occur.
func used(c causal.Column) causal.Column {
	if c.Kind != causal.Categorical {
		return c
	}
	names := make([]string, len(c.Values))
	for i, v := range c.Values {
		names[i] = c.Levels[int(v)]
	}
	return causal.NewCategorical(c.Name, names)
}
