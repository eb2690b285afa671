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
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show what restarts, spreading, sharing and more GPUs do to jobs",
		Long: `Prints the performance models that simulations use as a models file, JSON, with all sections and
their sources: the GPU time that a restart wastes by number of GPUs, the model classes (skew, the
slowdown when spread over more nodes than needed, by interconnect, utilisation, how often a class is
drawn for jobs that name none), throughput against GPUs, and the speed of jobs that share GPUs.
Changed, it can be given to --models of simulate, evaluate and tune.`,
		Example: `  autosched forecast models show > models.json
  autosched forecast models show --interconnect nvlink
  autosched simulate --trace sample --models models.json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := f.Spec()
			if err != nil {
				return err
			}
			return schema.Write(cmd.OutOrStdout(), "models/v1", spec.Complete())
		},
	}
	f.Add(cmd)
	return cmd
}
