package slurm

import (
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// advance is a workload.Reservation on the clock of the run.
type advance struct {
	from, to time.Duration
	nodes    nodeSet
	whole    bool
}

// resetReservations reads the reservations.
func (p *policy) resetReservations(all []workload.Reservation) {
	p.reservations, p.edges = p.reservations[:0], p.edges[:0]
	zero := p.v.Zero()
	if !p.v.HasNodes() || zero.IsZero() {
		return
	}
	for _, a := range all {
		r := advance{a.From.Sub(zero), a.To.Sub(zero), make(nodeSet, len(p.all)), a.Whole}
		for _, n := range a.Nodes {
			if n.Number < len(p.future.free) {
				r.nodes.add(n.Number)
			}
		}
		p.reservations = append(p.reservations, r)
		p.edges = append(p.edges, r.from, r.to)
	}
	slices.Sort(p.edges)
}

// reserved finds the first instant from at on at which no reservation of all nodes of a job's partition overlaps the
// job, and takes the nodes of others that overlap it away. next is a second after the end of the first reservation to
// end from then on, in steps of bf_resolution, if nodes were taken, else 0. job_test_resv and find_resv_end in
// src/slurmctld/reservation.c.
func (p *policy) reserved(nodes nodeSet, x *job, at time.Duration) (from, next time.Duration) {
	if len(p.reservations) == 0 {
		return at, 0
	}
	part := p.partitionNodes(x.part)
	for again := true; again; {
		again = false
		for i := range p.reservations {
			r := &p.reservations[i]
			if r.from < at+x.limit && r.to > at && r.whole && part.within(r.nodes) {
				at, again = r.to, true
			}
		}
	}
	for i := range p.reservations {
		if r := &p.reservations[i]; r.from < at+x.limit && r.to > at && r.nodes.overlaps(part) {
			nodes.minus(r.nodes)
			next = never
		}
	}
	if next == 0 {
		return at, 0
	}
	for i := range p.reservations {
		if to := p.reservations[i].to; to >= at {
			next = min(next, to)
		}
	}
	return at, clock{0, p.settings.BFResolution, longAgo}.next(next) + time.Second
}
