package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/program"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// Target is the slurmctld whose included file is written. It implements the file adapter's Target.
type Target struct {
	Commands
	// Conf is slurm.conf, Include the file that it includes last.
	Conf, Include string
	Form          *conf.Form
	// Log is slurmctld's log; it is not read if empty.
	Log string
	// Restart starts slurmctld where it ended over a file that is taken back; nothing does if empty.
	Restart []string
	// Reconfigure is the command that has slurmctld read its files; scontrol reconfigure if empty.
	Reconfigure []string
	// ReconfigureTimeout bounds it; a minute if 0.
	ReconfigureTimeout time.Duration
	// Down is how long a slurmctld that ended may take to come back; 30 s if 0.
	Down time.Duration
	// Fatal is where the digests of files over which slurmctld ended are kept.
	Fatal string
	// AllowQOS is whose priorities of QOS may be set, OwnQOS or SharedQOS; none if empty.
	AllowQOS string
	// unchecked leaves out the adapter's own check and the stage: for tests of the steps behind them.
	unchecked bool
}

const (
	pause = time.Second // between looks at slurmctld
	// beyondWake is how long after a wake of its backfill thread slurmctld has ended if it does over a setting.
	beyondWake = 4 * time.Second
)

// Check implements the file adapter's Target: it checks a file without touching slurmctld.
func (t *Target) Check(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	up, err := t.up(ctx)
	if !up {
		return errors.Join(errors.New("slurmctld does not answer: nothing is changed"), err)
	}
	if fatal, err := t.wasFatal(text); err != nil || fatal {
		return errors.Join(fmt.Errorf("%w: slurmctld ended over this file before", client.ErrRefused), err)
	}
	if t.unchecked {
		return nil
	}
	places, err := elsewhere(t.Conf, t.Include, owned(t.Form.Tuned))
	if err != nil {
		return err
	}
	if len(places) > 0 {
		return fmt.Errorf("settings that are tuned are set elsewhere, too, and nothing is changed: %s",
			strings.Join(places, ", "))
	}
	d, err1 := t.diagnostics(ctx)
	config, err2 := t.config(ctx)
	if err1 == nil && err2 == nil && d.backfill > wake(config)/2 {
		return fmt.Errorf("a backfill cycle takes %v of an interval of %v: nothing is changed", d.backfill,
			wake(config))
	}
	if err := t.mayReconfigure(ctx); err != nil {
		return err
	}
	if err := t.drifted(ctx, text); err != nil {
		return err
	}
	return t.examine(ctx, text)
}

// examine checks names and ranges, that Slurm's parser reads the file, and its conditions on slurmctld.
func (t *Target) examine(ctx context.Context, text []byte) error {
	if _, err := t.Form.Parse(text); err != nil {
		return fmt.Errorf("%w: %w", client.ErrRefused, err)
	}
	config, err := t.config(ctx)
	if err != nil {
		return err
	}
	site := slices.Concat(slices.Collect(maps.Values(t.Form.Site))...)
	for _, p := range conf.Check(text, site, config.Get("AccountingStorageTRES")) {
		return fmt.Errorf("%w: %w", client.ErrRefused, p)
	}
	if _, err := t.mayQOS(ctx, text); err != nil {
		return err
	}
	return t.stage(ctx, t.Conf, t.Include, text)
}

// Reload implements the file adapter's Target. It has slurmctld read its files, watches it until its backfill has
// woken, reads its log, and sets the priorities of QOS.
func (t *Target) Reload(ctx context.Context, path string) error {
	from := t.logSize()
	if err := t.reconfigure(ctx, path); err != nil {
		return err
	}
	if said := t.complaints(from); said != "" {
		return fmt.Errorf("%w: slurmctld's log says: %.300s", client.ErrRefused, said)
	}
	others, err := t.setQOS(ctx, path)
	if len(others) > 0 {
		return fmt.Errorf("%w, which stays: %s", errSetByOthers, strings.Join(others, ", "))
	}
	return err
}

