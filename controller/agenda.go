package controller

import (
	"fmt"
	"slices"
	"time"
)

// agenda is the work of a scheduler's loop.
type agenda struct {
	chosen          chan *task  // has room for the task that is chosen
	task            *task       // chosen or under way: it has the ledger; nil for none
	over            bool        // the loop ended: no task is chosen
	setting         bool        // the clock is being set: no task is chosen
	triggered       *running    // a round that a caller asked for, until it ended
	questions       []*question // that wait, oldest first
	lastWasQuestion bool        // the task chosen last is a question
	lastWasLook     bool        // the look or round chosen last is a look
}

// free reports whether a task may be chosen.
func (a *agenda) free() bool { return a.task == nil && !a.over }

// choose has the loop run a task, unless it is nil.
func (a *agenda) choose(t *task) {
	if a.task = t; t != nil {
		a.chosen <- t
	}
}

// ask adds a question, unless too many wait.
func (a *agenda) ask(q *question) error {
	switch {
	case a.over:
		return ErrClosed
	case len(a.questions) >= maxQuestions:
		return ErrBusy
	}
	a.questions = append(a.questions, q)
	return nil
}

// withdraw removes a question, and reports whether it waited.
func (a *agenda) withdraw(q *question) bool {
	i := slices.Index(a.questions, q)
	if i >= 0 {
		a.questions = slices.Delete(a.questions, i, i+1)
	}
	return i >= 0
}

// nextQuestion returns the question that waited longest, nil for none.
func (a *agenda) nextQuestion() *task {
	if a.setting || len(a.questions) == 0 {
		return nil
	}
	q := a.questions[0]
	a.questions = a.questions[1:]
	a.lastWasQuestion = true
	return &task{kind: questionTask, question: q}
}

// trigger makes an operation the one that asks for a round, if no other does; or checks only.
func (a *agenda) trigger(r *running, check bool) error {
	if a.triggered != nil {
		return fmt.Errorf("operation %q of scheduler %q: %w", a.triggered.ID, r.Scheduler, ErrBusy)
	}
	if !check {
		a.triggered = r
	}
	return nil
}

// close chooses no more tasks, and returns the questions that wait.
func (a *agenda) close() []*question {
	waiting := a.questions
	a.over, a.questions = true, nil
	return waiting
}

// backoff keeps rounds and looks from starting for a while after a round that failed: for retryFirst, then for twice
// as long each time in a row, up to retryMost. A round whose outcome could not be stored is then decided again.
type backoff struct {
	timer    *time.Timer // ends it
	on       bool
	failures int // in a row
}

const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

func newBackoff() backoff {
	b := backoff{timer: time.NewTimer(0)}
	b.timer.Stop()
	return b
}

// start begins after a failure. The second half of each wait is random, so that schedulers spread out.
func (b *backoff) start(jitter func(below time.Duration) time.Duration) {
	wait := min(retryFirst<<min(b.failures, 20), retryMost)
	b.timer.Reset(wait/2 + jitter(wait/2))
	b.on = true
	b.failures++
}

// inbox has the calls of a scheduler that wait to be ingested.
type inbox struct {
	calls    []*ingestCall
	draining bool // a goroutine ingests them
}

// add adds a call, and reports whether a goroutine is to be started.
func (i *inbox) add(call *ingestCall) (start bool) {
	i.calls = append(i.calls, call)
	start = !i.draining
	i.draining = true
	return start
}

// take returns the next calls that are ingested together; none if the goroutine is to end.
func (i *inbox) take() []*ingestCall {
	n, events := 0, 0
	for ; n < len(i.calls) && (n == 0 || events+len(i.calls[n].events) <= maxGroup); n++ {
		events += len(i.calls[n].events)
	}
	group := i.calls[:n:n]
	i.calls = i.calls[n:]
	if n == 0 {
		i.calls, i.draining = nil, false
	}
	return group
}

// marks are the marks of round.BurstInterval at which something was looked at last.
type marks struct {
	burst   time.Duration // for more arrivals than were expected
	look    time.Duration // at an adopted configuration
	lookErr string        // why the last look failed, empty if it did not
}

// passBurst reports whether a mark is a new one, which it is not again.
func (m *marks) passBurst(mark time.Duration) bool {
	fresh := mark != m.burst
	m.burst = mark
	return fresh
}
