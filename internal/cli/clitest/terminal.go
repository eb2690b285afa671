package clitest

import (
	"bytes"
	"context"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/autosched/autosched/internal/cli"
)

// Begin and end of bold text on a terminal.
const (
	bold  = "\x1b[1m"
	plain = "\x1b[0m"
)

// Verdict runs a command line on a terminal of 80 columns, and returns the text that is bold there. It fails unless the
// command succeeds, and for lines that are wider, but for command lines and lines with a name that is exempt.
func Verdict(t testing.TB, exempt string, args ...string) string {
	t.Helper()
	const columns = 80
	code, text := onTerminal(t, columns, args)
	if code != 0 {
		t.Fatalf("%s: exit %d: %s", strings.Join(args, " "), code, text)
	}
	_, rest, _ := strings.Cut(text, bold)
	verdict, _, _ := strings.Cut(rest, plain)
	for line := range strings.Lines(strings.NewReplacer(bold, "", plain, "").Replace(text)) {
		for part := range strings.SplitSeq(strings.TrimRight(line, "\r\n"), "\r") { // progress is drawn over itself
			words := strings.TrimSpace(part)
			whole := strings.HasPrefix(words, "--") || strings.HasPrefix(words, "autosched ") ||
				exempt != "" && strings.Contains(part, exempt)
			if n := utf8.RuneCountInString(part); n > columns && !whole {
				t.Errorf("%s: %d columns: %s", strings.Join(args, " "), n, part)
			}
		}
	}
	return strings.Join(strings.Fields(verdict), " ")
}

// onTerminal runs a command line with a terminal as its output, and returns what that shows.
func onTerminal(t testing.TB, columns uint16, args []string) (code int, text string) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine has no terminals to open: %v", err)
	}
	defer near.Close()
	if err := unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	far, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if err := unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: columns}); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&shown, near) // until far is closed, which is an error here
	}()
	code = cli.Run(context.Background(), NewRoot(), args, far, far)
	far.Close()
	<-done
	return code, shown.String()
}
