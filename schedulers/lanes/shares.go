package lanes

import (
	"slices"

	"github.com/autosched/autosched/simulator"
)

// A walk with a quota merges the running jobs (a Roster) and the waiting jobs (the
// heads of Lanes) of each queue in order of priority, and gives every job that fits
// the rest of the quota its GPUs.
//
// Invariants: the quota left is the quota less the GPUs of the jobs passed that
// fitted; a Cursor's rest is the sum of GPUs of the running jobs from it on, so that
// a walk in which all of these fit ends at once. Only the order of jobs that compete
// for the rest of the quota matters, so running jobs are passed in blocks
// (Roster.pass) while they all fit. Tenants' strict quotas need a look at every job.

// Shares is the result of a walk with a quota: Start lists the waiting jobs that
// fit, Stop the running jobs that do not. Jobs wider than the rest of the quota are
// passed over.
type Shares struct {
	Stop, Start []simulator.ID
	// room is the tenants' quotas where these are strict, otherwise nil. Lanes are
	// then split by tenant (Lanes.Split).
	room *simulator.Room
}

// Reset starts a new walk over all queues of a run.
func (d *Shares) Reset(s *simulator.View) {
	d.Stop, d.Start, d.room = d.Stop[:0], d.Start[:0], nil
	if s.Quota() == simulator.QuotaStrict {
		d.room = s.Room()
	}
}

// Strict reports whether tenants have quotas of their own.
func (d *Shares) Strict() bool { return d.room != nil }

// May takes a job's GPUs from its tenant's quota, if that is strict.
func (d *Shares) May(j simulator.ID) bool { return d.room == nil || d.room.Take(j) }

// Cursor is a position in a roster, which must not change during the walk.
type Cursor struct {
	block, item int
	rest        int // GPUs that are held from there on
}

// From returns the cursor at the start of a roster.
func From(r *Roster) Cursor { return Cursor{rest: r.held} }

// Keep advances the cursor to an entry, gives the running jobs before it their GPUs
// from a quota and returns the rest of the quota.
func (d *Shares) Keep(r *Roster, at *Cursor, before Entry, quota int) int {
	if at.rest == 0 {
		return quota
	}
	if before == Last && at.rest <= quota && d.room == nil {
		quota -= at.rest
		at.rest = 0
		return quota
	}
	block, item, rest := at.block, at.item, at.rest
	to := len(r.blocks) // the block that it is in
	if before != Last {
		to = r.seek(block, before)
	}
	for {
		if item == 0 && d.room == nil {
			k, held := r.pass(block, to, r.held-rest, quota)
			block, quota, rest = k, quota-held, rest-held
		}
		if block == len(r.blocks) {
			break
		}
		b := r.blocks[block]
		end := b.n
		if block == to {
			end = b.in(before)
		}
		if d.room == nil {
			var held int
			held, quota = d.keep(b.items[item:end], quota)
			rest -= held
		} else {
			for _, e := range b.items[item:end] {
				g := int(e.Width)
				rest -= g
				if g <= quota && d.room.Take(e.ID) {
					quota -= g
				} else {
					d.Stop = append(d.Stop, e.ID)
				}
			}
		}
		item = end
		if block == to {
			break
		}
		block, item = block+1, 0
	}
	at.block, at.item, at.rest = block, item, rest
	return quota
}

// keep gives running jobs their GPUs from a quota, without tenants' quotas, and
// returns the GPUs that they hold and the rest of the quota. Whether a job fits is
// unpredictable, so the loop is branch-free.
func (d *Shares) keep(jobs []Entry, quota int) (held, rest int) {
	n := len(d.Stop)
	d.Stop = slices.Grow(d.Stop, len(jobs))
	stop := d.Stop[n : n+len(jobs)]
	at := 0
	for _, e := range jobs {
		g := int(e.Width)
		held += g
		out := 0
		if g > quota {
			out = 1
		}
		stop[at] = e.ID
		at += out
		quota -= g & (out - 1)
	}
	d.Stop = d.Stop[:n+at]
	return held, quota
}

// Divide gives a quota of GPUs to the jobs of a queue and returns the rest of it.
// Running and waiting jobs are in one order, or all running jobs come first.
func (d *Shares) Divide(quota int, run *Roster, wait *Lanes, runningFirst bool) int {
	at := From(run)
	near := 0 // no further than the block that the next waiting job's place is in
	if runningFirst {
		quota = d.Keep(run, &at, Last, quota)
	}
	if wait.total > 0 && quota > 0 {
		wait.Walk()
		for {
			in := wait.first(quota)
			if in < 0 {
				break
			}
			h := &wait.walk[in]
			// If the job and all running jobs up to the end of its block fit the quota,
			// its place among them does not matter.
			ahead := at.rest
			if h.width > quota-ahead && d.room == nil {
				near = run.seek(near, h.Entry)
				ahead = run.before(min(near+1, len(run.blocks))) - (run.held - at.rest)
			}
			if h.width > quota-ahead || d.room != nil {
				if quota = d.Keep(run, &at, h.Entry, quota); h.width > quota {
					continue
				}
			}
			if !d.May(h.ID) {
				wait.Close(in)
				continue
			}
			d.Start = append(d.Start, h.ID)
			quota -= h.width
			wait.Skip(in)
		}
	}
	return d.Keep(run, &at, Last, quota)
}
