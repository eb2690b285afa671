package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/study"
	"github.com/autosched/autosched/workload"
)

// logAfter returns entries of a log after a place: of events, of notes, of both, and of an archive by itself, over
// several days.
func logAfter(at Place, n int) (entries []Entry) {
	for range n {
		i := at.Sequence + 1
		at = Place{Sequence: i, Chain: 31*at.Chain + i}
		e := Entry{Place: at, Time: damageDay.Add(time.Duration(i) * 17 * time.Minute)}
		if isArchive(i) {
			e.Ops = append(e.Ops, ArchiveOp(time.Time{}))
		}
		if hasEvents(i) {
			e.Ops = append(e.Ops, EventsOp("s", []workload.Event{event(fmt.Sprint(i, "/0"), time.Duration(i)),
				event(fmt.Sprint(i, "/1"), time.Duration(i))}))
		}
		if hasNote(i) {
			e.Ops = append(e.Ops, &Op{Note: &audit.Record{Time: e.Time, Resource: "schedulers/s",
				RevisionAfter: int64(i), Origin: audit.Origin{Actor: "alice", Verb: "Test"}}})
		}
		entries = append(entries, e)
	}
	return entries
}

func isArchive(i uint64) bool { return i%40 == 0 }
func hasEvents(i uint64) bool { return !isArchive(i) && i%7 != 0 }
func hasNote(i uint64) bool   { return !isArchive(i) && (i%7 == 0 || i/10%2 == 0) }

