package model

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
)

// Structure is the causal graph of a model, by column of a table.
type Structure struct {
	// Tiers holds the tier of each column: causal.TierContext, TierConfig, TierMetric
	// or TierObjective. Columns with an empty tier are left out.
	Tiers []string
	// Parents holds the causes of each metric and objective. Those of context and
	// configuration are ignored.
	Parents [][]int
	// Confounded reports whether a hidden common cause may account for an edge, so
	// that setting the cause may have no effect along it. Nil means that no edge is
	// confounded.
	Confounded func(cause, effect int) bool
	// MayCause holds further pairs of cause and effect that the learned graph does not
	// rule out. A parameter that reaches an objective along them is not inert.
	MayCause [][2]int
}

// Options configures [Fit]. The zero value is ready to use.
type Options struct {
	// Families are the candidates for every variable; default Linear and Quadratic.
	Families []Family
	// Bootstrap is the number of bootstrap fits; default 20.
	Bootstrap int
	Seed      uint64
	// HalfLife is the number of further rows after which a row has half its weight; 0
	// means no decay.
	HalfLife float64
	// Groups, if set, has a group number per row of Fit's table: cross-validation and
	// the bootstrap keep the rows of a group, such as a day, together, so that errors
	// are those on a new day. Rows of Update are their own groups.
	Groups []int
	// LogObjectives fits the logarithms of positive objectives, for relative errors.
	LogObjectives bool
	// MaxRows is the number of latest rows kept, over which effects are averaged;
	// default 20,000.
	MaxRows int
}

// MinRows is the fewest rows that Fit accepts: two per fold.
const MinRows = 2 * folds

// Model predicts objectives from configuration and context. Predictions are safe for
// concurrent use; Update is not.
type Model struct {
	table  *causal.Table // names, kinds and levels; the rows of Fit
	s      Structure
	o      Options
	scales []scale
	order  []int // metrics and objectives, causes first

	roots      []int // context and configuration
	config     []int
	objectives []int

	nodes  []*regression // by column, nil for roots
	direct []*regression // by objective

	rows   [][]float64 // latest rows
	blocks []int       // block of each row
	seen   int         // rows learned in total

	all   variant   // fit to all rows
	boots []variant // fits to bootstrap samples of the blocks
	blend []float64 // weight of the structural head, by objective
	// spread is the standard deviation of the out-of-fold errors by objective, in the
	// units of the direct head's fit.
	spread []float64
	errors []Errors
	// heldOut are the blended out-of-fold predictions of the rows, by objective.
	heldOut [][]float64
	drift   []drift

	wide int // size of the scratch buffer
}

// variant holds a fit of every regression.
type variant struct {
	nodes  []fitted // by column
	direct []fitted // by objective
}

// Errors holds an objective's out-of-fold relative errors |predicted - measured| /
// |measured|, averaged over rows.
type Errors struct {
	Objective  string  `json:"objective"`
	Structural float64 `json:"structural"`
	Direct     float64 `json:"direct"`
	Blend      float64 `json:"blend"`
	// Mean is the error of predicting the mean.
	Mean float64 `json:"mean"`
	// Weight is the weight of the structural head in the blend.
	Weight float64 `json:"weight"`
	// Family is the family of the direct head.
	Family Family `json:"family"`
	// Rank is Spearman's correlation of the blend with the measurements.
	Rank float64 `json:"rank_correlation"`
}

