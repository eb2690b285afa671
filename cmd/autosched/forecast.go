package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

func newForecastCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Forecast which jobs will arrive, and check such forecasts on a trace",
		Long: `Arrivals are forecast as several futures drawn with a seed, each put together
from whole batches of past jobs. Methods:

` + forecastMethods(),
		Example: `  autosched forecast eval --trace sample --from 2017-10-10 --to 2017-10-12`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("forecast: unknown command %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newForecastEvalCmd())
	return cmd
}

func forecastMethods() string {
	var b strings.Builder
	for _, m := range arrivals.Methods {
		fmt.Fprintf(&b, "  %-10s %s\n", m.Name, m.About)
	}
	return b.String()
}

// forecastEval are the options of "autosched forecast eval".
type forecastEval struct {
	trace, from, to, since string
	method, compare, count string
	rolling                arrivals.Rolling
	horizon                time.Duration
	json                   bool
}

func newForecastEvalCmd() *cobra.Command {
	var o forecastEval
	cmd := &cobra.Command{
		Use:   "eval --trace TRACE --from INSTANT --to INSTANT",
		Short: "Forecast every hour of a window from what was known then, and score it",
		Long: `Eval takes every hour of the window, forecasts it from what had arrived before
it, and compares --futures of them with what came. Nothing after an instant
enters its forecast.

wape is the sum of absolute errors of the futures' median over the sum of what
came; wape mean is that of their mean; mae/bin the mean absolute error in a bin
(5 minutes, or the trace's own); bias the sum of the means over what came (1 is
unbiased); cover 80 the share of hours between the 10 % and the 90 % quantile of
the futures; burst the variance over the mean of the futures' bins, over that of
the real ones; rel/day the daily means of |error| / max(real, 1), least, median
and largest.

--trace also takes a table of counts: CSV with a column time (RFC 3339) or unix,
and a column ` + strings.Join(arrivals.CountColumns, ", ") + `. It tells neither batches nor jobs.

--compare fig8 is the AutoSched paper's Figure 8: its method, by relative error,
on the original series and on the periodic one, against real arrivals; and the
periodic copy against the periodic series, which is smoothed by a transform that
has seen the future. --compare table5 has its similarities, on both series.

Methods:
` + forecastMethods() + `
paper takes a similarity and a series after a colon, with a comma between them:
` + strings.Join(arrivals.Metrics, ", ") + `; periodic, original. The first of each is the default.`,
		Example: `  autosched forecast eval --trace jobs.csv.gz --from 2017-10-09 --to 2017-11-06 --methods all
  autosched forecast eval --trace jobs.csv.gz --from 2017-10-09 --to 2017-11-06 --count batches --json
  autosched forecast eval --trace throughput.csv.gz --from 2020-07-26 --to 2020-08-09 --methods paper:manhattan,original
  autosched forecast eval --trace sample --from 2017-10-10 --to 2017-10-12 --compare fig8`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.trace, "trace", "", `trace file, table of counts, or "sample" for the built-in synthetic trace (required)`)
	f.StringVar(&o.from, "from", "", "first instant to forecast from, RFC 3339, a date, seconds since the trace's zero, or a span since it such as 36h (required)")
	f.StringVar(&o.to, "to", "", "end of the last forecast's horizon (required)")
	f.StringVar(&o.since, "history-from", "", "leave out what arrived before this day (default: nothing)")
	f.StringVar(&o.method, "methods", arrivals.DefaultMethod, "methods to score, comma-separated, or all: "+strings.Join(forecastNames(), ", "))
	f.StringVar(&o.compare, "compare", "", "a comparison of the paper instead of --methods: fig8 or table5")
	f.StringVar(&o.count, "count", arrivals.CountJobs, "what is scored: jobs or batches")
	f.DurationVar(&o.horizon, "horizon", time.Hour, "how far a forecast goes")
	f.DurationVar(&o.rolling.Every, "every", 0, "time between forecasts (default: the horizon)")
	f.IntVar(&o.rolling.Futures, "futures", arrivals.DefaultFutures, "futures of each forecast")
	f.Uint64Var(&o.rolling.Seed, "seed", 1, "seed of the futures")
	f.BoolVar(&o.json, "json", false, "print JSON for programs")
	_ = cmd.RegisterFlagCompletionFunc("count", cobra.FixedCompletions([]string{arrivals.CountJobs, arrivals.CountBatches}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("compare", cobra.FixedCompletions([]string{"fig8", "table5"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func forecastNames() []string {
	var names []string
	for _, m := range arrivals.Methods {
		names = append(names, m.Name)
	}
	return names
}

// methods the flags ask for.
func (o *forecastEval) methods() ([]string, error) {
	switch o.compare {
	case "":
	case "fig8":
		return []string{"paper:" + arrivals.Relative + ",original", "paper:" + arrivals.Relative + ",periodic"}, nil
	case "table5":
		var out []string
		for _, series := range []string{"original", "periodic"} {
			for _, m := range arrivals.Metrics {
				out = append(out, "paper:"+m+","+series)
			}
		}
		return out, nil
	default:
		return nil, usageError{fmt.Errorf("--compare: %q is not fig8 or table5", o.compare)}
	}
	if o.method == "all" {
		return forecastNames(), nil
	}
	out := forecastList(o.method)
	if len(out) == 0 {
		return nil, usageError{errors.New("--methods: names no method")}
	}
	return out, nil
}

// forecastList splits a list of methods at commas or spaces. What is no method
// belongs to the variant before it, as in paper:manhattan,original.
func forecastList(text string) []string {
	var out []string
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, _, _ := strings.Cut(one, ":")
		if last := len(out) - 1; last >= 0 && strings.Contains(out[last], ":") && !slices.Contains(forecastNames(), name) {
			out[last] += "," + one
			continue
		}
		out = append(out, one)
	}
	return out
}

func (o *forecastEval) run(cmd *cobra.Command) error {
	switch {
	case o.trace == "":
		return usageError{errors.New(`--trace is missing: name a trace file, or "sample"`)}
	case o.from == "" || o.to == "":
		return usageError{errors.New("--from and --to are missing: the window to forecast")}
	case o.compare != "" && cmd.Flags().Changed("methods"):
		return usageError{errors.New("--compare brings its own methods: leave out --methods")}
	case o.compare == "fig8" && o.count != arrivals.CountJobs:
		return usageError{errors.New("--compare fig8 counts jobs: leave out --count")}
	case o.compare == "fig8" && o.horizon != time.Hour:
		return usageError{errors.New("--compare fig8 forecasts an hour: leave out --horizon")}
	case o.count != arrivals.CountJobs && o.count != arrivals.CountBatches:
		return usageError{fmt.Errorf("--count: %q is not jobs or batches", o.count)}
	case o.horizon <= 0:
		return usageError{fmt.Errorf("--horizon: %v is not positive", o.horizon)}
	case o.rolling.Every < 0:
		return usageError{fmt.Errorf("--every: %v is negative", o.rolling.Every)}
	case o.rolling.Futures < 1 || o.rolling.Futures > 10_000:
		return usageError{fmt.Errorf("--futures: %d is not from 1 to 10000", o.rolling.Futures)}
	}
	names, err := o.methods()
	if err != nil {
		return err
	}
	forecasters := make([]*arrivals.Forecaster, len(names))
	for i, n := range names {
		method, err := arrivals.Parse(n)
		if err != nil {
			return usageError{fmt.Errorf("--methods: %w", err)}
		}
		if forecasters[i], err = arrivals.New(arrivals.Options{Method: method, Horizon: o.horizon}); err != nil {
			return usageError{fmt.Errorf("--horizon: %w", err)}
		}
	}
	in, err := o.open(cmd.Context(), cmd)
	if err != nil {
		return err
	}
	line := newProgressLine(cmd.ErrOrStderr())
	report := forecastReport{Trace: in.name, Synthetic: in.synthetic, From: in.clock(o.rolling.From), To: in.clock(o.rolling.To), Horizon: o.horizon.Seconds(),
		Count: o.count, Samples: o.rolling.Futures, Seed: o.rolling.Seed, Bin: in.history.Bin().Seconds()}
	report.Results, err = evaluateAll(cmd.Context(), in.history, forecasters, o.rolling, o.count, line)
	if err == nil && o.compare == "fig8" {
		report.Periodic, err = arrivals.EvaluatePeriodic(cmd.Context(), in.history, arrivals.Relative, o.rolling)
	}
	line.clear()
	if err != nil {
		return fmt.Errorf("forecast eval: %w", err)
	}
	if o.json {
		return report.json(cmd.OutOrStdout(), o.compare == "" && o.method != "all" && len(names) == 1)
	}
	return report.print(cmd.OutOrStdout())
}

// evaluateAll evaluates methods side by side.
func evaluateAll(ctx context.Context, h *arrivals.History, fs []*arrivals.Forecaster, r arrivals.Rolling, count string, line *progressLine) ([]*arrivals.Score, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	scores := make([]*arrivals.Score, len(fs))
	done, of := make([]int, len(fs)), make([]int, len(fs))
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(len(fs), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				r := r
				r.Progress = func(d, n int) {
					mu.Lock()
					defer mu.Unlock()
					done[i], of[i] = d, n
					sum := 0
					for _, d := range done {
						sum += d
					}
					line.show("forecast %d of %d, method %s", sum, n*len(fs), fs[i].Method().Name)
				}
				jobs, batches, err := arrivals.Evaluate(ctx, h, fs[i], r)
				if err != nil {
					cancel(err)
					return
				}
				if scores[i] = jobs; count == arrivals.CountBatches {
					scores[i] = batches
				}
			}
		})
	}
	for i := range fs {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return scores, context.Cause(ctx)
}

// forecastInput is a trace as forecasting sees it.
type forecastInput struct {
	name      string
	synthetic bool
	history   *arrivals.History
}

func (in *forecastInput) clock(at time.Duration) string {
	return in.history.Zero().Add(at).Format(time.RFC3339)
}

// open reads the trace or the table of counts and the instants.
func (o *forecastEval) open(ctx context.Context, cmd *cobra.Command) (*forecastInput, error) {
	w, bin, counts, err := o.counts()
	if errors.Is(err, arrivals.ErrNotCounts) {
		w, err = openTrace(ctx, cmd.ErrOrStderr(), o.trace)
	}
	if err != nil {
		return nil, err
	}
	instant := func(flag, text string) (time.Duration, error) {
		at, err := trace.ParseInstant(w, text)
		if err != nil {
			return 0, usageError{fmt.Errorf("--%s: %w", flag, err)}
		}
		return at, nil
	}
	if o.rolling.From, err = instant("from", o.from); err != nil {
		return nil, err
	}
	if o.rolling.To, err = instant("to", o.to); err != nil {
		return nil, err
	}
	if o.rolling.To <= o.rolling.From {
		return nil, usageError{fmt.Errorf("--to (%s) is not after --from (%s)", o.to, o.from)}
	}
	grid := arrivals.Grid{Bin: bin}
	var since time.Duration
	if o.since != "" {
		if since, err = instant("history-from", o.since); err != nil {
			return nil, err
		}
		if since > o.rolling.From {
			return nil, usageError{fmt.Errorf("--history-from (%s) is after --from (%s)", o.since, o.from)}
		}
	}
	in := &forecastInput{name: w.Name(), synthetic: w.Synthetic()}
	switch {
	case counts != nil && o.count == arrivals.CountBatches:
		return nil, usageError{fmt.Errorf("--count: %s only counts jobs; it does not tell their batches", o.trace)}
	case counts != nil:
		skip := min(max(int(since/bin), 0), len(counts))
		in.history, err = arrivals.FromCounts(w.Zero(), time.Duration(skip)*bin, counts[skip:], grid)
	default:
		first, last := w.Span()
		// What came after the last day of the trace is not known to be nothing.
		const day = 24 * time.Hour
		if end := last - (last%day+day)%day + day; o.rolling.To > end {
			return nil, fmt.Errorf("forecast eval: --to (%s) is after the trace's last day: its last job was submitted at %s", o.to, w.Clock(last).Format(time.RFC3339))
		}
		if o.since != "" {
			first = since
		}
		in.history, err = arrivals.FromJobs(w.Zero(), w.Window(first, o.rolling.To).Jobs(), o.rolling.To, grid)
	}
	if err != nil {
		return nil, fmt.Errorf("forecast eval: %w", err)
	}
	return in, nil
}

// counts reads a table of counts; the error wraps ErrNotCounts if the file is
// none.
func (o *forecastEval) counts() (*workload.Workload, time.Duration, []int, error) {
	if o.trace == trace.SampleName || o.trace == "-" {
		return nil, 0, nil, arrivals.ErrNotCounts
	}
	f, err := os.Open(o.trace)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	zero, bin, counts, err := arrivals.ReadCounts(bufio.NewReader(f), o.trace)
	if err != nil {
		if errors.Is(err, gzip.ErrHeader) { // the trace reader says what is wrong with it
			err = arrivals.ErrNotCounts
		}
		return nil, 0, nil, err
	}
	w, err := workload.New(o.trace, zero, nil)
	return w, bin, counts, err
}
