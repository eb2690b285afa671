package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

// The buckets of config.db. Configurations and revisions of schedulers have one inside for each
// scheduler, keyed by revision.
const (
	schedulersBucket = "schedulers"
	configsBucket    = "configurations"
	acksBucket       = "acknowledgements"    // of older versions; the audit log has them
	revisionsBucket  = "scheduler_revisions" // of schedulers that have several
	deletionsBucket  = "deletions"           // of schedulers that are quarantined
	requestsBucket   = "requests"
)

// copies is the end of the name of a bucket with copies of records on which others rest: damage to one of the two costs
// nothing.
const copies = "_copies"

// putTwice stores a record and its copy.
func putTwice(tx *bolt.Tx, key []byte, v any, path ...string) error {
	copied := slices.Clone(path)
	copied[0] += copies
	return errors.Join(putJSON(tx, key, v, path...), putJSON(tx, key, v, copied...))
}

// getCopy reads the copy of a record if that is damaged. It returns the damage if both are.
func getCopy(tx *bolt.Tx, damage error, key []byte, v any, path ...string) error {
	if damage == nil {
		return nil
	}
	b := tx.Bucket([]byte(path[0] + copies))
	for _, name := range path[1:] {
		if b != nil {
			b = b.Bucket([]byte(name))
		}
	}
	if b == nil || getJSON(key, b.Get(key), v) != nil {
		return damage
	}
	return nil
}

var (
	errRevision = errors.New("revisions are numbered without gaps and keep their values")
	errMissing  = errors.New("it is missing")
)

// configRecord is a stored configuration: its values in canonical form, with their hash.
type configRecord struct {
	UID       string                `json:"uid"`
	Revision  int64                 `json:"revision"`
	State     rollout.RevisionState `json:"state"`
	Origin    rollout.Origin        `json:"origin"`
	Values    json.RawMessage       `json:"values"`
	Hash      string                `json:"sha256"`
	Space     int64                 `json:"space,omitempty"`
	Created   time.Time             `json:"created"`
	Updated   time.Time             `json:"updated"`
	Offered   time.Time             `json:"offered,omitzero"`
	OfferedAt time.Time             `json:"offered_at,omitzero"`
	Reason    string                `json:"reason,omitempty"`
	Evidence  *rollout.Evidence     `json:"evidence,omitempty"`
	Ack       *rollout.Ack          `json:"ack,omitempty"`
	Left      int64                 `json:"left,omitempty"`
	Incident  *rollout.Incident     `json:"incident,omitempty"`
	Review    *rollout.Review       `json:"review,omitempty"`
	// Previous is the revision before it if others between them were dropped.
	Previous int64 `json:"previous,omitempty"`
}

func revisionKey(revision int64) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(revision))
}

// Commit writes a change in one transaction. A new configuration must have the next revision, and an existing one
// must keep its values: otherwise it is an error and nothing is written.
func (r *Store) Commit(ctx context.Context, c controller.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	one := storedChangeOf(&c)
	return r.change(func(tx *bolt.Tx) error { return r.putChange(tx, one) })
}

// storedChange is a controller.Change as it is stored.
type storedChange struct {
	Scheduler      controller.Scheduler           `json:"scheduler"`
	Revisions      []controller.SchedulerRevision `json:"revisions,omitempty"`
	Deletion       *controller.Deletion           `json:"deletion,omitempty"`
	Configurations []configRecord                 `json:"configurations,omitempty"`
	Dropped        []int64                        `json:"dropped,omitempty"`
	Request        *controller.Request            `json:"request,omitempty"`
	Audit          *audit.Record                  `json:"audit,omitempty"`
}

func storedChangeOf(c *controller.Change) *storedChange {
	out := &storedChange{Scheduler: c.Scheduler, Revisions: c.Revisions, Deletion: c.Deletion, Dropped: c.Dropped,
		Request: c.Request, Audit: c.Audit}
	for _, one := range c.Configurations {
		out.Configurations = append(out.Configurations, configRecordOf(one))
	}
	return out
}

