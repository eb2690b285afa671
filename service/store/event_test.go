package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

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
	e := workload.Event{ID: "1", Kind: workload.Started, Job: workload.Job{ID: "j"}}
	b := appendEvent(nil, &e)
	b = b[:len(b)-1] // the number of shares
	for _, n := range []int64{2, 3, 8, 12, 1} {
		b = binary.AppendVarint(b, n)
	}
	e.Placement = []workload.NodeShare{{Node: "3", GPUs: 8}, {Node: "12", GPUs: 1}}
	if got, err := decodeEvent(b); err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("%+v, %v, want %+v", got, err, e)
	}
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
	e := event("1", time.Hour)
	e.Placement = []workload.NodeShare{{Node: "3", GPUs: 2}}
	f.Add(appendEvent(nil, &e))
	e = workload.Event{ID: "2", Kind: workload.TakenSnapshot, Active: []workload.Event{e}}
	f.Add(appendEvent(nil, &e))
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEvent(b)
		if err != nil {
			return
		}
		again, err := decodeEvent(appendEvent(nil, &e))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%+v became %+v, %v", e, again, err)
		}
	})
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

// FuzzConfigRecord: a revision that is read is in its space and is what its hash says.
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
