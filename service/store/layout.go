package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/study"
	"github.com/autosched/autosched/workload"
)

// Every file carries the layout that it was made with, and config.db that of the directory, which Open
// upgrades. A program refuses a directory of a newer layout. Within a layout, records gain fields: config.db
// carries the least reader version that loses none of them, raised in the transaction that first uses one,
// and a program of a lower reader version refuses the directory.
const (
	layoutVersion = 2
	readerVersion = 9 // the highest of fieldReaders, and replicaReader
	layout1Reader = 1 // the reader version of records of layout 1
)

// fieldReaders has the reader version of each field whose loss changes the decisions of the service, by the
// name of its record and its path in JSON. A reader below it would drop the field when it writes the record
// again. testdata/fields.txt has all other fields: every reader knows them, or they are only shown.
var fieldReaders = map[string]uint64{
	// Speeds of pairs of jobs that were not measured.
	"Scheduler.simulation.models.pairs.loads.sm":     2,
	"Scheduler.simulation.models.pairs.rule.base":    2,
	"Scheduler.simulation.models.pairs.rule.both_sm": 2,
	"Scheduler.simulation.models.pairs.rule.own_sm":  2,
	// Restart costs by the size of a job's state.
	"Scheduler.simulation.models.restart.by_state.most_gb":         3,
	"Scheduler.simulation.models.restart.by_state.seconds":         3,
	"Scheduler.simulation.models.restart.by_state.seconds_per_gb":  3,
	"Scheduler.simulation.models.restart.by_state.share_of_memory": 3,
	// Cohorts of virtual clusters, and limits of borrowing and lending.
	"Scheduler.cluster.vcs.cohort":         6,
	"Scheduler.cluster.vcs.borrow":         6,
	"Scheduler.cluster.vcs.lend":           6,
	"SchedulerRevision.cluster.vcs.cohort": 6,
	"SchedulerRevision.cluster.vcs.borrow": 6,
	"SchedulerRevision.cluster.vcs.lend":   6,
	// GPUs that jobs held before they ran.
	"Event.StartUp": 7,
	// Parked proposals, whose state earlier readers do not know.
	"Configuration.review.parked": 9,
	// Changes that follow each other, of records that have copies.
	"Scheduler.version": 5,
	"Study.version":     5,
	// Revisions that were dropped, which are not lost.
	"Configuration.previous": 5,
	// Operators' holds.
	"Scheduler.freeze":                    1,
	"Scheduler.pin":                       1,
	"Scheduler.parked":                    1,
	"Scheduler.pause":                     1,
	"Scheduler.paused":                    1,
	"Scheduler.policy.limits.quiet_hours": 1,
	// Rollouts and their checks.
	"Scheduler.instances":    1,
	"Scheduler.wave":         1,
	"Scheduler.policy.waves": 1,
	"Scheduler.probation":    1,
	"Scheduler.experience":   1,
	"Configuration.incident": 1,
	"Configuration.left":     1,
	"Configuration.review":   1,
	"Configuration.space":    1,
	// Deletions, which end.
	"Scheduler.deleted": 1,
	"Scheduler.expires": 1,
	"Deletion.deleted":  1,
	"Deletion.expires":  1,
	// Operations and studies, which go on by themselves.
	"Scheduler.operations": 1,
	"Study.run":            1,
	"Trial.expires":        1,
	"Trial.retry":          1,
	"Trial.retry_of":       1,
	"Trial.same_as":        1,
}

// clusterFields are the limits, preemption, reservations, weights and switches of a site, which replays follow, by
// reader version.
var clusterFields = map[uint64][]string{
	4: {"site.limits.account", "site.limits.each", "site.limits.own", "site.limits.qos", "site.limits.resource",
		"site.limits.user", "site.partitions.preempt_mode", "site.partitions.qos", "site.qos.preempt_mode",
		"site.qos.usage_factor", "site.reservations.from", "site.reservations.name", "site.reservations.nodes.name",
		"site.reservations.nodes.number", "site.reservations.to", "site.reservations.whole"},
	5: {"groups.weight", "site.limits.borrow", "site.limits.lend", "site.limits.partition",
		"site.partitions.exclusive", "site.switches.name", "site.switches.nodes.name", "site.switches.nodes.number",
		"site.switches.parent"},
}

