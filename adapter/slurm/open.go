// Package slurm tunes a Slurm cluster, beside its slurmctld, as a client of the public API. It reads events of jobs and
// nodes from Slurm's accounting, and puts configurations in force through one file that slurm.conf includes: checked,
// staged, replaced by rename, reconfigured, watched, read back, and taken back where anything is wrong. It does nothing
// to jobs, and nothing of Slurm depends on it.
package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/file"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

// Options are the Slurm to configure and the rights of the adapter.
type Options struct {
	// Conf is the path of slurm.conf; /etc/slurm/slurm.conf if empty.
	Conf string
	// Include is the file that slurm.conf includes last, with the settings that are tuned; autosched/autosched.conf
	// beside slurm.conf if empty.
	Include string
	// Dir is where the adapter keeps its notes; a hidden directory beside the include file if empty.
	Dir string
	// Log is the path of slurmctld's log; it is not read if empty.
	Log string
	// Tuned are the ids of the parameters.
	Tuned []string
	// Reconfigure and Restart are commands that have slurmctld read its files, scontrol reconfigure if empty, and that
	// start it where it ended; nothing does if empty.
	Reconfigure, Restart []string
	// Install is a command that replaces the file by its input, where the adapter may not; it writes the file if empty.
	Install []string
	// ReconfigureTimeout bounds Reconfigure; a minute if 0.
	ReconfigureTimeout time.Duration
	// TakeOver lets the adapter replace a file that it did not write, once.
	TakeOver bool
	// AllowQOS is whose priorities of QOS may be set, OwnQOS or SharedQOS; none if empty.
	AllowQOS string
	// whole: other keys of the file may go.
	whole bool
}

// Filled has the paths that are left out.
func (o Options) Filled() Options {
	if o.Conf == "" {
		o.Conf = "/etc/slurm/slurm.conf"
	}
	if o.Include == "" {
		o.Include = filepath.Join(filepath.Dir(o.Conf), "autosched", "autosched.conf")
	}
	o.Include = conf.Real(o.Include)
	if o.Dir == "" {
		o.Dir = filepath.Join(filepath.Dir(o.Include), ".autosched")
	}
	return o
}

