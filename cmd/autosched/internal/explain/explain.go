// Package explain has the commands that learn causal graphs and answer by them.
package explain

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newExplainCmd()}
}
