package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/autosched/autosched/round"
)

func (r *tuneReport) print(w io.Writer, top int) error {
	fmt.Fprintf(w, "%s%s at %s: %d active jobs, %d of them waiting\n\n", r.Trace, label(r.Synthetic), r.At,
		r.ActiveJobs, r.WaitingJobs)
	fmt.Fprintf(w, "%s\n\n", goalLine(r.Objective))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "step\torigin\tobjective\tcontrollable\tqueue s\tin every future"+r.columns()+"\tconfiguration")
	for i := range r.Trials {
		if i == top {
			fmt.Fprintf(t, "... %d more\n", len(r.Trials)-top)
			break
		}
		x := &r.Trials[i]
		every := ""
		if x.Every {
			every = "better"
		}
		switch {
		case x.Exhausted:
			fmt.Fprintf(t, "%d\t%s\tevent budget exhausted\t\t\t%s\t%s\n", x.Step, x.Origin, r.empty(), x.Config)
		case x.Error != "":
			fmt.Fprintf(t, "%d\t%s\tfailed: %s\t\t\t%s\t%s\n", x.Step, x.Origin, x.Error, r.empty(), x.Config)
		default:
			fmt.Fprintf(t, "%d\t%s\t%s\t%s (%s)\t%.0f\t%s%s\t%s\n", x.Step, x.Origin, r.goal.Format(x.Objective),
				r.goal.Format(x.Objective-x.Floor), round.Factor(x.Ratio), x.Queue, every, r.cells(x), x.Config)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "keep the incumbent"
	if r.Adopt {
		verdict = "adopt"
	}
	fmt.Fprintf(w, "\n%s: %s (in %.2f s)\n", verdict, r.Reason, r.Wall)
	if r.Fidelity != nil {
		fmt.Fprintf(w, "%s.\n", r.Fidelity)
	}
	if r.Adopt {
		fmt.Fprintf(w, "  %s\n", r.Best)
	}
	if r.Interval != nil {
		fmt.Fprintf(w, "The ratio on the controllable part is %s, with 95 %% confidence between %s and %s as far as "+
			"the futures tell.\n", round.Factor(r.Ratio), round.Factor(r.Interval.Low), round.Factor(r.Interval.High))
	}
	if err := r.printFront(w, top); err != nil {
		return err
	}
	if r.Choice != "" {
		fmt.Fprintf(w, "Sampler: %s.\n", r.Choice)
	}
	return nil
}

// constrained reports whether there are constraints to show.
func (r *tuneReport) constrained() bool { return strings.Contains(r.Objective, "subject to") }

// shown are the further metrics to show, in the order of the first trial that has
// them.
func (r *tuneReport) shown() []string {
	if len(r.Metrics) > 0 {
		return r.Metrics
	}
	var out []string
	for _, rank := range r.goal.Then {
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
		out += "\t" + round.FormatMetric(m, t.Sides[m])
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
	fmt.Fprintf(w, "\n%d of %d configurations are beaten by no other in all of %s:\n\n", len(r.Front), len(r.Trials),
		strings.Join(r.Metrics, ", "))
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
			fmt.Fprintf(t, "\t%s", round.FormatMetric(m, x.Sides[m]))
		}
		fmt.Fprintf(t, "\t%s\n", x.Config)
	}
	return t.Flush()
}
