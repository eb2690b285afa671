// Package forecast has the commands that forecast arrivals and durations of jobs.
package forecast

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newForecastCmd()}
}
