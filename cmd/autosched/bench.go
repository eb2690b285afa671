package main

import "github.com/spf13/cobra"

func newBenchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Benchmark samplers, searches and the aggregator",
	}
	cmd.AddCommand(newBenchAggregateCmd(), newBenchSearchCmd(), newBenchTuneCmd())
	return cmd
}
