// Package explain has the commands that learn causal graphs and answer by them.
package explain

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
)

func newExplainCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Learn and inspect causal models of parameters, metrics and objectives",
		Long: `From a table of measured configurations (a row each: what was set, the workload it
met, what the system did, how good that was) learn a causal graph: which
parameters change which metrics, and which metrics change the objectives.

  autosched explain learn --data runs.csv --tiers tiers.json --out graph.json
  autosched explain show graph.json
  autosched explain show graph.json --as dot | dot -Tsvg > graph.svg

and a model that predicts: what parameters do, and what setting one would do.

  autosched explain effects --data runs.csv --tiers tiers.json
  autosched explain whatif --data runs.csv --tiers tiers.json --set queues=3`,
	}
	cmd.AddCommand(newCausalDatasetCmd(), newCausalEffectsCmd(), newCausalLearnCmd(),
		newCausalShowCmd(), newCausalWhatIfCmd())
	return cmd
}

// readTable reads a table, "-" for standard input.
func readTable(cmd *cobra.Command, path string, kinds map[string]causal.Kind) (*causal.Table, error) {
	return cli.ReadInput(cmd, path, func(r io.Reader) (*causal.Table, error) { return causal.ReadCSV(r, kinds) })
}

// readTiers reads a tiers file.
func readTiers(path string) (*causal.Spec, error) { return cli.ReadFile(path, causal.ReadSpec) }

// readGraph reads the JSON of a graph, "-" for standard input.
func readGraph(cmd *cobra.Command, path string) (*causal.Document, error) {
	return cli.ReadInput(cmd, path, causal.ReadDocument)
}

// writeGraph writes a graph to the file that --out names, and says so on standard error, or to standard output.
func writeGraph(cmd *cobra.Command, path string, write func(io.Writer) error) error {
	err := cli.WriteOutput(cmd, cmp.Or(path, "-"), write)
	if err == nil && path != "" && path != "-" {
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", path)
	} else if err != nil && path != "" {
		err = fmt.Errorf("--out: %w", err)
	}
	return err
}

// modelFlags say which performance model to learn.
type modelFlags struct {
	data, tiers, graph string
	objective, group   string
	boosted, log, json bool
	seed               uint64
	plot               cli.PlotFlag
}

func (f *modelFlags) add(cmd *cobra.Command) {
	f.addModel(cmd)
	f.plot.Add(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.boosted, "boosted", true, "try boosted trees too: a few seconds more, and mostly the best")
	fl.BoolVar(&f.json, "json", false, "")
}

// addModel adds the flags that all commands share.
func (f *modelFlags) addModel(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.data, "data", "", "")
	fl.StringVar(&f.tiers, "tiers", "", "")
	fl.StringVar(&f.graph, "graph", "", "graph that 'explain learn' wrote (default: learn one from the data)")
	fl.StringVar(&f.objective, "column", "", "column of the objective to look at (default: all)")
	fl.StringVar(&f.group, "group", "", "")
	fl.BoolVar(&f.log, "log-objectives", false,
		"fit the logarithms of positive objectives, where relative errors count; otherwise done only for those "+
			"that span more than a factor of 20")
	fl.Uint64Var(&f.seed, "seed", 1, "")
}

// families are the candidates for every metric and objective; the best on held-out rows is taken.
func families(boosted bool) []model.Family {
	all := []model.Family{model.Linear, model.Quadratic}
	if boosted {
		all = append(all, model.Boosted)
	}
	return all
}

// learnt is a model with its training data.
type learnt struct {
	*model.Model
	table      *causal.Table
	document   *causal.Document
	objectives []string
	data       string // as shown to the user
	inForce    map[string]string
}

// start is the point where questions begin, and how to call it: a typical workload under
// the configuration in force, or under one of the data.
func (l *learnt) start() (model.Point, string) {
	const workload = "a typical workload (medians), under the configuration "
	point := l.Typical()
	for column, text := range l.inForce {
		v, err := l.Value(column, text)
		if err != nil { // no row has it
			return l.Typical(), workload + "of the row nearest to the medians"
		}
		point[l.table.Index(column)] = v
	}
	if len(l.inForce) == 0 {
		return point, workload + "of the row nearest to the medians"
	}
	return point, workload + "in force"
}