// Fit fits a model to the rows of t, which are in order of measurement.
func Fit(ctx context.Context, t *causal.Table, s Structure, o Options) (*Model, error) {
	if len(o.Families) == 0 {
		o.Families = []Family{Linear, Quadratic}
	}
	if o.Bootstrap == 0 {
		o.Bootstrap = 20
	}
	if o.MaxRows == 0 {
		o.MaxRows = 20000
	}
	if o.Bootstrap < 0 || o.MaxRows < MinRows || o.HalfLife < 0 {
		return nil, fmt.Errorf("causal/model: bootstrap %d, rows %d, half-life %g; want at least 0, %d and 0",
			o.Bootstrap, o.MaxRows, o.HalfLife, MinRows)
	}
	if t.Rows() < MinRows {
		return nil, fmt.Errorf("causal/model: %d rows; at least %d are needed", t.Rows(), MinRows)
	}
	if len(o.Groups) > 0 && len(o.Groups) != t.Rows() {
		return nil, fmt.Errorf("causal/model: %d groups for %d rows", len(o.Groups), t.Rows())
	}
	m := &Model{table: t, s: s, o: o}
	if err := m.arrange(); err != nil {
		return nil, err
	}
	for i := range t.Len() {
		m.scales = append(m.scales, newScale(t.Column(i), true))
	}
	m.nodes = make([]*regression, t.Len())
	for _, v := range m.order {
		m.nodes[v] = newRegression(t, v, s.Parents[v], m.scales)
	}
	for _, v := range m.objectives {
		m.direct = append(m.direct, newRegression(t, v, m.roots, m.scales))
	}
	for k, v := range m.objectives {
		m.nodes[v].objective, m.direct[k].objective = true, true
	}
	if o.LogObjectives {
		for k, v := range m.objectives {
			positive := !slices.ContainsFunc(t.Column(v).Values, func(v float64) bool { return v <= 0 })
			m.nodes[v].log, m.direct[k].log = positive, positive
		}
	}
	for _, r := range m.regressions() {
		m.wide = max(m.wide, r.scratch())
	}
	m.learn(t, inBlocks(o.Groups))
	return m, m.refit(ctx)
}

// inBlocks assigns groups to blocks such that consecutive groups, such as similar or
// overlapping days, are in the same fold: each fold leaves out contiguous groups.
func inBlocks(groups []int) []int {
	at := map[int]int{}
	for _, g := range groups {
		if _, ok := at[g]; !ok {
			at[g] = len(at)
		}
	}
	out := make([]int, len(groups))
	for r, g := range groups {
		const each = blocks / folds
		run := at[g] * blocks / len(at)
		out[r] = run%each*folds + run/each
	}
	return out
}

// arrange checks the structure and sorts the columns by role and causal order.
func (m *Model) arrange() error {
	t, s := m.table, m.s
	if len(s.Tiers) != t.Len() || len(s.Parents) != t.Len() {
		return fmt.Errorf("causal/model: %d columns, %d tiers and %d lists of parents",
			t.Len(), len(s.Tiers), len(s.Parents))
	}
	var rest []int
	for i, tier := range s.Tiers {
		switch tier {
		case causal.TierContext:
			m.roots = append(m.roots, i)
		case causal.TierConfig:
			m.roots, m.config = append(m.roots, i), append(m.config, i)
		case causal.TierMetric, causal.TierObjective:
			if t.Column(i).Kind == causal.Categorical {
				return fmt.Errorf("causal/model: %s %q is categorical; only numbers can be predicted",
					tier, t.Column(i).Name)
			}
			rest = append(rest, i)
			if tier == causal.TierObjective {
				m.objectives = append(m.objectives, i)
			}
		case "":
		default:
			return fmt.Errorf("causal/model: column %q has tier %q", t.Column(i).Name, tier)
		}
	}
	if len(m.config) == 0 {
		return errors.New("causal/model: no column is configuration")
	}
	if len(m.objectives) == 0 {
		return errors.New("causal/model: no column is an objective")
	}
	done := make([]bool, t.Len())
	for _, r := range m.roots {
		done[r] = true
	}
	for len(rest) > 0 {
		next := slices.IndexFunc(rest, func(v int) bool {
			return !slices.ContainsFunc(s.Parents[v], func(p int) bool { return !done[p] })
		})
		if next < 0 {
			return fmt.Errorf("causal/model: %q and others cause each other, or have parents without a tier",
				t.Column(rest[0]).Name)
		}
		done[rest[next]] = true
		m.order = append(m.order, rest[next])
		rest = slices.Delete(rest, next, next+1)
	}
	return nil
}

func (m *Model) regressions() []*regression {
	var out []*regression
	for _, v := range m.order {
		out = append(out, m.nodes[v])
	}
	return append(out, m.direct...)
}

