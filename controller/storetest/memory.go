// Package storetest has a store of the controller in memory, stores with faults, and the conformance suite of stores.
package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Memory is a store in memory. Its records outlive a service, as a directory does.
type Memory struct {
	mu         sync.Mutex
	epoch      controller.Epoch
	schedulers map[string]*kept
	requests   map[controller.RequestKey]controller.Request
	lines      [][]byte // of the audit log
	heads      map[string]audit.Head
	rounds     map[string]map[int64][]byte // by uid and sequence
	events     map[string][]workload.Event // in the order in which they came
}

// kept is a scheduler's records.
type kept struct {
	record    []byte // JSON, so that nothing is shared with a service
	version   int64
	revisions []controller.SchedulerRevision
	configs   []*rollout.Configuration
	deletion  *controller.Deletion
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{epoch: controller.Epoch{ID: "memory", Counter: 1}, schedulers: map[string]*kept{},
		requests: map[controller.RequestKey]controller.Request{}, heads: map[string]audit.Head{},
		rounds: map[string]map[int64][]byte{}, events: map[string][]workload.Event{}}
}

// Commit implements [controller.Store].
func (m *Memory) Commit(ctx context.Context, c controller.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := c.Scheduler.ID
	k := m.schedulers[id]
	if k == nil {
		k = &kept{}
	}
	next := *k
	if c.Deletion != nil {
		next.deletion = c.Deletion
	} else {
		if c.Scheduler.Version != k.version+1 {
			return fmt.Errorf("%w: it is at version %d, the change follows %d", controller.ErrStale, k.version,
				c.Scheduler.Version-1)
		}
		last := int64(0)
		if n := len(k.configs); n > 0 {
			last = k.configs[n-1].Revision
		}
		for _, one := range c.Configurations {
			is := func(old *rollout.Configuration) bool { return old.Revision == one.Revision }
			if i := slices.IndexFunc(k.configs, is); i < 0 && one.Revision != last+1 ||
				i >= 0 && (k.configs[i].Hash != one.Hash || k.configs[i].UID != one.UID) {
				return fmt.Errorf("storetest: revision %d of %q after %d", one.Revision, id, last)
			}
			last = max(last, one.Revision)
		}
		next.configs = c.Apply(k.configs)
		for _, one := range c.Revisions {
			next.revisions = slices.DeleteFunc(slices.Clone(next.revisions),
				func(r controller.SchedulerRevision) bool { return r.Number == one.Number })
			next.revisions = append(next.revisions, one)
		}
		var err error
		if next.record, err = json.Marshal(c.Scheduler); err != nil {
			return err
		}
		next.version, next.deletion = c.Scheduler.Version, nil
	}
	m.schedulers[id] = &next
	if c.Request != nil {
		m.requests[c.Request.Key()] = *c.Request
	}
	return m.note(c.Audit)
}

// note appends a record to the audit log, unless it is nil.
func (m *Memory) note(r *audit.Record) error {
	if r == nil {
		return nil
	}
	one := *r
	one.Chain = one.Resource
	line, head, err := audit.Append(m.heads[one.Chain], one)
	if err == nil {
		m.lines, m.heads[one.Chain] = append(m.lines, line), head
	}
	return err
}

// Note implements [controller.Store].
func (m *Memory) Note(_ context.Context, r audit.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.note(&r)
}

// Remember implements [controller.Store].
func (m *Memory) Remember(_ context.Context, r controller.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[r.Key()] = r
	return nil
}

// Purge implements [controller.Store].
func (m *Memory) Purge(_ context.Context, e controller.Expired) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range e.Requests {
		delete(m.requests, k)
	}
	if e.Scheduler == "" {
		return nil
	}
	delete(m.schedulers, e.Scheduler)
	delete(m.events, e.Scheduler)
	delete(m.rounds, e.UID)
	return m.note(e.Audit)
}

// Epoch implements [controller.Store].
func (m *Memory) Epoch() controller.Epoch { return m.epoch }

// Load implements [controller.Store].
func (m *Memory) Load() (saved []controller.Saved, requests []controller.Request, _ []controller.Damage, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, k := range m.schedulers {
		one := controller.Saved{Revisions: slices.Clone(k.revisions), Configurations: slices.Clone(k.configs)}
		err := json.Unmarshal(k.record, &one.Scheduler)
		if err == nil {
			one.Space, err = space.New(one.Scheduler.Params, one.Scheduler.Rules)
		}
		one.Fault, one.Scheduler.ID = err, id
		if k.deletion != nil {
			one.Scheduler.Deleted, one.Scheduler.Expires = k.deletion.Deleted, k.deletion.Expires
		}
		saved = append(saved, one)
	}
	slices.SortFunc(saved, func(a, b controller.Saved) int { return cmp.Compare(a.Scheduler.ID, b.Scheduler.ID) })
	for _, r := range m.requests {
		requests = append(requests, r)
	}
	return saved, requests, nil, nil
}

