// Package studies keeps the studies of schedulers: it makes the changes of package study durable, answers
// once they are, and has the engines that propose trials. Changes of a study follow one another in memory
// and share commits; readers see durable states.
package studies

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/search/effects"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
)

// Change of a study, written whole or not at all.
type Change struct {
	Scheduler string
	// Study has the version after the one that it follows, which has to be stored with the Resets of
	// Follows; Trials are the changed ones.
	Study   study.Record
	Follows int64
	Trials  []*study.Trial
	Delete  bool                // the study with its trials
	Audit   *audit.Record       // nil for handing out trials, measures and renewals of leases, which the trials record
	Request *controller.Request // that of the caller with an id
}

// Saved is a study as a store has it.
type Saved struct {
	Scheduler string
	State     study.State
}

// ErrVersion is the error of a change that does not follow the stored one.
var ErrVersion = errors.New("the change of the study before was not stored")

// Store keeps studies.
type Store interface {
	// EnqueueStudy queues a change behind earlier ones. The returned function waits until the change is
	// durable.
	EnqueueStudy(c Change) (wait func() error)
	// LoadStudies returns readable studies, and the rest as damage.
	LoadStudies() (saved []Saved, damage []controller.Damage, err error)
}

// MaxStudies bounds the studies of a scheduler.
const MaxStudies = 100

// sweepEvery is how often expired leases are looked for.
const sweepEvery = time.Second

// Options of a Service.
type Options struct {
	Store      Store               // required
	Schedulers *controller.Service // required
	Log        *slog.Logger        // nothing is logged if nil
	Now        func() time.Time    // time.Now if nil
	NewID      func() string       // makes unique ids; crypto/rand.Text if nil
	// Evaluators measure the trials of studies that are run, by id.
	Evaluators map[string]Evaluator
}

// Service keeps studies. It is safe for concurrent use.
type Service struct {
	o    Options
	runs *runs

	creating sync.Mutex // one CreateStudy or Delete at a time; taken before mu and studyState.mu
	mu       sync.RWMutex
	studies  map[string]map[string]*studyState // by scheduler and id
}

// studyState is a study in memory. Readers take no lock that is held while anything is computed or stored.
type studyState struct {
	scheduler, id string

	durable atomic.Pointer[study.State] // of readers; state is it, or follows from it
	deleted atomic.Bool

	asking   chan struct{} // of one, filled before mu is taken and while trials are proposed; guards both below
	engine   *study.Engine // of state; nil until it is needed
	engineOf int64         // resets when it was made

	mu     sync.Mutex  // guards all below; not held while the store writes or trials are proposed
	state  study.State // with changes that are not durable yet
	resets int64       // how often state went back to durable

	viewing sync.Mutex    // taken alone; guards all below
	viewer  *study.Engine // of durable
	best    *study.Trial
	bestAt  int64 // Ended of durable when best was found
}

// New loads the studies of the store. Clients could not renew leases meanwhile: leases of open trials begin anew.
func New(o Options) (*Service, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	s := &Service{o: o, studies: map[string]map[string]*studyState{}}
	saved, damage, err := o.Store.LoadStudies()
	if err != nil {
		return nil, fmt.Errorf("studies: %w", err)
	}
	for _, d := range damage {
		o.Log.Error("study has damaged records", "file", d.File, "err", d.Err)
	}
	now := s.now()
	for _, one := range saved {
		for i, t := range one.State.Trials {
			if t.State == study.Running || t.State == study.Stopping {
				again := *t
				again.Expires = now.Add(one.State.Spec.Lease)
				one.State.Trials[i] = &again
			}
		}
		s.put(one.Scheduler, one.State)
	}
	s.runs = s.newRuns()
	return s, nil
}

// Run ends expired leases and has evaluators measure trials until the context ends. A trial that is measured then is
// measured again after a restart.
func (s *Service) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { s.sweep(ctx) })
	s.runs.loop(ctx)
	return nil
}

