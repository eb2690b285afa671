package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
)

// noise is the ratio below which two results count as equal: about the variation of
// tuning methods between seeds.
const noise = 1.02

// Noise is the threshold of noise as a text.
func Noise() string { return fmt.Sprintf("%.0f %%", 100*(noise-1)) }

// role of a method in a comparison.
type role int

const (
	roleAdaptive  role = iota // causal, decides every round
	roleFixed                 // causal, one configuration
	roleHindsight             // one configuration, chosen with knowledge of the window
	roleControl               // changes at random
	roleOracle                // decides every round with knowledge of the future
)

func roleOf(m *replay.Method) role {
	switch m.Method {
	case "current", "default", "preset", "fixed-history":
		return roleFixed
	case "fixed-oracle":
		return roleHindsight
	case "random-preset":
		return roleControl
	case "oracle":
		return roleOracle
	}
	return roleAdaptive
}

// Finding is the outcome of a comparison.
type Finding string

const (
	Better       Finding = "better"
	BreaksGuards Finding = "breaks_guards" // better, and a guard is broken
	Worse        Finding = "worse"
	WithinNoise  Finding = "within_noise"
	Chance       Finding = "may_be_chance"   // the interval includes none, or there are too few jobs for one
	Luck         Finding = "depends_on_luck" // seeds disagree
	NoControl    Finding = "random_as_good"  // presets drawn at random do as well
	NotEvaluated Finding = "not_evaluated"
)

// Comparison of a method with another.
type Comparison struct {
	Finding Finding `json:"finding"`
	Method  string  `json:"method,omitempty"`
	Against string  `json:"against,omitempty"`
	Gain    *Gain   `json:"gain,omitempty"`
	// Changes are the parameters that differ from the baseline, of a configuration that is
	// held.
	Changes []replay.SettingChange `json:"changes,omitempty"`
	// Pays names the guards that the method breaks, and Losers the groups of jobs that wait longer, the worst first.
	Pays   []string      `json:"guards_broken,omitempty"`
	Losers []round.Group `json:"losers,omitempty"`
	Text   string        `json:"text"`

	ratio  float64
	spread [2]float64 // the least and the greatest ratio of a seed
	of     *replay.Method
}

// Gain is how much of the objective a method saves, in percent; negative if it costs.
type Gain struct {
	Percent  float64   `json:"percent"`
	Interval *Interval `json:"interval_95,omitempty"`
}

// Interval in percent.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// compare finds whether m is better than another method.
func (r *document) compare(m, against *replay.Method) Comparison {
	c := Comparison{Method: m.Method, Against: against.Method, of: m, ratio: r.over(against, m)}
	c.Gain = &Gain{Percent: gainOf(c.ratio)}
	if lo, hi, ok := r.interval(m, against); ok {
		c.Gain.Interval = &Interval{gainOf(lo), gainOf(hi)}
	}
	if m.Guards != nil {
		c.Pays, c.Losers = m.Guards.Broken, m.Guards.Losers
	}
	lo, hi, luck := r.luck(against, m)
	c.spread = [2]float64{lo, hi}
	switch {
	case luck:
		c.Finding = Luck
	case c.ratio <= 1/noise && c.Gain.Interval != nil && c.Gain.Interval.High >= 0:
		c.Finding = Chance
	case c.ratio <= 1/noise:
		c.Finding = Worse
	case c.ratio < noise:
		c.Finding = WithinNoise
	case c.Gain.Interval != nil && c.Gain.Interval.Low <= 0, c.Gain.Interval == nil && r.overJobs():
		c.Finding = Chance
	default:
		c.Finding = Better
	}
	return c
}

// gainOf is a ratio's gain in percent.
func gainOf(ratio float64) float64 { return 100 * (1 - 1/max(ratio, 1/search.MaxRatio)) }

// value returns the objective of a method.
func (r *document) value(m *replay.Method) float64 { return r.valueOf(&m.Outcome) }

func (r *document) valueOf(m *replay.Outcome) float64 { return m.Value(r.Objective) }

// over is the ratio of two methods' values: above 1 if b is better.
func (r *document) over(a, b *replay.Method) float64 { return relative(r.value(a), r.value(b)) }

