package workload

import (
	"context"
	"sort"
	"time"
)

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
	// Open are the instants of WaitOthers and WaitUnknown, at which the scheduler decides.
	Open []OpenWait
}

// OpenWait is a part of a wait.
type OpenWait struct {
	At    time.Duration // an instant within it
	Width time.Duration
	Ends  time.Duration // the end of the waiting that it is of
	Cause WaitCause
}

// waitSamples bounds the instants.
const waitSamples = 200

// instant is one of the waiting of a job, with the other jobs of then.
type instant struct {
	at, width      time.Duration
	cluster        Cluster
	drained        map[string]bool
	held, ofTenant int            // GPUs that serve the job, and those of its tenant
	used           map[string]int // of held, by node
	ahead          bool           // a job waited that was submitted before it, or has a higher priority
}

// Waits says why a job waited until an instant. It holds up the events that come meanwhile for parts of its time only,
// and ends with its context.
func (l *Ledger) Waits(ctx context.Context, h *JobHistory, at time.Duration) (out Waits, err error) {
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
		return out, nil
	}
	all := l.instants(spans, total)
	q := h.Request()
	model, partition := all[0].cluster.Constraint(q)
	fits := func(g *NodeGroup) bool { return g.Satisfies(model, partition) }
	last := spans[len(spans)-1][1]
	for place, more := (Place{Submit: last + 1}), true; more; {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		place, more = l.Jobs(spans[0][0], at, place, func(o *JobHistory) bool {
			if o.ID == h.ID {
				return true
			}
			for _, s := range spans {
				if o.Submit > h.Submit && o.Starts > 0 && o.FirstStart >= s[0] && o.FirstStart < s[1] {
					out.Passed++
				}
			}
			l.overlap(all, h, o, fits)
			return true
		})
	}
	span := 0
	for i := range all {
		x := &all[i]
		cause := x.cause(h, fits)
		out.By[cause] += x.width
		for x.at >= spans[span][1] {
			span++
		}
		if cause == WaitOthers || cause == WaitUnknown {
			out.Open = append(out.Open, OpenWait{x.at, x.width, spans[span][1], cause})
		}
	}
	out.Samples = len(all)
	return out, nil
}

// instants are spread evenly over spans, which last a total.
func (l *Ledger) instants(spans [][2]time.Duration, total time.Duration) []instant {
	out := make([]instant, min(waitSamples, total))
	step, before, k := total/time.Duration(len(out)), time.Duration(0), 0 // the spans before the k-th
	for i := range out {
		at := time.Duration(i)*step + step/2
		for at-before >= spans[k][1]-spans[k][0] {
			before, k = before+spans[k][1]-spans[k][0], k+1
		}
		at += spans[k][0] - before
		l.mu.Lock()
		out[i] = instant{at: at, width: step, used: map[string]int{}}
		out[i].cluster, out[i].drained = l.undrained(at)
		l.mu.Unlock()
	}
	out[len(out)-1].width += total - step*time.Duration(len(out))
	return out
}

// undrained is the cluster less the nodes that take no more jobs, and these.
func (l *Ledger) undrained(at time.Duration) (Cluster, map[string]bool) {
	c, drained := l.clusterAt(at), map[string]bool{}
	for name := range l.nodes {
		if e := l.nodeAt(name, at); e != nil && e.kind == NodeDrained {
			drained[name] = true
			g := &c.Groups[max(0, l.groupOf(name, e))]
			g.Nodes = max(0, g.Nodes-1)
		}
	}
	return c, drained
}

// overlap adds another job to the instants at which it was there.
func (l *Ledger) overlap(all []instant, h, o *JobHistory, fits func(*NodeGroup) bool) {
	p, q := o.Request().Priority, h.Request().Priority
	first := p > q || p == q && o.Submit < h.Submit
	k := 0 // the spell that ends next
	for i := sort.Search(len(all), func(i int) bool { return all[i].at >= o.Submit }); i < len(all); i++ {
		at := &all[i]
		if (o.Ended || o.Missing) && o.End <= at.at {
			return
		}
		for k < len(o.Spells) && o.Spells[k].To <= at.at {
			k++
		}
		if k == len(o.Spells) || o.Spells[k].From > at.at {
			at.ahead = at.ahead || first
			continue
		}
		s := &o.Spells[k]
		if o.Tenant == h.Tenant {
			at.ofTenant += s.Held
		}
		if len(s.placement) == 0 {
			at.held += s.Held
		}
		for _, n := range s.placement {
			if at.drained[n.Node] {
				continue
			}
			groups := at.cluster.Groups
			if g := l.groupOf(n.Node, nil); g < 0 || g >= len(groups) || fits(&groups[g]) {
				at.used[n.Node] += n.GPUs
				at.held += n.GPUs
			}
		}
	}
}

// cause says why a job waited at an instant.
func (at *instant) cause(h *JobHistory, fits func(*NodeGroup) bool) WaitCause {
	if h.HoldUntil > at.at && at.at >= h.Since { // of the last waiting
		return WaitHeld
	}
	need := h.GPUs.Whole()
	total, whole, size := 0, 0, 0 // GPUs, nodes, GPUs of a node
	for i := range at.cluster.Groups {
		if g := &at.cluster.Groups[i]; fits(g) {
			total, whole, size = total+g.Nodes*g.GPUsPerNode, whole+g.Nodes, max(size, g.GPUsPerNode)
		}
	}
	for _, v := range at.cluster.VCs {
		if v.Tenant == h.Tenant && v.Cohort == "" && at.ofTenant+need > v.GPUs {
			return WaitQuota
		}
	}
	switch {
	case total-at.held < need:
		return WaitBusy
	case len(at.used) > 0 && size > 0 && !fitsNodes(at.used, whole, size, need):
		return WaitFragmented
	case at.ahead:
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
