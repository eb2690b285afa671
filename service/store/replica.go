package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/workload"
)

// A replica follows a log of changes: it applies the entries in their order, each at the time that the log gives it,
// so that all replicas make the same records. How far it is, is written with the changes: in config.db with the last
// change of an entry, and in the segment with the events of one, which come first. After a crash the rest of an entry
// is applied again, and not the part that is there. Records of rounds, reports and texts may be applied twice. Entries
// that are applied together are as one entry.

// Place is that of an entry in a log.
type Place struct {
	Sequence uint64 `json:"sequence"`
	// Chain is a hash over the log up to the entry.
	Chain uint64 `json:"chain"`
}

// Entry is one of a log, at a place and of a time.
type Entry struct {
	Place
	Time time.Time
	Ops  []*Op
}

// storedPlace is a place as a file has it.
type storedPlace struct {
	Place
	// Partial is how many of the entries up to the place may lack their changes.
	Partial uint64 `json:"partial,omitempty"`
}

var (
	replicaKey = []byte("replica") // of a directory that is one
	placeKey   = []byte("place")   // of the last entry that is applied
	movedKey   = []byte("moved")   // of a directory whose records a cluster has
)

// replicaReader is the reader version of directories with such keys: a program that does not know them would write.
const replicaReader = 8

// markEvery bounds the entries that a start applies again where no change marks the place.
const markEvery = 500

// replica is the state of a store that follows a log.
type replica struct {
	at       Place
	events   uint64       // the last entry whose events are applied
	applying Place        // of the last of the entries that are being applied
	partial  bool         // they have more than events
	marked   uint64       // the entry at which config.db is
	whole    uint64       // the entry up to which changes were made, too, when the segments were opened
	clock    atomic.Int64 // nanoseconds since 1970
}

func (p *replica) now() time.Time { return time.Unix(0, p.clock.Load()).UTC() }

// Op is a change as a log carries it: one field is set.
type Op struct {
	Change   *storedChange       `json:"change,omitempty"`
	Remember *controller.Request `json:"remember,omitempty"`
	Note     *audit.Record       `json:"note,omitempty"`
	Study    *studies.Change     `json:"study,omitempty"`
	Workload *workloads.Change   `json:"workload,omitempty"` // without its text
	Events   *eventsOp           `json:"events,omitempty"`
	Round    *roundOp            `json:"round,omitempty"`
	Reports  *reportsOp          `json:"reports,omitempty"`
	Text     *textOp             `json:"text,omitempty"`
	// The ones below are alone in an entry.
	KeepTexts *keepTextsOp        `json:"keep_texts,omitempty"`
	Purge     *controller.Expired `json:"purge,omitempty"`
	Archive   *archiveOp          `json:"archive,omitempty"`
	Drop      *dropOp             `json:"drop,omitempty"`
	Epoch     *epochRecord        `json:"epoch,omitempty"`
}

type eventsOp struct {
	Scheduler string           `json:"scheduler"`
	Events    [][]byte         `json:"events"`
	decoded   []workload.Event // of Events, where the op was not read
}

type roundOp struct {
	UID      string `json:"uid"`
	Sequence int64  `json:"sequence"`
	Record   []byte `json:"record"`
	Keep     int    `json:"keep"`
}

type reportsOp struct {
	UID     string           `json:"uid"`
	Keys    [][]byte         `json:"keys"`
	Reports []reports.Report `json:"reports"`
	Keep    reports.Keep     `json:"keep"`
}

type textOp struct {
	Scheduler string `json:"scheduler"`
	UID       string `json:"uid"`
	Part      int    `json:"part"`
	Text      []byte `json:"text"`
}

type keepTextsOp struct {
	Scheduler string          `json:"scheduler"`
	UIDs      map[string]bool `json:"uids"`
}

type archiveOp struct {
	Keep time.Time `json:"keep"`
}

type dropOp struct {
	Before time.Time                 `json:"before"`
	Cuts   map[string]controller.Cut `json:"cuts"`
}

// The constructors of ops, by method of Store.

// ChangeOp is that of Commit.
func ChangeOp(c *controller.Change) *Op { return &Op{Change: storedChangeOf(c)} }

// EventsOp is that of AppendEvents.
func EventsOp(scheduler string, events []workload.Event) *Op {
	op := &eventsOp{Scheduler: scheduler, decoded: events}
	for i := range events {
		op.Events = append(op.Events, appendEvent(nil, &events[i]))
	}
	return &Op{Events: op}
}

