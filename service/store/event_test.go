package store

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

func drawEvent(t *rapid.T) workload.Event {
	text := rapid.StringN(0, 20, 100)
	span := rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(t, "ns")) })
	e := workload.Event{
		ID: text.Draw(t, "id"), Kind: workload.EventKind(rapid.IntRange(0, 9).Draw(t, "kind")),
		Time: span.Draw(t, "time"),
		Job: workload.Job{ID: text.Draw(t, "job"), User: text.Draw(t, "user"), Tenant: text.Draw(t, "tenant"),
			Key:   text.Draw(t, "key"),
			Model: text.Draw(t, "model"), GPUs: workload.MilliGPU(rapid.Int64().Draw(t, "gpus")),
			Status: workload.Status(rapid.IntRange(0, int(workload.OutOfMemory)).Draw(t, "status"))},
		LevelAttained: span.Draw(t, "level"), HasLevel: rapid.Bool().Draw(t, "has"), LeaseUntil: span.Draw(t, "lease"),
		Node: text.Draw(t, "node"), NodeGPUs: rapid.IntRange(0, 16).Draw(t, "nodegpus"),
		Revision: text.Draw(t, "revision"),
	}
	if rapid.Bool().Draw(t, "deadline") {
		e.Job.Deadline = span.Draw(t, "until")
	}
	if rapid.Bool().Draw(t, "request") {
		e.Job.Requested = workload.Request{GPUModel: text.Draw(t, "gpu model"), Partition: text.Draw(t, "partition"),
			MilliCPUs: rapid.Int64().Draw(t, "cpus"), Memory: rapid.Int64().Draw(t, "memory"),
			TimeLimit: span.Draw(t, "limit")}.Shared()
	}
	if rapid.Bool().Draw(t, "slurm") {
		q := e.Job.Request()
		q.NodeCount, q.Nice, q.Priority = rapid.Int32().Draw(t, "nodes"), rapid.Int32().Draw(t, "nice"), span.Draw(t, "priority").Nanoseconds()
		q.QOS, q.Account = text.Draw(t, "qos"), text.Draw(t, "account")
		q.Requeue, q.HoldOff = workload.RequeueMode(rapid.IntRange(0, 2).Draw(t, "requeue")), span.Draw(t, "hold-off")
		e.Job.Requested = q.Shared()
	}
	if rapid.Bool().Draw(t, "held") {
		e.StartUp = span.Draw(t, "start-up")
		e.Lost, e.HoldUntil = rapid.Bool().Draw(t, "lost"), span.Draw(t, "hold until")
	}
	if rapid.Bool().Draw(t, "attained") {
		e.Attained, e.HasAttained = span.Draw(t, "attained service"), true
	}
	if rapid.Bool().Draw(t, "placed") {
		e.SharesWith, e.Pool = text.Draw(t, "partner"), rapid.IntRange(0, workload.MaxPool).Draw(t, "pool")
	}
	if rapid.Bool().Draw(t, "offer") {
		e.Instance, e.Hash = text.Draw(t, "instance"), text.Draw(t, "hash")
		e.Epoch = workload.Epoch{ID: text.Draw(t, "epoch"), Counter: rapid.Int64().Draw(t, "counter")}
	}
	for range rapid.IntRange(0, 3).Draw(t, "places") {
		e.Placement = append(e.Placement,
			workload.NodeShare{Node: text.Draw(t, "n"), GPUs: rapid.IntRange(0, 8).Draw(t, "g"),
				Indexes: text.Draw(t, "indexes")})
	}
	if rapid.Bool().Draw(t, "labelled") {
		e.Labels = text.Draw(t, "labels")
	}
	return e
}

func TestEventsSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		for range rapid.IntRange(0, 3).Draw(t, "active") {
			one := drawEvent(t)
			one.Job.Submit = time.Duration(rapid.Int64().Draw(t, "submit"))
			e.Active = append(e.Active, one)
		}
		got, err := decodeEvent(appendEvent(nil, &e))
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v became %+v, %v", e, got, err)
		}
	})
}

// Records from before placements named their nodes have numbers.
func TestNumberedNodesDecode(t *testing.T) {
	b := []byte{byte(workload.Started), 0, 0, 1, '1', 1, 'j', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for _, n := range []int64{2, 3, 8, 12, 1} {
		b = binary.AppendVarint(b, n)
	}
	e := workload.Event{ID: "1", Kind: workload.Started, Job: workload.Job{ID: "j"},
		Placement: []workload.NodeShare{{Node: "3", GPUs: 8}, {Node: "12", GPUs: 1}}}
	if got, err := decodeEvent1(b); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("%+v, %v, want %+v", got, err, e)
	}
}

