package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal/model"
)

func newCausalCompareCmd() *cobra.Command {
	var f modelFlags
	var a, b int
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
		Example: `  autosched causal compare --data runs.csv --tiers tiers.json --a 17 --b 42
  autosched causal compare --data runs.csv --tiers tiers.json --a 17 --b 42 --objective avg_jct_over_incumbent --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("a") || !cmd.Flags().Changed("b") {
				return usageError{errors.New("--a and --b name the two rows of the data to compare; the first row is 1")}
			}
			if a == b {
				return usageError{fmt.Errorf("--a and --b are both row %d: name two", a)}
			}
			l, err := f.learn(cmd)
			if err != nil {
				return err
			}
			p, err := l.row("a", a)
			if err != nil {
				return err
			}
			q, err := l.row("b", b)
			if err != nil {
				return err
			}
			var all []model.Comparison
			for _, o := range l.objectives {
				c, err := l.Compare(o, p, q, f.seed)
				if err != nil {
					return err
				}
				all = append(all, c)
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), struct {
					Model       modelJSON          `json:"model"`
					A           int                `json:"row_a"`
					B           int                `json:"row_b"`
					Comparisons []model.Comparison `json:"comparisons"`
				}{l.head("a and b are as in the rows, all else is predicted"), a, b, all})
			}
			return l.printComparison(cmd.OutOrStdout(), a, b, all)
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&a, "a", 0, "row of the data, the first is 1 (required)")
	cmd.Flags().IntVar(&b, "b", 0, "row to compare it with (required)")
	return cmd
}

func (l *learnt) printComparison(w io.Writer, rowA, rowB int, all []model.Comparison) error {
	if err := l.print(w, "What is called predicted was not measured; data are the rows'."); err != nil {
		return err
	}
	for i, c := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "%s\tROW %d\tROW %d\tDIFFERENCE\n", strings.ToUpper(c.Objective), rowA, rowB)
		fmt.Fprintf(t, "data\t%s\t%s\t%s\n", short(c.A), short(c.B), signed(c.A-c.B))
		fmt.Fprintf(t, "predicted\t%s\t%s\t%s\n", short(c.PredictedA), short(c.PredictedB), signed(c.PredictedA-c.PredictedB))
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
		t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "BECAUSE OF\tROW %d\tROW %d\tADDS (PREDICTED)\tBY WAY OF\n", rowA, rowB)
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
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", s.Column, l.Text(s.Column, s.A), l.Text(s.Column, s.B), signed(s.Contribution), strings.Join(ways, ", "))
		}
		fmt.Fprintf(t, "unexplained\t\t\t%s\t\n", signed(c.Unexplained))
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}
