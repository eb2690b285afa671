// Package root makes the command autosched of the families of commands.
package root

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/cmd/autosched/internal/adapters"
	"github.com/autosched/autosched/cmd/autosched/internal/decide"
	"github.com/autosched/autosched/cmd/autosched/internal/explain"
	"github.com/autosched/autosched/cmd/autosched/internal/forecast"
	"github.com/autosched/autosched/cmd/autosched/internal/operate"
	"github.com/autosched/autosched/cmd/autosched/internal/serve"
	"github.com/autosched/autosched/cmd/autosched/internal/studies"
	"github.com/autosched/autosched/cmd/autosched/internal/traces"
	"github.com/autosched/autosched/cmd/autosched/internal/waste"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
)

const rootHelp = `AutoSched tunes the configuration of deep-learning-training schedulers to the
workload expected next. "sample" is a built-in trace; others: 'autosched trace --help'.
Exit codes: 0 success, 1 failure, 2 usage error.

  autosched evaluate --trace sample --from 2017-10-10 --scheduler fifo --set backfill=false --out report
  autosched serve --dir data`

// groups are the headings of the commands in help.
var groups = []struct {
	title    string
	commands []string
}{
	{"Decide on a history of jobs", []string{"trace", "telemetry", "simulate", "tune", "evaluate", "compare", "plan",
		"recommend", "fidelity"}},
	{"Operate schedulers of the service", []string{"scheduler", "study"}},
	{"Find waste", []string{"patterns", "energy"}},
	{"Understand", []string{"explain", "forecast"}},
	{"Run the service", []string{"serve", "admin", "slurm", "completion"}},
}

// New returns the command autosched with all its subcommands.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:     "autosched",
		Short:   "Tune the configuration of deep-learning-training schedulers to the workload expected next",
		Long:    rootHelp,
		Version: cli.Built().Version,
	}
	root.SetVersionTemplate(cli.Built().Text())
	root.AddCommand(slices.Concat(
		traces.Commands(),
		decide.Commands(),
		forecast.Commands(),
		explain.Commands(),
		waste.Commands(),
		operate.Commands(),
		studies.Commands(),
		serve.Commands(),
		adapters.Commands(),
	)...)
	for _, cmd := range root.Commands() {
		if cmd.Name() == "scheduler" {
			cmd.AddCommand(slices.Concat(adapters.OfScheduler(), waste.OfScheduler())...)
		}
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, cmd := range root.Commands() {
			if slices.Contains(g.commands, cmd.Name()) {
				cmd.GroupID = g.title
			}
		}
	}
	root.SetCompletionCommandGroupID(groups[len(groups)-1].title)
	cli.Finish(root, completions())
	root.SetHelpCommandGroupID(groups[len(groups)-1].title)
	return root
}

// completions are values of flags of single commands, for shells.
func completions() map[string]cli.Completion {
	var methods []string
	for _, m := range replay.Methods() {
		methods = append(methods, m[0])
	}
	return map[string]cli.Completion{
		"evaluate methods":      cli.ListOf(methods...),
		"slurm run mode":        cli.OneOf("observe", "recommend", "auto"),
		"slurm allow-qos":       cli.OneOf("own", "shared"),
		"serve log-format":      cli.OneOf("text", "json"),
		"serve log-level":       cli.OneOf(cli.LogLevels...),
		"compare schedulers":    cli.ListOf(schedulers.Names()...),
		"compare row":           decide.CompleteRow,
		"forecast eval methods": cli.ListOf(append(forecast.ForecastNames(), "all")...),
		"telemetry format":      cli.OneOf(cli.TelemetryFormatNames()...),
	}
}
