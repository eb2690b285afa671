// Package queue gives jobs turns on the processors that are left to them. One job has the turn at a
// time. The next turn is of the owner that used least time for its weight, and a job that had its
// slice passes the turn on between two pieces of its work, so that no job waits for a long one to
// end.
package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrLimit is the cause of the end of a job that used its limit.
var ErrLimit = errors.New("out of time")

// Options of a queue.
type Options struct {
	// Slice is the time after which a job passes the turn on if another is before it; 1 s if 0.
	Slice time.Duration
	// Begun bounds the jobs that have begun and not ended, and with them the memory that they hold;
	// 8 if 0.
	Begun int
}

// Queue is safe for concurrent use.
type Queue struct {
	o Options

	mu     sync.Mutex
	shares shares
	jobs   []*Job // in order of arrival
	turn   *Job   // nil if no job has it
	begun  int
}

// Job is a job in a queue.
type Job struct {
	queue  *Queue
	owner  string
	limit  time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Guarded by the queue's mu.
	begun   bool
	passing bool          // the turn is passed on once no work is under way
	granted chan struct{} // closed while it has the turn and keeps it
	since   time.Time     // that it has the turn, or was charged
	used    time.Duration
	timer   *time.Timer // of the limit, while it has the turn
	working int         // calls of Run under way
	blocked int         // calls of Run that wait for the turn
}

// New returns an empty queue.
func New(o Options) *Queue {
	if o.Slice <= 0 {
		o.Slice = time.Second
	}
	if o.Begun <= 0 {
		o.Begun = 8
	}
	return &Queue{o: o, shares: shares{owners: map[string]*share{}}}
}

// Enter adds a job of an owner and waits for its first turn. The limit bounds the time of its
// turns; 0 is none. The caller calls Leave at its end. The error is the cause of the end of the
// context, or the argument of Cancel.
func (q *Queue) Enter(ctx context.Context, owner string, weight float64, limit time.Duration) (*Job, error) {
	j := &Job{queue: q, owner: owner, limit: limit, granted: make(chan struct{})}
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	q.mu.Lock()
	q.shares.join(owner, weight)
	q.jobs = append(q.jobs, j)
	q.next()
	granted := j.granted
	q.mu.Unlock()
	select {
	case <-granted:
		return j, nil
	case <-j.ctx.Done():
		err := context.Cause(j.ctx)
		j.Leave()
		return nil, err
	}
}

// Cancel ends the contexts of an owner's jobs, waiting ones included.
func (q *Queue) Cancel(owner string, why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range q.jobs {
		if j.owner == owner {
			j.cancel(why)
		}
	}
}

// Len returns the numbers of jobs that have begun and that wait for their first turn.
func (q *Queue) Len() (begun, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.begun, len(q.jobs) - q.begun
}

// Context ends with ErrLimit once the job used its limit, and when it is cancelled.
func (j *Job) Context() context.Context { return j.ctx }

// Run does a piece of the job's work, after which another job may have the turn. Pieces may run at
// the same time. The error is that of the work, or the cause of the end of the context.
func (j *Job) Run(work func() error) error {
	if err := j.begin(); err != nil {
		return err
	}
	defer j.end()
	return work()
}

// Leave ends the job and returns the time that it used.
func (j *Job) Leave() time.Duration {
	q := j.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.turn == j {
		j.release()
	}
	if j.begun {
		q.begun--
	}
	q.jobs = slices.DeleteFunc(q.jobs, func(o *Job) bool { return o == j })
	q.shares.leave(j.owner)
	j.cancel(context.Canceled)
	q.next()
	return j.used
}

// begin waits until the job has the turn.
func (j *Job) begin() error {
	q := j.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if j.ctx.Err() != nil {
		return context.Cause(j.ctx)
	}
	if q.turn == j && !j.passing && time.Since(j.since) >= q.o.Slice {
		j.charge()
		if first := q.first(); first != nil && q.shares.before(first.owner, j.owner) {
			j.passing, j.granted = true, make(chan struct{})
		}
	}
	for q.turn != j || j.passing {
		j.blocked++
		j.pass()
		granted := j.granted
		q.mu.Unlock()
		select {
		case <-granted:
		case <-j.ctx.Done():
		}
		q.mu.Lock()
		j.blocked--
		if j.ctx.Err() != nil {
			return context.Cause(j.ctx)
		}
	}
	j.working++
	return nil
}

func (j *Job) end() {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	j.working--
	j.pass()
}

// pass passes the turn on if it is to be and can be. mu is held.
func (j *Job) pass() {
	if j.queue.turn == j && j.passing && j.working == 0 && j.blocked > 0 {
		j.release()
		j.queue.next()
	}
}

// release takes the turn from a job. mu is held.
func (j *Job) release() {
	j.charge()
	if j.timer != nil {
		j.timer.Stop()
	}
	if !j.passing {
		j.granted = make(chan struct{})
	}
	j.queue.turn, j.passing = nil, false
}

// charge adds the time since the job got the turn. mu is held.
func (j *Job) charge() {
	now := time.Now()
	used := now.Sub(j.since)
	j.used += used
	j.since = now
	j.queue.shares.charge(j.owner, used.Seconds())
}

// first is the job that gets the next turn, nil if none waits for it. mu is held.
func (q *Queue) first() *Job {
	var best *Job
	for _, j := range q.jobs {
		switch {
		case j == q.turn, j.ctx.Err() != nil, !j.begun && q.begun >= q.o.Begun, j.begun && j.blocked == 0:
		case best == nil, q.shares.before(j.owner, best.owner):
			best = j
		}
	}
	return best
}

// next grants the turn if no job has it. mu is held.
func (q *Queue) next() {
	if q.turn != nil {
		return
	}
	j := q.first()
	if j == nil {
		return
	}
	if !j.begun {
		j.begun = true
		q.begun++
	}
	q.turn, j.since = j, time.Now()
	q.shares.serve(j.owner)
	if j.limit > 0 {
		j.timer = time.AfterFunc(j.limit-j.used, func() { j.cancel(ErrLimit) })
	}
	close(j.granted)
}
