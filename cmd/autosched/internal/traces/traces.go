// Package traces has the commands about traces and telemetry.
package traces

import "github.com/spf13/cobra"

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newTraceCmd(), newTelemetryCmd()}
}
