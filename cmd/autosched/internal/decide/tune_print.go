package decide

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

func (r *tuneReport) print(w io.Writer, top int) error {
	fmt.Fprintf(w, "%s%s at %s: %d active jobs, %d of them waiting\n\n", r.Trace, cli.SyntheticLabel(r.Synthetic), r.At,
		r.ActiveJobs, r.WaitingJobs)
	fmt.Fprintf(w, "%s\n\n", goalLine(r.Objective))
	table := newTrialTable(r.Incumbent, "step\tsource\t"+round.Label(r.goal.Metric())+"\tchange\tinfluence\tqueue s\t"+
		"better in"+r.columns())
	shown := 0
	for left := r.Trials; len(left) > 0 && shown < top; shown++ {
		x, equal := simplestOf(left, r.Incumbent)
		left = left[1+equal:]
		source := round.Source(x.Origin)
		if equal > 0 {
			source += fmt.Sprintf(" = %d more", equal)
		}
		switch {
		case x.Exhausted:
			table.add(x.Config, "%d\t%s\tevent budget exhausted\t\t\t\t%s", x.Step, source, r.empty())
		case x.Error != "":
			table.add(x.Config, "%d\t%s\tfailed: %s\t\t\t\t%s", x.Step, source, x.Error, r.empty())
		default:
			table.add(x.Config, "%d\t%s\t%s\t%s\t%s\t%.0f\t%s%s", x.Step, source, r.goal.Format(x.Objective),
				r.change(x), cli.SavedShare(x.Ratio), x.Queue, r.betterIn(x), r.cells(x))
		}
		table.of += 1 + equal
	}
	if err := table.print(w, len(r.Trials)); err != nil {
		return err
	}
	fmt.Fprintln(w)
	cli.Prose(w, "", fmt.Sprintf("By these futures alone (%.2f s): %s", r.Wall, r.Searched))
	fmt.Fprintln(w)
	if err := cli.PrintVerdict(w, r.Verdict); err != nil {
		return err
	}
	if err := r.printFront(w, top); err != nil {
		return err
	}
	if _, why, ok := strings.Cut(r.Choice, ": "); ok {
		cli.Prose(w, "", "Search: "+why+".")
	}
	return nil
}

// trialTable is a table of trials whose last column has the parameters that a trial changes.
type trialTable struct {
	from  space.Config
	text  strings.Builder
	table *tabwriter.Writer
	items [][]string
	of    int // trials in it
}

func newTrialTable(from space.Config, columns string) *trialTable {
	t := &trialTable{from: from, items: [][]string{{"parameters changed"}}}
	t.table = cli.NewTable(&t.text, columns+"\t")
	return t
}

func (t *trialTable) add(c space.Config, format string, args ...any) {
	fmt.Fprintf(t.table, format+"\t\n", args...)
	t.items = append(t.items, changesText(t.from, c))
}

// print prints the table of some of the trials in the width of the output.
func (t *trialTable) print(w io.Writer, all int) error {
	if err := t.table.Flush(); err != nil {
		return err
	}
	err := cli.Fitted(w, t.text.String(), t.items)
	if err == nil && t.of < all {
		_, err = fmt.Fprintf(w, "... %d more; --json has all, with all parameters\n", all-t.of)
	}
	return err
}

// simplestOf is the trial with the fewest changes among the first of a list and those behind it that measure the same
// but for noise, with the number of the others.
func simplestOf(list []tuneTrial, from space.Config) (best *tuneTrial, others int) {
	best = &list[0]
	if best.Exhausted || best.Error != "" || best.breaks() != nil {
		return best, 0
	}
	first := search.Measurement{Values: best.Values}
	for i := range list[1:] {
		x := &list[i+1]
		m := search.Measurement{Values: x.Values}
		if len(x.Values) == 0 || x.Exhausted || x.Error != "" || x.breaks() != nil ||
			m.Mean()-first.Mean() > search.Noise(&first, &m) {
			break
		}
		others++
		if len(space.DiffConfigs(from, x.Config)) < len(space.DiffConfigs(from, best.Config)) {
			best = x
		}
	}
	return best, others
}

// changesText lists the parameters in which a configuration differs from another.
func changesText(from, to space.Config) []string {
	var out []string
	for _, d := range space.DiffConfigs(from, to) {
		if d.To != "" { // else it has no meaning any more
			out = append(out, d.Field+"="+d.To)
		}
	}
	if len(out) == 0 {
		return []string{"none"}
	}
	return out
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
	table := newTrialTable(r.Incumbent, "step\tsource\t"+strings.Join(r.Metrics, "\t"))
	for _, step := range r.Front[:min(top, len(r.Front))] {
		x := &r.Trials[slices.IndexFunc(r.Trials, func(x tuneTrial) bool { return x.Step == step })]
		row := fmt.Sprintf("%d\t%s", x.Step, round.Source(x.Origin))
		for _, m := range r.Metrics {
			row += "\t" + round.FormatMetric(m, x.Sides[m])
		}
		table.add(x.Config, "%s", row)
		table.of++
	}
	return table.print(w, len(r.Front))
}
