package clitest

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// LockedBuffer may be written and read at once.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *LockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *LockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Eventually waits for a text to match and returns its first group.
func Eventually(t *testing.T, text func() string, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if m := re.FindStringSubmatch(text()); m != nil {
			return m[len(m)-1]
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in\n%s", pattern, text())
		}
	}
}

// ClientOf runs command lines against the service at an address, which may change, and returns their output.
func ClientOf(t *testing.T, address *string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := RunClient(t.Context(), NewRoot(), "", &out, append(args, "--server", *address)...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out.String()
	}
}

// StartServe runs "autosched serve" on a free port and returns its address.
func StartServe(t *testing.T, dir string, flags ...string) (address string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var log LockedBuffer
	cmd := Cmd("serve")
	cmd.SetArgs(append([]string{"--dir", dir, "--listen", "127.0.0.1:0", "--workers", "1"}, flags...))
	cmd.SetErr(&log)
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("serve: %v", err)
			}
			if !strings.Contains(log.String(), "msg=stopped") {
				t.Errorf("log:\n%s", log.String())
			}
		})
	}
	t.Cleanup(stop)
	return Eventually(t, log.String, `msg=serving address=(\S+)`), stop
}

// RunClient runs a client command against a service.
func RunClient(ctx context.Context, cmd *cobra.Command, stdin string, stdout io.Writer, args ...string) error {
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(stdout)
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(ctx)
}
