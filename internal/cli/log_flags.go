package cli

import (
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/internal/table"
)

// LogLevels are the levels of the log.
var LogLevels = []string{"debug", "info", "warn", "error"}

// LogFlags say how a service logs.
type LogFlags struct{ format, level string }

// Add adds the flags.
func (f *LogFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "text", "text or json, of the log on standard error")
	cmd.Flags().StringVar(&f.level, "log-level", "info", "debug, info, warn or error: the least that is logged")
}

// Check returns the fault of the flags.
func (f *LogFlags) Check() error {
	switch {
	case f.format != "text" && f.format != "json":
		return Usage(fmt.Errorf("--log-format: %q is neither text nor json", f.format))
	case !slices.Contains(LogLevels, f.level):
		return Usage(fmt.Errorf("--log-level: %q is not debug, info, warn or error", f.level))
	}
	return nil
}

// NewLog returns the log of a command, a line for each record.
func NewLog(out io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(table.Whole(out), nil)) }

// Logger writes a line or a JSON object for each record, with the request's id and caller.
func (f *LogFlags) Logger(out io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(f.level)) // Check has found it in LogLevels
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // JSON would have nanoseconds
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}
	out = table.Whole(out)
	var handler slog.Handler = slog.NewTextHandler(out, options)
	if f.format == "json" {
		handler = slog.NewJSONHandler(out, options)
	}
	return slog.New(access.LogHandler(handler))
}
