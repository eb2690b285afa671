package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Run checks that a store keeps the contract of [controller.Store]. open returns a new store and a function that
// closes and opens it again.
func Run(t *testing.T, open func(t *testing.T) (s controller.Store, again func() controller.Store)) {
	for name, check := range map[string]func(*testing.T, controller.Store, func() controller.Store){
		"versions": versions, "revisions": revisions, "dropped revisions": dropped,
		"revisions dropped together": droppedTogether, "deletion": deletion, "events": events, "rounds": rounds, "audit": auditLog, "purge": purge, "concurrent writers": writers,
	} {
		t.Run(name, func(t *testing.T) {
			s, again := open(t)
			check(t, s, again)
		})
	}
}

// change is the change of a scheduler that makes a version, with a revision of the same number.
func change(t *testing.T, id string, version int64) controller.Change {
	t.Helper()
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 1, Max: 9, Default: space.Int(3)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000+version, 0).UTC()
	c := sp.Default()
	return controller.Change{
		Scheduler: controller.Scheduler{Registration: controller.Registration{ID: id, Type: "t", Params: sp.Params(),
			Cluster: workload.Uniform(2, 8)}, UID: "uid-" + id, Version: version, Created: at, Updated: at,
			Records: rollout.Records{Revisions: rollout.Revisions{LastRevision: version, OfferedRevision: version}}},
		Configurations: []*rollout.Configuration{{Scheduler: id, UID: fmt.Sprint("c", version), Revision: version,
			State: rollout.Published, Origin: rollout.FromDefault, Config: c, Hash: c.Hash(), Created: at,
			Updated: at}},
		Request: &controller.Request{ID: fmt.Sprint("r", version), Digest: "d", Scheduler: id},
		Audit:   &audit.Record{Time: at, Origin: audit.Origin{Verb: "Test"}, Resource: "schedulers/" + id},
	}
}

