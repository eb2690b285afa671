package themis

import (
	"math"
	"time"

	"github.com/autosched/autosched/simulator"
)

// standing is a job with what its rho is made of: at an instant it is
// (instant + base) / total, over the crowd of its width.
type standing struct {
	// key is rho but for rounding: it is faster to find, and by it alone two jobs
	// are in order unless they are nearer than that.
	key         float64
	base, total time.Duration
	inverse     float64 // 1 / total
	id          simulator.ID
	kind        int32 // index in policy.widths
}

// near is the share by which keys differ at least if rounding does not matter. A
// key and a rho each are a dozen roundings of 2^-53 from the true value at most.
const near = 0x1p-46

// untold is what a job without an estimate is told to run, so that it has
// always run for longer.
const untold = time.Duration(math.MinInt64)

func (p *policy) told(j simulator.ID) time.Duration {
	if told, ok := p.s.JobEstimate(j); ok {
		return told
	}
	return untold
}

// outlook is how long a job will have run in all, and how long it still will,
// from how long it has.
func outlook(ran, told, lease time.Duration) (total, rest time.Duration) {
	if told > ran {
		return told, told - ran
	}
	rest = max(ran, lease)
	return ran + rest, rest
}

// rho is a job's expected finish-time fairness if it runs from now on.
func (p *policy) rho(x *standing) float64 {
	return (p.s.Now() + x.base).Seconds() / float64(x.total.Seconds()*p.widths[x.kind].crowd)
}

// weigh finds the crowds: how many times longer a job of so many GPUs takes on
// an equal share of the cluster than on what it asks for.
func (p *policy) weigh() {
	active, total := float64(p.s.Active()), float64(p.s.Cluster().TotalGPUs())
	for i := range p.widths {
		w := &p.widths[i]
		w.crowd = max(1, float64(w.each)*active/total)
		w.share = 1 / w.crowd
	}
}

// clearly is before if rounding does not matter, and else false.
func clearly(a, b *standing) bool { return a.key-b.key > near*math.Abs(a.key) }

// before reports whether a job has the larger rho than another, ties by ID.
func (p *policy) before(a, b *standing) bool {
	if d := a.key - b.key; math.Abs(d) > near*math.Abs(a.key) {
		return d > 0
	}
	return p.exactly(a, b)
}

// exactly is before, from rho itself.
func (p *policy) exactly(a, b *standing) bool {
	if a.base == b.base && a.total == b.total && a.kind == b.kind {
		return a.id < b.id
	}
	return ranked{p.rho(a), a.id}.before(ranked{p.rho(b), b.id})
}

// arrange sorts jobs, largest rho first, of which so many were in order lately
// and few have changed places since.
func (p *policy) arrange(jobs []standing, lately int) {
	p.mend(jobs[:lately])
	p.sort(jobs[lately:])
	p.merge(jobs, lately)
}

// mend sorts jobs that nearly are in order.
func (p *policy) mend(jobs []standing) {
	moves := 40 * len(jobs)
	for i := 1; i < len(jobs); i++ {
		if clearly(&jobs[i-1], &jobs[i]) || p.before(&jobs[i-1], &jobs[i]) {
			continue
		}
		x := jobs[i]
		to, step := i-1, 1 // x comes before jobs[to]
		for to-step >= 0 && p.before(&x, &jobs[to-step]) {
			to -= step
			step *= 2
		}
		for from := max(0, to-step+1); from < to; {
			if mid := (from + to) / 2; p.before(&x, &jobs[mid]) {
				to = mid
			} else {
				from = mid + 1
			}
		}
		copy(jobs[to+1:i+1], jobs[to:i])
		jobs[to] = x
		if moves -= i - to; moves < 0 {
			p.sort(jobs)
			return
		}
	}
}

// sort is for jobs in any order.
func (p *policy) sort(jobs []standing) {
	if len(jobs) <= 16 {
		p.mend(jobs)
		return
	}
	half := len(jobs) / 2
	p.sort(jobs[:half])
	p.sort(jobs[half:])
	p.merge(jobs, half)
}

// merge sorts jobs of which so many in front are in order, and so are the
// others.
func (p *policy) merge(jobs []standing, front int) {
	if front == 0 || front == len(jobs) || p.before(&jobs[front-1], &jobs[front]) {
		return
	}
	p.behind = append(p.behind[:0], jobs[front:]...)
	to, i := len(jobs)-1, front-1
	for k := len(p.behind) - 1; k >= 0; to-- {
		if i >= 0 && p.before(&p.behind[k], &jobs[i]) {
			jobs[to] = jobs[i]
			i--
		} else {
			jobs[to] = p.behind[k]
			k--
		}
	}
}
