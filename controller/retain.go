package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/workload"
)

// MinRetain is the least Options.Retain: rounds look that far back.
const MinRetain = round.Retention + 23*time.Hour

// dropEvery is how often old events are looked for.
const dropEvery = time.Hour

var errUnread = errors.New("its events are not read yet")

// drops drops old events, now and then.
func (s *Service) drops() {
	select {
	case <-s.rebuilt:
	case <-s.ctx.Done():
		return
	}
	ticker := time.NewTicker(dropEvery)
	defer ticker.Stop()
	for {
		if _, err := s.DropEvents(s.ctx); err != nil && s.ctx.Err() == nil {
			s.o.Log.Error("old events are still there; trying again", "in", dropEvery, "err", err)
		}
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// DropEvents drops the files of events that came more than Options.Retain ago, and returns their
// names. Events of the last Options.Retain of event time are kept, and so is all of a job that is
// active or ended since, and events that the state of the cluster rests on.
func (s *Service) DropEvents(ctx context.Context) ([]string, error) {
	if s.o.Retain <= 0 {
		return nil, nil
	}
	s.skipRounds(ctx)
	dropped, err := s.o.Store.DropEvents(ctx, Retention{Before: s.now().Add(-s.o.Retain), Needs: s.needs,
		Cut: s.cutOf})
	if len(dropped) > 0 {
		s.o.Log.Info("old events dropped", "files", dropped)
	}
	return dropped, err
}

// skipEvery is the event time after which rounds that are not decided are skipped.
const skipEvery = 24 * time.Hour

// skipRounds skips the rounds that schedulers without rounds left out, as the next round would: the clock starts at the
// last round after a restart, and the events that take it further from there may be dropped.
func (s *Service) skipRounds(ctx context.Context) {
	for _, id := range s.Schedulers("", math.MaxInt) {
		m, err := s.active(id)
		if err != nil || !m.isReady() {
			continue
		}
		m.mu.Lock()
		v, now := m.snapshot.Load(), m.history.Now()
		running := m.history.Running() && m.agenda.task == nil && !m.agenda.setting
		m.mu.Unlock()
		if !running || time.Duration(v.passed(now))*v.Policy.UpdateInterval < v.roundTime()+skipEvery {
			continue
		}
		call := Call{Origin: audit.Origin{Actor: retentionActor, Verb: "SkipRounds"}}
		_, err = s.commit(ctx, call, m, func(latest *snapshot) (*Change, error) {
			if latest.ClockSet != v.ClockSet || latest.Policy.UpdateInterval != v.Policy.UpdateInterval {
				return nil, nil
			}
			next := latest.Scheduler
			next.Round = max(latest.Round, v.passed(now))
			if next.Round == latest.Round { // one ended meanwhile
				return nil, nil
			}
			return &Change{Scheduler: next}, nil
		})
		if err != nil {
			s.o.Log.Error("rounds are not skipped", "scheduler", id, "err", err)
		}
	}
}

// Needs returns the functions of Retention.Needs.
func (c Cut) Needs() (note func(workload.Event), rest func(workload.Event) (workload.Event, bool)) {
	ledger := workload.NewLedger(c.Cluster)
	note = func(e workload.Event) {
		if e.Time < c.From {
			ledger.Apply(e)
		}
	}
	var remainder func(workload.Event) (workload.Event, bool)
	return note, func(e workload.Event) (workload.Event, bool) {
		if e.Time >= c.From {
			return e, true
		}
		if remainder == nil {
			ledger.Forget(c.From)
			remainder = ledger.Remainder()
		}
		return remainder(e)
	}
}

// needs is Retention.Needs.
func (s *Service) needs(id string) (note func(workload.Event), rest func(workload.Event) (workload.Event, bool),
	err error) {
	cut, err := s.cutOf(id)
	if err != nil {
		return nil, nil, err
	}
	note, rest = cut.Needs()
	return note, rest, nil
}

// cutOf is Retention.Cut. Events of a scheduler that is purged are not needed, and all are kept of one that is
// quarantined.
func (s *Service) cutOf(id string) (Cut, error) {
	s.mu.RLock()
	m := s.schedulers[id]
	s.mu.RUnlock()
	switch {
	case m == nil:
		return Cut{From: math.MaxInt64}, nil
	case m.fault != nil:
		return Cut{From: math.MinInt64}, nil
	}
	if !m.isReady() {
		return Cut{}, fmt.Errorf("scheduler %q: %w", id, errUnread)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.snapshot.Load()
	if !m.history.Running() {
		return Cut{From: math.MinInt64, Cluster: v.Cluster}, nil
	}
	return Cut{From: min(v.roundTime()-round.Retention, m.history.Now()-s.o.Retain), Cluster: v.Cluster}, nil
}