func (s *Service) now() time.Time { return s.o.Now().UTC() }

func (s *Service) put(scheduler string, state study.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.studies[scheduler] == nil {
		s.studies[scheduler] = map[string]*studyState{}
	}
	m := &studyState{scheduler: scheduler, id: state.ID, asking: make(chan struct{}, 1), state: state,
		resets: state.Resets}
	m.durable.Store(&state)
	s.studies[scheduler][state.ID] = m
}

// Forget drops the studies of a purged scheduler.
func (s *Service) Forget(scheduler string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.studies[scheduler] {
		m.deleted.Store(true)
	}
	delete(s.studies, scheduler)
}

// Trials are the trials of a scheduler's studies that succeeded in improving a metric, and whose
// configurations are of a space: a group for each study, the latest last.
func (s *Service) Trials(scheduler, metric string, sp *space.Space) (out []effects.Group) {
	s.mu.RLock()
	of := slices.Collect(maps.Values(s.studies[scheduler]))
	s.mu.RUnlock()
	var states []study.State
	for _, m := range of {
		states = append(states, *m.durable.Load())
	}
	slices.SortFunc(states, func(a, b study.State) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	for i := range states {
		x := &states[i]
		if x.Spec.Metric != metric {
			continue
		}
		var g effects.Group
		for _, t := range x.Trials {
			if t.State != study.Succeeded || t.SameAs != 0 {
				continue
			}
			c, err := sp.ParseJSON(t.Values)
			if err != nil { // of another revision
				continue
			}
			one := effects.Trial{Config: c, Objective: x.Spec.Cost(x.Spec.Value(t.Final)),
				Metrics: maps.Clone(t.Final.Metrics)}
			delete(one.Metrics, metric)
			g.Trials = append(g.Trials, one)
		}
		if len(g.Trials) > 0 {
			out = append(out, g)
		}
	}
	return out
}

// sweep makes trials stale whose leases expired.
func (s *Service) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := s.now()
		for _, m := range s.all() {
			if !m.durable.Load().Expired(now) {
				continue
			}
			_, _, err := s.step(context.WithoutCancel(ctx), controller.Call{}, m, now, study.Tick{}, nil)
			if err != nil && !errors.Is(err, controller.ErrNotFound) {
				s.o.Log.Error("expired leases are still held", "scheduler", m.scheduler, "study", m.id, "err", err)
			}
		}
	}
}

func (s *Service) all() (out []*studyState) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, of := range s.studies {
		out = slices.AppendSeq(out, maps.Values(of))
	}
	return out
}

// find returns a study of a scheduler that is not deleted.
func (s *Service) find(scheduler, id string) (*studyState, error) {
	if err := s.check(scheduler); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.studies[scheduler][id]; m != nil {
		return m, nil
	}
	return nil, notFound(scheduler, id)
}

func notFound(scheduler, id string) error {
	return fmt.Errorf("study %q of scheduler %q: %w", id, scheduler, controller.ErrNotFound)
}

// check refuses a scheduler that is deleted or not there.
func (s *Service) check(scheduler string) error {
	c, _, err := s.o.Schedulers.Scheduler(scheduler)
	if err == nil && !c.Deleted.IsZero() {
		err = fmt.Errorf("scheduler %q %w", scheduler, controller.ErrDeleted)
	}
	return err
}

