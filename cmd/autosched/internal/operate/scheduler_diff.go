package operate

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

func newSchedulerDiffCmd(f *cli.ClientFlags) *cobra.Command {
	var builtin, file string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Show in what two configurations, or two spaces, differ",
		Long: `Shows in what two spaces or two configurations differ. Needs no running service.

Without a flag A and B are spaces: files as 'autosched scheduler validate' takes
them, or names of built-in schedulers. With --scheduler or --space they are
configurations of that space: files of values (YAML or JSON, what 'autosched
scheduler config get --json' prints among them), names of the scheduler's presets, or the
word default. A file may leave values out: what is compared are the effective
values, with defaults filled in and every rule applied; what that changed is
said below the table.`,
		Example: `  autosched scheduler diff default ladder-7200x6 --scheduler tiresias
  autosched scheduler diff yesterday.yaml today.yaml --scheduler tiresias
  autosched scheduler diff tiresias prod.yaml --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Usage(fmt.Errorf("want two things to compare, A and B, not %d", len(args)))
			}
			if args[0] == "-" && args[1] == "-" {
				return cli.Usage(errors.New("only one of A and B can be standard input"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if builtin == "" && file == "" {
				return diffSpaces(cmd, args, f.JSON)
			}
			sp, presets, err := spaceOf(cmd.InOrStdin(), builtin, file)
			if err != nil {
				return err
			}
			return diffConfigs(cmd, args, sp, presets, f.JSON)
		},
	}
	cmd.Flags().StringVar(&builtin, "scheduler", "", "A and B are configurations of this built-in scheduler")
	cmd.Flags().StringVar(&file, "space", "", "A and B are configurations of the space in this file")
	cmd.MarkFlagsMutuallyExclusive("scheduler", "space")
	return cmd
}

// spaceOf is a built-in space with its presets, or one in a file.
func spaceOf(stdin io.Reader, builtin, file string) (*space.Space, []schedulers.Preset, error) {
	if builtin != "" {
		s, err := schedulers.Find(builtin)
		if err != nil {
			return nil, nil, cli.Usage(err)
		}
		return s.Space, s.Presets, nil
	}
	text, err := cli.ReadText(stdin, file)
	if err != nil {
		return nil, nil, err
	}
	sp, err := cli.LoadSpace(text, file)
	if err != nil {
		return nil, nil, cli.ListViolations(file, err)
	}
	return sp, nil, nil
}

func diffSpaces(cmd *cobra.Command, args []string, asJSON bool) error {
	var spaces [2]*space.Space
	for i, arg := range args {
		builtin, file := "", arg
		if _, err := schedulers.Find(arg); err == nil {
			builtin, file = arg, ""
		}
		var err error
		if spaces[i], _, err = spaceOf(cmd.InOrStdin(), builtin, file); err != nil {
			return err
		}
	}
	differences := space.DiffSpaces(spaces[0], spaces[1])
	if asJSON {
		return schema.Write(cmd.OutOrStdout(), "space-differences/v1", map[string]any{
			"a": spaces[0].Digest(), "b": spaces[1].Digest(),
			"differences": append([]space.Difference{}, differences...),
		})
	}
	return printDifferences(cmd.OutOrStdout(), "FIELD", args, differences)
}

// configReport is one of the configurations compared, as --json prints it.
type configReport struct {
	Hash      string         `json:"hash"`
	Effective space.Config   `json:"effective"`
	Changes   []space.Change `json:"changes"`
}

func diffConfigs(cmd *cobra.Command, args []string, sp *space.Space, presets []schedulers.Preset, asJSON bool) error {
	var reports [2]configReport
	for i, arg := range args {
		c, changes, err := configOf(cmd.InOrStdin(), arg, sp, presets)
		if err != nil {
			return err
		}
		reports[i] = configReport{c.Hash(), c, append([]space.Change{}, changes...)}
	}
	differences := space.DiffConfigs(reports[0].Effective, reports[1].Effective)
	w := cmd.OutOrStdout()
	if asJSON {
		return schema.Write(w, "configuration-differences/v1", map[string]any{"a": reports[0], "b": reports[1],
			"differences": append([]space.Difference{}, differences...)})
	}
	if err := printDifferences(w, "PARAMETER", args, differences); err != nil {
		return err
	}
	for i, r := range reports {
		for _, ch := range r.Changes {
			p, _ := sp.Param(ch.Param)
			switch {
			case ch.From.IsZero():
				// A file may leave values out.
			case ch.To.IsZero():
				fmt.Fprintf(w, "%s: %s=%s does not count (%s)\n", args[i], ch.Param, ch.From, ch.Rule)
			default:
				fmt.Fprintf(w, "%s: %s=%s is in effect %s (%s)\n", args[i], ch.Param, ch.From, p.Format(ch.To), ch.Rule)
			}
		}
	}
	return nil
}

// configOf reads one configuration: default, a preset or a file.
func configOf(stdin io.Reader, arg string, sp *space.Space, presets []schedulers.Preset) (space.Config, []space.Change,
	error) {
	if arg == "default" {
		return sp.Default(), nil, nil
	}
	for _, p := range presets {
		if p.Name == arg {
			return p.Config, nil, nil
		}
	}
	text, _, err := cli.ReadConfigText(stdin, arg)
	if err != nil {
		if len(presets) > 0 {
			err = fmt.Errorf("%w, and it names no preset either ('autosched scheduler spaces' lists them)", err)
		}
		return space.Config{}, nil, err
	}
	c, changes, err := sp.LoadConfig(text)
	if err != nil {
		return c, nil, cli.ListViolations(arg, err)
	}
	return c, changes, nil
}

func printDifferences(w io.Writer, what string, args []string, differences []space.Difference) error {
	if len(differences) == 0 {
		_, err := fmt.Fprintln(w, "no difference")
		return err
	}
	t := cli.NewTable(w, "")
	fmt.Fprintf(t, "%s\t%s\t%s\n", what, args[0], args[1])
	for _, d := range differences {
		fmt.Fprintf(t, "%s\t%s\t%s\n", d.Field, cli.OrDash(d.From), cli.OrDash(d.To))
	}
	return t.Flush()
}
