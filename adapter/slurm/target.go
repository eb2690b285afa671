package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/program"
	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// Target is the slurmctld whose included file is written. It implements the file adapter's Target.
type Target struct {
	Commands
	Options
	Form *conf.Form
	// Down is how long a slurmctld that ended may take to come back; 30 s if 0.
	Down time.Duration
	// pace is the pause between looks at slurmctld; a second if 0.
	pace time.Duration
	// unchecked leaves out the adapter's own check and the stage: for tests of the steps behind them.
	unchecked bool
}

const (
	pause = time.Second // between looks at slurmctld
	// beyondWake is how long after a wake of its backfill thread slurmctld has ended if it does over a setting.
	beyondWake = 4 * time.Second
	// betweenStarts is the pause between two reconfigurations that start a new slurmctld each.
	betweenStarts = 30 * time.Second
	// nodesRead is the time after which a configless slurmd that lacks an included file has ended.
	nodesRead = 65 * time.Second
	// dials is the number of nodes asked at a time, each for dialTimeout at most.
	dials       = 64
	dialTimeout = 3 * time.Second
	// mostMissed is the number of pings in a row that a busy slurmctld, or one that starts anew, may miss.
	mostMissed = 5
)

// Check implements the file adapter's Target: it checks a file without touching slurmctld.
func (t *Target) Check(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	switch up, err := t.up(ctx); {
	case unreadable(err):
		return fmt.Errorf("nothing is changed: %w", err)
	case !up:
		return errors.Join(errors.New("the primary slurmctld does not answer: nothing is changed"), err)
	}
	if fatal, err := t.wasFatal(text); err != nil || fatal {
		return errors.Join(fmt.Errorf("%w: slurmctld ended over this file before", client.ErrRefused), err)
	}
	if t.unchecked {
		return nil
	}
	if err := t.layout(); err != nil {
		return err
	}
	config, err := t.config(ctx)
	if err == nil {
		err = t.keeps(ctx, config)
	}
	if err != nil {
		return fmt.Errorf("nothing is changed: %w", err)
	}
	if d, err := t.diagnostics(ctx); err == nil && d.backfill > wake(config)/2 {
		return fmt.Errorf("a backfill cycle takes %v of an interval of %v: nothing is changed", d.backfill,
			wake(config))
	}
	if err := t.mayReconfigure(ctx, config); err != nil {
		return err
	}
	if err := t.drifted(ctx, text); err != nil {
		return err
	}
	return t.examine(ctx, config, text)
}

// examine checks names and ranges, that Slurm's parser reads the file, and its conditions on slurmctld, which has a
// configuration in force.
func (t *Target) examine(ctx context.Context, config *conf.Config, text []byte) error {
	values, err := t.Form.Parse(text)
	if err != nil {
		return fmt.Errorf("%w: %w", client.ErrRefused, err)
	}
	if err := bounded(config, values); err != nil {
		return fmt.Errorf("%w: %w", client.ErrRefused, err)
	}
	for _, p := range t.problems(config, text) {
		return fmt.Errorf("%w: %w", client.ErrRefused, p)
	}
	if _, err := t.mayQOS(ctx, config, text); err != nil {
		return err
	}
	return t.stage(ctx, t.Options.Conf, t.Include, text)
}

// halfLife is a setting that cannot be taken back: slurmctld multiplies the recorded usage by it and keeps no other.
const halfLife = "PriorityDecayHalfLife"

// bounded is an error if a half-life is not within half and twice the one in force.
func bounded(config *conf.Config, values space.Values) error {
	want, set := values[halfLife]
	if !set {
		return nil
	}
	in, err := config.Values([]string{halfLife})
	if now := in[halfLife].Float(); err == nil && (want.Float() < now/2 || want.Float() > 2*now) {
		err = fmt.Errorf("%s: %v s is not within half and twice the %v s in force: usage that it forgets does not come back",
			halfLife, want, in[halfLife])
	}
	return err
}

func (t *Target) problems(config *conf.Config, text []byte) []conf.Problem {
	site := slices.Concat(slices.Collect(maps.Values(t.Form.Site))...)
	return conf.Check(text, site, config.Get("AccountingStorageTRES"))
}

// sound reports whether a file is known to be right whatever the log says, into which users may write whole lines: the
// check passes it, and was tried on this version of Slurm.
func (t *Target) sound(ctx context.Context, path string) (bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	config, err := t.config(ctx)
	if err != nil {
		return false, err
	}
	return triedWith(config) && len(t.problems(config, text)) == 0, nil
}

