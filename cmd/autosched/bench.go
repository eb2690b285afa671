package main

import "github.com/spf13/cobra"

func newBenchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how good a part of AutoSched is, beside published and simple alternatives",
	}
	cmd.AddCommand(newBenchAggregateCmd(), newBenchSearchCmd(), newBenchTuneCmd())
	return cmd
}
