package simulator

import (
	"time"

	"github.com/autosched/autosched/workload"
)

// Deferrer is a policy that gets deferrable jobs later than they are submitted (Options.Deferral). Until then they
// wait and the policy does not know them; their JCT and queueing delay begin with the submission.
type Deferrer struct {
	Policy
	// Share of the time until Limit after the submission, the cheapest, in which a job may start.
	Share float64
	Limit time.Duration
}

// Deferral says which jobs wait for cheaper or cleaner hours. Until must depend on its arguments alone, and be safe
// for concurrent use.
type Deferral interface {
	// Until is the instant from which a job may start, its submission for one that is not deferred.
	Until(j *workload.Job, share float64, limit time.Duration) time.Duration
	// Digest identifies the inputs of Until.
	Digest() string
}

// Deferred describes the jobs that were deferred in a run. Delays are from the submission until a job may start.
type Deferred struct {
	Jobs      int     `json:"jobs"`
	MeanDelay float64 `json:"mean_delay_s"`
	MaxDelay  float64 `json:"max_delay_s"`
}

// deferral is the state of deferring.
type deferral struct {
	on    bool
	share float64
	limit time.Duration
	jobs  int
	sum   time.Duration
	most  time.Duration
}

// sleeps reports whether nodes sleep under a policy.
func sleeps(p Policy) bool {
	if x, ok := p.(*Deferrer); ok {
		p = x.Policy
	}
	_, ok := p.(*Sleeper)
	return ok
}

// unwrapped is the policy inside a Sleeper or a Deferrer, whose nodes sleep and whose jobs are deferred from now on.
func (s *Sim) unwrapped(p Policy) Policy {
	after := never
	s.deferral.on = false
	for {
		switch x := p.(type) {
		case *Sleeper:
			after, p = max(0, x.After), x.Policy
		case *Deferrer:
			s.deferral.on, s.deferral.share, s.deferral.limit = s.opts.Deferral != nil, x.Share, x.Limit
			p = x.Policy
		default:
			s.sleepAfter(after)
			return p
		}
	}
}

// postpone sets aside a job that is deferred, and reports whether it is.
func (s *Sim) postpone(id ID) bool {
	if !s.deferral.on {
		return false
	}
	j, spec := &s.jobs[id], s.spec(id)
	until := s.opts.Deferral.Until(spec, s.deferral.share, s.deferral.limit)
	if until <= s.now {
		return false
	}
	d := &s.deferral
	n, span := int(j.members), until-spec.Submit
	d.jobs, d.sum, d.most = d.jobs+n, d.sum+span*time.Duration(n), max(d.most, span)
	j.aside, j.ready = true, until
	s.setNext(id, until)
	return true
}

// enter makes a job that was set aside wait.
func (s *Sim) enter(id ID) {
	s.jobs[id].aside = false
	s.countActive(&s.jobs[id], 1)
	s.countWaiting(id, 1)
	s.policy.Admit(id, Seen{})
	s.jobs[id].firstPool = int8(s.jobs[id].pool)
}

// Deferred describes the deferred jobs so far; nil if jobs are not deferred.
func (s *Sim) Deferred() *Deferred {
	d := &s.deferral
	if !d.on {
		return nil
	}
	return &Deferred{d.jobs, d.sum.Seconds() / float64(max(1, d.jobs)), d.most.Seconds()}
}
