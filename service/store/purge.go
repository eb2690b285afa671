package store

import (
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/autosched/autosched/controller"
)

// Purge removes a scheduler with its events, rounds, reports and workloads, and request ids. Events go first, so
// that no later scheduler of the same id has them; calling Purge again completes an interrupted one. Records on
// pages that cannot be read stay.
func (r *Store) Purge(ctx context.Context, e controller.Expired) error {
	scheduler := e.Scheduler
	if scheduler != "" {
		if err := r.purgeSegments(ctx, scheduler); err != nil {
			return err
		}
		for _, name := range auxFiles {
			if err := r.purgeAux(r.aux(name), e.UID); err != nil && !errors.Is(err, ErrCorrupt) {
				return fmt.Errorf("store: %s: %w", name, err)
			}
		}
		r.cursors.Delete(scheduler)
	}
	return r.change(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(requestsBucket)); b != nil {
			for _, k := range e.Requests {
				if err := errors.Join(b.Delete(requestKey(k)), b.Delete([]byte(k.ID))); err != nil {
					return err
				}
			}
		}
		if scheduler == "" {
			return nil
		}
		for _, name := range []string{schedulersBucket, schedulersBucket + copies, deletionsBucket} {
			if b := tx.Bucket([]byte(name)); b != nil {
				if err := b.Delete([]byte(scheduler)); err != nil {
					return err
				}
			}
		}
		for _, name := range []string{configsBucket, configsBucket + copies, revisionsBucket, revisionsBucket + copies,
			studiesBucket, studiesBucket + copies, workloadsBucket} {
			if b := tx.Bucket([]byte(name)); b != nil {
				err := b.DeleteBucket([]byte(scheduler))
				if err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
					return err
				}
			}
		}
		return putAudit(tx, e.Audit)
	})
}

func (r *Store) purgeSegments(ctx context.Context, scheduler string) error {
	r.dropMu.RLock()
	defer r.dropMu.RUnlock()
	names, err := segmentNames(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.purgeSegment(name, scheduler); err != nil && !errors.Is(err, ErrCorrupt) {
			return fmt.Errorf("store: %s: %w", name, err)
		}
	}
	return nil
}

// purgeSegment removes a scheduler's events from a segment, while no other goroutine reads or switches segments.
func (r *Store) purgeSegment(name, scheduler string) error {
	found := false
	err := r.view(name, func(tx *bolt.Tx) error {
		found = tx.Bucket([]byte(scheduler)) != nil
		return nil
	})
	if err != nil || !found {
		return err
	}
	r.segmentMu.Lock()
	defer r.segmentMu.Unlock()
	db := r.segment
	if db == nil || r.segmentName != name {
		if db, err = r.openDB(name, false); err != nil {
			return err
		}
		defer db.Close()
	}
	return guardPanics(name, func() error {
		return db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(scheduler)) })
	})
}