// Create begins a study of a scheduler's space, from its running configuration. The space and the start of the
// specification are filled in.
func (s *Service) Create(ctx context.Context, call controller.Call, scheduler string, r study.Record) (study.State,
	error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	if err := s.check(scheduler); err != nil {
		return study.State{}, err
	}
	c, _, err := s.o.Schedulers.Scheduler(scheduler)
	if err != nil {
		return study.State{}, err
	}
	sp, err := s.o.Schedulers.Space(scheduler)
	if err != nil {
		return study.State{}, err
	}
	start, err := s.o.Schedulers.Running(scheduler)
	if err != nil { // it runs values outside the space
		start = sp.Default()
	}
	s.mu.RLock()
	n, exists := len(s.studies[scheduler]), s.studies[scheduler][r.ID] != nil
	s.mu.RUnlock()
	switch {
	case exists:
		return study.State{}, fmt.Errorf("study %q of scheduler %q: %w", r.ID, scheduler, controller.ErrExists)
	case n >= MaxStudies:
		return study.State{}, fmt.Errorf("%w: scheduler %q has %d studies; delete some", study.ErrLimit, scheduler, n)
	}
	now := s.now()
	r.UID, r.Phase, r.Created, r.Updated, r.Version = s.o.NewID(), study.Active, now, now, 1
	r.Spec.Revision = max(1, c.Revision)
	r.Spec.Params, r.Spec.Rules, r.Spec.Start = sp.Params(), sp.Rules(), json.RawMessage(start.Canonical())
	state := study.State{Record: r, Space: sp}
	if _, err := study.NewEngine(&state); err != nil || call.DryRun {
		return state, err
	}
	request := s.o.Schedulers.RequestRecord(call, scheduler)
	err = s.o.Store.EnqueueStudy(Change{Scheduler: scheduler, Study: r,
		Audit: s.record(call, scheduler, &r, "", r.Phase), Request: request.Request()})()
	if err != nil {
		return study.State{}, err
	}
	request.MarkStored()
	s.put(scheduler, state)
	s.o.Log.InfoContext(ctx, "study created", "scheduler", scheduler, "study", r.ID, "algorithm", r.Spec.Algorithm,
		"budget", r.Spec.Budget)
	return state, nil
}

// record is the audit record of a change of a study's phase.
func (s *Service) record(call controller.Call, scheduler string, r *study.Record, before, after study.Phase,
) *audit.Record {
	text := func(p study.Phase) string {
		if p == "" {
			return ""
		}
		return fmt.Sprintf("%q", p)
	}
	return &audit.Record{Time: s.now(), Origin: call.By(), Resource: "schedulers/" + scheduler,
		Fields: []audit.Field{{Name: "studies/" + r.ID + ".phase", Before: text(before), After: text(after)}}}
}

// recordTrials is the audit record of a call that changes the states of trials, nil if it changes none.
func (s *Service) recordTrials(call controller.Call, scheduler string, before, after *study.State) *audit.Record {
	var fields []audit.Field
	for i, t := range after.Trials {
		name := fmt.Sprintf("studies/%s/trials/%d.", after.ID, t.ID)
		f := audit.Field{Name: name + "state", After: fmt.Sprintf("%q", t.State)}
		if i < len(before.Trials) {
			if before.Trials[i].State == t.State {
				continue
			}
			f.Before = fmt.Sprintf("%q", before.Trials[i].State)
		}
		fields = append(fields, f)
		if t.State == study.Succeeded {
			fields = append(fields, audit.Field{Name: name + after.Spec.Metric,
				After: fmt.Sprint(after.Spec.Value(t.Final))})
		}
	}
	if fields == nil {
		return nil
	}
	return &audit.Record{Time: s.now(), Origin: call.By(), Resource: "schedulers/" + scheduler,
		Fields: fields}
}

// Delete removes a study with its trials, if check returns nil.
func (s *Service) Delete(ctx context.Context, call controller.Call, scheduler, id string,
	check func(*study.Record) error) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	m, err := s.find(scheduler, id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	r := m.state.Record
	if err := check(&r); err != nil || call.DryRun {
		m.mu.Unlock()
		return err
	}
	before := r.Phase
	r.Version++
	request := s.o.Schedulers.RequestRecord(call, scheduler)
	wait := s.o.Store.EnqueueStudy(Change{Scheduler: scheduler, Study: r, Follows: r.Resets, Delete: true,
		Audit: s.record(call, scheduler, &r, before, ""), Request: request.Request()})
	m.deleted.Store(true)
	m.mu.Unlock()
	if err := wait(); err != nil {
		m.mu.Lock()
		m.deleted.Store(false)
		m.reset()
		m.mu.Unlock()
		return err
	}
	request.MarkStored()
	s.mu.Lock()
	delete(s.studies[scheduler], id)
	s.mu.Unlock()
	s.o.Log.InfoContext(ctx, "study deleted", "scheduler", scheduler, "study", id)
	return nil
}

