// Command autosched-lab measures the parts of AutoSched: samplers, searches, studies, presets, horizons, pattern
// rules and whole decisions. `autosched-lab help` lists its commands.
package main

import (
	_ "time/tzdata" // zones on machines without a database of them

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
)

func main() { cli.Main(newRootCmd) }

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "autosched-lab",
		Short: "Measure samplers, searches, studies, presets, horizons, pattern rules and whole decisions",
	}
	root.AddCommand(newBenchAggregateCmd(), newBenchHeldCmd(), newBenchDecisionsCmd(), newBenchHorizonsCmd(),
		newBenchPatternsCmd(),
		newBenchPresetsCmd(), newPaperCmd(), newBenchRecommendCmd(),
		newBenchSearchCmd(), newBenchStudiesCmd(), newBenchTuneCmd(),
		newForeseeCmd())
	cli.Finish(root, map[string]cli.Completion{
		"search samplers":   cli.ListOf(append(cli.SamplerNames(), "all")...),
		"studies samplers":  cli.ListOf(append(cli.SamplerNames(), "all")...),
		"search objectives": cli.ListOf(objectiveNames()...),
		"tune searches":     cli.ListOf(searchNames()...),
	})
	return root
}
