package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/workload/trace"
)

func newPredictExplainCmd() *cobra.Command {
	var f predictFlags
	var model, job, at string
	var top int
	cmd := &cobra.Command{
		Use:   "explain [--model FILE] [--trace TRACE] [--job ID [--at INSTANT]]",
		Short: "Show what a model goes by, and why it says what it says of a job",
		Long: `Explain prints which features a model's trees gain most from: those of --model, or
of a model learnt from --trace.

With --job it asks the model about one job of the trace, at its submission or at
--at, and shows the features that matter: how much of the predicted class's
probability would be lost (or gained, if negative) if that feature alone had its
typical value instead.`,
		Example: `  autosched predict explain --model durations.model
  autosched predict explain --model durations.model --trace jobs.csv.gz --job philly-012345 --at 2017-10-05T12:00:00Z`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case model == "" && f.trace == "":
				return usageError{fmt.Errorf("name a model file with --model, or a trace to learn one from with --trace")}
			case job != "" && f.trace == "":
				return usageError{fmt.Errorf("--job: --trace is missing: the trace that the job is of")}
			case at != "" && job == "":
				return usageError{fmt.Errorf("--at: --job is missing: the job to ask about")}
			case top < 1:
				return usageError{fmt.Errorf("--top: %d is not positive", top)}
			}
			var m *durations.Model
			var in *predictInput
			var err error
			if model != "" {
				if m, err = readModel(model); err != nil {
					return fmt.Errorf("--model: %w", err)
				}
			}
			if f.trace != "" {
				if in, err = f.load(cmd.Context(), cmd); err != nil {
					return err
				}
			}
			if m == nil {
				line := newProgressLine(cmd.ErrOrStderr())
				defer line.clear()
				if m, err = durations.Train(cmd.Context(), in.history, in.trace.Zero(), in.trace.Name(), f.learn(line)); err != nil {
					return err
				}
				line.clear()
			}
			r := explainReport{Version: m.Version, Trained: m.Trained, Importance: m.Weights()}
			if job != "" {
				if r.Job, err = explainJob(m, in, job, at); err != nil {
					return err
				}
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout(), m, top)
		},
	}
	f.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&model, "model", "", "model file (default: learn one from the trace)")
	fl.StringVar(&job, "job", "", "job to ask about")
	fl.StringVar(&at, "at", "", "instant to ask at, RFC 3339, a date, seconds since the trace's zero, or a span since it such as 36h (default: the job's submission)")
	fl.IntVar(&top, "top", 15, "features to show")
	return cmd
}

type explainReport struct {
	Version    string             `json:"version"`
	Trained    durations.Window   `json:"trained"`
	Importance []durations.Weight `json:"importance"`
	Job        *jobExplained      `json:"job,omitempty"`
}

type jobExplained struct {
	ID        string             `json:"id"`
	At        time.Time          `json:"at"`
	Predicted string             `json:"predicted"`
	P         map[string]float64 `json:"probabilities"`
	Actual    string             `json:"actual"`
	Reasons   []durations.Reason `json:"reasons"`
}

func explainJob(m *durations.Model, in *predictInput, id, at string) (*jobExplained, error) {
	n := slices.IndexFunc(in.history, func(r durations.Record) bool { return r.ID == id })
	if n < 0 {
		return nil, usageError{fmt.Errorf("--job: %s has no job %q in the window", in.trace.Name(), id)}
	}
	r := &in.history[n]
	instant := r.Submit
	if at != "" {
		var err error
		if instant, err = trace.ParseInstant(in.trace, at); err != nil {
			return nil, usageError{fmt.Errorf("--at: %w", err)}
		}
		if instant < r.Submit || instant >= r.Until {
			return nil, usageError{fmt.Errorf("--at: %s runs from %s to %s", id, in.trace.Clock(r.Submit).Format(time.RFC3339), in.trace.Clock(r.Until).Format(time.RFC3339))}
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
	out := &jobExplained{ID: id, At: in.trace.Clock(instant), P: map[string]float64{}, Actual: durations.ClassNames[durations.ClassOf(r.Ran)], Reasons: reasons}
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

func (r *explainReport) print(w io.Writer, m *durations.Model, top int) error {
	if r.Job == nil {
		if err := printModel(w, m); err != nil {
			return err
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "\nFEATURE\tPART\tSHARE OF THE GAIN")
		for i, x := range r.Importance {
			if i == top {
				fmt.Fprintf(t, "... %d more\n", len(r.Importance)-top)
				break
			}
			fmt.Fprintf(t, "%s\t%s\t%.1f %%\n", x.Feature, x.Part, 100*x.Share)
		}
		return t.Flush()
	}
	j := r.Job
	fmt.Fprintf(w, "%s at %s: predicted %s; it ran %s\n\n", j.ID, j.At.Format(time.RFC3339), j.Predicted, j.Actual)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range durations.ClassNames {
		fmt.Fprintf(t, "%s\t%.3f\n", c, j.P[c])
	}
	fmt.Fprintln(t, "\nFEATURE\tPART\tVALUE\tTYPICAL\tEFFECT")
	for i, x := range j.Reasons {
		if i == top {
			break
		}
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
		return span(math.Expm1(v))
	}
	return fmt.Sprintf("%.3g", v)
}

func printModel(w io.Writer, m *durations.Model) error {
	fmt.Fprintf(w, "model %s", m.Version)
	if m.Trained.Jobs == 0 {
		fmt.Fprintf(w, ": LightGBM text of %d features, without a header\n", len(m.Features))
		return nil
	}
	fmt.Fprintf(w, ": %d features, learnt from %d jobs submitted from %s to %s\n", len(m.Features), m.Trained.Jobs, m.Trained.From.Format(time.RFC3339), m.Trained.To.Format(time.RFC3339))
	if m.Parent != "" {
		fmt.Fprintf(w, "refitted from %s\n", m.Parent)
	}
	fmt.Fprintf(w, "scores on the %d jobs held back after them:\n", m.Held.Jobs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "query\tn\taccuracy\tlog-loss\tECE\t")
	for _, k := range durations.Kinds {
		if s, ok := m.Scores[k.Name]; ok {
			fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t%.3f\t\n", k.Name, s.N, s.Accuracy, s.LogLoss, s.ECE)
		}
	}
	return t.Flush()
}
