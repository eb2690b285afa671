package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/workload"
)

// maxCommit is the number of events from which a commit takes no more calls: a larger commit is slower to
// acknowledge and no faster per event.
const maxCommit = 1000

const (
	segmentPrefix = "events-"
	segmentSuffix = ".db"
)

// ascending is the share of a page that is filled where keys grow with time: none comes between others.
const ascending = 0.9

// appendCall is one caller's batch, which waits for a commit.
type appendCall struct {
	entry     uint64 // of a log; 0 if the store follows none
	scheduler string
	events    []workload.Event
	cursor    string // of the last one, once they are stored
	done      chan error
}

// AppendEvents stores events in order and returns once they are on disk. Concurrent callers share a commit. It does
// not detect events that are stored already. If the context ends first, the events may be stored or not.
func (r *Store) AppendEvents(ctx context.Context, scheduler string, events []workload.Event) error {
	if len(events) == 0 {
		return nil
	}
	r.writer.Do(func() { go r.eventLoop() })
	call := &appendCall{scheduler: scheduler, events: events, done: make(chan error, 1)}
	select {
	case r.appends <- call:
	case <-r.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-call.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// eventLoop is the only goroutine that writes segments. Calls that arrive during a commit share the next one, so
// that commits grow with the load and an idle store adds no delay.
func (r *Store) eventLoop() {
	defer close(r.writerDone)
	defer r.closeSegment()
	for {
		var calls []*appendCall
		select {
		case c := <-r.appends:
			calls = append(calls, c)
		case <-r.closing:
			return
		}
		calls = r.collect(calls)
		err := r.commitEvents(calls)
		for errors.Is(err, ErrCorrupt) { // the next segment of the day takes the events
			err = r.commitEvents(calls)
		}
		_ = r.lastEvents.record(err)
		for _, c := range calls {
			if err == nil {
				r.cursors.Store(c.scheduler, c.cursor)
			}
			c.done <- storageError(err)
		}
	}
}

// commitEvents commits events to the segment of the day, if the reserve of config.db is there.
func (r *Store) commitEvents(calls []*appendCall) error {
	return r.reserve.use(func() error { return r.appendGroup(calls) })
}

func (r *Store) appendGroup(calls []*appendCall) error {
	if err := r.raiseForEvents(calls); err != nil {
		return err
	}
	name := r.dayName()
	if r.segment == nil || r.segmentName != name {
		r.closeSegment()
		if err := r.openSegment(name); err != nil {
			r.markDamaged(name, err)
			return err
		}
	}
	ends := r.timed(eventsKind)
	err := r.write(name, r.segment, func(tx *bolt.Tx) error {
		p, err := placeIn(tx)
		if err != nil {
			return err
		}
		rest := calls
		for len(rest) > 0 && 0 < rest[0].entry && rest[0].entry <= p.Sequence { // by a commit that was said to fail
			rest[0].cursor = cursorOf(name, tx.Bucket([]byte(rest[0].scheduler)).Sequence())
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return nil
		}
		return errors.Join(putEvents(tx, name, rest), r.mark(tx))
	})
	ends()
	if err != nil {
		// After a failed write or fsync the state of the file's cached pages
		// is unknown: never write on through the same descriptor.
		r.closeSegment()
		r.markDamaged(name, err)
	}
	return err
}

// dayName returns the name of today's first segment that is not damaged.
func (r *Store) dayName() string {
	today := r.now().UTC().Format(dayLayout)
	if cut := r.droppedDay.Load(); cut != nil && today <= *cut { // the clock was set back
		if last, err := time.Parse(dayLayout, *cut); err == nil {
			today = last.AddDate(0, 0, 1).Format(dayLayout)
		}
	}
	day := segmentPrefix + today
	name := day + segmentSuffix
	for n := 2; ; n++ {
		if _, bad := r.damaged.Load(name); !bad {
			return name
		}
		name = fmt.Sprintf("%s-%d%s", day, n, segmentSuffix)
	}
}

// markDamaged registers a segment whose pages cannot be read.
func (r *Store) markDamaged(name string, err error) {
	if errors.Is(err, ErrCorrupt) {
		r.damaged.Store(name, true)
	}
}

func (r *Store) openSegment(name string) error {
	r.segmentMu.Lock()
	defer r.segmentMu.Unlock()
	if err := r.ensure(name); err != nil {
		return err
	}
	db, err := r.openDB(name, false)
	if err == nil {
		r.segment, r.segmentName = db, name
	}
	return err
}

func (r *Store) closeSegment() {
	r.segmentMu.Lock()
	defer r.segmentMu.Unlock()
	if r.segment != nil {
		_ = r.closeDB(r.segmentName, r.segment)
		r.segment = nil
	}
}

// collect adds the calls that are waiting.
func (r *Store) collect(calls []*appendCall) []*appendCall {
	for n := len(calls[0].events); n < maxCommit; {
		select {
		case c := <-r.appends:
			calls = append(calls, c)
			n += len(c.events)
		default:
			return calls
		}
	}
	return calls
}

func putEvents(tx *bolt.Tx, name string, calls []*appendCall) error {
	for _, c := range calls {
		b, err := tx.CreateBucketIfNotExists([]byte(c.scheduler))
		if err != nil {
			return err
		}
		b.FillPercent = ascending
		for i := range c.events {
			seq, err := b.NextSequence()
			if err != nil {
				return err
			}
			e := &c.events[i]
			key := eventKey(make([]byte, 0, eventKeySize), e.Time, seq)
			if err := b.Put(key, eventRecord(nil, key, e)); err != nil {
				return err
			}
		}
		c.cursor = cursorOf(name, b.Sequence())
	}
	return nil
}

// ReplayEvents calls apply with the stored events of a scheduler, of all if only is empty: by segment, scheduler and
// time. It skips damaged records and reports one Damage per segment. It may miss events that are appended
// meanwhile.
func (r *Store) ReplayEvents(only string,
	apply func(scheduler string, e workload.Event) error) (damage []controller.Damage, err error) {
	r.dropMu.RLock()
	defer r.dropMu.RUnlock()
	names, err := segmentNames(r.dir)
	if err != nil {
		return nil, err
	}
	p := segmentReplay{r: r}
	for _, name := range names {
		found, err := p.replay(name, only, 0, apply)
		if err != nil {
			return damage, err
		}
		if found.Err != nil {
			damage = append(damage, found)
		}
	}
	return damage, nil
}

// replayChunk is the number of events of a read transaction, for which a commit may have to wait.
const replayChunk = 10_000

// replaySegment replays one segment, up to the event of a number unless it is 0. The error is that of apply or of
// the disk.
func (r *Store) replaySegment(name, only string, until uint64,
	apply func(string, workload.Event) error) (controller.Damage, error) {
	p := segmentReplay{r: r}
	return p.replay(name, only, until, apply)
}

// segmentReplay is a replay of a segment. Its memory serves for the next one.
type segmentReplay struct {
	r      *Store
	damage controller.Damage
	until  uint64           // as in replaySegment
	left   []string         // schedulers, of the first of which all before from is read
	from   []byte           // nil for the begin
	last   uint64           // the last event that must be there, of the scheduler that is read
	found  uint64           // the events up to the last one
	events []workload.Event // that were read, of several schedulers
	ends   []int            // in events, of each scheduler
}

func (p *segmentReplay) replay(name, only string, until uint64,
	apply func(string, workload.Event) error) (damage controller.Damage, err error) {
	r := p.r
	p.damage, p.until, p.left, p.from = controller.Damage{File: name}, until, []string{only}, nil
	defer func() { damage.Err = cmp.Or(damage.Err, r.metaDamage(name)) }()
	if only == "" {
		if p.left, err = r.schedulersIn([]string{name}); err != nil {
			if err := p.unreadable(err); err != nil {
				return p.damage, err
			}
		}
	}
	for len(p.left) > 0 {
		p.events, p.ends = p.events[:0], p.ends[:0]
		of, opened := p.left, false
		err := r.view(name, func(tx *bolt.Tx) error {
			opened = true
			return p.fill(tx)
		})
		switch {
		case err != nil: // the next one may be readable
			if err := p.unreadable(err); err != nil {
				return p.damage, err
			}
			p.pass(nil)
		case !opened:
			return p.damage, nil
		}
		from := 0
		for i, end := range p.ends {
			for _, e := range p.events[from:end] {
				if err := apply(of[i], e); err != nil {
					return p.damage, err
				}
			}
			from = end
		}
	}
	return p.damage, nil
}

// fill reads events of the schedulers that are left, until there are replayChunk.
func (p *segmentReplay) fill(tx *bolt.Tx) error {
	for len(p.left) > 0 && len(p.events) < replayChunk {
		next, err := p.read(tx, p.left[0], p.from)
		if err != nil {
			return err
		}
		p.pass(next)
	}
	return nil
}

// pass ends what is read of a scheduler, at the key to go on from, or nil for the next scheduler.
func (p *segmentReplay) pass(next []byte) {
	p.ends = append(p.ends, len(p.events))
	if p.from = next; next == nil {
		p.left = p.left[1:]
	}
}

// unreadable registers that the rest of a bucket or of the file cannot be read. It returns errors of the disk.
func (p *segmentReplay) unreadable(err error) error {
	if errno := syscall.Errno(0); errors.Is(err, ErrLocked) || errors.As(err, &errno) {
		return err
	}
	p.r.damaged.Store(p.damage.File, true)
	p.damage.Err = cmp.Or(p.damage.Err, err)
	return nil
}

// read reads events of a scheduler from a key on. next is the key to go on from, nil at the end.
func (p *segmentReplay) read(tx *bolt.Tx, scheduler string, from []byte) (next []byte, err error) {
	b := tx.Bucket([]byte(scheduler))
	if b == nil {
		return nil, nil
	}
	if len(from) == 0 {
		p.last, p.found = cmp.Or(p.until, b.Sequence()), 0
	}
	corrupt := func(key []byte, why string) error {
		return &CorruptError{File: p.damage.File, Bucket: scheduler, Key: fmt.Sprintf("%x", key), Why: why}
	}
	c, last := b.Cursor(), []byte(nil)
	for k, v := c.Seek(from); k != nil; k, v = c.Next() {
		if !follows(k, last, from) {
			return nil, corrupt(k, "it is out of order")
		}
		last = k
		n := uint64(0)
		if len(k) == eventKeySize {
			n = binary.BigEndian.Uint64(k[8:])
		}
		if p.until > 0 && n > p.until {
			continue
		}
		if len(p.events) == replayChunk {
			return bytes.Clone(k), nil
		}
		if n <= p.last {
			p.found++
		}
		e, err := readEvent(k, v)
		if err != nil {
			p.damage.Records++
			p.damage.Err = cmp.Or(p.damage.Err, corrupt(k, err.Error()))
			continue
		}
		p.events = append(p.events, e)
	}
	if last == nil && len(from) > 0 {
		return nil, corrupt(from, "it is not found again")
	}
	if p.found < p.last { // events have the numbers from 1 on
		return nil, &CorruptError{File: p.damage.File, Bucket: scheduler,
			Why: fmt.Sprintf("it has %d of %d events", p.found, p.last)}
	}
	return nil, nil
}

// follows reports whether a key comes after the one before it, nil for none, in a walk that begins at from. That key
// was read: a search that passes it skips records.
func follows(key, before, from []byte) bool {
	if before == nil && len(from) > 0 {
		return bytes.Equal(key, from)
	}
	return bytes.Compare(key, before) > 0
}

// view calls f with a read transaction of a segment, unless it is empty after an interrupted creation.
func (r *Store) view(name string, f func(*bolt.Tx) error) error {
	r.segmentMu.RLock()
	defer r.segmentMu.RUnlock()
	db := r.segment
	if s, ok := r.stuck.Load(name); ok {
		db = s.(*stuckFile).db
	} else if db == nil || r.segmentName != name {
		info, err := os.Stat(filepath.Join(r.dir, name))
		if err != nil || info.Size() == 0 {
			return err
		}
		if db, err = r.openDB(name, true); err != nil {
			return err
		}
		defer db.Close()
	}
	return guardPanics(name, func() error { return db.View(f) })
}

// segmentFiles returns the segments and checkpoints of a directory by name: checkpoints first. A day has a second
// segment, events-YYYYMMDD-2.db, if the first is damaged.
func segmentFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if dayOf(e.Name()) != "" && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, err
}

// segmentNames returns the last checkpoint of a directory, if there is one, and the segments after it, by day.
func segmentNames(dir string) (names []string, err error) {
	all, err := segmentFiles(dir)
	for _, name := range all {
		if isCheckpoint(name) {
			names = []string{name}
		} else if len(names) == 0 || !isCheckpoint(names[0]) || dayOf(name) > dayOf(names[0]) {
			names = append(names, name)
		}
	}
	return names, err
}

// storageError wraps an error of a full disk as ErrFull.
func storageError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
