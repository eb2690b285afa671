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

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/futures"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload/trace"
)

// generateOptions are the flags of generate.
type generateOptions struct {
	trace, at, method, out string
	how                    cli.ReadFlags
	futures                futures.Options // without the instant
	json                   bool
}

func newGenerateCmd() *cobra.Command {
	var o generateOptions
	cmd := &cobra.Command{
		Use:   "futures",
		Short: "Draw the futures on which a tuning round simulates candidates",
		Long: `Takes what is known of a trace at --at, on a cluster without queues, and draws
futures: the work left of the active jobs, and the jobs that arrive until the
horizon. The true future of the trace is shown beside them.

--out writes each future as a trace of its own (future-0.csv, ...): the active
jobs with the work left of them, submitted at --at, then the arrivals.`,
		Example: `  autosched forecast futures --trace sample --at 2017-10-10T12:00:00Z --horizon 1h --futures 8
  autosched forecast futures --trace jobs.csv.gz --at 2017-10-10T12:00:00Z --generate ridge/predicted --out futures`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), o.json, "futures/v1", r, r.print)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.trace, "trace", "", "")
	fl.StringVar(&o.at, "at", "", "")
	fl.DurationVar(&o.futures.Horizon, "horizon", time.Hour, "how far ahead arrivals are forecast")
	fl.IntVar(&o.futures.Count, "futures", 4, "")
	fl.Uint64Var(&o.futures.Seed, "seed", 1, "")
	cli.AddGenerate(cmd, &o.method)
	fl.StringVarP(&o.out, "out", "o", "", "folder to write the futures to")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

// check checks all that needs no trace.
func (o *generateOptions) check() error {
	switch {
	case o.trace == "":
		return cli.Usage(errors.New(`--trace is missing: name a trace file, "sample" or "sample-shifts"`))
	case o.at == "":
		return cli.Usage(errors.New("--at is missing: the instant to look ahead from, RFC 3339 or seconds"))
	case o.futures.Count < 1 || o.futures.Count > cli.MaxFutures:
		return cli.Usage(fmt.Errorf("--futures: %d is not from 1 to %d", o.futures.Count, cli.MaxFutures))
	case o.futures.Horizon <= 0:
		return cli.Usage(fmt.Errorf("--horizon: %v is not positive", o.futures.Horizon))
	}
	var err error
	if o.futures.Method, err = generation.ParseMethod(o.method); err != nil {
		return cli.Usage(fmt.Errorf("--generate: %w", err))
	}
	return cmp.Or(cli.NeedsPath(o.out, "--out", "a folder"), cli.CheckInstant("at", o.at),
		o.how.Apply(&trace.Options{}))
}

// run draws the futures, and writes them if a folder is named. Notes go to notes.
func (o *generateOptions) run(ctx context.Context, notes io.Writer) (*generateReport, error) {
	w, _, err := cli.OpenTrace(ctx, notes, o.trace, o.how)
	if err != nil {
		return nil, err
	}
	at, err := trace.ParseInstant(w, o.at)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--at: %w", err))
	}
	options := o.futures
	options.At, options.Memory = at, round.ArrivalMemory
	f, err := futures.Draw(ctx, w, options)
	if errors.Is(err, futures.ErrNoPast) {
		return nil, cli.Usage(fmt.Errorf("--at (%s): no job of %s was submitted before", o.at, w.Name()))
	}
	if err != nil {
		return nil, err
	}
	r := &generateReport{
		Trace: w.Name(), Synthetic: w.Synthetic(), At: w.Clock(at).Format(time.RFC3339),
		HorizonS: o.futures.Horizon.Seconds(), Method: o.method, Futures: f,
	}
	if o.out != "" {
		r.Files, err = writeFutures(o.out, f)
	}
	return r, err
}

// writeFutures writes a trace of each future and returns the names of the files.
func writeFutures(dir string, f *futures.Futures) ([]string, error) {
	if err := os.MkdirAll(filepath.Clean(dir), 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	var files []string
	for k := range f.Drawn {
		w, err := f.Trace(k)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, fmt.Sprintf("future-%d.csv", k))
		if err := atomicfile.Write(path, func(out io.Writer) error { return trace.WriteCSV(out, w) }); err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	return files, nil
}

// generateReport is the result of generate.
type generateReport struct {
	Trace     string  `json:"trace"`
	Synthetic bool    `json:"synthetic"`
	At        string  `json:"at"`
	HorizonS  float64 `json:"horizon_s"`
	Method    string  `json:"method"`
	*futures.Futures
	Files []string `json:"files,omitempty"`
}

func (r *generateReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s%s at %s: %d active jobs, forecast for %s by %s\n\n", r.Trace, cli.SyntheticLabel(r.Synthetic),
		r.At,
		r.Active, units.Duration(r.HorizonS), r.Method)
	t := cli.NewNumbers(w, "future\tremaining GPU-h\tarrivals\tbatches\tGPU-h\tmedian s\t")
	row := func(name string, f *futures.Future) {
		fmt.Fprintf(t, "%s\t%.0f\t%d\t%d\t%.0f\t%.0f\t\n", name, f.LeftGPUHours, f.Arrivals, f.Batches, f.GPUHours,
			f.MedianS)
	}
	for k := range r.Drawn {
		row(fmt.Sprint(k), &r.Drawn[k])
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