// reset goes back to the durable state. The caller must hold mu.
func (m *studyState) reset() {
	m.state = *m.durable.Load()
	m.resets++
}

// checked is an event that happens if check returns nil.
type checked struct {
	study.Event
	check func(*study.Record) error
}

// step makes a change of a study, and returns the state after it and the trials that changed once they are
// durable. log, if not nil, makes the record of the audit log.
func (s *Service) step(ctx context.Context, call controller.Call, m *studyState, at time.Time, e study.Event,
	log func(before, after *study.State) *audit.Record) (study.State, []*study.Trial, error) {
	asked := func() {}
	if suggest, ok := e.(study.Suggest); ok {
		var err error
		if e, at, asked, err = s.ask(ctx, m, suggest); err != nil {
			return study.State{}, nil, err
		}
		defer asked()
	} else {
		m.mu.Lock()
	}
	if m.deleted.Load() {
		m.mu.Unlock()
		return study.State{}, nil, notFound(m.scheduler, m.id)
	}
	if c, ok := e.(checked); ok {
		if err := c.check(&m.state.Record); err != nil {
			m.mu.Unlock()
			return study.State{}, nil, err
		}
		e = c.Event
	}
	before := m.state
	next, changed, err := study.Step(before, e, at)
	if err != nil {
		m.mu.Unlock()
		return before, nil, err
	}
	if len(changed) == 0 && next.Same(&before.Record) && before.Version == m.durable.Load().Version {
		m.mu.Unlock()
		return before, nil, nil
	}
	if call.DryRun {
		m.mu.Unlock()
		return next, changed, nil
	}
	next.Version, next.Resets, next.Updated = before.Version+1, m.resets, at
	c := Change{Scheduler: m.scheduler, Study: next.Record, Follows: before.Resets, Trials: changed}
	if log != nil {
		c.Audit = log(&before, &next)
	}
	request := s.o.Schedulers.RequestRecord(call, m.scheduler)
	if _, ok := e.(study.CreateAll); ok {
		request.SetName(fmt.Sprintf("schedulers/%s/studies/%s/trials/%d-%d", m.scheduler, m.id, before.LastTrial+1,
			next.LastTrial))
	}
	if _, ok := e.(study.Create); ok {
		request.SetName(fmt.Sprintf("schedulers/%s/studies/%s/trials/%d", m.scheduler, m.id, changed[0].ID))
	}
	c.Request = request.Request()
	wait, resets := s.o.Store.EnqueueStudy(c), m.resets
	m.state = next
	m.mu.Unlock()
	asked()
	err = wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.reset()
		return before, nil, err
	}
	request.MarkStored()
	if next.Version > m.durable.Load().Version {
		m.durable.Store(&next)
	}
	if m.resets != resets { // another change failed meanwhile: state does not follow from this one
		m.reset()
	}
	if next.Run != nil {
		s.runs.look()
	}
	return next, changed, nil
}

