package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/workload"
)

func newPredictCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "durations",
		Short: "Train and evaluate predictors of job durations",
		Long: `The local predictor classifies the total run time of a job into six classes
(<5m, 5-30m, 30m-1h, 1-2h, 2-4h, >=4h) from what is known at an instant: the job,
the latest jobs of its tenant, its batch, its neighbours in submission. Tuning
then draws a duration from history, given the class and the elapsed run time.

A trace is replayed without queues: jobs begin when they are submitted. Nothing
that happens after an instant is known at it.`,
		Example: `  autosched forecast durations eval --trace jobs.csv.gz --from 2017-09-22 --to 2017-10-06
  autosched forecast durations train --trace jobs.csv.gz --out durations.model`,
	}
	cmd.AddCommand(newPredictTrainCmd(), newPredictEvalCmd())
	return cmd
}

// predictFlags are those of train and eval.
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
	fl.StringVar(&f.trace, "trace", "", "")
	fl.StringVar(&f.from, "from", "", "")
	fl.StringVar(&f.to, "to", "", "")
	fl.Uint64Var(&f.seed, "seed", 1, "")
	fl.IntVar(&f.workers, "workers", 0, "")
	fl.BoolVar(&f.json, "json", false, "")
}

func (f *predictFlags) check() error {
	if f.trace == "" {
		return cli.Usage(errors.New(`--trace is missing: name a trace file, "sample" or "sample-shifts"`))
	}
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
	fmt.Fprintf(w, "scores on the %d jobs held out after them:\n", m.Held.Jobs)
	t := table.Numbers(w, "query\tn\taccuracy\tlog-loss\tECE\t")
	for _, k := range durations.Kinds {
		if s, ok := m.Scores[k.Name]; ok {
			fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t%.3f\t\n", k.Name, s.N, s.Accuracy, s.LogLoss, s.ECE)
		}
	}
	return t.Flush()
}

// predictEvalOptions are the flags of predict eval.
type predictEvalOptions struct {
	predictFlags
	model string
	share float64
	plot  cli.PlotFlag

	given    func(flag string) bool
	evaluate durations.EvaluateOptions // after check
}

func newPredictEvalCmd() *cobra.Command {
	var o predictEvalOptions
	cmd := &cobra.Command{
		Use:   "eval --trace TRACE",
		Short: "Score predictions on the later jobs of a trace",
		Long: `Eval learns from the jobs submitted first (70 %) and queries the predictors about
the others, at four kinds of instants:

` + kindList() + `
Scores depend more on the kind of query than on the predictor. Each is therefore
shown beside the most frequent class (of that kind's queries in training) and the
elapsed-time rule (the most frequent class of jobs that ran longer), and apart for
undecided queries: those about jobs that have run for less than 4 h, so that their
class is open. ECE is the expected calibration error; KS the Kolmogorov-Smirnov
distance between remaining times drawn by class and the true ones of the held-out
jobs, beside that of times drawn from history alone.

With --model no model is trained: the given one is scored on every job of the
window except those of its training.`,
		Example: `  autosched forecast durations eval --trace jobs.csv.gz --from 2017-09-22 --to 2017-10-06
  autosched forecast durations eval --trace jobs.csv.gz --model durations.model --json | jq .queries`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "duration-evaluation/v1", r, r.page, r.print)
		},
	}
	o.given = cmd.Flags().Changed
	o.add(cmd)
	fl := cmd.Flags()
	o.plot.Add(cmd)
	fl.Float64Var(&o.share, "train-share", .7, "share of the jobs, the first submitted, to learn from")
	fl.StringVar(&o.model, "model", "", "")
	return cmd
}

// check checks the flags and reads the model.
func (o *predictEvalOptions) check() error {
	o.evaluate = durations.EvaluateOptions{TrainShare: o.share, Seed: o.seed, Workers: o.workers}
	e := &o.evaluate
	if !(o.share > 0 && o.share < 1) {
		return cli.Usage(fmt.Errorf("--train-share: %g is not between 0 and 1", o.share))
	}
	if err := cmp.Or(o.plot.Check(), o.predictFlags.check()); err != nil || o.model == "" {
		return err
	}
	if o.given("train-share") {
		return cli.Usage(errors.New("--model: is asked as it is; --train-share learns another"))
	}
	var err error
	if e.Model, err = readModel(o.model); err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	return nil
}