// update commits to config.db. After a failed write or fsync the state of the file's cached pages is unknown: the
// file is reopened without the commit.
func (r *Store) update(f func(*bolt.Tx) error) error {
	r.configMu.Lock()
	defer r.configMu.Unlock()
	if err := r.ended(); err != nil {
		return err
	}
	if r.config == nil {
		if err := r.reopenConfig(); err != nil {
			return err
		}
	}
	defer r.timed(changesKind)()
	write := func(f func(*bolt.Tx) error) error {
		r.failedCommit = 0
		return r.write(configFile, r.config, func(tx *bolt.Tx) error {
			r.failedCommit, r.pageSize = uint64(tx.ID()), int64(tx.DB().Info().PageSize)
			return f(tx)
		})
	}
	err := write(f)
	settled := err
	if err == nil { // an empty commit, so that both meta pages know the change
		settled = write(func(*bolt.Tx) error { return nil })
	}
	if errno := syscall.Errno(0); errors.As(settled, &errno) {
		_ = r.closeDB(configFile, r.config)
		r.config = nil
		if again := r.reopenConfig(); err != nil { // a failed empty commit leaves a durable one before it
			err = errors.Join(err, again)
		}
	}
	return storageError(err)
}

// reopenConfig opens config.db after a failed write, without traces of it. The caller must hold configMu.
func (r *Store) reopenConfig() (err error) {
	if r.failedCommit != 0 {
		err = undoCommit(filepath.Join(r.dir, configFile), r.failedCommit, r.pageSize)
	}
	if err == nil {
		r.config, err = r.openDB(configFile, false)
	}
	return err
}

// checkFollows checks that a change follows the stored version of its scheduler. One of a damaged record replaces it:
// memory has the scheduler. A deletion leaves the record as it is.
func (r *Store) checkFollows(tx *bolt.Tx, c *storedChange) error {
	if c.Deletion != nil {
		return nil
	}
	var before struct{ Version int64 }
	key, record := []byte(c.Scheduler.ID), []byte(nil)
	if b := tx.Bucket([]byte(schedulersBucket)); b != nil {
		record = b.Get(key)
	}
	err := getJSON(key, record, &before)
	if record != nil && err != nil {
		r.log.Error("a damaged record is replaced", "err", corrupt(schedulersBucket, c.Scheduler.ID, err))
	}
	if getCopy(tx, err, key, &before, schedulersBucket) != nil && record != nil {
		return nil
	}
	if before.Version+1 != c.Scheduler.Version {
		return fmt.Errorf("store: scheduler %q: %w: it is at version %d, the change follows %d", c.Scheduler.ID,
			controller.ErrStale, before.Version, c.Scheduler.Version-1)
	}
	return nil
}

// putChange writes a change if it follows the stored version.
func (r *Store) putChange(tx *bolt.Tx, c *storedChange) error {
	if err := r.checkFollows(tx, c); err != nil {
		return err
	}
	id := []byte(c.Scheduler.ID)
	if c.Deletion != nil {
		return errors.Join(putJSON(tx, id, c.Deletion, deletionsBucket), putAudit(tx, c.Audit),
			putRequest(tx, c.Request))
	}
	if err := putTwice(tx, id, c.Scheduler, schedulersBucket); err != nil {
		return err
	}
	for _, one := range c.Revisions {
		if err := putTwice(tx, revisionKey(one.Number), one, revisionsBucket, string(id)); err != nil {
			return err
		}
	}
	if b := tx.Bucket([]byte(deletionsBucket)); b != nil { // the record has it now
		if err := b.Delete(id); err != nil {
			return err
		}
	}
	for _, cfg := range c.Configurations {
		if err := putConfig(tx, c.Scheduler.ID, cfg); err != nil {
			return err
		}
	}
	if err := dropConfigs(tx, c.Scheduler.ID, c.Dropped); err != nil {
		return err
	}
	if tx.Bucket([]byte(acksBucket)) != nil {
		if err := tx.DeleteBucket([]byte(acksBucket)); err != nil {
			return err
		}
	}
	if c.Audit != nil {
		if err := putAudit(tx, c.Audit); err != nil {
			return err
		}
	}
	return putRequest(tx, c.Request)
}

