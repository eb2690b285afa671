package controller

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/autosched/autosched/controller/queue"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search/effects"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Options of a Service.
type Options struct {
	Store  Store            // required
	Decide round.DecideFunc // required
	// Workers are the processors that rounds, looks, questions and proposals of studies share in turns (package
	// queue); if 0, all but one, which is left to requests. No result depends on them.
	Workers int
	// KeepRounds is how many records of rounds are kept of each scheduler; DefaultKeepRounds if 0,
	// none if negative.
	KeepRounds int
	// Retain is how long events are kept, at least MinRetain; for ever if 0.
	Retain time.Duration
	// RetainAudit is how long the audit log is kept; for ever if 0.
	RetainAudit time.Duration
	// RoundLimit bounds the time of the turns of a round, which then keeps the incumbent;
	// DefaultRoundLimit if 0.
	RoundLimit time.Duration
	// Energy is the tariff at present, by which rounds count energy, cost and CO2; nil if there is none. A
	// returned tariff must not be changed.
	Energy func() *energy.Tariff
	// Jitter draws an addition to the wait after a failed round, at least 0 and below its
	// argument; random if nil.
	Jitter func(below time.Duration) time.Duration
	Log    *slog.Logger     // nothing is logged if nil
	Now    func() time.Time // time.Now if nil; for creation times only
	NewID  func() string    // makes unique ids; crypto/rand.Text if nil
	Tracer trace.Tracer     // nothing is traced if nil
}

// DefaultRoundLimit is that of rounds. At the default cost they take seconds.
const DefaultRoundLimit = 10 * time.Minute

// keepProposals is how many superseded proposals are kept of each scheduler beside the ones that another record refers
// to: as many as records of rounds.
func (o *Options) keepProposals() int {
	if o.KeepRounds < 0 {
		return DefaultKeepRounds
	}
	return o.KeepRounds
}

// DefaultKeepRounds are the records of 30 days of rounds every hour.
const DefaultKeepRounds = 720

// Service keeps the registered schedulers: their events, their configurations
// and their tuning rounds. It is safe for concurrent use. Reads are answered from
// memory; writes return once they are durable.
type Service struct {
	o       Options
	ctx     context.Context // of rounds
	stop    context.CancelFunc
	closing chan struct{}  // closed by Close
	wg      sync.WaitGroup // rounds, and the reading of events
	queue   *queue.Queue   // of decisions, questions and proposals

	launched chan struct{} // closed by Run
	rebuilt  chan struct{} // closed once all events are read

	operations operations
	timelines  chan struct{}     // has room for the one that is made, or for sums of tenants
	grades     chan struct{}     // likewise, of forecasts
	graded     []*schedulerState // whose grades are kept, the one last asked for last; of the holder of grades
	accounts   chan struct{}     // likewise, of energy

	roundDuration *prometheus.HistogramVec
	decisionAge   *prometheus.HistogramVec
	damage        *prometheus.GaugeVec
	looks         *prometheus.CounterVec
	used          *prometheus.CounterVec

	// The locks below and the ones of schedulerState are taken in the order given there.
	creating   sync.Mutex // one registration at a time
	mu         sync.RWMutex
	closed     bool
	hooks      Hooks // of Run
	schedulers map[string]*schedulerState
	requests   *requests
}

// Hooks are the callbacks of a Service. They must not wait.
type Hooks struct {
	// Events receives events of a scheduler once they are stored, in their order, with times since its Zero. It must
	// neither change nor keep the slice.
	Events func(id string, events []workload.Event)
	// Look receives the result of each look at an adopted configuration once it is stored.
	Look func(id string, l Look)
	// Trials returns the trials of an external scheduler whose configurations are of a space and whose objective is
	// a metric: a group for each study, the latest last.
	Trials func(scheduler, metric string, sp *space.Space) []effects.Group
	// Purged receives the id of each scheduler whose records were removed.
	Purged func(id string)
}

// withDefaults replaces nil by callbacks that do nothing.
func (h Hooks) withDefaults() Hooks {
	if h.Events == nil {
		h.Events = func(string, []workload.Event) {}
	}
	if h.Look == nil {
		h.Look = func(string, Look) {}
	}
	if h.Trials == nil {
		h.Trials = func(string, string, *space.Space) []effects.Group { return nil }
	}
	if h.Purged == nil {
		h.Purged = func(string) {}
	}
	return h
}

