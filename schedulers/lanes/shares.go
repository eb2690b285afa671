package lanes

import "github.com/autosched/autosched/simulator"

// A walk with a quota merges the running jobs (a Roster) and the waiting jobs (the
// heads of Lanes) of each queue in order of priority, and gives every job that fits
// the rest of the quota its GPUs. Blocks of running jobs that all fit are passed at once;
// tenants' strict quotas need a look at every job.

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

// Cursor is a position in a roster, which must not change during the walk. The zero value is its begin.
type Cursor struct{ block, item int }

// Keep advances the cursor to an entry, gives the running jobs before it their GPUs
// from a quota and returns the rest of the quota.
func (d *Shares) Keep(r *Roster, at *Cursor, before Entry, quota int) int {
	to := r.find(at.block, before)
	for ; at.block < len(r.blocks); at.block, at.item = at.block+1, 0 {
		k := at.block
		if g := r.gpus[k]; k < to && at.item == 0 && g <= quota && d.room == nil {
			quota -= g
			continue
		}
		b := &r.blocks[k]
		end := len(b.jobs)
		if k == to {
			end = max(at.item, b.in(before))
		}
		for _, e := range b.jobs[at.item:end] {
			if g := int(e.Width); g <= quota && d.May(e.ID) {
				quota -= g
			} else {
				d.Stop = append(d.Stop, e.ID)
			}
		}
		if at.item = end; k == to {
			break
		}
	}
	return quota
}

// Divide gives a quota of GPUs to the jobs of a queue and returns the rest of it.
// Running and waiting jobs are in one order, or all running jobs come first.
func (d *Shares) Divide(quota int, run *Roster, wait *Lanes, runningFirst bool) int {
	var at Cursor
	if runningFirst {
		quota = d.Keep(run, &at, Last, quota)
	}
	wait.Walk()
	for quota > 0 {
		in := wait.first(quota)
		if in < 0 {
			break
		}
		h := &wait.walk[in]
		switch quota = d.Keep(run, &at, h.Entry, quota); {
		case h.width > quota:
		case !d.May(h.ID):
			wait.Close(in)
		default:
			d.Start = append(d.Start, h.ID)
			quota -= h.width
			wait.Skip(in)
		}
	}
	return d.Keep(run, &at, Last, quota)
}
