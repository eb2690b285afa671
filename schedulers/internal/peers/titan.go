package peers

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// TitanShortest is the shortest-first of TitanSched. It chooses the waiting jobs
// that fit the number of free GPUs, shortest first, and places them widest first;
// jobs without a place wait on. It knows true durations.
func TitanShortest() simulator.Policy { return &titanShortest{} }

type titanShortest struct {
	s      *simulator.View
	oracle *simulator.Oracle
	queue  lanes.Lanes
	chosen []simulator.ID
}

// Foresee implements simulator.Clairvoyant.
func (p *titanShortest) Foresee(o *simulator.Oracle) { p.oracle = o }

func (p *titanShortest) Reset(s *simulator.View, _ *simulator.Plan) {
	p.s = s
	p.queue.Reset()
}

func (p *titanShortest) entry(j simulator.ID) lanes.Entry {
	return lanes.Entry{Key: int64(p.oracle.JobLeft(j)), ID: j}
}

func (p *titanShortest) Admit(j simulator.ID, _ simulator.Seen) {
	if !p.s.JobRunning(j) {
		p.queue.Add(p.s.JobGPUs(j), false, p.entry(j))
	}
}

func (p *titanShortest) Finish(simulator.ID) {}

func (p *titanShortest) Plan(plan *simulator.Plan) {
	p.chosen = p.chosen[:0]
	p.queue.Walk()
	for free := plan.Free(); free > 0; {
		e, g, in, ok := p.queue.Next(free)
		if !ok {
			break
		}
		p.queue.Skip(in)
		p.chosen = append(p.chosen, e.ID)
		free -= g
	}
	plan.Exchange(nil, p.chosen)
	for _, j := range p.chosen {
		if p.s.JobRunning(j) {
			p.queue.Remove(p.s.JobGPUs(j), false, p.entry(j))
		}
	}
}

// TitanThemis is the Themis of TitanSched, which decides in rounds
// (Options.Round): the share keep of the jobs that wait or whose lease has expired
// are offered GPUs, the largest rho first. It differs from the policy of package
// themis in this:
//
//   - A lease begins with a start and expires a term later by the clock. It is
//     renewed for a term, from the end of the last, if the job keeps its GPUs,
//     whether others wait or not.
//   - A job's deserved share is added up over the rounds: its equal share of the GPUs
//     at that time, up to its request. Both finish times are extrapolated
//     from the ratio of the GPU-time attained to that. The share on which a job
//     would do the rest of its work alone is of twice the number of running jobs.
//   - The number of jobs that get offers is rounded half to even. It may be none,
//     so that a lone job never starts with keep of 0.5.
//   - Jobs with an expired lease that get no offer run on, though their GPUs are
//     offered to others, some of which then find no place.
//
// Without an estimate of run times (Options.Estimate) the rest of a job is as
// long as its time so far. Every round costs time in proportion to the active
// jobs; Options.EventBudget must allow for that.
func TitanThemis(term time.Duration, keep float64) simulator.Policy {
	return &titanThemis{term: term, keep: keep}
}

type titanThemis struct {
	keep float64
	term time.Duration

	s           *simulator.View
	total       float64      // GPUs
	jobs        []titanLease // by job
	wait, run   lanes.List   // by ID
	last        time.Duration
	order       []ranked
	stop, start []simulator.ID
}

type titanLease struct {
	gpus     float64
	deserved float64 // GPU-seconds
	from     time.Duration
}

type ranked struct {
	rho float64
	id  simulator.ID
}

func (p *titanThemis) Reset(s *simulator.View, _ *simulator.Plan) {
	p.s, p.total = s, float64(s.TotalGPUs())
	p.jobs = p.jobs[:0]
	p.wait.Reset()
	p.run.Reset()
	p.last = math.MinInt64
}