// NewService loads the records of a store and serves configurations. Run reads the events and decides rounds.
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
	if o.KeepRounds == 0 {
		o.KeepRounds = DefaultKeepRounds
	}
	if o.Tracer == nil {
		o.Tracer = noop.Tracer{}
	}
	o.Store = tracedStore{o.Store, o.Tracer}
	if o.Workers <= 0 {
		o.Workers = max(1, runtime.GOMAXPROCS(0)-1)
	}
	if o.RoundLimit <= 0 {
		o.RoundLimit = DefaultRoundLimit
	}
	if o.Jitter == nil {
		o.Jitter = mathrand.N[time.Duration]
	}
	s := &Service{o: o, queue: queue.New(queue.Options{Turns: o.Workers}), closing: make(chan struct{}),
		launched: make(chan struct{}), rebuilt: make(chan struct{}), hooks: Hooks{}.withDefaults(),
		schedulers: map[string]*schedulerState{}, timelines: make(chan struct{}, 1), grades: make(chan struct{}, 1),
		accounts:      make(chan struct{}, 1),
		roundDuration: newRoundDuration(), decisionAge: newDecisionAge(), looks: newLooks(), used: newUsed(),
		damage: newDamage()}
	s.ctx, s.stop = context.WithCancel(context.Background())
	saved, requests, damage, err := o.Store.Load()
	if err != nil {
		return nil, fmt.Errorf("controller: %w", err)
	}
	s.noteDamage(damage)
	s.noteAudit()
	var asked []Operation
	for _, one := range saved {
		one.Scheduler.Operations = restoredOperations(one.Scheduler.ID, one.Scheduler.Operations, s.now())
		asked = append(asked, one.Scheduler.Operations...)
		m := s.restore(one)
		if m.fault == nil && m.snapshot.Load().OfferedRevision == 0 { // as an older version left it
			if _, err := s.step(s.ctx, Call{}, m, rollout.Resume{}); err != nil {
				s.o.Log.Error("nothing is on offer", "scheduler", m.id, "err", err)
			}
		}
	}
	s.operations.restore(asked)
	s.requests = newRequests(requests)
	return s, nil
}

// Run reads the events of the saved schedulers, decides rounds, and removes expired records, until the context ends or
// the service is closed. Then it closes the service. A round that was due when the service stopped is decided again.
// Run must be called once; no events are ingested before.
func (s *Service) Run(ctx context.Context, h Hooks) error {
	if !s.launch(h) {
		return ErrClosed
	}
	select {
	case <-ctx.Done():
	case <-s.closing:
	}
	s.Close()
	return nil
}

// launch starts the work of Run, unless the service is closed.
func (s *Service) launch(h Hooks) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.hooks = h.withDefaults()
	close(s.launched)
	snapshots := map[string]*snapshot{}
	for id, m := range s.schedulers {
		s.wg.Go(func() { s.loop(m) }) // Close sets closed before it waits
		if m.fault == nil && !m.isReady() {
			snapshots[id] = m.snapshot.Load()
		}
	}
	s.wg.Go(func() { s.readHistories(snapshots) })
	s.wg.Go(s.purges)
	if s.o.Retain > 0 {
		s.wg.Go(s.drops)
	}
	return true
}

// await waits for a state of the service that lasts, also once its rounds are stopped.
func (s *Service) await(ctx context.Context, state <-chan struct{}) error {
	if isClosed(state) {
		return nil
	}
	select {
	case <-state:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return ErrClosed
	}
}

func (s *Service) hook() Hooks {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.hooks
}

// readHistories reads the histories of the schedulers that were saved, until it succeeds. They
// are served meanwhile, but take no events and have no rounds.
func (s *Service) readHistories(snapshots map[string]*snapshot) {
	began := time.Now() // for operators
	histories, err := s.replay("", snapshots)
	for wait := time.Second; err != nil; wait = min(2*wait, time.Minute) {
		if s.ctx.Err() == nil {
			s.o.Log.Error("events cannot be read; trying again", "in", wait, "err", err)
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(wait):
			histories, err = s.replay("", snapshots)
		}
	}
	events := int64(0)
	for id, h := range histories {
		m, _ := s.readable(id)
		if m == nil {
			return // closed
		}
		events += h.Events()
		m.mu.Lock()
		m.history = h
		s.wake(m)
		m.mu.Unlock()
		close(m.ready)
	}
	close(s.rebuilt)
	s.o.Log.Info("tuning is ready", "events", events, "took", time.Since(began).Round(time.Millisecond))
}

