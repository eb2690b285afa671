// Package operate has the commands that operate schedulers of the service.
package operate

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newSchedulerCmd()}
}
