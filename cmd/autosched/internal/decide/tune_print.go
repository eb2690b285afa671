package decide

import (
	"cmp"
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
	verdict := "Keep the incumbent"
	if r.Adopt {
		verdict = "Adopt"
	}
	fmt.Fprintf(w, "\n%s. %s (in %.2f s)\n", verdict, r.Reason, r.Wall)
	if r.Fidelity != nil {
		fmt.Fprintf(w, "%s.\n", r.Fidelity)
	}
	if r.Adopt {
		if err := r.printChanges(w); err != nil {
			return err
		}
	}
	if r.Interval != nil {
		fmt.Fprintf(w, "With 95 %% confidence the change is between %s and %s of what settings can influence, "+
			"as far as the futures show.\n", cli.SavedShare(r.Interval.Low), cli.SavedShare(r.Interval.High))
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

// printChanges prints what is recommended: the parameters that change, which others were
// found to have no effect, and why that is not the first row.
func (r *tuneReport) printChanges(w io.Writer) error {
	lost := map[string]string{}
	for _, e := range r.Effects {
		switch text := fmt.Sprintf("without it %+.1f %%", 100*e.Loss); {
		case e.Reverted:
		case e.Noise:
			lost[e.Parameters[0]] = "needed once the others are left out"
		case e.Loss <= 0:
			lost[e.Parameters[0]] = text + ", but not better in every future"
		default:
			lost[e.Parameters[0]] = text
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range r.Changes {
		fmt.Fprintf(t, "  %s\t%s\t-> %s\t%s\n", c.Field, cmp.Or(c.From, "-"), cmp.Or(c.To, "-"), lost[c.Field])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Irrelevant) > 0 {
		fmt.Fprintf(w, "No effect above the noise, so unchanged: %s.\n", strings.Join(r.Irrelevant, ", "))
	}
	if why := r.whyNotFirst(); why != "" {
		fmt.Fprintln(w, why)
	}
	return nil
}

// whyNotFirst says why the first row is not what is recommended; "" if it is.
func (r *tuneReport) whyNotFirst() string {
	first := &r.Trials[0]
	if first.Config.Equal(r.Best) {
		return ""
	}
	text := fmt.Sprintf("Row 1 (step %d) is not recommended: ", first.Step)
	was := r.incumbent()
	switch {
	case first.kept < leastKept && len(first.Limits) > 0:
		return text + "it may break a constraint."
	case was != nil && !first.Every && r.Recommended.Every:
		return text + fmt.Sprintf("it is better in %s futures only.", r.betterIn(first))
	case r.found.Equal(first.Config):
		return text + fmt.Sprintf("it changes %d parameters and measures the same within the noise (%s against %s).",
			len(space.DiffConfigs(r.Incumbent, first.Config)), r.goal.Format(first.Objective),
			r.goal.Format(r.Recommended.Objective))
	}
	return text + "it has the lowest measurement, which is partly luck; by a model of all measurements another one " +
		"is expected to be as good or better."
}

// leastKept is the probability with which what is adopted keeps to a constraint.
const leastKept = .8

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