// Rebuilt is closed once the events of all saved schedulers are read. Configurations are served
// from the start.
func (s *Service) Rebuilt() <-chan struct{} { return s.rebuilt }

// restore takes a scheduler in as it was saved. One with neither a space nor revisions is known by
// its id only.
func (s *Service) restore(one Saved) *schedulerState {
	m := newSchedulerState(one, s.o.keepProposals())
	s.schedulers[m.id] = m
	for _, c := range one.Configurations {
		if c.State == rollout.Lost {
			s.o.Log.Error("revision is lost, and counts for nothing", "scheduler", m.id, "revision", c.Revision,
				"err", c.Reason)
		}
	}
	for _, r := range one.Revisions {
		if r.Damage != nil {
			s.o.Log.Error("revision of the scheduler cannot be read, nor configurations in its space",
				"scheduler", m.id,
				"revision", r.Number, "err", r.Damage)
		}
	}
	if m.fault != nil {
		s.o.Log.Error("scheduler is quarantined: its last good configuration is served, and nothing else is done "+
			"for it", "scheduler", m.id, "revision", m.snapshot.Load().OfferedRevision, "err", m.fault)
	}
	return m
}

// noteDamage logs and counts records that the store passed over.
func (s *Service) noteDamage(damage []Damage) {
	counts := map[string]int{}
	for _, d := range damage {
		s.o.Log.Error("store is damaged: what cannot be read counts for nothing", "file", d.File, "records",
			d.Records, "err", d.Err)
		counts[d.File] += max(d.Records, 1)
		s.NoteDamage(d.File, counts[d.File])
	}
}

// NoteDamage counts the damaged files or records of a part of the service that is not the controller's.
func (s *Service) NoteDamage(file string, n int) { s.damage.WithLabelValues(file).Set(float64(n)) }

// StopRounds cancels the rounds under way, and none begins. Requests are still answered.
func (s *Service) StopRounds() { s.stop() }

// Close refuses further calls, stops the rounds under way and waits for them. The store stays open.
func (s *Service) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
}

func (s *Service) now() time.Time { return s.o.Now().UTC() }

// active finds a scheduler that is not quarantined.
func (s *Service) active(id string) (*schedulerState, error) {
	m, err := s.readable(id)
	switch {
	case err != nil:
		return nil, err
	case m.fault != nil:
		return nil, m.quarantined()
	case !m.snapshot.Load().Deleted.IsZero():
		return nil, deleted(id)
	}
	return m, nil
}

// readable finds a scheduler of which something can be read.
func (s *Service) readable(id string) (*schedulerState, error) {
	m, err := s.lookup(id)
	if err == nil && m.snapshot.Load().space == nil {
		return nil, m.quarantined()
	}
	return m, err
}

func (s *Service) lookup(id string) (*schedulerState, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	m := s.schedulers[id]
	if m == nil {
		return nil, noScheduler(id)
	}
	return m, nil
}

func noScheduler(id string) error {
	return fmt.Errorf("scheduler %q: %w: 'autosched scheduler list' shows the registered ones", id, ErrNotFound)
}

