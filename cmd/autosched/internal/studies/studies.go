// Package studies has the commands about studies and their trials.
package studies

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newStudyCmd()}
}