// Open checks that the site is one that the adapter may configure, puts the previous file back where a former adapter
// ended while it applied a configuration, and returns the driver of the include file.
func Open(ctx context.Context, o Options) (*file.Driver, error) {
	o = o.Filled()
	t, err := newTarget(o)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(filepath.Join(o.Dir, "state.json"))
	first := errors.Is(err, fs.ErrNotExist)
	take := o.TakeOver
	o.TakeOver = take || first
	form := o.driver(t)
	form.Adopt = first && !take
	d, err := file.Open(form)
	if err != nil {
		return nil, err
	}
	// Before anything is asked of slurmctld, which may be down over the file.
	if err := d.Recover(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := t.site(ctx, o, first || take); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// head says whose the file is.
func head(c *pb.Configuration, body []byte) string {
	return conf.Head(c.GetRevision(), c.GetCreateTime().AsTime(), body)
}

func newTarget(o Options) (*Target, error) {
	for _, path := range []string{o.Conf, o.Include} {
		if _, err := os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	for _, id := range o.Tuned {
		if _, known := conf.Find(id); !known {
			return nil, fmt.Errorf("%s: the adapter cannot set it: take it out of the scheduler's space", id)
		}
		if isQOS(id) && o.AllowQOS == "" {
			return nil, fmt.Errorf("%s: sacctmgr sets it: give --allow-qos, or leave it out of what is tuned", id)
		}
	}
	return &Target{Commands: Commands{Conf: o.Conf}, Options: o, Form: &conf.Form{Tuned: o.Tuned}}, nil
}

// site reads the settings in force: which items of lists are the site's own, and whether anything keeps the include
// file from counting.
func (t *Target) site(ctx context.Context, o Options, anew bool) error {
	path := filepath.Join(o.Dir, "site.json")
	text, err := os.ReadFile(path)
	if err == nil && !anew {
		if err := json.Unmarshal(text, &t.Form.Site); err != nil {
			return fmt.Errorf("%s: %w: remove it, and start with --take-over", path, err)
		}
	}
	config, err := t.config(ctx)
	if err != nil {
		return err
	}
	if got := config.Get("PriorityType"); got != "priority/multifactor" {
		return fmt.Errorf("PriorityType is %s: set priority/multifactor in slurm.conf and restart slurmctld", got)
	}
	if err := t.mayReconfigure(ctx, config); err != nil {
		return err
	}
	if err := t.layout(); err != nil {
		return err
	}
	if anew || t.Form.Site == nil {
		t.Form.Site = config.Site(o.Tuned)
		err := atomicfile.WritePrivate(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(t.Form.Site) })
		if err != nil {
			return err
		}
	}
	if anew {
		err = t.adoptQOS(ctx, o.Tuned)
	} else {
		err = t.knowsQOS(o.Tuned)
	}
	if err != nil {
		return err
	}
	if !o.whole {
		if err := t.onlyTuned(); err != nil {
			return err
		}
	}
	if len(o.Install) > 0 {
		return nil
	}
	return keepOriginal(o.Include)
}

// onlyTuned is an error if the file has a key that no tuned parameter sets.
func (t *Target) onlyTuned() error {
	text, err := os.ReadFile(t.Include)
	if err != nil {
		return err
	}
	mine := owned(t.Form.Tuned)
	for i, l := range strings.Split(string(text), "\n") {
		key, _, _ := strings.Cut(strings.TrimSpace(l), "=")
		if key != "" && key[0] != '#' && !mine(key) {
			return fmt.Errorf("%s:%d: %s is not tuned, and this file is replaced whole: move the line into %s",
				t.Include, i+1, key, t.Options.Conf)
		}
	}
	return nil
}

// Recover puts the previous file back where a former adapter ended while it applied a configuration. It does nothing
// else.
func Recover(ctx context.Context, o Options) error {
	o = o.Filled()
	if _, err := os.Stat(filepath.Join(o.Dir, "state.json")); err != nil {
		return nil
	}
	t, err := newTarget(o)
	if err != nil {
		return err
	}
	d, err := file.Open(o.driver(t))
	if err != nil {
		return err
	}
	return errors.Join(d.Recover(ctx), d.Close())
}

func (o *Options) driver(t *Target) file.Options {
	f := file.Options{Path: o.Include, Dir: o.Dir, Form: t.Form, Previous: o.Include + ".prev", Target: t, Head: head,
		TakeOver: o.TakeOver}
	if len(o.Install) > 0 {
		f.Previous, f.Write = "", func(text []byte) error { return t.place(context.Background(), text) }
	}
	return f
}

// AwaitOpen opens, and waits for a slurmctld that is away.
func AwaitOpen(ctx context.Context, o Options, notify func(error)) (*file.Driver, error) {
	o = o.Filled()
	last := ""
	for {
		d, err := Open(ctx, o)
		if err == nil {
			return d, nil
		}
		if up, _ := (Commands{Conf: o.Conf}).up(ctx); up || ctx.Err() != nil {
			return nil, err
		}
		if err.Error() != last {
			notify(err)
		}
		last = err.Error()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// tunedBy returns the ids of the parameters that a file may set: its keys, with every option of its lists.
func tunedBy(text []byte) ([]string, error) {
	all, err := conf.FormLines(text)
	if err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(conf.Tunable(), func(id string) bool {
		key, _, _ := strings.Cut(id, ".")
		return !slices.ContainsFunc(all, func(l conf.Line) bool { return strings.EqualFold(l.Key, key) })
	})
	for _, l := range all {
		if isQOS(l.Key) {
			ids = append(ids, l.Key)
		}
	}
	return ids, nil
}

// Examine checks a file as an application does, without changing anything: names, ranges, and Slurm's own parser. qos
// are the commands that would set priorities of QOS.
func (o Options) Examine(ctx context.Context, text []byte) (values space.Values, qos []string, err error) {
	o = o.Filled()
	if o.Tuned, err = tunedBy(text); err != nil {
		return nil, nil, err
	}
	t, err := newTarget(o)
	if err != nil {
		return nil, nil, err
	}
	config, err := t.config(ctx)
	if err != nil {
		return nil, nil, err
	}
	t.Form.Site = config.Site(o.Tuned)
	if err := errors.Join(t.layout(), t.examine(ctx, config, text), t.keeps(ctx, config)); err != nil {
		return nil, nil, err
	}
	changes, err := t.mayQOS(ctx, config, text)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		qos = append(qos, strings.Join(conf.SetQOS(name, changes[name]), " "))
	}
	values, err = t.Form.Parse(text)
	return values, qos, err
}

// Apply puts a file in force as the adapter does, and returns the values in force. An adapter that runs finds the file
// to be another's, and changes nothing from then on.
func (o Options) Apply(ctx context.Context, text []byte) (space.Values, error) {
	values, _, err := o.Examine(ctx, text)
	if err != nil {
		return nil, err
	}
	o = o.Filled()
	o.Tuned, _ = tunedBy(text) // read before
	t, err := newTarget(o)
	if err != nil {
		return nil, err
	}
	config, _ := t.config(ctx) // Open says why there is none
	if err := t.mayReconfigure(ctx, config); err != nil {
		return nil, err
	}
	o.Dir, o.TakeOver, o.whole = o.Dir+"-by-hand", true, true
	d, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	parameters, err := adapter.ToProto(values)
	if err != nil {
		return nil, err
	}
	got, err := d.Apply(ctx, &pb.Configuration{Name: "applied by hand", Parameters: parameters})
	if err != nil {
		return nil, err
	}
	// The notes are of an application that ended; left behind, they would be another account's.
	if err := os.RemoveAll(o.Dir); err != nil {
		return nil, err
	}
	return adapter.FromProto(got)
}

// Rollback puts the previous file back in force, or the one before the first of the adapter's. An adapter
// that runs finds the file to be another's, and changes nothing from then on.
func (o Options) Rollback(ctx context.Context, original bool) (text []byte, err error) {
	o = o.Filled()
	path := o.Include + ".prev"
	if original {
		path = o.Include + ".orig"
	}
	text, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: no configuration was applied here", err)
	}
	if err != nil {
		return nil, err
	}
	o.Tuned = conf.Tunable()
	t, err := newTarget(o)
	if err != nil {
		return nil, err
	}
	config, _ := t.config(ctx) // there is none while slurmctld is down
	if err := t.mayReconfigure(ctx, config); err != nil {
		return nil, err
	}
	// The file first: slurmctld may be down over the one in place.
	text = append([]byte(putBack), bytes.TrimPrefix(text, []byte(putBack))...)
	if err := t.place(ctx, text); err != nil {
		return nil, err
	}
	if config != nil {
		if err := t.keeps(ctx, config); errors.Is(err, errUndoes) {
			return text, fmt.Errorf("the file is back, and slurmctld was not asked to read it: %w", err)
		}
	}
	if err := t.Reload(ctx, o.Include); err != nil {
		return text, fmt.Errorf("the file is back: %w", err)
	}
	return text, nil
}

// putBack is the first line of a file that is put back by hand.
const putBack = "# put back by autosched slurm rollback\n"

func place(path string, text []byte) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// keepOriginal keeps the file that was there before the adapter's first.
func keepOriginal(include string) error {
	path := include + ".orig"
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := os.ReadFile(filepath.Clean(include))
	if err != nil {
		return err
	}
	return place(path, text)
}
