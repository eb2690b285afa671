package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/program"
	"github.com/autosched/autosched/schedulers/slurm/conf"
)

// Commands runs Slurm's own programs.
type Commands struct {
	// Conf is the path of slurm.conf; Slurm's own choice if empty.
	Conf string
	// Timeout bounds each; a minute if 0.
	Timeout time.Duration
}

// maxOutput bounds what a command prints, in bytes: the jobs of a large site.
const maxOutput = 1 << 28

// errTimeout is wrapped by errors of commands that did not end in time.
var errTimeout = errors.New("not done in time")

// Run returns what a program prints. Times are in seconds since 1970.
func (c Commands) Run(ctx context.Context, name string, args ...string) (string, error) {
	words := append([]string{name}, args...)
	limit := c.Timeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: within %v", errTimeout, limit))
	defer cancel()
	cmd := program.Command(ctx, words)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "S") && foreign(v) })
	cmd.Env = append(cmd.Env, "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0", "LC_ALL=C")
	if c.Conf != "" {
		cmd.Env = append(cmd.Env, "SLURM_CONF="+c.Conf)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{&out}, &limited{&errs}
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
		err = fmt.Errorf("%w: %.500s", err, strings.TrimSpace(errs.String()+" "+out.String()))
	case out.Len() >= maxOutput:
		err = errors.New("prints too much")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(words[:min(3, len(words))], " "), err)
	}
	return out.String(), nil
}

// foreign reports whether a variable changes what Slurm's programs print.
func foreign(v string) bool {
	for _, prefix := range []string{"SACCT_", "SQUEUE_", "SLURM_", "SCONTROL_", "SINFO_"} {
		if strings.HasPrefix(v, prefix) && (prefix != "SLURM_" || !strings.HasPrefix(v, "SLURM_CONF=")) {
			return true
		}
	}
	return false
}

// limited keeps the beginning of what is written to it.
type limited struct{ *bytes.Buffer }

func (b *limited) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), maxOutput-b.Len())])
	return len(p), nil
}

// config reads scontrol show config.
func (c Commands) config(ctx context.Context) (*conf.Config, error) {
	text, err := c.Run(ctx, "scontrol", "show", "config")
	if err != nil {
		return nil, err
	}
	return conf.ReadShown("scontrol show config", []byte(text))
}

// up reports whether slurmctld answers; an error is a file that Slurm's programs cannot read.
func (c Commands) up(ctx context.Context) (bool, error) {
	text, err := c.Run(ctx, "scontrol", "ping")
	if strings.Contains(text+fmt.Sprint(err), " is UP") {
		return true, nil
	}
	if strings.Contains(fmt.Sprint(err), "DOWN") {
		err = nil
	}
	return false, err
}
