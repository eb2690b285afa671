package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

var testParams = []space.Param{
	{ID: "queues", Kind: space.KindInt, Min: 1, Max: 4, Default: space.Int(2)},
	{ID: "thresholds", Kind: space.KindFloat, Min: 1, Max: 1e6, Log: true,
		Array: &space.Array{Length: "queues", Offset: -1, Max: 3}, Default: space.Nums(100)},
	{ID: "order", Kind: space.KindCategorical, Categories: []string{"a", "b"}, Default: space.Text("a")},
}

func open(t testing.TB, dir string) *Store {
	t.Helper()
	r, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// Records is the store of a test that runs on every store of the service. OpenRecords opens it, and RecordsOf returns
// where it keeps its files.
type Records interface {
	controller.Store
	studies.Store
	workloads.Store
	Backup(ctx context.Context, out io.Writer) (*Manifest, error)
	Close() error
}

var (
	OpenRecords func(dir string, o Options) (Records, error)
	RecordsOf   func(dir string) string
)

func openRecords(t testing.TB, dir string, o Options) Records {
	t.Helper()
	r, err := OpenRecords(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// change is a registration of "s" whose newest revision is given.
func change(t testing.TB, sp *space.Space, revision int64) controller.Change {
	t.Helper()
	// The values follow from the revision, so that a reader can check them.
	c, err := sp.Parse(sp.Default(), []string{"queues=2", fmt.Sprintf("thresholds=%d", 1+revision%1000)})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000+revision, 0).UTC()
	return controller.Change{
		Scheduler: controller.Scheduler{Registration: controller.Registration{ID: "s", Type: "t",
			Params: sp.Params(), Rules: sp.Rules(), Cluster: workload.Uniform(20, 8)},
			UID: "u", Version: revision, Created: at, Updated: at,
			Records: rollout.Records{
				Revisions: rollout.Revisions{LastRevision: revision, OfferedRevision: revision}}},
		Configurations: []*rollout.Configuration{{
			Scheduler: "s", UID: fmt.Sprint("c", revision), Revision: revision, State: rollout.Published,
			Origin: rollout.FromTuning,
			Config: c, Hash: c.Hash(), Created: at, Updated: at, Reason: "test",
		}},
	}
}

func testSpace(t testing.TB) *space.Space {
	t.Helper()
	sp, err := space.New(testParams, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sp
}

func event(id string, at time.Duration) workload.Event {
	return workload.Event{ID: id, Kind: workload.Submitted, Time: at,
		Job: workload.Job{ID: "job-" + id, User: "u", Tenant: "vc", Key: "k", GPUs: workload.GPUs(2)}}
}

func TestWhatWasCommittedIsLoaded(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, dir, sp := context.Background(), t.TempDir(), testSpace(t)
	r := open(t, dir)
	first, second := change(t, sp, 1), change(t, sp, 2)
	first.Request = &controller.Request{ID: "r1", Digest: "d", Scheduler: "s"}
	acked := *first.Configurations[0]
	acked.Ack, acked.State = &rollout.Ack{State: rollout.AckPartial,
		Effective: map[string]space.Value{"thresholds": space.Nums(7)}}, rollout.RolledOut
	second.Configurations = append(second.Configurations, &acked)
	for _, c := range []controller.Change{first, second} {
		if err := r.Commit(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(ctx, first); !errors.Is(err, ErrClosed) {
		t.Errorf("commit after close: %v", err)
	}
	if err := r.AppendEvents(ctx, "s", []workload.Event{event("1", 0)}); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}

	r = open(t, dir)
	saved, requests, _, err := r.Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(saved) != 1 || len(saved[0].Configurations) != 2 || len(requests) != 1 || requests[0] != *first.Request {
		t.Fatalf("loaded %+v, %+v", saved, requests)
	}
	got := saved[0].Configurations
	if got[0].State != rollout.RolledOut || got[0].Ack == nil ||
		!got[0].Ack.Effective["thresholds"].Equal(space.Nums(7)) {
		t.Errorf("revision 1 is %+v", got[0])
	}
	if !got[1].Config.Equal(second.Configurations[0].Config) || got[1].Hash != second.Configurations[0].Hash {
		t.Errorf("revision 2 is %v", got[1].Config)
	}
	_ = r.Close()
}

// TestClusterIsLoaded: of every form that a record had, and never as an empty one.
func TestClusterIsLoaded(t *testing.T) {
	const vcs = `"vcs":[{"tenant":"a","gpus":64}]`
	want := workload.Uniform(20, 8)
	want.VCs = []workload.VC{{Tenant: "a", GPUs: 64}}
	for _, tc := range []struct{ cluster, err string }{
		{`{"groups":[{"nodes":20,"gpus_per_node":8}],` + vcs + `}`, ""},
		{`{"nodes":20,"gpus_per_node":8,` + vcs + `}`, ""},
		{`{` + vcs + `}`, "nodes: 0 is not positive"},
		{`{"nodes":20,` + vcs + `}`, "gpus per node: 0 is not positive"},
		{`{"nodes":20,"gpus_per_node":8,"groups":[{"nodes":1,"gpus_per_node":8}]}`, "has groups as well"},
	} {
		r := open(t, t.TempDir())
		c := change(t, testSpace(t), 1)
		if err := r.Commit(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		var record map[string]json.RawMessage
		err := r.config.Update(func(tx *bolt.Tx) error {
			key := []byte(c.Scheduler.ID)
			if err := getJSON(key, tx.Bucket([]byte(schedulersBucket)).Get(key), &record); err != nil {
				return err
			}
			record["cluster"] = json.RawMessage(tc.cluster)
			return errors.Join(putPlain(tx.Bucket([]byte(schedulersBucket)), key, record),
				putPlain(tx.Bucket([]byte(schedulersBucket+copies)), key, record))
		})
		if err != nil {
			t.Fatal(err)
		}
		saved, _, _, err := r.Load()
		if tc.err == "" {
			if err != nil || len(saved) != 1 || !reflect.DeepEqual(saved[0].Scheduler.Cluster, want) {
				t.Errorf("%s: loaded %+v, %v", tc.cluster, saved, err)
			}
			continue
		}
		if err != nil || !errors.Is(saved[0].Fault, ErrCorrupt) {
			t.Fatalf("%s: %v, %+v", tc.cluster, err, saved)
		}
		err = saved[0].Fault
		for _, part := range []string{tc.err, configFile, "schedulers"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not say %q", tc.cluster, err, part)
			}
		}
	}
}

// TestDeletionKeepsRequest: the request that deletes a quarantined scheduler is stored with the deletion.
func TestDeletionKeepsRequest(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	err := r.Commit(t.Context(), controller.Change{Scheduler: controller.Scheduler{Registration: controller.Registration{ID: "s"}},
		Deletion: &controller.Deletion{Deleted: time.Unix(1, 0)}, Audit: &audit.Record{Resource: "schedulers/s"},
		Request: &controller.Request{ID: "q"}})
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	_, requests, _, err := open(t, dir).Load()
	if err != nil || len(requests) != 1 || requests[0].ID != "q" {
		t.Errorf("requests %+v, %v", requests, err)
	}
}

func TestRevisionsOnlyGoForward(t *testing.T) {
	ctx, sp := context.Background(), testSpace(t)
	r := open(t, t.TempDir())
	for _, revision := range []int64{1, 2} {
		if err := r.Commit(ctx, change(t, sp, revision)); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []int64{4, 0} {
		gap := change(t, sp, bad)
		gap.Scheduler.Version = 3
		if err := r.Commit(ctx, gap); !errors.Is(err, errRevision) {
			t.Errorf("revision %d after 2: %v", bad, err)
		}
	}
	for _, bad := range []int64{1, 2, 4} {
		late := change(t, sp, 3)
		late.Scheduler.Version = bad
		if err := r.Commit(ctx, late); !errors.Is(err, controller.ErrStale) {
			t.Errorf("a change that makes version %d of 2: %v", bad, err)
		}
	}
	other := change(t, sp, 2)
	other.Scheduler.Version = 3
	other.Configurations[0].Config = sp.Default()
	other.Configurations[0].Hash = sp.Default().Hash()
	if err := r.Commit(ctx, other); !errors.Is(err, errRevision) {
		t.Errorf("other values for revision 2: %v", err)
	}
	saved, _, _, err := r.Load()
	if err != nil || len(saved[0].Configurations) != 2 || saved[0].Scheduler.LastRevision != 2 {
		t.Errorf("a refused change left %+v, %v", saved, err)
	}
}

func TestEventsComeBackByDay(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	now := time.Date(2024, 3, 1, 23, 0, 0, 0, time.UTC)
	r, err := Open(dir, Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var wg sync.WaitGroup
	for w := range 8 { // callers that share commits
		wg.Go(func() {
			for i := range 20 {
				if err := r.AppendEvents(ctx, fmt.Sprintf("s%d", w%2),
					[]workload.Event{event(fmt.Sprintf("%d-%d", w, i), time.Duration(i)*time.Second)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	now = now.Add(2 * time.Hour)
	if err := r.AppendEvents(ctx, "s0",
		[]workload.Event{event("early", -time.Hour), event("late", time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if names, err := segmentNames(dir); err != nil ||
		!reflect.DeepEqual(names, []string{"events-20240301.db", "events-20240302.db"}) {
		t.Fatalf("segments %v, %v", names, err)
	}
	// The segment being written is replayed too once it is closed.
	_ = r.Close()
	r = open(t, dir)
	count := map[string]int{}
	last := map[string]time.Duration{}
	_, err = r.ReplayEvents("", func(s string, e workload.Event) error {
		count[s]++
		if e.ID != "early" && e.Time < last[s] {
			t.Errorf("%s: %v after %v", s, e.Time, last[s])
		}
		last[s] = e.Time
		if e.Job.Tenant != "vc" || e.Job.GPUs != workload.GPUs(2) {
			t.Errorf("event %+v", e)
		}
		return nil
	})
	if err != nil || count["s0"] != 82 || count["s1"] != 80 {
		t.Errorf("replayed %v, %v", count, err)
	}
	only := 0
	_, err = r.ReplayEvents("s1", func(s string, _ workload.Event) error {
		if only++; s != "s1" {
			t.Errorf("an event of %s", s)
		}
		return nil
	})
	if err != nil || only != 80 {
		t.Errorf("%d events of one scheduler, %v", only, err)
	}
	stop := errors.New("stop")
	if _, err := r.ReplayEvents("", func(string, workload.Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the callback is %v", err)
	}
}

// Events are taken in while others are read.
func TestReplayHoldsUpNoAppend(t *testing.T) {
	r := open(t, t.TempDir())
	appendOne(t, r, "s", "1")
	read := 0
	damage, err := r.ReplayEvents("s", func(string, workload.Event) error {
		read++
		appendOne(t, r, "other", "2")
		return nil
	})
	if err != nil || len(damage) > 0 || read != 1 {
		t.Error(read, damage, err)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("second open: %v", err)
	}
}

func TestDamageIsNamed(t *testing.T) {
	ctx, sp := context.Background(), testSpace(t)
	build := func(t *testing.T) string {
		dir := t.TempDir()
		r := open(t, dir)
		if err := r.Commit(ctx, change(t, sp, 1)); err != nil {
			t.Fatal(err)
		}
		if err := r.AppendEvents(ctx, "s", []workload.Event{event("1", time.Second)}); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	// load reads everything and returns the first damage.
	load := func(dir string) error {
		r, err := Open(dir, Options{})
		if err != nil {
			return err
		}
		defer r.Close()
		saved, _, damage, err := r.Load()
		if err != nil {
			return err
		}
		if err := saved[0].Fault; err != nil {
			return err
		}
		if c := saved[0].Configurations[0]; c.State == rollout.Lost {
			return &CorruptError{File: configFile, Bucket: configsBucket, Why: c.Reason}
		}
		found, err := r.ReplayEvents("", func(string, workload.Event) error { return nil })
		for _, d := range append(damage, found...) {
			return d.Err
		}
		return err
	}
	// edit changes one stored record.
	edit := func(t *testing.T, file string, path []string, change func(key, record []byte) []byte) {
		t.Helper()
		db, err := bolt.Open(file, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(path[0]))
			for _, p := range path[1:] {
				b = b.Bucket([]byte(p))
			}
			k, v := b.Cursor().First()
			return b.Put(k, change(k, append([]byte(nil), v...)))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	flip := func(_, r []byte) []byte { r[len(r)/2] ^= 4; return r }
	for _, c := range []struct {
		name, file string
		path       []string
		change     func(k, r []byte) []byte
		says       string
	}{
		{"scheduler", configFile, []string{schedulersBucket}, flip, "CRC32C"},
		{"configuration", configFile, []string{configsBucket, "s"}, flip, "CRC32C"},
		{"event", "", []string{"s"}, flip, "CRC32C"},
		{"short event", "", []string{"s"}, func(_, r []byte) []byte { return r[:3] }, "too short"},
		{"same values in other words", configFile, []string{configsBucket, "s"}, func(k, r []byte) []byte {
			return appendRecord(nil, k, func(b []byte) []byte {
				return append(b, strings.Replace(string(r[recordHeader:]), `"queues":2`, `"queues":2.0`, 1)...)
			})
		}, ""},
		{"values changed", configFile, []string{configsBucket, "s"}, func(k, r []byte) []byte {
			return appendRecord(nil, k, func(b []byte) []byte {
				return append(b, strings.Replace(string(r[recordHeader:]), `"order":"a"`, `"order":"b"`, 1)...)
			})
		}, "SHA-256"},
		{"values out of the space", configFile, []string{configsBucket, "s"}, func(k, r []byte) []byte {
			return appendRecord(nil, k, func(b []byte) []byte {
				return append(b, strings.Replace(string(r[recordHeader:]), `"order":"a"`, `"order":"z"`, 1)...)
			})
		}, "not one of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := build(t)
			file := c.file
			if file == "" {
				names, err := segmentNames(dir)
				if err != nil || len(names) != 1 {
					t.Fatal(names, err)
				}
				file = names[0]
			}
			edit(t, filepath.Join(dir, file), c.path, c.change)
			err := load(dir)
			if c.says == "" { // the same values in other words are the same values
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var corrupt *CorruptError
			if !errors.As(err, &corrupt) || !errors.Is(err, ErrCorrupt) || corrupt.File != file ||
				!strings.Contains(corrupt.Bucket, "s") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that names %s and says %q", err, file, c.says)
			}
		})
	}
	t.Run("no database", func(t *testing.T) {
		dir := build(t)
		if err := os.WriteFile(filepath.Join(dir, configFile), []byte(strings.Repeat("nonsense", 2000)),
			0o600); err != nil {
			t.Fatal(err)
		}
		if err := load(dir); !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}

func BenchmarkAppendEvents(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			r := open(b, b.TempDir())
			events := make([]workload.Event, size)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				for i := range events {
					n++
					events[i] = event(fmt.Sprint("e", n), time.Duration(n)*time.Millisecond)
				}
				if err := r.AppendEvents(context.Background(), "s", events); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// mixedEvent is the i-th event of jobs that are submitted, start on two nodes and end.
func mixedEvent(i int) workload.Event {
	e := workload.Event{ID: fmt.Sprint("event-", i), Time: time.Duration(i) * 7919 * time.Millisecond,
		Kind: workload.Submitted, Job: workload.Job{ID: fmt.Sprint("job-", i/3)}}
	switch i % 3 {
	case 0:
		e.Job.User, e.Job.Tenant, e.Job.Key, e.Job.GPUs = fmt.Sprint("user-", i%97), "vc-3", "8f3a2b7c91d0", 4000
		e.Job.Requested = workload.Request{Partition: "gpu", MilliCPUs: 8000, Memory: 64 << 30,
			TimeLimit: 24 * time.Hour, QOS: "normal", Account: "lab"}.Shared()
	case 1:
		e.Kind = workload.Started
		e.Placement = []workload.NodeShare{{Node: "node-012", GPUs: 2, Indexes: "0,1"},
			{Node: "node-013", GPUs: 2, Indexes: "4,5"}}
	case 2:
		e.Kind, e.Job.Status, e.Attained, e.HasAttained = workload.Finished, workload.Failed, time.Hour, true
	}
	return e
}

// BenchmarkReplay reads a million events.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	r := open(b, dir)
	events := make([]workload.Event, 10_000)
	for k := range 100 {
		for i := range events {
			events[i] = mixedEvent(k*len(events) + i)
		}
		if err := r.AppendEvents(context.Background(), "s", events); err != nil {
			b.Fatal(err)
		}
	}
	_ = r.Close()
	r = open(b, dir)
	n := 0
	for b.Loop() {
		if _, err := r.ReplayEvents("", func(string, workload.Event) error { n++; return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

// TestTruncatedFileIsNamed: a file too short to be a database is named.
func TestTruncatedFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, configFile), 3000); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), configFile) {
		t.Errorf("opening says %v, which does not name %s", err, configFile)
	}
}

// A reader needs the directory for itself, creates nothing, and reads all records.
func TestReader(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := t.TempDir()
	if _, err := OpenReader(dir); err == nil || !strings.Contains(err.Error(), "is not the directory of a service") {
		t.Error(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("files: %v", files)
	}
	w := open(t, dir)
	if err := errors.Join(w.Commit(t.Context(), change(t, testSpace(t), 1)),
		w.AppendEvents(t.Context(), "s", []workload.Event{event("b", 2), event("a", 1)})); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReader(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("beside a writer: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	saved, _, _, err := r.Load()
	if err != nil || len(saved) != 1 {
		t.Errorf("%v, %v", saved, err)
	}
	var ids []string
	_, err = r.ReplayEvents("", func(scheduler string, e workload.Event) error {
		ids = append(ids, scheduler+" "+e.ID)
		return nil
	})
	if err != nil || !reflect.DeepEqual(ids, []string{"s a", "s b"}) {
		t.Errorf("%v, %v", ids, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := within(t, func() error { return r.Audit(0, false, nil) }); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := open(t, dir).Close(); err != nil { // it is free again
		t.Error(err)
	}
}

// TestRoundsAreReadBesideOthers (N14): a reader of rounds does not hold up a round that is stored.
func TestRoundsAreReadBesideOthers(t *testing.T) {
	r := open(t, t.TempDir())
	for n := range int64(3) {
		if err := r.KeepRound("u", n+1, []byte{byte(n)}, 10); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	var seen []int64
	go func() {
		ended <- r.Rounds("u", 0, func(n int64, record []byte, err error) bool {
			seen = append(seen, n)
			return errors.Join(err, r.KeepRound("u", 3+n, record, 3)) == nil
		})
	}()
	select {
	case err := <-ended: // the third has dropped the others
		if err != nil || !slices.Equal(seen, []int64{3}) {
			t.Errorf("read %v, %v", seen, err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("a round is not stored while others are read")
	}
}

// TestDroppingIsLinear: when many of the first records go at once, each is looked at once, and once more for its
// deletion (N8).
func TestDroppingIsLinear(t *testing.T) {
	r := open(t, t.TempDir())
	const records, left = 20_000, 5
	visits := 0
	err := r.writeAux(&r.rounds, func(tx *bolt.Tx) error {
		b, err := bucket(tx, "u")
		for n := range int64(records) {
			err = errors.Join(err, b.Put(revisionKey(n+1), make([]byte, 100)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = r.writeAux(&r.rounds, func(tx *bolt.Tx) error {
		before := tx.Stats()
		err := dropFirst(tx.Bucket([]byte("u")), func(key []byte) bool {
			visits++
			return bytes.Compare(key, revisionKey(records-left)) <= 0
		})
		stats := tx.Stats()
		if n := stats.Sub(&before).CursorCount; n > records {
			t.Errorf("%d walks for %d records", n, records)
		}
		return err
	})
	if err != nil || visits != records-left+1 {
		t.Errorf("%d visits of %d records, %v", visits, records, err)
	}
	last := int64(records + 1)
	if err := r.KeepRound("u", last, []byte("x"), 2); err != nil {
		t.Fatal(err)
	}
	var all []int64
	err = r.Rounds("u", 0, func(n int64, _ []byte, _ error) bool { all = append(all, n); return true })
	if err != nil || !slices.Equal(all, []int64{last, last - 1}) {
		t.Errorf("left %v, %v", all, err)
	}
}
