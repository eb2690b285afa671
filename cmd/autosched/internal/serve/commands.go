// Package serve has the service and the commands of its administrator.
package serve

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newServeCmd(), newAdminCmd()}
}

// newAdminCmd is the parent of the commands of an administrator of the service.
func newAdminCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Secure, back up, check and audit the service",
	}
	cmd.AddCommand(newCertsCmd(), newBackupCmd(), newRestoreCmd(), newDoctorCmd(), newAuditCmd(), newReplayCmd())
	return cmd
}