// segmentOf is a segment that the first program of a layout wrote of goldenEvents.
func segmentOf(t testing.TB, layout int) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("events-layout%d.db.gz", layout)))
	if err != nil {
		t.Fatal(err)
	}
	in, err := gzip.NewReader(bytes.NewReader(text))
	if err == nil {
		text, err = io.ReadAll(in)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A segment of each layout is read as it was written, takes events of today, and a checkpoint of it has the same.
func TestGoldenSegments(t *testing.T) {
	for layout := 1; layout <= layoutVersion; layout++ {
		t.Run(fmt.Sprint("layout ", layout), func(t *testing.T) { testGoldenSegment(t, segmentOf(t, layout)) })
	}
}

func testGoldenSegment(t *testing.T, segment []byte) {
	dir, day := t.TempDir(), time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if err := os.WriteFile(filepath.Join(dir, "events-20260301.db"), segment, 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	_ = openOn(t, fresh, day).Close()
	if err := os.Rename(filepath.Join(fresh, configFile), filepath.Join(dir, configFile)); err != nil {
		t.Fatal(err)
	}
	want := goldenEvents()
	check := func(r *Store, what string) {
		t.Helper()
		var got []workload.Event
		damage, err := r.ReplayEvents("s", func(_ string, e workload.Event) error {
			got = append(got, e)
			return nil
		})
		if err != nil || len(damage) > 0 || len(got) != len(want) {
			t.Fatalf("%s: %d events of %d, %v, %v", what, len(got), len(want), damage, err)
		}
		slices.SortStableFunc(want, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("%s: read\n%+v, written\n%+v", what, got[i], want[i])
			}
		}
	}
	r := openOn(t, dir, day)
	check(r, "the segment")
	appendOne(t, r, "s", "today")
	want = append(want, event("today", time.Second))
	check(r, "the segment that is written on")
	_ = r.Close()
	r = openOn(t, dir, day.AddDate(0, 0, 1))
	keep := controller.Retention{Before: day.AddDate(0, 0, 1), Needs: func(string) (func(workload.Event),
		func(workload.Event) (workload.Event, bool), error) {
		return func(workload.Event) {}, func(e workload.Event) (workload.Event, bool) { return e, true }, nil
	}}
	if dropped, err := r.DropEvents(t.Context(), keep); err != nil || len(dropped) != 1 {
		t.Fatal(dropped, err)
	}
	check(r, "the checkpoint")
}

func TestEventKeysSortByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := time.Duration(rapid.Int64().Draw(t, "a")), time.Duration(rapid.Int64().Draw(t, "b"))
		if cmp := bytes.Compare(eventKey(nil, a, 1), eventKey(nil, b, 1)); (cmp < 0) != (a < b) ||
			(cmp == 0) != (a == b) {
			t.Fatalf("%d and %d compare as %d", a, b, cmp)
		}
	})
}

func FuzzDecodeEvent(f *testing.F) {
	for _, e := range goldenEvents() {
		f.Add(appendEvent(nil, &e))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) { checkDecoder(t, decodeEvent, b) })
}

func FuzzDecodeEvent1(f *testing.F) {
	path := filepath.Join(f.TempDir(), "segment.db")
	if err := os.WriteFile(path, segmentOf(f, 1), 0o600); err != nil {
		f.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		f.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("s")).ForEach(func(key, record []byte) error {
			payload, err := openRecord(key, record)
			f.Add(bytes.Clone(payload))
			return err
		})
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, b []byte) { checkDecoder(t, decodeEvent1, b) })
}

// checkDecoder: an event that is read is written and read again as it is.
func checkDecoder(t *testing.T, decode func([]byte) (workload.Event, error), b []byte) {
	e, err := decode(b)
	if err != nil {
		return
	}
	again, err := decodeEvent(appendEvent(nil, &e))
	if err != nil || !reflect.DeepEqual(again, e) {
		t.Fatalf("%+v became %+v, %v", e, again, err)
	}
}

func FuzzOpenRecord(f *testing.F) {
	f.Add([]byte("key"), appendRecord(nil, []byte("key"), func(b []byte) []byte { return append(b, "payload"...) }))
	f.Fuzz(func(t *testing.T, key, record []byte) {
		payload, err := openRecord(key, record)
		if err == nil && !bytes.Equal(appendRecord(nil, key, func(b []byte) []byte {
			return append(b, payload...)
		}), record) {
			t.Fatal("a record that is not what appendRecord writes was accepted")
		}
	})
}

// FuzzConfigRecord: a revision that is read is in its space and has its hash.
func FuzzConfigRecord(f *testing.F) {
	sp, err := space.New(testParams, nil)
	if err != nil {
		f.Fatal(err)
	}
	c := change(f, sp, 1).Configurations[0]
	good, err := json.Marshal(configRecord{UID: "u", Revision: 1, Values: json.RawMessage(c.Config.Canonical()),
		Hash: c.Hash})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		var r configRecord
		read, err := r.config(sp, 1, json.Unmarshal(text, &r))
		if err == nil && (sp.Check(read) != nil || read.Hash() != r.Hash) {
			t.Fatalf("%s is %v", text, read)
		}
	})
}

// TestReplayGoesOnWhereItStopped: a search of a damaged file that passes the event to go on from is damage.
func TestReplayGoesOnWhereItStopped(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := make([]workload.Event, 3)
	for i := range all {
		all[i] = workload.Event{ID: fmt.Sprint(i), Kind: workload.Submitted, Time: time.Duration(i+1) * time.Hour,
			Job: workload.Job{ID: "j", GPUs: workload.GPUs(1)}}
	}
	if err := s.AppendEvents(t.Context(), "a", all); err != nil {
		t.Fatal(err)
	}
	names, err := segmentNames(dir)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	var keys [][]byte
	if err := s.view(names[0], func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("a")).ForEach(func(k, _ []byte) error {
			keys = append(keys, bytes.Clone(k))
			return nil
		})
	}); err != nil || len(keys) != len(all) {
		t.Fatal(len(keys), err)
	}
	for _, tc := range []struct {
		from   []byte
		events int // -1 of damage
	}{
		{[]byte{}, 3}, {keys[1], 2}, {append(bytes.Clone(keys[0]), 0), -1}, {append(bytes.Clone(keys[2]), 0), -1},
	} {
		p := segmentReplay{r: s, damage: controller.Damage{File: names[0]}}
		err := s.view(names[0], func(tx *bolt.Tx) error {
			_, err := p.read(tx, "a", tc.from)
			return err
		})
		if errors.Is(err, ErrCorrupt) != (tc.events < 0) || err == nil && len(p.events) != tc.events {
			t.Errorf("from %x: %d events, %v, want %d", tc.from, len(p.events), err, tc.events)
		}
	}
}
