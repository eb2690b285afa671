package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/workload"
)

func newPredictCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "durations",
		Short: "Train, evaluate and explain predictors of job durations",
		Long: `The local predictor classifies the total run time of a job into six classes
(<5m, 5-30m, 30m-1h, 1-2h, 2-4h, >=4h) from what is known at an instant: the job,
the latest jobs of its tenant, its batch, its neighbours in submission. Tuning
then draws a duration from history, given the class and the elapsed run time.

A trace is replayed without queues: jobs begin when they are submitted. Nothing
that happens after an instant is known at it.`,
		Example: `  autosched forecast durations eval --trace jobs.csv.gz --from 2017-09-22 --to 2017-10-06
  autosched forecast durations train --trace jobs.csv.gz --out durations.model
  autosched forecast durations explain --model durations.model
  autosched forecast durations explain --trace jobs.csv.gz --job philly-012345`,
	}
	cmd.AddCommand(newPredictTrainCmd(), newPredictEvalCmd(), newPredictExplainCmd())
	return cmd
}

// predictFlags are those of train, eval and explain.
type predictFlags struct {
	trace    string
	how      cli.ReadFlags
	from, to string
	seed     uint64
	workers  int
	json     bool
}

func (f *predictFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.trace, "trace", "", `trace file, or "sample" or "sample-shifts", synthetic ones that are built in`)
	fl.StringVar(&f.from, "from", "",
		"first submission that counts, RFC 3339, a date, seconds since the trace's zero, or a span since it such as "+
			"36h (default: the trace's first)")
	fl.StringVar(&f.to, "to", "", "submissions count before it (default: after the trace's last)")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of everything random")
	fl.IntVar(&f.workers, "workers", 0, "processors to train on (0: all); the result does not depend on it")
	fl.BoolVar(&f.json, "json", false, "print JSON for programs")
}

// check checks the flags of a command that needs a trace.
func (f *predictFlags) check() error {
	if f.trace == "" {
		return cli.Usage(errors.New(`--trace is missing: name a trace file, "sample" or "sample-shifts"`))
	}
	return f.checkWindow()
}

func (f *predictFlags) checkWindow() error {
	if f.workers < 0 {
		return cli.Usage(fmt.Errorf("--workers: %d is negative", f.workers))
	}
	return cmp.Or(cli.CheckInstant("from", f.from), cli.CheckInstant("to", f.to))
}

// predictInput is the part of a trace that counts.
type predictInput struct {
	trace   *workload.Workload
	history []durations.Record
}

func (f *predictFlags) load(ctx context.Context, notes io.Writer) (*predictInput, error) {
	w, _, err := cli.OpenTrace(ctx, notes, f.trace, f.how)
	if err != nil {
		return nil, err
	}
	from, to, err := cli.ParseWindow(w, f.from, f.to)
	if err != nil {
		return nil, err
	}
	cut := w.Window(from, to)
	if cut.Len() == 0 {
		first, last := w.Span()
		clock := func(at time.Duration) string { return w.Clock(at).Format(time.RFC3339) }
		return nil, cli.Usage(fmt.Errorf("--from, --to: %s has no submission from %s to %s; it has from %s to %s",
			f.trace, clock(from), clock(to), clock(first), clock(last)))
	}
	return &predictInput{trace: cut, history: durations.Unqueued(cut.Jobs())}, nil
}

// learn are the options of learning a model.
func (f *predictFlags) learn(line *cli.ProgressLine) durations.LearnOptions {
	return durations.LearnOptions{Seed: f.seed, Workers: f.workers,
		Progress: func(done, of int) { line.Show("training: round %d of %d", done, of) }}
}

func readModel(path string) (*durations.Model, error) {
	in, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	m, err := durations.ReadModel(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func printModel(w io.Writer, m *durations.Model) error {
	fmt.Fprintf(w, "model %s", m.Version)
	if m.Trained.Jobs == 0 {
		fmt.Fprintf(w, ": LightGBM text of %d features, without a header\n", len(m.Features))
		return nil
	}
	fmt.Fprintf(w, ": %d features, learnt from %d jobs submitted from %s to %s\n", len(m.Features), m.Trained.Jobs,
		m.Trained.From.Format(time.RFC3339), m.Trained.To.Format(time.RFC3339))
	if m.Parent != "" {
		fmt.Fprintf(w, "refitted from %s\n", m.Parent)
	}
	fmt.Fprintf(w, "scores on the %d jobs held out after them:\n", m.Held.Jobs)
	t := cli.NewNumbers(w, "query\tn\taccuracy\tlog-loss\tECE\t")
	for _, k := range durations.Kinds {
		if s, ok := m.Scores[k.Name]; ok {
			fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t%.3f\t\n", k.Name, s.N, s.Accuracy, s.LogLoss, s.ECE)
		}
	}
	return t.Flush()
}
