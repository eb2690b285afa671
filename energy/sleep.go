package energy

import (
	"time"

	"github.com/autosched/autosched/simulator"
)

// inNaps calls f with the parts of naps within the timeline: the group of the node, the nap, and until when the node
// wakes.
func (a *account) inNaps(f func(group int, from, to, woken time.Duration, n *simulator.Nap)) {
	in := a.in
	for i := range in.Naps {
		n, group := &in.Naps[i], 0
		if a.group != nil {
			group = a.group[n.Node]
		}
		from, to := max(n.From, in.From), min(n.To, in.To)
		if to > from {
			f(group, from, to, max(to, min(n.Awake, in.To)), n)
		}
	}
}

// napping is when nodes sleep and wake.
func (a *account) napping() (out []change) {
	a.inNaps(func(group int, from, to, woken time.Duration, _ *simulator.Nap) {
		out = append(out, change{at: from, group: group, asleep: 1},
			change{at: to, group: group, asleep: -1, waking: 1}, change{at: woken, group: group, waking: -1})
	})
	return out
}

// slept adds the saving of sleep.
func (a *account) slept(r *Report) {
	if len(a.in.Naps) == 0 {
		return
	}
	r.Slept = &Slept{}
	a.inNaps(func(group int, from, to, woken time.Duration, n *simulator.Nap) {
		var saved, cost [bands]float64
		w := &a.watts[group]
		for k := range bands {
			saved[k] = w.base[k]*float64(a.in.Cluster.Groups[group].GPUsPerNode) - w.asleep[k]
			cost[k] = -w.waking[k]
		}
		x, y := a.amount(saved, from, to), a.amount(cost, to, woken)
		r.Slept.Saved.add(&x)
		r.Slept.Saved.add(&y)
		r.Slept.NodeHours += (to - from).Hours()
		if n.To < a.in.To && n.Awake > n.To {
			r.Slept.WakeUps++
		}
	})
	r.Slept.Share = r.Slept.NodeHours / (float64(a.in.Cluster.Nodes()) * (a.in.To - a.in.From).Hours())
}
