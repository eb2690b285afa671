package controller

import (
	"fmt"
	"time"

	"github.com/autosched/autosched/rollout"
)

// taskKind names the work of a task.
type taskKind string

const (
	lookTask     taskKind = "look"     // checks an adopted configuration
	roundTask    taskKind = "round"    // decides a round that is due, or an urgent one
	triggerTask  taskKind = "trigger"  // decides a round that a caller triggered
	questionTask taskKind = "question" // answers a caller
)

// A task has the ledger and the engine of a scheduler as its own. Tasks of a scheduler run one after the other, in its
// loop.
type task struct {
	kind     taskKind
	id       roundID       // of a round
	refused  string        // why a triggered round cannot be decided, empty if it can
	mark     time.Duration // of a look
	clockSet int64         // when the look was chosen
	question *question
}

// loop runs the tasks of a scheduler until rounds are stopped or the scheduler is purged.
func (s *Service) loop(m *schedulerState) {
	defer m.backoff.timer.Stop()
	for {
		select {
		case t := <-m.agenda.chosen:
			s.perform(m, t)
		case <-m.backoff.timer.C:
			m.mu.Lock()
			m.backoff.on = false
			s.wake(m)
			m.mu.Unlock()
		case <-m.gone:
			s.abandon(m)
			return
		case <-s.ctx.Done():
			s.abandon(m)
			return
		}
	}
}

// wake has the loop run the next task, unless one is under way. The task is chosen at once, so that events which come
// later are not part of it. The caller must hold mu.
func (s *Service) wake(m *schedulerState) {
	s.startLearning(m)
	if m.agenda.free() {
		m.agenda.choose(m.next())
	}
}

// next chooses the next task, nil for none. Of questions and of other tasks that wait, each follows the other. The
// caller must hold mu.
func (m *schedulerState) next() *task {
	if a := &m.agenda; len(a.questions) == 0 || a.lastWasQuestion {
		a.lastWasQuestion = false
		if t := m.due(); t != nil {
			return t
		}
		if t := m.nextTriggered(); t != nil {
			return t
		}
	}
	return m.agenda.nextQuestion()
}

// due returns the look or the round that is due, the newest one, so that rounds passed during a task become one; or an
// urgent round if more jobs arrived since the last one than it expected. The caller must hold mu.
func (m *schedulerState) due() *task {
	v := m.snapshot.Load()
	if m.agenda.setting || m.backoff.on || v.Paused || !v.Deleted.IsZero() || v.Type == External || v.Zero.IsZero() ||
		!m.history.Running() {
		return nil
	}
	id := roundID{number: dueRound(m.watermark(v), v.Policy.UpdateInterval), interval: v.Policy.UpdateInterval,
		clockSet: v.ClockSet}
	turn := m.agenda.lastWasLook && id.number > v.Round && v.held() == "" // of the round
	if mark, look := m.lookDue(v); look && !turn {
		m.agenda.lastWasLook, m.marks.look = true, mark
		return &task{kind: lookTask, mark: mark, clockSet: v.ClockSet}
	}
	m.agenda.lastWasLook = false
	if id.number <= v.Round {
		if id.number = v.Round; !m.burst(v, &id) {
			return nil
		}
	}
	if v.held() != "" {
		return nil
	}
	return &task{kind: roundTask, id: id}
}

// nextTriggered returns the round that a caller triggered, nil for none. The caller must hold mu.
func (m *schedulerState) nextTriggered() *task {
	r := m.agenda.triggered
	if r == nil || r.started || m.agenda.setting {
		return nil
	}
	r.started = true
	v := m.snapshot.Load()
	return &task{kind: triggerTask, refused: m.untriggered(), id: roundID{number: v.Round,
		interval: v.Policy.UpdateInterval, clockSet: v.ClockSet, asked: r, search: r.search,
		mark: m.history.Now()}}
}

// perform runs a task, records its end and chooses the next one.
func (s *Service) perform(m *schedulerState, t *task) {
	record := func() {} // with mu held
	switch t.kind {
	case lookTask:
		record = s.runLook(m, t)
	case roundTask:
		record, _, _ = s.finishRound(m, t.id)
	case triggerTask:
		record = s.runTriggered(m, t)
	case questionTask:
		t.question.done <- s.answer(m, t.question)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agenda.task = nil
	m.applyPending()
	m.history.Forget(m.snapshot.Load().horizon(m.history.Now()))
	if s.ctx.Err() == nil {
		record()
		s.wake(m)
	}
}

// abandon ends the loop: no task follows, and callers that wait are answered. A task that was chosen already ends by
// its context.
func (s *Service) abandon(m *schedulerState) {
	m.mu.Lock()
	waiting := m.agenda.close()
	m.mu.Unlock()
	for _, q := range waiting {
		q.done <- ErrClosed
	}
	select {
	case t := <-m.agenda.chosen:
		s.perform(m, t)
	default:
	}
}

// runTriggered decides a triggered round and returns a function that records its end with mu held.
func (s *Service) runTriggered(m *schedulerState, t *task) (record func()) {
	r := t.id.asked
	if t.refused != "" {
		return s.endTriggered(m, r, fmt.Errorf("%w: %s", rollout.ErrState, t.refused), 0, "")
	}
	before := m.recorded
	round, text, err := s.finishRound(m, t.id)
	sequence := m.recorded
	if sequence == before {
		sequence = 0
	}
	end := s.endTriggered(m, r, err, sequence, text)
	return func() {
		round()
		end()
	}
}