// Reload implements the file adapter's Target. It has slurmctld read its files, watches it until its backfill has
// woken, reads its log, and sets the priorities of QOS.
func (t *Target) Reload(ctx context.Context, path string) error {
	from := t.logSize()
	if err := t.reconfigure(ctx, path); err != nil {
		return err
	}
	if said := t.complaints(from); said != "" {
		if sound, err := t.sound(ctx, path); err != nil || !sound {
			return errors.Join(fmt.Errorf("%w: slurmctld's log says: %.300s", client.ErrRefused, said), err)
		}
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
	up, err := t.ping(ctx)
	if err == nil && up["primary"] == "" {
		err = errors.New("a backup is in control while the primary slurmctld is down: start that")
	}
	if err != nil {
		return err
	}
	if err := t.settle(ctx, before); err != nil {
		return err
	}
	watched := wake(before) + beyondWake
	var nodes []string
	if before.Configless() {
		if nodes, err = t.answering(ctx, before); err != nil {
			return err
		}
		watched = max(watched, nodesRead)
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
	if err := t.watch(ctx, path, from, up, watched); err != nil || len(nodes) == 0 {
		return err
	}
	now, err := t.answering(ctx, before)
	gone := slices.DeleteFunc(nodes, func(name string) bool { return slices.Contains(now, name) })
	if err == nil && len(gone) > 0 {
		err = fmt.Errorf("slurmd does not answer any more on %d nodes: %.300s", len(gone), strings.Join(gone, ","))
	}
	return err
}

// answering lists the nodes whose slurmd takes connections.
func (c Commands) answering(ctx context.Context, config *conf.Config) ([]string, error) {
	text, err := c.Run(ctx, "scontrol", "-a", "show", "node", "-o")
	if err != nil {
		return nil, err
	}
	records := slurmtext.Records(text, "nodename")
	up := make([]bool, len(records))
	var all errgroup.Group
	all.SetLimit(dials)
	for i, r := range records {
		all.Go(func() error {
			at := net.JoinHostPort(r["nodeaddr"], cmp.Or(r["port"], config.Get("SlurmdPort")))
			conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", at)
			if up[i] = err == nil; up[i] {
				return conn.Close()
			}
			return nil
		})
	}
	var out []string
	err = all.Wait()
	for i, r := range records {
		if up[i] {
			out = append(out, r["nodename"])
		}
	}
	return out, err
}

// startsAnew reports whether a reconfiguration starts a new slurmctld, as from Slurm 23.11 on.
func startsAnew(config *conf.Config) bool {
	var year, month int
	_, err := fmt.Sscanf(config.Get("SLURM_VERSION"), "%d.%d", &year, &month)
	return err == nil && (year > 23 || year == 23 && month >= 11)
}

// settle waits until a slurmctld that a reconfiguration started may be reconfigured again: releases from 23.11 on end
// or hang where one follows another at once.
func (t *Target) settle(ctx context.Context, config *conf.Config) error {
	booted := instant(config.Get("BOOT_TIME"))
	if !startsAnew(config) || booted.IsZero() {
		return nil
	}
	d, err := t.diagnostics(ctx)
	if err != nil || d.now.IsZero() {
		d.now = time.Now()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(betweenStarts, betweenStarts-d.now.Sub(booted))):
		return nil
	}
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

// watch looks at slurmctld for a time, in which none that was up may end, be it that another start follows at once.
func (t *Target) watch(ctx context.Context, path string, from int64, before controllers, d time.Duration) error {
	booted := ""
	missed := 0
	for until := time.Now().Add(d); ; {
		up, err := t.ping(ctx)
		if gone := before.without(up); gone == "" && err == nil {
			missed = 0
			if config, err := t.config(ctx); err == nil {
				at := config.Get("BOOT_TIME")
				if booted != "" && at != booted {
					return t.ended(path, from, errors.New("it was started again"))
				}
				booted = at
			}
		} else if missed++; ctx.Err() == nil && (missed > mostMissed || fatal(t.logged(from)) != "") {
			return t.ended(path, from, cmp.Or(err, fmt.Errorf("%s", gone)))
		}
		if !time.Now().Before(until) && missed == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(cmp.Or(t.pace, pause)):
		}
	}
}

// fatal is the line of a log with which slurmctld ends, empty if there is none.
func fatal(said string, _ bool) string {
	for l := range strings.Lines(said) {
		if strings.Contains(l, "fatal:") {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

// ended is about a slurmctld that does not answer any more. Unless its log shows that it did not end over the file,
// the file is noted, and not tried again.
func (t *Target) ended(path string, from int64, because error) error {
	err := fmt.Errorf("%w: slurmctld does not answer any more", client.ErrRefused)
	if because != nil {
		err = fmt.Errorf("%w: %w", err, because)
	}
	said, readable := t.logged(from)
	if l := fatal(said, readable); l != "" {
		err = fmt.Errorf("%w: its log says: %.300s", err, l)
		readable = false
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
	for until := time.Now().Add(cmp.Or(t.Down, 30*time.Second)); time.Now().Before(until); {
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
	config, err := t.withQOS(ctx, slices.ContainsFunc(all, func(l conf.Line) bool { return isQOS(l.Key) }))
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, l := range all {
		name, is := slurm.QOSOf(l.Key)
		switch v := config.Get(l.Key); {
		case v == "" && is:
			return nil, fmt.Errorf("there is no QOS %s any more", name)
		case v == "":
			return nil, fmt.Errorf("%s: slurmctld has no value", l.Key)
		case is:
			out = fmt.Appendf(out, "#%s=%s\n", l.Key, v)
		default:
			out = fmt.Appendf(out, "%s=%s\n", l.Key, v)
		}
	}
	return out, nil
}

// InForce implements the file adapter's Observer.
func (t *Target) InForce(ctx context.Context) (space.Values, error) {
	return t.Commands.InForce(ctx, t.Form.Tuned)
}

// InForce returns the values in force: of parameters by slurmctld, of priorities of QOS by slurmdbd.
func (c Commands) InForce(ctx context.Context, ids []string) (space.Values, error) {
	config, err := c.withQOS(ctx, slices.ContainsFunc(ids, isQOS))
	if err != nil {
		return nil, err
	}
	return config.Values(ids)
}

func isQOS(id string) bool {
	_, is := slurm.QOSOf(id)
	return is
}

// withQOS returns the configuration in force, with the priorities of QOS if they are wanted.
func (c Commands) withQOS(ctx context.Context, wanted bool) (*conf.Config, error) {
	config, err := c.config(ctx)
	if err != nil || !wanted {
		return config, err
	}
	priorities, err := c.qos(ctx)
	for name, v := range priorities {
		config.Lines = append(config.Lines,
			conf.Line{File: "sacctmgr show qos", Key: slurm.QOSPriority(name), Value: strconv.FormatInt(v, 10)})
	}
	return config, err
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

// complained are the lines in which slurmctld rejects a value, whole: users write parts of other lines.
var complained = regexp.MustCompile(`^\[[^\]]*\] (?:error|fatal): (?:` + strings.Join([]string{
	`Invalid (?:SchedulerParameters )?(\w+): -?\d+`,
	`ignoring SchedulerParameters: (\w+) value of -?\d+`,
	`(bf_max_job_\w+) >=? (?:bf_max_job_test|bf_node_space_size / 2) \(\d+ >=? \d+\)`,
	`Both (bf_max_job_user) and bf_max_job_assoc are set: bf_max_job_assoc taking precedence\.`,
	`Invalid parameter (max_job_bf)\..*`,
	`(\w+) [12] specified more than once, latest value used`,
	`Bad value "[^"]*" for (Priority\w+)`,
	`(PriorityWeight\w+) can only be used with SlurmDBD, ignoring`,
	`(PriorityWeight) values too high, job priority value may overflow`}, "|") + `)$`)

// complaints is the first line of the log, from an offset on, in which slurmctld rejects a setting of ours.
func (t *Target) complaints(from int64) string {
	said, _ := t.logged(from)
	for l := range strings.Lines(said) {
		l = strings.TrimSpace(l)
		m := complained.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		named := strings.Join(m[1:], "") // one of the forms has matched
		ours := slices.ContainsFunc(t.Form.Tuned, func(id string) bool {
			key, option, _ := strings.Cut(id, ".")
			return strings.EqualFold(named, key) || strings.EqualFold(named, option)
		})
		if ours || named == "PriorityWeight" || named == "max_job_bf" {
			return l
		}
	}
	return ""
}

// wasFatal reports whether slurmctld ended over a file of these settings.
func (t *Target) wasFatal(text []byte) (bool, error) {
	known, err := os.ReadFile(t.fatalPath())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.Contains(strings.Fields(string(known)), conf.Fingerprint(text)), err
}

// fatalPath is the file with the fingerprints of files over which slurmctld ended.
func (t *Target) fatalPath() string { return filepath.Join(t.Dir, "fatal") }

func (t *Target) noteFatal(text []byte) error {
	known, err := os.ReadFile(t.fatalPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(t.fatalPath(), append(known, conf.Fingerprint(text)+"\n"...), 0o600)
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
