package controller

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Options of a Service.
type Options struct {
	Store  Store            // required
	Decide round.DecideFunc // required
	// Workers of one decision; one per processor if 0. Decisions of different
	// schedulers take turns.
	Workers int
	Log     *slog.Logger     // nothing is logged if nil
	Now     func() time.Time // time.Now if nil; for creation times only
	NewID   func() string    // makes unique ids; crypto/rand.Text if nil
}

// Service keeps the registered schedulers: their events, their configurations
// and their tuning rounds. It is safe for concurrent use. What schedulers ask
// for is answered from memory; what they are told was on disk first.
type Service struct {
	o    Options
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup // rounds
	turn chan struct{}  // held by the round that decides

	roundDuration *prometheus.HistogramVec

	creating sync.Mutex // one registration at a time
	mu       sync.RWMutex
	closed   bool
	tuned    map[string]*tuned
	requests map[string]Request
}

// tuned is a scheduler in memory.
type tuned struct {
	id    string
	space *space.Space

	committing sync.Mutex // one change at a time, held while it is written
	view       atomic.Pointer[view]
	watchMu    sync.Mutex
	watchers   map[*Watcher]struct{}

	ingesting sync.Mutex               // one batch at a time, held while it is written
	mu        sync.Mutex               // what follows
	seen      map[string]time.Duration // when each happened; no earlier than the horizon
	pending   []workload.Event         // not in the ledger yet, because a round has it
	ledger    *workload.Ledger         // the round's while deciding
	deciding  bool
	engine    *generation.Engine // likewise
	setting   bool               // the clock is being set: no round begins
	status    Status

	// The event clock, since zero. Only Ingest changes it.
	latest time.Duration
	held   int // events that agree with it
	strays strays
}

// view is what readers see of a scheduler. It is never changed, only replaced.
type view struct {
	Scheduler
	configs []*Configuration // by revision, from 1
}

// config returns a revision, or nil.
func (v *view) config(revision int64) *Configuration {
	if revision < 1 || revision > int64(len(v.configs)) {
		return nil
	}
	return v.configs[revision-1]
}

// Status is where the service stands with a scheduler.
type Status struct {
	EventTime time.Time // zero before the first event
	Events    int64
	// Rounds that ended since the service started, and how many of them failed.
	Rounds, Failures int64
	Watchers         int
	LastDecision     string
	LastError        string
}

// NewService loads what the store holds and continues from there: a round that
// was due is decided again.
func NewService(o Options) (*Service, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	s := &Service{o: o, turn: make(chan struct{}, 1), tuned: map[string]*tuned{}, requests: map[string]Request{}, roundDuration: newRoundDuration()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	saved, requests, err := o.Store.Load()
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	for _, one := range saved {
		s.tuned[one.Scheduler.ID] = newTuned(one)
	}
	for _, r := range requests {
		s.requests[r.ID] = r
	}
	if err := s.replay(s.tuned); err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	for _, t := range s.tuned {
		t.mu.Lock()
		s.startRound(t)
		t.mu.Unlock()
	}
	return s, nil
}

func newTuned(one Saved) *tuned {
	t := &tuned{
		id: one.Scheduler.ID, space: one.Space, watchers: map[*Watcher]struct{}{},
		seen: map[string]time.Duration{}, ledger: workload.NewLedger(one.Scheduler.Cluster),
	}
	t.view.Store(&view{Scheduler: one.Scheduler, configs: one.Configurations})
	return t
}

// Close stops the rounds under way and waits for them. The store stays open.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
}

func (s *Service) find(id string) (*tuned, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	t := s.tuned[id]
	if t == nil {
		return nil, fmt.Errorf("scheduler %q: %w", id, ErrNotFound)
	}
	return t, nil
}