// ask completes a request for trials by proposals of the engine, and takes mu unless there is an error. Proposals are
// made without it, in a turn of the scheduler, of a state from which no trial is missing. The request is of the time
// at, when the waits are over. The caller calls done once they are part of the state.
func (s *Service) ask(ctx context.Context, m *studyState, e study.Suggest) (_ study.Event, at time.Time, done func(),
	err error) {
	m.mu.Lock()
	if at = s.now(); m.lacks(&e, at) == 0 {
		return e, at, func() {}, nil
	}
	m.mu.Unlock()
	select {
	case m.asking <- struct{}{}:
	case <-ctx.Done():
		return e, at, nil, context.Cause(ctx)
	}
	done = sync.OnceFunc(func() { <-m.asking })
	m.mu.Lock()
	for at = s.now(); m.lacks(&e, at) > 0; {
		state, resets := m.state, m.resets
		m.mu.Unlock()
		err = s.o.Schedulers.Turn(ctx, m.scheduler, func() (err error) {
			e.Asked, err = m.propose(&state, resets)
			return err
		})
		if err != nil {
			done()
			return e, at, nil, err
		}
		m.mu.Lock()
		at = s.now()
		if m.resets == resets && m.state.LastTrial == state.LastTrial && m.lacks(&e, at) > 0 {
			break
		}
		m.engine, e.Asked = nil, study.Asked{} // its proposals are lost
	}
	return e, at, done, nil
}

// lacks returns how many trials a client is to get beside those that it holds. The caller must hold mu.
func (m *studyState) lacks(e *study.Suggest, at time.Time) int {
	if m.deleted.Load() {
		return 0
	}
	expired, _, err := study.Step(m.state, study.Tick{}, at)
	if err != nil {
		return 0
	}
	return expired.Lacks(e.Client, e.Count)
}

// propose asks the engine. The caller must hold asking.
func (m *studyState) propose(state *study.State, resets int64) (asked study.Asked, err error) {
	if m.engine == nil || m.engineOf != resets {
		if m.engine, err = study.NewEngine(state); err != nil {
			return asked, err
		}
		m.engineOf = resets
	}
	if asked, err = m.engine.Ask(state); err != nil {
		m.engine = nil
	}
	return asked, err
}

// Study returns a study as it is durable.
func (s *Service) Study(scheduler, id string) (study.State, error) {
	m, err := s.find(scheduler, id)
	if err != nil {
		return study.State{}, err
	}
	return *m.durable.Load(), nil
}

// Studies returns the studies of a scheduler after an id, in order of id, at most limit.
func (s *Service) Studies(scheduler, after string, limit int) ([]study.State, error) {
	if err := s.check(scheduler); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []study.State
	for _, id := range slices.Sorted(maps.Keys(s.studies[scheduler])) {
		if id > after && len(out) < limit {
			out = append(out, *s.studies[scheduler][id].durable.Load())
		}
	}
	return out, nil
}

// Best is the trial of a study with the best expected value, nil if none has succeeded.
func (s *Service) Best(scheduler, id string) (*study.Trial, error) {
	m, err := s.find(scheduler, id)
	if err != nil {
		return nil, err
	}
	m.viewing.Lock()
	defer m.viewing.Unlock()
	state := m.durable.Load()
	if m.viewer != nil && m.bestAt == state.Ended {
		return m.best, nil
	}
	if m.viewer == nil {
		if m.viewer, err = study.NewEngine(state); err != nil {
			return nil, err
		}
	}
	m.best, m.bestAt = m.viewer.Best(state), state.Ended
	return m.best, nil
}

// Suggest returns trials for a client, which holds them; none if it is to ask again.
func (s *Service) Suggest(ctx context.Context, scheduler, id, client string, count int) (study.State, []*study.Trial,
	error) {
	m, err := s.find(scheduler, id)
	if err != nil {
		return study.State{}, nil, err
	}
	after, _, err := s.step(ctx, controller.Call{}, m, s.now(), study.Suggest{Client: client,
		Count: count}, nil)
	if err != nil {
		return after, nil, err
	}
	held := after.Held(client, count)
	if len(held) == 0 {
		err = after.Nothing()
	}
	return after, held, err
}

// Do makes a change of a trial, which it returns; of Create the one that is new.
func (s *Service) Do(ctx context.Context, call controller.Call, scheduler, id string, trial int64,
	e study.Event) (study.State, *study.Trial,
	error) {
	m, err := s.find(scheduler, id)
	if err != nil {
		return study.State{}, nil, err
	}
	return s.do(ctx, call, m, trial, e)
}

