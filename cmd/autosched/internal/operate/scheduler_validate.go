package operate

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/space"
)

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
	text := cli.Plural(len(sp.Params()), "parameter") + ", " + cli.Plural(len(sp.Rules()), "rule") + ", " +
		cli.Plural(sp.Dims(), "dimension") + ", "
	switch n, exact := configurations(sp); {
	case exact:
		return text + cli.Plural(int(n), "configuration")
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