// RoundOp is that of KeepRound.
func RoundOp(uid string, sequence int64, record []byte, keep int) *Op {
	return &Op{Round: &roundOp{uid, sequence, record, keep}}
}

// ReportsOp is that of AppendReports.
func ReportsOp(uid string, all []reports.Report, keep reports.Keep) *Op {
	op := &reportsOp{UID: uid, Reports: all, Keep: keep}
	for i := range all {
		op.Keys = append(op.Keys, reportKey(all[i].Key))
	}
	return &Op{Reports: op}
}

// WorkloadOps are those of ChangeWorkloads, to be applied in their order.
func WorkloadOps(c *workloads.Change) (out []*Op) {
	const parts = 8 // of a text in an op
	for first := 0; !c.Delete && first*textPart < len(c.Text); first += parts {
		text := c.Text[first*textPart : min(len(c.Text), (first+parts)*textPart)]
		out = append(out, &Op{Text: &textOp{c.SchedulerUID, c.Record.UID, first, text}})
	}
	record := *c
	record.Text = nil
	return append(out, &Op{Workload: &record})
}

// KeepTextsOp is that of KeepWorkloads.
func KeepTextsOp(scheduler string, uids map[string]bool) *Op {
	return &Op{KeepTexts: &keepTextsOp{scheduler, uids}}
}

// ArchiveOp is that of ArchiveAudit.
func ArchiveOp(keep time.Time) *Op { return &Op{Archive: &archiveOp{keep}} }

