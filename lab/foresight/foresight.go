// Package foresight tests the predictions of a causal model, learnt on earlier segments of a trace, on later ones.
package foresight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/dataset"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/stats"
)

// Foresight is the accuracy of a causal model, learnt on the earlier segments of a
// training set, for configurations of the later ones.
type Foresight struct {
	Objective string `json:"objective"`
	// Rows and segments of the training and the test part.
	TrainRows     int `json:"train_rows"`
	TrainSegments int `json:"train_segments"`
	TestRows      int `json:"test_rows"`
	TestSegments  int `json:"test_segments"`
	// Error is the mean of |predicted - measured| / measured.
	Error float64 `json:"error"`
	// Errors of baselines: the direct and the structural head alone, the mean objective
	// of the training rows, and the incumbent's on the segment times the training rows'
	// median ratio, which depends on the workload but on no configuration.
	DirectOnly     float64 `json:"error_direct_only"`
	StructuralOnly float64 `json:"error_structural_only"`
	Mean           float64 `json:"error_mean"`
	IncumbentOnly  float64 `json:"error_incumbent_only"`
	// Rank is the mean over segments of Spearman's correlation of predicted and
	// measured objectives.
	Rank       float64 `json:"rank_correlation"`
	RankDirect float64 `json:"rank_correlation_direct"`
	// Spread is the mean over the test segments of the ratio of the 90 % to the 10 %
	// quantile of the objective.
	Spread float64 `json:"spread"`
	// Differ is restricted to the segments where that ratio is above differs: on the
	// others configurations are equally good, and have no order.
	Differ Differing `json:"where_configurations_differ"`
	// Tries compares measuring a segment's configurations in the order of the
	// predictions with a random order.
	Tries Tries `json:"tries"`
	// Weight of the structural head, and family of the direct one.
	Weight   float64          `json:"weight_structural"`
	Family   model.Family     `json:"family_direct"`
	Edges    int              `json:"edges"`
	Document *causal.Document `json:"-"`
}

// differs is the spread above which configurations differ.
const differs = 1.1

// Differing are means over the rows, and for Rank over the segments, on which
// configurations differ; zero if there are none.
type Differing struct {
	Segments      int     `json:"segments"`
	Rows          int     `json:"rows"`
	Error         float64 `json:"error"`
	IncumbentOnly float64 `json:"error_incumbent_only"`
	Rank          float64 `json:"rank_correlation"`
	Tries         Tries   `json:"tries"`
}

// Tries are means over segments.
type Tries struct {
	// Random and Model are the numbers of a segment's configurations measured until one
	// is within 1 % of the best of them: expected in random order, and in the order of
	// the predictions.
	Random float64 `json:"random"`
	Model  float64 `json:"model"`
	// RandomOf and ModelOf are the ratios of the best of the first three to the best of
	// all.
	RandomOf float64 `json:"best_of_three_random"`
	ModelOf  float64 `json:"best_of_three_model"`
}

// add adds a segment with its predicted and measured objectives.
func (t *Tries) add(predicted, measured []float64) {
	order := make([]int, len(measured))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(predicted[a], predicted[b]) })
	sorted := slices.Sorted(slices.Values(measured))
	best := sorted[0]
	good, found := 0, false
	for k, i := range order {
		if measured[i] <= 1.01*best {
			good++
			if !found {
				found = true
				t.Model += float64(k + 1)
			}
		}
	}
	n := float64(len(sorted))
	t.Random += (n + 1) / float64(good+1) // expected position of the first of good items among n
	three := min(3, len(order))
	least := math.Inf(1)
	for _, i := range order[:three] {
		least = min(least, measured[i])
	}
	t.ModelOf += least / best
	// The k-th best is the best of three if the other two rank after it.
	left, expected := 1.0, 0.0
	for k, v := range sorted {
		p := left // probability that none before it is drawn
		next := left * max(0, n-float64(k)-float64(three)) / (n - float64(k))
		expected += (p - next) * v
		left = next
	}
	t.RandomOf += expected / best
}

// over divides sums.
func (t *Tries) over(n float64) {
	t.Random, t.Model, t.RandomOf, t.ModelOf = t.Random/n, t.Model/n, t.RandomOf/n, t.ModelOf/n
}

// Foresee learns graph and model on the first share of the segments and tests them on
// the others.
func Foresee(ctx context.Context, t *dataset.Training, share float64, learn causal.LearnOptions,
	options model.Options) (*Foresight, error) {
	cut := int(math.Round(share * float64(len(t.Starts))))
	var train, test []int
	for r, s := range t.Segments {
		if s < cut {
			train = append(train, r)
		} else {
			test = append(test, r)
		}
	}
	if len(train) < model.MinRows || len(test) == 0 {
		return nil, errors.New("training: too few segments to learn from some and judge on others: " +
			"take a longer window, shorter segments or more configurations")
	}
	m, graph, err := fit(ctx, t, train, learn, options)
	if err != nil {
		return nil, err
	}
	got, err := predict(t, m, train, test)
	if err != nil {
		return nil, err
	}
	e := m.Errors()[0]
	f := &Foresight{
		Objective: m.Objectives()[0], TrainRows: len(train), TrainSegments: cut,
		TestRows: len(test), TestSegments: len(t.Starts) - cut,
		Error: relative(got.blend, got.measured), DirectOnly: relative(got.direct, got.measured),
		StructuralOnly: relative(got.structural, got.measured), Mean: relative(got.mean, got.measured),
		IncumbentOnly: relative(got.incumbent, got.measured),
		Weight:        e.Weight, Family: e.Family, Edges: len(graph.Edges), Document: graph,
	}
	f.rank(got)
	return f, nil
}

