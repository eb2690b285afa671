package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/workload"
)

// Migration is what Migrate moved.
type Migration struct {
	Schedulers int   `json:"schedulers"`
	Revisions  int   `json:"revisions"`
	Studies    int   `json:"studies"`
	Events     int   `json:"events"`
	Audit      int64 `json:"audit_records"`
	// Head is the hash of the last record of the audit log.
	Head  string           `json:"audit_head,omitempty"`
	Epoch controller.Epoch `json:"epoch"`
}

// Migrate moves the records of a stopped service to an empty cluster. The records are compared before the directory is
// marked as moved, and the epoch is written last: until then no node leads, and Migrate may be repeated. Telemetry and
// findings are no part of it.
func Migrate(ctx context.Context, dir string, e *Engine, o Options) (m *Migration, err error) {
	if _, err := os.Stat(filepath.Join(dir, store.ConfigFile)); err != nil {
		return nil, fmt.Errorf("%s is no directory of a service: %w", dir, err)
	}
	stream, err := e.js.Stream(ctx, logStream)
	if err != nil {
		return nil, err
	}
	if last := stream.CachedInfo().State.LastSeq; last > 0 {
		return nil, fmt.Errorf("the cluster has records already (%d entries): only an empty one can take others", last)
	}
	s, err := store.Open(dir, store.Options{Adopt: true, Log: o.Log, NewID: o.NewID})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := os.MkdirAll(e.o.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := sweep(e.o.Dir); err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp(e.o.Dir, moveTemp)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	archive, err := os.Create(filepath.Join(temp, "archive"))
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	if _, err := s.Backup(ctx, archive); err != nil {
		return nil, err
	}
	if err := e.putArchive(ctx, archive, 0); err != nil {
		return nil, err
	}
	before, err := count(s)
	if err != nil {
		return nil, err
	}
	o.Dir = filepath.Join(temp, "replica")
	r, err := Open(ctx, e, o) // of the archive, as every node opens it
	if err != nil {
		return nil, err
	}
	after, err := count(r.store)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	if *before != *after {
		return nil, fmt.Errorf("the records differ after the move: %+v were there, %+v came", *before, *after)
	}
	if err := s.NoteMove(clusterName); err != nil {
		return nil, err
	}
	op := store.EpochOp(r.o.Now(), r.o.NewID, s.Epoch(), s.Secret(), "the records moved to a cluster")
	text, err := json.Marshal(op)
	if err != nil {
		return nil, err
	}
	first := newStore(r, 0)
	if _, err := first.put(ctx, []*call{{op: op, text: text}}); err != nil {
		return nil, err
	}
	before.Epoch = op.Epoch.Epoch
	return before, nil
}

// counted is the part of a store that count reads.
type counted interface {
	controller.EventLog
	Load() ([]controller.Saved, []controller.Request, []controller.Damage, error)
	LoadStudies() ([]studies.Saved, []controller.Damage, error)
	Audit(from int64, newestFirst bool, visit func(place int64, line []byte, err error) bool) error
}

// count counts the records of a store. Damage is an error: a record that cannot be read must not pass as moved.
func count(s counted) (*Migration, error) {
	m := &Migration{}
	saved, _, damage, err := s.Load()
	if err != nil {
		return nil, err
	}
	for i := range saved {
		if saved[i].Fault != nil {
			return nil, fmt.Errorf("scheduler %q: %w: mend it before the move", saved[i].Scheduler.ID, saved[i].Fault)
		}
		m.Revisions += len(saved[i].Configurations)
	}
	m.Schedulers = len(saved)
	found, more, err := s.LoadStudies()
	if err != nil {
		return nil, err
	}
	m.Studies, damage = len(found), append(damage, more...)
	more, err = s.ReplayEvents("", func(string, workload.Event) error { m.Events++; return nil })
	if err != nil {
		return nil, err
	}
	if damage = append(damage, more...); len(damage) > 0 {
		return nil, fmt.Errorf("%s: %w: mend it before the move", damage[0].File, damage[0].Err)
	}
	var broken error
	err = s.Audit(0, false, func(_ int64, line []byte, err error) bool {
		var head audit.Head
		if broken = err; err == nil {
			_, head, broken = audit.Parse(line)
		}
		m.Audit, m.Head = m.Audit+1, head.Hash
		return broken == nil
	})
	return m, errors.Join(err, broken)
}

// Await returns once the log has an entry: the server of a node helps a move at another one until then.
func Await(ctx context.Context, e *Engine) error {
	for {
		stream, err := e.js.Stream(ctx, logStream)
		if err == nil && stream.CachedInfo().State.LastSeq > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(retryEvery):
		}
	}
}