// DropOp is that of DropEvents; nil if no file is old.
func (r *Store) DropOp(keep controller.Retention) (*Op, error) {
	names, err := segmentNames(r.dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var old []string
	due := false
	for _, name := range names {
		if isCheckpoint(name) || dayOf(name) < keep.Before.UTC().Format(dayLayout) {
			old, due = append(old, name), due || !isCheckpoint(name)
		}
	}
	if !due {
		return nil, nil
	}
	ids, err := r.schedulersIn(old)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	op := &dropOp{Before: keep.Before, Cuts: map[string]controller.Cut{}}
	for _, id := range ids {
		if op.Cuts[id], err = keep.Cut(id); err != nil {
			return nil, err
		}
	}
	return &Op{Drop: op}, nil
}

// EpochOp begins an epoch after one, with the secret of a store; the zero Epoch is before the first.
func EpochOp(now time.Time, newID func() string, after controller.Epoch, secret []byte, why string) *Op {
	e := &epochRecord{Epoch: controller.Epoch{ID: newID(), Counter: max(now.UnixMilli(), after.Counter+1)},
		Began: now.UTC(), Why: why, Secret: string(secret)}
	if e.Secret == "" {
		e.Secret = newID()
	}
	return &Op{Epoch: e}
}

// Alone reports whether an op is alone in its entry.
func (o *Op) Alone() bool {
	return o.KeepTexts != nil || o.Purge != nil || o.Archive != nil || o.Drop != nil || o.Epoch != nil
}

// Count counts the events of an op.
func (o *Op) Count() int {
	if o.Events == nil {
		return 0
	}
	return len(o.Events.Events)
}

// Scheduler is the id or the uid of the scheduler that an op is about, "" for none.
func (o *Op) Scheduler() string {
	switch {
	case o.Change != nil:
		return o.Change.Scheduler.ID
	case o.Remember != nil:
		return o.Remember.Scheduler
	case o.Study != nil:
		return o.Study.Scheduler
	case o.Workload != nil:
		return o.Workload.Scheduler
	case o.Events != nil:
		return o.Events.Scheduler
	case o.Purge != nil:
		return o.Purge.Scheduler
	}
	return ""
}

// Reader is the least reader version that loses nothing of an op.
func (o *Op) Reader() (version uint64) {
	raise := func(record any) {
		one, err := readerOf(record)
		if err != nil {
			panic(err) // the record has no reader versions
		}
		version = max(version, one)
	}
	switch {
	case o.Change != nil:
		raise(&o.Change.Scheduler)
		for i := range o.Change.Revisions {
			raise(&o.Change.Revisions[i])
		}
		for i := range o.Change.Configurations {
			raise(&o.Change.Configurations[i])
		}
		if o.Change.Deletion != nil {
			raise(o.Change.Deletion)
		}
	case o.Study != nil:
		raise(&o.Study.Study)
		for _, t := range o.Study.Trials {
			raise(t)
		}
	case o.Workload != nil:
		raise(&o.Workload.Record)
	case o.Events != nil:
		for i := range o.Events.decoded {
			raise(&o.Events.decoded[i])
		}
	}
	return version
}

// Readable returns an error unless this program loses nothing of records for a reader version.
func Readable(reader uint64) error { return checkVersions(layoutVersion, reader) }

// events decodes the events of an op that was read.
func (o *eventsOp) events() ([]workload.Event, error) {
	if o.decoded == nil {
		for _, text := range o.Events {
			e, err := decodeEvent(text)
			if err != nil {
				return nil, err
			}
			o.decoded = append(o.decoded, e)
		}
	}
	return o.decoded, nil
}

// Result is that of an op.
type Result struct {
	Err     error         // the op changed nothing, in any replica
	Fresh   []bool        // of AppendReports
	Dropped []reports.Key // of AppendReports
	Files   []string      // of DropEvents
}

// Place returns that of the last entry applied.
func (r *Store) Place() Place { return r.replica.at }

// Apply applies entries of a log, and returns the results of their ops. Those that allow it share commits. After an
// error the entries after Place are not applied: they may be again once the reason has gone, and after an ErrCorrupt
// the replica must be made anew. It must not be called concurrently.
func (r *Store) Apply(entries ...Entry) (out []Result, err error) {
	for len(entries) > 0 {
		n := together(entries)
		results, err := r.applyTogether(entries[:n])
		if err != nil {
			return nil, err
		}
		out, entries = append(out, results...), entries[n:]
	}
	return out, nil
}

// together returns how many of the first entries can be applied as one: those of a day, whose events one segment has,
// up to one with a workload, whose end drops a text.
func together(entries []Entry) (n int) {
	day := entries[0].Time.UTC().Format(dayLayout)
	for i := range entries {
		e := &entries[i]
		if i > 0 && (e.alone() || e.Time.UTC().Format(dayLayout) != day) {
			return i
		}
		if e.alone() || slices.ContainsFunc(e.Ops, func(o *Op) bool { return o.Workload != nil }) {
			return i + 1
		}
	}
	return len(entries)
}

func (e *Entry) alone() bool { return len(e.Ops) == 1 && e.Ops[0].Alone() }

func (r *Store) applyTogether(entries []Entry) ([]Result, error) {
	p := r.replica
	before, last := p.at.Sequence, &entries[len(entries)-1]
	var ops []*Op
	var calls []*appendCall
	for i := range entries {
		e := &entries[i]
		if e.Sequence <= before {
			return nil, fmt.Errorf("store: entry %d of the log comes after entry %d", e.Sequence, before)
		}
		before = e.Sequence
		for _, o := range e.Ops {
			if o.Events != nil {
				events, err := o.Events.events()
				if err != nil {
					return nil, fmt.Errorf("store: entry %d of the log: %w", e.Sequence, err)
				}
				calls = append(calls, &appendCall{entry: e.Sequence, scheduler: o.Events.Scheduler, events: events})
			}
		}
		ops = append(ops, e.Ops...)
	}
	p.applying, p.partial = last.Place, len(calls) < len(ops)
	// Their events are stored, maybe by a process that was killed before it made their changes: only config.db can
	// tell that these are made.
	again := len(calls) > 0 && calls[0].entry <= p.events
	p.clock.Store(last.Time.UnixNano())
	out := make([]Result, len(ops))
	err := r.applyEvents(calls)
	if err == nil {
		err = r.apply(ops, out)
	}
	if err == nil {
		// An entry whose change is marked is not marked again: if that failed, the change would be made twice.
		if last.Sequence-p.marked >= markEvery || (again || last.alone()) && p.marked < last.Sequence {
			err = r.change(func(*bolt.Tx) error { return nil })
		}
	}
	if err != nil {
		return nil, fmt.Errorf("store: the log up to entry %d: %w", last.Sequence, err)
	}
	p.at = last.Place
	return out, nil
}

// Mark writes the place of the replica to config.db, as a backup needs it.
func (r *Store) Mark() error {
	if r.replica.marked == r.replica.at.Sequence {
		return nil
	}
	r.replica.applying = r.replica.at // not an entry that failed
	return r.change(func(*bolt.Tx) error { return nil })
}

// apply applies ops but for those of events.
func (r *Store) apply(ops []*Op, out []Result) error {
	if len(ops) == 1 && ops[0].Alone() {
		return r.applyAlone(ops[0], &out[0])
	}
	for i, o := range ops {
		var err error
		switch {
		case o.Round != nil:
			err = r.KeepRound(o.Round.UID, o.Round.Sequence, o.Round.Record, o.Round.Keep)
		case o.Reports != nil:
			if len(o.Reports.Keys) != len(o.Reports.Reports) {
				return errors.New("reports without keys")
			}
			for n := range o.Reports.Reports {
				o.Reports.Reports[n].Key, _ = parseReportKey(o.Reports.Keys[n])
			}
			out[i].Fresh, out[i].Dropped, err = r.AppendReports(o.Reports.UID, o.Reports.Reports, o.Reports.Keep)
		case o.Text != nil:
			err = r.writeAux(&r.workloads, func(tx *bolt.Tx) error {
				return putParts(tx, o.Text.Scheduler, o.Text.UID, o.Text.Part, o.Text.Text)
			})
		}
		if err != nil {
			return err
		}
	}
	return r.applyChanges(ops, out)
}

// applyEvents commits events together, unless they are there.
func (r *Store) applyEvents(calls []*appendCall) error {
	calls = slices.DeleteFunc(calls, func(c *appendCall) bool { return c.entry <= r.replica.events })
	if len(calls) == 0 {
		return nil
	}
	if err := r.lastEvents.record(r.commitEvents(calls)); err != nil {
		return storageError(err)
	}
	r.replica.events = r.replica.applying.Sequence
	for _, c := range calls {
		r.cursors.Store(c.scheduler, c.cursor)
	}
	return nil
}

// applyChanges commits the changes of config.db together.
func (r *Store) applyChanges(ops []*Op, out []Result) error {
	var open []*configCall
	of := map[*configCall]int{}
	for i, o := range ops {
		var put func(*bolt.Tx) error
		switch {
		case o.Change != nil:
			put = func(tx *bolt.Tx) error { return r.putChange(tx, o.Change) }
		case o.Remember != nil:
			put = func(tx *bolt.Tx) error { return putRequest(tx, o.Remember) }
		case o.Note != nil:
			put = func(tx *bolt.Tx) error { return putAudit(tx, o.Note) }
		case o.Study != nil:
			put = func(tx *bolt.Tx) error { return putStudy(tx, o.Study) }
		case o.Workload != nil:
			put = func(tx *bolt.Tx) error { return putWorkload(tx, o.Workload) }
		default:
			continue
		}
		c := &configCall{put: put}
		open = append(open, c)
		of[c] = i
	}
	if len(open) == 0 {
		return nil
	}
	commit := func() error { return r.commitCalls(&open) }
	err := commit()
	if errors.Is(err, ErrFull) {
		err = r.reserve.release(commit)
	}
	if err = r.lastChange.record(err); err != nil {
		return err
	}
	for c, i := range of {
		out[i].Err = c.err
		if w := ops[i].Workload; w != nil && (c.err == nil) == w.Delete {
			r.dropText(w.SchedulerUID, w.Record.UID)
		}
	}
	return nil
}

func (r *Store) applyAlone(o *Op, out *Result) (err error) {
	switch {
	case o.KeepTexts != nil:
		return r.KeepWorkloads(o.KeepTexts.Scheduler, o.KeepTexts.UIDs)
	case o.Purge != nil:
		return r.Purge(context.Background(), *o.Purge)
	case o.Archive != nil:
		out.Err = r.ArchiveAudit(context.Background(), o.Archive.Keep)
	case o.Drop != nil:
		out.Files, out.Err = r.DropEvents(context.Background(), controller.Retention{Before: o.Drop.Before,
			Needs: func(id string) (func(workload.Event), func(workload.Event) (workload.Event, bool), error) {
				cut, ok := o.Drop.Cuts[id]
				if !ok {
					cut.From = math.MinInt64
				}
				note, rest := cut.Needs()
				return note, rest, nil
			}})
	case o.Epoch != nil:
		err := r.change(func(tx *bolt.Tx) error { return putJSON(tx, epochKey, o.Epoch, metaBucket) })
		if err == nil {
			r.setEpoch(*o.Epoch)
		}
		return err
	}
	return nil // files that stay are dropped or archived with the next ones
}

// mark writes the place that is being applied to a file with a transaction of the entries.
func (r *Store) mark(tx *bolt.Tx) error {
	if r.replica == nil || r.replica.applying.Sequence == 0 {
		return nil
	}
	p := storedPlace{Place: r.replica.applying}
	if fileOf(tx) == configFile {
		tx.OnCommit(func() { r.replica.marked = p.Sequence })
	} else if r.replica.partial {
		p.Partial = p.Sequence - max(r.replica.at.Sequence, r.replica.whole)
	}
	return putPlain(tx.Bucket([]byte(metaBucket)), placeKey, p)
}

// placeIn reads the place of a file, the zero one if it has none.
func placeIn(tx *bolt.Tx) (p storedPlace, err error) {
	if b := tx.Bucket([]byte(metaBucket)); b != nil && b.Get(placeKey) != nil {
		if err := getJSON(placeKey, b.Get(placeKey), &p); err != nil {
			return p, &CorruptError{File: fileOf(tx), Bucket: metaBucket, Key: string(placeKey), Why: err.Error()}
		}
	}
	return p, nil
}

// openReplica checks that a directory is opened as what it is, and reads how far a replica is. With adopt it becomes
// what it is opened as.
func (r *Store) openReplica(adopt bool) error {
	is, moved, fresh := false, "", false
	err := r.viewConfig(func(tx *bolt.Tx) (err error) {
		b := tx.Bucket([]byte(metaBucket))
		is, moved = b.Get(replicaKey) != nil, string(b.Get(movedKey))
		fresh = b.Get(epochKey) == nil && tx.Bucket([]byte(schedulersBucket)) == nil
		if r.replica != nil {
			var p storedPlace
			p, err = placeIn(tx)
			r.replica.at, r.replica.marked = p.Place, p.Sequence
		}
		return err
	})
	if err != nil {
		return err
	}
	want := r.replica != nil
	switch {
	case is != want && (adopt || want && fresh && moved == ""):
		err = r.update(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(metaBucket))
			err := errors.Join(b.Delete(replicaKey), b.Delete(movedKey), b.Delete(placeKey))
			if !want {
				return err
			}
			return errors.Join(err, raiseReader(tx, replicaReader), b.Put(replicaKey, []byte{1}))
		})
		if err == nil {
			if want {
				r.replica.at, r.replica.marked = Place{}, 0
			}
			err = r.unmarkSegments()
		}
	case moved != "" && adopt:
		err = r.update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(metaBucket)).Delete(movedKey) })
	case moved != "":
		err = fmt.Errorf("%w: its records moved there: %s", ErrReplica, moved)
	case is && !want:
		err = fmt.Errorf("%w: it is a replica, which serve --cluster uses; a directory of its own is made by "+
			"autosched admin backup and restore", ErrReplica)
	case want && !is:
		err = fmt.Errorf("%w: this one is no replica: give an empty directory", ErrReplica)
	}
	if err != nil || !want {
		return err
	}
	events, err := r.eventsPlace()
	r.replica.events, r.replica.whole = events.Sequence, events.Sequence-events.Partial
	return err
}

