package waste

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/patterns"
)

func newPatternsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "patterns",
		Short: "Find what wastes a cluster: idle GPUs, growing queues, stragglers",
		Long: `Rules over events and telemetry find jobs that hold GPUs and do not use them, queues that
grow by themselves, nodes that slow a gang down. A finding has the numbers it rests on, the
GPU-hours it wastes, and what to do. docs/patterns.md describes rules and streams.`,
		Example: `  autosched patterns rules
  autosched patterns scan --trace sample --nodes 20 --gpus-per-node 8`,
	}
	cmd.AddCommand(newPatternsRulesCmd(), newPatternsLintCmd(), newPatternsScanCmd())
	return cmd
}

// patternRules is the result of patterns rules.
type patternRules struct {
	Rules []patternRule `json:"rules"`
	text  string
}

type patternRule struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	GroupBy []string `json:"group_by"`
	Action  string   `json:"action"`
	YAML    string   `json:"yaml"`
}

func newPatternsRulesCmd() *cobra.Command {
	var asJSON, asYAML bool
	var path string
	cmd := &cobra.Command{
		Use:   "rules [NAME...]",
		Short: "List rules, or print some as YAML",
		Long: `Lists the rules. With names, or with --yaml for all, it prints them as YAML: change the
numbers, and give the file to --rules of 'autosched patterns scan'.`,
		Example: `  autosched patterns rules
  autosched patterns rules hoarding idle_allocation
  autosched patterns rules --yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := cli.ReadRules("--rules", path, args)
			if err != nil {
				return err
			}
			r := &patternRules{}
			if asYAML || len(args) > 0 {
				var text strings.Builder
				if err := set.Write(&text); err != nil {
					return err
				}
				r.text = text.String()
			}
			for i := range set.Rules {
				x := &set.Rules[i]
				var text strings.Builder
				one := &patterns.RuleSet{Version: set.Version, Rules: set.Rules[i : i+1]}
				if err := one.Write(&text); err != nil {
					return err
				}
				r.Rules = append(r.Rules, patternRule{x.ID, x.Title, x.GroupBy, x.Action, text.String()})
			}
			return cli.Show(cmd.OutOrStdout(), asJSON, "pattern-rules/v1", r, r.print)
		},
	}
	cmd.Flags().StringVar(&path, "rules", "", "")
	cmd.Flags().BoolVar(&asYAML, "yaml", false, "print the rules as YAML")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

func (r *patternRules) print(w io.Writer) error {
	if r.text != "" {
		_, err := io.WriteString(table.Whole(w), r.text)
		return err
	}
	t := table.New(w, "RULE\tOF\tACTION\tFINDS")
	for _, x := range r.Rules {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", x.ID, strings.Join(x.GroupBy, ", "), x.Action, x.Title)
	}
	return t.Flush()
}

// patternLint is the result of patterns lint.
type patternLint struct {
	File  string   `json:"file"`
	Rules int      `json:"rules"`
	Notes []string `json:"notes"`
}

func newPatternsLintCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "lint FILE",
		Short:   "Check a file of rules",
		Long:    "Checks a file of rules whole: keys, signals, terms and numbers. An error names the line.",
		Example: "  autosched patterns lint rules.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage(errors.New("patterns lint: name one file of rules"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := cli.ReadInput(cmd, args[0], func(in io.Reader) (*patterns.RuleSet, error) {
				return patterns.ReadRules(in, "rules")
			})
			if err != nil {
				return err
			}
			r := &patternLint{File: args[0], Rules: len(set.Rules), Notes: append([]string{}, set.Lint()...)}
			return cli.Show(cmd.OutOrStdout(), asJSON, "pattern-lint/v1", r, func(w io.Writer) error {
				for _, n := range r.Notes {
					fmt.Fprintf(w, "note: %s\n", n)
				}
				_, err := fmt.Fprintf(w, "%s: %d rules are valid\n", r.File, r.Rules)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}
