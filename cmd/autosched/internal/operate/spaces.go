package operate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

func newSchedulerSpacesCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "spaces [NAME]",
		Short: "Show the parameter space of each built-in scheduler, or of one",
		Long: `Shows the parameter space of each built-in scheduler, or of the one named:
parameters with their defaults, ranges and units, their dependencies, and the
presets that tuning tries first. Needs no running service. A preset is printed as
its difference from the default; --preset takes its name.`,
		Example: `  autosched scheduler spaces
  autosched scheduler spaces tiresias --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage(errors.New("name one scheduler, or none for all"))
			}
			return nil
		},
		ValidArgs: schedulers.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := schedulers.All
			if len(args) == 1 {
				one, err := schedulers.Find(args[0])
				if err != nil {
					return cli.Usage(err)
				}
				all = []*schedulers.Scheduler{one}
			}
			if f.JSON {
				return printSpacesJSON(cmd.OutOrStdout(), all)
			}
			for i, s := range all {
				if i > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				if err := printSpace(cmd.OutOrStdout(), s); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// spaceReport is a scheduler as --json prints it.
type spaceReport struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Paper       string          `json:"paper,omitempty"`
	Clairvoyant bool            `json:"clairvoyant,omitempty"`
	Space       json.RawMessage `json:"space"`
	Default     space.Config    `json:"default"`
	Presets     []presetReport  `json:"presets"`
}

type presetReport struct {
	Name          string       `json:"name"`
	Configuration space.Config `json:"configuration"`
}

func printSpacesJSON(w io.Writer, all []*schedulers.Scheduler) error {
	var out []spaceReport
	for _, s := range all {
		text, err := s.Space.MarshalJSON()
		if err != nil {
			return err
		}
		r := spaceReport{Name: s.Name, Title: s.Title, Paper: s.Paper, Clairvoyant: s.Clairvoyant, Space: text,
			Default: s.Space.Default(), Presets: []presetReport{}}
		for _, p := range s.Presets {
			r.Presets = append(r.Presets, presetReport{p.Name, p.Config})
		}
		out = append(out, r)
	}
	return schema.Write(w, "spaces/v1", map[string]any{"schedulers": out})
}

func printSpace(w io.Writer, s *schedulers.Scheduler) error {
	fmt.Fprintf(w, "%s: %s", s.Name, s.Title)
	if s.Paper != "" {
		fmt.Fprintf(w, " (%s)", s.Paper)
	}
	fmt.Fprintln(w)
	if s.Clairvoyant {
		fmt.Fprintln(w, "  knows true run times: a baseline, not for deployment")
	}
	if err := printParameters(w, s.Space); err != nil {
		return err
	}
	if always := round.Inert(s, true, false); len(always) > 0 {
		fmt.Fprintf(w, "  tuning, which gives the scheduler no run times, leaves %s unchanged", strings.Join(always, ", "))
		more := slices.DeleteFunc(round.Inert(s, false, false),
			func(id string) bool { return slices.Contains(always, id) })
		if len(more) > 0 {
			fmt.Fprintf(w, ", and %s where no job has a deadline", strings.Join(more, ", "))
		}
		fmt.Fprintln(w)
	}
	params := s.Space.Params()
	base := s.Space.Default()
	for _, p := range s.Presets {
		fmt.Fprintf(w, "  preset %s: %s\n", p.Name, difference(p.Config, base, params))
	}
	return nil
}

// printParameters prints a space: parameters, dependencies, and how values that
// break a rule are projected.
func printParameters(w io.Writer, sp *space.Space) error {
	t := cli.NewTable(w, "")
	params := sp.Params()
	if len(params) > 0 {
		fmt.Fprintln(t, "  PARAMETER\tDEFAULT\tRANGE\tUNIT\tMODULE\tDESCRIPTION")
	}
	for i := range params {
		p := &params[i]
		unit := p.Unit
		if unit == "" && p.Kind == space.KindDuration {
			unit = "s"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\n", p.ID, p.Format(p.Default), p.Range(), cmp.Or(unit, "-"),
			cmp.Or(p.Module, "-"), p.Description)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range params {
		if a := params[i].Array; a != nil {
			fmt.Fprintf(w, "  depends: %s has as many values as %s%s, at most %d\n", params[i].ID, a.Length,
				offset(a.Offset), a.Max)
		}
	}
	for _, r := range sp.Rules() {
		fmt.Fprintf(w, "  depends: %s", &r)
		if r.Description != "" {
			fmt.Fprintf(w, " (%s)", r.Description)
		}
		fmt.Fprintf(w, "; if broken, %s\n", r.Projection())
	}
	return nil
}

func offset(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" %+d", n)
}

// difference is the settings in which a configuration differs from base, as --set
// reads them.
func difference(c, base space.Config, params []space.Param) string {
	var parts []string
	for i := range params {
		id := params[i].ID
		if v := c.Get(id); c.Has(id) && !v.Equal(base.Get(id)) {
			parts = append(parts, id+"="+params[i].Format(v))
		}
	}
	if len(parts) == 0 {
		return "as the default"
	}
	return strings.Join(parts, " ")
}

const validateHelp = `Checks a FILE (YAML or JSON, - for standard input) and shows the space it
describes, or all its violations with field and line. Needs no running service.
FILE is one of two things:

