package controller

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/controller/history"
	"github.com/autosched/autosched/workload"
)

// The read path of events: a start reads the histories of all schedulers, a rebuild that of one.

// replay reads schedulers' histories from disk. Only one scheduler's are read unless only
// is empty.
func (s *Service) replay(only string, schedulers map[string]*snapshot) (map[string]*history.History, error) {
	var lanes []*lane
	if n := runtime.GOMAXPROCS(0); only == "" && n > 1 {
		for range min(n, maxLanes) {
			lanes = append(lanes, newLane())
		}
	}
	folds := make(map[string]*fold, len(schedulers))
	for i, id := range slices.Sorted(maps.Keys(schedulers)) {
		v := schedulers[id]
		folds[id] = &fold{history: history.New(v.Cluster), of: v}
		if len(lanes) > 0 {
			folds[id].lane = lanes[i%len(lanes)]
		}
	}
	var workers sync.WaitGroup
	for _, l := range lanes {
		workers.Go(l.run)
	}
	ends, damage, err := counted(s.ctx, s.o.Store, only, schedulers, func(id string, e workload.Event) error {
		folds[id].add(e)
		return nil
	})
	for _, l := range lanes {
		l.end()
	}
	workers.Wait()
	if err != nil {
		return nil, err
	}
	s.noteDamage(damage)
	out := make(map[string]*history.History, len(folds))
	for id, f := range folds {
		cursor, err := s.o.Store.Cursor(id)
		if err != nil {
			return nil, err
		}
		f.history.Replayed(cursor, ends[id], f.of.horizon(ends[id]))
		out[id] = f.history
	}
	return out, nil
}

// fold is a history that is read.
type fold struct {
	history *history.History
	of      *snapshot
	lane    *lane // nil: add applies events
}

func (f *fold) add(e workload.Event) {
	if f.lane == nil {
		f.apply(&e)
		return
	}
	f.lane.add(f, e)
}

func (f *fold) apply(e *workload.Event) {
	f.history.Replay(e)
	f.history.Trim(f.of.lookback(f.history.Now()))
}

// The bounds of lanes: with more of them the one that reads is waited for.
const (
	maxLanes  = 4
	laneBatch = 256 // events that a lane takes at a time
	laneAhead = 4   // batches that wait
)

// lane applies the events of some schedulers in the order in which they are added, while others are read.
type lane struct {
	next []laneEvent // that are collected
	todo chan []laneEvent
	free chan []laneEvent
}

type laneEvent struct {
	fold  *fold
	event workload.Event
}

func newLane() *lane {
	l := &lane{todo: make(chan []laneEvent, laneAhead), free: make(chan []laneEvent, laneAhead+2)}
	for range cap(l.free) {
		l.free <- make([]laneEvent, 0, laneBatch)
	}
	l.next = <-l.free
	return l
}

// run applies events until end.
func (l *lane) run() {
	for batch := range l.todo {
		for i := range batch {
			batch[i].fold.apply(&batch[i].event)
		}
		l.free <- batch[:0]
	}
}

func (l *lane) add(f *fold, e workload.Event) {
	if l.next = append(l.next, laneEvent{f, e}); len(l.next) == laneBatch {
		l.todo <- l.next
		l.next = <-l.free
	}
}

func (l *lane) end() {
	l.todo <- l.next
	close(l.todo)
}

// EventLog is the part of Store that reads events.
type EventLog interface {
	// ReplayEvents reads the events of one scheduler, or of all if only is empty.
	ReplayEvents(only string, apply func(scheduler string, e workload.Event) error) (damage []Damage, err error)
}

// ReadEvents calls apply with the events of a scheduler that count, in the order of the log, but events far ahead of
// earlier ones last. Times are since the scheduler's Zero.
func ReadEvents(ctx context.Context, log EventLog, s *Scheduler, apply func(workload.Event) error) (
	damage []Damage, err error) {
	_, damage, err = counted(ctx, log, s.ID, map[string]*snapshot{s.ID: {Scheduler: *s}},
		func(_ string, e workload.Event) error { return apply(e) })
	return damage, err
}

// counted calls apply with the events that count: all up to their scheduler's clock,
// which is at the last round or later, and gets as far as the events after that take it.
// It returns where the clocks are. Events are not held: the log is read again if some were beyond the clock before
// later ones moved it.
func counted(ctx context.Context, log EventLog, only string, schedulers map[string]*snapshot,
	apply func(id string, e workload.Event) error) (ends map[string]time.Duration, damage []Damage, err error) {
	ends = map[string]time.Duration{}
	for id, v := range schedulers {
		ends[id] = v.roundTime()
	}
	ahead := map[string]map[string]time.Duration{} // times of the events beyond their scheduler's clock, by id
	damage, err = log.ReplayEvents(only, func(id string, e workload.Event) error {
		end, known := ends[id]
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !known:
			return nil
		case e.Time > end+history.MaxAhead:
			if ahead[id] == nil {
				ahead[id] = map[string]time.Duration{}
			}
			ahead[id][e.ID] = e.Time
			return nil
		}
		ends[id] = max(end, e.Time)
		return apply(id, e)
	})
	if err != nil {
		return nil, damage, err
	}
	for id, times := range ahead {
		end := history.Reach(ends[id], slices.Collect(maps.Values(times)))
		if end == ends[id] {
			continue
		}
		ends[id] = end
		maps.DeleteFunc(times, func(_ string, at time.Duration) bool { return at > end })
		_, err := log.ReplayEvents(id, func(_ string, e workload.Event) error {
			if _, ok := times[e.ID]; !ok {
				return ctx.Err()
			}
			delete(times, e.ID)
			return apply(id, e)
		})
		if err != nil {
			return nil, damage, err
		}
	}
	return ends, damage, nil
}
