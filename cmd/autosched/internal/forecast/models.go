package forecast

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/simulator/calibrate"
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

// modelsLearnOptions are the flags of models learn.
type modelsLearnOptions struct {
	runs, out string
	perNode   int
	json      bool
}

func newModelsLearnCmd() *cobra.Command {
	var o modelsLearnOptions
	cmd := &cobra.Command{
		Use:   "learn --runs DIR|CSV --out FILE",
		Short: "Learn restart costs and spread slowdowns from recordings",
		Long: `Estimates performance models from recurring jobs of a history and writes a
models file. Runs of one key and width should take equally long, so

  restart cost       the time on GPUs of a run that was preempted once, beyond
                     the median of the key's undisturbed runs; median by width
  spread slowdown    a run over more nodes than needed, over that median;
                     median by model, for jobs that name one

A key needs 3 undisturbed runs and an estimate 8 disturbed ones; otherwise the
built-in number stays. Ignored and counted are runs without a key, runs preempted
more than once (the next preemption may have cut a restart short), runs both
preempted and spread (the time that such a run was spread is unknown), spread ones
without a model, and groups that are too small. Of a service's events only
completed jobs with a known start that were never resized are runs.

The history is the directory of 'autosched serve' (while no service runs on it), or
the CSV that 'autosched simulate --jobs-out' writes.`,
		Example: `  autosched forecast models learn --runs data --gpus-per-node 8 --out models.json
  autosched forecast models learn --runs jobs-done.csv --out models.json
  autosched forecast models show --models models.json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd)
			if err != nil {
				return err
			}
			return cli.Show(cli.ReportWriter(cmd, o.out), o.json, "learned-models/v1", r, r.print)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.runs, "runs", "", "")
	fl.StringVarP(&o.out, "out", "o", "", "models file to write, - for standard output (required)")
	fl.IntVar(&o.perNode, "gpus-per-node", 8, "")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

func (o *modelsLearnOptions) check() error {
	switch {
	case o.runs == "":
		return cli.Usage(errors.New("--runs is missing: name a service's directory or a CSV of jobs"))
	case o.out == "":
		return cli.Usage(errors.New("--out is missing: name the models file to write"))
	case o.perNode < 1:
		return cli.Usage(fmt.Errorf("--gpus-per-node: %d is not positive", o.perNode))
	}
	return nil
}

// run learns from the history and writes the models file.
func (o *modelsLearnOptions) run(cmd *cobra.Command) (*modelsLearnReport, error) {
	runs, err := cli.ReadRuns(o.runs, o.perNode)
	if err != nil {
		return nil, fmt.Errorf("--runs: %w", err)
	}
	spec, learned, left, err := calibrate.Models(runs)
	if err != nil {
		return nil, err
	}
	if err := cli.WriteOutput(cmd, o.out, spec.Write); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &modelsLearnReport{Learned: learned, LeftOut: left, Runs: len(runs)}, nil
}

// modelsLearnReport is the result of models learn.
type modelsLearnReport struct {
	Learned []calibrate.Estimate `json:"learned"`
	LeftOut calibrate.LeftOut    `json:"left_out"`
	Runs    int                  `json:"runs"`
}

func (r *modelsLearnReport) print(w io.Writer) error {
	for _, l := range r.Learned {
		fmt.Fprintf(w, "%s: %.3g, from %d of %d runs\n", l.What, l.Value, l.Runs, r.Runs)
	}
	_, err := fmt.Fprintln(w, r.LeftOut)
	return err
}