// do is Do of a study that was found.
func (s *Service) do(ctx context.Context, call controller.Call, m *studyState, trial int64,
	e study.Event) (study.State, *study.Trial, error) {
	after, changed, err := s.step(ctx, call, m, s.now(), e, func(before, after *study.State) *audit.Record {
		return s.recordTrials(call, m.scheduler, before, after)
	})
	if err != nil {
		return after, nil, err
	}
	if _, ok := e.(study.Create); ok {
		trial = changed[0].ID
	}
	if len(changed) > 0 && !call.DryRun {
		s.o.Log.DebugContext(ctx, "trial changed", "scheduler", m.scheduler, "study", m.id, "trial", trial, "state",
			after.Trial(trial).State)
	}
	return after, after.Trial(trial), nil
}

// CreateTrials adds trials to a study, all or none, and returns them.
func (s *Service) CreateTrials(ctx context.Context, call controller.Call, scheduler, id string,
	all []study.Create) (study.State,
	[]*study.Trial, error) {
	m, err := s.find(scheduler, id)
	if err != nil {
		return study.State{}, nil, err
	}
	e := study.CreateAll{Trials: all}
	after, _, err := s.step(ctx, call, m, s.now(), e, func(before, after *study.State) *audit.Record {
		return &audit.Record{Time: s.now(), Origin: call.By(), Resource: "schedulers/" + scheduler,
			Fields: []audit.Field{{Name: "studies/" + id + ".last_trial", Before: fmt.Sprint(before.LastTrial),
				After: fmt.Sprint(after.LastTrial)}}}
	})
	if err != nil {
		return after, nil, err
	}
	s.o.Log.DebugContext(ctx, "trials added", "scheduler", scheduler, "study", id, "trials", len(all))
	return after, after.Trials[after.LastTrial-int64(len(all)):], nil
}

// Operate makes an operator's change of a study, if check returns nil.
func (s *Service) Operate(ctx context.Context, call controller.Call, scheduler, id string, e study.Event,
	check func(*study.Record) error) (study.State, error) {
	m, err := s.find(scheduler, id)
	if err != nil {
		return study.State{}, err
	}
	after, _, err := s.step(ctx, call, m, s.now(), checked{e, check}, func(before, after *study.State) *audit.Record {
		return s.record(call, scheduler, &after.Record, before.Phase, after.Phase)
	})
	if err == nil && !call.DryRun {
		s.o.Log.InfoContext(ctx, "study changed", "scheduler", scheduler, "study", id, "phase", after.Phase)
	}
	return after, err
}

// Propose proposes the configuration of a trial that succeeded to its scheduler.
func (s *Service) Propose(ctx context.Context, call controller.Call, scheduler, id string,
	trial int64) (*rollout.Configuration, error) {
	state, err := s.Study(scheduler, id)
	if err != nil {
		return nil, err
	}
	t := state.Trial(trial)
	switch {
	case t == nil:
		return nil, fmt.Errorf("trial %d of study %q: %w", trial, id, study.ErrNotFound)
	case t.State != study.Succeeded:
		return nil, fmt.Errorf("%w: trial %d of study %q is %s: only what was measured can be proposed", study.ErrState,
			trial, id, t.State)
	}
	reason, ratio := state.Merit(t)
	return s.o.Schedulers.Propose(ctx, call, scheduler, t.Config, reason, rollout.Evidence{
		Ratio: ratio, Seed: state.Spec.Seed, Search: "study", Why: cmp.Or(state.Choice, state.Spec.Algorithm),
		Trial:  fmt.Sprintf("schedulers/%s/studies/%s/trials/%d", scheduler, id, trial),
		Metric: state.Spec.Metric, Maximize: state.Spec.Maximize})
}
