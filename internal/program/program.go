// Package program runs programs that are given as words, without a shell.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Command is a program with its arguments, the words after its name. When the context ends it is killed with all that
// it started.
func Command(ctx context.Context, words []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for output held open by the program's children
	return cmd
}

// TimeoutError is about a program that was killed at its timeout.
type TimeoutError struct{ After time.Duration }

func (e TimeoutError) Error() string { return fmt.Sprintf("not done within %v", e.After) }

// Beginning keeps the first bytes, at most Max, written to it.
type Beginning struct {
	Max  int
	text []byte
}

func (b *Beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), b.Max-len(b.text))]...)
	return len(p), nil
}

// Full reports whether there may have been more.
func (b *Beginning) Full() bool { return len(b.text) == b.Max }

// Bytes returns the kept bytes.
func (b *Beginning) Bytes() []byte { return b.text }

func (b *Beginning) String() string { return string(b.text) }

// Run runs a program with its arguments, the words after its name, in an environment, this program's if nil, and writes
// its output. At the timeout, or when the context ends, it is killed with all that it started: a [TimeoutError], or
// the context's. The error of a program that ran and failed wraps [exec.ExitError], unless it was killed so.
func Run(ctx context.Context, timeout time.Duration, words, env []string, out, errs io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, TimeoutError{timeout})
	defer cancel()
	cmd := Command(ctx, words)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, out, errs
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it succeeded, and a child has its output open
		err = nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	return nil
}
