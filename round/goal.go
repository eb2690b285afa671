package round

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/units"
)

// Goal is the objective that a search minimises, with constraints. Its text (ParseGoal)
// is
//
//	OBJECTIVE [subject to CONSTRAINT, CONSTRAINT ...]
//
// An objective is a metric (avg_jct), a weighted sum of metrics, each as a ratio
// to the incumbent's (0.7*avg_jct + 0.3*p99_jct), or metrics in lexicographic order with
// tolerances (p99_jct within 2% then avg_jct): of the configurations whose first metric
// is within 2 % of the best (1 % if omitted), the one whose second is lowest. A
// constraint bounds a metric by a multiple of the incumbent's, a number or both:
// p99_jct <= 1.1*incumbent, avg_queue <= 30m, tenant_p95_queue <= 1.1*incumbent + 60s.
type Goal struct {
	// Terms of a weighted sum; one of weight 1 is the metric itself.
	Terms []Term
	// Then are the metrics after the objective, in lexicographic order.
	Then        []Rank
	Constraints []Constraint
}

// Term is a metric with its weight.
type Term struct {
	Weight float64
	Metric string
}

// Rank is a metric that decides among configurations whose metric before it is
// within the share Within of the best.
type Rank struct {
	Within float64
	Metric string
}

// Constraint bounds a metric by Factor times the incumbent's plus Slack. For a tenants'
// metric it holds for each tenant.
type Constraint struct {
	Metric string
	Factor float64
	Slack  float64
}

// defaultWithin is the default tolerance, less than the variation between seeds.
const defaultWithin = .01

const subjectTo = "subject to"

// ParseGoal reads a goal. Errors name the part that is wrong.
func ParseGoal(text string) (Goal, error) {
	var g Goal
	objective, rest, constrained := strings.Cut(text, subjectTo)
	ranks := strings.Split(objective, " then ")
	within := defaultWithin
	for i, r := range ranks {
		metric, tolerance, has := strings.Cut(r, " within ")
		if has && i == len(ranks)-1 {
			return g, fmt.Errorf("objective: %q: want then and a metric after a tolerance", strings.TrimSpace(r))
		}
		if i == 0 {
			if err := g.parseTerms(metric); err != nil {
				return g, err
			}
		} else {
			name, err := ParseMetric(metric)
			if err != nil {
				return g, fmt.Errorf("objective: %w", err)
			}
			if g.names(name) {
				return g, fmt.Errorf("objective: %s is named twice", name)
			}
			g.Then = append(g.Then, Rank{within, name})
		}
		if within = defaultWithin; has {
			share, ok := strings.CutSuffix(strings.TrimSpace(tolerance), "%")
			v, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
			if !ok || err != nil || !(v >= 0 && v < 100) {
				return g, fmt.Errorf("objective: within %q: want a share such as 2%%", strings.TrimSpace(tolerance))
			}
			within = v / 100
		}
	}
	if constrained {
		for _, one := range strings.Split(rest, ",") {
			c, err := ParseConstraint(one)
			if err != nil {
				return g, err
			}
			if slices.ContainsFunc(g.Constraints, func(o Constraint) bool { return o == c }) {
				return g, fmt.Errorf("%s is given twice", c)
			}
			g.Constraints = append(g.Constraints, c)
		}
	}
	return g, nil
}

// counted are the metrics of the objective, of the ranks after it and of the constraints.
func (g *Goal) counted() (names []string) {
	for _, t := range g.Terms {
		names = append(names, t.Metric)
	}
	for _, r := range g.Then {
		names = append(names, r.Metric)
	}
	for _, c := range g.Constraints {
		names = append(names, c.Metric)
	}
	return names
}

func (g *Goal) names(metric string) bool {
	return slices.ContainsFunc(g.Terms, func(t Term) bool { return t.Metric == metric }) ||
		slices.ContainsFunc(g.Then, func(r Rank) bool { return r.Metric == metric })
}