// Register stores a scheduler and publishes its defaults as revision 1. The
// registration must have been checked; an error in its parameters or
// rules is a space.Violations.
func (s *Service) Register(ctx context.Context, call Call, reg Registration) (Scheduler, error) {
	sp, err := space.New(reg.Params, reg.Rules)
	if err != nil {
		return Scheduler{}, err
	}
	s.creating.Lock()
	defer s.creating.Unlock()
	s.mu.RLock()
	closed, exists := s.closed, s.schedulers[reg.ID]
	s.mu.RUnlock()
	switch {
	case closed:
		return Scheduler{}, ErrClosed
	case exists != nil && !exists.snapshot.Load().Deleted.IsZero():
		return Scheduler{}, fmt.Errorf("%w: %w, and its id is free once it is purged, at %s", ErrExists,
			deleted(reg.ID), exists.snapshot.Load().Expires.Format(time.RFC3339))
	case exists != nil:
		return Scheduler{}, fmt.Errorf("scheduler %q: %w", reg.ID, ErrExists)
	}
	now := s.now()
	reg.Params, reg.Rules = sp.Params(), sp.Rules()
	defaults := rollout.Publish{Config: sp.Default(), Origin: rollout.FromDefault, Reason: "the registered defaults"}
	state, configs, err := rollout.Step(rollout.State{Scheduler: reg.ID}, defaults, now)
	if err != nil {
		return Scheduler{}, err
	}
	sched := Scheduler{Registration: reg, UID: s.o.NewID(), Version: 1, Generation: 1, Created: now, Updated: now,
		Records: state.Records}
	configs[0].UID = s.o.NewID()
	if _, err := validateOutgoing(sp, sp.Default()); err != nil {
		return sched, err
	}
	m := newSchedulerState(Saved{Scheduler: sched, Space: sp, Configurations: configs}, s.o.keepProposals())
	if m.fault != nil || call.DryRun {
		return sched, m.fault
	}
	close(m.ready)
	request := s.RequestRecord(call, reg.ID)
	change := Change{Scheduler: sched, Configurations: configs, Request: request.Request()}
	change.Audit = record(call, nil, &change, now)
	if err := s.o.Store.Commit(ctx, change); err != nil {
		return Scheduler{}, err
	}
	request.MarkStored()
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.agenda.over = s.closed; !s.closed && isClosed(s.launched) { // Run starts the loops of the others
		s.wg.Go(func() { s.loop(m) })
	}
	s.schedulers[reg.ID] = m
	s.o.Log.InfoContext(ctx, "scheduler registered", "scheduler", reg.ID, "type", reg.Type, "mode", reg.Mode)
	return sched, nil
}

