package waste

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload/trace"
)

const (
	followEvery = 500 * time.Millisecond // between looks at the end of a file
	// followPatience is how long records of one input wait for those of another that has been silent for less.
	followPatience = time.Second
	longestEvent   = 64 << 20 // bytes of a line: a snapshot has every job
)

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
	fl.StringArrayVar(&o.telemetry, "telemetry", nil,
		"file of samples of GPUs, of queues or of times of iterations; repeat the flag for several")
	o.guardrailFlag(fl)
	cli.ClusterFlags(cmd, &o.cluster)
	fl.StringVar(&o.described, "cluster", "",
		"JSON file of nodes and virtual clusters, instead of --nodes and --gpus-per-node")
	fl.StringVar(&o.rules, "rules", "", "YAML file of rules, instead of the built-in ones")
	fl.StringSliceVar(&o.only, "rule", nil, "apply these rules only")
	fl.DurationVar(&o.period, "period", 15*time.Second, "time between two samples of a GPU")
	fl.Float64Var(&o.price, "price", 0, "price of a GPU-hour, in any currency")
	fl.Float64Var(&o.least, "min-confidence", 0, "leave out findings with less confidence, 0 to 1")
	fl.BoolVar(&o.json, "json", false, "print a JSON object per line, for programs")
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
	m := newMerger(ctx)
	if o.events != "" {
		m.add(o.events, func(end *ends, send func(dated) error) error { return o.readEvents(ctx, notes, s, end, send) })
	}
	for _, path := range o.telemetry {
		m.add(path, func(end *ends, send func(dated) error) error {
			return o.readSamples(ctx, notes, s, path, end, send)
		})
	}
	if o.guardrails != "" {
		m.add(o.guardrails, func(end *ends, send func(dated) error) error {
			return o.readGuardrails(ctx, s, end, send)
		})
	}
	sent := 0
	failed := m.run(func(d dated) error {
		sent++
		return errors.Join(d.send(), err)
	})
	if ctx.Err() == nil && failed == nil { // all inputs have ended
		failed = errors.Join(s.Close(), err)
	}
	fmt.Fprintf(notes, "%d records, %d findings opened, %d closed\n", sent, counts["opened"], counts["closed"])
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

// readEvents sends the events of a file that grows.
func (o *patternsWatchOptions) readEvents(ctx context.Context, notes io.Writer, s *patterns.Scanner, end *ends,
	send func(dated) error) error {
	return o.follow(ctx, o.events, end, func(r io.Reader) error {
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
			if err := send(dated{e.Time, func() error { return s.Event(&e) }}); err != nil {
				return err
			}
		}
		if rejected > 3 {
			fmt.Fprintf(notes, "note: %s: %d lines were left out\n", o.events, rejected)
		}
		return lines.Err()
	})
}

// readSamples sends the samples of a file that grows.
func (o *patternsWatchOptions) readSamples(ctx context.Context, notes io.Writer, s *patterns.Scanner, path string,
	end *ends, send func(dated) error) error {
	return o.follow(ctx, path, end, func(r io.Reader) error {
		text := bufio.NewReader(r)
		head, err := beginning(text)
		if err != nil || len(head) == 0 {
			return err
		}
		format, err := telemetry.FormatOf(head)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		stats, err := telemetry.ReadAll(ctx, text, filepath.Base(path), telemetry.Options{Format: format},
			telemetry.Visit{
				GPU: func(g *telemetry.GPUSample) error {
					one := *g
					return send(dated{one.Time, func() error { return s.GPU(&one) }})
				},
				Queue: func(q *telemetry.QueueSample) error {
					one := *q
					return send(dated{one.Time, func() error { return s.Queue(&one) }})
				},
				Iteration: func(i *telemetry.Iteration) error {
					one := *i
					return send(dated{one.Time, func() error { return s.Iteration(&one) }})
				},
			})
		if stats != nil && stats.Rejected > 0 {
			fmt.Fprintf(notes, "note: %s: %d rows were left out, the first: %v\n", path, stats.Rejected, stats.First[0])
		}
		return err
	})
}

// readGuardrails sends the measurements of a file that grows.
func (o *patternsWatchOptions) readGuardrails(ctx context.Context, s *patterns.Scanner, end *ends,
	send func(dated) error) error {
	return o.follow(ctx, o.guardrails, end, func(r io.Reader) error {
		err := patterns.ReadGuardrails(r, func(g *patterns.Guardrail) error {
			return send(dated{g.Time, func() error { return s.Guardrail(g) }})
		})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("--guardrails: %s: %w", o.guardrails, err)
		}
		return nil
	})
}

