package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
	"github.com/autosched/autosched/workload"
)

// golden, if set, names a new golden store: go test ./service/store -run TestGoldenStores -golden v2.
// Existing ones must not be written again: earlier releases wrote them.
var golden = flag.String("golden", "", "name of a golden store to make of what this version writes")

// makeGolden writes a store with records of every kind.
func makeGolden(t *testing.T, out io.Writer) error {
	ctx, sp := t.Context(), testSpace(t)
	n := 0
	r, err := Open(t.TempDir(), Options{Now: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) },
		NewID: func() string { n++; return fmt.Sprint("id-", n) }})
	if err != nil {
		return err
	}
	defer r.Close()
	at := time.Unix(1_700_000_000, 0).UTC()
	for revision := range int64(3) {
		c := change(t, sp, revision+1)
		by := audit.Origin{Actor: "alice", Verb: "Test", RequestID: "r", Reason: "why"}
		c.Audit = &audit.Record{Time: at, Origin: by, Resource: "schedulers/s", RevisionBefore: revision,
			RevisionAfter: revision + 1}
		switch revision {
		case 0:
			c.Request = &controller.Request{ID: "request", Digest: "digest", Scheduler: "s"}
		case 2:
			acked := *change(t, sp, 1).Configurations[0]
			acked.Ack, acked.State = &rollout.Ack{State: rollout.AckPartial,
				Effective: map[string]space.Value{"thresholds": space.Nums(7)}}, rollout.RolledOut
			c.Configurations = append(c.Configurations, &acked)
			c.Scheduler.Freeze = &rollout.Freeze{Reason: "holiday", Actor: "alice", Created: at}
			c.Scheduler.Pin = &rollout.Pin{Revision: 3, Reason: "known to work", Actor: "alice", Created: at}
			c.Scheduler.Parks = []rollout.Park{{Hash: "h", Revision: 2, Actor: rollout.Operator, Since: at}}
		}
		if err := r.Commit(ctx, c); err != nil {
			return err
		}
	}
	events := []workload.Event{event("1", time.Hour),
		{ID: "2", Kind: workload.Started, Time: 2 * time.Hour, Job: workload.Job{ID: "job-1", GPUs: workload.GPUs(2)},
			Placement: []workload.NodeShare{{Node: "n1", GPUs: 2}}},
		{ID: "3", Kind: workload.NodeUp, Time: 3 * time.Hour, Node: "n1", NodeGPUs: 8},
		{ID: "4", Kind: workload.ConfigApplied, Time: 4 * time.Hour, Revision: "1"},
		{ID: "5", Kind: workload.Started, Time: 5 * time.Hour, Job: workload.Job{ID: "job-2", GPUs: workload.GPUs(2)},
			Labels: "debug", Placement: []workload.NodeShare{{Node: "n1", GPUs: 2, Indexes: "0,3"}}}}
	if err := r.AppendEvents(ctx, "s", events); err != nil {
		return err
	}
	record := study.Record{ID: "first", UID: "u", Version: 1, Phase: study.Active, Created: at, Updated: at,
		LastTrial: 3, Ended: 2, Step: 1, Choice: "gp: few dimensions", Spec: study.Spec{Revision: 1, Algorithm: "auto",
			Budget: 20, Seed: 3, Metric: "wait", Causal: study.CausalOn, Lease: time.Minute, Params: sp.Params(),
			Rules: sp.Rules(), Start: json.RawMessage(sp.Default().Canonical())}}
	values := []byte(sp.Default().Canonical())
	trials := []*study.Trial{
		{ID: 1, State: study.Succeeded, Values: values, Origin: "default", Client: "a", Created: at, Started: at,
			Ended: at.Add(time.Minute), Order: 1, WasStale: true,
			Measurements: []study.Measurement{{Step: 5, Metrics: map[string]float64{"wait": 4}}},
			Final: &study.Measurement{Step: 9, Elapsed: time.Second,
				Metrics: map[string]float64{"wait": 3, "x": 1}}},
		{ID: 2, State: study.Infeasible, Values: values, Origin: study.User, Created: at, Ended: at, Order: 2,
			Reason: "does not start"},
		{ID: 3, State: study.Running, Values: values, Origin: "gp", Client: "b", Created: at, Started: at,
			Expires: at.Add(time.Hour), Prediction: &search.Prediction{Mean: 2, SD: .5}, Narrowed: []string{"order"},
			Attempt: 1, RetryOf: 1}}
	if err := r.EnqueueStudy(studies.Change{Scheduler: "s", Study: record, Trials: trials})(); err != nil {
		return err
	}
	_, err = r.Backup(context.Background(), out)
	return err
}