func (p *titanThemis) Admit(j simulator.ID, _ simulator.Seen) {
	p.jobs = lanes.Grow(p.jobs, j)
	p.jobs[j] = titanLease{gpus: float64(p.s.JobGPUs(j)), from: p.s.JobSince(j)}
	if p.s.JobRunning(j) {
		p.run.Insert(lanes.Entry{ID: j})
	} else {
		p.wait.Insert(lanes.Entry{ID: j})
	}
}

func (p *titanThemis) Finish(j simulator.ID) { p.run.Remove(lanes.Entry{ID: j}) }

func (p *titanThemis) Plan(plan *simulator.Plan) {
	if p.s.Active() == 0 {
		return
	}
	if now := p.s.Now(); now > p.last {
		p.accrue(now)
		p.round(plan)
		p.last = now
	}
	plan.WakeAt(p.s.Now() + p.s.Round())
}

// accrue adds to each job's deserved share.
func (p *titanThemis) accrue(now time.Duration) {
	share := p.total / (float64(p.s.Active()) + 1e-3)
	for _, list := range []*lanes.List{&p.wait, &p.run} {
		for i := range list.Len() {
			j := list.At(i).ID
			x := &p.jobs[j]
			span := min(now-p.s.JobSubmit(j), p.s.Round())
			x.deserved += min(share, x.gpus) * span.Seconds()
		}
	}
}

// rho is the finish time on the attained GPUs over the finish time on its share.
func (p *titanThemis) rho(j simulator.ID) float64 {
	deserved, g := p.jobs[j].deserved, p.jobs[j].gpus
	if deserved == 0 {
		return 1
	}
	attained := p.s.JobAttained(j)
	each := attained / time.Duration(p.s.JobGPUs(j))
	ran := each.Seconds()
	staying := p.s.JobWaited(j).Seconds() + ran
	left := ran
	if estimate, ok := p.s.JobEstimate(j); ok {
		left = max(0, (estimate - each).Seconds())
	}
	rivals := float64(2 * p.run.Len())
	own := max(1, math.Floor(min(p.total/(rivals+1e-3), g)))
	received := attained.Seconds()
	alone := ran*deserved/(received+1e-3) + (staying - ran) + left*g/own
	shared := staying + left*received/(deserved+1e-3)
	return shared / alone
}

func (p *titanThemis) expired(j simulator.ID) bool { return p.s.Now()-p.jobs[j].from >= p.term }

func (p *titanThemis) round(plan *simulator.Plan) {
	p.order, p.stop, p.start = p.order[:0], p.stop[:0], p.start[:0]
	offered := p.s.Free()
	for i := range p.wait.Len() {
		j := p.wait.At(i).ID
		p.order = append(p.order, ranked{p.rho(j), j})
	}
	for i := range p.run.Len() {
		if j := p.run.At(i).ID; p.expired(j) {
			p.order = append(p.order, ranked{p.rho(j), j})
			offered += p.s.JobGPUs(j)
		}
	}
	slices.SortStableFunc(p.order, func(a, b ranked) int { return cmp.Compare(b.rho, a.rho) })
	n := int(math.RoundToEven(float64(len(p.order)) * p.keep))
	for _, o := range p.order[:n] {
		g, runs := p.s.JobGPUs(o.id), p.s.JobRunning(o.id)
		switch {
		case g <= offered && runs:
			p.jobs[o.id].from += p.term
			offered -= g
		case g <= offered:
			p.start = append(p.start, o.id)
			offered -= g
		case runs:
			p.stop = append(p.stop, o.id)
		}
	}
	if len(p.start) == 0 && len(p.stop) == 0 {
		return
	}
	plan.Exchange(p.stop, p.start)
	for _, j := range p.start {
		if p.s.JobRunning(j) {
			p.jobs[j].from = p.s.Now()
			p.wait.Remove(lanes.Entry{ID: j})
			p.run.Insert(lanes.Entry{ID: j})
		}
	}
	for _, j := range p.stop {
		if !p.s.JobRunning(j) {
			p.run.Remove(lanes.Entry{ID: j})
			p.wait.Insert(lanes.Entry{ID: j})
		}
	}
}
