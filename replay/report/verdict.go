package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
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

// BaselineText says what the methods are compared with, and how to name another.
func BaselineText(r *replay.Report) string {
	if r.Baseline.Assumed {
		return fmt.Sprintf("Baseline: the defaults of %s, as no configuration was named: %s. Name yours with "+
			"--config FILE, --set key=value or --preset NAME.", r.Scheduler, r.Baseline.Configuration)
	}
	return "Baseline: the configuration that you run (current): " + r.Baseline.Configuration + "."
}

// Answer says whether to change the settings, to what, and what that brings.
type Answer struct {
	// Once compares the best configuration that could be chosen beforehand with the
	// baseline. It is worth a change if it is Better; else the baseline stays.
	Once Comparison `json:"change_once"`
	// Tuning compares tuning every round with what Once leaves in force.
	Tuning Comparison `json:"tuning"`
	// Flags name the configuration to change to, to simulate, tune and evaluate; empty if
	// nothing is to be changed once. Register is the command that registers what is to run
	// with the service; empty if nothing gains, or the cluster has several kinds of nodes.
	Flags    string `json:"flags,omitempty"`
	Register string `json:"register,omitempty"`
}

// Finding is the outcome of a comparison.
type Finding string

const (
	Better       Finding = "better"
	Worse        Finding = "worse"
	WithinNoise  Finding = "within_noise"
	Chance       Finding = "may_be_chance"   // the interval includes no gain
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
	// held. Set has those that differ from the scheduler's default, for --set.
	Changes []Change `json:"changes,omitempty"`
	Set     []string `json:"set,omitempty"`
	// Pays names the guards that the method breaks.
	Pays []string `json:"guards_broken,omitempty"`
	Text string   `json:"text"`

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

// Change of a parameter. An empty value is that of a parameter without effect.
type Change struct {
	Parameter string `json:"parameter"`
	From      string `json:"from"`
	To        string `json:"to"`
}

// AnswerOf draws the conclusion of an evaluation.
func AnswerOf(r *replay.Report) Answer { return (&document{r}).answer() }

func (r *document) answer() Answer {
	if len(r.Methods) == 0 {
		return Answer{Once: Comparison{Finding: NotEvaluated}, Tuning: Comparison{Finding: NotEvaluated}}
	}
	base := &r.Methods[0]
	a := Answer{Once: r.once(base)}
	if a.Once.Finding == Better {
		a.Tuning = r.tuning(a.Once.of)
	} else {
		a.Tuning = r.tuning(base)
	}
	a.Once.Text, a.Tuning.Text = r.onceText(&a), r.tuningText(&a)
	r.apply(&a)
	return a
}

// apply fills in how to run what the answer recommends.
func (r *document) apply(a *Answer) {
	set := r.set(r.Baseline.Configuration)
	switch {
	case a.Once.Finding == Better:
		set = a.Once.Set
		a.Flags = cmp.Or(flags(set), "(no --set: the defaults)")
	case a.Tuning.Finding != Better:
		return
	}
	if len(r.Cluster.Groups) == 1 {
		a.Register = strings.TrimSpace(fmt.Sprintf("autosched scheduler register --builtin %s --nodes %d --gpus-per-node %d %s",
			r.Scheduler, r.Cluster.Nodes(), r.Cluster.GPUsPerNode(), flags(set)))
	}
}

// set has the parameters of a configuration that differ from the scheduler's default.
func (r *document) set(config string) []string {
	var out []string
	for _, x := range changes(r.Baseline.Default, config) {
		if x.To != "" {
			out = append(out, x.Parameter+"="+x.To)
		}
	}
	return out
}

func flags(set []string) string {
	if len(set) == 0 {
		return ""
	}
	return "--set " + strings.Join(set, " --set ")
}

// Sentences are the two parts, that with a gain first.
func (a *Answer) Sentences() []string {
	if a.Once.Finding != Better && a.Tuning.Finding == Better {
		return []string{a.Tuning.Text, a.Once.Text}
	}
	return []string{a.Once.Text, a.Tuning.Text}
}

// once finds the configuration to change to. Of those within noise of the best it takes one
// that keeps the guards, with the fewest changes.
func (r *document) once(base *replay.Method) Comparison {
	var all, better []Comparison
	for i := range r.Methods[1:] {
		m := &r.Methods[i+1]
		if roleOf(m) != roleFixed {
			continue
		}
		c := r.compare(firstSeed(m), base)
		if _, _, luck := r.luck(base, m); luck {
			c.Finding = Luck
		}
		c.Changes = changes(base.Configuration, m.Configuration)
		c.Set = r.set(m.Configuration)
		all = append(all, c)
		if c.Finding == Better {
			better = append(better, c)
		}
	}
	if len(all) == 0 {
		return Comparison{Finding: NotEvaluated}
	}
	byValue := func(a, b Comparison) int { return cmp.Compare(b.ratio, a.ratio) }
	if len(better) == 0 {
		return slices.MinFunc(all, byValue)
	}
	best := slices.MinFunc(better, byValue)
	better = slices.DeleteFunc(better, func(c Comparison) bool { return best.ratio/c.ratio >= noise })
	return slices.MinFunc(better, func(a, b Comparison) int {
		return cmp.Or(cmp.Compare(min(1, len(a.Pays)), min(1, len(b.Pays))),
			cmp.Compare(len(a.Changes), len(b.Changes)), byValue(a, b))
	})
}

// firstSeed is a method with the outcome of the seed whose configuration it names.
func firstSeed(m *replay.Method) *replay.Method {
	if len(m.Seeds) == 0 {
		return m
	}
	return &replay.Method{Method: m.Method, Description: m.Description, Outcome: m.Seeds[0]}
}

// tuning compares AutoSched's tuning, or else the best adaptive method, with what is in
// force without it.
func (r *document) tuning(held *replay.Method) Comparison {
	m := r.tuner()
	if m == nil {
		return Comparison{Finding: NotEvaluated}
	}
	c := r.compare(m, held)
	if control := r.find("random-preset"); c.Finding == Better && control != nil && r.over(control, m) < noise {
		c.Finding = NoControl
	}
	return c
}

func (r *document) tuner() *replay.Method {
	best := r.find("autosched")
	for i := range r.Methods {
		m := &r.Methods[i]
		if roleOf(m) == roleAdaptive && (best == nil || best.Method != "autosched" && r.value(m) < r.value(best)) {
			best = m
		}
	}
	return best
}

// compare finds whether m is better than another method.
func (r *document) compare(m, against *replay.Method) Comparison {
	c := Comparison{Method: m.Method, Against: against.Method, of: m, ratio: r.over(against, m)}
	c.Gain = &Gain{Percent: gainOf(c.ratio)}
	if lo, hi, ok := r.interval(m, against); ok {
		c.Gain.Interval = &Interval{gainOf(lo), gainOf(hi)}
	}
	if m.Guards != nil {
		c.Pays = m.Guards.Broken
	}
	lo, hi, luck := r.luck(against, m)
	c.spread = [2]float64{lo, hi}
	switch {
	case luck:
		c.Finding = Luck
	case c.ratio <= 1/noise:
		c.Finding = Worse
	case c.ratio < noise:
		c.Finding = WithinNoise
	case c.Gain.Interval != nil && c.Gain.Interval.Low <= 0:
		c.Finding = Chance
	default:
		c.Finding = Better
	}
	return c
}

// gainOf is a ratio's gain in percent.
func gainOf(ratio float64) float64 { return 100 * (1 - 1/ratio) }

// onceText is the sentence on changing once.
func (r *document) onceText(a *Answer) string {
	c, run := &a.Once, "what you run"
	if r.Baseline.Assumed {
		run = "the defaults"
	}
	none := fmt.Sprintf("no configuration that could be chosen beforehand is better by more than noise (%s)", Noise())
	switch c.Finding {
	case NotEvaluated:
		return "Change once: not evaluated, as neither preset nor fixed-history is among the methods."
	case Better:
		return fmt.Sprintf("Change once: %s (%s %s -> %s, %s)%s.", r.setText(c), r.objective(),
			r.figure(&r.Methods[0]), r.figure(c.of), r.gainText(c), paysText(c))
	case Chance, Luck:
		none = fmt.Sprintf("the best configuration, %s, is %s", c.Method, r.doubtText(c))
	}
	switch {
	case a.Tuning.Finding == Better:
		return "Change once: " + none + "."
	case r.Baseline.Assumed:
		return fmt.Sprintf("Keep %s, if they are what you run: %s.", run, none)
	}
	return fmt.Sprintf("Keep %s: %s.", run, none)
}

// setText names what to change.
func (r *document) setText(c *Comparison) string {
	const most = 4
	if n := len(c.Changes); n == 0 || n > most {
		return fmt.Sprintf("to %s, %d parameters", c.Method, n)
	}
	var parts []string
	for _, x := range c.Changes {
		if x.To != "" {
			parts = append(parts, x.Parameter+"="+x.To)
		}
	}
	return "set " + strings.Join(parts, ", ")
}

// tuningText is the sentence on tuning every round.
func (r *document) tuningText(a *Answer) string {
	c := &a.Tuning
	every := "hour"
	if r.IntervalS != time.Hour.Seconds() {
		every = units.Duration(r.IntervalS)
	}
	text := "Tuning every " + every
	if c.Finding == NotEvaluated {
		return text + ": not evaluated, as autosched is not among the methods."
	}
	if c.Method != "autosched" {
		text += " by " + c.Method
	}
	if a.Once.Finding == Better {
		text += " on top"
	}
	switch c.Finding {
	case Better, Worse:
		text += ": " + r.gainText(c)
	case WithinNoise:
		text += fmt.Sprintf(": %s, within noise (%s)", r.less(c.Gain.Percent), Noise())
	case NoControl:
		text += fmt.Sprintf(": %s, but presets drawn at random do as well", r.gainText(c))
	default:
		text += ": " + r.doubtText(c)
	}
	return text + paysText(c) + "."
}

// doubtText is a gain that was not shown.
func (r *document) doubtText(c *Comparison) string {
	if c.Finding == Luck {
		return fmt.Sprintf("a matter of luck, by seed from %s to %s", r.less(gainOf(c.spread[0])),
			r.less(gainOf(c.spread[1])))
	}
	return r.gainText(c) + ", which may be chance"
}

// gainText is a gain with its interval.
func (r *document) gainText(c *Comparison) string {
	text := r.less(c.Gain.Percent)
	if x := c.Gain.Interval; x != nil {
		low, high := x.Low, x.High
		if c.Gain.Percent < 0 {
			low, high = -high, -low
		}
		return text + fmt.Sprintf(", 95 %% interval %.1f to %.1f %%", low, high)
	}
	return text + ", without an interval"
}

// less says by how many percent the objective is less.
func (r *document) less(percent float64) string {
	less, more := "shorter", "longer"
	if !strings.HasSuffix(r.Objective, "jct") {
		less, more = "lower", "higher"
	}
	switch {
	case math.Abs(percent) < .05:
		return "no difference"
	case percent < 0:
		less = more
	}
	return fmt.Sprintf("%.1f %% %s", math.Abs(percent), less)
}

// paysText says who pays for a gain; it is empty if no guard is broken.
func paysText(c *Comparison) string {
	if len(c.Pays) == 0 || c.Finding != Better {
		return ""
	}
	return "; who pays: " + BrokenText(c.Pays)
}

// changes are the parameters in which two configurations, as texts, differ.
func changes(from, to string) []Change {
	was := map[string]string{}
	var out []Change
	for _, s := range strings.Fields(from) {
		name, value, _ := strings.Cut(s, "=")
		was[name] = value
	}
	for _, s := range strings.Fields(to) {
		name, value, _ := strings.Cut(s, "=")
		if was[name] != value {
			out = append(out, Change{name, was[name], value})
		}
		delete(was, name)
	}
	for _, s := range strings.Fields(from) {
		if name, value, _ := strings.Cut(s, "="); was[name] != "" {
			out = append(out, Change{name, value, ""})
		}
	}
	return out
}

// value returns the objective of a method.
func (r *document) value(m *replay.Method) float64 { return r.valueOf(&m.Outcome) }

func (r *document) valueOf(m *replay.Outcome) float64 {
	switch r.Objective {
	case "p50_jct":
		return m.P50JCT
	case "p95_jct":
		return m.P95JCT
	case "p99_jct":
		return m.P99JCT
	case "ftf":
		return 1 - m.FTFLe1
	case "p95_rho":
		return m.P95Rho
	case "max_rho":
		return m.MaxRho
	}
	return m.AvgJCT
}

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

// figure is a method's value in words.
func (r *document) figure(m *replay.Method) string {
	if strings.HasSuffix(r.Objective, "rho") || r.Objective == "ftf" {
		return round.FormatMetric(r.Objective, r.value(m))
	}
	return units.Duration(r.value(m))
}

func (r *document) objective() string {
	switch r.Objective {
	case "ftf":
		return "unfair share of jobs (rho above 1)"
	case "p95_rho":
		return "p95 of rho"
	case "max_rho":
		return "peak rho"
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
	Means  string // what a gain over it shows
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

// BrokenText lists the first of the guards that a method breaks.
func BrokenText(broken []string) string {
	const most = 3
	if n := len(broken); n > most {
		return strings.Join(broken[:most], "; ") + fmt.Sprintf("; and %d more", n-most)
	}
	return strings.Join(broken, "; ")
}

// InHindsight describes what stands beside the best fixed configuration in hindsight; it
// is empty if that was not evaluated.
func InHindsight(r *replay.Report) string {
	m := (&document{r}).find("fixed-oracle")
	if m == nil || m.Hindsight == nil {
		return ""
	}
	h, base := m.Hindsight, m.AvgJCT*m.Ratio
	figure := func(v float64) string { return fmt.Sprintf("%.0f s (ratio %.3f)", v, base/v) }
	return fmt.Sprintf("fixed-oracle is the best of many in hindsight, which is partly luck: configurations within "+
		"3 %% of its numbers have an average JCT of %s. The best that keeps the guards has %s, its neighbours %s.",
		figure(h.RobustJCT), figure(h.GuardedJCT), figure(h.GuardedRobustJCT))
}

// interval is a 95 % interval of b's objective over a's (stats.RatioInterval). Fairness
// has none.
func (r *document) interval(a, b *replay.Method) (lo, hi float64, ok bool) {
	if a == b {
		return 0, 0, false
	}
	switch r.Objective {
	case "avg_jct":
		return stats.RatioInterval(jctsOf(a), jctsOf(b), r.Seed)
	case "p50_jct", "p95_jct", "p99_jct":
		percent, _ := strconv.Atoi(r.Objective[1:3])
		return stats.QuantileRatioInterval(jctsOf(a), jctsOf(b), float64(percent)/100, r.Seed)
	}
	return 0, 0, false
}

// jctsOf are the JCTs of each seed of a method.
func jctsOf(m *replay.Method) [][]float64 {
	var out [][]float64
	for _, s := range seedsOf(m) {
		out = append(out, s.JCTs)
	}
	return out
}
