package peers

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/schedulers/tiresias"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Tiresias is the scheduler of the simulator that Tiresias's authors published.
// It reads priority and queue_thresholds of a configuration of package tiresias,
// and differs from the policy there in this:
//
//   - Jobs change queues only when an arrival, an end or a foreseen jump makes it
//     look at them, one queue at a time. It foresees the jump of a job by
//     dividing the threshold less the seconds run by the number of GPUs, and so
//     is late for wide ones.
//   - A queue is in order of entry, running jobs before waiting ones.
//   - A waiting job is promoted to the first queue, with no service, once it has
//     waited starveFactor times as long as it has run since its last promotion; 0
//     is never.
//   - Its Gittins index is of a table with its own rounding (gittinsTable), made of
//     Options.Past alone, and orders a queue's running and waiting jobs
//     together, the latest submission last.
//
// Every event costs time in proportion to the active jobs.
func Tiresias(c space.Config, starveFactor float64) simulator.Policy {
	p := &tiresiasSim{factor: starveFactor, gittins: c.Get("priority").Text() == "gittins",
		byTime: c.Get("priority").Text() == "time"}
	if c.Has("queue_thresholds") {
		for _, v := range c.Get("queue_thresholds").Floats() {
			p.limits = append(p.limits, time.Duration(v*float64(time.Second)))
		}
	}
	p.queues = make([][]simulator.ID, len(p.limits)+1)
	return p
}

type tiresiasSim struct {
	byTime  bool
	gittins bool
	limits  []time.Duration // GPU-time, or time; one less than queues
	factor  float64

	s           *simulator.View
	table       gittinsTable
	jobs        []tiresiasJob  // by job
	active      []simulator.ID // in order of arrival
	queues      [][]simulator.ID
	waiting     []simulator.ID // of a queue
	stop, start []simulator.ID
	last        time.Duration // of the last look
	next        time.Duration // the earliest jump foreseen
	changed     bool          // a job came or went since the last look
}

type tiresiasJob struct {
	forgot time.Duration // time run before the last promotion
	waited time.Duration // since then, not counting the wait for the first start
	level  int
	rank   float64
}

func (p *tiresiasSim) Reset(s *simulator.View, _ *simulator.Plan) {
	p.s = s
	p.active, p.jobs = p.active[:0], p.jobs[:0]
	for i := range p.queues {
		p.queues[i] = p.queues[i][:0]
	}
	p.last, p.next, p.changed = s.Now(), math.MaxInt64, false
	if p.gittins {
		p.table.make(s.Past().Services(nil))
	}
}

func (p *tiresiasSim) Admit(j simulator.ID, _ simulator.Seen) {
	p.jobs = lanes.Grow(p.jobs, j)
	p.jobs[j] = tiresiasJob{}
	level := 0
	for level < len(p.limits) && p.attained(j) >= p.limits[level] {
		level++
	}
	p.jobs[j].level = level
	p.active = append(p.active, j)
	p.queues[level] = append(p.queues[level], j)
	p.changed = true
}

func (p *tiresiasSim) Finish(j simulator.ID) {
	p.active = remove(p.active, j)
	q := &p.queues[p.jobs[j].level]
	*q = remove(*q, j)
	p.changed = true
}

// ran is the time for which a job has run since its last promotion.
func (p *tiresiasSim) ran(j simulator.ID) time.Duration {
	return p.s.JobAttained(j)/time.Duration(p.s.JobGPUs(j)) - p.jobs[j].forgot
}

// attained is the service that thresholds compare.
func (p *tiresiasSim) attained(j simulator.ID) time.Duration {
	if p.byTime {
		return p.ran(j)
	}
	return p.ran(j) * time.Duration(p.s.JobGPUs(j))
}

func (p *tiresiasSim) Plan(plan *simulator.Plan) {
	// A jump foreseen earlier may have moved since.
	if p.changed || p.s.Now() >= p.next {
		p.look()
		p.exchange(plan)
		p.foresee()
	}
	if p.next < math.MaxInt64 {
		plan.WakeAt(p.next)
	}
}

// look moves jobs between queues.
func (p *tiresiasSim) look() {
	passed := p.s.Now() - p.last
	p.last, p.changed = p.s.Now(), false
	for _, j := range p.active {
		o := &p.jobs[j]
		if p.s.JobRunning(j) {
			if o.level < len(p.limits) && p.attained(j) >= p.limits[o.level] {
				p.move(j, o.level+1)
			}
		} else if p.factor > 0 {
			if ran := p.ran(j); ran > 0 {
				o.waited += passed
				if p.starving(j) && o.waited >= p.patience(ran) {
					p.move(j, 0)
					o.forgot += ran
					o.waited = 0
				}
			}
		}
		if p.gittins {
			o.rank = p.table.of(p.attained(j))
		}
	}
}

