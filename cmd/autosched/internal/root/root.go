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
)

const rootHelp = `AutoSched tunes the configuration of deep-learning-training schedulers to the
workload expected next: it forecasts futures from job events, simulates candidate
configurations on them, and changes the scheduler's configuration only if what
recent rounds, a replay of the last days and held-out futures measured says that
the change gains more than it costs.

Decide from a history of jobs. "sample" is a built-in synthetic one; --trace takes
Slurm's sacct, public traces and other tables ('autosched trace --help'):
  autosched trace stats --trace sample
  autosched fidelity --trace history.psv --scheduler fifo --recorded-scheduler fifo
  autosched evaluate --trace sample --from 2017-10-10 --scheduler fifo --set backfill=false --out report
  autosched compare --trace sample --schedulers tiresias,themis,lucid --out comparison
  autosched plan --trace sample --scheduler tiresias --subject-to 'p95_queue<=6h'
  autosched energy report --trace sample --scheduler tiresias

Forecast the workload, and learn why a configuration is better:
  autosched forecast eval --trace sample --from 2017-10-11 --to 2017-10-12 --methods all
  autosched predict eval --trace sample
  autosched causal dataset --trace sample --nodes 12 --scheduler tiresias --out runs.csv --tiers tiers.json
  autosched causal effects --data runs.csv --tiers tiers.json --group segment --log

Keep the configuration right: run the service, connect a scheduler (here an emulated
one), and operate it:
  autosched serve --dir data
  autosched emulate --trace sample --nodes 20 --gpus-per-node 8
  autosched config list emulated
  autosched rounds show emulated
  autosched freeze emulated --reason 'end of the quarter'
  autosched config rollback emulated --reason 'short jobs wait'
  autosched audit list emulated
  autosched backup --out backup.tar.zst
  autosched doctor --server 127.0.0.1:7443

Exit codes: 0 success, 1 failure, 2 usage error.`

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
	cli.Finish(root, completions())
	return root
}
