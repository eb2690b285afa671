package decide

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

func (r *tuneReport) print(w io.Writer, top int) error {
	fmt.Fprintf(w, "%s%s at %s: %d active jobs, %d of them waiting\n\n", r.Trace, cli.SyntheticLabel(r.Synthetic), r.At,
		r.ActiveJobs, r.WaitingJobs)
	fmt.Fprintf(w, "%s\n\n", goalLine(r.Objective))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "step\tsource\t"+round.Label(r.goal.Metric())+"\tchange\tinfluence\tqueue s\t"+
		"better in"+r.columns()+"\tparameters changed")
	for i := range r.Trials {
		if i == top {
			fmt.Fprintf(t, "... %d more\n", len(r.Trials)-top)
			break
		}
		x := &r.Trials[i]
		changes := changesText(r.Incumbent, x.Config)
		switch {
		case x.Exhausted:
			fmt.Fprintf(t, "%d\t%s\tevent budget exhausted\t\t\t\t%s\t%s\n", x.Step, round.Source(x.Origin), r.empty(),
				changes)
		case x.Error != "":
			fmt.Fprintf(t, "%d\t%s\tfailed: %s\t\t\t\t%s\t%s\n", x.Step, round.Source(x.Origin), x.Error, r.empty(),
				changes)
		default:
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%.0f\t%s%s\t%s\n", x.Step, round.Source(x.Origin),
				r.goal.Format(x.Objective), r.change(x), cli.SavedShare(x.Ratio), x.Queue, r.betterIn(x), r.cells(x),
				changes)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nBy these futures alone (%.2f s): %s\n\n", r.Wall, r.Searched)
	if err := cli.PrintVerdict(w, r.Verdict); err != nil {
		return err
	}
	if err := r.printFront(w, top); err != nil {
		return err
	}
	if _, why, ok := strings.Cut(r.Choice, ": "); ok {
		fmt.Fprintf(w, "Search: %s.\n", why)
	}
	return nil
}

// changesText lists the parameters in which a configuration differs from another.
func changesText(from, to space.Config) string {
	var out []string
	for _, d := range space.DiffConfigs(from, to) {
		if d.To != "" { // else it has no meaning any more
			out = append(out, d.Field+"="+d.To)
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, " ")
}

// incumbent is its trial, nil if it was not measured.
func (r *tuneReport) incumbent() *tuneTrial {
	for i := range r.Trials {
		if t := &r.Trials[i]; t.Config.Equal(r.Incumbent) && len(t.Values) > 0 {
			return t
		}
	}
	return nil
}

// change is the relative change of the objective, "" if it is not known.
func (r *tuneReport) change(t *tuneTrial) string {
	if was := r.incumbent(); was != nil && was.Objective > 0 {
		return fmt.Sprintf("%+.1f %%", 100*(t.Objective/was.Objective-1))
	}
	return ""
}

// betterIn says in how many futures a trial is better than the incumbent.
func (r *tuneReport) betterIn(t *tuneTrial) string {
	was := r.incumbent()
	if was == nil {
		return ""
	}
	n := 0
	for i, v := range t.Values {
		if i < len(was.Values) && v < was.Values[i] {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, len(t.Values))
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

// goalLine is the line of the objective and the constraints.
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
	fmt.Fprintf(t, "step\tsource\t%s\tparameters changed\n", strings.Join(r.Metrics, "\t"))
	for n, step := range r.Front {
		if n == top {
			fmt.Fprintf(t, "... %d more\n", len(r.Front)-top)
			break
		}
		i := slices.IndexFunc(r.Trials, func(x tuneTrial) bool { return x.Step == step })
		x := &r.Trials[i]
		fmt.Fprintf(t, "%d\t%s", x.Step, round.Source(x.Origin))
		for _, m := range r.Metrics {
			fmt.Fprintf(t, "\t%s", round.FormatMetric(m, x.Sides[m]))
		}
		fmt.Fprintf(t, "\t%s\n", changesText(r.Incumbent, x.Config))
	}
	return t.Flush()
}
