// Package adapters has the commands beside a scheduler: adapters, Slurm, emulation, conformance.
package adapters

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newSlurmCmd()}
}

// OfScheduler returns the commands below scheduler.
func OfScheduler() []*cobra.Command {
	return []*cobra.Command{newAdapterCmd(), newEmulateCmd(), newConformanceCmd()}
}
