package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/autosched/autosched/workload/trace"
)

// ProgressLine rewrites one line of a terminal. Elsewhere it adds a line every ten
// seconds, so that a log shows progress.
type ProgressLine struct {
	Out        io.Writer
	OnTerminal bool // a terminal
	LastDrawn  time.Time
	wide       int
}

const (
	redraw  = 100 * time.Millisecond
	logLine = 10 * time.Second
)

// NewProgressLine returns a line on w, redrawn in place if w is a terminal.
func NewProgressLine(w io.Writer) *ProgressLine {
	p := &ProgressLine{Out: w, LastDrawn: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			p.OnTerminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return p
}

// Show replaces the line, unless it was just drawn.
func (p *ProgressLine) Show(format string, args ...any) {
	every := redraw
	if !p.OnTerminal {
		every = logLine
	}
	if time.Since(p.LastDrawn) < every {
		return
	}
	p.LastDrawn = time.Now()
	line := fmt.Sprintf(format, args...)
	if !p.OnTerminal {
		fmt.Fprintln(p.Out, line)
		return
	}
	fmt.Fprintf(p.Out, "\r%-*s", p.wide, line)
	p.wide = max(p.wide, len(line))
}

// Reading shows how much of a trace is read, of which the rows stay in memory.
func (p *ProgressLine) Reading(path string) func(trace.Progress) {
	return func(x trace.Progress) {
		limitHeap(x.Rows)
		if x.Total > 0 {
			p.Show("reading %s: %d %%, %d rows", path, 100*x.Bytes/x.Total, x.Rows)
		} else {
			p.Show("reading %s: %d rows", path, x.Rows)
		}
	}
}

// Clear removes the line.
func (p *ProgressLine) Clear() {
	if p.OnTerminal && p.wide > 0 {
		fmt.Fprintf(p.Out, "\r%*s\r", p.wide, "")
	}
}
