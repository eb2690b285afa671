package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

func newGenerateCmd() *cobra.Command {
	var path, at, out string
	var tune tuneFlags
	var samples int
	var seed uint64
	var json bool
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Draw the futures that a tuning round would play candidates on",
		Long: `Takes a trace as far as it was known at --at (every job taken to have begun when it
was submitted), and draws futures: the work left of the jobs that had not ended,
and the jobs that arrive until the horizon. What really came is shown beside
them.

--out writes each future as a trace of its own (future-0.csv, ...): the active
jobs with what is left of them at --at, then the arrivals.`,
		Example: `  autosched generate --trace sample --at 2017-10-10T12:00:00Z --horizon 1h --futures 8
  autosched generate --trace jobs.csv.gz --at 2017-10-10T12:00:00Z --generate knn/predicted --out futures`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case path == "":
				return usageError{fmt.Errorf(`--trace is missing: name a trace file, or "sample"`)}
			case at == "":
				return usageError{fmt.Errorf("--at is missing: the instant to look ahead from, RFC 3339 or seconds")}
			case samples < 1 || samples > mostFutures:
				return usageError{fmt.Errorf("--futures: %d is not from 1 to %d", samples, mostFutures)}
			case tune.settings.Horizon <= 0:
				return usageError{fmt.Errorf("--horizon: %v is not positive", tune.settings.Horizon)}
			}
			method, err := generation.ParseMethod(tune.generate)
			if err != nil {
				return usageError{fmt.Errorf("--generate: %w", err)}
			}
			w, err := openTrace(cmd.Context(), cmd.ErrOrStderr(), path)
			if err != nil {
				return err
			}
			instant, err := trace.ParseInstant(w, at)
			if err != nil {
				return usageError{fmt.Errorf("--at: %w", err)}
			}
			request := lookBack(w, instant)
			if len(request.Submitted) == 0 {
				return usageError{fmt.Errorf("--at (%s): no job of %s was submitted before", at, w.Name())}
			}
			request.Horizon, request.Count, request.Seed = tune.settings.Horizon, samples, seed
			futures, err := generation.NewEngine(w.Zero(), method).Futures(cmd.Context(), request)
			if err != nil {
				return err
			}
			r := newGenerateReport(w, instant, tune.settings.Horizon, tune.generate, &request, futures)
			if out != "" {
				if r.Files, err = writeFutures(out, w, instant, &request, futures); err != nil {
					return err
				}
			}
			if json {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&path, "trace", "", `trace file, or "sample" for the built-in synthetic one (required)`)
	fl.StringVar(&at, "at", "", "instant to look ahead from, RFC 3339, a date, seconds since the trace's zero, or a span since it such as 36h (required)")
	fl.DurationVar(&tune.settings.Horizon, "horizon", time.Hour, "how far ahead jobs arrive")
	fl.IntVar(&samples, "futures", 4, "futures to draw")
	fl.Uint64Var(&seed, "seed", 1, "seed of the draws")
	addGenerate(cmd, &tune.generate)
	fl.StringVarP(&out, "out", "o", "", "folder to write the futures to")
	fl.BoolVar(&json, "json", false, "print JSON for programs")
	return cmd
}

// lookBack is what was known of a trace at an instant, on a cluster without
// queues.
func lookBack(w *workload.Workload, at time.Duration) generation.Request {
	jobs := w.Window(at-round.ArrivalMemory, at).Jobs()
	r := generation.Request{At: at, Submitted: jobs, Records: durations.Known(durations.Unqueued(jobs), at)}
	for _, j := range r.Records {
		if !j.Ended {
			r.Active = append(r.Active, j)
		}
	}
	return r
}

// generateReport describes futures, and what really came.
type generateReport struct {
	Trace     string          `json:"trace"`
	Synthetic bool            `json:"synthetic"`
	At        string          `json:"at"`
	HorizonS  float64         `json:"horizon_s"`
	Method    string          `json:"method"`
	Active    int             `json:"active_jobs"`
	Futures   []generatedJobs `json:"futures"`
	Truth     generatedJobs   `json:"truth"`
	Files     []string        `json:"files,omitempty"`
}