// run learns and scores. Notes and progress go to notes.
func (o *predictEvalOptions) run(ctx context.Context, notes io.Writer) (*evalReport, error) {
	in, err := o.load(ctx, notes)
	if err != nil {
		return nil, err
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	e := o.evaluate
	e.Progress = func(what string, done, of int) { line.Show("%s: %d of %d", what, done, of) }
	got, err := durations.Evaluate(ctx, in.history, in.trace.Zero(), e, time.Now)
	if err != nil {
		return nil, err
	}
	r := &evalReport{Trace: in.trace.Name(), Synthetic: in.trace.Synthetic(), Cut: in.trace.Clock(got.CutAt),
		Seed: o.seed, Evaluation: got}
	return r, nil
}

// page draws the accuracy of the predictor beside that of the simple rules, and the error of drawn times.
func (r *evalReport) page() (*chart.Page, error) {
	better := 0
	for i := range r.Queries {
		if q := &r.Queries[i]; q.Accuracy > max(q.Majority, q.Elapsed) {
			better++
		}
	}
	p, err := cli.NewPage("forecast of durations: "+r.Trace, r.Synthetic,
		fmt.Sprintf("The predictor is more accurate than both simple rules at %d of %d kinds of query. It learnt from %d "+
			"jobs, and %d are asked about.", better, len(r.Queries), r.TrainJobs, r.TestJobs), r.print)
	if err != nil {
		return nil, err
	}
	accuracy := chart.Bars{Title: "Accuracy by query", Axis: "share of classes that are right",
		Series: []string{"most frequent class", "predictor", "elapsed-time rule"}}
	distance := chart.Bars{Axis: "Kolmogorov-Smirnov distance", Series: []string{"from history", "by class"}}
	for i := range r.Queries {
		accuracy.Groups = append(accuracy.Groups, r.Queries[i].Kind)
	}
	distance.Groups = accuracy.Groups
	accuracy.Value = func(i, series int) (float64, string) {
		q := &r.Queries[i]
		v := []float64{q.Majority, q.Accuracy, q.Elapsed}[series]
		return v, fmt.Sprintf("%s, %s: %.3f", q.Kind, accuracy.Series[series], v)
	}
	distance.Value = func(i, series int) (float64, string) {
		q := &r.Queries[i]
		v := []float64{q.KSHistory, q.KS}[series]
		return v, fmt.Sprintf("%s, %s: %.3f", q.Kind, distance.Series[series], v)
	}
	p.First = accuracy.Chart()
	p.Sections = []chart.Section{{Title: "Remaining times", Hint: "Drawn by class or from history, against the true ones: " +
		"lower is better.", Rows: []chart.Row{{Height: 300, Charts: []*chart.Chart{distance.Chart()}}}}}
	return p, nil
}

func kindList() string {
	var b strings.Builder
	for _, k := range durations.Kinds {
		fmt.Fprintf(&b, "  %-10s %s\n", k.Name, k.About)
	}
	return b.String()
}

type evalReport struct {
	Trace     string    `json:"trace"`
	Synthetic bool      `json:"synthetic"`
	Cut       time.Time `json:"test_from"`
	Seed      uint64    `json:"seed"`
	*durations.Evaluation
}

func (r *evalReport) print(out io.Writer) error {
	fmt.Fprintf(out, "%s%s: trained on %d jobs (%d queries), scored on the %d submitted from %s on\n\n", r.Trace,
		cli.SyntheticLabel(r.Synthetic), r.TrainJobs, r.Lessons, r.TestJobs, r.Cut.Format(time.RFC3339))
	w := table.Numbers(out, "query\tn\taccuracy\tlog-loss\tECE\tmajority\telapsed\tKS\thistory's\t"+
		"undecided: n\taccuracy\tlog-loss\tmajority\telapsed\t")
	for i := range r.Queries {
		q := &r.Queries[i]
		u := &q.Undecided
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t", q.Kind, q.N, q.Accuracy, q.LogLoss,
			q.ECE, q.Majority, q.Elapsed, q.KS, q.KSHistory)
		fmt.Fprintf(w, "%d\t%.3f\t%.3f\t%.3f\t%.3f\t\n", u.N, u.Accuracy, u.LogLoss, u.Majority, u.Elapsed)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	w = table.Numbers(out, "")
	fmt.Fprint(w, "method\tcolumns\ttraining s\ts per 1000\t")
	for _, k := range durations.Kinds {
		fmt.Fprintf(w, "%s\tlog-loss\tECE\t", k.Name)
	}
	fmt.Fprintln(w)
	for i := range r.Methods {
		m := &r.Methods[i]
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.4f\t", m.Method, m.Features, m.TrainS, m.Per1000)
		for _, k := range durations.Kinds {
			s := m.Scores[k.Name]
			fmt.Fprintf(w, "%.3f\t%.3f\t%.3f\t", s.Accuracy, s.LogLoss, s.ECE)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// predictTrainOptions are the flags of predict train.
type predictTrainOptions struct {
	predictFlags
	out     string
	replace bool

	old *durations.Model // the content of out, after check; nil if it is to be ignored
}

func newPredictTrainCmd() *cobra.Command {
	var o predictTrainOptions
	cmd := &cobra.Command{
		Use:   "train --trace TRACE --out FILE",
		Short: "Learn a model and keep it if it is no worse than the one before",
		Long: `Train learns from the first 85 % of the jobs and scores the model on the rest. The
file has one line of JSON (version, training window, features, scores) above the
model as LightGBM text.

If the file holds a model already, both are scored on the same last jobs, and the
new one replaces it only if its mean log-loss is no higher; --replace skips the
comparison.`,
		Example: `  autosched forecast durations train --trace jobs.csv.gz --out durations.model
  autosched forecast durations train --trace jobs.csv.gz --from 2017-10-01 --out durations.model --json | jq .scores`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd)
			if err != nil {
				return err
			}
			return cli.Show(cli.ReportWriter(cmd, o.out), o.json, "duration-model/v1", r, r.print)
		},
	}
	o.add(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&o.out, "out", "o", "", "model file to write, - for standard output (required)")
	fl.BoolVar(&o.replace, "replace", false, "replace the content of the file without a comparison")
	return cmd
}

// check checks the flags and reads the model that the file holds.
func (o *predictTrainOptions) check() error {
	if o.out == "" {
		return cli.Usage(errors.New("--out is missing: name the model file to write"))
	}
	if err := o.predictFlags.check(); err != nil {
		return err
	}
	if _, err := os.Stat(o.out); err == nil && !o.replace {
		if o.old, err = readModel(o.out); err != nil {
			return fmt.Errorf("--out: %w; --replace writes over it", err)
		}
	}
	return nil
}

// run trains, and writes the model if it is kept. Notes and progress go to standard error.
func (o *predictTrainOptions) run(cmd *cobra.Command) (*trainReport, error) {
	ctx, notes := cmd.Context(), cmd.ErrOrStderr()
	in, err := o.load(ctx, notes)
	if err != nil {
		return nil, err
	}
	line := cli.NewProgressLine(notes)
	began := time.Now()
	choice, err := o.train(ctx, in, o.learn(line))
	line.Clear()
	if errors.Is(err, durations.ErrLearnt) {
		return nil, fmt.Errorf("--out: %s: %w; --replace writes over it", o.out, err)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case o.out == "-":
		err = choice.Kept.Write(cmd.OutOrStdout())
	case choice.Replaced:
		var s *atomicfile.File
		if s, err = atomicfile.CreatePlain(o.out); err == nil { // models are text, whatever their name
			err = s.Finish(choice.Kept.Write(s))
		}
	}
	if err != nil {
		return nil, err
	}
	return &trainReport{o.out, choice, time.Since(began).Seconds(), choice.Kept.Header}, nil
}

func (o *predictTrainOptions) train(ctx context.Context, in *predictInput, l durations.LearnOptions) (
	durations.Choice, error) {
	zero, name := in.trace.Zero(), in.trace.Name()
	if o.old != nil {
		return durations.Retrain(ctx, o.old, in.history, zero, name, l)
	}
	m, err := durations.Train(ctx, in.history, zero, name, l)
	return durations.Choice{Kept: m, Replaced: true, Reason: "written: there was no model before"}, err
}

// trainReport is the result of predict train.
type trainReport struct {
	Out string `json:"out"`
	durations.Choice
	Wall float64 `json:"wall_s"`
	durations.Header
}

func (r *trainReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s (%.1f s)\n", r.Out, r.Reason, r.Wall)
	return printModel(w, r.Kept)
}
