package root

import (
	"github.com/spf13/cobra"

	"github.com/autosched/autosched/cmd/autosched/internal/decide"
	"github.com/autosched/autosched/cmd/autosched/internal/forecast"
	"github.com/autosched/autosched/cmd/autosched/internal/serve"
	"github.com/autosched/autosched/cmd/autosched/internal/traces"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
)

// completions are values of flags of single commands, for shells.
func completions() map[string]cli.Completion {
	var methods []string
	for _, m := range replay.Methods() {
		methods = append(methods, m[0])
	}
	return map[string]cli.Completion{
		"evaluate methods":           cli.ListOf(methods...),
		"serve log-format":           cli.OneOf("text", "json"),
		"serve log-level":            cli.OneOf(serve.LogLevels...),
		"admin certs scheduler":      cobra.NoFileCompletions,
		"compare schedulers":         cli.ListOf(schedulers.Names()...),
		"compare row":                decide.CompleteRow,
		"forecast eval methods":      cli.ListOf(append(forecast.ForecastNames(), "all")...),
		"forecast durations methods": cli.ListOf(append(forecast.MethodNames(), "all")...),
		"telemetry scheduler":        cobra.NoFileCompletions,
		"telemetry format":           cli.OneOf(traces.TelemetryFormatNames()...),
	}
}
