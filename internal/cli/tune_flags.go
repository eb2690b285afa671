package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
)

// SamplerNames lists the samplers.
func SamplerNames() []string {
	var out []string
	for _, e := range search.Samplers {
		out = append(out, e.Name)
	}
	return out
}

// TuneFlags bound the cost of a tuning round and set its conditions.
type TuneFlags struct {
	GoalFlags
	Settings round.Settings
	generate string
	Method   generation.Method // of generate, set by check
}

// Add adds the flags of rounds.
func (t *TuneFlags) Add(cmd *cobra.Command) {
	t.AddSearch(cmd)
	cmd.Flags().BoolVar(&t.Settings.Always, "always", false,
		"replace the incumbent by the best on average whatever it gains, as the paper does")
}

// AddSearch adds the flags of a search, without the rule by which its result is
// adopted.
func (t *TuneFlags) AddSearch(cmd *cobra.Command) {
	t.Settings = round.DefaultSettings()
	s := &t.Settings
	fl := cmd.Flags()
	AddObjective(cmd, &t.Objective)
	fl.DurationVar(&s.Horizon, "horizon", s.Horizon, "how far ahead arrivals are forecast")
	fl.IntVar(&s.Futures, "futures", s.Futures, "futures that every candidate is simulated on")
	AddGenerate(cmd, &t.generate)
	fl.IntVar(&s.Budget, "budget", s.Budget, "evaluations per round; one is a configuration on all futures")
	fl.IntVar(&s.Workers, "workers", 0, "parallel evaluations (0: one per processor); results do not depend on it")
}

// Seeded are the settings with a seed.
func (t *TuneFlags) Seeded(seed uint64) round.Settings {
	s := t.Settings
	s.Seed = seed
	return s
}

// AddObjective adds the flag of the metric to improve.
func AddObjective(cmd *cobra.Command, objective *string) {
	cmd.Flags().StringVar(objective, "objective", round.Objectives[0],
		"what to minimise: "+strings.Join(round.Objectives, ", "))
	_ = cmd.RegisterFlagCompletionFunc("objective",
		cobra.FixedCompletions(round.Objectives, cobra.ShellCompDirectiveNoFileComp))
}

// AddGenerate adds the flag of the method that draws futures.
func AddGenerate(cmd *cobra.Command, method *string) {
	cmd.Flags().StringVar(method, "generate", generation.DefaultMethod,
		"how futures are made, ARRIVALS/DURATIONS: "+
			strings.Join(generateMethods(), ", ")+"; "+generation.HistoryDurations+" or "+generation.PredictedDurations)
	_ = cmd.RegisterFlagCompletionFunc("generate",
		cobra.FixedCompletions(generateMethods(), cobra.ShellCompDirectiveNoFileComp))
}

// generateMethods are the ways to forecast arrivals.
func generateMethods() []string {
	var out []string
	for _, m := range arrivals.Methods {
		out = append(out, m.Name)
	}
	return out
}

// MaxFutures bounds the futures in memory; some ten are enough.
const MaxFutures = 1000

// Check also refuses objectives outside of round.Objectives.
func (t *TuneFlags) Check() error {
	if err := round.CheckObjective(t.Objective, false); err != nil {
		return UsageError{fmt.Errorf("--%w", err)}
	}
	return t.CheckSettings()
}

// CheckSettings checks the settings of rounds.
func (t *TuneFlags) CheckSettings() error {
	var err error
	if t.Method, err = generation.ParseMethod(t.generate); err != nil {
		return UsageError{fmt.Errorf("--generate: %w", err)}
	}
	s := &t.Settings
	switch {
	case s.Horizon <= 0:
		return UsageError{fmt.Errorf("--horizon: %v is not positive", s.Horizon)}
	case s.Futures < 1 || s.Futures > MaxFutures:
		return UsageError{fmt.Errorf("--futures: %d is not from 1 to %d", s.Futures, MaxFutures)}
	case s.Budget <= 0:
		return UsageError{fmt.Errorf("--budget: %d is not positive", s.Budget)}
	case s.Workers < 0:
		return UsageError{fmt.Errorf("--workers: %d is negative", s.Workers)}
	}
	return nil
}
