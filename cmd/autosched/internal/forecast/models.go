package forecast

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/simulator"
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
	events, out string
	single      string
	pairs       string
	restarts    string
	perNode     int
	json        bool
}

func newModelsLearnCmd() *cobra.Command {
	var o modelsLearnOptions
	cmd := &cobra.Command{
		Use:   "learn --out FILE",
		Short: "Learn restart costs, spread slowdowns and speeds of pairs from recordings",
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

With --single and --pairs it takes the speeds of jobs that share a GPU from two CSV
tables that were measured: loads alone, with the columns model, memory_mib and sm_util
(percent of the SMs), and pairs, with model1, model2, speed1 and speed2, relative to
alone. Pairs that were not measured get the speed of a rule by SM use, which is fitted
to the measured ones.

With --restarts it takes the cost of restarts by the size of the state from a CSV
table with the columns checkpoint_bytes, first_step_s (seconds from the start of a
process that loaded a checkpoint to its first step) and save_s (of one that wrote
it). A quarter of the memory that a job asks for is taken for its state:
share_of_memory in the file.

The history is the directory of 'autosched serve' (while no service runs on it), or
the CSV that 'autosched simulate --jobs-out' writes.`,
		Example: `  autosched forecast models learn --runs data --gpus-per-node 8 --out models.json
  autosched forecast models learn --runs jobs-done.csv --out models.json
  autosched forecast models learn --single single.csv --pairs pairs.csv --out models.json
  autosched forecast models learn --restarts restart.csv --out models.json
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
	fl.StringVar(&o.events, "runs", "", "")
	fl.StringVar(&o.single, "single", "", "CSV file of loads alone on a GPU")
	fl.StringVar(&o.pairs, "pairs", "", "CSV file of pairs of these loads on one GPU")
	fl.StringVar(&o.restarts, "restarts", "", "CSV file of restarts by size of checkpoint")
	fl.StringVarP(&o.out, "out", "o", "", "models file to write, - for standard output (required)")
	fl.IntVar(&o.perNode, "gpus-per-node", 8, "")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

func (o *modelsLearnOptions) check() error {
	switch {
	case o.events == "" && o.pairs == "" && o.restarts == "":
		return cli.Usage(errors.New("--runs is missing: name a service's directory or a CSV of jobs, or --pairs or --restarts"))
	case (o.single == "") != (o.pairs == ""):
		return cli.Usage(errors.New("--single and --pairs go together: the loads alone, and in pairs"))
	case o.out == "":
		return cli.Usage(errors.New("--out is missing: name the models file to write"))
	case o.perNode < 1:
		return cli.Usage(fmt.Errorf("--gpus-per-node: %d is not positive", o.perNode))
	}
	return nil
}

// run learns from the history and writes the models file.
func (o *modelsLearnOptions) run(cmd *cobra.Command) (*modelsLearnReport, error) {
	r, spec := &modelsLearnReport{}, &simulator.ModelSpec{}
	if o.events != "" {
		runs, err := cli.ReadRuns(o.events, o.perNode)
		if err != nil {
			return nil, fmt.Errorf("--runs: %w", err)
		}
		r.Runs = len(runs)
		if spec, r.Learned, r.LeftOut, err = calibrate.Models(runs); err != nil {
			return nil, err
		}
	}
	if o.pairs != "" {
		pairs, err := o.readPairs()
		if err != nil {
			return nil, fmt.Errorf("--single, --pairs: %w", err)
		}
		spec.Pairs, r.Loads, r.Rule = pairs, len(pairs.Loads), pairs.Rule
	}
	if o.restarts != "" {
		state, err := cli.ReadFile(o.restarts, simulator.ReadRestarts)
		if err != nil {
			return nil, fmt.Errorf("--restarts: %w", err)
		}
		spec.Restart = spec.Complete().Restart
		spec.Restart.State, r.Restart = state, state
		spec.Restart.Source = "by state: " + filepath.Base(o.restarts) + "; by width: " + spec.Restart.Source
	}
	if err := cli.WriteOutput(cmd, o.out, spec.Write); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return r, nil
}

// readPairs reads the measured speeds of pairs.
func (o *modelsLearnOptions) readPairs() (*simulator.PairSpec, error) {
	single, err := atomicfile.Open(o.single)
	if err != nil {
		return nil, err
	}
	defer single.Close()
	pairs, err := atomicfile.Open(o.pairs)
	if err != nil {
		return nil, err
	}
	defer pairs.Close()
	return simulator.ReadPairs(single, pairs, "measured: "+filepath.Base(o.single)+", "+filepath.Base(o.pairs))
}

// modelsLearnReport is the result of models learn.
type modelsLearnReport struct {
	Learned []calibrate.Estimate `json:"learned"`
	LeftOut calibrate.LeftOut    `json:"left_out"`
	Runs    int                  `json:"runs"`
	// Loads are the ones whose speeds in pairs are measured, and Rule that of pairs that are not.
	Loads int                 `json:"loads,omitempty"`
	Rule  *simulator.PairRule `json:"pair_rule,omitempty"`
	// Restart is the cost of restarts by state.
	Restart *simulator.RestartState `json:"restart_by_state,omitempty"`
}

func (r *modelsLearnReport) print(w io.Writer) error {
	for _, l := range r.Learned {
		fmt.Fprintf(w, "%s: %.3g, from %d of %d runs\n", l.What, l.Value, l.Runs, r.Runs)
	}
	if p := r.Rule; p != nil {
		fmt.Fprintf(w, "pairs of %d loads; of others: %.3g - %.3g x SM use - %.3g x SM use x the other's\n", r.Loads,
			p.Base,
			p.Own, p.Both)
	}
	if s := r.Restart; s != nil {
		fmt.Fprintf(w, "restarts: %.3g s and %.3g s for each GB of state\n", s.Seconds, s.PerGB)
	}
	if r.Runs == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, r.LeftOut)
	return err
}