func init() {
	for version, fields := range clusterFields {
		for _, field := range fields {
			fieldReaders["Scheduler.cluster."+field] = version
			fieldReaders["SchedulerRevision.cluster."+field] = version
		}
	}
}

// recordNames are the names of records in fieldReaders.
var recordNames = map[reflect.Type]string{
	reflect.TypeFor[controller.Scheduler]():         "Scheduler",
	reflect.TypeFor[controller.SchedulerRevision](): "SchedulerRevision",
	reflect.TypeFor[controller.Deletion]():          "Deletion",
	reflect.TypeFor[controller.Request]():           "Request",
	reflect.TypeFor[configRecord]():                 "Configuration",
	reflect.TypeFor[epochRecord]():                  "Epoch",
	reflect.TypeFor[study.Record]():                 "Study",
	reflect.TypeFor[study.Trial]():                  "Trial",
	reflect.TypeFor[workloads.Record]():             "Workload",
	reflect.TypeFor[workload.Event]():               "Event",
}

// readerOf returns the least reader version that loses no field of a record.
func readerOf(record any) (uint64, error) {
	v := reflect.Indirect(reflect.ValueOf(record))
	name, ok := recordNames[v.Type()]
	if !ok {
		return 0, fmt.Errorf("store: records of type %v have no reader versions", v.Type())
	}
	return readerOfFields(name, v), nil
}

func readerOfFields(path string, v reflect.Value) (version uint64) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			version = readerOfFields(path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			version = max(version, readerOfFields(path, v.Index(i)))
		}
	case reflect.Struct:
		if q, ok := v.Interface().(workload.Requested); ok {
			v = reflect.ValueOf(q.Request())
		}
		for i := range v.NumField() {
			at, stored := fieldPath(path, v.Type().Field(i))
			if !stored || v.Field(i).IsZero() {
				continue
			}
			if at == "Event.Active" { // the parts of a snapshot are events
				at = "Event"
			}
			version = max(version, fieldReaders[at])
			if hasReaders(at) {
				version = max(version, readerOfFields(at, v.Field(i)))
			}
		}
	}
	return version
}

// hasReaders reports whether fieldReaders has fields inside a record or a field.
func hasReaders(path string) bool {
	for field := range fieldReaders {
		if strings.HasPrefix(field, path) && (len(field) == len(path) || field[len(path)] == '.') {
			return true
		}
	}
	return false
}

// fieldPath returns the path of a struct's field in JSON, and whether it is stored.
func fieldPath(path string, f reflect.StructField) (at string, stored bool) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case name == "-" || !f.IsExported():
		return "", false
	case f.Anonymous && name == "":
		return path, true
	case name == "":
		name = f.Name
	}
	return path + "." + name, true
}

var (
	layoutKey = []byte("schema")
	readerKey = []byte("reader")
)

// fileOf returns the name of a transaction's file, which may have been made as the copy that replaced it.
func fileOf(tx *bolt.Tx) string {
	return strings.TrimSuffix(filepath.Base(tx.DB().Path()), compactSuffix)
}

// metaNumber returns a number of the bucket of a file's own records, 0 if it is not there.
func metaNumber(b *bolt.Bucket, key []byte) (uint64, error) {
	record := b.Get(key)
	if record == nil {
		return 0, nil
	}
	payload, err := openRecord(key, record)
	if err == nil {
		if v, n := binary.Uvarint(payload); n > 0 {
			return v, nil
		}
		err = errors.New("it is no number")
	}
	return 0, &CorruptError{File: fileOf(b.Tx()), Bucket: metaBucket, Key: string(key), Why: err.Error()}
}

