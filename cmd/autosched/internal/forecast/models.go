package forecast

import (
	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
)

func newModelsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "Look at the simulator's performance models, or learn them from history",
	}
	cmd.AddCommand(newModelsShowCmd(), newModelsLearnCmd())
	return cmd
}

func newModelsShowCmd() *cobra.Command {
	var f cli.ModelsFlag
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show what restarts, spreading, sharing and more GPUs do to jobs",
		Long: `Shows the performance models that simulations use, each with its source: the
GPU time that a restart wastes by number of GPUs, the model classes (skew, the
slowdown when spread over more nodes than needed, by interconnect, utilisation,
how often a class is drawn for jobs that name none), throughput against GPUs,
and the speed of jobs that share GPUs. The slowdown in use is "spread slowdown",
or, with --interconnect, the column marked with a *. With --json it prints a models file with all sections,
to be changed and given to --models of simulate, evaluate and tune.`,
		Example: `  autosched forecast models show
  autosched forecast models show --json > models.json
  autosched forecast models show --interconnect nvlink
  autosched simulate --trace sample --models models.json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := f.Spec()
			if err != nil {
				return err
			}
			if asJSON {
				return schema.Write(cmd.OutOrStdout(), "models/v1", spec.Complete())
			}
			return cli.PrintModels(cmd.OutOrStdout(), spec.Complete())
		},
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a models file")
	return cmd
}
