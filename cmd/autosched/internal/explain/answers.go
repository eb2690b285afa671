package explain

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
)

// objectiveEffects has the effects on one objective.
type objectiveEffects struct {
	Objective string         `json:"objective"`
	Effects   []model.Effect `json:"effects"`
	Paths     []model.Path   `json:"paths"`
}

const effectNumbers = "All numbers below are predicted by it: none was measured."

// effectsOptions are the flags of explain effects.
type effectsOptions struct {
	model modelFlags
	top   int
}

// effects is the result of explain effects.
type effects struct {
	Model      modelJSON          `json:"model"`
	Objectives []objectiveEffects `json:"objectives"`
}

func newCausalEffectsCmd() *cobra.Command {
	var o effectsOptions
	cmd := &cobra.Command{
		Use:   "effects --data FILE.csv --tiers FILE.json",
		Short: "Rank parameters by what they do to the objectives",
		Long: `Learns the performance model and estimates how far each parameter moves an objective.

The effect is the average causal effect: between the values of the parameter at
which the objective is lowest and highest, all else being as in the data (for a
number, its 5, 25, 50, 75 and 95 % quantiles are looked at). It comes from the
direct head, a regression of the objective on what was set and the workload: as
configurations are chosen from outside it needs no graph to be right. Parameters
are ranked by the lower end of the 90 % interval. Inert ones have no path to the
objective in the graph and no effect that is certainly above zero.

Paths come from the graph: how far the objective moves if a parameter acts along
this path only.`,
		Example: `  autosched explain effects --data runs.csv --tiers tiers.json
  autosched explain effects --data runs.csv --tiers tiers.json --graph graph.json --column avg_jct_over_incumbent --json | jq '.objectives[0].effects[0]'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.top < 0 {
				return cli.Usage(fmt.Errorf("--top: %d is negative", o.top))
			}
			l, x, err := o.run(cmd)
			if err != nil {
				return err
			}
			return o.model.plot.Show(cmd, o.model.json, "causal-effects/v1", x,
				func() (*chart.Page, error) { return l.effectsPage(x) },
				func(w io.Writer) error { return l.printEffects(w, x.Objectives) })
		},
	}
	o.model.add(cmd)
	cmd.Flags().IntVar(&o.top, "top", 8, "")
	return cmd
}

func (o *effectsOptions) run(cmd *cobra.Command) (*learnt, *effects, error) {
	l, err := o.model.learn(cmd)
	if err != nil {
		return nil, nil, err
	}
	out := &effects{Model: l.head("predicted")}
	for _, objective := range l.objectives {
		x := objectiveEffects{Objective: objective}
		if x.Effects, err = l.Effects(objective); err != nil {
			return nil, nil, err
		}
		if x.Paths, err = l.Paths(objective, "", o.top); err != nil {
			return nil, nil, err
		}
		out.Objectives = append(out.Objectives, x)
	}
	return l, out, nil
}

func (l *learnt) printEffects(w io.Writer, all []objectiveEffects) error {
	if err := l.print(w, effectNumbers); err != nil {
		return err
	}
	for i, x := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := x.print(w); err != nil {
			return err
		}
	}
	return nil
}

// print prints the effects on one objective, then ways.
func (x *objectiveEffects) print(w io.Writer) error {
	if err := x.printParameters(w); err != nil {
		return err
	}
	if len(x.Paths) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := table.New(w, "WAY\tEFFECT ALONG IT ONLY\tMEAN STRENGTH OF ITS EDGES\t")
	for _, p := range x.Paths {
		note := ""
		if p.Confounded {
			note = "a hidden cause may account for part of it"
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%s\n", strings.Join(p.Nodes, " -> "), short(p.Effect), p.Strength, note)
	}
	return t.Flush()
}

// printParameters prints the effect of each parameter, and the mean at each of
// its levels.
func (x *objectiveEffects) printParameters(w io.Writer) error {
	t := table.New(w, "EFFECT ON "+x.Objective+
		"\tLOWEST TO HIGHEST\tOF MEAN\t90 % INTERVAL\tLOWEST AT\tHIGHEST AT\t")
	for _, e := range x.Effects {
		low, high := extremes(e.Levels)
		note := ""
		switch {
		case e.Inert:
			note = "inert"
		case !e.Connected:
			note = "no way in the graph"
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f %%\t%s to %s\t%s\t%s\t%s\n", e.Parameter, short(e.ACE), e.Percent, short(e.Low),
			short(e.High), levelText(e.Levels[low]), levelText(e.Levels[high]), note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nMEAN %s IF SET TO\n", x.Objective)
	t = table.New(w, "")
	for _, e := range x.Effects {
		var levels []string
		for _, level := range e.Levels {
			levels = append(levels, levelText(level)+": "+short(level.Mean))
		}
		fmt.Fprintf(t, "%s\t%s\n", e.Parameter, strings.Join(levels, "   "))
	}
	return t.Flush()
}

// extremes are the levels of the lowest and the highest mean.
func extremes(levels []model.Level) (low, high int) {
	for i, l := range levels {
		if l.Mean < levels[low].Mean {
			low = i
		}
		if l.Mean > levels[high].Mean {
			high = i
		}
	}
	return low, high
}

func levelText(l model.Level) string {
	if l.Name != "" {
		return l.Name
	}
	return short(l.Value)
}

// whatIf is the answer to a what-if question.
type whatIf struct {
	Model modelJSON         `json:"model"`
	At    string            `json:"at"`
	Set   map[string]string `json:"set"`
	// Base are the context and configuration before.
	Base    map[string]string `json:"base"`
	Answers []model.Answer    `json:"answers"`
	Notes   []string          `json:"notes,omitempty"`

	point    model.Point // before
	settings []model.Setting
}

// whatIfOptions are the flags of explain whatif.
type whatIfOptions struct {
	model     modelFlags
	set, base []string
	at        int
	given     func(flag string) bool
}

func newCausalWhatIfCmd() *cobra.Command {
	var o whatIfOptions
	cmd := &cobra.Command{
		Use:   "whatif --data FILE.csv --tiers FILE.json --set COLUMN=VALUE",
		Short: "Predict what setting parameters, or holding a metric, would do",
		Long: `Learns the performance model and predicts the objectives at a point before and
after columns are set: do(). The point is a row of the data (--at-row), else a typical
workload (medians) under the configuration in force, which 'explain dataset' writes
into the tiers file, or under that of the row nearest to the medians; --base changes
some of it.

Setting config and context is always identified: they are chosen from outside.
Setting a metric cuts what causes it. Where a hidden cause may account for what
the metric does next, the data cannot decide: the answer is marked as not
identified, and its interval covers both cases.

The interval is that of one measurement at the new point, 90 %; of a metric that
is set, that of the mean.`,
		Example: `  autosched explain whatif --data runs.csv --tiers tiers.json --set queues=3 --set order=submit
  autosched explain whatif --data runs.csv --tiers tiers.json --at-row 17 --set queues=3
  autosched explain whatif --data runs.csv --tiers tiers.json --base offered_load=2 --set fragmentation=0.1 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.set) == 0 {
				return cli.Usage(errors.New("--set is missing: name what to set, as in --set queues=3"))
			}
			l, w, err := o.run(cmd)
			if err != nil {
				return err
			}
			return o.model.plot.Show(cmd, o.model.json, "what-if/v1", w,
				func() (*chart.Page, error) { return l.whatIfPage(w) },
				func(out io.Writer) error { return l.printWhatIf(out, w) })
		},
	}
	o.model.add(cmd)
	o.given = cmd.Flags().Changed
	fl := cmd.Flags()
	fl.StringArrayVar(&o.set, "set", nil, "")
	fl.StringArrayVar(&o.base, "base", nil, "column=value of the point before; repeat for more")
	fl.IntVar(&o.at, "at-row", 0, "row of the data to start from, the first is 1 (default: a typical workload under the configuration in force)")
	return cmd
}