// putRequest stores a request, if there is one.
func putRequest(tx *bolt.Tx, r *controller.Request) error {
	if r == nil {
		return nil
	}
	return putJSON(tx, requestKey(r.Key()), r, requestsBucket)
}

// requestKey returns the key of a request. That of an older version is the id alone.
func requestKey(k controller.RequestKey) []byte { return []byte(k.Scheduler + "\x00" + k.ID) }

// Remember stores a request that changed nothing.
func (r *Store) Remember(ctx context.Context, one controller.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.change(func(tx *bolt.Tx) error { return putRequest(tx, &one) })
}

// Note appends a record to the audit log.
func (r *Store) Note(ctx context.Context, one audit.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.change(func(tx *bolt.Tx) error { return putAudit(tx, &one) })
}

func configRecordOf(cfg *rollout.Configuration) configRecord {
	return configRecord{
		UID: cfg.UID, Revision: cfg.Revision, State: cfg.State, Origin: cfg.Origin,
		Values: json.RawMessage(cfg.Config.Canonical()), Hash: cfg.Hash, Space: cfg.Space,
		Created: cfg.Created, Updated: cfg.Updated, Offered: cfg.Offered, OfferedAt: cfg.OfferedAt,
		Reason: cfg.Reason, Evidence: cfg.Evidence, Ack: cfg.Ack, Left: cfg.Left, Incident: cfg.Incident,
		Review: cfg.Review,
	}
}

