// Package file configures a scheduler by its configuration file: it writes the file, has the
// scheduler reload it, and reads back the values in force.
//
// The file is replaced by rename, and holds one configuration whole at any time. The previous
// one is kept, and put back if the scheduler does not take the new one. Each action is
// noted in a directory of its own before it happens, so that after a crash the same configuration
// is applied again or the next one is. A file that someone else changed is not overwritten.
package file

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// Options configure the file and the commands that make a scheduler read it. Commands are a program and its
// arguments, in which {file} stands for the path of the file; no shell is involved.
type Options struct {
	// Path is the scheduler's configuration file. Required.
	Path string
	// Dir is where the driver keeps its notes and the previous file; a hidden directory
	// beside the file if empty.
	Dir string
	// Form is the format of the file. Required.
	Form native.Form
	// Write, if set, replaces the file, where the driver may not.
	Write func(text []byte) error
	// Previous is where the previous file is kept; in Dir if empty.
	Previous string
	// Head, if set, returns comment lines above the rendering of Form for a configuration.
	Head func(c *pb.Configuration, body []byte) string
	// Target, if set, takes the place of the following three commands.
	Target Target
	// Check is run on a new file before it takes the place of the file. If it fails, the
	// configuration is refused.
	Check []string
	// Reload makes the scheduler read the file. If it fails, and succeeds once the
	// previous file is back, the configuration is refused.
	Reload []string
	// ReadBack prints the values in force, as a file of the Form. Without it the file is taken
	// to be in force.
	ReadBack []string
	// Timeout bounds each command; a minute if 0.
	Timeout time.Duration
	// TakeOver lets the driver replace a file that it did not write, once.
	TakeOver bool
	// Adopt leaves the values in force unchanged where the first configuration is the registered defaults, which
	// no operator chose over it. The values in force are returned.
	Adopt bool
}

// Target is the scheduler whose file is written. Errors of Check and Reload that wrap
// [client.ErrRefused] are about the values.
type Target interface {
	// Check looks at a new file before it takes the place of the file.
	Check(ctx context.Context, path string) error
	// Reload has the scheduler read a new file.
	Reload(ctx context.Context, path string) error
	// Restore has it read the previous file, which is back.
	Restore(ctx context.Context, path string) error
	// ReadBack returns the values in force, as a file of the Form.
	ReadBack(ctx context.Context, path string) ([]byte, error)
}

// Observer is a Target that knows the values in force, whatever the file has.
type Observer interface {
	InForce(ctx context.Context) (space.Values, error)
}

// Driver configures one instance of a scheduler.
type Driver struct {
	o    Options
	lock *os.File
	// step is called after each step, for tests that end there.
	step func(string)

	mu     sync.Mutex // held while a configuration is applied or looked at
	closed bool
	note   note
	known  adapter.InForce // the service's knowledge of the configuration in force
	asked  bool            // a configuration was to be applied since the start
}

// ErrChanged is wrapped by errors about a file that someone else wrote.
var ErrChanged = errors.New("the file was changed by someone else")

// Open checks the options and reads the notes of a former driver. Only one driver can have a
// file.
func Open(o Options) (*Driver, error) {
	switch {
	case o.Path == "":
		return nil, errors.New("file: is missing: the scheduler's configuration file")
	case o.Form == nil:
		return nil, errors.New("form: is missing")
	case o.Timeout < 0:
		return nil, fmt.Errorf("timeout: %v is negative", o.Timeout)
	}
	for _, c := range []struct {
		name    string
		command []string
	}{{"check", o.Check}, {"reload", o.Reload}, {"read-back", o.ReadBack}} {
		if len(c.command) > 0 && c.command[0] == "" {
			return nil, fmt.Errorf("%s: the program is missing", c.name)
		}
	}
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	if at, err := filepath.EvalSymlinks(path); err == nil {
		path = at
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("file: %s: there is no such directory", filepath.Dir(path))
	}
	o.Path = path
	o.Dir = cmp.Or(o.Dir, filepath.Join(filepath.Dir(path), ".autosched-"+filepath.Base(path)))
	o.Previous = cmp.Or(o.Previous, filepath.Join(o.Dir, "previous"))
	if o.Write == nil {
		o.Write = func(text []byte) error { return writeSynced(path, text) }
	}
	d := &Driver{o: o, step: func(string) {}}
	if o.Target == nil {
		d.o.Target = commands{&d.o}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("state-dir: %w", err)
	}
	if d.lock, err = os.OpenFile(d.path("lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("state-dir: %w", err)
	}
	// A process that is being started has the files of its parent until it runs.
	for range 20 {
		if err = unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state-dir: %s is in use by another adapter", o.Dir), d.lock.Close())
	}
	if err := d.load(); err != nil {
		return nil, errors.Join(err, d.lock.Close())
	}
	return d, nil
}

// OnStep calls a function after each step of an application: for tests that end there.
func (d *Driver) OnStep(f func(step string)) { d.step = f }

// Close lets another driver have the file, once an application that is under way has ended.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return d.lock.Close()
}

