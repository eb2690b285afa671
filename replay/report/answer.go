package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
)

// Answer says whether to change the settings, to what, and with what gain.
type Answer struct {
	// Once is the verdict: Better if the configuration changes, BreaksGuards if a change is refused.
	Once Comparison `json:"change_once"`
	// Tuning compares tuning every round with the configuration that Once leaves in force.
	Tuning Comparison `json:"tuning"`
	// Flags name the configuration to change to, to simulate, tune and evaluate; empty if
	// no single change is worth it. Register is the command that registers the configuration to run
	// with the service; empty if nothing gains, or the cluster has several kinds of nodes.
	Flags    string `json:"flags,omitempty"`
	Register string `json:"register,omitempty"`
	// Configuration is the whole configuration that Flags name.
	Configuration string `json:"configuration,omitempty"`
	// Waits compare how long groups of jobs wait before the change with how long they do after it.
	Waits []round.Group `json:"waits,omitempty"`
}

// AnswerOf draws the conclusion of an evaluation.
func AnswerOf(r *replay.Report) Answer { return (&document{r}).answer() }

func (r *document) answer() Answer {
	if len(r.Methods) == 0 {
		return Answer{Once: Comparison{Finding: NotEvaluated}, Tuning: Comparison{Finding: NotEvaluated}}
	}
	a := Answer{Once: Comparison{Finding: NotEvaluated}}
	if r.Verdict != nil {
		a.Once = r.verdict()
	}
	if r.replaced(&a) {
		a.Tuning = r.tuning(a.Once.of)
	} else {
		a.Tuning = r.tuning(&r.Methods[0])
	}
	a.Tuning.Text = r.tuningText(&a)
	r.apply(&a)
	return a
}

// replaced reports whether tuning is compared with the configuration to change to, not with the baseline.
func (r *document) replaced(a *Answer) bool {
	return a.Once.of != nil && a.Once.Finding == Better
}

// verdict is the comparison of the verdict's configuration with the baseline.
func (r *document) verdict() Comparison {
	v := r.Verdict
	c := Comparison{Finding: WithinNoise, Text: v.Text, Against: r.Baseline.Method}
	if !v.Change && v.Refused == nil {
		return c
	}
	c.Changes = v.Changes
	to := v.Configuration
	c.Finding, c.Gain = Better, &Gain{Percent: 100 * v.Gain, Interval: &Interval{100 * v.Low, 100 * v.High}}
	if !v.Change {
		to = v.Refused.Configuration
		c.Finding, c.Gain, c.Pays = BreaksGuards, &Gain{Percent: 100 * v.Refused.Gain}, v.Refused.Breaks
	}
	for i := range r.Methods {
		if m := &r.Methods[i]; roleOf(m) == roleFixed && m.Configuration == to.String() {
			c.of, c.Method = m, m.Method
		}
	}
	return c
}

// apply fills in the commands of the recommendation.
func (r *document) apply(a *Answer) {
	set := r.flags(r.Baseline.Configuration)
	if a.Once.of != nil && a.Once.gains() {
		a.Waits = round.Groups(replay.Changes(r.Counted, r.Methods[0].Rows, a.Once.of.Rows))
	}
	switch {
	case r.Verdict != nil && r.Verdict.Change:
		a.Configuration, a.Flags = r.Verdict.Configuration.String(), r.Verdict.Flags
		set = r.flags(a.Configuration)
	case a.Tuning.Finding != Better:
		return
	}
	if len(r.Cluster.Groups) == 1 && len(r.Cluster.Site.Partitions) == 0 { // --nodes says all there is to say of it
		a.Register = fmt.Sprintf("autosched scheduler register --builtin %s --nodes %d --gpus-per-node %d%s",
			r.Scheduler, r.Cluster.Nodes(), r.Cluster.GPUsPerNode(), set)
	}
}

// flags set the parameters of a configuration that differ from the scheduler's default.
func (r *document) flags(config string) string {
	out := ""
	for _, x := range changes(r.Baseline.Default, config) {
		if x.To != "" {
			out += " --set " + x.Parameter + "=" + x.To
		}
	}
	return out
}

