package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload/trace"
)

// TelemetryFlags say how files of telemetry are read.
type TelemetryFlags struct{ format, at, node, names, zone string }

// Add adds the flags of files whose samples may lack a node or a time.
func (f *TelemetryFlags) Add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.at, "scrape-time", "", "when a scrape whose lines have no times was made, such as 2026-01-05T12:00:00Z")
	fl.StringVar(&f.node, "node", "", "")
	f.AddMetrics(cmd)
}

// AddClock adds the flags of the format and the clock of files of telemetry.
func (f *TelemetryFlags) AddClock(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "format", "", "")
	cmd.Flags().StringVar(&f.zone, "timezone", "", "")
}

// AddMetrics adds the flag of a site's own names.
func (f *TelemetryFlags) AddMetrics(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.names, "metrics", "", "YAML file of a site's own metrics and labels of exporters")
}

// Options checks the flags and reads the files that they name.
func (f *TelemetryFlags) Options() (o telemetry.Options, err error) {
	o.Format, o.Node = f.format, f.node
	if f.at != "" {
		at, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			return o, Usage(fmt.Errorf("--scrape-time: %q is not an RFC 3339 time such as 2026-01-05T12:00:00Z", f.at))
		}
		o.At = time.Duration(at.UnixNano())
	}
	if f.zone != "" {
		if o.Zone, err = trace.ParseZone(f.zone); err != nil {
			return o, Usage(fmt.Errorf("--timezone: %w", err))
		}
	}
	if names := TelemetryFormatNames(); f.format != "" && !slices.Contains(names, f.format) {
		return o, Usage(fmt.Errorf("--format: %q is not one of %s", f.format, strings.Join(names, ", ")))
	}
	if f.names != "" {
		if o.Names, err = ReadFile(f.names, telemetry.ReadNames); err != nil {
			return o, Usage(fmt.Errorf("--metrics: %w", err))
		}
	}
	return o, nil
}

// Note says that --timezone had no use.
func (f *TelemetryFlags) Note(notes io.Writer, s *telemetry.Stats) {
	if f.zone != "" && !strings.HasPrefix(s.Format, "nvidia-smi") {
		fmt.Fprintf(notes, "note: --timezone made no difference: %s has no time without a zone\n", s.File)
	}
}

// TelemetryFormatNames lists the formats of telemetry.
func TelemetryFormatNames() []string {
	var names []string
	for _, f := range telemetry.Formats() {
		names = append(names, f.Name)
	}
	return names
}