func putMetaNumber(b *bolt.Bucket, key []byte, v uint64) error {
	return b.Put(key, appendRecord(nil, key, func(dst []byte) []byte { return binary.AppendUvarint(dst, v) }))
}

// checkLayout refuses a file of a newer layout or for newer readers, and marks a new file.
func checkLayout(tx *bolt.Tx) error {
	b := tx.Bucket([]byte(metaBucket))
	if b == nil {
		if !tx.Writable() {
			return nil // created, but nothing was committed to it
		}
		var err error
		if b, err = tx.CreateBucket([]byte(metaBucket)); err != nil {
			return err
		}
		return putMetaNumber(b, layoutKey, layoutVersion)
	}
	layout, err := metaNumber(b, layoutKey)
	if err == nil && layout == 0 {
		err = &CorruptError{File: fileOf(tx), Bucket: metaBucket, Key: string(layoutKey), Why: "it is missing"}
	}
	if err != nil {
		return err
	}
	reader, err := metaNumber(b, readerKey)
	if err != nil {
		return err
	}
	return checkVersions(layout, reader)
}

// checkVersions refuses a newer layout, and records for newer readers.
func checkVersions(layout, reader uint64) error {
	const remedy = "run that version, or restore a backup of this one into another directory (autosched admin restore)"
	switch {
	case layout > layoutVersion:
		return fmt.Errorf("%w: layout %d, this one knows up to %d: %s", ErrNewer, layout, layoutVersion, remedy)
	case reader > readerVersion:
		return fmt.Errorf("%w: a reader of version %d or later must read its records, this one has version %d: %s",
			ErrNewer, reader, readerVersion, remedy)
	}
	return nil
}

// versions returns the layout of the directory, and the least version of its readers.
func (r *Store) versions() (layout, reader uint64, err error) {
	err = r.viewConfig(func(tx *bolt.Tx) (err error) {
		b := tx.Bucket([]byte(metaBucket))
		if b == nil {
			return nil // created, but nothing was committed to it
		}
		if layout, err = metaNumber(b, layoutKey); err == nil {
			reader, err = metaNumber(b, readerKey)
		}
		return err
	})
	return layout, reader, err
}

// upgrade makes a directory of an older layout one of layoutVersion, in one commit before any other.
func (r *Store) upgrade() error {
	layout, reader, err := r.versions()
	r.reader.Store(reader)
	if err != nil || layout == layoutVersion {
		return err
	}
	put := func(tx *bolt.Tx) error {
		if err := putMetaNumber(tx.Bucket([]byte(metaBucket)), layoutKey, layoutVersion); err != nil {
			return err
		}
		return raiseReader(tx, layout1Reader)
	}
	err = r.update(put)
	if errors.Is(err, ErrFull) {
		err = r.reserve.release(func() error { return r.update(put) })
	}
	return err
}

// raiseReader raises the least version of readers of config.db.
func raiseReader(tx *bolt.Tx, version uint64) error {
	b := tx.Bucket([]byte(metaBucket))
	before, err := metaNumber(b, readerKey)
	if err != nil || version <= before {
		return err
	}
	return putMetaNumber(b, readerKey, version)
}

// raiseForEvents raises the least version of readers before events that need it are written to a segment.
func (r *Store) raiseForEvents(calls []*appendCall) error {
	if !hasReaders("Event") {
		return nil
	}
	version := uint64(0)
	for _, c := range calls {
		for i := range c.events {
			version = max(version, readerOfFields("Event", reflect.ValueOf(&c.events[i])))
		}
	}
	if version <= r.reader.Load() {
		return nil
	}
	err := r.update(func(tx *bolt.Tx) error { return raiseReader(tx, version) })
	if err == nil {
		r.reader.Store(version)
	}
	return err
}
