package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/schedulers/slurm"
	"github.com/autosched/autosched/schedulers/slurm/conf"
	"github.com/autosched/autosched/space"
)

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
		if _, is := slurm.QOSOf(l.Key); is {
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
	if err := t.examine(ctx, text); err != nil {
		return nil, nil, err
	}
	changes, err := t.mayQOS(ctx, text)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range sortedKeys(changes) {
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
	if err := t.mayReconfigure(ctx); err != nil {
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
	if err := t.mayReconfigure(ctx); err != nil {
		return nil, err
	}
	// The file first: slurmctld may be down over the one in place.
	mark := []byte("# put back by autosched slurm rollback\n")
	text = append(mark, bytes.TrimPrefix(text, mark)...)
	if err := place(o.Include, text); err != nil {
		return nil, err
	}
	if err := t.Reload(ctx, o.Include); err != nil {
		return text, fmt.Errorf("the file is back: %w", err)
	}
	return text, nil
}

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
