package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/client"
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
	env := slices.DeleteFunc(os.Environ(), foreign)
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
	return !strings.HasPrefix(v, "SLURM_CONF=") && slices.ContainsFunc([]string{"SACCT_", "SQUEUE_", "SLURM_", "SCONTROL_",
		"SINFO_"}, func(prefix string) bool { return strings.HasPrefix(v, prefix) })
}

// config reads scontrol show config.
func (c Commands) config(ctx context.Context) (*conf.Config, error) {
	text, err := c.Run(ctx, "scontrol", "show", "config")
	if err != nil {
		return nil, err
	}
	return conf.ReadShown("scontrol show config", []byte(text))
}

// tried are the versions of Slurm that the adapter was tried with.
var tried = []string{"22.05", "24.11"}

func triedWith(config *conf.Config) bool {
	version := config.Get("SLURM_VERSION")
	return slices.ContainsFunc(tried, func(v string) bool { return strings.HasPrefix(version, v) })
}

// controllers are the hosts of slurmctld that answered a ping, by their place, such as primary or backup.
type controllers map[string]string

var pinged = regexp.MustCompile(`Slurmctld\((\w+)\) at (\S*) is (UP|DOWN)`)

// ping asks every slurmctld; an error is a file that Slurm's programs cannot read.
func (c Commands) ping(ctx context.Context) (controllers, error) {
	text, err := c.Run(ctx, "scontrol", "ping")
	up := controllers{}
	places := pinged.FindAllStringSubmatch(text+fmt.Sprint(err), -1)
	for _, p := range places {
		if p[3] == "UP" {
			up[p[1]] = p[2]
		}
	}
	if len(places) > 0 { // scontrol fails where one is down
		err = nil
	}
	return up, err
}

// up reports whether the primary slurmctld answers; an error is a file that Slurm's programs cannot read.
func (c Commands) up(ctx context.Context) (bool, error) {
	at, err := c.ping(ctx)
	return at["primary"] != "", err
}

// without lists the hosts that answered before and do not now.
func (before controllers) without(now controllers) string {
	var gone []string
	for _, place := range slices.Sorted(maps.Keys(before)) {
		if now[place] == "" {
			gone = append(gone, fmt.Sprintf("%s (%s)", before[place], place))
		}
	}
	return strings.Join(gone, ", ")
}

// stage copies a configuration with its included files into a private folder, with another text of one file, and has
// Slurm's own parser read it. The error wraps [client.ErrRefused] if the file does not parse.
func (c Commands) stage(ctx context.Context, main, include string, text []byte) error {
	dir, err := os.MkdirTemp("", "autosched-stage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	site, err := conf.Read(main, os.ReadFile)
	if err != nil {
		return err
	}
	s := staging{dir, filepath.Dir(main), site.Get("ClusterName"), include, text, map[string]string{}}
	top, err := s.file(main)
	if err != nil {
		return err
	}
	if s.copied[include] == "" {
		return fmt.Errorf("%s does not include %s", main, include)
	}
	c.Conf = top
	_, err = c.Run(ctx, "scontrol", "ping")
	if err != nil && !strings.Contains(err.Error(), " is UP") && !strings.Contains(err.Error(), " is DOWN") {
		if errors.As(err, new(program.TimeoutError)) {
			return fmt.Errorf("stage: %w", err)
		}
		return fmt.Errorf("%w: Slurm does not read the file: %v", client.ErrRefused, err)
	}
	return nil
}

// staging copies the files of a cluster's configuration from the folder top to dir, one of them with another text.
type staging struct {
	dir, top, cluster, include string
	text                       []byte
	copied                     map[string]string
}

// file copies a file and returns the path of the copy.
func (s *staging) file(path string) (string, error) {
	path = conf.Real(path)
	if at := s.copied[path]; at != "" {
		return at, nil
	}
	at := filepath.Join(s.dir, fmt.Sprintf("%d.conf", len(s.copied)))
	s.copied[path] = at
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if path == s.include {
		text = s.text
	}
	var out strings.Builder
	for l := range strings.Lines(string(text)) {
		if of, is := conf.Included(l); is {
			if of = strings.ReplaceAll(of, "%c", s.cluster); !filepath.IsAbs(of) {
				of = filepath.Join(s.top, of)
			}
			to, err := s.file(of)
			if err != nil {
				return "", err
			}
			l = "include " + to + "\n"
		}
		out.WriteString(l)
	}
	return at, os.WriteFile(at, []byte(out.String()), 0o600)
}

// layout is an error if slurm.conf does not include the file, includes it in a form that nodes do not get, or if other
// files set keys that it owns.
func (t *Target) layout() error {
	c, err := conf.Read(t.Options.Conf, os.ReadFile)
	if err != nil {
		return err
	}
	if err := c.Includes(t.Include); err != nil {
		return err
	}
	mine := owned(t.Form.Tuned)
	var places []string
	for _, l := range c.Lines {
		if conf.Real(l.File) != t.Include && mine(l.Key) {
			places = append(places, l.String())
		}
	}
	if len(places) > 0 {
		return fmt.Errorf("settings that are tuned are set elsewhere, too, and nothing is changed: take these lines out: %s",
			strings.Join(places, ", "))
	}
	return nil
}