// Scheduler returns a scheduler and its status.
func (s *Service) Scheduler(id string) (Scheduler, Status, error) {
	m, err := s.readable(id)
	if err != nil {
		return Scheduler{}, Status{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.snapshot.Load()
	st := m.status
	st.Watchers, st.Failing, st.Deciding = m.watchers.Len(), m.backoff.failures, m.agenda.task != nil
	if m.fault == nil && !m.isReady() {
		st.LastDecision = "none yet: the events are still being read"
	}
	if v.Type == External {
		st.LastDecision = "none: the scheduler is not simulated; studies tune it"
	}
	if st.Events = m.history.Events(); st.Events > 0 {
		st.EventTime = v.Zero.Add(m.history.Last())
		if st.Watching = v.watching(); m.marks.lookErr != "" && v.onTrial() != nil {
			st.Watching = "the last look failed: " + m.marks.lookErr
		}
	}
	if v.Type == External {
		st.Watching = v.watching()
	}
	state := v.rollout()
	at := m.eventTimeLocked()
	if f := state.Frozen(at); f != nil {
		st.Hold = f.String()
	} else if st.Events > 0 && v.Mode == Auto {
		st.Hold = state.Hold(at)
	}
	st.Incident = state.LastIncident()
	st.Proposed = state.Proposal()
	now, deadline := s.now(), cmp.Or(v.Policy.AckDeadline, DefaultAckDeadline)
	st.Degraded = state.Degradation(now, deadline)
	for _, i := range v.Instances {
		one := InstanceStatus{Instance: i}
		if c := state.Desired(i.ID); c != nil {
			one.Desired = c.Revision
		}
		one.Condition, one.Why = state.Condition(&i, now, deadline)
		st.Instances = append(st.Instances, one)
	}
	return v.Scheduler, st, nil
}

// Space returns a scheduler's registered space.
func (s *Service) Space(id string) (*space.Space, error) {
	m, err := s.readable(id)
	if err != nil {
		return nil, err
	}
	return m.snapshot.Load().space, nil
}

// Schedulers returns the ids after one, in order, at most limit of them.
func (s *Service) Schedulers(after string, limit int) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var ids []string
	for id, m := range s.schedulers {
		if id > after && m.snapshot.Load().space != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(limit, len(ids))]
}

// Registered returns the number of schedulers, in all and registered by a caller, and whether there
// is one of an id.
func (s *Service) Registered(creator, id string) (all, own int, exists bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, m := range s.schedulers {
		if m.snapshot.Load().Creator == creator {
			own++
		}
	}
	return len(s.schedulers), own, s.schedulers[id] != nil
}

// commit makes one change of a scheduler durable, with its record in the audit log
// (record), then visible. f sees the present state and returns the change, or nil for
// none. It returns the state after the change: with call.DryRun as it would be.
func (s *Service) commit(ctx context.Context, call Call, m *schedulerState, f func(*snapshot) (*Change,
	error)) (*snapshot,
	error) {
	m.committing.Lock()
	defer m.committing.Unlock()
	if m.fault != nil {
		return nil, m.quarantined()
	}
	return s.commitChange(ctx, call, m, f)
}

// commitChange is commit without the quarantine check. The caller must hold committing.
func (s *Service) commitChange(ctx context.Context, call Call, m *schedulerState,
	f func(*snapshot) (*Change, error)) (*snapshot, error) {
	if isClosed(m.gone) {
		return nil, noScheduler(m.id)
	}
	before := m.snapshot.Load()
	c, err := f(before)
	if err != nil || c == nil {
		return before, err
	}
	if !before.Deleted.IsZero() && !c.Scheduler.Deleted.IsZero() {
		return nil, deleted(m.id)
	}
	c.Scheduler.Updated, c.Scheduler.Version = s.now(), before.Version+1
	after := &snapshot{Scheduler: c.Scheduler, space: before.space, revisions: before.revisions, goal: before.goal,
		keep: before.keep}
	if n := len(c.Revisions); n > 0 {
		after.space = c.Revisions[n-1].Space
		after.revisions = append(slices.Clone(before.revisions), c.Revisions[n-1])
	}
	for _, cfg := range c.Configurations {
		if cfg.UID == "" || cfg.Revision == after.OfferedRevision { // others stay in the space they were made in
			if _, err := validateOutgoing(after.space, cfg.Config); err != nil {
				return nil, err
			}
		}
		if cfg.Revision > c.Scheduler.LastRevision {
			return nil, fmt.Errorf("controller: scheduler %q: revision %d is beyond the last, %d", m.id, cfg.Revision,
				c.Scheduler.LastRevision)
		}
		if cfg.UID == "" {
			cfg.UID, cfg.Space = s.o.NewID(), c.Scheduler.Revision
		}
	}
	if after.Objective != before.Objective {
		if after.goal, err = parseGoal(&after.Scheduler); err != nil {
			return nil, err
		}
	}
	after.configs = c.Apply(before.configs)
	if call.DryRun {
		return after, nil
	}
	c.Audit = record(call, before, c, c.Scheduler.Updated)
	request := s.RequestRecord(call, m.id)
	c.Request = request.Request()
	if err := s.o.Store.Commit(ctx, *c); err != nil {
		if errors.Is(err, ErrStale) {
			s.o.Log.ErrorContext(ctx, "change is refused: the store has a later one, of another process", "scheduler",
				m.id, "follows", before.Version, "err", err)
		}
		return nil, err
	}
	request.MarkStored()
	m.snapshot.Store(after)
	if after.OfferedRevision != before.OfferedRevision || after.Wave != before.Wave || // for instances
		after.Paused != before.Paused {
		m.watchers.Notify()
	}
	return after, nil
}

// step commits the changes of an event of the rollout, and reports whether it
// changed anything; a dry run never does.
func (s *Service) step(ctx context.Context, call Call, m *schedulerState, e rollout.Event) (changed bool, err error) {
	_, err = s.commit(ctx, call, m, func(v *snapshot) (*Change, error) {
		c, err := v.step(e, s.now())
		changed = c != nil
		return c, err
	})
	return changed && err == nil && !call.DryRun, err
}

// tick begins the next wave of a rollout if it is due.
func (s *Service) tick(ctx context.Context, call Call, m *schedulerState) error {
	if m.snapshot.Load().Wave == nil {
		return nil
	}
	changed, err := s.step(ctx, call, m, rollout.Tick{At: m.eventTime()})
	if v := m.snapshot.Load(); changed {
		state := v.rollout()
		s.o.Log.InfoContext(ctx, "rollout goes on", "scheduler", m.id, "revision", v.OfferedRevision,
			"waits", state.Waiting())
	}
	return err
}

// validateOutgoing checks a configuration against the registered space and its
// JSON round trip. It returns the round-tripped value, which is sent.
func validateOutgoing(sp *space.Space, c space.Config) (space.Config, error) {
	if err := sp.Check(c); err != nil {
		return space.Config{}, fmt.Errorf("%w: %w", ErrOutsideSpace, err)
	}
	out, err := sp.ParseJSON([]byte(c.Canonical()))
	if err != nil {
		return space.Config{}, fmt.Errorf("%w: %w", ErrOutsideSpace, err)
	}
	if !out.Equal(c) {
		return space.Config{}, fmt.Errorf("%w: its JSON %s reads as %s", ErrOutsideSpace, c.Canonical(), out)
	}
	return out, nil
}
