package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
)

// noise is the ratio below which two results count as equal: about the variation of
// tuning methods between seeds.
const noise = 1.02

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
	case "default", "preset", "fixed-history":
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

// verdict is the conclusion about adaptive tuning.
type verdict struct {
	Class string // good, bad or open
	Title string
	Text  []string
	Best  string // the adaptive method it is about
	Rows  []comparison
}

// Headline returns the verdict's title: whether tuning was worth it.
func Headline(r *replay.Report) string { return (&document{r}).verdict().Title }

// comparison of the best adaptive method with another.
type comparison struct {
	Method  *replay.Method
	Means   string // what a gain over it shows
	Ratio   float64
	Text    string // difference, in words
	Class   string
	Between string // interval of the ratio
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

// difference describes how a compares with b, given b / a.
func difference(ratio float64) (text, class string) {
	switch {
	case ratio >= noise:
		return fmt.Sprintf("%.1f %% shorter than", 100*(1-1/ratio)), "good"
	case ratio > 1/noise:
		return "within 2 % of", "same"
	}
	return fmt.Sprintf("%.1f %% longer than", 100*(1/ratio-1)), "bad"
}

// percent describes a ratio exactly.
func percent(ratio float64) string {
	if ratio < 1 {
		return fmt.Sprintf("%.1f %% longer", 100*(1/ratio-1))
	}
	return fmt.Sprintf("%.1f %% shorter", 100*(1-1/ratio))
}

// lowest of the methods that have one of the roles; nil if there is none.
func (r *document) lowest(roles ...role) *replay.Method {
	var best *replay.Method
	for i := range r.Methods {
		m := &r.Methods[i]
		if slices.Contains(roles, roleOf(m)) && (best == nil || r.value(m) < r.value(best)) {
			best = m
		}
	}
	return best
}

func (r *document) find(name string) *replay.Method {
	for i := range r.Methods {
		if r.Methods[i].Method == name {
			return &r.Methods[i]
		}
	}
	return nil
}

// verdict compares the best adaptive method with the best fixed one, the control and
// hindsight.
func (r *document) verdict() verdict {
	best := r.lowest(roleAdaptive)
	if best == nil {
		return r.verdictWithout()
	}
	v := verdict{Best: best.Method, Rows: r.comparisons(best)}
	rival := r.lowest(roleFixed)
	if rival == nil {
		rival = r.lowest(roleHindsight)
	}
	if rival == nil {
		v.Class, v.Title = "open", "Undecided: nothing to compare "+best.Method+" with"
		v.Text = []string{fmt.Sprintf("%s has an %s of %s (ratio to the default %.3f); "+
			"neither the default nor a fixed configuration was evaluated beside it.",
			best.Method, r.objective(), r.figure(best), best.Ratio)}
		return v
	}
	v.Class, v.Title = r.judge(best, rival)
	v.Text = r.explain(best, rival, v.Rows)
	return v
}

// comparisons compares the best adaptive method with its evaluated alternatives.
func (r *document) comparisons(best *replay.Method) []comparison {
	var rows []comparison
	for _, c := range [...]struct{ name, means string }{
		{"default", "what leaving everything alone costs"},
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
		row := comparison{Method: m, Means: c.means, Ratio: r.over(m, best)}
		row.Text, row.Class = difference(row.Ratio)
		if lo, hi, ok := r.interval(best, m); ok {
			row.Between = fmt.Sprintf("%.3f to %.3f", lo, hi)
			if lo <= 1 && hi >= 1 {
				row.Class = "same"
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// judge returns whether the best adaptive method is worth it, with the first reason
// against it that holds.
func (r *document) judge(best, rival *replay.Method) (class, title string) {
	better := func(m *replay.Method) float64 { return r.over(m, best) }
	hindsight, control := r.lowest(roleHindsight), r.find("random-preset")
	compared := r.find("preset") != nil || r.find("fixed-history") != nil || hindsight != nil
	where := "here"
	if r.Synthetic {
		where = "on this synthetic workload"
	}
	lo, _, known := r.interval(best, rival)
	text, _ := difference(better(rival))
	gain := strings.TrimSuffix(text, " than")
	least, most, luck := r.luck(rival, best)
	switch {
	case luck:
		return "open", fmt.Sprintf("Depends on luck %s: by seed from %s to %s than %s", where, percent(least),
			percent(most), called(rival))
	case better(rival) <= 1/noise:
		return "bad", fmt.Sprintf("Not worth it %s: simply keeping %s is better", where, called(rival))
	case better(rival) < noise:
		return "bad", fmt.Sprintf("Not worth it %s: no gain over simply keeping %s", where, called(rival))
	case !compared:
		return "open", "Better than the default, but no preset or tuned fixed configuration was evaluated"
	case control != nil && better(control) < noise:
		return "bad", fmt.Sprintf("Not shown %s: presets drawn at random do as well", where)
	case known && lo <= 1:
		return "open", fmt.Sprintf("Not shown %s: %s than %s, but that may be chance", where, gain, called(rival))
	case hindsight != nil && better(hindsight) < noise:
		return "open",
			fmt.Sprintf("A gain %s over what could be chosen beforehand, none over the best fixed configuration",
				where)
	}
	return "good", fmt.Sprintf("Worth it %s: %s than %s", where, gain, called(rival))
}

// explain returns the figures behind a verdict, in sentences.
func (r *document) explain(best, rival *replay.Method, rows []comparison) []string {
	var parts []string
	for i := range rows {
		if m := rows[i].Method; roleOf(m) == roleFixed || roleOf(m) == roleHindsight {
			parts = append(parts, rows[i].Text+" "+called(m))
		}
	}
	first := fmt.Sprintf("%s has an %s of %s", best.Method, r.objective(), r.figure(best))
	if strings.HasPrefix(r.objective(), "p") {
		first = strings.Replace(first, "has an", "has a", 1)
	}
	if n := r.adaptive(); n > 1 {
		first = fmt.Sprintf("The best of %d adaptive methods, %s", n, first)
	}
	out := []string{first + ": " + list(parts) + "."}
	if n := len(best.Seeds); n > 1 {
		out = append(out, fmt.Sprintf("That is the mean of %d seeds; their average JCTs differ by %.1f %%.", n,
			100*best.Spread))
	}
	if g := best.Guards; g != nil && len(g.Broken) > 0 {
		out = append(out, "Not all gain: "+BrokenText(g)+".")
	}
	if own := r.find("autosched"); own != nil && own != best {
		parts = nil
		for _, m := range []*replay.Method{best, rival} {
			t, _ := difference(r.over(m, own))
			parts = append(parts, t+" "+called(m))
		}
		out = append(out, "autosched itself is "+list(parts)+".")
	}
	if control := r.find("random-preset"); control != nil {
		t, _ := difference(r.over(control, best))
		out = append(out, "The random-preset control shows how much of that comes from changing at all: "+
			best.Method+" is "+t+" it.")
	}
	return out
}

// verdictWithout returns the verdict of a report without an adaptive method.
func (r *document) verdictWithout() verdict {
	v := verdict{Class: "open", Title: "No adaptive method was evaluated"}
	if len(r.Methods) == 0 {
		v.Text = []string{"The report has no method."}
		return v
	}
	best := &r.Methods[0]
	for i := range r.Methods {
		if r.value(&r.Methods[i]) < r.value(best) {
			best = &r.Methods[i]
		}
	}
	if len(r.Methods) == 1 {
		v.Text = []string{fmt.Sprintf(
			"Only %s was evaluated: %s of %s, ratio to the default %.3f. There is no method to compare it with.",
			best.Method,
			r.objective(), r.figure(best), best.Ratio)}
		return v
	}
	v.Text = []string{fmt.Sprintf(
		"Of the %d methods evaluated, %s has the lowest %s: %s, ratio to the default %.3f. None of them tunes "+
			"every round on the events so far.",
		len(r.Methods), best.Method, r.objective(), r.figure(best), best.Ratio)}
	return v
}

func (r *document) adaptive() int {
	n := 0
	for i := range r.Methods {
		if roleOf(&r.Methods[i]) == roleAdaptive {
			n++
		}
	}
	return n
}

// BrokenText lists the first guards that a method breaks.
func BrokenText(g *replay.Guards) string {
	const most = 3
	if n := len(g.Broken); n > most {
		return strings.Join(g.Broken[:most], "; ") + fmt.Sprintf("; and %d more", n-most)
	}
	return strings.Join(g.Broken, "; ")
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

// called names a method in a sentence.
func called(m *replay.Method) string {
	switch m.Method {
	case "default", "preset":
		return "the " + m.Method
	}
	return m.Method
}

func list(parts []string) string {
	switch n := len(parts); n {
	case 0:
		return ""
	case 1, 2:
		return strings.Join(parts, " and ")
	default:
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
}

// interval is a 95 % interval of b's average JCT over a's (stats.RatioInterval). Only
// averages have one.
func (r *document) interval(a, b *replay.Method) (lo, hi float64, ok bool) {
	if a == b || r.objective() != "average JCT" {
		return 0, 0, false
	}
	return stats.RatioInterval(jctsOf(a), jctsOf(b), r.Seed)
}

// jctsOf are the JCTs of each seed of a method.
func jctsOf(m *replay.Method) [][]float64 {
	var out [][]float64
	for _, s := range seedsOf(m) {
		out = append(out, s.JCTs)
	}
	return out
}
