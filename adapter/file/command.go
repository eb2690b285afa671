package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/autosched/autosched/client"
)

// maxOutput is how much of a command's output is kept, in bytes.
const maxOutput = 1 << 20

// exitError is a command that ran and failed.
type exitError struct{ error }

// commands is a Target that is reached by the commands of Options.
type commands struct{ o *Options }

// Check implements [Target].
func (c commands) Check(ctx context.Context, path string) error {
	_, err := c.run(ctx, c.o.Check, path)
	return refusedBy("check", err)
}

// Reload implements [Target].
func (c commands) Reload(ctx context.Context, path string) error {
	_, err := c.run(ctx, c.o.Reload, path)
	return refusedBy("reload", err)
}

// Restore implements [Target].
func (c commands) Restore(ctx context.Context, path string) error { return c.Reload(ctx, path) }

// ReadBack implements [Target].
func (c commands) ReadBack(ctx context.Context, path string) ([]byte, error) {
	if len(c.o.ReadBack) == 0 {
		return os.ReadFile(path)
	}
	return c.run(ctx, c.o.ReadBack, path)
}

// run runs a command and returns its standard output; nothing if there is no command. At the timeout it is
// killed with all that it started.
func (c commands) run(ctx context.Context, command []string, path string) ([]byte, error) {
	if len(command) == 0 {
		return nil, nil
	}
	late := fmt.Errorf("not done within %v", c.o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout, late)
	defer cancel()
	args := make([]string, len(command)-1)
	for i, arg := range command[1:] {
		args[i] = strings.ReplaceAll(arg, "{file}", path)
	}
	var out, errs bounded
	cmd := exec.CommandContext(ctx, command[0], args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for output held open by what the command leaves running
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it succeeded, and what it started has its output open
		err = nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", command[0], context.Cause(ctx))
	}
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		said := strings.TrimSpace(errs.String() + " " + out.String())
		return nil, &exitError{fmt.Errorf("%s: %w: %.500s", command[0], err, said)}
	}
	return out.Bytes(), err
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxOutput-b.Len())])
	return len(p), nil
}

// refusedBy marks the failure of a command as a refusal of the values, unless it did not run to its end.
func refusedBy(step string, err error) error {
	if err == nil {
		return nil
	}
	if failed := (*exitError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%w: %s: %w", client.ErrRefused, step, err)
	}
	return fmt.Errorf("%s: %w", step, err)
}
