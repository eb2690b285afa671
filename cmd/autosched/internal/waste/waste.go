// Package waste has the commands that find waste: patterns, findings, recommendations, energy.
package waste

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newPatternsCmd(), newRecommendCmd(), newEnergyCmd()}
}

// OfScheduler returns the commands below scheduler.
func OfScheduler() []*cobra.Command { return []*cobra.Command{newFindingsCmd()} }
