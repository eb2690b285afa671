package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// maxOutput bounds the output of a command, in bytes: the jobs of a large site.
const maxOutput = 1 << 28

// Run returns the output of a program. Times are in seconds since 1970.
func (c Commands) Run(ctx context.Context, name string, args ...string) (string, error) {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "S") && foreign(v) })
	env = append(env, "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0", "LC_ALL=C")
	if c.Conf != "" {
		env = append(env, "SLURM_CONF="+c.Conf)
	}
	out, errs := program.Beginning{Max: maxOutput}, program.Beginning{Max: maxOutput}
	words := append([]string{name}, args...)
	err := program.Run(ctx, cmp.Or(c.Timeout, time.Minute), words, env, &out, &errs)
	if err == nil && !out.Full() {
		return out.String(), nil
	}
	if err == nil {
		err = errors.New("prints too much")
	} else if err = errors.Unwrap(err); errors.As(err, new(*exec.ExitError)) { // without the name
		err = fmt.Errorf("%w: %.500s", err, strings.TrimSpace(errs.String()+" "+out.String()))
	}
	return "", fmt.Errorf("%s: %w", strings.Join(words[:min(3, len(words))], " "), err)
}

// foreign reports whether a variable changes the output of Slurm's programs.
func foreign(v string) bool {
	for _, prefix := range []string{"SACCT_", "SQUEUE_", "SLURM_", "SCONTROL_", "SINFO_"} {
		if strings.HasPrefix(v, prefix) && (prefix != "SLURM_" || !strings.HasPrefix(v, "SLURM_CONF=")) {
			return true
		}
	}
	return false
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
