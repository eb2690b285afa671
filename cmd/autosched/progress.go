package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/autosched/autosched/workload/trace"
)

// progressLine rewrites one line of a terminal. Elsewhere it adds a line every ten
// seconds, so that a log shows progress.
type progressLine struct {
	w    io.Writer
	on   bool // a terminal
	last time.Time
	wide int
}

const (
	redraw  = 100 * time.Millisecond
	logLine = 10 * time.Second
)

func newProgressLine(w io.Writer) *progressLine {
	p := &progressLine{w: w, last: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			p.on = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return p
}

func (p *progressLine) show(format string, args ...any) {
	every := redraw
	if !p.on {
		every = logLine
	}
	if time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	line := fmt.Sprintf(format, args...)
	if !p.on {
		fmt.Fprintln(p.w, line)
		return
	}
	fmt.Fprintf(p.w, "\r%-*s", p.wide, line)
	p.wide = max(p.wide, len(line))
}

// reading shows how much of a trace is read, of which the rows stay in memory.
func (p *progressLine) reading(path string) func(trace.Progress) {
	return func(x trace.Progress) {
		limitHeap(x.Rows)
		if x.Total > 0 {
			p.show("reading %s: %d %%, %d rows", path, 100*x.Bytes/x.Total, x.Rows)
		} else {
			p.show("reading %s: %d rows", path, x.Rows)
		}
	}
}

func (p *progressLine) clear() {
	if p.on && p.wide > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.wide, "")
	}
}