// learn adds rows to every regression, each to its block or, without inBlock, to the
// blocks in turn.
func (m *Model) learn(t *causal.Table, inBlock []int) {
	x := make([]float64, m.wide)
	all := m.regressions()
	for r := range t.Rows() {
		row := make([]float64, t.Len())
		for i := range row {
			row[i] = t.Column(i).Values[r]
		}
		b := m.seen % blocks
		if len(inBlock) > 0 {
			b = inBlock[r]
		}
		learnAll(all, row, b, x)
		m.rows, m.blocks = append(m.rows, row), append(m.blocks, b)
		m.seen++
	}
	if over := len(m.rows) - m.o.MaxRows; over > 0 {
		m.rows, m.blocks = slices.Delete(m.rows, 0, over), slices.Delete(m.blocks, 0, over)
	}
}

// refit chooses families, penalties and blends by cross-validation, and fits.
func (m *Model) refit(ctx context.Context) error {
	perFold := m.variants(folds)
	for k, r := range m.regressions() {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.sum()
		fits, err := r.choose(ctx, m.rows, m.blocks, m.o.Families, m.o.Seed)
		if err != nil {
			return fmt.Errorf("causal/model: %s: %w", m.name(r.target), err)
		}
		for f := range perFold {
			*m.fitOf(&perFold[f], k) = fits[f]
		}
	}
	m.crossValidate(perFold)
	return m.solve(ctx, perFold)
}

// solve fits every regression to all rows and to bootstrap samples of the blocks.
// Trees are not refitted to the samples: the fits of the folds, or without them the
// previous ones, serve.
func (m *Model) solve(ctx context.Context, perFold []variant) error {
	old := m.boots
	m.all, m.boots = m.variants(1)[0], m.variants(m.o.Bootstrap)
	draws := m.draws()
	var ridge solver
	for k, r := range m.regressions() {
		r.sum()
		f, err := r.fit(ctx, m.rows, m.blocks, m.o.Seed)
		if err != nil {
			return fmt.Errorf("causal/model: %s: %w", m.name(r.target), err)
		}
		*m.fitOf(&m.all, k) = f
		q := r.basis.size(r.family)
		g := newGram(r.basis.all)
		for b := range m.boots {
			to := m.fitOf(&m.boots[b], k)
			switch {
			case r.family != Boosted:
				g.reset()
				for block, times := range draws[b] {
					if times > 0 {
						g.add(&r.blocks[block], float64(times))
					}
				}
				to.coef = make([]float64, q)
				ridge.solve(&g, q, r.lambda, to.coef)
			case perFold != nil:
				*to = *m.fitOf(&perFold[b%folds], k)
			default:
				*to = *m.fitOf(&old[b], k)
			}
		}
	}
	return nil
}

// variants returns variants without fits.
func (m *Model) variants(n int) []variant {
	out := make([]variant, n)
	for i := range out {
		out[i] = variant{nodes: make([]fitted, m.table.Len()), direct: make([]fitted, len(m.objectives))}
	}
	return out
}

// fitOf returns the place of the fit of the k-th of the regressions in a variant.
func (m *Model) fitOf(v *variant, k int) *fitted {
	if k < len(m.order) {
		return &v.nodes[m.order[k]]
	}
	return &v.direct[k-len(m.order)]
}

// draws returns how often each bootstrap sample contains each block.
func (m *Model) draws() [][]int {
	r := rng.Stream("causal bootstrap", m.o.Seed)
	out := make([][]int, m.o.Bootstrap)
	for b := range out {
		out[b] = make([]int, blocks)
		for range blocks {
			out[b][r.IntN(blocks)]++
		}
	}
	return out
}

// weights are the candidate weights of the structural head.
var weights = []float64{0, .25, .5, .75, 1}