func (p *tiresiasSim) starving(j simulator.ID) bool { return p.factor > 0 && p.jobs[j].level > 0 }

// patience is the wait in whole seconds after which a job that has run for a time
// is promoted.
func (p *tiresiasSim) patience(ran time.Duration) time.Duration {
	return time.Duration(ran.Seconds()*p.factor) * time.Second
}

func (p *tiresiasSim) move(j simulator.ID, level int) {
	o := &p.jobs[j]
	p.queues[o.level] = remove(p.queues[o.level], j)
	p.queues[level] = append(p.queues[level], j)
	o.level = level
}

// exchange walks the queues with a count of GPUs, and puts waiting jobs behind
// running ones.
func (p *tiresiasSim) exchange(plan *simulator.Plan) {
	p.stop, p.start = p.stop[:0], p.start[:0]
	quota := p.s.TotalGPUs()
	for _, queue := range p.queues {
		if p.gittins {
			slices.SortStableFunc(queue, func(a, b simulator.ID) int {
				return cmp.Or(cmp.Compare(p.jobs[b].rank, p.jobs[a].rank),
					cmp.Compare(p.s.JobSubmit(a), p.s.JobSubmit(b)))
			})
		}
		for _, j := range queue {
			runs := p.s.JobRunning(j)
			if g := p.s.JobGPUs(j); g <= quota {
				quota -= g
				if !runs {
					p.start = append(p.start, j)
				}
			} else if runs {
				p.stop = append(p.stop, j)
			}
		}
	}
	plan.Exchange(p.stop, p.start)
	for _, queue := range p.queues {
		p.waiting = p.waiting[:0]
		n := 0
		for _, j := range queue {
			if p.s.JobRunning(j) {
				queue[n] = j
				n++
			} else {
				p.waiting = append(p.waiting, j)
			}
		}
		copy(queue[n:], p.waiting)
	}
}

// foresee finds when to look again.
func (p *tiresiasSim) foresee() {
	p.next = math.MaxInt64
	for _, j := range p.active {
		o := &p.jobs[j]
		switch {
		case p.s.JobRunning(j):
			if o.level == len(p.limits) {
				continue
			}
			limit := p.limits[o.level]
			rest := limit - p.ran(j)
			if !p.byTime {
				rest = rest / time.Duration(p.s.JobGPUs(j)) / time.Second * time.Second
			}
			if p.attained(j) < limit {
				rest = max(rest, time.Second) // here the published simulator never returns
			}
			p.next = min(p.next, p.s.Now()+max(0, rest))
		case p.starving(j):
			ran := p.ran(j)
			if rest := p.patience(ran) - o.waited; ran > 0 && rest > 0 {
				p.next = min(p.next, p.s.Now()+rest)
			}
		}
	}
}

// gittinsTable is the Gittins index of the published simulator: a value for each
// service of the sample, computed a second below it.
type gittinsTable struct {
	services []int64 // seconds, sorted
	index    []float64
}

func (t *gittinsTable) make(sample []time.Duration) {
	t.services, t.index = t.services[:0], t.index[:0]
	for _, v := range sample {
		t.services = append(t.services, int64(v/time.Second))
	}
	slices.Sort(t.services)
	for _, v := range t.services {
		t.index = append(t.index, t.compute(v-1))
	}
}

// above is the index of the first service above a number of seconds.
func (t *gittinsTable) above(s int64) int {
	return sort.Search(len(t.services), func(i int) bool { return t.services[i] > s })
}

// compute is the chance to end within the quantum over the expected service
// until the end or the quantum's. It takes services from their begin rather
// than from the service attained.
func (t *gittinsTable) compute(attained int64) float64 {
	const quantum = int64(tiresias.GittinsQuantum / time.Second)
	n := len(t.services)
	from, to := t.above(attained), t.above(attained+quantum)
	if from == n {
		return 0
	}
	to = min(to, n-1)
	sum := quantum * int64(n-to)
	for _, v := range t.services[from:to] {
		sum += v
	}
	chance := digits(float64(to-from)/float64(n-from), 1e5)
	return digits(chance*1e6/float64(sum/int64(n-from)), 1e4)
}

func digits(v, scale float64) float64 { return math.Round(v*scale) / scale }

func (t *gittinsTable) of(attained time.Duration) float64 {
	if i := t.above(int64(attained / time.Second)); i < len(t.index) {
		return t.index[i]
	}
	return 0
}
