package themis

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Quirks are what a round-based simulator of Themis may do differently. The
// zero value has none of them.
type Quirks struct {
	// RunningTwice computes the share of the cluster on which a job would do the
	// rest of its work alone from twice the number of running jobs, instead of from
	// the active ones.
	RunningTwice bool
	// HalfEven rounds the number of jobs that get offers half to even, instead of
	// up. It may be none, so that a lone job never starts if Fraction is 0.5.
	HalfEven bool
	// CutOffRunOn lets jobs whose lease is over and who get no offer run on, though
	// their GPUs are offered to others, some of whom then find no place. Otherwise
	// they are stopped for others.
	CutOffRunOn bool
	// AddToLease makes a lease that is renewed end one term after it ended, not
	// one term from now, even if the job was not offered anything for some time.
	AddToLease bool
	// Fraction is f, if it is not 0; unlike the parameter it may be 0.5 and more.
	Fraction float64
}

// NewRounds makes the policy as simulators have it that decide in rounds
// (Options.Round), to compare with their results. It differs from New in this:
//
//   - A lease begins with a start and ends a term later by the clock, and is
//     renewed for a term if the job is among those that keep GPUs, whether
//     anybody waits or not.
//   - What a job deserves is added up over the rounds: its equal share of the GPUs
//     at that time, up to what it asks for. Both finish times are extrapolated
//     from the ratio of what it attained to that.
//   - Nothing is left for jobs that get no offer.
//
// Without an estimate of run times (Options.Estimate) the rest of a job is as
// long as what it has run. Every round costs time in proportion to the active
// jobs, whether anything can change or not; the event budget must allow for
// that. Resuming, it does not know deserved shares and leases.
func NewRounds(c space.Config, q Quirks) simulator.Policy {
	p := &inRounds{quirks: q, keep: 1 - c.Get("fraction").Float(), term: seconds(c.Get("lease_term").Float()),
		byService: c.Get("lease_priority").Text() == "service"}
	if q.Fraction != 0 {
		p.keep = 1 - q.Fraction
	}
	return p
}

type inRounds struct {
	quirks    Quirks
	keep      float64
	term      time.Duration
	byService bool

	s             *simulator.Sim
	jobs          []leased   // by job
	wait, run     lanes.List // by ID
	last          time.Duration
	order         []ranked
	stop, started []simulator.ID
}

type leased struct {
	deserved float64 // GPU-seconds
	from     time.Duration
}

func (p *inRounds) Reset(s *simulator.Sim) {
	p.s = s
	p.jobs = p.jobs[:0]
	p.wait.Reset()
	p.run.Reset()
	p.last = math.MinInt64
}

func (p *inRounds) Admit(j simulator.ID, _ simulator.Seen) {
	for int(j) >= len(p.jobs) {
		p.jobs = append(p.jobs, leased{})
	}
	p.jobs[j] = leased{from: p.s.JobSince(j)}
	if p.s.JobRunning(j) {
		p.run.Insert(lanes.Entry{ID: j})
	} else {
		p.wait.Insert(lanes.Entry{ID: j})
	}
}

func (p *inRounds) Finish(j simulator.ID) { p.run.Remove(lanes.Entry{ID: j}) }

func (p *inRounds) Plan(plan *simulator.Plan) {
	if p.s.Active() == 0 {
		return
	}
	if now := p.s.Now(); now > p.last {
		p.accrue(now)
		p.round(plan)
		p.last = now
	}
	if r := p.s.Round(); r > 0 {
		p.s.WakeAt(p.s.Now() + r)
	}
}

// accrue adds to what each job deserves.
func (p *inRounds) accrue(now time.Duration) {
	total := float64(p.s.Cluster().TotalGPUs())
	share := total / (float64(p.s.Active()) + 1e-3)
	span := func(j simulator.ID) float64 {
		d := now - p.s.JobSubmit(j)
		if r := p.s.Round(); r > 0 {
			d = min(d, r)
		} else if p.last != math.MinInt64 {
			d = min(d, now-p.last)
		}
		return d.Seconds()
	}
	for _, list := range []*lanes.List{&p.wait, &p.run} {
		for i := range list.Len() {
			j := list.At(i).ID
			p.jobs[j].deserved += float64(min(share, float64(p.s.JobGPUs(j))) * span(j))
		}
	}
}

// rho is the finish time on what the job attains over that on its share.
func (p *inRounds) rho(j simulator.ID) float64 {
	deserved := p.jobs[j].deserved
	if deserved == 0 {
		return 1
	}
	g := float64(p.s.JobGPUs(j))
	attained := p.s.JobAttained(j)
	ran := (attained / time.Duration(p.s.JobGPUs(j))).Seconds()
	staying := p.s.JobWaited(j).Seconds() + ran
	left := ran
	if told, ok := p.s.JobEstimate(j); ok {
		left = max(0, (told - attained/time.Duration(p.s.JobGPUs(j))).Seconds())
	}
	rivals := float64(p.s.Active())
	if p.quirks.RunningTwice {
		rivals = float64(2 * p.run.Len())
	}
	own := max(1, math.Floor(min(float64(p.s.Cluster().TotalGPUs())/(rivals+1e-3), g)))
	received := attained.Seconds()
	alone := float64(ran*deserved)/(received+1e-3) + (staying - ran) + float64(left*g)/own
	shared := staying + float64(left*received)/(deserved+1e-3)
	return shared / alone
}

// expired reports whether a running job's lease is over.
func (p *inRounds) expired(j simulator.ID) bool {
	held := p.s.Now() - p.jobs[j].from
	if p.byService {
		held *= time.Duration(p.s.JobGPUs(j))
	}
	return held >= p.term
}

// length is how long a job's lease lasts.
func (p *inRounds) length(j simulator.ID) time.Duration {
	if p.byService {
		return p.term / time.Duration(p.s.JobGPUs(j))
	}
	return p.term
}

func (p *inRounds) round(plan *simulator.Plan) {
	p.order, p.stop, p.started = p.order[:0], p.stop[:0], p.started[:0]
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
	slices.SortStableFunc(p.order, func(a, b ranked) int {
		switch {
		case a.rho > b.rho:
			return -1
		case a.rho < b.rho:
			return 1
		}
		return 0
	})
	n := float64(float64(len(p.order)) * p.keep)
	kept := int(math.Ceil(n))
	if p.quirks.HalfEven {
		kept = int(math.RoundToEven(n))
	}
	for i, o := range p.order {
		j, runs := o.id, p.s.JobRunning(o.id)
		switch g := p.s.JobGPUs(j); {
		case i >= kept && runs && !p.quirks.CutOffRunOn:
			p.stop = append(p.stop, j)
		case i >= kept:
		case g > offered:
			if runs {
				p.stop = append(p.stop, j)
			}
		case runs:
			offered -= g
			if p.quirks.AddToLease {
				p.jobs[j].from += p.length(j)
			} else {
				p.jobs[j].from = p.s.Now()
			}
		default:
			offered -= g
			p.started = append(p.started, j)
		}
	}
	if len(p.started) == 0 && len(p.stop) == 0 {
		return
	}
	plan.Exchange(p.stop, p.started)
	for _, j := range p.started {
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
