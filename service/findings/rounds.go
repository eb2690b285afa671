package findings

import (
	"context"
	"log/slog"
	"time"

	"github.com/autosched/autosched/patterns"
)

// DefaultRoundsEvery is the time between two rounds on findings.
const DefaultRoundsEvery = 30 * time.Minute

// Rounds brings rounds forward: a finding that opens and whose action is another configuration asks for one.
type Rounds struct {
	every   time.Duration
	trigger func(context.Context, *Notice) error
	log     *slog.Logger
	queue   chan *Notice
	ctx     context.Context
	stop    context.CancelFunc
	ended   chan struct{}
	last    map[string]time.Time // the finding that asked last, by scheduler; of run
}

// NewRounds starts to ask for rounds with a function, for each finding at most once, and for a scheduler once in a
// while, in the time of its events.
func NewRounds(every time.Duration, trigger func(context.Context, *Notice) error, log *slog.Logger) *Rounds {
	r := &Rounds{every: every, trigger: trigger, log: log, queue: make(chan *Notice, maxNotices),
		ended: make(chan struct{}), last: map[string]time.Time{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	go r.run()
	return r
}

// Notify takes a notice in. It does not wait: if there is no room, the notice is left out, as a round is asked for
// already.
func (r *Rounds) Notify(n *Notice) {
	if n.Event != "opened" || !patterns.Reconfigures(n.Action) {
		return
	}
	select {
	case r.queue <- n:
	default:
	}
}

// Close waits until no round is asked for any more.
func (r *Rounds) Close() {
	r.stop()
	<-r.ended
}

func (r *Rounds) run() {
	defer close(r.ended)
	for {
		select {
		case <-r.ctx.Done():
			return
		case n := <-r.queue:
			r.ask(n)
		}
	}
}

// ask asks for a round, unless one was asked for shortly before.
func (r *Rounds) ask(n *Notice) {
	// A clock that was set back far, as that of a scheduler registered anew, is no reason to wait.
	if last, ok := r.last[n.Scheduler]; ok && n.Opened.Sub(last).Abs() < r.every {
		r.log.Info("no round on the finding: another asked for one", "scheduler", n.Scheduler, "finding", n.ID,
			"rule", n.Rule, "least_between", r.every)
		return
	}
	if err := r.trigger(r.ctx, n); err != nil {
		r.log.Info("no round on the finding", "scheduler", n.Scheduler, "finding", n.ID, "rule", n.Rule, "err", err)
		return
	}
	r.last[n.Scheduler] = n.Opened
}