// Sentences are the two parts, that with a gain first.
func (a *Answer) Sentences() []string {
	if a.Once.Finding != Better && a.Once.Finding != BreaksGuards && a.Tuning.Finding == Better {
		return []string{a.Tuning.Text, a.Once.Text}
	}
	return []string{a.Once.Text, a.Tuning.Text}
}

// gains reports whether a change is worth it, at least on a condition.
func (c *Comparison) gains() bool { return c.Finding == Better || c.Finding == BreaksGuards }

// tuning compares AutoSched's tuning, or else the best adaptive method, with the best in
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

// changes are the parameters in which two configurations, as texts, differ.
func changes(from, to string) []replay.SettingChange {
	was := map[string]string{}
	var out []replay.SettingChange
	for _, s := range strings.Fields(from) {
		name, value, _ := strings.Cut(s, "=")
		was[name] = value
	}
	for _, s := range strings.Fields(to) {
		name, value, _ := strings.Cut(s, "=")
		if was[name] != value {
			out = append(out, replay.SettingChange{Parameter: name, From: was[name], To: value})
		}
		delete(was, name)
	}
	for _, s := range strings.Fields(from) {
		if name, value, _ := strings.Cut(s, "="); was[name] != "" {
			out = append(out, replay.SettingChange{Parameter: name, From: value})
		}
	}
	return out
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
	switch {
	case r.replaced(a) && c.ratio < 1/noise: // it begins with the baseline, and falls behind
		text += " instead"
	case r.replaced(a):
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
		return text + fmt.Sprintf(", 95 %% interval %.1f to %.1f %%", units.Tenth(low), units.Tenth(high))
	}
	if r.overJobs() {
		return text + " (too few jobs for an interval)"
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

// paysText names the groups of jobs that wait longer by a gain, the worst first, and the other guards that it breaks.
func paysText(c *Comparison) string {
	if !c.gains() || c.of.Guards == nil {
		return ""
	}
	if text := PriceText(c.of.Guards); text != "" {
		return "; the price: " + text
	}
	return ""
}

// PriceText names the groups of jobs that wait longer, the worst first, and the other guards that are broken.
func PriceText(g *replay.Guards) string {
	const most = 3
	var parts []string
	for i := range g.Losers {
		parts = append(parts, g.Losers[i].String())
	}
	broken := slices.DeleteFunc(slices.Clone(g.Broken), func(text string) bool { return slices.Contains(parts, text) })
	if n := len(parts); n > most {
		parts = append(parts[:most], fmt.Sprintf("%d more groups", n-most))
	}
	return strings.Join(append(parts, broken...), "; ")
}

// BaselineText names the baseline, and how to name another.
func BaselineText(r *replay.Report) string {
	if r.Baseline.Assumed {
		return fmt.Sprintf("Baseline: the defaults of %s, as no configuration was named. Name yours with --config FILE, "+
			"--set key=value or --preset NAME.", r.Scheduler)
	}
	var differs []string
	for _, x := range changes(r.Baseline.Default, r.Baseline.Configuration) {
		differs = append(differs, x.Parameter+"="+cmp.Or(x.To, "-"))
	}
	if len(differs) == 0 {
		return fmt.Sprintf("Baseline: the configuration that you run (current), which is the default of %s.",
			r.Scheduler)
	}
	return fmt.Sprintf("Baseline: the configuration that you run (current), the default of %s but for %s.", r.Scheduler,
		strings.Join(differs, ", "))
}

// InHindsight describes the neighbours of the best fixed configuration in hindsight; it
// is empty if that was not evaluated.
func InHindsight(r *replay.Report) string {
	m := (&document{r}).find("fixed-oracle")
	if m == nil || m.Hindsight == nil {
		return ""
	}
	h, base := m.Hindsight, r.Methods[0].AvgJCT
	figure := func(v float64) string { return fmt.Sprintf("%.0f s (ratio %.3f)", v, base/v) }
	return fmt.Sprintf("fixed-oracle is the best of many in hindsight, which is partly luck: configurations within "+
		"3 %% of its numbers have an average JCT of %s. The best that keeps the guards has %s, its neighbours %s.",
		figure(h.RobustJCT), figure(h.GuardedJCT), figure(h.GuardedRobustJCT))
}