// logged reports whether the directory follows a log, and up to which entry it has changes and events at least.
func (r *Store) logged() (last uint64, is bool, err error) {
	err = r.viewConfig(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(metaBucket))
		is = b != nil && b.Get(replicaKey) != nil
		p, err := placeIn(tx)
		last = p.Sequence
		return err
	})
	if err != nil || !is {
		return last, is, err
	}
	events, err := r.eventsPlace()
	return max(last, events.Sequence-events.Partial), is, err
}

// eventsPlace is that of the last entry whose events are applied, the zero one if no segment has one.
func (r *Store) eventsPlace() (last storedPlace, err error) {
	names, err := segmentNames(r.dir)
	for i := len(names) - 1; i >= 0 && err == nil && last.Sequence == 0 && !isCheckpoint(names[i]); i-- {
		err = r.view(names[i], func(tx *bolt.Tx) error {
			last, err = placeIn(tx)
			return err
		})
	}
	return last, err
}

// unmarkSegments removes the places of a former log.
func (r *Store) unmarkSegments() error {
	names, err := segmentNames(r.dir)
	for _, name := range names {
		marked := false
		err = r.view(name, func(tx *bolt.Tx) error {
			p, err := placeIn(tx)
			marked = p.Sequence > 0
			return err
		})
		if err != nil {
			return err
		}
		if !marked {
			continue
		}
		db, err := r.openDB(name, false)
		if err != nil {
			return err
		}
		err = r.write(name, db, func(tx *bolt.Tx) error { return tx.Bucket([]byte(metaBucket)).Delete(placeKey) })
		if err := errors.Join(err, r.closeDB(name, db)); err != nil {
			return err
		}
	}
	return err
}

// NoteMove marks a directory whose records a cluster has, so that no program serves from it.
func (r *Store) NoteMove(to string) error {
	return r.update(func(tx *bolt.Tx) error {
		return errors.Join(raiseReader(tx, replicaReader), tx.Bucket([]byte(metaBucket)).Put(movedKey, []byte(to)))
	})
}
