package round

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/search"
)

// Source is the origin of a configuration in plain words, given its trial's origin.
func Source(origin string) string {
	kind, name, _ := strings.Cut(origin, ":")
	switch kind {
	case "default":
		return "the default"
	case "incumbent":
		return "the incumbent"
	case "preset":
		return "preset " + name
	case "single":
		return name
	case "row":
		return "row " + name
	case "part":
		return "part of " + name
	case "past", "like":
		return "an earlier configuration"
	}
	return "search"
}

// source is Source, with the instant at which an earlier configuration was found.
func (r *Round) source(origin string) string {
	if name, ok := r.origins[origin]; ok {
		return name
	}
	return Source(origin)
}

// Label names a metric of a goal in plain words.
func Label(metric string) string {
	switch metric {
	case "ftf":
		return "share of jobs with rho above 1"
	case missesMetric:
		return "share of missed deadlines"
	case "co2":
		return "CO2"
	case "edp":
		return "energy-delay product"
	case "short_avg_jct":
		return "average JCT of short jobs"
	}
	of, what, ok := strings.Cut(metric, "_")
	if _, known := metrics[metric]; !ok || !known {
		return metric
	}
	of = map[string]string{"avg": "average", "p50": "median", "max": "largest"}[of] + map[string]string{
		"p95": "p95", "p99": "p99"}[of]
	return of + map[string]string{"jct": " JCT", "queue": " queueing delay", "rho": " rho"}[what]
}

// Title names the objective with its unit, such as "average JCT (s)".
func (g *Goal) Title() string {
	name := g.name(0)
	switch metrics[name].unit {
	case "s":
		return Label(name) + " (s)"
	case "%":
		return Label(name) + " (from 0 to 1)"
	case "":
		return Label(name)
	}
	return fmt.Sprintf("%s (%s)", Label(name), metrics[name].unit)
}

// value formats a value of rank k for people, spans of time by a function.
func (g *Goal) value(k int, v float64, duration func(float64) string) string {
	if m, ok := metrics[g.name(k)]; ok && m.unit == "s" {
		return duration(v)
	}
	return g.formatRank(k, v)
}

// Influence is a controllable ratio as the saved share of the controllable part
// of the objective, which is above its floor.
func Influence(ratio float64) string {
	return fmt.Sprintf("%.0f %% of what settings can influence", 100*(1-1/ratio))
}

// change describes the effect of a candidate: the objective of rank k before and after, the
// share of the controllable part if that is not all, and in how many futures it is better.
func (r *Round) change(k int, before, after, ratio float64, was, now *search.Measurement) string {
	from, to := r.Goal.value(k, before, units.Duration), r.Goal.value(k, after, units.Duration)
	if from == to { // all digits
		from, to = r.Goal.value(k, before, units.Exact), r.Goal.value(k, after, units.Exact)
	}
	text := fmt.Sprintf("%s %s (%s -> %s)", Label(r.Goal.name(k)), changeOf(before, after), from, to)
	if mean(was.Floors) > 0 {
		text += ", " + Influence(ratio)
	}
	better := 0
	for i, v := range now.Values {
		if i < len(was.Values) && v < was.Values[i] {
			better++
		}
	}
	return text + fmt.Sprintf("; better in %d of %d futures", better, len(now.Values))
}

// changeOf formats a relative change with the digits that show it.
func changeOf(before, after float64) string {
	if before == 0 {
		return "+0.0 %"
	}
	x := after/before - 1
	if x != 0 && math.Abs(x) < .001 {
		return fmt.Sprintf("%+.2f %%", 100*x)
	}
	return units.Change(x)
}

func mean(v []float64) float64 { return search.Measurement{Values: v}.Mean() }

// whyNone explains why no candidate may replace the incumbent.
func (r *Round) whyNone(out *Result) string {
	top := r.lowest(slices.DeleteFunc(slices.Clone(out.Trials), func(t search.Trial) bool {
		return !t.OK() || t.Measurement.Measured > 0 || r.refuses(t.Config) || !t.Measurement.Feasible()
	}))
	switch {
	case top == nil && anyInfeasible(out.Trials):
		return r.noneFeasible(slices.DeleteFunc(slices.Clone(out.Trials),
			func(t search.Trial) bool { return r.refuses(t.Config) || !t.OK() }))
	case top == nil:
		return "No candidate could be measured."
	case !r.satisfies(top):
		return fmt.Sprintf("The best on average (%s) may break a constraint%s.", r.source(top.Origin), tightest(top))
	}
	return noneBetter(out)
}

func anyInfeasible(trials []search.Trial) bool {
	return slices.ContainsFunc(trials, func(t search.Trial) bool { return t.OK() && !t.Measurement.Feasible() })
}

func noneBetter(out *Result) string {
	text := fmt.Sprintf("None of %d configurations is better than the one in force", len(out.Trials))
	if anyInfeasible(out.Trials) {
		text += " and keeps to the constraints"
	}
	return text + "."
}

// noneFeasible says that no trial satisfies the constraints, and which comes closest.
func (r *Round) noneFeasible(trials []search.Trial) string {
	var nearest *search.Trial
	for i := range trials {
		if t := &trials[i]; t.OK() && (nearest == nil ||
			t.Measurement.Worst().Excess() < nearest.Measurement.Worst().Excess()) {
			nearest = t
		}
	}
	if nearest == nil {
		return "No candidate could be measured."
	}
	return fmt.Sprintf("None of %d configurations keeps to the constraints, "+
		"so the one in force stays; the nearest (%s) %s.",
		len(trials), r.source(nearest.Origin), describeLimit(nearest.Measurement.Worst()))
}

// describeLimit says by how much a limit is kept or broken.
func describeLimit(l *search.Limit) string {
	of := l.Name
	if l.Of != "" {
		of += " of " + l.Of
	}
	switch x := l.Excess(); {
	case x >= 10:
		return "breaks " + of + " by far"
	case x > 0:
		return fmt.Sprintf("is %.1f %% above %s", 100*x, of)
	default:
		text := fmt.Sprintf("keeps to %s with %.1f %% to spare", of, 100*math.Abs(x))
		if l.Paired {
			text += fmt.Sprintf(" and probability %.2f", l.Kept())
		}
		return text
	}
}

// tightest describes the limit with the least margin; "" if there is none.
func tightest(t *search.Trial) string {
	var l *search.Limit
	for i := range t.Measurement.Limits {
		x := &t.Measurement.Limits[i]
		if l == nil || x.Paired && !l.Paired ||
			x.Paired == l.Paired && (x.Kept() < l.Kept() || x.Kept() == l.Kept() && x.Excess() > l.Excess()) {
			l = x
		}
	}
	if l == nil {
		return ""
	}
	return "; it " + describeLimit(l)
}