func (d *Driver) path(name string) string { return filepath.Join(d.o.Dir, name) }

// Apply puts a configuration in force and returns the values in force. An error that wraps
// [client.ErrRefused] is about the values. After another one the configuration may be applied again;
// if it wraps [ErrChanged], nothing was done.
func (d *Driver) Apply(ctx context.Context, c *pb.Configuration) (_ map[string]*structpb.Value, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed { // another driver may have the file
		return nil, fmt.Errorf("%s: %w", d.o.Path, fs.ErrClosed)
	}
	// A refusal is the last word on the values: the configuration that goes on to run is acknowledged with the next
	// offer.
	defer func() { d.asked = d.asked || !errors.Is(err, client.ErrRefused) }()
	if last := d.note.InForce; last != nil {
		if err := last.Old(c); err != nil {
			return nil, err
		}
	}
	want, err := adapter.FromProto(c.GetParameters())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.GetName(), err)
	}
	before, err := read(d.o.Path)
	if err != nil {
		return nil, err
	}
	if d.o.Adopt && d.note.InForce == nil && c.GetOrigin() == pb.Configuration_DEFAULT {
		got, err := d.inForce(ctx, want)
		if err != nil {
			return nil, err
		}
		return d.done(entryOf(c, before, want), got)
	}
	text, err := d.render(c, want)
	if err != nil {
		return nil, err
	}
	mine := len(d.note.Files) == 0 && before == nil || slices.Contains(d.note.Files, digest(before))
	if !mine && !bytes.Equal(before, text) && !d.o.TakeOver {
		return nil, fmt.Errorf("%w: %s: put it back, or start the adapter once with --take-over (%s has what was "+
			"there before)", ErrChanged, d.o.Path, d.o.Previous)
	}
	entry := entryOf(c, text, want)
	if d.note.Pending != nil || !bytes.Equal(before, text) {
		if !mine {
			d.note.Pending = nil // so that the other one's file is kept
		}
		return d.replace(ctx, entry, before, text)
	}
	// It is in place already, under another revision or before a restart.
	got, err := d.readBack(ctx, want)
	if err != nil {
		return nil, err
	}
	return d.done(entry, got)
}

// Recover puts the previous file back in force if a driver ended while it applied a configuration: nothing is
// known of its remains.
func (d *Driver) Recover(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.note.Pending == nil {
		return nil
	}
	_, err := d.restore(ctx)
	return err
}

// render writes the file, and checks its contents.
func (d *Driver) render(c *pb.Configuration, want space.Values) ([]byte, error) {
	text, err := d.o.Form.Render(want)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	if d.o.Head != nil {
		text = append([]byte(d.o.Head(c, text)), text...)
	}
	got, err := d.o.Form.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	if !maps.EqualFunc(want, got, space.Value.Equal) {
		return nil, fmt.Errorf("render: %v is read as %v", want, got)
	}
	return text, nil
}

// read returns a file, nil if there is none.
func read(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if text == nil && err == nil {
		text = []byte{}
	}
	return text, err
}

// replace puts a new file in place of the one before and has it reloaded. If that fails, it puts the
// previous one back.
func (d *Driver) replace(ctx context.Context, e *entry, before, text []byte) (map[string]*structpb.Value, error) {
	if err := writeSynced(d.path("new"), text); err != nil {
		return nil, err
	}
	if err := d.o.Target.Check(ctx, d.path("new")); err != nil {
		return nil, err
	}
	d.step("checked")
	if d.note.Pending == nil { // otherwise the previous one is kept already
		if err := d.keep(before); err != nil {
			return nil, err
		}
		d.step("kept")
	}
	d.note.Pending = e
	d.note.Files = append(d.note.Files, e.Digest)
	if err := d.save(); err != nil {
		return nil, err
	}
	d.step("noted")
	got, err := d.install(ctx, text, e.Sent)
	if err == nil {
		return d.done(e, got)
	}
	proven, back := d.restore(ctx)
	switch {
	case back != nil:
		return nil, fmt.Errorf("%w; and the previous file could not be put back in force: %v", plain(err), back)
	case !proven:
		return nil, fmt.Errorf("%w (there was no file before, and is none now)", plain(err))
	}
	return nil, fmt.Errorf("%w (the previous file is back)", err)
}