// Restore implements the file adapter's Target: a Reload whatever the log says. A priority of a QOS that someone else
// set stays, and is reported when the next configuration is checked.
func (t *Target) Restore(ctx context.Context, path string) error {
	if err := t.reconfigure(ctx, path); err != nil {
		return err
	}
	_, err := t.setQOS(ctx, path)
	return err
}

// reconfigure has slurmctld read its files, and watches it until its backfill has woken.
func (t *Target) reconfigure(ctx context.Context, path string) error {
	before, err := t.config(ctx)
	if unreadable(err) {
		return fmt.Errorf("%w: %w", client.ErrRefused, err)
	}
	if err != nil {
		return t.revive(ctx, err)
	}
	from := t.logSize()
	command := t.Reconfigure
	if len(command) == 0 {
		command = []string{"scontrol", "reconfigure"}
	}
	bounded := t.Commands
	bounded.Timeout = t.ReconfigureTimeout
	if _, err := bounded.Run(ctx, command[0], command[1:]...); err != nil {
		if errors.As(err, new(program.TimeoutError)) {
			return err // it may not have been read
		}
		if up, _ := t.up(ctx); !up {
			return t.ended(path, from, err)
		}
		if unreadable(err) || strings.Contains(err.Error(), "slurm_reconfigure error") && !forbidden(err) {
			return fmt.Errorf("%w: %w", client.ErrRefused, err)
		}
		return err
	}
	return t.watch(ctx, path, from, wake(before)+beyondWake)
}

// unreadable reports whether Slurm's programs do not read the configuration.
func unreadable(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Unable to process configuration file")
}

// forbidden reports whether slurmctld refused the account, not the configuration.
func forbidden(err error) bool {
	return strings.Contains(err.Error(), "Invalid user id") || strings.Contains(err.Error(), "denied")
}

// wake is the interval after which slurmctld's backfill thread reads its settings.
func wake(config *conf.Config) time.Duration {
	text, _ := config.Option("bf_interval", false)
	if n, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(n, 1), 10800)) * time.Second
	}
	return 30 * time.Second
}

// watch looks at slurmctld for a time, in which it must not end.
func (t *Target) watch(ctx context.Context, path string, from int64, d time.Duration) error {
	until := time.Now().Add(d)
	for time.Now().Before(until) {
		up, err := t.up(ctx)
		if !up && ctx.Err() == nil {
			return t.ended(path, from, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(pause, time.Until(until)+time.Millisecond)):
		}
	}
	return nil
}

// ended is about a slurmctld that does not answer any more. Unless its log shows that it did not end over the file,
// the file is noted, and not tried again.
func (t *Target) ended(path string, from int64, because error) error {
	err := fmt.Errorf("%w: slurmctld does not answer any more", client.ErrRefused)
	if because != nil {
		err = fmt.Errorf("%w: %w", err, because)
	}
	said, readable := t.logged(from)
	for l := range strings.Lines(said) {
		if strings.Contains(l, "fatal:") {
			err = fmt.Errorf("%w: its log says: %.300s", err, strings.TrimSpace(l))
			readable = false
		}
	}
	if readable {
		return err
	}
	text, e := os.ReadFile(path)
	if e == nil {
		e = t.noteFatal(text)
	}
	if e != nil {
		err = fmt.Errorf("%w (%v)", err, e)
	}
	return err
}