// splitSum splits at each + that is not an exponent's, as in 1e+3.
func splitSum(text string) []string {
	digit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }
	var parts []string
	from := 0
	for i := range len(text) {
		if text[i] != '+' {
			continue
		}
		if i > 1 && (text[i-1] == 'e' || text[i-1] == 'E') && (digit(i-2) || text[i-2] == '.') && digit(i+1) {
			continue
		}
		parts = append(parts, text[from:i])
		from = i + 1
	}
	return append(parts, text[from:])
}

// parseTerms reads a metric or a weighted sum.
func (g *Goal) parseTerms(text string) error {
	parts := splitSum(text)
	total := 0.0
	for _, p := range parts {
		weight, metric, weighted := strings.Cut(p, "*")
		t := Term{Weight: 1}
		if !weighted {
			metric = p
		} else {
			v, err := strconv.ParseFloat(strings.TrimSpace(weight), 64)
			if err != nil || !(v > 0) || math.IsInf(v, 0) {
				return fmt.Errorf("objective: weight %q: want a positive number, as in 0.7*avg_jct + 0.3*p99_jct",
					strings.TrimSpace(weight))
			}
			t.Weight = v
		}
		var err error
		if t.Metric, err = ParseMetric(metric); err != nil {
			return fmt.Errorf("objective: %w", err)
		}
		if g.names(t.Metric) {
			return fmt.Errorf("objective: %s is named twice", t.Metric)
		}
		g.Terms = append(g.Terms, t)
		total += t.Weight
	}
	for i := range g.Terms {
		g.Terms[i].Weight /= total // so that the incumbent is 1
		if number(g.Terms[i].Weight) == "0" {
			return fmt.Errorf("objective: %s weighs next to nothing beside the others", g.Terms[i].Metric)
		}
	}
	return nil
}

// ParseConstraint reads a constraint, such as p99_jct<=1.1*incumbent.
func ParseConstraint(text string) (Constraint, error) {
	var c Constraint
	text = strings.TrimSpace(text)
	name, bound, ok := strings.Cut(text, "<=")
	if !ok {
		return c, fmt.Errorf("constraint %q: want METRIC<=BOUND, as in p99_jct<=1.1*incumbent", text)
	}
	if c.Metric, ok = metricNamed(name); !ok {
		return c, fmt.Errorf("constraint: %q is not known; there are %s",
			strings.TrimSpace(name), strings.Join(Metrics(), ", "))
	}
	var err error
	seen := map[bool]bool{}
	for _, part := range splitSum(bound) {
		part = strings.TrimSpace(part)
		factor, relative := strings.CutSuffix(part, "incumbent")
		if seen[relative] {
			return c, fmt.Errorf("constraint %q: want one multiple of the incumbent's and one number at most", text)
		}
		seen[relative] = true
		if !relative {
			if c.Slack, err = parseAmount(c.Metric, part); err != nil {
				return c, fmt.Errorf("constraint %q: %w", text, err)
			}
			continue
		}
		c.Factor = 1
		if factor = strings.TrimSpace(factor); factor != "" {
			number, starred := strings.CutSuffix(factor, "*")
			c.Factor, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
			if !starred || err != nil || !(c.Factor >= 1e-10 && c.Factor <= largest) {
				return c, fmt.Errorf("constraint %q: %q: want a positive multiple, as in 1.1*incumbent", text, part)
			}
		}
	}
	return c, nil
}

// largest number of a constraint: above all metrics, and short as a text.
const largest = 1e15

// parseAmount reads a number of a metric's unit: seconds also as 5m, shares also
// as 5%.
func parseAmount(metric, text string) (float64, error) {
	in := metrics[metric].unit
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil:
	case in == "s":
		if number, ok := strings.CutSuffix(text, "s"); ok {
			v, err = strconv.ParseFloat(number, 64) // also values too long for a Duration
		}
		if err != nil {
			var d time.Duration
			d, err = time.ParseDuration(text)
			v = d.Seconds()
		}
	case in == "%":
		if share, ok := strings.CutSuffix(text, "%"); ok {
			v, err = strconv.ParseFloat(strings.TrimSpace(share), 64)
			v /= 100
		}
	}
	if err != nil || !(v >= 0 && v <= largest) {
		want := map[string]string{"s": "seconds or a span such as 30m", "%": "a share such as 5%", "": "a number"}[in]
		return 0, fmt.Errorf("%q: want a multiple of incumbent, or %s, from 0 to %g", text, want, largest)
	}
	return v, nil
}

