package explain

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/cli"
)

// objectiveEffects has the effects on one objective.
type objectiveEffects struct {
	Objective    string              `json:"objective"`
	Effects      []model.Effect      `json:"effects"`
	Paths        []model.Path        `json:"paths"`
	Interactions []model.Interaction `json:"interactions"`
}

const effectNumbers = "All numbers below are predicted by it: none was measured."

// effectsOptions are the flags of causal effects.
type effectsOptions struct {
	model modelFlags
	top   int
}

// effects is the result of explain effects.
type effects struct {
	Model      modelJSON          `json:"model"`
	Objectives []objectiveEffects `json:"objectives"`
}

func newCausalEffectsCmd() *cobra.Command {
	var o effectsOptions
	cmd := &cobra.Command{
		Use:   "effects --data FILE.csv --tiers FILE.json",
		Short: "Rank parameters by what they do to the objectives",
		Long: `Learns the performance model and estimates how far each parameter moves an objective.

The effect is the average causal effect: between the values of the parameter at
which the objective is lowest and highest, all else being as in the data (for a
number, its 5, 25, 50, 75 and 95 % quantiles are looked at). It comes from the
direct head, a regression of the objective on what was set and the workload: as
configurations are chosen from outside it needs no graph to be right. Parameters
are ranked by the lower end of the 90 % interval. Inert ones have no path to the
objective in the graph and no effect that is certainly above zero.

Paths come from the graph: how far the objective moves if a parameter acts along
this path only. An interaction is how far the effect of two parameters together
differs, at most, from the sum of theirs.`,
		Example: `  autosched explain effects --data runs.csv --tiers tiers.json
  autosched explain effects --data runs.csv --tiers tiers.json --graph graph.json --objective avg_jct_over_incumbent --json | jq '.objectives[0].effects[0]'`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.top < 0 {
				return cli.Usage(fmt.Errorf("--top: %d is negative", o.top))
			}
			l, x, err := o.run(cmd)
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.model.json, "causal-effects/v1", x, func(w io.Writer) error {
				return l.printEffects(w, x.Objectives)
			})
		},
	}
	o.model.add(cmd)
	cmd.Flags().IntVar(&o.top, "top", 8, "how many paths and interactions to show")
	return cmd
}

func (o *effectsOptions) run(cmd *cobra.Command) (*learnt, *effects, error) {
	l, err := o.model.learn(cmd)
	if err != nil {
		return nil, nil, err
	}
	out := &effects{Model: l.head("predicted")}
	for _, objective := range l.objectives {
		x := objectiveEffects{Objective: objective}
		if x.Effects, err = l.Effects(objective); err != nil {
			return nil, nil, err
		}
		if x.Paths, err = l.Paths(objective, "", o.top); err != nil {
			return nil, nil, err
		}
		if x.Interactions, err = l.Interactions(objective); err != nil {
			return nil, nil, err
		}
		x.Interactions = x.Interactions[:min(o.top, len(x.Interactions))]
		out.Objectives = append(out.Objectives, x)
	}
	return l, out, nil
}

func (l *learnt) printEffects(w io.Writer, all []objectiveEffects) error {
	if err := l.print(w, effectNumbers); err != nil {
		return err
	}
	for i, x := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := x.print(w); err != nil {
			return err
		}
	}
	return nil
}

// print prints the effects on one objective, then ways and interactions.
func (x *objectiveEffects) print(w io.Writer) error {
	if err := x.printParameters(w); err != nil {
		return err
	}
	if len(x.Paths) > 0 {
		fmt.Fprintln(w)
		t := cli.NewTable(w, "WAY\tEFFECT ALONG IT ONLY\tMEAN STRENGTH OF ITS EDGES\t")
		for _, p := range x.Paths {
			note := ""
			if p.Confounded {
				note = "a hidden cause may account for part of it"
			}
			fmt.Fprintf(t, "%s\t%s\t%.2f\t%s\n", strings.Join(p.Nodes, " -> "), short(p.Effect), p.Strength, note)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(x.Interactions) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := cli.NewTable(w, "INTERACTION\t\tUP TO")
	for _, p := range x.Interactions {
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.A, p.B, short(p.Index))
	}
	return t.Flush()
}

// printParameters prints the effect of each parameter, and the mean at each of
// its levels.
func (x *objectiveEffects) printParameters(w io.Writer) error {
	t := cli.NewTable(w, "")
	fmt.Fprintf(t, "EFFECT ON %s\tLOWEST TO HIGHEST\tOF MEAN\t90 %% INTERVAL\tLOWEST AT\tHIGHEST AT\t\n", x.Objective)
	for _, e := range x.Effects {
		low, high := extremes(e.Levels)
		note := ""
		switch {
		case e.Inert:
			note = "inert"
		case !e.Connected:
			note = "no way in the graph"
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f %%\t%s to %s\t%s\t%s\t%s\n", e.Parameter, short(e.ACE), e.Percent, short(e.Low),
			short(e.High), levelText(e.Levels[low]), levelText(e.Levels[high]), note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nMEAN %s IF SET TO\n", x.Objective)
	t = cli.NewTable(w, "")
	for _, e := range x.Effects {
		var levels []string
		for _, level := range e.Levels {
			levels = append(levels, levelText(level)+": "+short(level.Mean))
		}
		fmt.Fprintf(t, "%s\t%s\n", e.Parameter, strings.Join(levels, "   "))
	}
	return t.Flush()
}

// extremes are the levels of the lowest and the highest mean.
func extremes(levels []model.Level) (low, high int) {
	for i, l := range levels {
		if l.Mean < levels[low].Mean {
			low = i
		}
		if l.Mean > levels[high].Mean {
			high = i
		}
	}
	return low, high
}

func levelText(l model.Level) string {
	if l.Name != "" {
		return l.Name
	}
	return short(l.Value)
}
