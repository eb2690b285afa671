package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
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

// TrainingOptions configure Train.
type TrainingOptions struct {
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

// contexts are the columns that describe the workload of a segment. All of them can be
// computed from sampled futures too, on which a tuning round measures the incumbent
// first.
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
		f.gpus += float64(j.GPUs.Whole())
		f.work += j.Duration.Hours() * float64(j.GPUs.Whole())
	}
	if x.State != nil {
		f.active = float64(len(x.State.Jobs))
		for i, left := range x.Left {
			f.backlog += left.Hours() * float64(x.State.Jobs[i].GPUs.Whole())
		}
	}
	return f
}

// SegmentColumn is the column of the beginning of the row's segment.
const SegmentColumn = "segment"

// BaseName is the column of an objective under the incumbent on the row's segment.
func BaseName(objective string) string { return objective + "_incumbent" }

// workloadNames are the contexts that need no measurement.
func workloadNames() []string {
	var out []string
	for _, c := range contexts[:len(contexts)-measured] {
		out = append(out, c.name)
	}
	return out
}

// measured is the number of contexts, the last ones, that need a measurement of the
// incumbent.
const measured = 2

// workloadOf returns their means over scenarios.
func workloadOf(x []round.Scenario, gpus int, horizon time.Duration) []float64 {
	out := make([]float64, len(contexts)-measured)
	for i := range x {
		f := facts(&x[i], gpus, horizon)
		for k := range out {
			out[k] += contexts[k].of(&f) / float64(len(x))
		}
	}
	return out
}

// Train measures configurations on the segments of a window.
func Train(ctx context.Context, o replay.Options, t TrainingOptions) (*Training, error) {
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

// RatioName is the column of an objective over what it is under the incumbent:
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
	t        TrainingOptions
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
	out := &Training{Starts: b.starts}
	var good []int
	for i := range rows {
		switch {
		case rows[i].err != nil:
			return nil, fmt.Errorf("training: %s: %w", rows[i].config, rows[i].err)
		case rows[i].m.Exhausted:
			out.Exhausted++
		default:
			good = append(good, i)
			out.Segments = append(out.Segments, i/b.t.Configs)
			out.Bases = append(out.Bases, max(bases[i/b.t.Configs].Values[0], leastBase))
		}
	}
	if len(good) == 0 {
		return nil, errors.New("training: every configuration ran out of events")
	}
	out.Spec = &causal.Spec{Tiers: map[string]string{}}
	var columns []causal.Column
	add := func(tier string, c causal.Column) {
		first := c.Values[0]
		if !slices.ContainsFunc(c.Values, func(v float64) bool { return v != first }) && tier != causal.TierObjective {
			return
		}
		out.Spec.Tiers[c.Name] = tier
		columns = append(columns, c)
	}
	known := make([]segmentFacts, len(b.segments))
	for i := range known {
		known[i] = facts(&b.segments[i], b.e.Options.Cluster.TotalGPUs(), b.t.Segment)
	}
	for i := range good {
		base := &bases[out.Segments[i]]
		known[out.Segments[i]].floor, known[out.Segments[i]].base = base.Floors[0], base.Values[0]
	}
	for _, c := range contexts {
		values := make([]float64, len(good))
		for i := range good {
			values[i] = c.of(&known[out.Segments[i]])
		}
		add(causal.TierContext, causal.Column{Name: c.name, Values: values})
	}
	encoded := make([][]float64, len(good))
	for i, n := range good {
		encoded[i] = b.columns.Append(nil, rows[n].config)
	}
	for k := range b.columns.Len() {
		values := make([]float64, len(good))
		for i := range good {
			values[i] = encoded[i][k]
		}
		add(causal.TierConfig, used(b.columns.Column(k, values)))
	}
	for _, name := range round.MetricNames {
		values := make([]float64, len(good))
		for i, n := range good {
			values[i] = rows[n].m.Metrics[name]
			if overBase[name] != "" {
				values[i] = (values[i] - bases[out.Segments[i]].Metrics[name]) / out.Bases[i]
			}
		}
		if overBase[name] != "" {
			name = overBase[name]
		}
		add(causal.TierMetric, causal.Column{Name: name, Values: values})
	}
	values := make([]float64, len(good))
	for i, n := range good {
		values[i] = rows[n].m.Values[0] / out.Bases[i]
	}
	add(causal.TierObjective, causal.Column{Name: RatioName(b.e.Options.Goal.String()), Values: values})
	starts := make([]string, len(good))
	for i := range good {
		starts[i] = b.starts[out.Segments[i]]
	}
	columns = append(columns, causal.NewCategorical(SegmentColumn, starts),
		causal.Column{Name: BaseName(b.e.Options.Goal.String()), Values: slices.Clone(out.Bases)})
	out.Spec.Ignore = []string{SegmentColumn, BaseName(b.e.Options.Goal.String())}
	var err error
	out.Table, err = causal.NewTable(columns...)
	return out, err
}

// NewTraining returns the training set of a table written by Train.
func NewTraining(t *causal.Table, spec *causal.Spec) (*Training, error) {
	out := &Training{Table: t, Spec: spec}
	s := t.Index(SegmentColumn)
	if s < 0 || t.Column(s).Kind != causal.Categorical {
		return nil, fmt.Errorf("training: the table has no column %q with the beginnings of segments: "+
			"write it with 'autosched causal dataset'", SegmentColumn)
	}
	var objective string
	for _, name := range t.Names() {
		if of, ok := strings.CutSuffix(name, RatioName("")); ok && spec.Tiers[name] == causal.TierObjective {
			objective = of
		}
	}
	base := t.Index(BaseName(objective))
	if objective == "" || base < 0 {
		return nil, fmt.Errorf("training: the table has no objective %q with a column %q: "+
			"write it with 'autosched causal dataset'", RatioName("X"), BaseName("X"))
	}
	last := -1.0
	for r, v := range t.Column(s).Values {
		if v < last { // levels are sorted, and times sort as texts
			return nil, fmt.Errorf("training: row %d: segment %s comes after a later one; sort the rows by segment",
				r+1, t.Column(s).Levels[int(v)])
		}
		last = v
		out.Segments = append(out.Segments, int(v))
		b := t.Column(base).Values[r]
		if b <= 0 {
			return nil, fmt.Errorf("training: row %d, column %q: %v is not positive", r+1, BaseName(objective), b)
		}
		out.Bases = append(out.Bases, b)
	}
	out.Starts = t.Column(s).Levels
	return out, nil
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
