package forecast

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

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
func (o *forecastEvalOptions) open(ctx context.Context, notes io.Writer) (*forecastInput, error) {
	w, bin, counts, err := o.counts()
	if errors.Is(err, arrivals.ErrNotCounts) {
		w, _, err = cli.OpenTrace(ctx, notes, o.trace, o.how)
	}
	if err != nil {
		return nil, err
	}
	since, err := o.instants(w)
	if err != nil {
		return nil, err
	}
	grid := arrivals.Grid{Bin: bin}
	in := &forecastInput{name: w.Name(), synthetic: w.Synthetic()}
	switch {
	case counts != nil && o.count == arrivals.CountBatches:
		return nil, cli.Usage(fmt.Errorf("--count: %s only counts jobs, not batches", o.trace))
	case counts != nil:
		skip := min(max(int(since/bin), 0), len(counts))
		in.history, err = arrivals.FromCounts(w.Zero(), time.Duration(skip)*bin, counts[skip:], grid)
	default:
		first, last := w.Span()
		// After the last day of the trace arrivals are unknown, not absent.
		const day = 24 * time.Hour
		if end := last - (last%day+day)%day + day; o.rolling.To > end {
			return nil,
				fmt.Errorf("forecast eval: --to (%s) is after the trace's last day: its last job was submitted "+
					"at %s", o.to, w.Clock(last).Format(time.RFC3339))
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

// counts reads a table of counts; the error wraps ErrNotCounts if the file is
// none.
func (o *forecastEvalOptions) counts() (*workload.Workload, time.Duration, []int, error) {
	if trace.IsBuiltIn(o.trace) || o.trace == "-" {
		return nil, 0, nil, arrivals.ErrNotCounts
	}
	f, err := os.Open(o.trace)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	zero, bin, counts, err := arrivals.ReadCounts(bufio.NewReader(f), o.trace)
	if err != nil {
		if errors.Is(err, gzip.ErrHeader) { // the trace reader names the fault
			err = arrivals.ErrNotCounts
		}
		return nil, 0, nil, err
	}
	w, err := workload.New(o.trace, zero, nil)
	return w, bin, counts, err
}
