package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/autosched/autosched/client"
)

// maxIncludes bounds the files of a configuration, so that one that includes itself ends.
const maxIncludes = 100

// stage copies a configuration with what it includes into a private folder, with another text of one file, and has
// Slurm's own parser read it. The error wraps [client.ErrRefused] if the file does not parse.
func (c Commands) stage(ctx context.Context, conf, include string, text []byte) error {
	dir, err := os.MkdirTemp("", "autosched-stage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	copied := map[string]string{}
	top, err := stageFile(dir, conf, include, text, copied)
	if err != nil {
		return err
	}
	if copied[include] == "" {
		return fmt.Errorf("%s does not include %s: add the line \"include %s\" at its end", conf, include, include)
	}
	staged := c
	staged.Conf = top
	_, err = staged.Run(ctx, "scontrol", "ping")
	if err != nil && !strings.Contains(err.Error(), " is UP") && !strings.Contains(err.Error(), " is DOWN") {
		if errors.Is(err, errTimeout) {
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
	fields := strings.Fields(l)
	if len(fields) < 2 || !strings.EqualFold(fields[0], "include") {
		return ""
	}
	if filepath.IsAbs(fields[1]) {
		return filepath.Clean(fields[1])
	}
	return filepath.Join(dir, fields[1])
}

// elsewhere returns where files other than the include file set keys that it owns, as "file:line: key".
func elsewhere(conf, include string, keys func(string) bool) ([]string, error) {
	var out []string
	seen := map[string]bool{include: true}
	var walk func(path string) error
	walk = func(path string) error {
		if seen[path] || len(seen) > maxIncludes {
			return nil
		}
		seen[path] = true
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n := 0
		for l := range strings.Lines(string(text)) {
			n++
			if of := included(l, filepath.Dir(path)); of != "" {
				if err := walk(of); err != nil {
					return err
				}
			}
			if key, _, ok := strings.Cut(strings.TrimSpace(l), "="); ok && keys(strings.TrimSpace(key)) {
				out = append(out, fmt.Sprintf("%s:%d: %s", path, n, key))
			}
		}
		return nil
	}
	return out, walk(conf)
}
