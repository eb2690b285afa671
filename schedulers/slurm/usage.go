package slurm

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// spell is a time for which a user is charged.
type spell struct {
	job      int32 // -1 of a past one
	user     int32
	billing  int64
	factor   *float64      // the QOS's UsageFactor; nil is 1
	from, to time.Duration // to is never while the job runs
}

// usage charges users for the times for which their jobs run, at every tick of a clock.
// decay_apply_new_usage_and_weighted_factors in
// src/plugins/priority/multifactor/priority_multifactor.c.
type usage struct {
	shares
	clock       clock
	perSecond   float64 // by second
	perInterval float64 // by interval
	past        []spell // in order of from
	next        int     // the first of past yet to be charged
	spells      []spell // being charged
	at          time.Duration
	enabled     bool // fair share has a weight
}

func (u *usage) reset(s *Settings, accounts []workload.Account) {
	u.shares.reset(accounts)
	u.clock = newClock(s.Phases.Tick, s.PriorityCalcPeriod)
	u.perSecond = 1
	if s.PriorityDecayHalfLife > 0 {
		u.perSecond = 1 - .693/s.PriorityDecayHalfLife.Seconds()
	}
	u.perInterval = math.Pow(u.perSecond, s.PriorityCalcPeriod.Seconds())
	u.past, u.next, u.spells, u.at = u.past[:0], 0, u.spells[:0], longAgo
	u.enabled = s.PriorityWeightFairshare != 0 && !s.Basic
}

// begin sorts past.
func (u *usage) begin() {
	slices.SortStableFunc(u.past[u.next:], func(a, b spell) int { return cmp.Compare(a.from, b.from) })
}

// starts and ends report on running jobs.
func (u *usage) starts(x spell) {
	if u.enabled {
		u.spells = append(u.spells, x)
	}
}

func (u *usage) ends(job int32, at time.Duration) {
	for i := range u.spells {
		if u.spells[i].job == job && u.spells[i].to == never {
			u.spells[i].to = at
			return
		}
	}
}

// advance ticks until the last tick up to an instant.
func (u *usage) advance(to time.Duration) {
	if to = u.clock.last(to); !u.enabled || to == longAgo {
		return
	}
	if u.at == longAgo {
		first := never
		if len(u.past) > 0 {
			first = u.past[0].from
		}
		for i := range u.spells {
			first = min(first, u.spells[i].from)
		}
		if u.at = to; first < to {
			if u.at = u.clock.last(first); u.at == longAgo {
				u.at = u.clock.from - u.clock.interval
			}
		}
	}
	for u.at < to {
		u.tick(u.at + u.clock.interval)
	}
}

// tick charges up to an instant.
func (u *usage) tick(at time.Duration) {
	for ; u.next < len(u.past) && u.past[u.next].from < at; u.next++ {
		u.spells = append(u.spells, u.past[u.next])
	}
	kept := u.spells[:0]
	for _, x := range u.spells {
		d, decay := min(x.to, at)-max(x.from, u.at), u.perInterval
		if d != u.clock.interval {
			decay = math.Pow(u.perSecond, d.Seconds())
		}
		if x.factor != nil {
			decay *= *x.factor
		}
		if d > 0 {
			u.charge(x.user, int64(float64(d)*decay)*x.billing)
		}
		if x.to > at {
			kept = append(kept, x)
		}
	}
	u.spells, u.at = kept, at
	u.shares.tick(u.perInterval)
}

// factor is a user's fair-share factor.
func (u *usage) factor(user int32, s *Settings) float64 {
	if !u.enabled {
		return 0
	}
	if s.NoFairTree {
		u.classic(max(1, float64(s.FairShareDampening)))
	} else {
		u.fairTree()
	}
	return u.tree[user].factor
}