// Audit implements [controller.Store].
func (m *Memory) Audit(from int64, newestFirst bool, visit func(place int64, line []byte, err error) bool) error {
	m.mu.Lock()
	lines := m.lines[:len(m.lines):len(m.lines)]
	m.mu.Unlock()
	step, n := int64(1), int64(len(lines))
	if from = max(1, from); newestFirst {
		step = -1
	}
	if newestFirst && (from == 1 || from > n) {
		from = n
	}
	for at := from; at >= 1 && at <= n && visit(at, lines[at-1], nil); at += step {
	}
	return nil
}

// ArchiveAudit implements [controller.Store]: nothing is in the way.
func (m *Memory) ArchiveAudit(context.Context, time.Time) error { return nil }

// KeepRound implements [controller.Store].
func (m *Memory) KeepRound(uid string, sequence int64, record []byte, keep int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rounds[uid] == nil {
		m.rounds[uid] = map[int64][]byte{}
	}
	m.rounds[uid][sequence] = slices.Clone(record)
	for s := range m.rounds[uid] {
		if s <= sequence-int64(keep) {
			delete(m.rounds[uid], s)
		}
	}
	return nil
}

// Rounds implements [controller.RoundLog].
func (m *Memory) Rounds(uid string, before int64, visit func(sequence int64, record []byte, err error) bool) error {
	if before == 0 {
		before = math.MaxInt64
	}
	m.mu.Lock()
	var all []int64
	of := map[int64][]byte{}
	for s, record := range m.rounds[uid] {
		if s < before {
			all, of[s] = append(all, s), record
		}
	}
	m.mu.Unlock()
	slices.Sort(all)
	for _, s := range slices.Backward(all) {
		if !visit(s, of[s], nil) {
			break
		}
	}
	return nil
}

// AppendEvents implements [controller.Store].
func (m *Memory) AppendEvents(ctx context.Context, scheduler string, events []workload.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events[scheduler] = append(m.events[scheduler], events...)
	return nil
}

// Cursor implements [controller.Store]: the number of events.
func (m *Memory) Cursor(scheduler string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.events[scheduler]); n > 0 {
		return strconv.Itoa(n), nil
	}
	return "", nil
}

// EventsUntil implements [controller.RoundLog].
func (m *Memory) EventsUntil(scheduler, cursor string, apply func(workload.Event) error) (unread, err error) {
	n, err := strconv.Atoi(cursor)
	m.mu.Lock()
	all := m.events[scheduler]
	m.mu.Unlock()
	if err != nil || n > len(all) {
		return nil, fmt.Errorf("storetest: %q is not a cursor", cursor)
	}
	return nil, byTime(all[:n], apply)
}

// byTime calls apply with events in order of time.
func byTime(events []workload.Event, apply func(workload.Event) error) error {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) })
	for _, e := range events {
		if err := apply(e); err != nil {
			return err
		}
	}
	return nil
}

// ReplayEvents implements [controller.EventLog].
func (m *Memory) ReplayEvents(only string, apply func(scheduler string, e workload.Event) error) ([]controller.Damage,
	error) {
	m.mu.Lock()
	all := map[string][]workload.Event{}
	var ids []string
	for id, events := range m.events {
		if only == "" || id == only {
			ids, all[id] = append(ids, id), events
		}
	}
	m.mu.Unlock()
	slices.Sort(ids)
	for _, id := range ids {
		if err := byTime(all[id], func(e workload.Event) error { return apply(id, e) }); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// DropEvents implements [controller.Store]: memory has no files of days.
func (m *Memory) DropEvents(context.Context, controller.Retention) ([]string, error) { return nil, nil }

// Faulty is a store with faults. A nil function has none.
type Faulty struct {
	controller.Store
	// OnCommit, OnAppend and OnReplay are called before the store is; their error is the result.
	OnCommit           func(controller.Change) error
	OnAppend, OnReplay func() error
	// Alter changes what is loaded.
	Alter func(saved []controller.Saved)
}

// Commit implements [controller.Store].
func (f *Faulty) Commit(ctx context.Context, c controller.Change) error {
	if f.OnCommit != nil {
		if err := f.OnCommit(c); err != nil {
			return err
		}
	}
	return f.Store.Commit(ctx, c)
}

// AppendEvents implements [controller.Store].
func (f *Faulty) AppendEvents(ctx context.Context, scheduler string, events []workload.Event) error {
	if f.OnAppend != nil {
		if err := f.OnAppend(); err != nil {
			return err
		}
	}
	return f.Store.AppendEvents(ctx, scheduler, events)
}

// ReplayEvents implements [controller.EventLog].
func (f *Faulty) ReplayEvents(only string, apply func(string, workload.Event) error) ([]controller.Damage, error) {
	if f.OnReplay != nil {
		if err := f.OnReplay(); err != nil {
			return nil, err
		}
	}
	return f.Store.ReplayEvents(only, apply)
}

// Load implements [controller.Store].
func (f *Faulty) Load() ([]controller.Saved, []controller.Request, []controller.Damage, error) {
	saved, requests, damage, err := f.Store.Load()
	if f.Alter != nil {
		f.Alter(saved)
	}
	return saved, requests, damage, err
}