// learn reads the files and learns.
func (f *modelFlags) learn(cmd *cobra.Command) (*learnt, error) {
	if err := f.plot.Check(); err != nil {
		return nil, err
	}
	switch {
	case f.data == "":
		return nil, cli.Usage(errors.New("--data is missing: name a CSV file of runs"))
	case f.tiers == "" && f.graph == "":
		return nil,
			cli.Usage(errors.New(
				"--tiers is missing: name the JSON file that says which columns are config, context, metric and " +
					"objective; or --graph, a graph learned with them"))
	}
	spec := &causal.Spec{}
	var err error
	out := &learnt{data: f.data}
	if f.data == "-" {
		out.data = "standard input"
	}
	if f.graph != "" {
		if out.document, err = readGraph(cmd, f.graph); err != nil {
			return nil, fmt.Errorf("--graph: %w", err)
		}
		if out.document.Knowledge != nil {
			spec = out.document.Knowledge
		}
	}
	if f.tiers != "" {
		if spec, err = readTiers(f.tiers); err != nil {
			return nil, fmt.Errorf("--tiers: %w", err)
		}
	}
	out.inForce = spec.Start
	if out.table, err = readTable(cmd, f.data, spec.Types); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	o := model.Options{Seed: f.seed, LogObjectives: f.log, Families: families(f.boosted)}
	learn := causal.LearnOptions{Budget: defaultDeadline}
	if f.group != "" {
		k := out.table.Index(f.group)
		if k < 0 {
			return nil, cli.Usage(fmt.Errorf("--group: the data have no column %q; they have %s",
				f.group, strings.Join(out.table.Names(), ", ")))
		}
		o.Groups = groupsOf(out.table.Column(k))
		learn.Groups = o.Groups
		if !slices.Contains(spec.Ignore, f.group) {
			copied := *spec
			copied.Ignore = append(slices.Clone(spec.Ignore), f.group)
			spec = &copied
		}
	}
	progress := cli.NewProgressLine(cmd.ErrOrStderr())
	progress.Show("learning from %d rows", out.table.Rows())
	defer progress.Clear()
	if out.document == nil {
		if out.document, err = causal.Learn(cmd.Context(), out.table, spec, learn); err != nil {
			return nil, err
		}
		progress.Clear()
		for _, w := range out.document.Warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+w)
		}
	} else if l := out.document.Learning; l != nil && l.DataHash != "" && l.DataHash != out.table.Hash() {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: the graph was learned from other data than %s\n", out.data)
	}
	s, err := model.Follow(out.table, out.document)
	if err != nil {
		return nil, err
	}
	if out.Model, err = model.Fit(cmd.Context(), out.table, s, o); err != nil {
		return nil, err
	}
	out.objectives = out.Objectives()
	if f.objective != "" {
		if !slices.Contains(out.objectives, f.objective) {
			return nil, cli.Usage(fmt.Errorf("--column: %q is not an objective of the data; there are %s",
				f.objective, strings.Join(out.objectives, ", ")))
		}
		out.objectives = []string{f.objective}
	}
	return out, nil
}

// values reads settings, column=value, a category by its name.
func (l *learnt) values(flag string, settings []string) ([]model.Setting, error) {
	var out []model.Setting
	for _, s := range settings {
		column, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, cli.Usage(fmt.Errorf("--%s: %q is not column=value", flag, s))
		}
		column, value = strings.TrimSpace(column), strings.TrimSpace(value)
		v, err := l.Value(column, value)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--%s: %w", flag, err))
		}
		if slices.ContainsFunc(out, func(s model.Setting) bool { return s.Column == column }) {
			return nil, cli.Usage(fmt.Errorf("--%s: %s is given twice", flag, column))
		}
		out = append(out, model.Setting{Column: column, Value: v})
	}
	return out, nil
}

// row reads the number of a row of the data, from 1.
func (l *learnt) row(flag string, n int) (model.Point, error) {
	if n < 1 || n > l.table.Rows() {
		return nil, cli.Usage(fmt.Errorf("--%s: %s has rows 1 to %d (the header is none), not %d",
			flag, l.data, l.table.Rows(), n))
	}
	return model.Row(l.table, n-1), nil
}

// modelJSON opens every JSON answer.
type modelJSON struct {
	Data  string `json:"data"`
	Rows  int    `json:"rows"`
	Edges int    `json:"edges"`
	// Numbers describes the numbers: predicted or measured.
	Numbers string `json:"numbers"`
	// Errors are measured on held-out rows.
	Errors []model.Errors `json:"errors"`
}

func (l *learnt) head(numbers string) modelJSON {
	return modelJSON{l.data, l.table.Rows(), len(l.document.Edges), numbers, l.judged()}
}

// judged are the errors of the objectives looked at.
func (l *learnt) judged() []model.Errors {
	return slices.DeleteFunc(l.Errors(), func(e model.Errors) bool {
		return !slices.Contains(l.objectives, e.Objective)
	})
}

// notMuchBetter is the share of the mean's error above which a model is not
// worth listening to.
const notMuchBetter = .9

// print describes the model and its error.
func (l *learnt) print(w io.Writer, numbers string) error {
	fmt.Fprintf(w, "Model learnt from %d rows of %s, along a graph of %d edges. %s\n\n",
		l.table.Rows(), l.data, len(l.document.Edges), numbers)
	t := table.New(w,
		"ERROR ON ROWS LEFT OUT\tMODEL\tDIRECT ONLY\tGRAPH ONLY\tTHE MEAN\tRANK CORRELATION\tDIRECT HEAD\tSHARE "+
			"OF THE GRAPH")
	for _, e := range l.judged() {
		fmt.Fprintf(t, "%s\t%.1f %%\t%.1f %%\t%.1f %%\t%.1f %%\t%.2f\t%s\t%.0f %%\n",
			e.Objective, 100*e.Blend, 100*e.Direct, 100*e.Structural, 100*e.Mean, e.Rank, e.Family, 100*e.Weight)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, e := range l.judged() {
		if e.Blend > notMuchBetter*e.Mean {
			fmt.Fprintf(w,
				"warning: the model of %s is hardly better than the mean: take nothing below for more than a hint\n",
				e.Objective)
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

// short writes a number to four digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// signed is short with a sign.
func signed(v float64) string {
	if v >= 0 {
		return "+" + short(v)
	}
	return short(v)
}

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newExplainCmd()}
}
