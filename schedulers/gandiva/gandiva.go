// Package gandiva is Gandiva (Xiao et al., OSDI 2018): when there is more to run
// than fits, jobs take turns on the GPUs, a slice of time each, and jobs that
// leave GPUs idle are packed two to a set of GPUs.
//
// Every slice, whoever has waited longest since it last ran takes the place of
// those that have run longest. A job that waits while no GPUs are free joins a
// running one of the same width if the two together keep a GPU busy for at most
// the packing limit and are faster together than in turns; a pair stays until
// one of the two ends, and is not sliced meanwhile. Gandiva measures utilisation
// and undoes bad packings; here utilisation is that of the model class. Its
// switch within a second is left out: a job that gets its turn pays a restart
// like any other. So are migration for locality and grow-shrink.
//
// Who shares GPUs with whom is not observed: events tell a job's nodes. A run
// resumed from them pairs jobs again by place and width.
package gandiva

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/rounds"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Space is Gandiva's parameters. The paper's slice is a minute, which pays when
// a switch takes less than a second.
func Space() []space.Param {
	return []space.Param{
		{ID: "slice", Module: "scheduling", Kind: space.KindDuration, Min: 60, Max: 14400, Log: true, Unit: "s", Default: space.Num(600),
			Description: "time for which a job runs before others get their turn"},
		{ID: "packing_limit", Module: "placement", Kind: space.KindFloat, Min: 0.1, Max: 2,
			Special: []space.Special{{Value: 0, Name: "off", Weight: 0.35}}, Default: space.Num(1),
			Description: "largest sum of two jobs' GPU utilisation (0 to 1 each) at which they are packed on the same GPUs"},
	}
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy {
	p := &policy{limit: c.Get("packing_limit").Float()}
	p.Policy = rounds.New(time.Duration(c.Get("slice").Float()*float64(time.Second)), p)
	return p
}

type policy struct {
	*rounds.Policy
	limit float64 // 0 is off
	packs bool    // some jobs can be packed at that limit

	s      *simulator.Sim
	jobs   []job
	hosts  []hosts // by width
	alone  int     // how many those are
	packed int     // the changes up to the last look for jobs to pack
}

// job is what packing needs of a job again and again.
type job struct {
	width, class int32
	mate         simulator.ID // on the same GPUs, -1 for none
	shares       bool         // while it runs
	host         bool         // is listed as one
}

// hosts are the jobs of a width that run alone, in order of ID, and their classes.
type hosts struct {
	width   int32
	ids     []simulator.ID
	classes []int32
}

// Shares marks a simulator.Sharer.
func (*policy) Shares() {}

// Begin implements rounds.Ranker.
func (p *policy) Begin(s *simulator.Sim, _ *rounds.Service) {
	p.s, p.jobs, p.hosts, p.alone, p.packed = s, p.jobs[:0], p.hosts[:0], 0, -1
	least := math.Inf(1)
	for _, c := range s.Models().Classes {
		least = min(least, c.Util)
	}
	p.packs = p.limit > 0 && 2*least <= p.limit
}

// Prepare implements rounds.Ranker.
func (p *policy) Prepare(*lanes.List, bool) (keep bool) { return true }

// ahead puts all that wait before all that run, in seconds.
const ahead = 1e11

// Rank implements rounds.Ranker: the longest wait first, the longest run last.
func (p *policy) Rank(list []rounds.Ranked, running bool) {
	for i := range list {
		since := p.s.JobSince(list[i].ID).Seconds()
		if running {
			list[i].Key = -since
		} else {
			list[i].Key = since - ahead
		}
	}
}

// Line implements rounds.Ranker.
func (p *policy) Line(j simulator.ID) int64 {
	x := p.job(j)
	x.shares = false
	p.list(j, x, false)
	return int64(p.s.JobSince(j))
}

// Started implements rounds.Starter.
func (p *policy) Started(j simulator.ID) {
	x := p.job(j)
	p.list(j, x, !x.shares)
}

// list makes a job a host or not.
func (p *policy) list(j simulator.ID, x *job, host bool) {
	if !p.packs || x.host == host {
		return
	}
	x.host = host
	h := p.hostsOf(x.width)
	i, _ := slices.BinarySearch(h.ids, j)
	if host {
		h.ids, h.classes = slices.Insert(h.ids, i, j), slices.Insert(h.classes, i, x.class)
		p.alone++
	} else {
		h.ids, h.classes = slices.Delete(h.ids, i, i+1), slices.Delete(h.classes, i, i+1)
		p.alone--
	}
}

func (p *policy) job(j simulator.ID) *job {
	for int(j) >= len(p.jobs) {
		p.jobs = append(p.jobs, job{mate: -1})
	}
	x := &p.jobs[j]
	if x.width == 0 {
		x.width, x.class = int32(p.s.JobGPUs(j)), int32(p.s.JobClass(j))
	}
	return x
}

// Admit implements simulator.Policy.
func (p *policy) Admit(j simulator.ID, seen simulator.Seen) {
	x := p.job(j)
	x.mate, x.shares = p.s.JobPartner(j), p.s.JobShares(j)
	p.Policy.Admit(j, seen)
}

// Finish implements simulator.Policy.
func (p *policy) Finish(j simulator.ID) {
	p.Policy.Finish(j)
	x := &p.jobs[j]
	p.list(j, x, false)
	if m := x.mate; m >= 0 {
		y := &p.jobs[m]
		y.mate, y.shares = -1, p.s.JobShares(m)
		p.list(m, y, !y.shares)
	}
}

// Plan implements simulator.Policy.
func (p *policy) Plan(plan *simulator.Plan) {
	p.Policy.Plan(plan)
	if p.packs && p.s.Waiting() > 0 && p.packed != p.Changes() {
		p.pack(plan)
		p.packed = p.Changes()
	}
}

// pack puts waiting jobs beside running ones.
func (p *policy) pack(plan *simulator.Plan) {
	queue := p.Queue()
	queue.Walk(math.MaxInt32)
	for p.alone > 0 {
		j, in, ok := queue.Next(math.MaxInt32)
		if !ok {
			return
		}
		x, host := p.job(j), simulator.ID(-1)
		if p.s.QuotaAllows(j) { // GPUs that two jobs share are held by both
			host = p.hostFor(j, x)
		}
		if host < 0 {
			queue.Close(in) // nor for others of its kind
			continue
		}
		y := p.job(host)
		p.list(host, y, false)
		x.mate, x.shares, y.mate, y.shares = host, true, j, true
		plan.Share(j, host)
		p.Took(j, in)
	}
}

// hostsOf are the hosts of a width.
func (p *policy) hostsOf(width int32) *hosts {
	for i := range p.hosts {
		if p.hosts[i].width == width {
			return &p.hosts[i]
		}
	}
	n := len(p.hosts)
	if n < cap(p.hosts) {
		p.hosts = p.hosts[:n+1] // with its memory
	} else {
		p.hosts = append(p.hosts, hosts{})
	}
	h := &p.hosts[n]
	h.width, h.ids, h.classes = width, h.ids[:0], h.classes[:0]
	return h
}

// hostFor is the first host that a job can be packed with, or -1. Of hosts of one
// class in a row the first answers for the others, also where the models tell their
// loads apart.
func (p *policy) hostFor(j simulator.ID, x *job) simulator.ID {
	h, last := p.hostsOf(x.width), int32(-1)
	for i, c := range h.classes {
		if c == last {
			continue // known not to fit
		}
		if p.fits(j, x.class, h.ids[i], c) {
			return h.ids[i]
		}
		last = c
	}
	return -1
}

func (p *policy) fits(a simulator.ID, class int32, b simulator.ID, other int32) bool {
	classes := p.s.Models().Classes
	if classes[class].Util+classes[other].Util > p.limit {
		return false
	}
	x, y := p.s.PairSpeeds(a, b)
	return x+y > 1
}
