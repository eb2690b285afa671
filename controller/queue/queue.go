// Package queue gives jobs turns on the processors that are left to them, one each. As many jobs have a turn at a time
// as there are processors; a turn that no job waits for serves the pieces of work that a job does at the same time.
// The next turn is of the owner that used least time for its weight, and a job that had its slice passes its turn on
// between two pieces of its work, so that no job waits for a long one to end.
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
	// Turns are the processors; 1 if 0.
	Turns int
	// Slice is the time after which a job passes its turn on if another is before it; 1 s if 0.
	Slice time.Duration
	// Begun bounds the jobs that have begun and not ended, and with them the memory that they hold;
	// 7 beside the Turns if 0.
	Begun int
}

// Queue is safe for concurrent use.
type Queue struct {
	o Options

	mu      sync.Mutex
	changed sync.Cond // of mu: turns are free or were granted, or a context ended
	shares  shares
	jobs    []*Job // in order of arrival
	free    int    // turns
	begun   int
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
	turn    bool      // it has one, and one more for each piece beyond the first
	passing bool      // the turn is passed on once no work is under way
	granted time.Time // when it got the turn
	charged time.Time // until when the turns are charged
	used    time.Duration
	timer   *time.Timer // of the limit, while it has the turn
	working int         // calls of Run under way
	blocked int         // calls of Run that wait
}

// New returns an empty queue.
func New(o Options) *Queue {
	if o.Turns <= 0 {
		o.Turns = 1
	}
	if o.Slice <= 0 {
		o.Slice = time.Second
	}
	if o.Begun <= 0 {
		o.Begun = o.Turns + 7
	}
	q := &Queue{o: o, free: o.Turns, shares: shares{owners: map[string]*share{}}}
	q.changed.L = &q.mu
	return q
}

// Enter adds a job of an owner and waits for its first turn. The limit bounds the time of its
// turns; 0 is none. The caller calls Leave at its end. The error is the cause of the end of the
// context, or the argument of Cancel.
func (q *Queue) Enter(ctx context.Context, owner string, weight float64, limit time.Duration) (*Job, error) {
	j := &Job{queue: q, owner: owner, limit: limit}
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(j.ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
	q.mu.Lock()
	q.shares.join(owner, weight)
	q.jobs = append(q.jobs, j)
	q.next()
	for !j.turn && j.ctx.Err() == nil {
		q.changed.Wait()
	}
	err := context.Cause(j.ctx)
	q.mu.Unlock()
	if err != nil {
		j.Leave()
		return nil, err
	}
	return j, nil
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
	if j.turn {
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

// begin waits until the job has a turn for a piece of work.
func (j *Job) begin() error {
	q := j.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	j.blocked++
	defer func() { j.blocked-- }()
	for j.ctx.Err() == nil {
		if j.turn && !j.passing && time.Since(j.granted) >= q.o.Slice && q.first() != nil { // so no turn is free
			j.charge()
			j.passing = q.shares.before(q.first().owner, j.owner)
		}
		j.pass()
		if j.turn && !j.passing && (j.working == 0 || q.free > 0 && q.second() == j) {
			j.charge()
			if j.working++; j.working > 1 {
				q.free--
			}
			if q.free > 0 {
				q.changed.Broadcast() // the next piece may begin
			}
			return nil
		}
		q.changed.Wait()
	}
	return context.Cause(j.ctx)
}

func (j *Job) end() {
	q := j.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if j.turn {
		j.charge()
		if j.working > 1 {
			q.free++
		}
	}
	j.working--
	j.pass()
	q.next()
}

// pass passes the turn on if it is to be and can be. mu is held.
func (j *Job) pass() {
	if j.passing && j.working == 0 && j.blocked > 0 {
		j.release()
		j.queue.next()
	}
}

// turns is the number of turns that a job with a turn has. mu is held.
func (j *Job) turns() int { return max(1, j.working) }

// release takes its turns from a job. mu is held.
func (j *Job) release() {
	j.charge()
	if j.timer != nil {
		j.timer.Stop()
	}
	j.queue.free += j.turns()
	j.turn, j.passing = false, false
}

// charge adds the time since the turns of a job were charged. mu is held.
func (j *Job) charge() {
	now := time.Now()
	used := now.Sub(j.charged)
	j.charged = now
	j.used += used
	j.queue.shares.charge(j.owner, used.Seconds()*float64(j.turns()))
}

// first is the job that gets the next turn, nil if none waits for it. mu is held.
func (q *Queue) first() *Job {
	return q.least(func(j *Job) bool {
		return !j.turn && (j.begun && j.blocked > 0 || !j.begun && q.begun < q.o.Begun)
	})
}

// second is the job with a turn that gets one more for another piece of work, nil if none waits for it. mu is held.
func (q *Queue) second() *Job {
	return q.least(func(j *Job) bool { return j.turn && !j.passing && j.blocked > 0 && j.working > 0 })
}

// least is the first of some jobs. mu is held.
func (q *Queue) least(of func(*Job) bool) *Job {
	var best *Job
	for _, j := range q.jobs {
		if j.ctx.Err() == nil && of(j) && (best == nil || q.shares.before(j.owner, best.owner)) {
			best = j
		}
	}
	return best
}

// next grants the free turns. mu is held.
func (q *Queue) next() {
	for q.free > 0 {
		j := q.first()
		if j == nil {
			break
		}
		if !j.begun {
			j.begun = true
			q.begun++
		}
		q.free--
		j.turn, j.granted, j.charged = true, time.Now(), time.Now()
		q.shares.serve(j.owner)
		if j.limit > 0 {
			j.timer = time.AfterFunc(j.limit-j.used, func() { j.cancel(ErrLimit) })
		}
	}
	q.changed.Broadcast()
}
