package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/workload"
)

// maxCommit is how many events one commit takes: from 1000 on a larger commit
// is slower to acknowledge and no faster per event.
const maxCommit = 1000

const (
	segmentPrefix = "events-"
	segmentSuffix = ".db"
)

// appendCall is one caller's batch, waiting to be part of a commit.
type appendCall struct {
	scheduler string
	events    []workload.Event
	done      chan error
}

// AppendEvents stores events, in the order given, and returns once they are on
// disk. Concurrent callers share a commit. It does not look for events that
// are there already. If the context ends first, they may have been stored.
func (r *Store) AppendEvents(ctx context.Context, scheduler string, events []workload.Event) error {
	if len(events) == 0 {
		return nil
	}
	call := &appendCall{scheduler, events, make(chan error, 1)}
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

// replayCall asks the writer to read all events: no other process or descriptor
// may have the segment it writes open.
type replayCall struct {
	apply func(scheduler string, e workload.Event) error
	done  chan error
}

// writeEvents is the one goroutine that writes segments. What arrives while a
// commit is under way makes up the next one, so load makes commits larger
// without a delay when there is none.
func (r *Store) writeEvents() {
	defer close(r.writerDone)
	var segment *bolt.DB
	var day string
	defer func() {
		if segment != nil {
			_ = segment.Close()
		}
	}()
	for {
		var calls []*appendCall
		select {
		case c := <-r.appends:
			calls = append(calls, c)
		case c := <-r.replays:
			if segment != nil {
				_ = segment.Close()
				segment = nil
			}
			c.done <- r.replay(c.apply)
			continue
		case <-r.closing:
			return
		}
		calls = r.gather(calls)
		err := func() error {
			if today := r.now().UTC().Format("20060102"); segment == nil || today != day {
				if segment != nil {
					if err := segment.Close(); err != nil {
						return err
					}
					segment = nil
				}
				db, err := r.openDB(segmentPrefix+today+segmentSuffix, false)
				if err != nil {
					return err
				}
				segment, day = db, today
			}
			return commitEvents(segment, calls)
		}()
		if err != nil && segment != nil {
			// After a failed write or fsync the state of the file's cached pages
			// is unknown: never write on through the same descriptor.
			_ = segment.Close()
			segment = nil
		}
		for _, c := range calls {
			c.done <- storageError(err)
		}
	}
}

// gather adds the calls that wait already.
func (r *Store) gather(calls []*appendCall) []*appendCall {
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

func commitEvents(db *bolt.DB, calls []*appendCall) error {
	return db.Update(func(tx *bolt.Tx) error {
		for _, c := range calls {
			b, err := tx.CreateBucketIfNotExists([]byte(c.scheduler))
			if err != nil {
				return err
			}
			b.FillPercent = 0.9 // keys grow with time
			for i := range c.events {
				seq, err := b.NextSequence()
				if err != nil {
					return err
				}
				e := &c.events[i]
				key := eventKey(make([]byte, 0, eventKeySize), e.Time, seq)
				rec := appendRecord(nil, key, func(dst []byte) []byte { return appendEvent(dst, e) })
				if err := b.Put(key, rec); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// ReplayEvents calls apply with every stored event: segment by segment, and
// within one by scheduler and time. A record that is not what was written ends
// it with a *CorruptError. Events are not appended meanwhile.
func (r *Store) ReplayEvents(apply func(scheduler string, e workload.Event) error) error {
	call := replayCall{apply, make(chan error, 1)}
	select {
	case r.replays <- call:
		return <-call.done
	case <-r.closing:
		return ErrClosed
	}
}

func (r *Store) replay(apply func(scheduler string, e workload.Event) error) error {
	names, err := segmentNames(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := r.replaySegment(name, apply); err != nil {
			return err
		}
	}
	return nil
}

func (r *Store) replaySegment(name string, apply func(string, workload.Event) error) error {
	db, err := r.openDB(name, true)
	if err != nil {
		return err
	}
	defer db.Close()
	return guardPanics(name, func() error {
		return db.View(func(tx *bolt.Tx) error {
			return tx.ForEach(func(bucket []byte, b *bolt.Bucket) error {
				if string(bucket) == metaBucket {
					return nil
				}
				return b.ForEach(func(k, v []byte) error {
					payload, err := openRecord(k, v)
					var e workload.Event
					if err == nil {
						e, err = decodeEvent(payload)
					}
					if err != nil {
						return &CorruptError{File: name, Bucket: string(bucket), Key: fmt.Sprintf("%x", k),
							Why: err.Error()}
					}
					return apply(string(bucket), e)
				})
			})
		})
	})
}

// segmentNames are the segments of a directory, oldest first.
func segmentNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		day, ok := strings.CutPrefix(e.Name(), segmentPrefix)
		if day, ok2 := strings.CutSuffix(day, segmentSuffix); ok && ok2 {
			if _, err := time.Parse("20060102", day); err == nil && e.Type().IsRegular() {
				names = append(names, filepath.Base(e.Name()))
			}
		}
	}
	sort.Strings(names)
	return names, nil
}

// storageError marks what a full disk causes.
func storageError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