// run predicts every objective before and after the settings.
func (o *whatIfOptions) run(cmd *cobra.Command) (*learnt, *whatIf, error) {
	l, err := o.model.learn(cmd)
	if err != nil {
		return nil, nil, err
	}
	point, where, err := o.start(l)
	if err != nil {
		return nil, nil, err
	}
	bases, err := l.values("base", o.base)
	if err != nil {
		return nil, nil, err
	}
	settings, err := l.values("set", o.set)
	if err != nil {
		return nil, nil, err
	}
	inputs := l.Inputs()
	for _, b := range bases {
		if !slices.Contains(inputs, b.Column) {
			return nil, nil, cli.Usage(fmt.Errorf("--base: %s is predicted, not given; there are %s",
				b.Column, strings.Join(inputs, ", ")))
		}
		point[l.table.Index(b.Column)] = b.Value
	}
	w := &whatIf{
		Model: l.head("predicted"), At: where,
		Set: map[string]string{}, Base: map[string]string{}, point: point, settings: settings,
	}
	for _, s := range settings {
		w.Set[s.Column] = l.Text(s.Column, s.Value)
	}
	for _, column := range inputs {
		w.Base[column] = l.Text(column, point[l.table.Index(column)])
	}
	w.Notes = l.beyond(append(bases, settings...))
	for _, objective := range l.objectives {
		if slices.ContainsFunc(settings, func(s model.Setting) bool { return s.Column == objective }) {
			return nil, nil, cli.Usage(fmt.Errorf("--set: %s is the objective; set what leads to it", objective))
		}
		a, err := l.Do(objective, point, settings)
		if err != nil {
			return nil, nil, err
		}
		w.Answers = append(w.Answers, a)
	}
	return l, w, nil
}

