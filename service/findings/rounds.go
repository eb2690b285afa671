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
	last    map[string]time.Time // the finding that asked last, by scheduler
}

// NewRounds returns one that asks for rounds with a function, for each finding at most once, and for a scheduler once
// in a while, in the time of its events.
func NewRounds(every time.Duration, trigger func(context.Context, *Notice) error, log *slog.Logger) *Rounds {
	return &Rounds{every: every, trigger: trigger, log: log, queue: make(chan *Notice, maxNotices),
		last: map[string]time.Time{}}
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

// Run asks for rounds until the context ends.
func (r *Rounds) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-r.queue:
			r.ask(ctx, n)
		}
	}
}

// ask asks for a round, unless one was asked for shortly before.
func (r *Rounds) ask(ctx context.Context, n *Notice) {
	// A clock that was set back far, as that of a scheduler registered anew, is no reason to wait.
	if last, ok := r.last[n.Scheduler]; ok && n.Opened.Sub(last).Abs() < r.every {
		r.log.Info("no round on the finding: another asked for one", "scheduler", n.Scheduler, "finding", n.ID,
			"rule", n.Rule, "least_between", r.every)
		return
	}
	if err := r.trigger(ctx, n); err != nil {
		r.log.Info("no round on the finding", "scheduler", n.Scheduler, "finding", n.ID, "rule", n.Rule, "err", err)
		return
	}
	r.last[n.Scheduler] = n.Opened
}
