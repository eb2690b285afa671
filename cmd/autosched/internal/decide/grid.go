package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
)

// gridProgress shows the progress of a grid of results, of which the finished ones are
// kept in a folder, if one is named.
type gridProgress struct {
	line   *cli.ProgressLine
	notes  io.Writer
	out    string
	short  string // flags that make the run shorter
	stop   string // the effect of Ctrl-C
	began  time.Time
	last   cells.Progress
	warned bool // of a long run
}

func newGridProgress(notes io.Writer, out, short string) *gridProgress {
	stop := "with --out DIR, Ctrl-C would keep what is finished"
	if out != "" {
		stop = "Ctrl-C keeps what is finished"
	}
	return &gridProgress{line: cli.NewProgressLine(notes), notes: notes, out: out, short: short, stop: stop,
		began: time.Now()}
}

func addJobs(cmd *cobra.Command, jobs *int) {
	cmd.Flags().IntVar(jobs, "parallel", 0, "")
}

// longRun is the time left from which an estimate is noted. It is waited for no longer than
// soon, even if not every kind of result was timed by then.
const (
	longRun = time.Minute
	soon    = 10 * time.Second
)

// slow is the time from which on the note names the short way.
const slow = 5 * time.Minute

func (g *gridProgress) note(left time.Duration, results int) {
	g.warned = true
	g.line.Clear()
	fmt.Fprintf(g.notes, "note: about %s for %d more results; %s\n", units.Duration(left.Seconds()), results, g.stop)
	if left >= slow {
		fmt.Fprintln(g.notes, "note: faster: "+g.short)
	}
}

// show shows a text about the cell of the progress, and how far the grid is.
func (g *gridProgress) show(text string, p cells.Progress) {
	g.last = p
	if p.Left >= longRun && !g.warned && (p.Known || time.Since(g.began) >= soon) {
		g.note(p.Left, p.Of-p.Done)
	}
	if p.Left >= time.Second {
		g.line.Show("%s; %d of %d finished, about %s left", text, p.Done, p.Of,
			units.Duration(p.Left.Seconds()))
	} else {
		g.line.Show("%s; %d of %d finished", text, p.Done, p.Of)
	}
}

// end clears the line. After an error it notes the results kept.
func (g *gridProgress) end(err error) {
	g.line.Clear()
	if err == nil || g.last.Done == 0 {
		return
	}
	if g.out == "" {
		fmt.Fprintf(g.notes, "note: %d of %d results were finished and are lost; --out DIR keeps them\n", g.last.Done,
			g.last.Of)
		return
	}
	fmt.Fprintf(g.notes, "note: %s has %d of %d results; the same command continues\n", g.path(), g.last.Done,
		g.last.Of)
}

func (g *gridProgress) path() string { return filepath.Join(g.out, "cells.jsonl") }

// keep keeps finished results in the folder.
func (g *gridProgress) keep() replay.Keep {
	if g.out == "" {
		return replay.Keep{}
	}
	note := func(text string) { fmt.Fprintln(g.notes, "note: "+text) }
	return replay.Keep{Path: g.path(), Build: program(), Note: note}
}

// program identifies the program by its executable file, or by its build information
// where the file cannot be read.
func program() string {
	path, err := os.Executable()
	if err == nil {
		var text []byte
		if text, err = os.ReadFile(path); err == nil {
			sum := sha256.Sum256(text)
			return hex.EncodeToString(sum[:12])
		}
	}
	return fmt.Sprintf("%+v", cli.Built())
}