func putConfig(tx *bolt.Tx, scheduler string, cfg configRecord) error {
	b, err := bucket(tx, configsBucket, scheduler)
	if err != nil {
		return err
	}
	b.FillPercent = ascending
	key, before := revisionKey(cfg.Revision), configRecord{}
	if old := b.Get(key); old != nil {
		err := getJSON(key, old, &before)
		if err = getCopy(tx, err, key, &before, configsBucket, scheduler); err != nil {
			return corrupt(configsBucket+"/"+scheduler, fmt.Sprint(cfg.Revision), err)
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
	cfg.Previous = before.Previous
	return putTwice(tx, key, cfg, configsBucket, scheduler)
}

// dropConfigs removes revisions, and notes in the one after each gap which one is before. The cursor walks before the
// first removal: it stops at a page that the transaction emptied.
func dropConfigs(tx *bolt.Tx, scheduler string, revisions []int64) error {
	if len(revisions) == 0 {
		return nil
	}
	b, err := bucket(tx, configsBucket, scheduler)
	if err != nil {
		return err
	}
	copied, err := bucket(tx, configsBucket+copies, scheduler)
	if err != nil {
		return err
	}
	revisions = slices.Sorted(slices.Values(revisions))
	var after []configRecord
	c, before, gap, last := b.Cursor(), int64(0), false, revisionKey(revisions[len(revisions)-1])
	c.Seek(revisionKey(revisions[0]))
	key, record := c.Prev()
	if key == nil {
		key, record = c.First()
	}
	for ; key != nil && (gap || bytes.Compare(key, last) <= 0); key, record = c.Next() {
		if len(key) != 8 {
			continue
		}
		revision := int64(binary.BigEndian.Uint64(key))
		if _, gone := slices.BinarySearch(revisions, revision); gone {
			gap = true
			continue
		}
		if gap && before > 0 {
			one := configRecord{}
			err := getJSON(key, record, &one)
			if getCopy(tx, err, key, &one, configsBucket, scheduler) == nil { // a damaged one has none before it
				one.Previous = before
				after = append(after, one)
			}
		}
		before, gap = revision, false
	}
	for _, one := range after {
		if err := putTwice(tx, revisionKey(one.Revision), one, configsBucket, scheduler); err != nil {
			return err
		}
	}
	for _, revision := range revisions {
		if err := errors.Join(b.Delete(revisionKey(revision)), copied.Delete(revisionKey(revision))); err != nil {
			return err
		}
	}
	return nil
}

// Load returns the schedulers in order of id and the requests. Damage is limited to its record: a scheduler whose
// record cannot be read has a Fault and its id, a revision is Lost, and a request is reported as damage.
func (r *Store) Load() (saved []controller.Saved, requests []controller.Request, damage []controller.Damage,
	err error) {
	if err := r.metaDamage(configFile); err != nil {
		damage = append(damage, controller.Damage{File: configFile, Err: err})
	}
	err = r.viewConfig(func(tx *bolt.Tx) error {
		configs, copied := tx.Bucket([]byte(configsBucket)), tx.Bucket([]byte(schedulersBucket+copies))
		note := func(err error) {
			damage = append(damage, controller.Damage{File: configFile, Records: 1, Err: err})
		}
		add := func(s controller.Scheduler, key []byte, err error) {
			if err == nil && string(key) != s.ID {
				err = corrupt(schedulersBucket, string(key), fmt.Errorf("it belongs to scheduler %q", s.ID))
			}
			one := controller.Saved{Scheduler: s, Fault: err}
			one.Scheduler.ID = string(key)
			if err == nil {
				for _, err := range loadScheduler(tx, &one) {
					note(err)
				}
			}
			saved = append(saved, one)
		}
		has := func(id []byte) bool {
			return slices.ContainsFunc(saved, func(s controller.Saved) bool { return s.Scheduler.ID == string(id) })
		}
		err := eachJSON(tx, schedulersBucket, nil, func(s controller.Scheduler, key []byte, err error) {
			if damaged := err; damaged != nil {
				err = getCopy(tx, err, key, &s, schedulersBucket)
				stray := copied != nil && copied.Get(key) == nil && configs != nil && configs.Bucket(key) == nil
				if err == nil || stray {
					note(damaged)
				}
				if stray { // a scheduler's under another key
					return
				}
			}
			add(s, key, err)
		})
		if err != nil {
			if copied == nil {
				return err
			}
			note(err)
		}
		err = eachJSON(tx, schedulersBucket+copies, nil, func(s controller.Scheduler, id []byte, damaged error) {
			if damaged != nil {
				note(damaged)
			} else if !has(id) {
				note(corrupt(schedulersBucket, string(id), errMissing))
				add(s, id, nil)
			}
		})
		if err != nil {
			note(err)
		}
		if configs != nil {
			err = ascend(configs, configsBucket, func(id, _ []byte) error {
				if configs.Bucket(id) != nil && !has(id) {
					add(controller.Scheduler{}, id, corrupt(schedulersBucket, string(id), errMissing))
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		slices.SortFunc(saved, func(a, b controller.Saved) int {
			return cmp.Compare(a.Scheduler.ID, b.Scheduler.ID)
		})
		err = eachJSON(tx, deletionsBucket, nil, func(d controller.Deletion, id []byte, err error) {
			if err != nil {
				note(err)
				return
			}
			for i := range saved {
				if s := &saved[i].Scheduler; s.ID == string(id) {
					s.Deleted, s.Expires = d.Deleted, d.Expires
				}
			}
		})
		if err != nil {
			return err
		}
		return eachJSON(tx, requestsBucket, nil, func(q controller.Request, _ []byte, err error) {
			if err != nil {
				note(err)
				return
			}
			requests = append(requests, q)
		})
	})
	return saved, requests, damage, adviseRestore(err)
}

// LoadScheduler returns one scheduler as Load does, and false if there is none. Its Fault, and damage to records that
// have a copy, is an error.
func (r *Store) LoadScheduler(id string) (one controller.Saved, found bool, err error) {
	err = r.viewConfig(func(tx *bolt.Tx) error {
		one, found = controller.Saved{}, false
		read := func(name string, v any) (bool, error) {
			var record []byte
			if b := tx.Bucket([]byte(name)); b != nil {
				record = b.Get([]byte(id))
			}
			if record == nil {
				return false, nil
			}
			if err := getJSON([]byte(id), record, v); err != nil {
				return true, corrupt(name, id, err)
			}
			return true, nil
		}
		if found, err = read(schedulersBucket, &one.Scheduler); err != nil || !found {
			return err
		}
		if err := errors.Join(append(loadScheduler(tx, &one), one.Fault)...); err != nil {
			return err
		}
		var d controller.Deletion
		deleted, err := read(deletionsBucket, &d)
		if deleted && err == nil {
			one.Scheduler.Deleted, one.Scheduler.Expires = d.Deleted, d.Expires
		}
		return err
	})
	return one, found, err
}

// loadScheduler reads a scheduler's space and revisions, and returns the damage to records that have a copy and to
// copies. Damage to its record is its Fault; damaged revisions without a copy are Lost.
func loadScheduler(tx *bolt.Tx, out *controller.Saved) (damage []error) {
	s := &out.Scheduler
	var err error
	if out.Space, err = space.New(s.Params, s.Rules); err != nil {
		out.Fault = corrupt(schedulersBucket, s.ID, err)
		if out.Space, err = space.New(s.Params, nil); err != nil { // its configurations can still be served
			return nil
		}
	}
	if err := s.Cluster.Validate(); err != nil {
		out.Fault = cmp.Or[error](out.Fault, corrupt(schedulersBucket, s.ID, err))
	}
	spaces, damage := loadRevisions(tx, out)
	last := int64(0)                       // read
	lost := func(until int64, why error) { // up to and with a revision
		for r := last + 1; r <= until; r++ {
			out.Configurations = append(out.Configurations, &rollout.Configuration{Scheduler: s.ID, Revision: r,
				State: rollout.Lost, Reason: why.Error()})
		}
		last = max(last, until)
	}
	inside := configsBucket + "/" + s.ID
	err = guardPanics(configFile, func() error {
		return eachJSON(tx, configsBucket, []byte(s.ID), func(c configRecord, key []byte, err error) {
			if len(key) != 8 {
				return
			}
			revision := int64(binary.BigEndian.Uint64(key))
			if damaged := err; damaged != nil {
				if err = getCopy(tx, err, key, &c, configsBucket, s.ID); err == nil {
					damage = append(damage, damaged)
				}
			}
			if revision <= last || revision > s.LastRevision {
				out.Fault = cmp.Or[error](out.Fault, corrupt(inside, fmt.Sprint(revision),
					fmt.Errorf("the scheduler's record says there are %d revisions", s.LastRevision)))
				return
			}
			if err == nil { // the ones before a damaged one may have been dropped
				lost(cmp.Or(c.Previous, revision-1), corrupt(inside, "", errMissing))
			}
			last = revision - 1
			cfg, err := c.config(spaces[max(1, c.Space)], revision, err)
			if err != nil {
				if !errors.Is(err, ErrCorrupt) {
					err = corrupt(inside, fmt.Sprint(revision), err)
				}
				lost(revision, err)
				return
			}
			out.Configurations = append(out.Configurations, &rollout.Configuration{
				Scheduler: s.ID, UID: c.UID, Revision: c.Revision, State: c.State, Origin: c.Origin, Config: cfg,
				Hash: c.Hash, Space: c.Space, Created: c.Created, Updated: c.Updated, Offered: c.Offered,
				OfferedAt: c.OfferedAt,
				Reason:    c.Reason, Evidence: c.Evidence, Ack: c.Ack, Left: c.Left, Incident: c.Incident,
				Review: c.Review,
			})
			last = revision
		})
	})
	if err == nil {
		err = corrupt(inside, "", errMissing)
	}
	lost(s.LastRevision, err)
	for _, name := range []string{configsBucket, revisionsBucket, studiesBucket} {
		err := guardPanics(configFile, func() error {
			return eachJSON(tx, name+copies, []byte(s.ID), func(_ json.RawMessage, _ []byte, err error) {
				damage = append(damage, err)
			})
		})
		damage = append(damage, err)
	}
	return slices.DeleteFunc(damage, func(err error) bool { return err == nil })
}

// loadRevisions reads the revisions of a scheduler and returns the spaces of undamaged ones by number, and the damage
// to records that have a copy.
func loadRevisions(tx *bolt.Tx, out *controller.Saved) (spaces map[int64]*space.Space, damage []error) {
	present := max(1, out.Scheduler.Revision)
	spaces = map[int64]*space.Space{present: out.Space}
	err := guardPanics(configFile, func() error {
		return eachJSON(tx, revisionsBucket, []byte(out.Scheduler.ID), func(r controller.SchedulerRevision, key []byte,
			err error) {
			if len(key) != 8 {
				return
			}
			if damaged := err; damaged != nil {
				if err = getCopy(tx, err, key, &r, revisionsBucket, out.Scheduler.ID); err == nil {
					damage = append(damage, damaged)
				}
			}
			r.Number = int64(binary.BigEndian.Uint64(key))
			if r.Space = spaces[r.Number]; err == nil && r.Space == nil {
				r.Space, err = space.New(r.Params, r.Rules)
			}
			if r.Damage = err; err == nil {
				spaces[r.Number] = r.Space
			}
			out.Revisions = append(out.Revisions, r)
		})
	})
	if err != nil {
		out.Fault = cmp.Or[error](out.Fault, err)
	}
	return spaces, damage
}

// config returns the values of a record. err is the error of reading it.
func (c *configRecord) config(sp *space.Space, revision int64, err error) (space.Config, error) {
	if err != nil {
		return space.Config{}, err
	}
	if c.Revision != revision {
		return space.Config{}, fmt.Errorf("it holds revision %d", c.Revision)
	}
	if sp == nil {
		return space.Config{}, fmt.Errorf("scheduler revision %d, in whose space it is, cannot be read", max(1,
			c.Space))
	}
	cfg, err := sp.ParseJSON(c.Values)
	if err == nil && cfg.Hash() != c.Hash {
		err = fmt.Errorf("its SHA-256 is %s, recorded is %s", cfg.Hash(), c.Hash)
	}
	return cfg, err
}

func corrupt(bucket, key string, err error) error {
	return &CorruptError{File: configFile, Bucket: bucket, Key: key, Why: err.Error()}
}

// bucket returns a bucket by its path, and creates missing ones.
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

// putJSON stores a record in a bucket of config.db that is inside others.
func putJSON(tx *bolt.Tx, key []byte, v any, path ...string) error {
	b, err := bucket(tx, path...)
	if err != nil {
		return err
	}
	return putIn(b, key, v)
}

// putIn stores a record in a bucket of config.db.
func putIn(b *bolt.Bucket, key []byte, v any) error {
	version, err := readerOf(v)
	if err == nil {
		err = raiseReader(b.Tx(), version)
	}
	if err != nil {
		return err
	}
	return putPlain(b, key, v)
}

// putPlain stores a record that has no reader version.
func putPlain(b *bolt.Bucket, key []byte, v any) error {
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

// ascend visits the keys of a bucket in order. Damaged pages can form a cycle: keys that do not ascend are an error.
func ascend(b *bolt.Bucket, name string, visit func(key, record []byte) error) error {
	c, last := b.Cursor(), []byte(nil)
	for k, record := c.First(); k != nil; k, record = c.Next() {
		if last != nil && bytes.Compare(k, last) <= 0 {
			return &CorruptError{File: fileOf(b.Tx()), Bucket: name, Key: fmt.Sprintf("%x", k),
				Why: "it is out of order"}
		}
		last = k
		if err := visit(k, record); err != nil {
			return err
		}
	}
	return nil
}

// eachJSON visits the records of a bucket, or of the bucket inside it, in order. A damaged record comes with an
// error.
func eachJSON[T any](tx *bolt.Tx, name string, inside []byte, visit func(v T, key []byte, err error)) error {
	b := tx.Bucket([]byte(name))
	if b != nil && inside != nil {
		b, name = b.Bucket(inside), name+"/"+string(inside)
	}
	if b == nil {
		return nil
	}
	return ascend(b, name, func(k, record []byte) error {
		var v T
		err := getJSON(k, record, &v)
		if err != nil {
			key := string(k)
			if inside != nil {
				key = fmt.Sprintf("%x", k)
			}
			err = corrupt(name, key, err)
		}
		visit(v, k, err)
		return nil
	})
}
