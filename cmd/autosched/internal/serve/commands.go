// Package serve has the service and the commands of its administrator.
package serve

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		newServeCmd(), newCertsCmd(), newBackupCmd(),
		newRestoreCmd(), newDoctorCmd(), newAuditCmd(), newReplayCmd(), newVersionCmd(),
	}
}
