// Package decide has the commands that replay a trace: simulations, tuning and its evaluation, comparisons, plans.
package decide

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newSimulateCmd(), newTuneCmd(), newEvaluateCmd(), newComparisonCmd(), newPlanCmd(),
		newFidelityCmd()}
}
