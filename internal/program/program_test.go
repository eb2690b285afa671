package program

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestRun: words arrive as they are, output is written, and an error says why.
func TestRun(t *testing.T) {
	for _, x := range []struct {
		words        string // separated by |
		timeout      time.Duration
		out, err     string
		ranAndFailed bool
	}{
		{words: `printf|<%s>|a b|$HOME;ls|*`, out: "<a b><$HOME;ls><*>"},
		{words: `sh|-c|echo seen; exit 3`, out: "seen\n", err: "sh: exit status 3", ranAndFailed: true},
		{words: `sleep|60`, timeout: 10 * time.Millisecond, err: "sleep: not done within 10ms"},
		{words: `sh|-c|sleep 60 & wait`, timeout: 10 * time.Millisecond, err: "sh: not done within 10ms"},
		{words: `no-such-program`, err: "no-such-program: "},
	} {
		if x.timeout == 0 {
			x.timeout = time.Minute
		}
		var out, errs bytes.Buffer
		err := Run(t.Context(), x.timeout, strings.Split(x.words, "|"), nil, &out, &errs)
		if out.String() != x.out || (err == nil) != (x.err == "") ||
			err != nil && !strings.HasPrefix(err.Error(), x.err) {
			t.Errorf("%s: %q, %v", x.words, &out, err)
		}
		if got := errors.As(err, new(*exec.ExitError)); got != x.ranAndFailed {
			t.Errorf("%s: ran and failed is %v", x.words, got)
		}
	}
	short := Beginning{Max: 4}
	if err := Run(t.Context(), time.Minute, []string{"sh", "-c", "echo $A; echo $A"}, []string{"A=abc"}, &short,
		nil); err != nil || short.String() != "abc\n" {
		t.Errorf("%q %v", short.String(), err)
	}
	if err := Run(t.Context(), time.Millisecond, []string{"sleep", "60"}, nil, nil, nil); !errors.As(err,
		new(TimeoutError)) {
		t.Errorf("at the timeout: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, time.Minute, []string{"sleep", "60"}, nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
}