func commit(t *testing.T, s controller.Store, all ...controller.Change) {
	t.Helper()
	for _, c := range all {
		if err := s.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// load returns the schedulers by id and the number of requests. There must be no damage.
func load(t *testing.T, s controller.Store) (map[string]controller.Saved, int) {
	t.Helper()
	saved, requests, damage, err := s.Load()
	if err != nil || len(damage) > 0 {
		t.Fatal(damage, err)
	}
	out := map[string]controller.Saved{}
	for _, one := range saved {
		out[one.Scheduler.ID] = one
	}
	return out, len(requests)
}

// records counts the records of the audit log, which must be unbroken.
func records(t *testing.T, s controller.Store) (n int64) {
	t.Helper()
	c := audit.NewChecker("")
	if err := s.Audit(0, false, func(place int64, line []byte, err error) bool {
		if n++; place != n {
			t.Errorf("record %d is at %d", n, place)
		}
		if err = errors.Join(err, c.Add(line)); err != nil {
			t.Error(err)
		}
		return true
	}); err != nil {
		t.Error(err)
	}
	return n
}

// versions: a change that does not follow the stored version leaves nothing.
func versions(t *testing.T, s controller.Store, again func() controller.Store) {
	commit(t, s, change(t, "a", 1), change(t, "a", 2), change(t, "b", 1))
	for range 2 {
		for _, version := range []int64{0, 1, 2, 4} {
			late := change(t, "a", version)
			late.Configurations = change(t, "a", 3).Configurations
			late.Request.ID = "late"
			if err := s.Commit(t.Context(), late); !errors.Is(err, controller.ErrStale) {
				t.Errorf("version %d after 2: %v", version, err)
			}
		}
		if err := s.Commit(t.Context(), change(t, "new", 2)); !errors.Is(err, controller.ErrStale) {
			t.Errorf("version 2 of a new scheduler: %v", err)
		}
		got, requests := load(t, s)
		if a := got["a"]; len(got) != 2 || a.Scheduler.Version != 2 || len(a.Configurations) != 2 || a.Fault != nil {
			t.Errorf("%d schedulers, %+v", len(got), a)
		}
		if n := records(t, s); n != 3 || requests != 3 {
			t.Errorf("%d audit records and %d requests of 3 changes", n, requests)
		}
		s = again()
	}
	commit(t, s, change(t, "a", 3))
}

// revisions are numbered without gaps and keep their values.
func revisions(t *testing.T, s controller.Store, again func() controller.Store) {
	commit(t, s, change(t, "a", 1))
	for what, edit := range map[string]func(*rollout.Configuration){
		"a gap":        func(c *rollout.Configuration) { c.Revision = 3 },
		"below 1":      func(c *rollout.Configuration) { c.Revision = 0 },
		"another uid":  func(c *rollout.Configuration) { c.Revision, c.UID = 1, "other" },
		"another hash": func(c *rollout.Configuration) { c.Revision, c.UID, c.Hash = 1, "c1", "other" },
	} {
		c := change(t, "a", 2)
		edit(c.Configurations[0])
		if err := s.Commit(t.Context(), c); err == nil || errors.Is(err, controller.ErrStale) {
			t.Errorf("%s: %v", what, err)
		}
	}
	c := change(t, "a", 2)
	rolledOut := *change(t, "a", 1).Configurations[0]
	rolledOut.State = rollout.RolledOut
	c.Configurations = append(c.Configurations, &rolledOut)
	commit(t, s, c)
	got, _ := load(t, again())
	if all := got["a"].Configurations; len(all) != 2 || all[0].State != rollout.RolledOut ||
		all[1].State != rollout.Published || !all[1].Config.Equal(c.Configurations[0].Config) {
		t.Errorf("%+v", got["a"])
	}
}

// dropped revisions are neither there nor lost, whichever are dropped and change later.
func dropped(t *testing.T, s controller.Store, again func() controller.Store) {
	for version := int64(1); version <= 7; version++ {
		c := change(t, "a", version)
		c.Dropped = map[int64][]int64{4: {2}, 6: {4, 3}}[version]
		if version == 7 { // the ones beside the gap change
			for _, n := range []int64{1, 5} {
				old := *change(t, "a", n).Configurations[0]
				old.State = rollout.Superseded
				c.Configurations = append(c.Configurations, &old)
			}
		}
		commit(t, s, c)
	}
	s = again()
	var left []string
	got, _ := load(t, s)
	for _, c := range got["a"].Configurations {
		left = append(left, fmt.Sprint(c.Revision, c.State))
	}
	if want := []string{"1superseded", "5superseded", "6published", "7published"}; !slices.Equal(left, want) {
		t.Errorf("%v, want %v", left, want)
	}
	late := change(t, "a", 8)
	late.Configurations = change(t, "a", 3).Configurations
	if err := s.Commit(t.Context(), late); err == nil {
		t.Error("a dropped revision is made again")
	}
}

// droppedTogether: one change drops runs of many revisions.
func droppedTogether(t *testing.T, s controller.Store, again func() controller.Store) {
	first := change(t, "a", 1)
	var want []int64
	for n := int64(1); n <= 300; n++ {
		one := change(t, "a", n)
		if first.Scheduler.Records = one.Scheduler.Records; n > 1 {
			first.Configurations = append(first.Configurations, one.Configurations...)
		}
		want = append(want, n)
	}
	commit(t, s, first)
	for i, drops := range []func(int64) bool{ // the second joins gaps of the first
		func(n int64) bool { return n > 1 && n <= 200 || n > 210 && n < 300 && n != 250 },
		func(n int64) bool { return n > 200 && n <= 210 },
	} {
		c := change(t, "a", int64(i)+2)
		c.Scheduler.Records, c.Configurations = first.Scheduler.Records, nil
		want = slices.DeleteFunc(want, func(n int64) bool {
			if drops(n) {
				c.Dropped = append(c.Dropped, n)
			}
			return drops(n)
		})
		commit(t, s, c)
		s = again()
		var left []int64
		got, _ := load(t, s)
		for _, c := range got["a"].Configurations {
			if c.State == rollout.Published {
				left = append(left, c.Revision)
			}
		}
		if n := len(got["a"].Configurations); n != len(want) || !slices.Equal(left, want) {
			t.Errorf("%d, of which %v are not lost, want %v", n, left, want)
		}
	}
}

// deletion stands beside the record, and ends with the next change of it.
func deletion(t *testing.T, s controller.Store, again func() controller.Store) {
	commit(t, s, change(t, "a", 1))
	at := time.Unix(1_800_000_000, 0).UTC()
	c := change(t, "a", 9)
	c.Deletion = &controller.Deletion{Deleted: at, Expires: at.Add(time.Hour)}
	commit(t, s, c)
	s = again()
	if got, _ := load(t, s); !got["a"].Scheduler.Deleted.Equal(at) || got["a"].Scheduler.Version != 1 {
		t.Errorf("%+v", got["a"].Scheduler)
	}
	commit(t, s, change(t, "a", 2))
	if got, _ := load(t, again()); !got["a"].Scheduler.Deleted.IsZero() {
		t.Errorf("%+v", got["a"].Scheduler)
	}
}

func event(id string, at time.Duration) workload.Event {
	return workload.Event{ID: id, Kind: workload.Submitted, Time: at, Job: workload.Job{ID: id, GPUs: workload.GPUs(1)}}
}

// events come back in order of time, and up to a cursor as they were then.
func events(t *testing.T, s controller.Store, again func() controller.Store) {
	if at, err := s.Cursor("a"); at != "" || err != nil {
		t.Errorf("cursor %q, %v", at, err)
	}
	add := func(scheduler string, all ...workload.Event) {
		if err := s.AppendEvents(t.Context(), scheduler, all); err != nil {
			t.Fatal(err)
		}
	}
	add("a", event("2", 2), event("1", 1))
	cursor, err := s.Cursor("a")
	if err != nil || cursor == "" {
		t.Fatal(cursor, err)
	}
	add("a", event("0", 0))
	add("b", event("x", 5))
	s = again()
	for only, want := range map[string][]string{"a": {"a0", "a1", "a2"}, "": {"a0", "a1", "a2", "bx"}, "c": nil} {
		var got []string
		damage, err := s.ReplayEvents(only, func(id string, e workload.Event) error {
			got = append(got, id+e.ID)
			return nil
		})
		if err != nil || len(damage) > 0 || !slices.Equal(got, want) {
			t.Errorf("of %q %v, %v, %v", only, got, damage, err)
		}
	}
	var got []string
	unread, err := s.EventsUntil("a", cursor, func(e workload.Event) error { got = append(got, e.ID); return nil })
	if err != nil || unread != nil || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("until %s: %v, %v, %v", cursor, got, unread, err)
	}
	stop := errors.New("stop")
	if _, err := s.ReplayEvents("", func(string, workload.Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the callback is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AppendEvents(ended, "a", []workload.Event{event("9", 9)}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// rounds are kept up to a number, newest first, and replaced by sequence.
func rounds(t *testing.T, s controller.Store, again func() controller.Store) {
	for n := range int64(5) {
		for _, text := range []string{"first", fmt.Sprint("round ", n+1)} {
			if err := s.KeepRound("u", n+1, []byte(text), 3); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = again()
	for before, want := range map[int64][]string{0: {"round 5", "round 4", "round 3"}, 5: {"round 4", "round 3"},
		3: nil} {
		var got []string
		err := s.Rounds("u", before, func(_ int64, record []byte, err error) bool {
			got = append(got, string(record))
			return err == nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("before %d: %q, %v", before, got, err)
		}
	}
}

// auditLog: the log is read from a place on, and back from one.
func auditLog(t *testing.T, s controller.Store, again func() controller.Store) {
	commit(t, s, change(t, "a", 1), change(t, "b", 1), change(t, "a", 2))
	if err := s.Note(t.Context(), audit.Record{Resource: "schedulers/b"}); err != nil {
		t.Fatal(err)
	}
	s = again()
	if n := records(t, s); n != 4 {
		t.Errorf("%d records", n)
	}
	for _, tc := range []struct {
		from        int64
		newestFirst bool
		want        []int64
	}{{0, true, []int64{4, 3, 2, 1}}, {3, true, []int64{3, 2, 1}}, {3, false, []int64{3, 4}}, {9, false, nil}} {
		var got []int64
		err := s.Audit(tc.from, tc.newestFirst, func(place int64, _ []byte, err error) bool {
			got = append(got, place)
			return err == nil
		})
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("from %d, newest first %v: %v, %v", tc.from, tc.newestFirst, got, err)
		}
	}
}

// purge leaves nothing of a scheduler but the audit log, and removes the requests that it names.
func purge(t *testing.T, s controller.Store, again func() controller.Store) {
	commit(t, s, change(t, "a", 1), change(t, "b", 1))
	if err := errors.Join(s.AppendEvents(t.Context(), "a", []workload.Event{event("1", 1)}),
		s.KeepRound("uid-a", 1, []byte("x"), 9),
		s.Remember(t.Context(), controller.Request{ID: "r1", Digest: "d"})); err != nil {
		t.Fatal(err)
	}
	end := &audit.Record{Origin: audit.Origin{Verb: audit.Purge}, Resource: "schedulers/a"}
	err := s.Purge(t.Context(), controller.Expired{Scheduler: "a", UID: "uid-a", Audit: end,
		Requests: []controller.RequestKey{{Scheduler: "a", ID: "r1"}}})
	if err != nil {
		t.Fatal(err)
	}
	s = again()
	got, requests := load(t, s)
	if _, there := got["a"]; there || len(got) != 1 || requests != 2 {
		t.Errorf("%v, %d requests", got, requests)
	}
	left := 0
	count := func(string, workload.Event) error { left++; return nil }
	if _, err := s.ReplayEvents("", count); err != nil || left > 0 {
		t.Errorf("%d events, %v", left, err)
	}
	err = s.Rounds("uid-a", 0, func(int64, []byte, error) bool { left++; return true })
	if at, cursorErr := s.Cursor("a"); err != nil || cursorErr != nil || left > 0 || at != "" {
		t.Errorf("%d rounds, %v, cursor %q, %v", left, err, at, cursorErr)
	}
	commit(t, s, change(t, "a", 1))
	if n := records(t, s); n != 4 {
		t.Errorf("%d records", n)
	}
}

// writers: of several changes that make one version, one is made.
func writers(t *testing.T, s controller.Store, again func() controller.Store) {
	const rounds, each = 5, 8
	for version := range int64(rounds) {
		var all sync.WaitGroup
		errs := make([]error, 2*each)
		for i := range errs {
			c := change(t, fmt.Sprint("s", i%2), version+1)
			all.Go(func() { errs[i] = s.Commit(t.Context(), c) })
		}
		all.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else if !errors.Is(err, controller.ErrStale) {
				t.Error(err)
			}
		}
		if made != 2 {
			t.Fatalf("%d changes of 2 schedulers made version %d", made, version+1)
		}
	}
	s = again()
	if got, _ := load(t, s); got["s0"].Scheduler.Version != rounds || got["s1"].Scheduler.Version != rounds {
		t.Errorf("%+v", got)
	}
	if n := records(t, s); n != 2*rounds {
		t.Errorf("%d audit records", n)
	}
}
