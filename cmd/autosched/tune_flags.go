package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
)

// tuneFlags say what a tuning round may cost and asks for.
type tuneFlags struct {
	objective string
	horizon   time.Duration
	futures   int
	budget    int
	workers   int
	minRatio  float64
	always    bool
	generate  string
}

func (t *tuneFlags) add(cmd *cobra.Command, budget int) {
	t.addSearch(cmd, budget)
	fl := cmd.Flags()
	fl.Float64Var(&t.minRatio, "min-ratio", replay.DefaultMinRatio, "least gain on the controllable part that replaces the incumbent")
	fl.BoolVar(&t.always, "always", false, "replace the incumbent by the best on average whatever it gains, as the paper does")
}

// addSearch adds what a search needs, without the rule by which its result is
// adopted.
func (t *tuneFlags) addSearch(cmd *cobra.Command, budget int) {
	t.minRatio = replay.DefaultMinRatio
	fl := cmd.Flags()
	addObjective(cmd, &t.objective)
	fl.DurationVar(&t.horizon, "horizon", replay.DefaultHorizon, "arrivals forecast for this long belong to a future")
	fl.IntVar(&t.futures, "futures", replay.DefaultFutures, "futures that every candidate is played on")
	addGenerate(cmd, &t.generate)
	fl.IntVar(&t.budget, "budget", budget, "evaluations per round; one is a configuration on all futures")
	fl.IntVar(&t.workers, "workers", 0, "evaluations at a time (0: one per processor); results do not depend on it")
}

func addObjective(cmd *cobra.Command, objective *string) {
	cmd.Flags().StringVar(objective, "objective", round.Objectives[0], "what to minimise: "+strings.Join(round.Objectives, ", "))
	_ = cmd.RegisterFlagCompletionFunc("objective", cobra.FixedCompletions(round.Objectives, cobra.ShellCompDirectiveNoFileComp))
}

func addGenerate(cmd *cobra.Command, method *string) {
	cmd.Flags().StringVar(method, "generate", string(generation.DefaultMethod), "how futures are made, ARRIVALS/DURATIONS: "+
		strings.Join(generateMethods(), ", ")+"; "+generation.HistoryDurations+" or "+generation.PredictedDurations)
	_ = cmd.RegisterFlagCompletionFunc("generate", cobra.FixedCompletions(generateMethods(), cobra.ShellCompDirectiveNoFileComp))
}

// generateMethods are the ways to forecast arrivals.
func generateMethods() []string {
	out := []string{generation.RepeatArrivals}
	for _, m := range arrivals.Methods {
		out = append(out, m.Name)
	}
	return out
}

// mostFutures bounds what is drawn and kept in memory; some ten are enough.
const mostFutures = 1000

func (t *tuneFlags) check() error {
	if err := generation.Method(t.generate).Check(); err != nil {
		return usageError{fmt.Errorf("--generate: %w", err)}
	}
	switch {
	case round.CheckObjective(t.objective) != nil:
		return usageError{fmt.Errorf("--%w", round.CheckObjective(t.objective))}
	case t.horizon <= 0:
		return usageError{fmt.Errorf("--horizon: %v is not positive", t.horizon)}
	case t.futures < 1 || t.futures > mostFutures:
		return usageError{fmt.Errorf("--futures: %d is not from 1 to %d", t.futures, mostFutures)}
	case t.budget <= 0:
		return usageError{fmt.Errorf("--budget: %d is not positive", t.budget)}
	case t.workers < 0:
		return usageError{fmt.Errorf("--workers: %d is negative", t.workers)}
	case !(t.minRatio >= 1):
		return usageError{fmt.Errorf("--min-ratio: %g is below 1: it would adopt configurations that are worse", t.minRatio)}
	}
	return nil
}
