package testshared

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Tally counts the repetitions of a test up to a goal. With AUTOSCHED_TALLY, the path of a file, it goes on where
// former runs ended: each has lines of a test's name, repetitions and "wrong" if the test had failed by then.
type Tally struct {
	t          testing.TB
	path       string // empty for none
	goal       int
	done, here int
}

// NewTally returns a tally with the goal in a variable of the environment, or the one given.
func NewTally(t testing.TB, variable string, goal int) *Tally {
	t.Helper()
	c := &Tally{t: t, path: os.Getenv("AUTOSCHED_TALLY"), goal: goal}
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		c.goal = n
	}
	if c.path == "" {
		return c
	}
	text, err := os.ReadFile(c.path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == t.Name() {
			n, _ := strconv.Atoi(f[1])
			c.done += n
		}
	}
	t.Logf("%d of %d in former runs", c.done, c.goal)
	return c
}

// Left is the number of repetitions to the goal, 0 after a failure.
func (c *Tally) Left() int {
	if c.t.Failed() {
		return 0
	}
	return max(0, c.goal-c.done)
}

// Done is the number of repetitions of all runs.
func (c *Tally) Done() int { return c.done }

// Here is the number of repetitions of this run.
func (c *Tally) Here() int { return c.here }

// Add counts repetitions.
func (c *Tally) Add(n int) {
	c.t.Helper()
	c.done += n
	c.here += n
	if c.path == "" {
		return
	}
	wrong := ""
	if c.t.Failed() {
		wrong = " wrong"
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o750); err != nil {
		c.t.Fatal(err)
	}
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %d%s\n", c.t.Name(), n, wrong)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		c.t.Error(err)
	}
}
