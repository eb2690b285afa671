package waste

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/cre"
)

// patternExchange is the result of patterns import and export.
type patternExchange struct {
	File  string   `json:"file"`
	Rules []string `json:"rules"`
	// Lost lists the rules that cannot be expressed, and the parts of the others that are not kept.
	Lost []string `json:"lost"`
}

func (r *patternExchange) add(set *patterns.RuleSet) {
	r.Rules = []string{}
	for i := range set.Rules {
		r.Rules = append(r.Rules, set.Rules[i].ID)
	}
}

// finish prints the result of a command: as JSON, or the losses as notes.
func (r *patternExchange) finish(cmd *cobra.Command, asJSON bool, schema string) error {
	r.Lost = append([]string{}, r.Lost...)
	return cli.Show(cmd.OutOrStdout(), asJSON, schema, r, func(io.Writer) error {
		for _, text := range r.Lost {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", text)
		}
		return nil
	})
}

// checkRulesOut refuses JSON where the rules are.
func checkRulesOut(out string, asJSON bool) error {
	if asJSON && out == "-" {
		return cli.Usage(errors.New("--json needs --out FILE: standard output holds the rules"))
	}
	return nil
}

func newPatternsImportCmd() *cobra.Command {
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Make rules of Common Reliability Enumerations",
		Long: `Reads a file of Common Reliability Enumerations (schema ` + cre.Version + `) and writes rules for --rules of
'autosched patterns scan', whose --messages they match. It says what is lost: queries,
scripts and matches within matches cannot be expressed.`,
		Example: "  autosched patterns import cre.yaml --out rules.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage(errors.New("patterns import: name one file"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkRulesOut(out, asJSON); err != nil {
				return err
			}
			in, err := atomicfile.Open(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			r := &patternExchange{File: args[0]}
			set, lost, err := cre.Read(in, args[0])
			if err != nil {
				return err
			}
			r.Lost = lost
			r.add(set)
			if err := cli.WriteOutput(cmd, out, set.Write); err != nil {
				return err
			}
			return r.finish(cmd, asJSON, "pattern-import/v1")
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "-", "file to write, - for standard output")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

func newPatternsExportCmd() *cobra.Command {
	var out, path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "export [NAME...]",
		Short: "Write rules as Common Reliability Enumerations",
		Long: `Writes rules in the schema ` + cre.Version + ` of Common Reliability Enumerations, as far as it can express
them, and says what is lost: it has no numeric windows, no groups by user or key, and no
detectors. Terms on events become queries on the lines that 'autosched trace export' writes.`,
		Example: "  autosched patterns export crash_loop --out cre.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkRulesOut(out, asJSON); err != nil {
				return err
			}
			set, err := cli.ReadRules("--rules", path, args)
			if err != nil {
				return err
			}
			r := &patternExchange{File: out}
			r.add(set)
			err = cli.WriteOutput(cmd, out, func(w io.Writer) error {
				var err error
				r.Lost, err = cre.Write(w, set)
				return err
			})
			if err != nil {
				return err
			}
			return r.finish(cmd, asJSON, "pattern-export/v1")
		},
	}
	cmd.Flags().StringVar(&path, "rules", "", "")
	cmd.Flags().StringVarP(&out, "out", "o", "-", "file to write, - for standard output")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}