// install writes the file, has it reloaded and returns the values in force.
func (d *Driver) install(ctx context.Context, text []byte, want space.Values) (space.Values, error) {
	if err := d.o.Write(text); err != nil {
		return nil, err
	}
	d.step("written")
	if err := d.o.Target.Reload(ctx, d.o.Path); err != nil {
		return nil, err
	}
	d.step("reloaded")
	got, err := d.readBack(ctx, want)
	if err != nil {
		return nil, err
	}
	d.step("read")
	if last := d.note.InForce; last != nil && !maps.EqualFunc(got, want, space.Value.Equal) &&
		maps.EqualFunc(got, last.Values, space.Value.Equal) {
		return nil, errors.New("read back: the values before are still in force")
	}
	return got, nil
}

// readBack returns the values in force of the parameters that are wanted.
func (d *Driver) readBack(ctx context.Context, want space.Values) (space.Values, error) {
	text, err := d.o.Target.ReadBack(ctx, d.o.Path)
	if err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	got, err := d.o.Form.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got[id].IsZero() {
			return nil, fmt.Errorf("read back: %s is missing", id)
		}
	}
	return got, nil
}

// inForce returns the values in force of the parameters that are wanted, whatever the file says.
func (d *Driver) inForce(ctx context.Context, want space.Values) (space.Values, error) {
	o, is := d.o.Target.(Observer)
	if !is {
		return d.readBack(ctx, want)
	}
	got, err := o.InForce(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got[id].IsZero() {
			return nil, fmt.Errorf("%s: the scheduler has no value", id)
		}
	}
	return only(got, want), nil
}

// only returns the values of the parameters that others have, too.
func only(values, of space.Values) space.Values {
	values = maps.Clone(values)
	maps.DeleteFunc(values, func(id string, _ space.Value) bool { return of[id].IsZero() })
	return values
}

// keep makes a file the previous one.
func (d *Driver) keep(text []byte) error {
	d.note.Files = []string{digest(text)}
	if text == nil {
		if err := os.Remove(d.o.Previous); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return writeSynced(d.o.Previous, text)
}

// restore puts the previous file back and has it reloaded. It reports whether that proved that the scheduler
// is there and takes it.
func (d *Driver) restore(ctx context.Context) (proven bool, err error) {
	// The end of the context must not keep the scheduler from its former configuration.
	ctx = context.WithoutCancel(ctx)
	text, err := read(d.o.Previous)
	if err != nil {
		return false, err
	}
	if now, err2 := read(d.o.Path); err2 != nil || !bytes.Equal(now, text) || (now == nil) != (text == nil) {
		if text == nil {
			err = removeSynced(d.o.Path)
		} else {
			err = d.o.Write(text)
		}
	}
	if err != nil {
		return false, err
	}
	d.step("restored")
	if text != nil {
		if err := d.o.Target.Restore(ctx, d.o.Path); err != nil {
			return false, err
		}
	}
	d.note.Pending, d.note.Files = nil, []string{digest(text)}
	return text != nil, d.save()
}

// done notes the values in force.
func (d *Driver) done(e *entry, got space.Values) (map[string]*structpb.Value, error) {
	e.Values = got
	d.note = note{InForce: e, Files: []string{e.Digest}}
	if err := d.save(); err != nil {
		return nil, err
	}
	d.o.TakeOver, d.known = false, adapter.InForce{Values: only(got, e.Sent)}
	d.step("done")
	return adapter.ToProto(got)
}

// plain is an error without the mark of a refusal.
func plain(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), client.ErrRefused.Error()+": "))
}

// digest is that of a file's content, empty if there is no file.
func digest(text []byte) string {
	if text == nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// note is the driver's memory across a crash.
type note struct {
	// InForce is the configuration last applied; nil before the first.
	InForce *entry `json:"in_force,omitempty"`
	// Pending is the configuration that is being applied, or was when the driver ended.
	Pending *entry `json:"pending,omitempty"`
	// Files are the SHA-256 of the contents that the file may have by the driver's hand; empty for
	// no file.
	Files []string `json:"files"`
}

// entry is a configuration and its file.
type entry struct {
	adapter.Applied
	Digest string       `json:"sha256"`
	Values space.Values `json:"values,omitempty"` // in force
}

func entryOf(c *pb.Configuration, text []byte, sent space.Values) *entry {
	return &entry{Applied: adapter.AppliedOf(c, sent), Digest: digest(text)}
}

// load reads the notes.
func (d *Driver) load() error {
	text, err := os.ReadFile(d.path("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &d.note)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: remove it, and start with --take-over", d.path("state.json"), err)
	}
	return nil
}

func (d *Driver) save() error {
	text, err := json.Marshal(&d.note)
	if err != nil {
		return err
	}
	return writeSynced(d.path("state.json"), text)
}

// writeSynced replaces a file by one that is on disk and has its mode and, as far as the driver may set
// it, its owner.
func writeSynced(path string, text []byte) error {
	// One name, so that the remains of a crash are replaced.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".autosched")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(sys.Uid), int(sys.Gid)) // needs rights that the driver may not have
		}
		if err := f.Chmod(info.Mode().Perm()); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

func removeSynced(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}
