package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/program"
	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// maxIncludes bounds the files of a configuration, so that one that includes itself ends.
const maxIncludes = 100

// stage copies a configuration with its included files into a private folder, with another text of one file, and has
// Slurm's own parser read it. The error wraps [client.ErrRefused] if the file does not parse.
func (c Commands) stage(ctx context.Context, main, include string, text []byte) error {
	dir, err := os.MkdirTemp("", "autosched-stage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	copied := map[string]string{}
	top, err := stageFile(dir, main, include, text, copied)
	if err != nil {
		return err
	}
	if copied[include] == "" {
		return fmt.Errorf("%s does not include %s: add the line \"include %s\" at its end", main, include, include)
	}
	staged := c
	staged.Conf = top
	_, err = staged.Run(ctx, "scontrol", "ping")
	if err != nil && !strings.Contains(err.Error(), " is UP") && !strings.Contains(err.Error(), " is DOWN") {
		if errors.As(err, new(program.TimeoutError)) {
			return fmt.Errorf("stage: %w", err)
		}
		return fmt.Errorf("%w: Slurm does not read the file: %v", client.ErrRefused, err)
	}
	return nil
}

// stageFile copies a file and returns the path of the copy.
func stageFile(dir, path, include string, replaced []byte, copied map[string]string) (string, error) {
	if at := copied[path]; at != "" {
		return at, nil
	}
	if len(copied) == maxIncludes {
		return "", fmt.Errorf("%s: more than %d files are included", path, maxIncludes)
	}
	at := filepath.Join(dir, fmt.Sprintf("%d.conf", len(copied)))
	copied[path] = at
	text := replaced
	if path != include {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return "", err
		}
	}
	var out strings.Builder
	for l := range strings.Lines(string(text)) {
		if of := included(l, filepath.Dir(path)); of != "" {
			to, err := stageFile(dir, of, include, replaced, copied)
			if err != nil {
				return "", err
			}
			l = "include " + to + "\n"
		}
		out.WriteString(l)
	}
	return at, os.WriteFile(at, []byte(out.String()), 0o600)
}

// included is the file that a line includes; empty if none.
func included(l, dir string) string {
	path, is := conf.Included(l)
	if !is {
		return ""
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// elsewhere returns where files other than the include file set keys that it owns, as "file:line: key".
func elsewhere(path, include string, keys func(string) bool) ([]string, error) {
	c, err := conf.Read(path, os.ReadFile)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range c.Lines {
		if filepath.Clean(l.File) != filepath.Clean(include) && keys(l.Key) {
			out = append(out, l.String())
		}
	}
	return out, nil
}
