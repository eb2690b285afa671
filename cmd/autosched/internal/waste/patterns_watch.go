package waste

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/patterns/feed"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload/trace"
)

// longestEvent bounds a line, in bytes: a snapshot has every job.
const longestEvent = 64 << 20

// patternsWatchOptions are the flags of patterns watch.
type patternsWatchOptions struct {
	patternsScanOptions
	events string
	in     io.Reader // standard input
}

func newPatternsWatchCmd() *cobra.Command {
	o := &patternsWatchOptions{}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Report findings as they open and close, from files that grow",
		Long: `Applies rules to events and telemetry as they are written, and prints a line when a finding
opens and when it closes, until it is interrupted. It begins with what the files have, and
follows them: also when they are truncated, or another file takes their place.

Events are those of the service's API, one in JSON to a line; telemetry is one of the
project's CSV formats, as 'autosched telemetry collect --out' writes it. "-" is standard
input. Time is that of the records: while none comes, nothing closes. 'autosched scheduler findings' does the
same in the service, which keeps what it finds.`,
		Example: `  autosched patterns watch --telemetry gpus.csv
  autosched patterns watch --events events.jsonl --telemetry gpus.csv --nodes 40 --gpus-per-node 8 --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.in = cmd.InOrStdin()
			return o.watch(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.given = cmd.Flags().Changed
	fl := cmd.Flags()
	fl.StringVar(&o.events, "events", "", "file of events, - for standard input")
	fl.StringArrayVar(&o.telemetry, "telemetry", nil, "")
	o.guardrailFlag(fl)
	cli.ClusterFlags(cmd, &o.cluster)
	fl.StringVar(&o.described, "cluster", "", "")
	fl.StringVar(&o.rules, "rules", "", "")
	fl.StringSliceVar(&o.only, "rule", nil, "")
	fl.DurationVar(&o.period, "period", 15*time.Second, "")
	fl.Float64Var(&o.price, "price", 0, "price of a GPU-hour, in any currency")
	fl.Float64Var(&o.least, "min-confidence", 0, "leave out findings with less confidence, 0 to 1")
	fl.BoolVar(&o.json, "json", false, "")
	return cmd
}

// check checks the flags.
func (o *patternsWatchOptions) check() error {
	inputs := slices.Clone(o.telemetry)
	for _, path := range []string{o.events, o.guardrails} {
		if path != "" {
			inputs = append(inputs, path)
		}
	}
	slices.Sort(inputs)
	switch {
	case len(inputs) == 0:
		return cli.Usage(errors.New("--events, --telemetry, --guardrails: name one at least"))
	case len(slices.Compact(slices.Clone(inputs))) < len(inputs):
		return cli.Usage(errors.New("--events, --telemetry, --guardrails: each input can be named once"))
	case o.period <= 0 || o.period > time.Hour:
		return cli.Usage(fmt.Errorf("--period: %v is not from 1ns to 1h", o.period))
	}
	o.trace, o.top = o.events, 1
	return o.patternsScanOptions.check()
}

// watchedFinding is a line of patterns watch.
type watchedFinding struct {
	Schema string `json:"schema"`
	Event  string `json:"event"` // opened or closed
	*patterns.Finding
}

func (o *patternsWatchOptions) watch(ctx context.Context, out, notes io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	x := patterns.Options{Price: o.price, Period: o.period, Zero: time.Unix(0, 0).UTC()}
	var err error
	if x.Rules, err = cli.ReadRules("--rules", o.rules, o.only); err != nil {
		return err
	}
	if err = o.describe(); err != nil {
		return err
	}
	if o.described != "" || o.given("nodes") {
		x.Cluster = o.cluster
	}
	counts := map[string]int{}
	tell := func(event string, f *patterns.Finding) {
		counts[event]++
		if line := (watchedFinding{"autosched.patterns-watch/v1", event, f}); o.json {
			err = errors.Join(err, json.NewEncoder(out).Encode(line))
		} else {
			_, e := fmt.Fprintln(out, line.text())
			err = errors.Join(err, e)
		}
	}
	open := map[string]bool{}
	x.OnFinding = func(f *patterns.Finding) {
		if f.Confidence < o.least {
			return
		}
		key := f.Rule + "\x00" + f.Entity.String()
		if !open[key] {
			open[key] = true
			tell("opened", f)
		}
		if !f.Open {
			delete(open, key)
			tell("closed", f)
		}
	}
	s, e := patterns.New(x)
	if e != nil {
		return e
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := feed.NewMerger(ctx, o.in)
	if o.events != "" {
		m.Follow(o.events, o.readEvents(ctx, notes))
	}
	for _, path := range o.telemetry {
		m.Follow(path, o.readSamples(ctx, notes, path))
	}
	if o.guardrails != "" {
		m.Follow(o.guardrails, o.readGuardrails(ctx))
	}
	f := feed.New(s, patterns.Lateness(o.period))
	sent := 0
	failed := m.Run(func(r patterns.Record) error {
		sent++
		late := f.Late()
		failed := errors.Join(f.Put(r), err)
		if late == 0 && f.Late() > 0 {
			fmt.Fprintf(notes, "note: records that are more than %v late are left out; record %d is the first\n",
				patterns.Lateness(o.period), sent)
		}
		return failed
	})
	if ctx.Err() == nil && failed == nil { // all inputs have ended
		failed = errors.Join(f.Close(), err)
	}
	fmt.Fprintf(notes, "%d records, %d of them too late, %d findings opened, %d closed\n", sent, f.Late(),
		counts["opened"], counts["closed"])
	if errors.Is(failed, context.Canceled) {
		return nil
	}
	return failed
}

// text is the finding in a line.
func (f *watchedFinding) text() string {
	at := f.Opened
	if f.Event == "closed" {
		at = f.Closed
	}
	return fmt.Sprintf("%s %s %s %s, %.1f GPU-hours, confidence %.2f: %s", at.Format(time.RFC3339), f.Event, f.Rule,
		f.Entity, f.WastedGPUHours, f.Confidence, f.Words)
}

// readEvents reads events as they are written.
func (o *patternsWatchOptions) readEvents(ctx context.Context, notes io.Writer) func(io.Reader, feed.Send) error {
	return func(r io.Reader, send feed.Send) error {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, longestEvent)
		rejected := 0
		for n := 1; lines.Scan(); n++ {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 || line[0] == '#' {
				continue
			}
			e, err := trace.ParseEvent(line)
			if err != nil {
				if rejected++; rejected <= 3 && ctx.Err() == nil {
					fmt.Fprintf(notes, "note: %s: line %d is left out: %v\n", o.events, n, err)
				}
				continue
			}
			if err := send(e.Time, patterns.Record{Event: &e}); err != nil {
				return err
			}
		}
		if rejected > 3 {
			fmt.Fprintf(notes, "note: %s: %d lines were left out\n", o.events, rejected)
		}
		return lines.Err()
	}
}

// readSamples reads samples as they are written.
func (o *patternsWatchOptions) readSamples(ctx context.Context, notes io.Writer, path string) func(io.Reader,
	feed.Send) error {
	read := feed.Telemetry(ctx, path, func(stats *telemetry.Stats) {
		fmt.Fprintf(notes, "note: %s: %d rows were left out, the first: %v\n", path, stats.Rejected, stats.First[0])
	})
	return func(r io.Reader, send feed.Send) error {
		if err := read(r, send); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
}

// readGuardrails reads measurements as they are written.
func (o *patternsWatchOptions) readGuardrails(ctx context.Context) func(io.Reader, feed.Send) error {
	return func(r io.Reader, send feed.Send) error {
		err := patterns.ReadGuardrails(r, func(g *patterns.Guardrail) error {
			return send(g.Time, patterns.Record{Guardrail: g})
		})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("--guardrails: %s: %w", o.guardrails, err)
		}
		return nil
	}
}
