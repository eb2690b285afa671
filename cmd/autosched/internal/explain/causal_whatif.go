package explain

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/cli"
)

// whatIf is the answer to a what-if question.
type whatIf struct {
	Model modelJSON         `json:"model"`
	At    string            `json:"at"`
	Set   map[string]string `json:"set"`
	// Base are the context and configuration before.
	Base    map[string]string `json:"base"`
	Answers []model.Answer    `json:"answers"`
	// Counterfactual is the outcome of a run of the data under other settings, with all that is not modelled
	// unchanged: present with a row and settings of config and context only.
	Counterfactual []counterfactual `json:"counterfactual,omitempty"`
	Notes          []string         `json:"notes,omitempty"`

	point    model.Point // before
	settings []model.Setting
}

type counterfactual struct {
	Variable  string  `json:"variable"`
	Data      float64 `json:"data"`
	WouldHave float64 `json:"would_have_been"`
}

// whatIfOptions are the flags of causal whatif.
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
after columns are set: do(). The point is a row of the data (--at), else a typical
workload (medians) under the configuration in force, which 'explain dataset' writes
into the tiers file, or under that of the row nearest to the medians; --base changes
some of it.

Setting config and context is always identified: they are chosen from outside.
Setting a metric cuts what causes it. Where a hidden cause may account for what
the metric does next, the data cannot decide: the answer is marked as not
identified, and its interval covers both cases.

With --at and only config or context set there is also the counterfactual: that run
with the change, keeping what the model does not explain of it.
The interval is that of one measurement at the new point, 90 %; of a metric that
is set, that of the mean.`,
		Example: `  autosched explain whatif --data runs.csv --tiers tiers.json --set queues=3 --set order=submit
  autosched explain whatif --data runs.csv --tiers tiers.json --at 17 --set queues=3
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
			return cli.Show(cmd.OutOrStdout(), o.model.json, "what-if/v1", w,
				func(out io.Writer) error { return l.printWhatIf(out, w) })
		},
	}
	o.model.add(cmd)
	o.given = cmd.Flags().Changed
	fl := cmd.Flags()
	fl.StringArrayVar(&o.set, "set", nil, "column=value to set, a category by its name; repeat for more (required)")
	fl.StringArrayVar(&o.base, "base", nil, "column=value of the point before; repeat for more")
	fl.IntVar(&o.at, "at", 0, "row of the data to start from, the first is 1 (default: a typical workload under the configuration in force)")
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
		Model: l.head("before and after are predicted; data are as in the rows"), At: where,
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
	chosen := !slices.ContainsFunc(settings, func(s model.Setting) bool { return !slices.Contains(inputs, s.Column) })
	if o.given("at") && chosen && len(bases) == 0 {
		w.Counterfactual, err = l.counterfactual(point, settings)
	}
	return l, w, err
}

// start returns the point before, and how to call it.
func (o *whatIfOptions) start(l *learnt) (model.Point, string, error) {
	point, where := l.start()
	if o.given("at") {
		var err error
		if point, err = l.row("at", o.at); err != nil {
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

// counterfactual has the metrics and objectives of a run under other settings.
func (l *learnt) counterfactual(p model.Point, settings []model.Setting) ([]counterfactual, error) {
	got, err := l.Counterfactual(p, settings)
	if err != nil {
		return nil, err
	}
	var out []counterfactual
	for _, name := range append(l.Metrics(), l.objectives...) {
		i := l.table.Index(name)
		out = append(out, counterfactual{name, p[i], got[i]})
	}
	return out, nil
}

func (l *learnt) printWhatIf(w io.Writer, x *whatIf) error {
	if err := l.print(w, "What is called predicted was not measured; data are the rows'."); err != nil {
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
	t := cli.NewTable(w, "OBJECTIVE\tPREDICTED BEFORE\tPREDICTED AFTER\tCHANGE\t90 % INTERVAL OF AFTER\tIDENTIFIED\tBY")
	for _, a := range x.Answers {
		identified, head := "yes", "both heads"
		if !a.Identified {
			identified = "no: a hidden cause may be behind it"
		}
		if a.Head == "structural" {
			head = "the graph"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s (%+.1f %%)\t%s to %s\t%s\t%s\n", a.Objective, short(a.Before), short(a.After),
			signed(a.After-a.Before), 100*(a.After/a.Before-1), short(a.Low), short(a.High), identified, head)
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
		t := cli.NewTable(w, "")
		fmt.Fprintf(t, "ON THE WAY TO %s\tPREDICTED BEFORE\tPREDICTED AFTER\n", a.Objective)
		for _, m := range a.Moves {
			fmt.Fprintf(t, "%s\t%s\t%s\n", m.Metric, short(m.Before), short(m.After))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(x.Counterfactual) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t = cli.NewTable(w, "THAT VERY RUN\tDATA\tWOULD HAVE BEEN (PREDICTED)")
	for _, c := range x.Counterfactual {
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Variable, short(c.Data), short(c.WouldHave))
	}
	return t.Flush()
}