// Register stores a scheduler and publishes its defaults as revision 1. The
// registration must have been checked; what is wrong with its parameters or
// rules is a space.Violations. A request whose id was used before is answered
// with what it created.
func (s *Service) Register(ctx context.Context, reg Registration, req *Request, validateOnly bool) (Scheduler, error) {
	sp, err := space.New(reg.Params, reg.Rules)
	if err != nil {
		return Scheduler{}, err
	}
	s.creating.Lock()
	defer s.creating.Unlock()
	s.mu.RLock()
	closed, exists := s.closed, s.tuned[reg.ID] != nil
	var before Request
	var known bool
	if req != nil {
		before, known = s.requests[req.ID]
	}
	s.mu.RUnlock()
	switch {
	case closed:
		return Scheduler{}, ErrClosed
	case known && before.Digest != req.Digest:
		return Scheduler{}, fmt.Errorf("%w: it created scheduler %q", ErrRequestReuse, before.Scheduler)
	case known:
		got, _, err := s.Scheduler(before.Scheduler)
		return got, err
	case exists:
		return Scheduler{}, fmt.Errorf("scheduler %q: %w", reg.ID, ErrExists)
	}
	now := s.o.Now().UTC()
	reg.Params, reg.Rules = sp.Params(), sp.Rules()
	sched := Scheduler{Registration: reg, UID: s.o.NewID(), Created: now, Updated: now, Last: 1, Served: 1}
	first := &Configuration{
		Scheduler: reg.ID, UID: s.o.NewID(), Revision: 1, State: Published, Origin: FromDefault, Config: sp.Default(), Hash: sp.Default().Hash(),
		Created: now, Updated: now, Reason: "the registered defaults",
	}
	if _, err := exit(sp, first.Config); err != nil || validateOnly {
		return sched, err
	}
	if req != nil {
		req = &Request{ID: req.ID, Digest: req.Digest, Scheduler: reg.ID}
	}
	if err := s.o.Store.Commit(ctx, Change{Scheduler: sched, Configurations: []*Configuration{first}, Request: req}); err != nil {
		return Scheduler{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tuned[reg.ID] = newTuned(Saved{Scheduler: sched, Space: sp, Configurations: []*Configuration{first}})
	if req != nil {
		s.requests[req.ID] = *req
	}
	s.o.Log.Info("scheduler registered", "scheduler", reg.ID, "type", reg.Type, "mode", reg.Mode)
	return sched, nil
}

// Scheduler returns a scheduler and where the service stands with it.
func (s *Service) Scheduler(id string) (Scheduler, Status, error) {
	t, err := s.find(id)
	if err != nil {
		return Scheduler{}, Status{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.status
	t.watchMu.Lock()
	defer t.watchMu.Unlock()
	st.Watchers = len(t.watchers)
	return t.view.Load().Scheduler, st, nil
}

// Space returns a scheduler's registered space.
func (s *Service) Space(id string) (*space.Space, error) {
	t, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return t.space, nil
}

// Schedulers returns the ids after one, in order, at most limit of them.
func (s *Service) Schedulers(after string, limit int) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var ids []string
	for id := range s.tuned {
		if id > after {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(limit, len(ids))]
}

// IngestResult says what became of a batch of events.
type IngestResult struct {
	Accepted, Duplicates int
	// Late are events before all that counts by now, seen before or not.
	Late     int
	Rejected []RejectedEvent // by index
}

// RejectedEvent is an event that makes no sense.
type RejectedEvent struct {
	Index int
	ID    string
	Err   error // "field: why"
}

// Ingest takes events in and returns when they are on disk. Times in events are
// since the Unix epoch. Events seen before and events too late are counted, and
// ones that make no sense reported, without holding up the others.
func (s *Service) Ingest(ctx context.Context, id string, events []workload.Event) (IngestResult, error) {
	var out IngestResult
	t, err := s.find(id)
	if err != nil {
		return out, err
	}
	t.ingesting.Lock()
	defer t.ingesting.Unlock()
	if len(events) == 0 {
		return out, nil
	}
	zero := t.view.Load().Zero
	if zero.IsZero() {
		times := make([]time.Duration, len(events))
		for i := range events {
			times[i] = events[i].Time
		}
		zero = time.Unix(0, int64(begin(times))).UTC().Truncate(24 * time.Hour)
	}
	events = slices.Clone(events)
	for i := range events {
		e := &events[i]
		e.Time -= time.Duration(zero.UnixNano())
		if e.LeaseUntil != 0 {
			e.LeaseUntil -= time.Duration(zero.UnixNano())
		}
		if e.Job.Deadline != 0 {
			e.Job.Deadline = workload.DeadlineAt(e.Job.Deadline - time.Duration(zero.UnixNano()))
		}
	}
	out, fresh, stray := t.sortOut(t.view.Load(), zero, events)
	switch {
	case len(fresh) > 0:
		t.strays = strays{}
	case len(stray) > 0:
		if to, enough := t.strayed(stray); enough {
			if err := s.setClock(ctx, t, to); err != nil {
				return IngestResult{}, err
			}
			out, fresh, _ = t.sortOut(t.view.Load(), zero, events)
		}
	}
	if len(fresh) == 0 {
		return out, nil
	}
	if t.status.Events == 0 {
		if err := s.settle(ctx, t, zero, fresh); err != nil {
			return IngestResult{}, err
		}
	}
	if err := s.o.Store.AppendEvents(ctx, id, fresh); err != nil {
		return IngestResult{}, err
	}
	out.Accepted = len(fresh)
	t.mu.Lock()
	for _, e := range fresh {
		t.take(e)
	}
	t.mu.Unlock()
	s.confirm(ctx, t, fresh)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.startRound(t)
	return out, nil
}

// settle begins a scheduler's event time with its first events.
func (s *Service) settle(ctx context.Context, t *tuned, zero time.Time, events []workload.Event) error {
	first := slices.MinFunc(events, func(a, b workload.Event) int { return cmp.Compare(a.Time, b.Time) }).Time
	return s.update(ctx, t, func(v *view) (*Change, error) {
		next := v.Scheduler
		next.Zero = zero
		next.Round = dueRound(first, next.Policy.UpdateInterval)
		return &Change{Scheduler: next}, nil
	})
}

// take adds a stored event to the ledger, or keeps it until the round that has
// the ledger is over. t.mu is held, or the service is not shared yet.
func (t *tuned) take(e workload.Event) {
	if _, dup := t.seen[e.ID]; dup {
		return
	}
	t.seen[e.ID] = e.Time
	t.status.Events++
	first := t.status.Events == 1
	switch {
	case first || e.Time > t.latest+maxAhead:
		t.held = 1
	case e.Time >= t.latest-maxAhead:
		t.held++
	}
	if first || e.Time > t.latest {
		t.latest = e.Time
	}
	if at := t.view.Load().Zero.Add(e.Time); first || at.After(t.status.EventTime) {
		t.status.EventTime = at
	}
	t.pending = append(t.pending, e)
	t.drain()
}

func (t *tuned) drain() {
	if t.deciding {
		return
	}
	for i := range t.pending {
		// Ingest let through only what a ledger accepts.
		_, _ = t.ledger.Apply(t.pending[i])
	}
	t.pending = t.pending[:0]
}

// update makes one change of a scheduler durable, then visible. f sees the
// present state and returns the change, or nil for none.
func (s *Service) update(ctx context.Context, t *tuned, f func(*view) (*Change, error)) error {
	t.committing.Lock()
	defer t.committing.Unlock()
	before := t.view.Load()
	c, err := f(before)
	if err != nil || c == nil {
		return err
	}
	c.Scheduler.Updated = s.o.Now().UTC()
	for _, cfg := range c.Configurations {
		if _, err := exit(t.space, cfg.Config); err != nil {
			return err
		}
		if cfg.Revision > c.Scheduler.Last {
			return errors.New("controller: revision beyond the scheduler's last")
		}
	}
	if err := s.o.Store.Commit(ctx, *c); err != nil {
		return err
	}
	after := &view{Scheduler: c.Scheduler, configs: slices.Clone(before.configs)}
	for _, cfg := range c.Configurations {
		if int(cfg.Revision) > len(after.configs) {
			after.configs = append(after.configs, cfg)
		} else {
			after.configs[cfg.Revision-1] = cfg
		}
	}
	t.view.Store(after)
	if after.Served != before.Served {
		t.notify()
	}
	return nil
}

// exit is the guard of what leaves the process: a configuration must be valid in
// the registered space as it is, and the same when it is read again from the
// form in which it leaves. It returns the latter.
func exit(sp *space.Space, c space.Config) (space.Config, error) {
	if err := sp.Check(c); err != nil {
		return space.Config{}, fmt.Errorf("%w: %w", ErrOutsideSpace, err)
	}
	out, err := sp.ParseJSON([]byte(c.Canonical()))
	if err != nil {
		return space.Config{}, fmt.Errorf("%w: %w", ErrOutsideSpace, err)
	}
	if !out.Equal(c) {
		return space.Config{}, fmt.Errorf("%w: it reads again as %s", ErrOutsideSpace, out)
	}
	return out, nil
}