type generatedJobs struct {
	// LeftGPUHours are of the active jobs, the rest of the jobs that arrive.
	LeftGPUHours float64 `json:"left_gpu_hours"`
	Arrivals     int     `json:"arrivals"`
	Batches      int     `json:"batches"`
	GPUHours     float64 `json:"gpu_hours"`
	MedianS      float64 `json:"median_duration_s"`
}

func newGenerateReport(w *workload.Workload, at, horizon time.Duration, method string, r *generation.Request, futures []generation.Future) *generateReport {
	out := &generateReport{Trace: w.Name(), Synthetic: w.Synthetic(), At: w.Zero().Add(at).Format(time.RFC3339), HorizonS: horizon.Seconds(), Method: method, Active: len(r.Active)}
	for _, f := range futures {
		out.Futures = append(out.Futures, describeFuture(r, f.Left, f.Arrivals.Jobs()))
	}
	truth := map[string]time.Duration{}
	for _, j := range w.Jobs() {
		truth[j.ID] = j.Duration
	}
	left := make([]time.Duration, len(r.Active))
	for i, a := range r.Active {
		left[i] = max(0, truth[a.ID]-a.Ran)
	}
	out.Truth = describeFuture(r, left, w.Window(at, at+horizon).Jobs())
	return out
}

func describeFuture(r *generation.Request, left []time.Duration, jobs []workload.Job) generatedJobs {
	g := generatedJobs{Arrivals: len(jobs)}
	for i := range left {
		g.LeftGPUHours += left[i].Hours() * float64(r.Active[i].GPUs.Whole())
	}
	last := map[string]time.Duration{}
	var spans []float64
	for _, j := range jobs {
		if t, ok := last[j.Tenant]; !ok || j.Submit-t > workload.BatchGap {
			g.Batches++
		}
		last[j.Tenant] = j.Submit
		g.GPUHours += j.Duration.Hours() * float64(j.GPUs.Whole())
		spans = append(spans, j.Duration.Seconds())
	}
	if sort.Float64s(spans); len(spans) > 0 {
		g.MedianS = spans[len(spans)/2]
	}
	return g
}

// writeFutures writes one trace each.
func writeFutures(dir string, w *workload.Workload, at time.Duration, r *generation.Request, futures []generation.Future) ([]string, error) {
	if err := os.MkdirAll(filepath.Clean(dir), 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	var files []string
	for k, f := range futures {
		var jobs []workload.Job
		for i, a := range r.Active {
			j := *a.Job
			j.Submit, j.Duration = at, max(time.Second, f.Left[i])
			jobs = append(jobs, j)
		}
		jobs = append(jobs, f.Arrivals.Jobs()...)
		future, err := workload.New(fmt.Sprintf("%s, future %d", w.Name(), k), w.Zero(), jobs)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, fmt.Sprintf("future-%d.csv", k))
		if err := atomicfile.Write(path, func(out io.Writer) error { return trace.WriteCSV(out, future.AsSynthetic()) }); err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	return files, nil
}

func (r *generateReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s%s at %s: %d active jobs, %v ahead by %s\n\n", r.Trace, label(r.Synthetic), r.At, r.Active, time.Duration(r.HorizonS*float64(time.Second)), r.Method)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "future\tleft GPU-h\tarrivals\tbatches\tGPU-h\tmedian s\t")
	row := func(name string, g *generatedJobs) {
		fmt.Fprintf(t, "%s\t%.0f\t%d\t%d\t%.0f\t%.0f\t\n", name, g.LeftGPUHours, g.Arrivals, g.Batches, g.GPUHours, g.MedianS)
	}
	for k := range r.Futures {
		row(fmt.Sprint(k), &r.Futures[k])
	}
	row("truth", &r.Truth)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range r.Files {
		fmt.Fprintf(w, "written to %s\n", f)
	}
	return nil
}
