package feed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
)

const (
	// FollowEvery is the time between looks at the end of a file.
	FollowEvery = 500 * time.Millisecond
	// patience is how long records of one input wait for another input that has been silent for less.
	patience = time.Second
)

// Merger reads inputs that grow at the same time and puts their records into the order of their times. Those of one
// input wait for another unless it is silent: nothing came for a while, and a file was at its end after the record was
// written, however slow the machine is.
type Merger struct {
	ctx    context.Context
	stdin  io.Reader
	wake   chan struct{}
	inputs []*input
}

// input is a growing file or the standard input.
type input struct {
	records chan dated
	failed  error // once records is closed
	tail    *tail // nil of the standard input
	head    []dated
	heard   time.Time
	ended   bool
}

// Send passes a record on, with the time that orders it among the records of other inputs.
type Send func(at time.Duration, r patterns.Record) error

// NewMerger returns a merger without inputs. Following ends with the context; stdin is read where a path is "-".
func NewMerger(ctx context.Context, stdin io.Reader) *Merger {
	return &Merger{ctx: ctx, stdin: stdin, wake: make(chan struct{}, 1)}
}

// Follow starts the reading of an input in a goroutine, which ends with it or with the context: read is called with the
// text of the file, and again from the start when it has become shorter or another file has its place. Standard input
// is read once.
func (m *Merger) Follow(path string, read func(r io.Reader, send Send) error) {
	x := &input{records: make(chan dated, 1000), heard: time.Now()}
	wake := func() {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	send := func(at time.Duration, r patterns.Record) error {
		select {
		case x.records <- dated{at, r}:
		case <-m.ctx.Done():
			return m.ctx.Err()
		}
		wake()
		return nil
	}
	follow := func() error { return read(m.stdin, send) }
	if path != "-" {
		x.tail = &tail{}
		follow = func() error {
			return x.tail.follow(m.ctx, path, func(r io.Reader) error { return read(r, send) })
		}
	}
	m.inputs = append(m.inputs, x)
	go func() {
		x.failed = follow()
		close(x.records)
		wake()
	}()
}

// Run hands all records over until the inputs have ended, one fails, or the context ends.
func (m *Merger) Run(each func(patterns.Record) error) error {
	for {
		var first *input
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
					if wait = wait || time.Since(x.heard) < patience; x.tail != nil {
						silent = min(silent, x.tail.looked.Load())
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
		case first != nil && !wait && (first.tail == nil || first.tail.resumed.Load() < silent):
			err := each(first.head[0].record)
			if first.head = first.head[:0]; err != nil {
				return err
			}
			continue
		}
		select {
		case <-m.wake:
		case <-m.ctx.Done():
		case <-time.After(patience / 10):
		}
	}
}

// Telemetry returns the reader of a growing file of telemetry for Merger.Follow. rejected receives the statistics of a
// text with rejected rows.
func Telemetry(ctx context.Context, path string, rejected func(*telemetry.Stats)) func(io.Reader, Send) error {
	return func(r io.Reader, send Send) error {
		text := bufio.NewReader(r)
		head, err := beginning(text)
		if err != nil || len(head) == 0 {
			return err
		}
		format, err := telemetry.FormatOf(head)
		if err != nil {
			return err
		}
		stats, err := telemetry.ReadAll(ctx, text, filepath.Base(path), telemetry.Options{Format: format},
			visitor(send))
		if stats != nil && stats.Rejected > 0 {
			rejected(stats)
		}
		return err
	}
}

// beginning returns a text up to its first line that is neither empty nor a comment.
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

// tail is the end of a growing file: when its reader was there, and when it found more after that.
type tail struct {
	looked, resumed atomic.Int64 // ns of the clock
	at              bool
}

// reached notes that the end was where a look at an instant found it.
func (t *tail) reached(at time.Time) {
	t.at = true
	t.looked.Store(at.UnixNano())
}

// found notes that there was more to read.
func (t *tail) found() {
	if t.at || t.resumed.Load() == 0 {
		t.at = false
		t.resumed.Store(time.Now().UnixNano())
	}
}

// follow reads a file until the context ends, and again from the start when it has become shorter or another one has
// its place.
func (t *tail) follow(ctx context.Context, path string, read func(io.Reader) error) error {
	for {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		err = read(&growing{ctx: ctx, path: path, file: file, tail: t})
		if err = errors.Join(err, file.Close()); err != nil || ctx.Err() != nil {
			return err
		}
		for ; ctx.Err() == nil; pause(ctx, FollowEvery) { // the next one may not be there yet
			look := time.Now()
			if _, err := os.Stat(path); err == nil {
				break
			}
			t.reached(look)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// growing reads a file; at its end it waits for more. The text ends when the file has become shorter or the context
// ends, and at the end of a file whose place another one has.
type growing struct {
	ctx  context.Context
	path string
	file interface {
		io.Reader
		Stat() (os.FileInfo, error)
	}
	read     int64
	tail     *tail
	replaced bool
}

func (g *growing) Read(p []byte) (int, error) {
	for {
		look := time.Now()
		n, err := g.file.Read(p)
		if n > 0 {
			g.tail.found()
		}
		if g.read += int64(n); n > 0 || err != nil && err != io.EOF {
			return n, err
		}
		if g.replaced {
			return 0, io.EOF
		}
		is, err := g.file.Stat()
		if err != nil {
			return 0, err
		}
		g.tail.reached(look)
		now, err := os.Stat(g.path)
		switch {
		case is.Size() < g.read || g.ctx.Err() != nil:
			return 0, io.EOF
		case err != nil || !os.SameFile(is, now):
			g.replaced = true // it may have grown after the look at its end
		default:
			pause(g.ctx, FollowEvery)
		}
	}
}
