package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
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
	fl.StringVar(&f.trace, "trace", "", "")
	fl.StringVar(&f.from, "from", "", "")
	fl.StringVar(&f.to, "to", "", "")
	fl.Uint64Var(&f.seed, "seed", 1, "")
	fl.IntVar(&f.workers, "workers", 0, "")
	fl.BoolVar(&f.json, "json", false, "")
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
	fmt.Fprintf(w, "scores on the %d jobs held out after them:\n", m.Held.Jobs)
	t := cli.NewNumbers(w, "query\tn\taccuracy\tlog-loss\tECE\t")
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
		RunE: cli.Report(&o.json, "duration-evaluation/v1", o.check, o.run, (*evalReport).print),
	}
	o.given = cmd.Flags().Changed
	o.add(cmd)
	fl := cmd.Flags()
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
	if err := o.predictFlags.check(); err != nil || o.model == "" {
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
	return &evalReport{Trace: in.trace.Name(), Synthetic: in.trace.Synthetic(), Cut: in.trace.Clock(got.CutAt),
		Seed: o.seed, Evaluation: got}, nil
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
	w := cli.NewNumbers(out, "")
	fmt.Fprintln(w, "query\tn\taccuracy\tlog-loss\tECE\tmajority\telapsed\tKS\thistory's\t"+
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
	w = cli.NewNumbers(out, "")
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

// predictExplainOptions are the flags of predict explain.
type predictExplainOptions struct {
	predictFlags
	model, job, at string
	top            int

	loaded *durations.Model // of --model, after check
}

func newPredictExplainCmd() *cobra.Command {
	var o predictExplainOptions
	cmd := &cobra.Command{
		Use:   "explain [--model FILE] [--trace TRACE] [--job ID [--at INSTANT]]",
		Short: "Show the feature importance of a model, and explain its prediction for a job",
		Long: `Explain prints the features from which a model's trees gain most: the model of
--model, or one trained on --trace.

With --job it predicts one job of the trace, at its submission or at --at, and
shows the features that matter: how much probability the predicted class would
lose (or gain, if negative) if that feature alone had its typical value instead.`,
		Example: `  autosched forecast durations explain --model durations.model
  autosched forecast durations explain --model durations.model --trace jobs.csv.gz --job philly-012345 --at 2017-10-05T12:00:00Z`,
		Args: cli.NoArgs,
		RunE: cli.Report(&o.json, "duration-explanation/v1", o.check, o.run,
			func(r *explainReport, w io.Writer) error { return r.print(w, o.top) }),
	}
	o.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.model, "model", "", "")
	fl.StringVar(&o.job, "job", "", "")
	fl.StringVar(&o.at, "at", "", "")
	fl.IntVar(&o.top, "top", 15, "")
	return cmd
}

// check checks the flags and reads the model.
func (o *predictExplainOptions) check() error {
	switch {
	case o.model == "" && o.trace == "":
		return cli.Usage(errors.New("name a model file with --model, or a trace to learn one from with --trace"))
	case o.job != "" && o.trace == "":
		return cli.Usage(errors.New("--job: --trace is missing: the trace that the job is of"))
	case o.at != "" && o.job == "":
		return cli.Usage(errors.New("--at: --job is missing: the job to ask about"))
	case o.top < 1:
		return cli.Usage(fmt.Errorf("--top: %d is not positive", o.top))
	}
	if err := cmp.Or(o.checkWindow(), cli.CheckInstant("at", o.at)); err != nil || o.model == "" {
		return err
	}
	var err error
	if o.loaded, err = readModel(o.model); err != nil {
		return fmt.Errorf("--model: %w", err)
	}
	return nil
}

// run explains the model, or its prediction for a job. Notes and progress go to
// notes.
func (o *predictExplainOptions) run(ctx context.Context, notes io.Writer) (*explainReport, error) {
	var in *predictInput
	var err error
	if o.trace != "" {
		if in, err = o.load(ctx, notes); err != nil {
			return nil, err
		}
	}
	m := o.loaded
	if m == nil {
		line := cli.NewProgressLine(notes)
		m, err = durations.Train(ctx, in.history, in.trace.Zero(), in.trace.Name(), o.learn(line))
		line.Clear()
		if err != nil {
			return nil, err
		}
	}
	r := &explainReport{Version: m.Version, Trained: m.Trained, Importance: m.Weights(), model: m}
	if o.job != "" {
		r.Job, err = explainJob(m, in, o.job, o.at)
	}
	return r, err
}

type explainReport struct {
	Version    string             `json:"version"`
	Trained    durations.Window   `json:"trained"`
	Importance []durations.Weight `json:"importance"`
	Job        *jobExplained      `json:"job,omitempty"`

	model *durations.Model
}

type jobExplained struct {
	ID        string             `json:"id"`
	At        time.Time          `json:"at"`
	Predicted string             `json:"predicted"`
	P         map[string]float64 `json:"probabilities"`
	Actual    string             `json:"actual"`
	Reasons   []durations.Reason `json:"reasons"`
}

// explainJob predicts a job at an instant, "" for its submission.
func explainJob(m *durations.Model, in *predictInput, id, at string) (*jobExplained, error) {
	n := slices.IndexFunc(in.history, func(r durations.Record) bool { return r.ID == id })
	if n < 0 {
		return nil, cli.Usage(fmt.Errorf("--job: %s has no job %q in the window", in.trace.Name(), id))
	}
	r := &in.history[n]
	instant := r.Submit
	if at != "" {
		var err error
		if instant, err = trace.ParseInstant(in.trace, at); err != nil {
			return nil, cli.Usage(fmt.Errorf("--at: %w", err))
		}
		if instant < r.Submit || instant >= r.Until {
			return nil, cli.Usage(fmt.Errorf("--at: %s runs from %s to %s", id,
				in.trace.Clock(r.Submit).Format(time.RFC3339), in.trace.Clock(r.Until).Format(time.RFC3339)))
		}
	}
	t, err := durations.NewTracker(in.history)
	if err != nil {
		return nil, err
	}
	t.Advance(instant)
	row := make([]float64, len(durations.Features))
	t.Row(row, n)
	p, reasons, err := m.Explain(row)
	if err != nil {
		return nil, err
	}
	out := &jobExplained{ID: id, At: in.trace.Clock(instant), P: map[string]float64{},
		Actual: durations.ClassNames[durations.ClassOf(r.Ran)], Reasons: reasons}
	best := 0
	for c, v := range p {
		out.P[durations.ClassNames[c]] = v
		if v > p[best] {
			best = c
		}
	}
	out.Predicted = durations.ClassNames[best]
	return out, nil
}

func (r *explainReport) print(w io.Writer, top int) error {
	if r.Job != nil {
		return r.Job.print(w, top)
	}
	if err := printModel(w, r.model); err != nil {
		return err
	}
	t := cli.NewTable(w, "\nFEATURE\tPART\tSHARE OF THE GAIN")
	for i, x := range r.Importance {
		if i == top {
			fmt.Fprintf(t, "... %d more\n", len(r.Importance)-top)
			break
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f %%\n", x.Feature, x.Part, 100*x.Share)
	}
	return t.Flush()
}

func (j *jobExplained) print(w io.Writer, top int) error {
	fmt.Fprintf(w, "%s at %s: predicted %s; it ran %s\n\n", j.ID, j.At.Format(time.RFC3339), j.Predicted, j.Actual)
	t := cli.NewTable(w, "")
	for _, c := range durations.ClassNames {
		fmt.Fprintf(t, "%s\t%.3f\n", c, j.P[c])
	}
	fmt.Fprintln(t, "\nFEATURE\tPART\tVALUE\tTYPICAL\tEFFECT")
	for _, x := range j.Reasons[:min(top, len(j.Reasons))] {
		value := "unknown"
		if !x.Missing {
			value = featureText(x.Feature, x.Value)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%+.3f\n", x.Feature, x.Part, value, featureText(x.Feature, x.Typical), x.Effect)
	}
	return t.Flush()
}

// featureText shows lengths of time as such.
func featureText(name string, v float64) string {
	if durations.IsSpan(name) {
		return units.Duration(math.Expm1(v))
	}
	return fmt.Sprintf("%.3g", v)
}