// followChild applies a log, some entries at a time, as fast as it can.
func followChild(dir string) {
	r, err := Open(dir, Options{Replica: true})
	for err == nil {
		if _, err = r.Apply(logAfter(r.Place(), 1+rand.IntN(20))...); err == nil {
			fmt.Println("a", r.Place().Sequence)
			if rand.IntN(3) == 0 { // as before an archive
				err = r.Mark()
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}

// notes are the numbers of the notes of a replica, in order.
func notes(r *Store) (out []uint64, err error) {
	c := audit.NewChecker("")
	err = r.Audit(0, false, func(_ int64, line []byte, err error) bool {
		one, _, bad := audit.Parse(line)
		if err = errors.Join(err, bad, c.Add(line)); err == nil && one.RevisionAfter > 0 {
			out = append(out, uint64(one.RevisionAfter))
		}
		return err == nil
	})
	_, end := c.End()
	return out, errors.Join(err, end)
}

// checkReplica goes on with the log from a directory, in other portions, and looks for all of it.
func (a *acked) checkReplica(dir string) error {
	r, err := Open(dir, Options{Replica: true})
	if err != nil {
		return err
	}
	defer r.Close()
	has, _, err := r.logged()
	if err != nil || has < a.entry {
		return fmt.Errorf("entry %d was applied, the directory has %d, %v", a.entry, has, err)
	}
	found, err := notes(r)
	if err != nil {
		return err
	}
	for i := uint64(1); i <= has; i++ {
		if hasNote(i) != slices.Contains(found, i) {
			return fmt.Errorf("the directory has entry %d, it says, and lacks the change of %d", has, i)
		}
	}
	end := has + 60
	for r.Place().Sequence < end {
		if _, err := r.Apply(logAfter(r.Place(), min(1+rand.IntN(50), int(end-r.Place().Sequence)))...); err != nil {
			return err
		}
	}
	if found, err = notes(r); err != nil {
		return err
	}
	var ids, want []string
	var wantNotes []uint64
	damage, err := r.ReplayEvents("", func(_ string, e workload.Event) error { ids = append(ids, e.ID); return nil })
	for i := uint64(1); i <= end; i++ {
		if hasNote(i) {
			wantNotes = append(wantNotes, i)
		}
		if hasEvents(i) {
			want = append(want, fmt.Sprint(i, "/0"), fmt.Sprint(i, "/1"))
		}
	}
	if err != nil || len(damage) > 0 || !slices.Equal(ids, want) || !slices.Equal(found, wantNotes) {
		return fmt.Errorf("from entry %d: events %v, notes %v, %v, %v", has, ids, found, damage, err)
	}
	return nil
}

// A copy whose process ends between the events of entries and their changes says of no entry that was applied that it
// lacks it, whatever the portions that it goes on with.
func TestEndsBetweenEventsAndChanges(t *testing.T) {
	dir := t.TempDir()
	var r *Store
	again := func() {
		if r != nil {
			r.Close()
		}
		var err error
		if r, err = Open(dir, Options{Replica: true}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(want uint64) {
		t.Helper()
		if got, _, err := r.logged(); err != nil || got != want {
			t.Errorf("it has entry %d, want %d; %v", got, want, err)
		}
	}
	apply := func(n int) {
		t.Helper()
		if _, err := r.Apply(logAfter(r.Place(), n)...); err != nil {
			t.Fatal(err)
		}
	}
	events := func(n int) { // of the next entries, and not their changes
		t.Helper()
		entries := logAfter(r.Place(), n)
		var calls []*appendCall
		for _, e := range entries {
			if hasEvents(e.Sequence) {
				all, err := e.Ops[0].Events.events()
				if err != nil {
					t.Fatal(err)
				}
				calls = append(calls, &appendCall{entry: e.Sequence, scheduler: "s", events: all})
			}
		}
		r.replica.applying, r.replica.partial = entries[n-1].Place, true
		r.replica.clock.Store(entries[n-1].Time.UnixNano())
		if err := r.applyEvents(calls); err != nil {
			t.Fatal(err)
		}
		again()
	}
	again()
	apply(9)
	events(9) // 14 has a note
	has(9)
	apply(3)
	has(12)
	apply(6)
	apply(1) // without a note: config.db is at 18
	has(19)
	events(4)
	has(19)
	events(9) // from 19
	has(19)
	r.Close()
	if err := (&acked{entry: 19}).checkReplica(dir); err != nil {
		t.Error(err)
	}
}

// Entries make the same directory however many are applied at a time.
func TestEntriesTogether(t *testing.T) {
	const n = 250
	var want [][]byte
	for _, most := range []int{1, 3, 64, n} {
		r, err := Open(t.TempDir(), Options{Replica: true})
		if err != nil {
			t.Fatal(err)
		}
		for r.Place().Sequence < n {
			entries := logAfter(r.Place(), min(most, n-int(r.Place().Sequence)))
			out, err := r.Apply(entries...)
			ops := 0
			for _, e := range entries {
				ops += len(e.Ops)
			}
			if err != nil || len(out) != ops {
				t.Fatal(len(out), err)
			}
		}
		var lines [][]byte
		if err := r.Audit(0, false, func(_ int64, line []byte, err error) bool {
			lines = append(lines, bytes.Clone(line))
			return err == nil
		}); err != nil {
			t.Fatal(err)
		}
		if want = append(want, nil)[:1]; want[0] == nil {
			want[0] = bytes.Join(lines, nil)
		}
		if got := bytes.Join(lines, nil); !bytes.Equal(got, want[0]) || len(got) == 0 {
			t.Errorf("%d at a time: the audit log differs", most)
		}
		all := acked{entry: n}
		dir := r.dir
		if err := errors.Join(r.Close(), all.checkReplica(dir)); err != nil {
			t.Errorf("%d at a time: %v", most, err)
		}
	}
}

// Events of entries that a commit stored although it was said to fail are not stored again with later ones.
func TestEntriesOfAFailedCommit(t *testing.T) {
	r, err := Open(t.TempDir(), Options{Replica: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const had = 5
	if _, err := r.Apply(logAfter(Place{}, had)...); err != nil {
		t.Fatal(err)
	}
	r.replica.at, r.replica.events = Place{Sequence: 2, Chain: logAfter(Place{}, 2)[1].Chain}, 2
	var calls []*appendCall
	for _, e := range logAfter(r.Place(), 2*had) {
		for _, o := range e.Ops {
			if o.Events != nil {
				events, err := o.Events.events()
				if err != nil {
					t.Fatal(err)
				}
				calls = append(calls, &appendCall{entry: e.Sequence, scheduler: "s", events: events})
			}
		}
		r.replica.applying = e.Place
	}
	if err := r.applyEvents(calls); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	if _, err := r.ReplayEvents("", func(_ string, e workload.Event) error { found[e.ID]++; return nil }); err != nil {
		t.Fatal(err)
	}
	for i := uint64(1); i <= 2+2*had; i++ {
		if n := found[fmt.Sprint(i, "/1")]; hasEvents(i) != (n == 1) || n > 1 {
			t.Errorf("event %d is there %d times", i, n)
		}
	}
	if at, err := r.Cursor("s"); err != nil || at != calls[len(calls)-1].cursor {
		t.Errorf("cursor %q, %v", at, err)
	}
}

// Entries with one whose record this replica cannot read change nothing, and the place stays before them.
func TestEntriesWithADamagedRecord(t *testing.T) {
	r, err := Open(t.TempDir(), Options{Replica: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	apply := func(from uint64, ops ...*Op) error {
		var entries []Entry
		for i, op := range ops {
			entries = append(entries, Entry{Place{Sequence: from + uint64(i)}, damageDay, []*Op{op}})
		}
		_, err := r.Apply(entries...)
		return err
	}
	note := &Op{Note: &audit.Record{Time: damageDay, Resource: "schedulers/s", RevisionAfter: 1,
		Origin: audit.Origin{Actor: "alice", Verb: "Test"}}}
	if err := apply(1, note); err != nil {
		t.Fatal(err)
	}
	if err := r.config.Update(func(tx *bolt.Tx) error {
		b, err := bucket(tx, studiesBucket, "s", "damaged")
		if err != nil {
			return err
		}
		return b.Put(studyKey, []byte("no record"))
	}); err != nil {
		t.Fatal(err)
	}
	bad := &Op{Study: &studies.Change{Scheduler: "s", Study: study.Record{ID: "damaged", UID: "u", Version: 1,
		Spec: study.Spec{Start: json.RawMessage("{}")}}}}
	if err := apply(2, note, bad, note); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a damaged record: %v", err)
	}
	var at storedPlace
	if err := r.viewConfig(func(tx *bolt.Tx) (err error) { at, err = placeIn(tx); return err }); err != nil {
		t.Fatal(err)
	}
	if found, err := notes(r); err != nil || len(found) != 1 || at.Sequence != 1 || r.Place().Sequence != 1 {
		t.Errorf("at entry %d, the file at %d, with notes %v, %v", r.Place().Sequence, at.Sequence, found, err)
	}
}

// The place of entries of events is written before a copy, also after a commit that marked it has failed; an entry
// alone whose change marks it has no other commit, which could fail with the change made.
func TestMark(t *testing.T) {
	r, err := Open(t.TempDir(), Options{Replica: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	place := func() (at storedPlace, tx int) {
		t.Helper()
		if err := r.viewConfig(func(b *bolt.Tx) (err error) {
			tx = b.ID()
			at, err = placeIn(b)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return at, tx
	}
	commits := func(f func() error) int {
		t.Helper()
		_, before := place()
		if err := f(); err != nil {
			t.Fatal(err)
		}
		_, after := place()
		return after - before
	}
	apply := func(sequence uint64, op *Op) func() error {
		return func() error {
			_, err := r.Apply(Entry{Place{Sequence: sequence}, damageDay, []*Op{op}})
			return err
		}
	}
	commits(apply(1, EventsOp("s", []workload.Event{event("1", 1)})))
	fails := errors.New("the disk is full")
	if err := r.update(func(tx *bolt.Tx) error { return errors.Join(r.mark(tx), fails) }); !errors.Is(err, fails) {
		t.Fatal(err)
	}
	commits(r.Mark)
	if at, _ := place(); at.Sequence != 1 {
		t.Errorf("a copy is at entry %d, not 1", at.Sequence)
	}
	if n := commits(r.Mark); n != 0 {
		t.Errorf("%d commits of the same place", n)
	}
	note := commits(apply(2, &Op{Note: &audit.Record{Time: damageDay, Resource: "schedulers/s",
		Origin: audit.Origin{Actor: "alice", Verb: "Test"}}}))
	if n := commits(apply(3, &Op{Purge: &controller.Expired{}})); n != note {
		t.Errorf("an entry alone has %d commits, a note %d", n, note)
	}
	if commits(apply(4, &Op{KeepTexts: &keepTextsOp{Scheduler: "u"}})); r.replica.marked != 4 {
		t.Errorf("an entry alone without a change is not marked: %d", r.replica.marked)
	}
}

// BenchmarkApply applies entries of 50 events and a note, one and many at a time.
func BenchmarkApply(b *testing.B) {
	var events []workload.Event
	for i := range 50 {
		events = append(events, event(fmt.Sprint(i), time.Duration(i)))
	}
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, err := Open(b.TempDir(), Options{Replica: true})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			for b.Loop() {
				var entries []Entry
				for i := range n {
					at := Place{Sequence: r.Place().Sequence + uint64(i) + 1}
					entries = append(entries, Entry{at, damageDay, []*Op{EventsOp("s", events),
						{Note: &audit.Record{Resource: "schedulers/s"}}}})
				}
				if _, err := r.Apply(entries...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}
