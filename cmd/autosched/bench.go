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