A space of its own, with the fields parameters and rules:

  parameters:
    - {id: queues, kind: int, min_value: 1, max_value: 6, default_value: 3}
    - id: thresholds                  # one fewer than queues
      kind: float
      min_value: 60
      max_value: 1e6
      log: true
      array: {length: queues, offset: -1, max_length: 5}
      default_value: [3250, 7200]
    - id: starve_limit
      kind: duration
      min_value: 5m
      max_value: 12h
      special_values: [{value: 0, name: "off"}]
      default_value: "off"
    - {id: effort, kind: ordinal, categories: [low, mid, high], default_value: mid}
  rules:
    - {id: increase, ordering: {params: [thresholds], min_ratio: 1.1}}
    - {id: starving, activation: {param: starve_limit, when: queues, op: ">=", value: 2}}
    - id: budget
      linear: {terms: [{param: queues, coefficient: 2}], max_value: 10}
    - id: costly
      forbidden: {all: [{param: queues, op: ">", value: 4}, {param: effort, op: "==", value: high}]}

Kinds: float, int, bool, categorical, ordinal, duration. Or a registration, as
'autosched scheduler register' takes it; it is recognised by its field spec.`

func newSchedulerValidateCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a file that describes a parameter space or a registration",
		Long:  validateHelp,
		Example: `  autosched scheduler validate space.yaml
  autosched scheduler validate prod.yaml --json
  autosched scheduler spaces tiresias --json | jq '.schedulers[0].space' | autosched scheduler validate -`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage(fmt.Errorf("want one FILE, not %d", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := cli.ReadText(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			sp, err := cli.LoadSpace(text, args[0])
			if f.JSON {
				valid := validationOf(sp, err)
				if failed := schema.Write(cmd.OutOrStdout(), "space-validation/v1", valid); failed != nil {
					return failed
				}
			}
			if err != nil {
				return cli.ListViolations(args[0], err)
			}
			if f.JSON {
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is valid: %s\n", args[0], sizeText(sp))
			return printParameters(cmd.OutOrStdout(), sp)
		},
	}
}

// countLimit bounds how many configurations are counted one by one.
const countLimit = 20_000

// sizeText is the size of a space in words.
func sizeText(sp *space.Space) string {
	text := units.Plural(len(sp.Params()), "parameter") + ", " + units.Plural(len(sp.Rules()), "rule") + ", " +
		units.Plural(sp.Dims(), "dimension") + ", "
	switch n, exact := configurations(sp); {
	case exact:
		return text + units.Plural(int(n), "configuration")
	case math.IsInf(n, 1):
		return text + "infinitely many configurations"
	default:
		return text + fmt.Sprintf("up to %.6g configurations", n)
	}
}

// configurations counts the configurations of a space, or bounds them from above.
func configurations(sp *space.Space) (n float64, exact bool) {
	if all, complete := sp.Enumerate(countLimit); complete {
		return float64(len(all)), true
	}
	return sp.Size(), false
}

// validation is the output of --json.
type validation struct {
	Valid      bool             `json:"valid"`
	Violations space.Violations `json:"violations,omitempty"`
	Error      string           `json:"error,omitempty"` // of a file that cannot be read as a specification
	Digest     string           `json:"digest,omitempty"`
	Dimensions int              `json:"dimensions,omitempty"`
	// Configurations is how many there are, absent if infinitely many; an upper
	// bound unless Exact.
	Configurations *float64      `json:"configurations,omitempty"`
	Exact          bool          `json:"exact,omitempty"`
	Rules          []ruleReport  `json:"rules,omitempty"`
	Space          *space.Space  `json:"space,omitempty"`
	Default        *space.Config `json:"default,omitempty"`
}

type ruleReport struct {
	ID         string `json:"id"`
	Rule       string `json:"rule"`
	Projection string `json:"projection"`
}

func validationOf(sp *space.Space, err error) validation {
	var out validation
	if err != nil {
		if !errors.As(err, &out.Violations) {
			out.Error = err.Error()
		}
		return out
	}
	def := sp.Default()
	out = validation{Valid: true, Digest: sp.Digest(), Dimensions: sp.Dims(), Space: sp, Default: &def}
	if n, exact := configurations(sp); !math.IsInf(n, 1) {
		out.Configurations, out.Exact = &n, exact
	}
	for _, r := range sp.Rules() {
		out.Rules = append(out.Rules, ruleReport{r.ID, r.String(), r.Projection()})
	}
	return out
}

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
	cmd.Flags().StringVar(&builtin, "scheduler", "", "")
	cmd.Flags().StringVar(&file, "space", "", "")
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
		fmt.Fprintf(t, "%s\t%s\t%s\n", d.Field, cmp.Or(d.From, "-"), cmp.Or(d.To, "-"))
	}
	return t.Flush()
}