// beginning is the first line of a text that is neither empty nor a comment, with those before.
func beginning(text *bufio.Reader) ([]byte, error) {
	for n := 1; ; n++ {
		if _, err := text.Peek(n); err != nil && err != io.EOF {
			return nil, err
		} else if err == io.EOF {
			return nil, nil // nothing was written
		}
		n = text.Buffered()
		head, err := text.Peek(n)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(head) {
			if line[0] != '#' && line[0] != '\n' && line[len(line)-1] == '\n' {
				return head, nil
			}
		}
		if n == text.Size() {
			return head, nil
		}
	}
}

// follow has a file read that grows, and again from the start when it has become shorter or another one has its place,
// until the context ends. "-" is standard input, which is read once.
func (o *patternsWatchOptions) follow(ctx context.Context, path string, end *ends,
	read func(io.Reader) error) error {
	if path == "-" {
		return read(o.in)
	}
	for {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		err = read(&growing{ctx: ctx, path: path, file: file, ends: end})
		if err = errors.Join(err, file.Close()); err != nil || ctx.Err() != nil {
			return err
		}
		for ; ctx.Err() == nil; pause(ctx, followEvery) { // the next one may not be there yet
			look := time.Now()
			if _, err := os.Stat(path); err == nil {
				break
			}
			end.reached(look)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// growing reads a file; at its end it waits for more. The text ends when the file has become shorter, another one
// has its place, or the context ends.
type growing struct {
	ctx  context.Context
	path string
	file *os.File
	read int64
	ends *ends
}

// ends is when a reader was at the end of its file, and when it found more after that.
type ends struct {
	looked, resumed atomic.Int64 // ns of the clock
	at              bool
}

// reached notes that the end was where a look at an instant found it.
func (e *ends) reached(at time.Time) {
	e.at = true
	e.looked.Store(at.UnixNano())
}

// found notes that there was more to read.
func (e *ends) found() {
	if e.at || e.resumed.Load() == 0 {
		e.at = false
		e.resumed.Store(time.Now().UnixNano())
	}
}

func (g *growing) Read(p []byte) (int, error) {
	for {
		look := time.Now()
		n, err := g.file.Read(p)
		if n > 0 {
			g.ends.found()
		}
		if g.read += int64(n); n > 0 || err != nil && err != io.EOF {
			return n, err
		}
		is, err := g.file.Stat()
		if err != nil {
			return 0, err
		}
		g.ends.reached(look)
		now, err := os.Stat(g.path)
		if err != nil || !os.SameFile(is, now) || is.Size() < g.read || g.ctx.Err() != nil {
			return 0, io.EOF
		}
		pause(g.ctx, followEvery)
	}
}

// merger puts the records of inputs that are read at the same time into the order of their times. Those of one input
// wait for another unless it is silent: nothing came for a while, and a file was at its end after the record was
// written, however slow the machine is.
type merger struct {
	ctx    context.Context
	wake   chan struct{}
	inputs []*merged
}

type merged struct {
	records chan dated
	failed  error // once records is closed
	ends    *ends // nil where it is no file
	head    []dated
	heard   time.Time
	ended   bool
}

func newMerger(ctx context.Context) *merger { return &merger{ctx: ctx, wake: make(chan struct{}, 1)} }

// add starts the reading of an input.
func (m *merger) add(path string, read func(end *ends, send func(dated) error) error) {
	x := &merged{records: make(chan dated, 1000), heard: time.Now()}
	end := &ends{}
	if path != "-" {
		x.ends = end
	}
	m.inputs = append(m.inputs, x)
	wake := func() {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	go func() {
		x.failed = read(end, func(d dated) error {
			select {
			case x.records <- d:
			case <-m.ctx.Done():
				return m.ctx.Err()
			}
			wake()
			return nil
		})
		close(x.records)
		wake()
	}()
}

// run hands all records over until the inputs have ended, one fails, or the context ends.
func (m *merger) run(each func(dated) error) error {
	for {
		var first *merged
		wait, ended, silent := false, true, int64(math.MaxInt64)
		for _, x := range m.inputs {
			if len(x.head) == 0 && !x.ended {
				select {
				case d, ok := <-x.records:
					if x.heard = time.Now(); ok {
						x.head = append(x.head, d)
					} else if x.ended = true; x.failed != nil {
						return x.failed
					}
				default:
					if wait = wait || time.Since(x.heard) < followPatience; x.ends != nil {
						silent = min(silent, x.ends.looked.Load())
					}
				}
			}
			ended = ended && x.ended && len(x.head) == 0
			if len(x.head) > 0 && (first == nil || x.head[0].at < first.head[0].at) {
				first = x
			}
		}
		switch {
		case m.ctx.Err() != nil:
			return m.ctx.Err()
		case ended:
			return nil
		case first != nil && !wait && (first.ends == nil || first.ends.resumed.Load() < silent):
			err := each(first.head[0])
			if first.head = first.head[:0]; err != nil {
				return err
			}
			continue
		}
		select {
		case <-m.wake:
		case <-m.ctx.Done():
		case <-time.After(followPatience / 10):
		}
	}
}
