package explain

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/cli"
)

// compareOptions are the flags of causal compare.
type compareOptions struct {
	model modelFlags
	a, b  int
	given func(flag string) bool
}

// comparison is the result of explain compare.
type comparison struct {
	Model       modelJSON          `json:"model"`
	A           int                `json:"row_a"`
	B           int                `json:"row_b"`
	Comparisons []model.Comparison `json:"comparisons"`
}

func newCausalCompareCmd() *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare --data FILE.csv --tiers FILE.json --a ROW --b ROW",
		Short: "Explain why two runs differ",
		Long: `Learns the performance model and shares the difference of an objective between
two runs of the data out to what differs between their configurations and
workloads: each difference is substituted after the others in every order (200
orders for more than five) and what it adds is averaged (Shapley). The shares sum
up to the difference as predicted; what the model does not see is unexplained.

Each share is split by what the column acts on first in the graph; "itself" is an
effect past all metrics.`,
		Example: `  autosched explain compare --data runs.csv --tiers tiers.json --a 17 --b 42
  autosched explain compare --data runs.csv --tiers tiers.json --a 17 --b 42 --objective avg_jct_over_incumbent --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			l, c, err := o.run(cmd)
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.model.json, "causal-comparison/v1", c,
				func(w io.Writer) error { return l.printComparison(w, c) })
		},
	}
	o.model.add(cmd)
	o.given = cmd.Flags().Changed
	cmd.Flags().IntVar(&o.a, "a", 0, "row of the data, the first is 1 (required)")
	cmd.Flags().IntVar(&o.b, "b", 0, "row to compare it with (required)")
	return cmd
}

func (o *compareOptions) check() error {
	if !o.given("a") || !o.given("b") {
		return cli.Usage(errors.New("--a and --b name the two rows of the data to compare; the first row is 1"))
	}
	if o.a == o.b {
		return cli.Usage(fmt.Errorf("--a and --b are both row %d: name two", o.a))
	}
	return nil
}

func (o *compareOptions) run(cmd *cobra.Command) (*learnt, *comparison, error) {
	l, err := o.model.learn(cmd)
	if err != nil {
		return nil, nil, err
	}
	p, err := l.row("a", o.a)
	if err != nil {
		return nil, nil, err
	}
	q, err := l.row("b", o.b)
	if err != nil {
		return nil, nil, err
	}
	c := &comparison{Model: l.head("a and b are as in the rows, all else is predicted"), A: o.a, B: o.b}
	for _, objective := range l.objectives {
		x, err := l.Compare(objective, p, q, o.model.seed)
		if err != nil {
			return nil, nil, err
		}
		c.Comparisons = append(c.Comparisons, x)
	}
	return l, c, nil
}

func (l *learnt) printComparison(w io.Writer, x *comparison) error {
	if err := l.print(w, "What is called predicted was not measured; data are the rows'."); err != nil {
		return err
	}
	for i, c := range x.Comparisons {
		if i > 0 {
			fmt.Fprintln(w)
		}
		t := cli.NewTable(w, "")
		fmt.Fprintf(t, "%s\tROW %d\tROW %d\tDIFFERENCE\n", strings.ToUpper(c.Objective), x.A, x.B)
		fmt.Fprintf(t, "data\t%s\t%s\t%s\n", short(c.A), short(c.B), signed(c.A-c.B))
		fmt.Fprintf(t, "predicted\t%s\t%s\t%s\n",
			short(c.PredictedA), short(c.PredictedB), signed(c.PredictedA-c.PredictedB))
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
		t = cli.NewTable(w, "")
		fmt.Fprintf(t, "BECAUSE OF\tROW %d\tROW %d\tADDS (PREDICTED)\tBY WAY OF\n", x.A, x.B)
		for _, s := range c.Shares {
			var ways []string
			for _, v := range s.Via {
				node := v.Node
				if node == c.Objective {
					node = "itself"
				}
				ways = append(ways, node+" "+signed(v.Contribution))
			}
			if ways == nil {
				ways = []string{"no way in the graph"}
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", s.Column, l.Text(s.Column, s.A), l.Text(s.Column, s.B),
				signed(s.Contribution), strings.Join(ways, ", "))
		}
		fmt.Fprintf(t, "unexplained\t\t\t%s\t\n", signed(c.Unexplained))
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}
