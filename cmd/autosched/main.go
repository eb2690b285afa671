// Command autosched tunes the configuration of deep-learning-training schedulers
// to the workload expected next. `autosched help` lists its commands.
package main

import (
	"maps"
	_ "time/tzdata" // zones on machines without a database of them

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers"
)

func main() { runMain(newRootCmd) }

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

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:     "autosched",
		Short:   "Tune the configuration of deep-learning-training schedulers to the workload expected next",
		Long:    rootHelp,
		Version: built().Version,
	}
	root.SetVersionTemplate(built().text())
	root.AddCommand(
		newTraceCmd(),
		newGenerateCmd(),
		newBenchCmd(),
		newSimulateCmd(),
		newFidelityCmd(),
		newForecastCmd(),
		newTuneCmd(),
		newPlanCmd(),
		newEvaluateCmd(),
		newEnergyCmd(),
		newTelemetryCmd(),
		newPatternsCmd(), newFindingsCmd(), newMetricsCmd(), newRecommendCmd(),
		newComparisonCmd(),
		newServeCmd(),
		newCertsCmd(),
		newBackupCmd(),
		newRestoreCmd(),
		newDoctorCmd(),
		newEmulateCmd(),
		newAdapterCmd(),
		newSlurmCmd(),
		newConformanceCmd(),
		newSchedulerCmd(),
		newConfigCmd(),
		newRoundsCmd(),
		newStudyCmd(),
		newTrialCmd(),
		newWorkloadCmd(),
		newOperationsCmd(),
		newWhatIfCmd(),
		newReplayCmd(),
		newFreezeCmd(),
		newUnfreezeCmd(),
		newAuditCmd(),
		newModelsCmd(),
		newCausalCmd(),
		newPredictCmd(),
		newVersionCmd(),
	)
	known := completions()
	maps.Copy(known, benchCompletions())
	finish(root, known)
	return root
}

// completions are values of flags of single commands, for shells.
func completions() map[string]complete {
	var methods []string
	for _, m := range replay.Methods() {
		methods = append(methods, m[0])
	}
	return map[string]complete{
		"evaluate methods":    listOf(methods...),
		"serve log-format":    oneOf("text", "json"),
		"serve log-level":     oneOf(logLevels...),
		"certs scheduler":     cobra.NoFileCompletions,
		"compare schedulers":  listOf(schedulers.Names()...),
		"compare row":         completeRow,
		"forecast methods":    listOf(append(forecastNames(), "all")...),
		"predict methods":     listOf(append(methodNames(), "all")...),
		"telemetry scheduler": cobra.NoFileCompletions,
		"telemetry format":    oneOf(telemetryFormatNames()...),
	}
}
