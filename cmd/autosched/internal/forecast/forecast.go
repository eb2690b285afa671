// Package forecast has the commands that forecast arrivals and durations of jobs.
package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

func newForecastCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forecast",
		Short: "Forecast arrivals and durations of jobs, and their speeds",
		Long: `Arrivals are forecast as several futures drawn with a seed, each composed of whole
batches of past jobs. Methods:

` + forecastMethods(),
		Example: `  autosched forecast eval --trace sample --from 2017-10-10 --to 2017-10-12`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage(fmt.Errorf("forecast: unknown command %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newForecastEvalCmd(), newPredictCmd(), newModelsCmd())
	return cmd
}

func forecastMethods() string {
	var b strings.Builder
	for _, m := range arrivals.Methods {
		fmt.Fprintf(&b, "  %-10s %s\n", m.Name, m.About)
	}
	return b.String()
}

// forecastEvalOptions are the flags of forecast eval.
type forecastEvalOptions struct {
	trace, from, to, since string
	how                    cli.ReadFlags
	method, count          string
	rolling                arrivals.Rolling
	horizon                time.Duration
	json                   bool
	plot                   cli.PlotFlag

	forecasters []*arrivals.Forecaster // after check
}

func newForecastEvalCmd() *cobra.Command {
	var o forecastEvalOptions
	cmd := &cobra.Command{
		Use:   "eval --trace TRACE --from INSTANT --to INSTANT",
		Short: "Score rolling forecasts of a window",
		Long: `Eval forecasts every hour of the window from the arrivals before it, and compares
--futures futures with the real arrivals. Nothing after an instant enters its
forecast.

wape is the sum of absolute errors of the futures' median over the sum of the real
arrivals; wape mean is that of their mean; mae/bin the mean absolute error in a
bin of 5 minutes; bias the sum of the means over the real sum
(1 is unbiased); cover 80 the share of hours between the 10 % and the 90 % quantile
of the futures; burst the variance over the mean of the futures' bins, over that
of the real ones; rel/day the daily means of |error| / max(real, 1), least, median
and largest.

Methods:
` + forecastMethods(),
		Example: `  autosched forecast eval --trace jobs.csv.gz --from 2017-10-09 --to 2017-11-06 --methods all
  autosched forecast eval --trace jobs.csv.gz --from 2017-10-09 --to 2017-11-06 --unit batches --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "forecast/v1", r.document(), r.page, r.print)
		},
	}
	o.add(cmd)
	return cmd
}

func (o *forecastEvalOptions) add(cmd *cobra.Command) {
	o.plot.Add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.trace, "trace", "", "")
	f.StringVar(&o.from, "from", "", "(required)")
	f.StringVar(&o.to, "to", "", "(required)")
	f.StringVar(&o.since, "history-from", "", "ignore arrivals before this instant (default: none)")
	f.StringVar(&o.method, "methods", arrivals.DefaultMethod,
		"methods to score, comma-separated, or all: "+strings.Join(ForecastNames(), ", "))
	f.StringVar(&o.count, "unit", arrivals.CountJobs, "what to score: jobs or batches")
	f.DurationVar(&o.horizon, "horizon", time.Hour, "how far ahead arrivals are forecast")
	f.DurationVar(&o.rolling.Every, "every", 0, "time between forecasts (default: the horizon)")
	f.IntVar(&o.rolling.Futures, "futures", arrivals.DefaultFutures, "")
	f.Uint64Var(&o.rolling.Seed, "seed", 1, "")
	f.BoolVar(&o.json, "json", false, "")
	_ = cmd.RegisterFlagCompletionFunc("unit", cli.OneOf(arrivals.CountJobs, arrivals.CountBatches))
}

// ForecastNames lists the methods of forecast eval.
func ForecastNames() []string {
	var names []string
	for _, m := range arrivals.Methods {
		names = append(names, m.Name)
	}
	return names
}

// methods are the names that the flags choose.
func (o *forecastEvalOptions) methods() ([]string, error) {
	if o.method == "all" {
		return ForecastNames(), nil
	}
	out := strings.FieldsFunc(o.method, func(r rune) bool { return r == ',' || r == ' ' })
	if len(out) == 0 {
		return nil, cli.Usage(errors.New("--methods: names no method"))
	}
	return out, nil
}

// check checks all that needs no trace.
func (o *forecastEvalOptions) check() error {
	switch {
	case o.trace == "":
		return cli.Usage(errors.New(`--trace is missing: name a trace file, "sample" or "sample-shifts"`))
	case o.from == "" || o.to == "":
		return cli.Usage(errors.New("--from and --to are missing: the window to forecast"))
	case o.count != arrivals.CountJobs && o.count != arrivals.CountBatches:
		return cli.Usage(fmt.Errorf("--unit: %q is not jobs or batches", o.count))
	case o.horizon <= 0:
		return cli.Usage(fmt.Errorf("--horizon: %v is not positive", o.horizon))
	case o.rolling.Every < 0:
		return cli.Usage(fmt.Errorf("--every: %v is negative", o.rolling.Every))
	case o.rolling.Futures < 1 || o.rolling.Futures > 10_000:
		return cli.Usage(fmt.Errorf("--futures: %d is not from 1 to 10000", o.rolling.Futures))
	}
	if err := cmp.Or(cli.CheckInstant("from", o.from), cli.CheckInstant("to", o.to),
		cli.CheckInstant("history-from", o.since)); err != nil {
		return err
	}
	names, err := o.methods()
	if err != nil {
		return err
	}
	for _, n := range names {
		method, err := arrivals.Parse(n)
		if err != nil {
			return cli.Usage(fmt.Errorf("--methods: %w", err))
		}
		f, err := arrivals.New(arrivals.Options{Method: method, Horizon: o.horizon})
		if err != nil {
			return cli.Usage(fmt.Errorf("--horizon: %w", err))
		}
		o.forecasters = append(o.forecasters, f)
	}
	return o.plot.Check()
}

// run scores the methods. Notes and progress go to notes.
func (o *forecastEvalOptions) run(ctx context.Context, notes io.Writer) (*forecastReport, error) {
	in, err := o.open(ctx, notes)
	if err != nil {
		return nil, err
	}
	r := &forecastReport{
		Trace: in.name, Synthetic: in.synthetic, From: in.clock(o.rolling.From), To: in.clock(o.rolling.To),
		Horizon: o.horizon.Seconds(), Bin: in.history.Bin().Seconds(), Count: o.count, Samples: o.rolling.Futures,
		Seed: o.rolling.Seed, single: o.method != "all" && len(o.forecasters) == 1,
	}
	line := cli.NewProgressLine(notes)
	r.Results, err = evaluateAll(ctx, in.history, o.forecasters, o.rolling, o.count, line)
	line.Clear()
	if err != nil {
		return nil, fmt.Errorf("forecast eval: %w", err)
	}
	return r, nil
}

// evaluateAll evaluates methods side by side.
func evaluateAll(ctx context.Context, h *arrivals.History, fs []*arrivals.Forecaster, r arrivals.Rolling, count string,
	line *cli.ProgressLine) ([]*arrivals.Score, error) {
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
					line.Show("forecast %d of %d, method %s", sum, n*len(fs), fs[i].Method().Name)
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

// open reads the trace and the instants.
func (o *forecastEvalOptions) open(ctx context.Context, notes io.Writer) (*forecastInput, error) {
	w, _, err := cli.OpenTrace(ctx, notes, o.trace, o.how)
	if err != nil {
		return nil, err
	}
	since, err := o.instants(w)
	if err != nil {
		return nil, err
	}
	in := &forecastInput{name: w.Name(), synthetic: w.Synthetic()}
	first, last := w.Span()
	// After the last day of the trace arrivals are unknown, not absent.
	const day = 24 * time.Hour
	if end := last - (last%day+day)%day + day; o.rolling.To > end {
		return nil, fmt.Errorf("forecast eval: --to (%s) is after the trace's last day: its last job was submitted at %s",
			o.to, w.Clock(last).Format(time.RFC3339))
	}
	if o.since != "" {
		first = since
	}
	in.history, err = arrivals.FromJobs(w.Zero(), w.Window(first, o.rolling.To).Jobs(), o.rolling.To, arrivals.Grid{})
	if err != nil {
		return nil, fmt.Errorf("forecast eval: %w", err)
	}
	return in, nil
}

// instants reads --from and --to into the options, and returns --history-from, 0
// without it.
func (o *forecastEvalOptions) instants(w *workload.Workload) (since time.Duration, err error) {
	instant := func(flag, text string) (time.Duration, error) {
		at, err := trace.ParseInstant(w, text)
		if err != nil {
			return 0, cli.Usage(fmt.Errorf("--%s: %w", flag, err))
		}
		return at, nil
	}
	if o.rolling.From, err = instant("from", o.from); err != nil {
		return 0, err
	}
	if o.rolling.To, err = instant("to", o.to); err != nil {
		return 0, err
	}
	if o.rolling.To <= o.rolling.From {
		return 0, cli.Usage(fmt.Errorf("--to (%s) is not after --from (%s)", o.to, o.from))
	}
	if o.since == "" {
		return 0, nil
	}
	if since, err = instant("history-from", o.since); err != nil {
		return 0, err
	}
	if since > o.rolling.From {
		return 0, cli.Usage(fmt.Errorf("--history-from (%s) is after --from (%s)", o.since, o.from))
	}
	return since, nil
}

// forecastReport is the result of forecast eval.
type forecastReport struct {
	Trace     string  `json:"trace"`
	Synthetic bool    `json:"synthetic"`
	From      string  `json:"from"`
	To        string  `json:"to"`
	Horizon   float64 `json:"horizon_s"`
	Bin       float64 `json:"bin_s"`
	Count     string  `json:"count"`
	Samples   int     `json:"samples"`
	Seed      uint64  `json:"seed"`

	Results []*arrivals.Score `json:"results,omitempty"`

	single bool // --methods names a single method
}

// document is the JSON form; a single method's figures stand beside the window.
func (r *forecastReport) document() any {
	if !r.single {
		return r
	}
	flat := *r
	flat.Results = nil
	return struct {
		forecastReport
		*arrivals.Score
		Count string `json:"count"` // both have it
	}{flat, r.Results[0], r.Count}
}

func (r *forecastReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s%s: %s from %s to %s, %d forecasts of %s, %d futures each\n\n", r.Trace,
		cli.SyntheticLabel(r.Synthetic),
		r.Count, r.From, r.To, r.Results[0].Forecasts, spanText(r.Horizon), r.Samples)
	t := table.New(w, "method\twape\twape mean\tmae/bin\tbias\tcover 80\tburst\trel/day min\tmedian\tmax")
	for _, s := range r.Results {
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.2f\t%.3f\t%.3f\t%.2f\t%.2f\t%.2f\t%.2f\n", s.Method, s.WAPE, s.WAPEMean,
			s.MAEPerBin, s.Bias, s.Coverage80, s.Burstiness, s.RelMin, s.RelMed, s.RelMax)
	}
	return t.Flush()
}

// page draws the error of each method by day.
func (r *forecastReport) page() (*chart.Page, error) {
	best := r.Results[0]
	c := &chart.Chart{Title: "Error by day", X: chart.Axis{Labels: true},
		Y: chart.Axis{Name: "mean |error| / max(real, 1)", Include: []float64{0}}}
	days := slices.Sorted(maps.Keys(best.RelByDay))
	for k, day := range days {
		if len(days) <= 8 || k%(len(days)/8+1) == 0 {
			c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: float64(k), Label: day})
		}
	}
	for i, s := range r.Results {
		if s.WAPE < best.WAPE {
			best = s
		}
		var curve []chart.Point
		for k, day := range days {
			curve = append(curve, chart.Point{X: float64(k), Y: s.RelByDay[day]})
		}
		mark := chart.Mark{Name: s.Method, Tip: s.Method, Color: chart.Series(i)}
		c.Layers = append(c.Layers, &chart.Line{Mark: mark, Points: curve, Dash: chart.SeriesDash(i)},
			&chart.Dots{Mark: chart.Mark{Color: chart.Series(i)}, Points: curve})
	}
	p, err := cli.NewPage("forecast: "+r.Count+" of "+r.Trace, r.Synthetic,
		fmt.Sprintf("%s errs least. Its forecasts of %s are wrong by %s of the arrivals, and %s of the hours are in "+
			"its band of 80 %%.", best.Method, spanText(r.Horizon), units.Percent(best.WAPE),
			units.Percent(best.Coverage80)), r.print)
	if err == nil {
		p.First = c
	}
	return p, err
}

// spanText writes a horizon in hours or minutes.
func spanText(seconds float64) string {
	switch {
	case seconds == 3600:
		return "an hour"
	case seconds > 3600 && int(seconds)%3600 == 0:
		return fmt.Sprintf("%d hours", int(seconds)/3600)
	}
	return fmt.Sprintf("%g minutes", seconds/60)
}

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newForecastCmd()}
}
