// Package gandiva is Gandiva (Xiao et al., OSDI 2018): jobs time-slice the GPUs of
// an overloaded cluster, and jobs that leave GPUs idle are packed two to a set of
// GPUs.
//
// After every slice the jobs that have waited longest since they last ran replace
// those that have run longest. A job that waits while no GPUs are free joins a
// running job of the same width if their utilisations sum to at most the packing
// limit and the two progress faster together than in turns; a pair stays until one
// of them ends, and is not sliced meanwhile. Gandiva measures utilisation and
// undoes bad packings; here utilisation is that of the model class. Its
// suspend-resume within a second is left out: a resumed job pays a restart like
// any other. So are migration for locality and grow-shrink.
//
// A run resumed from events pairs jobs by place and width where a scheduler does not
// report which job shares the GPUs of which.
package gandiva

import (
	"math"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is Gandiva's parameters. The paper's slice is a minute, which pays when
// a switch takes less than a second.
func Space() []space.Param {
	return []space.Param{
		{ID: "slice", Module: "scheduling", Kind: space.KindDuration, Min: 60, Max: 14400, Log: true, Unit: "s",
			Default:     space.Num(600),
			Description: "time for which a job runs before others get their turn"},
		{ID: "packing_limit", Module: "placement", Kind: space.KindFloat, Min: 0.1, Max: 2,
			Special: []space.Special{{Value: 0, Name: "off", Weight: 0.35}}, Default: space.Num(1),
			Description: "largest sum of two jobs' GPU utilisation (0 to 1 each) at which they are packed on the " +
				"same GPUs"},
	}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	p := &policy{limit: c.Get("packing_limit").Float()}
	p.Policy = rounds.New(c.Get("slice").Duration(), p)
	return p
}

type policy struct {
	*rounds.Policy
	limit float64 // of the sum of utilisations; 0 is off
	packs bool    // the limit allows some pair

	s     *simulator.View
	hosts []simulator.ID // running alone, in order of ID
	kinds []int          // rounds.Kind by host
}

// Shares marks a simulator.Sharer.
func (*policy) Shares() {}

// Begin implements rounds.Ranker.
func (p *policy) Begin(s *simulator.View, _ *rounds.Service) {
	p.s = s
	least := math.Inf(1)
	for _, c := range s.Models().Classes {
		least = min(least, c.Util)
	}
	p.packs = p.limit > 0 && 2*least <= p.limit
}

// Prepare implements rounds.Ranker.
func (p *policy) Prepare(*lanes.List) {}

// ahead ranks all waiting jobs before all running jobs, in seconds.
const ahead = 1e11

// Rank implements rounds.Ranker: the longest wait first, the longest run last.
func (p *policy) Rank(j simulator.ID) float64 {
	since := p.s.JobSince(j).Seconds()
	if p.s.JobRunning(j) {
		return -since
	}
	return since - ahead
}

// Line implements rounds.Ranker.
func (p *policy) Line(j simulator.ID) int64 { return int64(p.s.JobSince(j)) }

// Plan implements simulator.Policy.
func (p *policy) Plan(plan *simulator.Plan) {
	p.Policy.Plan(plan)
	if p.packs && p.s.Waiting() > 0 {
		p.pack(plan)
	}
}

// pack starts waiting jobs on the GPUs of running jobs.
func (p *policy) pack(plan *simulator.Plan) {
	p.gather()
	queue := p.Queue()
	queue.Walk()
	for len(p.hosts) > 0 {
		e, _, in, ok := queue.Next(1 << 30)
		if !ok {
			return
		}
		host := -1
		if p.s.QuotaAllows(e.ID) { // GPUs that two jobs share are held by both
			host = p.hostFor(e.ID)
		}
		if host < 0 {
			queue.Close(in) // the others of the kind fit nowhere either
			continue
		}
		queue.Take(in)
		plan.Share(e.ID, p.hosts[host])
		p.hosts = append(p.hosts[:host], p.hosts[host+1:]...)
		p.kinds = append(p.kinds[:host], p.kinds[host+1:]...)
	}
}

// gather lists the jobs that run alone.
func (p *policy) gather() {
	p.hosts, p.kinds = p.hosts[:0], p.kinds[:0]
	active := p.Active()
	for i := range active.Len() {
		if j := active.At(i).ID; p.s.JobRunning(j) && !p.s.JobShares(j) {
			p.hosts = append(p.hosts, j)
			p.kinds = append(p.kinds, rounds.Kind(p.s, j))
		}
	}
}

// hostFor returns the index of the first host that a job fits, or -1. Hosts of one
// kind in a row are the same to it.
func (p *policy) hostFor(j simulator.ID) int {
	kind, last := rounds.Kind(p.s, j), -1
	for i, k := range p.kinds {
		if k>>8 != kind>>8 || k == last || !p.s.JobMayJoin(j, p.hosts[i]) {
			continue // another width, known not to fit, or on other nodes
		}
		if p.fits(j, p.hosts[i]) {
			return i
		}
		last = k
	}
	return -1
}

func (p *policy) fits(a, b simulator.ID) bool {
	classes := p.s.Models().Classes
	if classes[p.s.JobClass(a)].Util+classes[p.s.JobClass(b)].Util > p.limit {
		return false
	}
	x, y := p.s.PairSpeeds(a, b)
	return x+y > 1
}