func relative(x, y float64) float64 {
	if x == y {
		return 1 // also if both are 0
	}
	return min(x/y, search.MaxRatio)
}

// seedsOf are the outcomes of a method's seeds.
func seedsOf(m *replay.Method) []replay.Outcome {
	if len(m.Seeds) > 0 {
		return m.Seeds
	}
	return []replay.Outcome{m.Outcome}
}

// luck reports whether the seeds disagree about b over a: they differ by more than noise,
// and in sign, or by more than the gain of their mean. lo and hi are the least and the
// greatest ratio of a seed.
func (r *document) luck(a, b *replay.Method) (lo, hi float64, luck bool) {
	as, bs := seedsOf(a), seedsOf(b)
	lo, hi = math.Inf(1), 0
	for i := range max(len(as), len(bs)) {
		v := relative(r.valueOf(&as[i%len(as)]), r.valueOf(&bs[i%len(bs)]))
		lo, hi = min(lo, v), max(hi, v)
	}
	gain := r.over(a, b) - 1
	return lo, hi, hi > noise*lo && (lo < 1 && hi > 1 || gain > 0 && hi/lo-1 > gain)
}

func (r *document) objective() string {
	switch r.Objective {
	case "ftf":
		return "unfair share of jobs (rho above 1)"
	case "p95_rho":
		return "p95 of rho"
	case "max_rho":
		return "peak rho"
	case "energy", "cost", "co2", "edp":
		return round.Label(r.Objective)
	}
	if q, ok := strings.CutSuffix(r.Objective, "_jct"); ok && q != "avg" {
		return q + " JCT"
	}
	return "average JCT"
}

func (r *document) find(name string) *replay.Method {
	for i := range r.Methods {
		if r.Methods[i].Method == name {
			return &r.Methods[i]
		}
	}
	return nil
}

// row compares the tuner with another method.
type row struct {
	Method string
	Means  string // meaning of a gain over it
	Text   string // difference, in words
	Class  string
}

// versus compares the tuner with the other methods.
func (r *document) versus() []row {
	best := r.tuner()
	if best == nil {
		return nil
	}
	var rows []row
	for _, c := range [...]struct{ name, means string }{
		{"current", "what leaving everything alone costs"},
		{"default", "what the scheduler's defaults would do"},
		{"preset", "what a recommended configuration would do without tuning"},
		{"fixed-history", "what tuning once, beforehand, would do"},
		{"fixed-oracle", "what the best fixed configuration would do, known only afterwards"},
		{"random-preset", "control: whether any change would do"},
		{"oracle", "the same search with the true future"},
	} {
		m := r.find(c.name)
		if m == nil {
			continue
		}
		x := r.compare(best, m)
		class := map[Finding]string{Better: "good", Worse: "bad"}[x.Finding]
		rows = append(rows, row{m.Method, c.means, r.gainText(&x), cmp.Or(class, "same")})
	}
	return rows
}

// overJobs reports whether the objective is a statistic of JCTs, which has an interval
// unless there are too few jobs.
func (r *document) overJobs() bool { return strings.HasSuffix(r.Objective, "_jct") }

// interval is a 95 % interval of b's objective over a's (stats.RatioInterval). Fairness has none.
func (r *document) interval(a, b *replay.Method) (lo, hi float64, ok bool) {
	if a == b {
		return 0, 0, false
	}
	switch r.Objective {
	case "avg_jct":
		return stats.RatioInterval(jctsOf(a), jctsOf(b), 1, r.Seed)
	case "p50_jct", "p95_jct", "p99_jct":
		percent, _ := strconv.Atoi(r.Objective[1:3])
		return stats.QuantileRatioInterval(jctsOf(a), jctsOf(b), float64(percent)/100, 1, r.Seed)
	}
	return 0, 0, false
}

// jctsOf are the JCTs of each seed of a method.
func jctsOf(m *replay.Method) [][]float64 {
	var out [][]float64
	for _, s := range seedsOf(m) {
		out = append(out, s.Rows.JCTs())
	}
	return out
}
