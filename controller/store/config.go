package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/rollout"
	"github.com/autosched/autosched/space"
)

// The buckets of config.db. Configurations and acknowledgements have one inside
// for each scheduler, keyed by revision (and order of arrival).
const (
	schedulersBucket = "schedulers"
	configsBucket    = "configurations"
	acksBucket       = "acknowledgements"
	requestsBucket   = "requests"
)

var errRevision = errors.New("revisions are numbered without gaps and keep their values")

// configRecord is a configuration as stored: its values in canonical form, the
// hash of which is kept beside them.
type configRecord struct {
	UID      string                `json:"uid"`
	Revision int64                 `json:"revision"`
	State    rollout.RevisionState `json:"state"`
	Origin   rollout.Origin        `json:"origin"`
	Values   json.RawMessage       `json:"values"`
	Hash     string                `json:"sha256"`
	Created  time.Time             `json:"created"`
	Updated  time.Time             `json:"updated"`
	Reason   string                `json:"reason,omitempty"`
	Evidence *rollout.Evidence     `json:"evidence,omitempty"`
	Ack      *rollout.Ack          `json:"ack,omitempty"`
	Left     int64                 `json:"left,omitempty"`
}

func revisionKey(revision int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(revision))
}

// Commit writes a change in one transaction. A new configuration must have the
// next revision, and one that exists keeps its values for ever: anything else
// is an error and nothing is written.
func (r *Store) Commit(ctx context.Context, c controller.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id := []byte(c.Scheduler.ID)
	err := r.config.Update(func(tx *bolt.Tx) error {
		if err := putJSON(tx, id, c.Scheduler, schedulersBucket); err != nil {
			return err
		}
		for _, cfg := range c.Configurations {
			if err := putConfig(tx, id, cfg); err != nil {
				return err
			}
		}
		if c.Ack != nil {
			b, err := bucket(tx, acksBucket, string(id))
			if err != nil {
				return err
			}
			seq, err := b.NextSequence()
			if err != nil {
				return err
			}
			key := binary.BigEndian.AppendUint64(revisionKey(c.AckRevision), seq)
			if err := putJSON(tx, key, c.Ack, acksBucket, string(id)); err != nil {
				return err
			}
		}
		if c.Request != nil {
			return putJSON(tx, []byte(c.Request.ID), c.Request, requestsBucket)
		}
		return nil
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return storageError(err)
}

func putConfig(tx *bolt.Tx, scheduler []byte, cfg *rollout.Configuration) error {
	b, err := bucket(tx, configsBucket, string(scheduler))
	if err != nil {
		return err
	}
	key := revisionKey(cfg.Revision)
	if old := b.Get(key); old != nil {
		var before configRecord
		if err := getJSON(key, old, &before); err != nil {
			return &CorruptError{File: configFile, Bucket: configsBucket + "/" + string(scheduler),
				Key: fmt.Sprint(cfg.Revision), Why: err.Error()}
		}
		if before.Hash != cfg.Hash || before.UID != cfg.UID {
			return fmt.Errorf(
				"store: scheduler %q: revision %d is stored with SHA-256 %.16s and uid %s, not %.16s and %s: %w",
				scheduler, cfg.Revision, before.Hash, before.UID, cfg.Hash, cfg.UID, errRevision)
		}
	} else {
		next := int64(1)
		if last, _ := b.Cursor().Last(); last != nil {
			next = int64(binary.BigEndian.Uint64(last)) + 1
		}
		if cfg.Revision != next {
			return fmt.Errorf("store: scheduler %q: revision %d does not follow the last, want %d: %w",
				scheduler, cfg.Revision, next, errRevision)
		}
	}
	return putJSON(tx, key, configRecord{
		UID: cfg.UID, Revision: cfg.Revision, State: cfg.State, Origin: cfg.Origin,
		Values: json.RawMessage(cfg.Config.Canonical()), Hash: cfg.Hash,
		Created: cfg.Created, Updated: cfg.Updated, Reason: cfg.Reason, Evidence: cfg.Evidence, Ack: cfg.Ack,
		Left: cfg.Left,
	}, configsBucket, string(scheduler))
}

// Load returns everything in config.db, schedulers in order of id.
func (r *Store) Load() (saved []controller.Saved, requests []controller.Request, err error) {
	err = guardPanics(configFile, func() error {
		return r.config.View(func(tx *bolt.Tx) error {
			err := eachJSON(tx, schedulersBucket, nil, func(s controller.Scheduler, key []byte) error {
				if string(key) != s.ID {
					return fmt.Errorf("it belongs to scheduler %q", s.ID)
				}
				one, err := loadScheduler(tx, s)
				saved = append(saved, one)
				return err
			})
			if err != nil {
				return err
			}
			return eachJSON(tx, requestsBucket, nil, func(q controller.Request, _ []byte) error {
				requests = append(requests, q)
				return nil
			})
		})
	})
	return saved, requests, err
}

func loadScheduler(tx *bolt.Tx, s controller.Scheduler) (controller.Saved, error) {
	out := controller.Saved{Scheduler: s}
	err := s.Cluster.Validate()
	if err != nil {
		return out, fmt.Errorf("scheduler %q: %w", s.ID, err)
	}
	if out.Space, err = space.New(s.Params, s.Rules); err != nil {
		return out, err
	}
	err = eachJSON(tx, configsBucket, []byte(s.ID), func(c configRecord, key []byte) error {
		if !bytes.Equal(key, revisionKey(c.Revision)) || c.Revision != int64(len(out.Configurations))+1 {
			return fmt.Errorf("it holds revision %d, expected is %d", c.Revision, len(out.Configurations)+1)
		}
		cfg, err := out.Space.ParseJSON(c.Values)
		if err != nil {
			return err
		}
		if cfg.Hash() != c.Hash {
			return fmt.Errorf("its SHA-256 is %s, recorded is %s", cfg.Hash(), c.Hash)
		}
		out.Configurations = append(out.Configurations, &rollout.Configuration{
			Scheduler: s.ID, UID: c.UID, Revision: c.Revision, State: c.State, Origin: c.Origin, Config: cfg,
			Hash:    c.Hash,
			Created: c.Created, Updated: c.Updated, Reason: c.Reason, Evidence: c.Evidence, Ack: c.Ack, Left: c.Left,
		})
		return nil
	})
	if n := int64(len(out.Configurations)); err == nil && n != s.LastRevision {
		err = &CorruptError{File: configFile, Bucket: configsBucket + "/" + s.ID,
			Why: fmt.Sprintf("it has %d revisions, the scheduler's record says %d", n, s.LastRevision)}
	}
	return out, err
}

// bucket returns a bucket inside others, creating what is missing.
func bucket(tx *bolt.Tx, path ...string) (*bolt.Bucket, error) {
	b, err := tx.CreateBucketIfNotExists([]byte(path[0]))
	for _, name := range path[1:] {
		if err != nil {
			return nil, err
		}
		b, err = b.CreateBucketIfNotExists([]byte(name))
	}
	return b, err
}

func putJSON(tx *bolt.Tx, key []byte, v any, path ...string) error {
	b, err := bucket(tx, path...)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, appendRecord(nil, key, func(dst []byte) []byte { return append(dst, payload...) }))
}

func getJSON(key, record []byte, v any) error {
	payload, err := openRecord(key, record)
	if err != nil {
		return err
	}
	return json.Unmarshal(payload, v)
}

// eachJSON decodes the records of a bucket, or of the one named inside in it,
// in order. What visit finds wrong with a record is reported as corruption of
// it.
func eachJSON[T any](tx *bolt.Tx, name string, inside []byte, visit func(v T, key []byte) error) error {
	b := tx.Bucket([]byte(name))
	if b != nil && inside != nil {
		b, name = b.Bucket(inside), name+"/"+string(inside)
	}
	if b == nil {
		return nil
	}
	return b.ForEach(func(k, record []byte) error {
		var v T
		err := getJSON(k, record, &v)
		if err == nil {
			err = visit(v, k)
		}
		if err == nil || errors.Is(err, ErrCorrupt) {
			return err
		}
		key := string(k)
		if inside != nil {
			key = fmt.Sprintf("%x", k)
		}
		return &CorruptError{File: configFile, Bucket: name, Key: key, Why: err.Error()}
	})
}
