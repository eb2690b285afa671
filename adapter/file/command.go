package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// maxOutput is how much of a command's output is kept, in bytes.
const maxOutput = 1 << 20

// exitError is a command that ran and failed.
type exitError struct{ error }

// run runs a command and returns its standard output; nothing if there is no command. At the timeout it is
// killed with all that it started.
func (d *Driver) run(ctx context.Context, command []string, path string) ([]byte, error) {
	if len(command) == 0 {
		return nil, nil
	}
	late := fmt.Errorf("not done within %v", d.o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, d.o.Timeout, late)
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
