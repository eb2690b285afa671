package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/workload"
)

func submitted(id string) workload.Event {
	return workload.Event{ID: id, Kind: workload.Submitted, Job: workload.Job{ID: id, GPUs: workload.GPUs(1)}}
}

// add stores events of scheduler "a" with ids from a number on.
func add(t *testing.T, s *Store, from, n int) {
	t.Helper()
	for i := range n {
		if err := s.AppendEvents(t.Context(), "a", []workload.Event{submitted(fmt.Sprint(from + i))}); err != nil {
			t.Fatal(err)
		}
	}
}

// ids are the events of a replica, which must not have one twice.
func ids(t *testing.T, r *Replica) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	damage, err := r.store.ReplayEvents("", func(_ string, e workload.Event) error {
		if out[e.ID] {
			t.Errorf("event %s is there twice", e.ID)
		}
		out[e.ID] = true
		return nil
	})
	if err != nil || len(damage) > 0 {
		t.Fatal(damage, err)
	}
	return out
}

// follow runs a replica, and returns a function that ends it.
func follow(t *testing.T, r *Replica) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// A leader that another one followed stores nothing, and says so, whatever it knows.
func TestDeposedLeaderIsRefused(t *testing.T) {
	e := start(t, t.TempDir())
	first, second := openReplica(t, e, Options{}), openReplica(t, e, Options{})
	old := lead(t, first, 1)
	add(t, old, 0, 3)
	present := lead(t, second, 2)
	if err := old.Note(t.Context(), audit.Record{Resource: "schedulers/a"}); !errors.Is(err, ErrDeposed) ||
		!errors.Is(err, store.ErrClosed) {
		t.Errorf("a deposed leader's write: %v", err)
	}
	select {
	case <-old.Done():
	default:
		t.Error("it does not know that it is deposed")
	}
	if err := old.AppendEvents(t.Context(), "a", []workload.Event{submitted("late")}); !errors.Is(err, ErrDeposed) {
		t.Errorf("its next write: %v", err)
	}
	if h, _ := old.Health(); !errors.Is(h.Changes, ErrDeposed) {
		t.Errorf("its health: %+v", h)
	}
	add(t, present, 3, 2)
	if got := ids(t, second); len(got) != 5 || got["late"] {
		t.Errorf("events %v", got)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Lead(t.Context(), 2); !errors.Is(err, ErrDeposed) {
		t.Errorf("a second leader of term 2: %v", err)
	}
	if err := present.Close(); err != nil {
		t.Fatal(err)
	}
	add(t, lead(t, first, 3), 5, 1)
	if got := ids(t, first); len(got) != 6 {
		t.Errorf("events %v", got)
	}
}

// A replica follows while another node leads, and has the same records.
func TestReplicaFollows(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	r := openReplica(t, e, Options{})
	stop := follow(t, r)
	add(t, s, 0, 20)
	for i := range 5 {
		if err := s.Note(t.Context(), audit.Record{Resource: fmt.Sprint("schedulers/", i%2)}); err != nil {
			t.Fatal(err)
		}
	}
	last, _, _ := s.r.Position()
	eventually(t, "the replica does not follow", func() bool {
		applied, known, _ := r.Position()
		return applied == last && known == last
	})
	if got := ids(t, r); len(got) != 20 {
		t.Errorf("events %v", got)
	}
	lines := func(r *Replica) (out string) {
		if err := r.store.Audit(0, false, func(place int64, line []byte, err error) bool {
			out += fmt.Sprintln(place, string(line), err)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if a, b := lines(s.r), lines(r); a != b || a == "" {
		t.Errorf("audit log\n%s\nof the leader, and of the replica\n%s", a, b)
	}
	if s.Epoch() != r.store.Epoch() || s.Epoch().Counter == 0 || string(s.Secret()) != string(r.store.Secret()) {
		t.Errorf("epochs %+v, %+v", s.Epoch(), r.store.Epoch())
	}
	if a, b := cursor(t, s.r), cursor(t, r); a != b {
		t.Errorf("cursors %s, %s", a, b)
	}
	// It takes over while it follows, and follows again.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	next := lead(t, r, 2)
	add(t, next, 20, 1)
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	third := lead(t, s.r, 3)
	add(t, third, 21, 1)
	eventually(t, "the replica does not follow again", func() bool { return ids(t, r)["21"] })
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func cursor(t *testing.T, r *Replica) string {
	t.Helper()
	at, err := r.store.Cursor("a")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A process that ends between the parts of an entry applies the rest once: the image of a directory at any time goes on
// with the log.
func TestReplicaGoesOnFromAnyImage(t *testing.T) {
	e := start(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "replica")
	s := lead(t, openReplica(t, e, Options{Dir: dir}), 1)
	var images []string
	for i := range 30 {
		done := make(chan error, 2)
		go func() { done <- s.AppendEvents(t.Context(), "a", []workload.Event{submitted(fmt.Sprint(i))}) }()
		go func() { done <- s.Note(t.Context(), audit.Record{Resource: "schedulers/a"}) }()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
		if i%5 == 2 { // nothing is written now; a copy without its config.db's last pages is no image of a crash
			image := filepath.Join(t.TempDir(), "replica")
			if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			images = append(images, image)
		}
	}
	// Events without a change after them: config.db does not have the place.
	add(t, s, 30, 7)
	image := filepath.Join(t.TempDir(), "replica")
	if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, image := range append(images, image) {
		r := openReplica(t, e, Options{Dir: image})
		stream, err := e.js.Stream(t.Context(), logStream)
		if err == nil {
			err = r.catchUp(t.Context(), stream)
		}
		if err != nil {
			t.Fatal(err)
		}
		notes := 0
		if err := r.store.Audit(0, false, func(int64, []byte, error) bool { notes++; return true }); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, r); len(got) != 37 || notes != 30 {
			t.Errorf("%d events, %d notes", len(got), notes)
		}
	}
}

// A replica that lacks many entries applies those at hand together, as it follows and as it takes over; a process that
// ends in the middle goes on.
func TestReplicaCatchesUpTogether(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	const n = 300
	write := func(from, to int) {
		for i := from; i < to; i++ {
			add(t, s, i, 1)
			if err := s.Note(t.Context(), audit.Record{Resource: "schedulers/a"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0, n/2)
	dir := filepath.Join(t.TempDir(), "replica")
	r := openReplica(t, e, Options{Dir: dir})
	stream, err := e.js.Stream(t.Context(), logStream)
	if err == nil {
		err = r.catchUp(t.Context(), stream)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := commits(t, r); got > n/10 {
		t.Errorf("%d commits of %d entries while it takes over", got, n)
	}
	half := filepath.Join(t.TempDir(), "replica") // config.db of before the commits, segments of after them
	if err := os.CopyFS(half, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	write(n/2, n)
	r.applying.Lock() // until all have arrived
	stop := follow(t, r)
	last, _, _ := s.r.Position()
	eventually(t, "the log is not read", func() bool { _, known, _ := r.Position(); return known == last })
	time.Sleep(100 * time.Millisecond)
	before := commits(t, r)
	r.applying.Unlock()
	eventually(t, "the replica does not follow", func() bool { at, _, _ := r.Position(); return at == last })
	if got := commits(t, r) - before; got > n/5 {
		t.Errorf("%d commits of %d entries while it follows", got, n)
	}
	if err := errors.Join(stop(), r.Close()); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "events-*"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	for _, from := range segments {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(half, filepath.Base(from)), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(n, n+n/2)
	r = openReplica(t, e, Options{Dir: half})
	if err := r.catchUp(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	count := 0
	if err := r.store.Audit(0, false, func(int64, []byte, error) bool { count++; return true }); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, r); len(got) != n+n/2 || count != n+n/2 || r.store.Place() != s.r.store.Place() {
		t.Errorf("%d events, %d notes of %d, at %v of %v", len(got), count, n+n/2, r.store.Place(), s.r.store.Place())
	}
}

// commits counts those of a replica.
func commits(t *testing.T, r *Replica) (n uint64) {
	t.Helper()
	all := prometheus.NewRegistry()
	all.MustRegister(r.store)
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			n += m.GetHistogram().GetSampleCount()
		}
	}
	return n
}

// A replica that is damaged, behind the archive, or has entries that the log has not is made anew.
func TestReplicaIsMadeAnew(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, s *Store, dir string){
		"damaged": func(t *testing.T, _ *Store, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, store.ConfigFile), os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt(make([]byte, 64<<10), 0)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"config.db lost": func(t *testing.T, _ *Store, dir string) {
			if err := os.Remove(filepath.Join(dir, store.ConfigFile)); err != nil {
				t.Fatal(err)
			}
		},
		"behind": func(t *testing.T, s *Store, _ string) {
			add(t, s, 10, 5)
			if err := s.r.Archive(t.Context()); err != nil {
				t.Fatal(err)
			}
			add(t, s, 15, 5)
		},
		"ahead": func(t *testing.T, _ *Store, dir string) {
			r, err := store.Open(dir, store.Options{Replica: true})
			if err == nil {
				at := r.Place()
				_, err = r.Apply(store.Entry{Place: store.Place{Sequence: at.Sequence + 1, Chain: 7}, Time: time.Now(),
					Ops: []*store.Op{store.EventsOp("a", []workload.Event{submitted("lost")}),
						{Note: &audit.Record{Resource: "schedulers/a"}}}})
				err = errors.Join(err, r.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, t.TempDir())
			s := lead(t, openReplica(t, e, Options{}), 1)
			dir := filepath.Join(t.TempDir(), "replica")
			r := openReplica(t, e, Options{Dir: dir})
			stop := follow(t, r)
			add(t, s, 0, 10)
			eventually(t, "the replica does not follow", func() bool { return len(ids(t, r)) == 10 })
			if err := errors.Join(stop(), r.Close()); err != nil {
				t.Fatal(err)
			}
			harm(t, s, dir)
			again := openReplica(t, e, Options{Dir: dir})
			defer follow(t, again)()
			add(t, s, 100, 2)
			last, _, _ := s.r.Position()
			eventually(t, "the replica does not follow again", func() bool {
				applied, _, _ := again.Position()
				return applied == last
			})
			if a, b := len(ids(t, s.r)), ids(t, again); len(b) != a || b["lost"] {
				t.Errorf("%d events, want %d", len(b), a)
			}
			if _, err := os.Stat(dir + damaged); err != nil {
				t.Error(err)
			}
		})
	}
}

// A log that no replica can follow costs no records: the replica, or the one that was set aside first, is kept.
func TestDamagedLogKeepsTheReplica(t *testing.T) {
	for name, damage := range map[string]func(s *Store) []byte{
		"entry": func(s *Store) []byte {
			text, _ := (&entry{Term: 1, Prev: s.at.Sequence, Time: time.Now()}).encode(
				[]json.RawMessage{[]byte("null")}, s.at.Chain)
			return text
		},
		"chain": func(s *Store) []byte {
			text, _ := (&entry{Term: 1, Prev: s.at.Sequence, Time: time.Now()}).encode(nil, s.at.Chain+1)
			return text
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, t.TempDir())
			s := lead(t, openReplica(t, e, Options{}), 1)
			add(t, s, 0, 3)
			if err := s.r.Archive(t.Context()); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "replica")
			r := openReplica(t, e, Options{Dir: dir})
			if err := os.WriteFile(filepath.Join(dir, "first"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := e.js.Publish(t.Context(), subject(""), damage(s)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // a start does not forget
				tries := &tries{Handler: testLog(t).Handler()}
				r.o.Log = slog.New(tries)
				stop := follow(t, r)
				time.Sleep(1500 * time.Millisecond)
				if err := stop(); err != nil {
					t.Error(err)
				}
				if n := tries.n.Load(); n < 1 || n > 5 {
					t.Errorf("%d messages in 1.5 s", n)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				r = openReplica(t, e, Options{Dir: dir})
			}
			_, kept := os.Stat(filepath.Join(dir, "first"))
			_, aside := os.Stat(filepath.Join(dir+damaged, "first"))
			if kept != nil && aside != nil {
				t.Error("the replica is gone:", kept, aside)
			}
		})
	}
}

// tries counts the errors that are logged.
type tries struct {
	slog.Handler
	n atomic.Int64
}

func (h *tries) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelError {
		h.n.Add(1)
	}
	return h.Handler.Handle(ctx, r)
}

// A replica that cannot be made anew yet, as the archive is not read, is made anew later.
func TestReplicaIsMadeAnewLater(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	r := openReplica(t, e, Options{})
	add(t, s, 0, 5)
	if err := s.r.Archive(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, s, 5, 1)
	objects, err := e.snapshots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := archivesOf(t.Context(), objects)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	whole, err := objects.GetBytes(t.Context(), all[0].name)
	if err == nil {
		_, err = objects.PutString(t.Context(), all[0].name, "no archive")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.remake(t.Context(), errBehind); err == nil {
		t.Fatal("a replica is made of no archive")
	}
	if got := ids(t, r); len(got) != 0 { // it is open as it was
		t.Errorf("events %v", got)
	}
	if _, err := objects.PutBytes(t.Context(), all[0].name, whole); err != nil {
		t.Fatal(err)
	}
	// The archive of a node that ended before it had checked it is left out.
	if _, err := objects.PutString(t.Context(), archivePrefix+"999999", "no archive"); err != nil {
		t.Fatal(err)
	}
	defer follow(t, r)()
	last, _, _ := s.r.Position()
	eventually(t, "the replica does not follow again", func() bool { at, _, _ := r.Position(); return at == last })
}

// Temporary files of a process that was killed are removed by the next one.
func TestTemporaryFilesAreRemoved(t *testing.T) {
	e := start(t, t.TempDir())
	home := t.TempDir()
	for _, pattern := range []string{archiveTemp, moveTemp} {
		if temp, err := os.MkdirTemp(home, pattern); err != nil {
			t.Fatal(err)
		} else if err := os.WriteFile(filepath.Join(temp, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(home, "replica")
	if err := os.Mkdir(dir+anew, 0o700); err != nil {
		t.Fatal(err)
	}
	openReplica(t, e, Options{Dir: dir})
	if left, err := os.ReadDir(home); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
}

// A replica with entries that the servers do not know of stays as it is, and does not lead: they were acknowledged.
func TestReplicaAheadIsKept(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	add(t, s, 0, 3)
	dir := filepath.Join(t.TempDir(), "replica")
	if err := errors.Join(s.Close(), s.r.store.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(s.r.o.Dir)); err != nil {
		t.Fatal(err)
	}
	stale := start(t, t.TempDir()) // knows of none
	r := openReplica(t, stale, Options{Dir: dir})
	stop := follow(t, r)
	time.Sleep(200 * time.Millisecond)
	if _, err := r.Lead(t.Context(), 2); !errors.Is(err, errAhead) {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := ids(t, r); len(got) != 3 {
		t.Errorf("events %v", got)
	}
	if _, err := os.Stat(dir + damaged); err == nil {
		t.Error("the replica is made anew")
	}
}

// A node ends when its embedded server has ended its storage.
func TestLostEngineEndsTheNode(t *testing.T) {
	e := start(t, t.TempDir())
	r := openReplica(t, e, Options{})
	s := lead(t, r, 1)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(t.Context()) }()
	if err := e.server.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, ErrEngine) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it goes on")
	}
	_ = s.Close()
}

// An entry that this program would read incompletely ends the replica, and is not applied.
func TestNewerEntryIsRefused(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	r := openReplica(t, e, Options{})
	newer := entry{Term: 1, Prev: s.at.Sequence, Time: time.Now(), Reader: 1000}
	text, _ := newer.encode(nil, s.at.Chain)
	if _, err := e.js.Publish(t.Context(), subject(""), text); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); !errors.Is(err, store.ErrNewer) {
		t.Error(err)
	}
	if _, err := r.Lead(t.Context(), 2); !errors.Is(err, store.ErrNewer) {
		t.Error(err)
	}
}

// A replica is served by no program that does not follow the log, and a backup of it can be.
func TestReplicaIsNoStore(t *testing.T) {
	e := start(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "replica")
	r := openReplica(t, e, Options{Dir: dir})
	s := lead(t, r, 1)
	add(t, s, 0, 5)
	archive, err := os.Create(filepath.Join(t.TempDir(), "backup"))
	if err == nil {
		_, err = s.Backup(t.Context(), archive)
	}
	if err == nil {
		_, err = archive.Seek(0, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	epoch := s.Epoch()
	if err := errors.Join(s.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(dir, store.Options{}); !errors.Is(err, store.ErrReplica) ||
		!strings.Contains(err.Error(), "restore") {
		t.Error(err)
	}
	plain := t.TempDir()
	if _, err := store.Restore(archive, plain); err != nil {
		t.Fatal(err)
	}
	back, err := store.Open(plain, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	n := 0
	if _, err := back.ReplayEvents("a", func(string, workload.Event) error { n++; return nil }); err != nil || n != 5 {
		t.Error(n, err)
	}
	if e := back.Epoch(); e.Counter <= epoch.Counter || e.ID == epoch.ID {
		t.Errorf("epoch %+v after %+v", e, epoch)
	}
	var _ controller.Store = back
	if _, err := Open(t.Context(), e, Options{Dir: plain}); !errors.Is(err, store.ErrReplica) &&
		!errors.Is(err, store.ErrLocked) {
		t.Error(err)
	}
}

// A replica does not know how far it is behind before the log's leader says so, and says it while nothing is applied.
func TestLagIsKnownOnceTheLogAnswers(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	r := openReplica(t, e, Options{})
	add(t, s, 0, 5)
	if lag, known := r.Lag(); known {
		t.Errorf("a lag of %d is known, and nobody was asked", lag)
	}
	r.applying.Lock()
	stop := follow(t, r)
	eventually(t, "the lag is not known", func() bool {
		lag, known := r.Lag()
		return known && lag >= 5
	})
	r.applying.Unlock()
	eventually(t, "the replica does not follow", func() bool {
		lag, known := r.Lag()
		return known && lag == 0 && len(ids(t, r)) == 5
	})
	r.known.Store(1000) // of a server that had entries which the others do not have
	eventually(t, "a former end of the log counts", func() bool {
		lag, known := r.Lag()
		return known && lag == 0
	})
	if err := stop(); err != nil {
		t.Error(err)
	}
	r.asked.Store(new(time.Time))
	if _, known := r.Lag(); known {
		t.Error("an old answer counts")
	}
}

// A replica to which a consumer delivers nothing more reads on by another one.
func TestSilentConsumerIsReplaced(t *testing.T) {
	e := start(t, t.TempDir())
	s := lead(t, openReplica(t, e, Options{}), 1)
	r := openReplica(t, e, Options{})
	stop := follow(t, r)
	add(t, s, 0, 5)
	eventually(t, "the replica does not follow", func() bool { return len(ids(t, r)) == 5 })
	r.mu.Lock()
	turn := r.stop
	r.mu.Unlock()
	r.again()
	add(t, s, 5, 5)
	eventually(t, "the replica does not follow again", func() bool { return len(ids(t, r)) == 10 })
	r.mu.Lock()
	if r.leading || turn == nil {
		t.Error("it does not follow by turns")
	}
	r.mu.Unlock()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A leader whose process was started again, and whose clock is behind, goes on after the last entry.
func TestTimeGoesOnAfterAStart(t *testing.T) {
	e := start(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "replica")
	first := openReplica(t, e, Options{Dir: dir})
	s := lead(t, first, 5)
	add(t, s, 0, 3)
	last := first.last
	if err := errors.Join(s.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	again := openReplica(t, e, Options{Dir: dir, Now: func() time.Time { return time.Now().Add(-26 * time.Hour) }})
	if _, err := again.Lead(t.Context(), 5); !errors.Is(err, ErrDeposed) {
		t.Errorf("a second leader of term 5: %v", err)
	}
	add(t, lead(t, again, 6), 3, 1)
	if !again.last.After(last) {
		t.Errorf("an entry of %v after one of %v", again.last, last)
	}
}
