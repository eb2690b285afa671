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
	cmd.WaitDelay = time.Second // for output held open by what the program leaves running
	return cmd
}

// Run runs a program with its arguments, the words after its name, and writes what it prints. At the timeout, or when
// the context ends, it is killed with all that it started. The error of a program that ran and failed wraps
// [exec.ExitError], unless it was killed so.
func Run(ctx context.Context, timeout time.Duration, words []string, out, errs io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %v", timeout))
	defer cancel()
	cmd := Command(ctx, words)
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it succeeded, and what it started has its output open
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
