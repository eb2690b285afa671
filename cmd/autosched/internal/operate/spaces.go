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
	"github.com/autosched/autosched/internal/table"
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
			return cli.Print(cmd.OutOrStdout(), func(w io.Writer) error {
				for i, s := range all {
					if i > 0 {
						fmt.Fprintln(w)
					}
					if err := printSpace(w, s); err != nil {
						return err
					}
				}
				return nil
			})
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
	t := table.New(w, "")
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
			return cli.Print(cmd.OutOrStdout(), func(w io.Writer) error {
				fmt.Fprintf(w, "%s is valid: %s\n", args[0], sizeText(sp))
				return printParameters(w, sp)
			})
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
