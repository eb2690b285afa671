package forecast

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/simulator/calibrate"
)

// modelsLearnOptions are the flags of models learn.
type modelsLearnOptions struct {
	events, out string
	perNode     int
	json        bool
}

func newModelsLearnCmd() *cobra.Command {
	var o modelsLearnOptions
	cmd := &cobra.Command{
		Use:   "learn --events FILE|DIR --out FILE",
		Short: "Learn restart costs and spread slowdowns from recorded jobs",
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
		Example: `  autosched forecast models learn --events data --gpus-per-node 8 --out models.json
  autosched forecast models learn --events jobs-done.csv --out models.json
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
	fl.StringVar(&o.events, "events", "", "directory of the service, or CSV written by simulate --jobs-out (required)")
	fl.StringVarP(&o.out, "out", "o", "", "models file to write, - for standard output (required)")
	fl.IntVar(&o.perNode, "gpus-per-node", 8, "GPUs of a node, which defines spread jobs of a service's events")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	return cmd
}

func (o *modelsLearnOptions) check() error {
	switch {
	case o.events == "":
		return cli.Usage(errors.New("--events is missing: name a service's directory, or a CSV of jobs"))
	case o.out == "":
		return cli.Usage(errors.New("--out is missing: name the models file to write"))
	case o.perNode < 1:
		return cli.Usage(fmt.Errorf("--gpus-per-node: %d is not positive", o.perNode))
	}
	return nil
}

// run learns from the history and writes the models file.
func (o *modelsLearnOptions) run(cmd *cobra.Command) (*modelsLearnReport, error) {
	runs, err := cli.ReadRuns(o.events, o.perNode)
	if err != nil {
		return nil, fmt.Errorf("--events: %w", err)
	}
	spec, learned, left, err := calibrate.Models(runs)
	if err != nil {
		return nil, err
	}
	if err := cli.WriteOutput(cmd, o.out, spec.Write); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &modelsLearnReport{learned, left, len(runs)}, nil
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
