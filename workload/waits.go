package workload

import "time"

// WaitCause is a reason for which a job waited.
type WaitCause uint8

// The reasons, of which the first that holds counts.
const (
	WaitHeld       WaitCause = iota // it may not start before an instant
	WaitQuota                       // its tenant's quota had no room for it
	WaitBusy                        // fewer GPUs were free than it asks for
	WaitFragmented                  // enough were free, but not on the fewest nodes that can hold it
	WaitOthers                      // there was room, and jobs submitted before it, or of a higher priority, waited
	WaitUnknown                     // there was room, and no such job waited: the scheduler's reason is not reported

	waitCauses
)

// Waits is why a job waited until an instant, as far as events tell.
type Waits struct {
	By [waitCauses]time.Duration
	// Samples is the number of instants, spread evenly over the waiting, at which the cluster was looked at.
	Samples int
	// Passed are the jobs submitted after it that started while it waited.
	Passed int
}

// waitSamples bounds the instants, as each takes time for all jobs of that time.
const waitSamples = 200

// Waits says why a job waited until an instant.
func (l *Ledger) Waits(h *JobHistory, at time.Duration) (out Waits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := at
	if h.Ended || h.Missing {
		end = h.End
	}
	var spans [][2]time.Duration // of waiting
	total, from := time.Duration(0), h.Submit
	for i := 0; i <= len(h.Spells); i++ {
		to := end
		if i < len(h.Spells) {
			to = h.Spells[i].From
		} else if h.Running {
			break
		}
		if to > from {
			spans, total = append(spans, [2]time.Duration{from, to}), total+to-from
		}
		if i < len(h.Spells) {
			from = h.Spells[i].To
		}
	}
	if total == 0 {
		return out
	}
	l.settle()
	others := l.around(h, spans[0][0], spans[len(spans)-1][1], at)
	for _, o := range others {
		for _, s := range spans {
			if o.Submit > h.Submit && o.Starts > 0 && o.FirstStart >= s[0] && o.FirstStart < s[1] {
				out.Passed++
			}
		}
	}
	step := max(1, total/waitSamples)
	for _, s := range spans {
		for t := s[0]; t < s[1]; t += step {
			width := min(step, s[1]-t)
			out.By[l.waitCause(h, others, t+width/2)] += width
			out.Samples++
		}
	}
	return out
}

// around are the other jobs that were there in a time.
func (l *Ledger) around(h *JobHistory, from, to, at time.Duration) (out []JobHistory) {
	seen := latest(&l.snapshots, at)
	var scratch openRecord
	for _, r := range l.arrivals.sorted {
		if r.submit > to {
			break
		}
		if r.ended && r.end() < from || r.id == h.ID {
			continue
		}
		var o JobHistory
		if r.history(&o, &scratch, at, seen) {
			out = append(out, o)
		}
	}
	return out
}

// waitCause says why a job waited at an instant.
func (l *Ledger) waitCause(h *JobHistory, others []JobHistory, t time.Duration) WaitCause {
	if h.HoldUntil > t {
		return WaitHeld
	}
	c := l.clusterAt(t)
	q, need := h.Request(), h.GPUs.Whole()
	model, partition := c.Constraint(q)
	fits := func(g *NodeGroup) bool { return g.Satisfies(model, partition) }
	total, whole, size := 0, 0, 0 // GPUs, nodes, GPUs of a node
	for i := range c.Groups {
		if g := &c.Groups[i]; fits(g) {
			total, whole, size = total+g.Nodes*g.GPUsPerNode, whole+g.Nodes, max(size, g.GPUsPerNode)
		}
	}
	held, ofTenant, ahead := 0, 0, false
	used := map[string]int{}
	for i := range others {
		o := &others[i]
		if o.Submit > t || (o.Ended || o.Missing) && o.End <= t {
			continue
		}
		runs := false
		for k := range o.Spells {
			s := &o.Spells[k]
			if s.From > t || s.To <= t {
				continue
			}
			runs = true
			if o.Tenant == h.Tenant {
				ofTenant += s.Held
			}
			if len(s.placement) == 0 {
				held += s.Held
			}
			for _, n := range s.placement {
				g := l.groupOf(n.Node, nil)
				if g < 0 || g >= len(c.Groups) || fits(&c.Groups[g]) {
					used[n.Node] += n.GPUs
					held += n.GPUs
				}
			}
		}
		p := o.Request().Priority
		ahead = ahead || !runs && (p > q.Priority || p == q.Priority && o.Submit < h.Submit)
	}
	for _, v := range c.VCs {
		if v.Tenant == h.Tenant && v.Cohort == "" && ofTenant+need > v.GPUs {
			return WaitQuota
		}
	}
	switch {
	case total-held < need:
		return WaitBusy
	case len(used) > 0 && size > 0 && !fitsNodes(used, whole, size, need):
		return WaitFragmented
	case ahead:
		return WaitOthers
	}
	return WaitUnknown
}

// fitsNodes reports whether free GPUs of nodes of a size hold a job on the fewest nodes that can.
func fitsNodes(used map[string]int, nodes, size, need int) bool {
	free := nodes - len(used) // whole nodes
	rest := need % size
	some := 0
	for _, n := range used {
		if size-n >= rest {
			some++
		}
	}
	if free < need/size {
		return false
	}
	return rest == 0 || free > need/size || some > 0
}