// ParseMetric finds a metric that can be an objective.
func ParseMetric(name string) (string, error) {
	id, ok := metricNamed(name)
	switch {
	case !ok:
		known := slices.DeleteFunc(Metrics(), func(m string) bool { return metrics[m].tenants })
		return "", fmt.Errorf("%q is not known; there are %s", strings.TrimSpace(name), strings.Join(known, ", "))
	case metrics[id].tenants:
		return "", fmt.Errorf("%s is one value for each tenant: it can only be a constraint, as in %s<=1.1*incumbent",
			id, id)
	}
	return id, nil
}

func metricNamed(name string) (id string, ok bool) {
	id = strings.Replace(strings.TrimSpace(name), "wait", "queue", 1) // a synonym
	_, ok = metrics[id]
	return id, ok
}

// Minimise is the goal of a single metric.
func Minimise(metric string) Goal { return Goal{Terms: []Term{{Weight: 1, Metric: metric}}} }

// check fails on a goal that ParseGoal cannot return.
func (g *Goal) check() error {
	if g.IsZero() {
		return errors.New("objective: none given")
	}
	for _, t := range g.Terms {
		if _, err := ParseMetric(t.Metric); err != nil {
			return fmt.Errorf("objective: %w", err)
		}
	}
	return nil
}

// IsZero reports whether g has no objective.
func (g *Goal) IsZero() bool { return len(g.Terms) == 0 }

// Metric is the objective if it is a single metric; "" for a weighted sum.
func (g *Goal) Metric() string {
	if len(g.Terms) == 1 {
		return g.Terms[0].Metric
	}
	return ""
}

// Seconds reports whether the objective is a time, in seconds.
func (g *Goal) Seconds() bool { return metrics[g.Metric()].unit == "s" }

// relative reports whether the incumbent's metrics are needed.
func (g *Goal) relative() bool {
	return len(g.Terms) > 1 || slices.ContainsFunc(g.Constraints, func(c Constraint) bool { return c.Factor > 0 })
}

// Objective is the text of the goal without the constraints.
func (g Goal) Objective() string {
	g.Constraints = nil
	return g.String()
}

// String is the goal's text, which ParseGoal reads.
func (g Goal) String() string {
	var b strings.Builder
	for i, t := range g.Terms {
		if i > 0 {
			b.WriteString(" + ")
		}
		if len(g.Terms) > 1 {
			b.WriteString(number(t.Weight) + "*")
		}
		b.WriteString(t.Metric)
	}
	for _, r := range g.Then {
		if r.Within != defaultWithin {
			b.WriteString(" within " + number(100*r.Within) + "%")
		}
		b.WriteString(" then " + r.Metric)
	}
	for i, c := range g.Constraints {
		if i == 0 {
			b.WriteString(" " + subjectTo + " ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(c.String())
	}
	return b.String()
}

// number formats v without an exponent, to ten decimal places.
func number(v float64) string {
	if v < 1e5 { // beyond it there are hardly more places
		v = math.Round(v*1e10) / 1e10
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// String is the constraint's text, which ParseConstraint reads.
func (c Constraint) String() string {
	var parts []string
	switch {
	case c.Factor == 1:
		parts = append(parts, "incumbent")
	case c.Factor > 0:
		parts = append(parts, number(c.Factor)+"*incumbent")
	}
	if c.Slack > 0 || c.Factor == 0 {
		switch metrics[c.Metric].unit {
		case "s":
			span, ok := units.Span(c.Slack)
			if !ok {
				span = number(c.Slack) + "s"
			}
			parts = append(parts, span)
		case "%":
			parts = append(parts, number(100*c.Slack)+"%")
		default:
			parts = append(parts, number(c.Slack))
		}
	}
	return c.Metric + "<=" + strings.Join(parts, "+")
}
