package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/workload"
)

// Segments are dropped by day, the oldest first. Events that are still needed go into checkpoint-YYYYMMDD.db, which
// has the form of a segment and replaces the segments up to that day and the checkpoint before. It gets its name,
// durably, before they are removed: after a crash the rest of them is not read, and Open removes it.

const (
	checkpointPrefix = "checkpoint-"
	dayLayout        = "20060102"
)

var errBusy = errors.New("the events are being read or copied")

// DropEvents implements controller.Store. A damaged file stays, and so do the files after it.
func (r *Store) DropEvents(ctx context.Context, keep controller.Retention) (dropped []string, err error) {
	before := keep.Before.UTC().Format(dayLayout)
	for {
		names, err := r.dropDay(ctx, before, keep)
		dropped = append(dropped, names...)
		if err != nil || len(names) == 0 {
			return dropped, err
		}
	}
}

// dropDay drops the segments of the oldest day, if it is before a day.
func (r *Store) dropDay(ctx context.Context, before string, keep controller.Retention) ([]string, error) {
	if !r.dropMu.TryLock() {
		return nil, fmt.Errorf("store: %w", errBusy)
	}
	defer r.dropMu.Unlock()
	names, err := segmentNames(r.dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	first := slices.IndexFunc(names, func(name string) bool { return !isCheckpoint(name) })
	if first < 0 || dayOf(names[first]) >= before {
		return nil, nil
	}
	day, end := dayOf(names[first]), first+1
	for end < len(names) && dayOf(names[end]) == day {
		end++
	}
	r.closeThrough(day)
	name := checkpointPrefix + day + segmentSuffix
	if err := r.makeCheckpoint(ctx, name, names[:end], keep); err != nil {
		return nil, fmt.Errorf("store: %s: %w", name, err)
	}
	r.cursors.Range(func(scheduler, cursor any) bool {
		if dayOf(strings.Split(cursor.(string), "/")[0]) <= day {
			r.cursors.Delete(scheduler)
		}
		return true
	})
	if err := r.sweep(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return names[first:end], nil
}

// closeThrough closes the segments up to a day for writing.
func (r *Store) closeThrough(day string) {
	r.reserve.mu.Lock() // no commit is under way
	defer r.reserve.mu.Unlock()
	r.droppedDay.Store(&day)
	if r.segment != nil && dayOf(r.segmentName) <= day {
		r.closeSegment()
	}
}

// makeCheckpoint writes the needed events of some files into one.
func (r *Store) makeCheckpoint(ctx context.Context, name string, of []string, keep controller.Retention) error {
	schedulers, err := r.schedulersIn(of)
	if err != nil {
		return err
	}
	return r.makeFile(name, func(made string, db *bolt.DB) error {
		for _, one := range schedulers {
			if err := r.copyNeeded(ctx, made, db, of, one, keep); err != nil {
				return err
			}
		}
		return nil
	})
}

// makeFile makes a file that fill writes, and gives it its name once it is on disk.
func (r *Store) makeFile(name string, fill func(made string, db *bolt.DB) error) error {
	made, path := name+newSuffix, filepath.Join(r.dir, name)
	if err := remove(path + newSuffix); err != nil {
		return err
	}
	db, err := r.openDB(made, false)
	if err != nil {
		return err
	}
	err = fill(made, db)
	if err == nil { // an empty commit, so that both meta pages know the content
		err = r.write(made, db, func(*bolt.Tx) error { return nil })
	}
	if err := errors.Join(err, r.closeDB(made, db)); err != nil {
		return errors.Join(storageError(err), remove(path+newSuffix))
	}
	r.reached("written")
	if err := os.Rename(path+newSuffix, path); err != nil {
		return storageError(err)
	}
	r.reached("renamed")
	return storageError(atomicfile.SyncDir(r.dir))
}

// schedulersIn returns the schedulers with events in some files, with an error those of its readable part.
func (r *Store) schedulersIn(names []string) (out []string, err error) {
	defer func() {
		slices.Sort(out)
		out = slices.Compact(out)
	}()
	for _, name := range names {
		err := r.view(name, func(tx *bolt.Tx) error {
			return tx.ForEach(func(bucket []byte, _ *bolt.Bucket) error {
				if id := string(bucket); id != metaBucket {
					out = append(out, id)
				}
				return nil
			})
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// copyNeeded copies the needed events of a scheduler from some files to another.
func (r *Store) copyNeeded(ctx context.Context, to string, db *bolt.DB, of []string, scheduler string,
	keep controller.Retention) error {
	note, rest, err := keep.Needs(scheduler)
	if err != nil {
		return err
	}
	each := func(apply func(workload.Event) error) error {
		for _, name := range of {
			damage, err := r.replaySegment(name, scheduler, 0, func(_ string, e workload.Event) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				return apply(e)
			})
			if err != nil {
				return err
			}
			if damage.Err != nil {
				return fmt.Errorf("%w: it stays, and so do later events, until it is moved away", damage.Err)
			}
		}
		return nil
	}
	if err := each(func(e workload.Event) error { note(e); return nil }); err != nil {
		return err
	}
	call := &appendCall{scheduler: scheduler}
	flush := func() error {
		err := r.write(to, db, func(tx *bolt.Tx) error { return putEvents(tx, to, []*appendCall{call}) })
		call.events = call.events[:0]
		return err
	}
	err = each(func(e workload.Event) error {
		if e, ok := rest(e); ok {
			call.events = append(call.events, e)
		}
		if len(call.events) >= maxCommit {
			return flush()
		}
		return nil
	})
	if err == nil && len(call.events) > 0 {
		err = flush()
	}
	return err
}

// sweep removes the files that a checkpoint replaces.
func (r *Store) sweep() error {
	live, err := segmentNames(r.dir)
	if err != nil || len(live) == 0 || !isCheckpoint(live[0]) {
		return err
	}
	all, err := segmentFiles(r.dir)
	if err != nil || len(all) == len(live) {
		return err
	}
	if err := atomicfile.SyncDir(r.dir); err != nil { // the checkpoint's name first
		return err
	}
	for _, name := range all {
		if !slices.Contains(live, name) {
			if err := remove(filepath.Join(r.dir, name)); err != nil {
				return err
			}
			r.damaged.Delete(name)
			r.reached("removed")
		}
	}
	return atomicfile.SyncDir(r.dir)
}

// findCheckpoint finds the checkpoint, and removes the remains of an interrupted drop, backup or compaction.
func (r *Store) findCheckpoint() error {
	entries, err := os.ReadDir(r.dir)
	for _, e := range entries {
		if made, ok := strings.CutSuffix(e.Name(), newSuffix); ok && (isCheckpoint(made) || auditDay(made) != "") ||
			strings.HasPrefix(made, backupPrefix) || strings.HasSuffix(made, compactSuffix) {
			err = errors.Join(err, remove(filepath.Join(r.dir, e.Name())))
		}
	}
	names, listErr := segmentNames(r.dir)
	if err := errors.Join(err, listErr); err != nil {
		return err
	}
	if len(names) > 0 && isCheckpoint(names[0]) {
		day := dayOf(names[0])
		r.droppedDay.Store(&day)
	}
	return r.sweep()
}

// reached calls onStep.
func (r *Store) reached(step string) {
	if r.onStep != nil {
		r.onStep(step)
	}
}

// remove removes a file if it is there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func isCheckpoint(name string) bool { return strings.HasPrefix(name, checkpointPrefix) }

// dayOf returns the day of a segment or a checkpoint, YYYYMMDD, "" for other names.
func dayOf(name string) string {
	day, segment := strings.CutPrefix(name, segmentPrefix)
	day, checkpoint := strings.CutPrefix(day, checkpointPrefix)
	day, ok := strings.CutSuffix(day, segmentSuffix)
	if segment {
		day, _, _ = strings.Cut(day, "-")
	}
	if _, err := time.Parse(dayLayout, day); err != nil || !ok || segment == checkpoint {
		return ""
	}
	return day
}