// revive returns once a slurmctld that is down answers. A file that is in place before it starts needs no
// reconfiguration.
func (t *Target) revive(ctx context.Context, because error) error {
	if len(t.Restart) > 0 {
		if _, err := t.Run(ctx, t.Restart[0], t.Restart[1:]...); err != nil {
			return err
		}
	}
	limit := t.Down
	if limit == 0 {
		limit = 30 * time.Second
	}
	for until := time.Now().Add(limit); time.Now().Before(until); {
		if up, _ := t.up(ctx); up {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return fmt.Errorf("slurmctld does not answer: start it: %w", because)
}

// ReadBack implements the file adapter's Target: the keys of the file with the values that slurmctld says are in
// force.
func (t *Target) ReadBack(ctx context.Context, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all, err := conf.FormLines(text)
	if err != nil {
		return nil, err
	}
	config, err := t.config(ctx)
	if err != nil {
		return nil, err
	}
	var priorities map[string]int64
	var out bytes.Buffer
	for _, l := range all {
		if name, is := slurm.QOSOf(l.Key); is {
			if priorities == nil {
				if priorities, err = t.qos(ctx); err != nil {
					return nil, err
				}
			}
			v, there := priorities[name]
			if !there {
				return nil, fmt.Errorf("there is no QOS %s any more", name)
			}
			fmt.Fprintf(&out, "#%s=%d\n", l.Key, v)
			continue
		}
		v := config.Get(l.Key)
		if v == "" {
			return nil, fmt.Errorf("%s: slurmctld has no value", l.Key)
		}
		fmt.Fprintf(&out, "%s=%s\n", l.Key, v)
	}
	return out.Bytes(), nil
}

// InForce implements the file adapter's Observer.
func (t *Target) InForce(ctx context.Context) (space.Values, error) {
	return t.Commands.InForce(ctx, t.Form.Tuned)
}

// InForce returns the values in force: of parameters by slurmctld, of priorities of QOS by slurmdbd.
func (c Commands) InForce(ctx context.Context, ids []string) (space.Values, error) {
	config, err := c.config(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(ids, func(id string) bool { _, is := slurm.QOSOf(id); return is }) {
		priorities, err := c.qos(ctx)
		if err != nil {
			return nil, err
		}
		for name, v := range priorities {
			config.Lines = append(config.Lines,
				conf.Line{File: "sacctmgr show qos", Key: slurm.QOSPriority(name), Value: strconv.FormatInt(v, 10)})
		}
	}
	return config.Values(ids)
}

func (t *Target) logSize() int64 {
	info, err := os.Stat(t.Log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// logged returns slurmctld's log from an offset on.
func (t *Target) logged(from int64) (text string, readable bool) {
	if t.Log == "" {
		return "", false
	}
	f, err := os.Open(t.Log)
	if err != nil {
		return "", false
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() < from {
		from = 0 // it was rotated
	}
	b, err := io.ReadAll(io.NewSectionReader(f, from, 1<<24))
	return string(b), err == nil
}

// complaints is the first line of the log, from an offset on, that names a setting of ours as an error.
func (t *Target) complaints(from int64) string {
	said, _ := t.logged(from)
	for l := range strings.Lines(said) {
		if !strings.Contains(l, "error:") && !strings.Contains(l, "fatal:") {
			continue
		}
		for _, id := range t.Form.Tuned {
			key, option, _ := strings.Cut(id, ".")
			if key != "QOS" && (strings.Contains(l, key) || len(option) > 4 && strings.Contains(l, option)) {
				return strings.TrimSpace(l)
			}
		}
	}
	return ""
}

// wasFatal reports whether slurmctld ended over a file of these settings.
func (t *Target) wasFatal(text []byte) (bool, error) {
	known, err := os.ReadFile(t.Fatal)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.Contains(strings.Fields(string(known)), conf.Fingerprint(text)), err
}

func (t *Target) noteFatal(text []byte) error {
	known, err := os.ReadFile(t.Fatal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(t.Fatal, append(known, conf.Fingerprint(text)+"\n"...), 0o600)
}

// owned are the keys of the file that parameters set.
func owned(tuned []string) func(string) bool {
	keys := map[string]bool{}
	for _, id := range tuned {
		key, _, _ := strings.Cut(id, ".")
		keys[strings.ToLower(key)] = true
	}
	return func(key string) bool { return keys[strings.ToLower(key)] }
}
