package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/workload/trace"
)

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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.json, "duration-explanation/v1", r,
				func(w io.Writer) error { return r.print(w, o.top) })
		},
	}
	o.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.model, "model", "", "model file (default: learn one from the trace)")
	fl.StringVar(&o.job, "job", "", "job to predict")
	fl.StringVar(&o.at, "at", "",
		"instant of the prediction, RFC 3339, a date, seconds since the trace's zero, or a span since it such as 36h "+
			"(default: the job's submission)")
	fl.IntVar(&o.top, "top", 15, "features to show")
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
	t, err := durations.NewTracker(in.history, in.trace.Zero())
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
