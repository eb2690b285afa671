package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/autosched/autosched/controller/audit"
)

// ErrDeleted is the error of a request about a deleted scheduler.
var ErrDeleted = errors.New("is deleted")

const (
	// DeletedFor is how long a deleted scheduler can be undeleted; then it is purged.
	DeletedFor = 30 * 24 * time.Hour
	purgeEvery = 10 * time.Minute
)

func deleted(id string) error {
	return fmt.Errorf("scheduler %q %w: 'autosched scheduler undelete %s' takes that back", id, ErrDeleted, id)
}

// Delete ends a scheduler's rounds, watches and events. It is purged after DeletedFor, unless it is
// undeleted before. check sees the present scheduler; its error ends the request. To delete again
// changes nothing.
func (s *Service) Delete(ctx context.Context, call Call, id string, check func(*Scheduler) error) (Scheduler, error) {
	return s.setDeleted(ctx, call, id, func(c *Scheduler) error {
		if err := check(c); err != nil || !c.Deleted.IsZero() {
			return err
		}
		c.Deleted = s.now()
		c.Expires = c.Deleted.Add(DeletedFor)
		return nil
	})
}

// Undelete takes back that a scheduler was deleted, if check returns nil. To undelete one that is not changes
// nothing.
func (s *Service) Undelete(ctx context.Context, call Call, id string, check func(*Scheduler) error) (Scheduler, error) {
	return s.setDeleted(ctx, call, id, func(c *Scheduler) error {
		if err := check(c); err != nil {
			return err
		}
		c.Deleted, c.Expires = time.Time{}, time.Time{}
		return nil
	})
}

func (s *Service) setDeleted(ctx context.Context, call Call, id string, f func(*Scheduler) error) (Scheduler, error) {
	m, err := s.lookup(id)
	if err != nil {
		return Scheduler{}, err
	}
	changed := false
	m.committing.Lock()
	after, err := s.commitChange(ctx, call, m, func(v *snapshot) (*Change, error) {
		next := v.Scheduler
		if err := f(&next); err != nil || next.Deleted.Equal(v.Deleted) {
			return nil, err
		}
		changed = true
		next.Generation++
		change := &Change{Scheduler: next}
		if m.fault != nil {
			change.Deletion = &Deletion{next.Deleted, next.Expires}
		}
		return change, nil
	})
	m.committing.Unlock()
	now := m.snapshot.Load()
	switch {
	case err != nil || !changed:
		return now.Scheduler, err
	case call.DryRun:
		return after.Scheduler, nil
	}
	s.o.Log.InfoContext(ctx, "scheduler deleted or undeleted", "scheduler", id, "deleted", !now.Deleted.IsZero())
	if !now.Deleted.IsZero() {
		s.cancelJobs(id, dropped("the scheduler was deleted"))
		m.watchers.Notify()
	}
	if m.fault == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.wake(m)
	}
	return now.Scheduler, nil
}

// purges calls Purge now and then.
func (s *Service) purges() {
	select {
	case <-s.rebuilt:
	case <-s.ctx.Done():
		return
	}
	ticker := time.NewTicker(purgeEvery)
	defer ticker.Stop()
	for {
		if err := s.Purge(s.ctx); err != nil && s.ctx.Err() == nil {
			s.o.Log.Error("expired records are still there", "err", err)
		}
		s.archiveAudit()
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// Purge removes the deleted schedulers and the ids of requests that expired.
func (s *Service) Purge(ctx context.Context) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	now := s.now()
	var expired []*schedulerState
	s.mu.RLock()
	for _, m := range s.schedulers {
		if at := m.snapshot.Load().Expires; !at.IsZero() && !now.Before(at) {
			expired = append(expired, m)
		}
	}
	s.mu.RUnlock()
	var errs []error
	errs = append(errs, s.requests.purge(now, func(keys []RequestKey) error {
		return s.o.Store.Purge(ctx, Expired{Requests: keys})
	}))
	for _, m := range expired {
		errs = append(errs, s.purge(ctx, m))
	}
	return errors.Join(errs...)
}

// purge removes a scheduler that nothing changes any more: it is deleted.
func (s *Service) purge(ctx context.Context, m *schedulerState) error {
	m.ingesting.Lock()
	defer m.ingesting.Unlock()
	m.committing.Lock()
	defer m.committing.Unlock()
	v := m.snapshot.Load()
	if s.now().Before(v.Expires) || v.Deleted.IsZero() { // undeleted since
		return nil
	}
	end := &audit.Record{Time: s.now(), Origin: audit.Origin{Actor: retentionActor, Verb: audit.Purge},
		Resource: "schedulers/" + m.id, RevisionBefore: v.OfferedRevision}
	if err := s.o.Store.Purge(ctx, Expired{Scheduler: m.id, UID: v.UID, Audit: end}); err != nil {
		return err
	}
	close(m.gone)
	s.mu.Lock()
	delete(s.schedulers, m.id)
	s.mu.Unlock()
	for _, metric := range []interface{ DeleteLabelValues(...string) bool }{s.roundDuration, s.decisionAge, s.used} {
		metric.DeleteLabelValues(m.id)
	}
	s.looks.DeletePartialMatch(map[string]string{"scheduler": m.id})
	s.hook().Purged(m.id)
	s.o.Log.InfoContext(ctx, "scheduler purged", "scheduler", m.id)
	return nil
}
