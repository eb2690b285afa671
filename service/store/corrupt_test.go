package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// TestDamagedStores damages files at random places, and in all the ways that disks do. Records
// that are read must be as they were written, and the process must survive. AUTOSCHED_DAMAGED is the number
// of stores.
func TestDamagedStores(t *testing.T) {
	testshared.Full(t)
	stores := 80
	tally := testshared.NewTally(t, "AUTOSCHED_DAMAGED", stores)
	ctx, sp, from := context.Background(), testSpace(t), t.TempDir()
	const revisions, events = 20, 300
	for day := range 3 {
		r := openOn(t, from, damageDay.AddDate(0, 0, day))
		for revision := int64(1); day == 0 && revision <= revisions; revision++ {
			if err := r.Commit(ctx, change(t, sp, revision)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range events / 3 {
			at := time.Duration(day*events/3 + i)
			if err := r.AppendEvents(ctx, "s", []workload.Event{event(fmt.Sprint(int64(at)), at)}); err != nil {
				t.Fatal(err)
			}
		}
		_ = r.Close()
	}
	asLayout1(t, from)
	layout1, err := os.ReadFile(filepath.Join(from, configFile))
	if err != nil {
		t.Fatal(err)
	}
	_ = openOn(t, from, damageDay).Close()
	whole := map[string][]byte{}
	for _, name := range []string{configFile, "events-20240301.db", "events-20240302.db", "events-20240303.db"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		whole[name] = data
	}
	silent, refused, quarantined, lostRevisions, lostEvents := 0, 0, 0, 0, 0
	files := slices.Sorted(maps.Keys(whole))
	for i := tally.Done(); tally.Left() > 0; i++ {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		dir := t.TempDir()
		harmed := files[i%len(files)]
		how := ""
		for name, data := range whole {
			if name == configFile && i/len(files)%2 == 1 { // damage that an upgrade finds
				data = layout1
			}
			if name == harmed {
				data, how = harm(rng, append([]byte(nil), data...))
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tally.Add(1)
		r, err := Open(dir, Options{Now: func() time.Time { return damageDay.AddDate(0, 0, 2) }})
		if err != nil {
			if harmed != configFile {
				t.Fatalf("store %d: %v", i, err)
			}
			refused++
			continue
		}
		saved, _, configDamage, err := r.Load()
		switch {
		case err != nil && harmed != configFile:
			t.Fatalf("store %d: %v", i, err)
		case err != nil:
			refused++
		case len(saved) == 0:
			silent++
		case saved[0].Fault != nil:
			quarantined++
		}
		for _, one := range saved {
			if one.Fault == nil && len(one.Configurations) < revisions {
				t.Errorf("store %d, %s, %s: the last revision is %d, and nothing is reported: %v", i, harmed, how,
					len(one.Configurations), configDamage)
			}
			for _, c := range one.Configurations {
				if c.State == rollout.Lost {
					lostRevisions++
				} else if want := change(t, sp, c.Revision).Configurations[0]; !c.Config.Equal(want.Config) {
					t.Errorf("store %d: revision %d is %v", i, c.Revision, c.Config)
				}
			}
		}
		found := 0
		damage, err := r.ReplayEvents("s", func(_ string, e workload.Event) error {
			if found++; e.ID != fmt.Sprint(int64(e.Time)) || e.Job.Tenant != "vc" {
				return fmt.Errorf("event %+v", e)
			}
			return nil
		})
		if err != nil || found > events || found < events*2/3 || harmed == configFile && len(damage) > 0 {
			t.Fatalf("store %d: %d events, %v, %v", i, found, damage, err)
		}
		if found < events && len(damage) == 0 {
			t.Errorf("store %d, %s, %s: %d of %d events, and nothing is reported", i, harmed, how, found, events)
		}
		lostEvents += events - found
		if err := within(t, func() error { return writeOn(t, r, sp, saved, harmed) }); err != nil {
			t.Fatalf("store %d, %s, %s: %v", i, harmed, how, err)
		}
		_ = r.Close()
		_ = os.RemoveAll(dir)
	}
	if silent > 0 {
		t.Errorf("%d stores have no scheduler, and nobody says so", silent)
	}
	t.Logf("%d stores: %d configurations refused, %d schedulers quarantined, %d revisions and %d events lost",
		tally.Here(), refused, quarantined, lostRevisions, lostEvents)
}

// writeOn goes on with a store of which a file was damaged: events and changes may be refused for
// that file alone. It closes the store.
func writeOn(t *testing.T, r *Store, sp *space.Space, saved []controller.Saved, harmed string) error {
	ctx := context.Background()
	for n := range 5 {
		if err := r.AppendEvents(ctx, "s", []workload.Event{event(fmt.Sprint("new", n), time.Hour)}); err != nil &&
			(harmed == configFile || n > 0) { // damage shows at the first
			return fmt.Errorf("event %d: %w", n, err)
		}
		if len(saved) == 1 && saved[0].Fault == nil {
			c := change(t, sp, saved[0].Scheduler.LastRevision+1+int64(n))
			if err := r.Commit(ctx, c); err != nil && harmed != configFile {
				return fmt.Errorf("revision %d: %w", c.Scheduler.LastRevision, err)
			}
		}
	}
	return r.Close()
}

// within fails the test if f does not return.
func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * time.Minute):
		return errors.New("it hangs")
	}
}

// harm damages a file in one of the ways that disks do.
func harm(rng *rand.Rand, data []byte) (harmed []byte, how string) {
	page := rng.IntN(len(data)/4096) * 4096
	flip := func(from, n int) string {
		at := from + rng.IntN(n)
		data[at] ^= 1 << rng.IntN(8)
		return fmt.Sprint("a bit of byte ", at)
	}
	switch rng.IntN(8) {
	case 0:
		how = flip(0, len(data))
	case 1:
		how = flip(page, 32) // the header of a page and its first elements
	case 2:
		clear(data[page : page+4096])
		how = fmt.Sprint("zeros in page ", page/4096)
	case 3:
		data = data[:rng.IntN(len(data))]
		how = fmt.Sprint("cut at ", len(data))
	case 4: // a sector of something else
		sector := rng.IntN(len(data)/512) * 512
		for k := range 512 {
			data[sector+k] = byte(rng.Uint32())
		}
		how = fmt.Sprint("a random sector at ", sector)
	case 5: // pages change places
		other, copied := rng.IntN(len(data)/4096)*4096, slices.Clone(data[page:page+4096])
		copy(data[page:page+4096], data[other:other+4096])
		copy(data[other:other+4096], copied)
		how = fmt.Sprint("pages ", page/4096, " and ", other/4096, " exchanged")
	case 6: // a write that went elsewhere
		other := rng.IntN(len(data)/4096) * 4096
		copy(data[page:page+4096], data[other:other+4096])
		how = fmt.Sprint("page ", page/4096, " is a copy of ", other/4096)
	case 7:
		how = flip(0, 4096) + ", " + flip(4096, 4096) // both meta pages
	}
	return data, how
}
