package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/round"
)

// tuneFlags say what a tuning round may cost and asks for.
type tuneFlags struct {
	objective string
	settings  round.Settings
	generate  string
	method    generation.Method // of generate, set by check
}

func (t *tuneFlags) add(cmd *cobra.Command) {
	t.addSearch(cmd)
	fl := cmd.Flags()
	fl.Float64Var(&t.settings.MinRatio, "min-ratio", t.settings.MinRatio,
		"least gain on the controllable part that replaces the incumbent")
	fl.BoolVar(&t.settings.Always, "always", false,
		"replace the incumbent by the best on average whatever it gains, as the paper does")
}

// addSearch adds what a search needs, without the rule by which its result is
// adopted.
func (t *tuneFlags) addSearch(cmd *cobra.Command) {
	t.settings = round.DefaultSettings()
	s := &t.settings
	fl := cmd.Flags()
	addObjective(cmd, &t.objective)
	fl.DurationVar(&s.Horizon, "horizon", s.Horizon, "how far ahead arrivals are forecast")
	fl.IntVar(&s.Futures, "futures", s.Futures, "futures that every candidate is simulated on")
	addGenerate(cmd, &t.generate)
	fl.IntVar(&s.Budget, "budget", s.Budget, "evaluations per round; one is a configuration on all futures")
	fl.IntVar(&s.Workers, "workers", 0, "parallel evaluations (0: one per processor); results do not depend on it")
}

// seeded are the settings with a seed.
func (t *tuneFlags) seeded(seed uint64) round.Settings {
	s := t.settings
	s.Seed = seed
	return s
}

func addObjective(cmd *cobra.Command, objective *string) {
	cmd.Flags().StringVar(objective, "objective", round.Objectives[0],
		"what to minimise: "+strings.Join(round.Objectives, ", "))
	_ = cmd.RegisterFlagCompletionFunc("objective",
		cobra.FixedCompletions(round.Objectives, cobra.ShellCompDirectiveNoFileComp))
}

func addGenerate(cmd *cobra.Command, method *string) {
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

// mostFutures bounds what is drawn and kept in memory; some ten are enough.
const mostFutures = 1000

// check refuses what is not one of round.Objectives, too.
func (t *tuneFlags) check() error {
	if err := round.CheckObjective(t.objective, false); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	return t.checkSettings()
}

func (t *tuneFlags) checkSettings() error {
	var err error
	if t.method, err = generation.ParseMethod(t.generate); err != nil {
		return usageError{fmt.Errorf("--generate: %w", err)}
	}
	s := &t.settings
	switch {
	case s.Horizon <= 0:
		return usageError{fmt.Errorf("--horizon: %v is not positive", s.Horizon)}
	case s.Futures < 1 || s.Futures > mostFutures:
		return usageError{fmt.Errorf("--futures: %d is not from 1 to %d", s.Futures, mostFutures)}
	case s.Budget <= 0:
		return usageError{fmt.Errorf("--budget: %d is not positive", s.Budget)}
	case s.Workers < 0:
		return usageError{fmt.Errorf("--workers: %d is negative", s.Workers)}
	case !(s.MinRatio >= 1):
		return usageError{fmt.Errorf("--min-ratio: %g is below 1: it would adopt configurations that are worse",
			s.MinRatio)}
	}
	return nil
}
