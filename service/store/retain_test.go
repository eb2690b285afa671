package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
)

// retained is a store with 20 events a day of two schedulers for 8 days, and the events to keep: every
// tenth event of the first 5 days, and all later ones.
func retained(t *testing.T, dir string) (*Store, *time.Time, controller.Retention) {
	t.Helper()
	now := new(time.Time)
	r, err := Open(dir, Options{Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	for day := range 8 {
		*now = time.Date(2024, 1, 1+day, 12, 0, 0, 0, time.UTC)
		for n := range 20 {
			e := event(fmt.Sprintf("%d-%d", day, n), time.Duration(day)*24*time.Hour+time.Duration(n)*time.Minute)
			if err := r.AppendEvents(context.Background(), []string{"a", "b"}[n%2], []workload.Event{e}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r, now, controller.Retention{Before: time.Date(2024, 1, 6, 12, 0, 0, 0, time.UTC),
		Needs: func(string) (func(workload.Event), func(workload.Event) (workload.Event, bool), error) {
			return func(workload.Event) {}, func(e workload.Event) (workload.Event, bool) {
				return e, needed(e.ID)
			}, nil
		}}
}

func needed(id string) bool { return id >= "5-" || strings.HasSuffix(id, "0") }

// remaining are the ids of all events, by scheduler.
func remaining(t *testing.T, r *Store) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	damage, err := r.ReplayEvents("", func(s string, e workload.Event) error {
		if out[s+"/"+e.ID] {
			t.Errorf("%s: %s twice", s, e.ID)
		}
		out[s+"/"+e.ID] = true
		return nil
	})
	if err != nil || len(damage) > 0 {
		t.Fatal(err, damage)
	}
	return out
}

// After a crash at any step of a drop the store opens, has all that is needed, takes events, and
// the next drop leaves what one without a crash does.
func TestDropsSurviveACrash(t *testing.T) {
	testshared.Full(t)
	ctx := context.Background()
	dir := t.TempDir()
	r, now, keep := retained(t, dir)
	defer r.Close()
	images := map[string]string{}
	r.onStep = func(step string) {
		image := t.TempDir()
		if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
			t.Error(err)
		}
		images[fmt.Sprintf("%02d-%s", len(images), step)] = image
	}
	all := remaining(t, r)
	dropped, err := r.DropEvents(ctx, keep)
	if err != nil || len(dropped) != 5 || dropped[0] != "events-20240101.db" {
		t.Fatal(dropped, err)
	}
	r.onStep = nil
	left := remaining(t, r)
	for id := range all {
		if left[id] != needed(id[2:]) {
			t.Errorf("%s is there: %v", id, left[id])
		}
	}
	if again, err := r.DropEvents(ctx, keep); err != nil || again != nil {
		t.Error(again, err)
	}
	if len(images) < 15 {
		t.Fatalf("%d steps", len(images))
	}
	for _, step := range slices.Sorted(maps.Keys(images)) {
		c, err := Open(images[step], Options{Now: func() time.Time { return *now }})
		if err != nil {
			t.Fatal(step, err)
		}
		got := remaining(t, c)
		for id := range left {
			if !got[id] {
				t.Errorf("%s: %s is lost", step, id)
			}
		}
		if err := c.AppendEvents(ctx, "a", []workload.Event{event("8-new", 200*time.Hour)}); err != nil {
			t.Error(step, err)
		}
		if _, err := c.DropEvents(ctx, keep); err != nil {
			t.Error(step, err)
		}
		if got = remaining(t, c); len(got) != len(left)+1 || !got["a/8-new"] {
			t.Errorf("%s: %d events, want %d", step, len(got), len(left)+1)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		files, err := filepath.Glob(filepath.Join(images[step], "*-2024*"))
		if err != nil || len(files) != 4 || filepath.Base(files[0]) != "checkpoint-20240105.db" {
			t.Errorf("%s: %v, %v", step, files, err)
		}
	}
}

// A place in a file that is dropped is refused by name, others are as before. An event is written
// to no day that is dropped, though the clock was set back.
func TestCursorsAcrossADrop(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	r, now, keep := retained(t, dir)
	until := func(cursor string) (n int, err error) {
		_, err = r.EventsUntil("a", cursor, func(workload.Event) error { n++; return nil })
		return n, err
	}
	last, err := r.Cursor("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.DropEvents(ctx, keep); err != nil {
		t.Fatal(err)
	}
	if _, err := until("events-20240103.db/4"); !errors.Is(err, controller.ErrDropped) {
		t.Error(err)
	}
	if n, err := until(last); err != nil || n != 5*2+3*10 {
		t.Error(n, err)
	}
	*now = time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC)
	if err := r.AppendEvents(ctx, "a", []workload.Event{event("9-back", time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if !remaining(t, r)["a/9-back"] {
		t.Error("an event of a clock that was set back is lost")
	}
	var archive bytes.Buffer
	if _, err := r.Backup(ctx, &archive); err != nil {
		t.Fatal(err)
	}
	want := remaining(t, r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := Inspect(dir)
	if err != nil || len(report.Others) > 0 || report.Files[1].Name != "checkpoint-20240105.db" ||
		report.Files[1].Events != 10 || report.Files[1].Damage != nil {
		t.Errorf("%+v, %v", report, err)
	}
	restored := t.TempDir()
	if _, err := Restore(&archive, restored); err != nil {
		t.Fatal(err)
	}
	c := open(t, restored)
	defer c.Close()
	if got := remaining(t, c); !maps.Equal(got, want) {
		t.Errorf("%d events of a backup, want %d", len(got), len(want))
	}
}

// Damaged files stay, and are named; nothing is dropped while events are read.
func TestWhatKeepsEventsFromBeingDropped(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	r, _, keep := retained(t, dir)
	defer r.Close()
	_, err := r.ReplayEvents("", func(string, workload.Event) error {
		_, err := r.DropEvents(ctx, keep)
		return err
	})
	if !errors.Is(err, errBusy) {
		t.Error(err)
	}
	path := filepath.Join(dir, "events-20240103.db")
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	dropped, err := r.DropEvents(ctx, keep)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "events-20240103.db") || len(dropped) != 2 {
		t.Error(dropped, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*"+newSuffix)); len(found) > 0 {
		t.Error(found)
	}
}