// start returns the point before, and how to call it.
func (o *whatIfOptions) start(l *learnt) (model.Point, string, error) {
	point, where := l.start()
	if o.given("at-row") {
		var err error
		if point, err = l.row("at-row", o.at); err != nil {
			return nil, "", err
		}
		where = fmt.Sprintf("row %d of the data", o.at)
	}
	if len(o.base) > 0 {
		where += ", with " + strings.Join(o.base, ", ")
	}
	return point, where, nil
}

// beyond notes values outside of the ranges of the data.
func (l *learnt) beyond(settings []model.Setting) []string {
	var out []string
	for _, s := range settings {
		if low, high := l.Range(s.Column); s.Value < low || s.Value > high {
			out = append(out,
				fmt.Sprintf(
					"%s: %s is outside of the data, which have %s to %s: little beyond that is taken for the end "+
						"of the range", s.Column, short(s.Value), short(low), short(high)))
		}
	}
	return out
}

// relative is the change in per cent of the value before, "" if that is 0.
func relative(a *model.Answer) string {
	if a.Before == 0 {
		return ""
	}
	return units.Change((a.After - a.Before) / math.Abs(a.Before))
}

func (l *learnt) printWhatIf(w io.Writer, x *whatIf) error {
	if err := l.print(w, effectNumbers); err != nil {
		return err
	}
	fmt.Fprintf(w, "At %s:\n", x.At)
	for _, s := range x.settings {
		before := "predicted"
		if _, given := x.Base[s.Column]; given {
			before = "was " + l.Text(s.Column, x.point[l.table.Index(s.Column)])
		}
		fmt.Fprintf(w, "  do(%s = %s)   (%s)\n", s.Column, l.Text(s.Column, s.Value), before)
	}
	for _, n := range x.Notes {
		fmt.Fprintf(w, "warning: %s\n", n)
	}
	fmt.Fprintln(w)
	t := table.New(w, "OBJECTIVE\tPREDICTED BEFORE\tPREDICTED AFTER\tCHANGE\t90 % INTERVAL OF AFTER\tIDENTIFIED\tBY")
	for _, a := range x.Answers {
		identified, head := "yes", "both heads"
		if !a.Identified {
			identified = "no: a hidden cause may be behind it"
		}
		if a.Head == "structural" {
			head = "the graph"
		}
		change := signed(a.After - a.Before)
		if text := relative(&a); text != "" {
			change += " (" + text + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s to %s\t%s\t%s\n", a.Objective, short(a.Before), short(a.After),
			change, short(a.Low), short(a.High), identified, head)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, a := range x.Answers {
		if len(a.Moves) == 0 {
			fmt.Fprintf(w, "\nNo metric lies between what is set and %s in the graph.\n", a.Objective)
			continue
		}
		fmt.Fprintln(w)
		t := table.New(w, "ON THE WAY TO "+a.Objective+"\tPREDICTED BEFORE\tPREDICTED AFTER")
		for _, m := range a.Moves {
			fmt.Fprintf(t, "%s\t%s\t%s\n", m.Metric, short(m.Before), short(m.After))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}
