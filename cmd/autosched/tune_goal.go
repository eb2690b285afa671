package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
)

// goalFlags are what a search is to achieve beyond --objective.
type goalFlags struct {
	subjectTo []string
	pareto    []string

	text string // of the goal, after parse
}

func (f *goalFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	if o := fl.Lookup("objective"); o != nil {
		o.Usage = "what to minimise: a metric (" + strings.Join(round.Metrics(), ", ") + "; the tenants' only as constraints), " +
			"a weighted sum of ratios to the incumbent's (0.7*avg_jct+0.3*p99_jct), or metrics in order of rank (p99_jct within 2% then avg_jct)"
	}
	fl.StringArrayVar(&f.subjectTo, "subject-to", nil, "constraint METRIC<=BOUND, repeatable: a multiple of the incumbent's, a number or both (p99_jct<=1.1*incumbent, avg_queue<=30m, tenant_p95_queue<=1.1*incumbent+60s)")
	fl.StringSliceVar(&f.pareto, "pareto", nil, "two or more metrics: search for, and show, the configurations that no other beats in all of them")
}

// parse checks the flags and makes the goal. It leaves a metric that stands alone
// in *objective.
func (f *goalFlags) parse(objective *string) error {
	g, err := round.ParseGoal(*objective)
	if err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	for _, text := range f.subjectTo {
		c, err := round.ParseConstraint(text)
		if err != nil {
			return usageError{fmt.Errorf("--subject-to: %w", err)}
		}
		if !slices.Contains(g.Constraints, c) {
			g.Constraints = append(g.Constraints, c)
		}
	}
	if n := len(f.pareto); n == 1 {
		return usageError{fmt.Errorf("--pareto: %v: want two metrics or more", f.pareto)}
	}
	for i, name := range f.pareto {
		metric, err := round.ParseMetric(name)
		if err != nil {
			return usageError{fmt.Errorf("--pareto: %w", err)}
		}
		if f.pareto[i] = metric; slices.Contains(f.pareto[:i], f.pareto[i]) {
			return usageError{fmt.Errorf("--pareto: %s is named twice", f.pareto[i])}
		}
	}
	f.text = g.String()
	if *objective = g.Terms[0].Metric; round.CheckObjective(*objective) != nil {
		*objective = round.Objectives[0] // of the queueing delay: the goal is what counts
	}
	return nil
}

// tuneLimit is a constraint and how a trial keeps to it.
type tuneLimit struct {
	Name string `json:"constraint"`
	Of   string `json:"of,omitempty"`
	// Value and Bound are means over the futures, Excess by which share of the bound
	// the value is above it, negative below, Kept the probability that the
	// constraint is kept in the mean over many such futures.
	Value  float64 `json:"value"`
	Bound  float64 `json:"bound"`
	Excess float64 `json:"excess"`
	Kept   float64 `json:"probability"`
}

// describe adds what the goal asks for.
func (r *tuneReport) describe(got *round.Result, f *goalFlags) {
	r.Objective, r.Unit, r.Metrics = f.text, round.Unit(f.text), f.pareto
	if len(f.pareto) > 0 {
		r.Front = search.Front(got.Trials, f.pareto)
	}
}

func (t *tuneTrial) addGoal(m *search.Measurement) {
	mean := func(v []float64) float64 {
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		return sum / float64(len(v))
	}
	t.kept = m.Kept()
	for i := range m.Limits {
		l := &m.Limits[i]
		t.Limits = append(t.Limits, tuneLimit{l.Name, l.Of, mean(l.Values), mean(l.Bounds), l.Excess(), l.Kept()})
	}
	for _, s := range m.Secondary {
		if t.Sides == nil {
			t.Sides = map[string]float64{}
		}
		t.Sides[s.Name] = mean(s.Values)
	}
}

// breaks returns the constraint that is broken most, nil if all are kept.
func (t *tuneTrial) breaks() *tuneLimit {
	var worst *tuneLimit
	for i := range t.Limits {
		if l := &t.Limits[i]; l.Excess > 0 && (worst == nil || l.Excess > worst.Excess) {
			worst = l
		}
	}
	return worst
}

// constrained reports whether there are constraints to show.
func (r *tuneReport) constrained() bool { return strings.Contains(r.Objective, "subject to") }

// shown are the further metrics to show, in the order of the first trial that has
// them.
func (r *tuneReport) shown() []string {
	if len(r.Metrics) > 0 {
		return r.Metrics
	}
	g, err := round.ParseGoal(r.Objective)
	if err != nil {
		return nil
	}
	var out []string
	for _, rank := range g.Then {
		out = append(out, rank.Metric)
	}
	return out
}

func (r *tuneReport) columns() string {
	out := ""
	for _, m := range r.shown() {
		out += "\t" + m
	}
	if r.constrained() {
		out += "\tconstraints"
	}
	return out
}

func (r *tuneReport) empty() string { return strings.Repeat("\t", strings.Count(r.columns(), "\t")+1) }

func (r *tuneReport) cells(t *tuneTrial) string {
	out := ""
	for _, m := range r.shown() {
		out += "\t" + round.Figure(m, t.Sides[m])
	}
	if !r.constrained() {
		return out
	}
	l := t.breaks()
	switch {
	case len(t.Limits) == 0:
		return out + "\t"
	case l == nil:
		return out + fmt.Sprintf("\tkept (%.2f)", t.kept)
	case l.Of != "":
		return out + fmt.Sprintf("\t%s of %s: %s", l.Name, l.Of, above(l.Excess))
	}
	return out + fmt.Sprintf("\t%s: %s", l.Name, above(l.Excess))
}

func above(excess float64) string {
	if excess >= 10 {
		return "far above"
	}
	return fmt.Sprintf("%.1f %% above", 100*excess)
}

// goalLine says what is minimised.
func goalLine(objective string) string {
	objective, constraints, ok := strings.Cut(objective, " subject to ")
	line := "minimise " + objective
	if ok {
		line += " subject to " + constraints
	}
	return line
}

// printFront prints the trials that no other beats.
func (r *tuneReport) printFront(w io.Writer, top int) error {
	if len(r.Metrics) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%d of %d configurations are beaten by no other in all of %s:\n\n", len(r.Front), len(r.Trials), strings.Join(r.Metrics, ", "))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "step\torigin\t%s\tconfiguration\n", strings.Join(r.Metrics, "\t"))
	for n, step := range r.Front {
		if n == top {
			fmt.Fprintf(t, "... %d more\n", len(r.Front)-top)
			break
		}
		i := slices.IndexFunc(r.Trials, func(x tuneTrial) bool { return x.Step == step })
		x := &r.Trials[i]
		fmt.Fprintf(t, "%d\t%s", x.Step, x.Origin)
		for _, m := range r.Metrics {
			fmt.Fprintf(t, "\t%s", round.Figure(m, x.Sides[m]))
		}
		fmt.Fprintf(t, "\t%s\n", x.Config)
	}
	return t.Flush()
}