// describe lists the records of a store, one per line.
func describe(r *Store) (string, error) {
	var out strings.Builder
	saved, requests, damage, err := r.Load()
	if err != nil || len(damage) > 0 {
		return "", fmt.Errorf("%w %v", err, damage)
	}
	for _, s := range saved {
		if s.Fault != nil {
			return "", s.Fault
		}
		fmt.Fprintf(&out, "scheduler %s type %s uid %s created %s offered %d last %d parameters %d nodes %d\n",
			s.Scheduler.ID, s.Scheduler.Type, s.Scheduler.UID, s.Scheduler.Created.Format(time.RFC3339),
			s.Scheduler.OfferedRevision,
			s.Scheduler.LastRevision, len(s.Space.Params()), s.Scheduler.Cluster.Nodes())
		if s.Scheduler.Freeze != nil || s.Scheduler.Pin != nil || s.Scheduler.Parks != nil {
			text, err := json.Marshal([]any{s.Scheduler.Freeze, s.Scheduler.Pin, s.Scheduler.Parks})
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "  held by %s\n", text)
		}
		for _, c := range s.Configurations {
			fmt.Fprintf(&out, "revision %d uid %s %s %s %s %.16s %q\n", c.Revision, c.UID, c.State, c.Origin,
				c.Config.Canonical(), c.Hash, c.Reason)
			if c.Ack != nil {
				fmt.Fprintf(&out, "  acknowledged %s %v\n", c.Ack.State, c.Ack.Effective)
			}
		}
	}
	all, damage, err := r.LoadStudies()
	if err != nil || len(damage) > 0 {
		return "", fmt.Errorf("%w %v", err, damage)
	}
	for _, s := range all {
		text, err := json.Marshal(s.State.Record)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "study of %s: %s\n", s.Scheduler, text)
		for _, one := range s.State.Trials {
			if text, err = json.Marshal(one); err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "trial of %s: %s\n", s.State.ID, text)
		}
	}
	for _, q := range requests {
		fmt.Fprintf(&out, "request %s %s %s\n", q.ID, q.Digest, q.Scheduler)
	}
	chain := audit.NewChecker("")
	if err := r.Audit(0, false, func(_ int64, line []byte, damage error) bool {
		err = errors.Join(damage, chain.Add(line))
		return err == nil
	}); err != nil {
		return "", err
	}
	head, end := chain.End()
	if err = errors.Join(err, end); err != nil {
		return "", err
	}
	fmt.Fprintf(&out, "audit %v\n", head)
	found, err := r.ReplayEvents("", func(scheduler string, e workload.Event) error {
		var placement []string
		for _, x := range e.Placement {
			text := fmt.Sprintf("{%s %d}", x.Node, x.GPUs)
			if x.Indexes != "" {
				text += " of " + x.Indexes
			}
			placement = append(placement, text)
		}
		fmt.Fprintf(&out, "event of %s: %s %s at %v, job %s, %d milli-GPUs, node %s %v, revision %s", scheduler, e.ID,
			e.Kind, e.Time, e.Job.ID, e.Job.GPUs, e.Node, placement, e.Revision)
		if e.Labels != "" {
			fmt.Fprintf(&out, ", labels %s", e.Labels)
		}
		fmt.Fprintln(&out)
		return nil
	})
	if err != nil || len(found) > 0 {
		return "", fmt.Errorf("%w %v", err, found)
	}
	return out.String(), nil
}

// TestGoldenStores: stores of earlier versions are read as they were written, and can be written on.
func TestGoldenStores(t *testing.T) {
	restored := func(path string) *Store {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		in, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "store")
		if _, err := Restore(in, dir); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return open(t, dir)
	}
	if *golden != "" {
		path := filepath.Join("testdata", "store-"+*golden+".tar.gz")
		if _, err := os.Stat(path); err == nil {
			t.Fatalf("%s exists: a golden store is not written again", path)
		}
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		if err := errors.Join(makeGolden(t, z), z.Close()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, zipped.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := describe(restored(path))
		if err == nil {
			err = os.WriteFile(strings.TrimSuffix(path, ".tar.gz")+".txt", []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	paths, _ := filepath.Glob(filepath.Join("testdata", "store-*.tar.gz"))
	if len(paths) == 0 {
		t.Fatal("there is no golden store")
	}
	for _, path := range paths {
		r := restored(path)
		want, err := os.ReadFile(strings.TrimSuffix(path, ".tar.gz") + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		got, err := describe(r)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v, holds\n%swant\n%s", path, err, got, want)
		}
		all, _, _ := r.LoadStudies()
		for _, s := range all {
			if _, err := study.NewEngine(&s.State); err != nil {
				t.Errorf("%s: study %s cannot go on: %v", path, s.State.ID, err)
			}
		}
		saved, _, _, _ := r.Load()
		next := change(t, testSpace(t), saved[0].Scheduler.LastRevision+1)
		next.Scheduler.Version = saved[0].Scheduler.Version + 1
		err = errors.Join(r.Commit(t.Context(), next),
			r.AppendEvents(t.Context(), "s", []workload.Event{event("new", 5*time.Hour)}))
		if err != nil {
			t.Errorf("%s cannot be written on: %v", path, err)
		}
		_ = r.viewConfig(func(tx *bolt.Tx) error {
			if tx.Bucket([]byte(acksBucket)) != nil {
				t.Errorf("%s: a bucket that nothing reads is kept", path)
			}
			return nil
		})
	}
}

// TestNewestGoldenIsOfThisVersion: this version writes the records as in the newest golden store, so that a change of
// the records gets a golden store of its own.
func TestNewestGoldenIsOfThisVersion(t *testing.T) {
	var archive bytes.Buffer
	if err := makeGolden(t, &archive); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := Restore(&archive, dir); err != nil {
		t.Fatal(err)
	}
	got, err := describe(open(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	texts, _ := filepath.Glob(filepath.Join("testdata", "store-*.txt"))
	slices.Sort(texts)
	want, err := os.ReadFile(texts[len(texts)-1])
	if err != nil || got != string(want) {
		t.Errorf("%v: this version writes\n%s%s has\n%s", err, got, texts[len(texts)-1], want)
	}
}