// fit learns a graph on some rows and a model along it.
func fit(ctx context.Context, t *dataset.Training, rows []int, learn causal.LearnOptions,
	options model.Options) (*model.Model, *causal.Document, error) {
	table := t.Table.Select(rows)
	for i := range table.Len() {
		if c := table.Column(i); t.Spec.Tiers[c.Name] == causal.TierObjective &&
			slices.Min(c.Values) == slices.Max(c.Values) {
			return nil, nil, fmt.Errorf("training: %s is %g in every row to learn from: "+
				"configurations make no difference there; take a busier window or fewer nodes", c.Name, c.Values[0])
		}
	}
	graph, err := causal.Learn(ctx, table, t.Spec, learn)
	if err != nil {
		return nil, nil, err
	}
	structure, err := model.Follow(table, graph)
	if err != nil {
		return nil, nil, err
	}
	options.LogObjectives = true
	for _, r := range rows {
		options.Groups = append(options.Groups, t.Segments[r])
	}
	m, err := model.Fit(ctx, table, structure, options)
	return m, graph, err
}

// predictions are those of the objective on the test rows by the model, its heads and
// the two baselines of Foresight.
type predictions struct {
	segment                   []int
	measured                  []float64
	blend, direct, structural []float64
	mean, incumbent           []float64
}

func predict(t *dataset.Training, m *model.Model, train, test []int) (*predictions, error) {
	objective := m.Objectives()[0]
	column := t.Table.Index(objective)
	points := make([]model.Point, len(test))
	for k, r := range test {
		points[k] = make(model.Point, t.Table.Len())
		for i := range points[k] {
			points[k][i] = t.Table.Column(i).Values[r]
		}
	}
	got, err := m.Predict(objective, points)
	if err != nil {
		return nil, err
	}
	mean := 0.0
	var ratios []float64
	for _, r := range train {
		v := t.Table.Column(column).Values[r]
		mean += v * t.Bases[r] / float64(len(train))
		ratios = append(ratios, v)
	}
	slices.Sort(ratios)
	p := &predictions{}
	for k, r := range test {
		p.segment = append(p.segment, t.Segments[r])
		p.measured = append(p.measured, points[k][column])
		p.blend = append(p.blend, got[k].Mean)
		p.direct = append(p.direct, got[k].Direct)
		p.structural = append(p.structural, got[k].Structural)
		p.mean = append(p.mean, mean/t.Bases[r])
		p.incumbent = append(p.incumbent, ratios[len(ratios)/2])
	}
	return p, nil
}

// rank scores the order of configurations within each segment.
func (f *Foresight) rank(p *predictions) {
	segments := 0.0
	var where []int // rows of segments on which configurations differ
	for _, rows := range bySegment(p.segment) {
		pick := func(from []float64) []float64 {
			out := make([]float64, len(rows))
			for i, r := range rows {
				out[i] = from[r]
			}
			return out
		}
		measured, predicted := pick(p.measured), pick(p.blend)
		rank := stats.Spearman(predicted, measured)
		f.Rank += rank
		f.RankDirect += stats.Spearman(pick(p.direct), measured)
		f.Tries.add(predicted, measured)
		sorted := slices.Sorted(slices.Values(measured))
		spread := sorted[len(sorted)*9/10] / sorted[len(sorted)/10]
		f.Spread += spread
		segments++
		if spread > differs {
			f.Differ.Segments++
			f.Differ.Rank += rank
			f.Differ.Tries.add(predicted, measured)
			where = append(where, rows...)
		}
	}
	if n := len(where); n > 0 {
		f.Differ.Rows = n
		f.Differ.Rank /= float64(f.Differ.Segments)
		f.Differ.Tries.over(float64(f.Differ.Segments))
		for _, r := range where {
			f.Differ.Error += math.Abs(p.blend[r]-p.measured[r]) / p.measured[r] / float64(n)
			f.Differ.IncumbentOnly += math.Abs(p.incumbent[r]-p.measured[r]) / p.measured[r] / float64(n)
		}
	}
	f.Rank, f.RankDirect, f.Spread = f.Rank/segments, f.RankDirect/segments, f.Spread/segments
	f.Tries.over(segments)
}

func bySegment(segment []int) [][]int {
	var out [][]int
	for r, s := range segment {
		if r == 0 || s != segment[r-1] {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], r)
	}
	return out
}

func relative(predicted, measured []float64) float64 {
	sum := 0.0
	for i, v := range measured {
		sum += math.Abs(predicted[i]-v) / v
	}
	return sum / float64(len(measured))
}

// NewTraining returns the training set of a table written by dataset.Train.
func NewTraining(t *causal.Table, spec *causal.Spec) (*dataset.Training, error) {
	out := &dataset.Training{Table: t, Spec: spec}
	s := t.Index(dataset.SegmentColumn)
	if s < 0 || t.Column(s).Kind != causal.Categorical {
		return nil, fmt.Errorf("training: the table has no column %q with the beginnings of segments: "+
			"write it with 'autosched explain dataset'", dataset.SegmentColumn)
	}
	var objective string
	for _, name := range t.Names() {
		if of, ok := strings.CutSuffix(name, dataset.RatioName("")); ok && spec.Tiers[name] == causal.TierObjective {
			objective = of
		}
	}
	base := t.Index(dataset.BaseName(objective))
	if objective == "" || base < 0 {
		return nil, fmt.Errorf("training: the table has no objective %q with a column %q: "+
			"write it with 'autosched explain dataset'", dataset.RatioName("X"), dataset.BaseName("X"))
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
			return nil, fmt.Errorf("training: row %d, column %q: %v is not positive", r+1,
				dataset.BaseName(objective), b)
		}
		out.Bases = append(out.Bases, b)
	}
	out.Starts = t.Column(s).Levels
	return out, nil
}
