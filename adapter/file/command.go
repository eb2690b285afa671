package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/program"
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

// run runs a command and returns its standard output; nothing if there is no command.
func (c commands) run(ctx context.Context, words []string, path string) ([]byte, error) {
	if len(words) == 0 {
		return nil, nil
	}
	words = slices.Clone(words)
	for i, word := range words[1:] {
		words[1+i] = strings.ReplaceAll(word, "{file}", path)
	}
	out, errs := program.Beginning{Max: maxOutput}, program.Beginning{Max: maxOutput}
	err := program.Run(ctx, c.o.Timeout, words, nil, &out, &errs)
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		said := strings.TrimSpace(errs.String() + " " + out.String())
		return nil, &exitError{fmt.Errorf("%w: %.500s", err, said)}
	} else if err != nil {
		return nil, err
	}
	return out.Bytes(), nil
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