// crossValidate predicts every row out of fold, chooses the blends and computes the
// errors.
func (m *Model) crossValidate(perFold []variant) {
	n := len(m.rows)
	m.blend = make([]float64, len(m.objectives))
	m.spread = make([]float64, len(m.objectives))
	m.errors = make([]Errors, len(m.objectives))
	m.heldOut = make([][]float64, len(m.objectives))
	structural, direct := make([][]float64, len(m.objectives)), make([][]float64, len(m.objectives))
	buf := m.buffer()
	for r, row := range m.rows {
		v := &perFold[m.blocks[r]%folds]
		m.propagate(v, row, buf)
		for k, o := range m.objectives {
			structural[k] = append(structural[k], buf.row[o])
			direct[k] = append(direct[k], m.direct[k].predict(&v.direct[k], row, buf.x))
		}
	}
	for k, o := range m.objectives {
		measured := make([]float64, n)
		mean := 0.0
		for r, row := range m.rows {
			measured[r] = row[o]
			mean += row[o] / float64(n)
		}
		m.blend[k] = m.chooseWeight(structural[k], direct[k], measured)
		blended := mix(structural[k], direct[k], m.blend[k])
		m.heldOut[k] = blended
		constant := make([]float64, n)
		for r := range constant {
			constant[r] = mean
		}
		m.errors[k] = Errors{Objective: m.name(o), Structural: relative(structural[k], measured),
			Direct: relative(direct[k], measured),
			Blend:  relative(blended, measured), Mean: relative(constant, measured), Weight: m.blend[k],
			Family: m.direct[k].family, Rank: stats.Spearman(blended, measured)}
		squares := 0.0
		for r := range measured {
			d := m.direct[k].y(blended[r]) - m.direct[k].y(measured[r])
			squares += d * d
		}
		m.spread[k] = math.Sqrt(squares / float64(n))
	}
	m.drift = make([]drift, len(m.objectives))
}

// chooseWeight returns the structural head's weight of least error. With groups,
// whose later ones may differ, it returns the smallest weight within one standard
// error of that, by block: the direct head is unbiased by hidden variables, so the
// structural one needs evidence.
func (m *Model) chooseWeight(structural, direct, measured []float64) float64 {
	perBlock := func(w float64) []float64 {
		sums, rows := make([]float64, blocks), make([]float64, blocks)
		for r, p := range mix(structural, direct, w) {
			b := m.blocks[r]
			sums[b] += relative([]float64{p}, measured[r:r+1])
			rows[b]++
		}
		var out []float64
		for b, n := range rows {
			if n > 0 {
				out = append(out, sums[b]/n)
			}
		}
		return out
	}
	var errs [][]float64
	least, best := math.Inf(1), 0
	for i, w := range weights {
		errs = append(errs, perBlock(w))
		if e := stats.Mean(errs[i]); e < least {
			least, best = e, i
		}
	}
	for i, w := range weights {
		if len(m.o.Groups) > 0 && stats.Mean(errs[i])-least <= standardError(errs[i], errs[best]) {
			return w
		}
	}
	return weights[best]
}

func mix(a, b []float64, w float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = w*a[i] + (1-w)*b[i]
	}
	return out
}

// relative returns the mean of |predicted - measured| / |measured|.
func relative(predicted, measured []float64) float64 {
	sum := 0.0
	for i, v := range measured {
		sum += math.Abs(predicted[i]-v) / max(math.Abs(v), 1e-12)
	}
	return sum / float64(len(measured))
}

func (m *Model) name(column int) string { return m.table.Column(column).Name }

// Errors returns the out-of-fold errors of every objective.
func (m *Model) Errors() []Errors { return slices.Clone(m.errors) }

// HeldOut returns an objective's predictions of the rows, in order, each by a fit that left its row
// out, when families were chosen last.
func (m *Model) HeldOut(objective string) ([]float64, error) {
	k, err := m.objective(objective)
	if err != nil {
		return nil, err
	}
	return slices.Clone(m.heldOut[k]), nil
}

// Objectives returns the names of the objectives, in column order.
func (m *Model) Objectives() []string { return m.names(m.objectives) }

// Parameters returns the names of the configuration columns.
func (m *Model) Parameters() []string { return m.names(m.config) }

func (m *Model) names(columns []int) []string {
	out := make([]string, len(columns))
	for k, c := range columns {
		out[k] = m.name(c)
	}
	return out
}

// Rows returns the number of rows learned. A reset after a drift leaves the rows that
// the model keeps.
func (m *Model) Rows() int { return m.seen }

// objective returns the index of the named objective.
func (m *Model) objective(name string) (int, error) {
	for k, o := range m.objectives {
		if m.name(o) == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("causal/model: %q is no objective; there are %v", name, m.Objectives())
}
