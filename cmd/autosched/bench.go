package main

import "github.com/spf13/cobra"

func newBenchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Benchmark samplers, searches, studies, presets, horizons, pattern rules, the aggregator and whole decisions",
	}
	cmd.AddCommand(newBenchAggregateCmd(), newBenchDecisionsCmd(), newBenchHorizonsCmd(), newBenchPatternsCmd(),
		newBenchPresetsCmd(), newBenchRecommendCmd(),
		newBenchSearchCmd(), newBenchStudiesCmd(), newBenchTuneCmd())
	return cmd
}

// benchCompletions are values of flags of the benchmarks, for shells.
func benchCompletions() map[string]complete {
	return map[string]complete{
		"bench samplers":   listOf(append(samplerNames(), "all")...),
		"bench objectives": listOf(objectiveNames()...),
		"bench searches":   listOf(searchNames()...),
	}
}
