package tiresias

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Quirks are settings that only the simulator published by Tiresias's authors
// has.
type Quirks struct {
	// StarveFactor promotes a waiting job to the first queue, with no service,
	// once it has waited that many times as long as it has run since its last
	// promotion. 0 is off. It takes the place of starve_limit.
	StarveFactor float64
}

// NewOriginal makes the policy as the authors' simulator has it, to compare
// with its results. It differs from New in this:
//
//   - Jobs change queues only when an arrival, an end or a foreseen jump makes it
//     look at them, one queue at a time. It foresees the jump of a job by
//     dividing the threshold less the seconds run by the number of GPUs, and so
//     is late for wide ones.
//   - A queue is in order of entry, running jobs before waiting ones.
//   - Starving is relative to the time run (Quirks.StarveFactor).
//   - Its Gittins index is of a table with its own rounding (originalIndex), made
//     of Options.Services alone, and orders a queue's running and waiting jobs
//     together, the latest submission last.
//
// Every event costs time in proportion to the active jobs. It reads priority,
// queues and queue_thresholds of a configuration. Resuming, it does not know the
// order of entry.
func NewOriginal(c space.Config, q Quirks) simulator.Policy {
	return &original{policy: newPolicy(c), factor: q.StarveFactor}
}

type original struct {
	*policy
	factor float64

	table   originalIndex
	jobs    []originalJob    // by job
	active  []simulator.ID   // in order of arrival
	line    [][]simulator.ID // by level
	spare   []simulator.ID
	last    time.Duration // of the last look
	next    time.Duration // the earliest jump foreseen
	changed bool          // somebody came or went since the last look
}

type originalJob struct {
	forgot time.Duration // time run before the last promotion
	waited time.Duration // since then, not counting the wait for the first start
	level  int
	rank   float64
}

func (p *original) Reset(s *simulator.Sim) {
	p.s = s
	p.active, p.jobs = p.active[:0], p.jobs[:0]
	p.line = slices.Grow(p.line[:0], len(p.limits)+1)[:len(p.limits)+1]
	for i := range p.line {
		p.line[i] = p.line[i][:0]
	}
	p.last, p.next, p.changed = s.Now(), math.MaxInt64, false
	if p.gittins {
		p.table.make(s.Services())
	}
}

func (p *original) Admit(j simulator.ID, _ simulator.Seen) {
	for int(j) >= len(p.jobs) {
		p.jobs = append(p.jobs, originalJob{})
	}
	p.jobs[j] = originalJob{}
	o := &p.jobs[j]
	o.level = int(p.levelOf(p.attained(j)))
	p.active = append(p.active, j)
	p.line[o.level] = append(p.line[o.level], j)
	p.changed = true
}

func (p *original) Finish(j simulator.ID) {
	p.active = without(p.active, j)
	l := &p.line[p.jobs[j].level]
	*l = without(*l, j)
	p.changed = true
}

func (p *original) Quantum(simulator.ID) {}

// Report shadows that of the policy it is built on.
func (p *original) Report(j simulator.ID) simulator.Seen { return simulator.Seen{} }

func without(list []simulator.ID, j simulator.ID) []simulator.ID {
	i := slices.Index(list, j)
	return slices.Delete(list, i, i+1)
}

// ran is the time for which a job has run since its last promotion.
func (p *original) ran(j simulator.ID) time.Duration {
	return p.s.JobAttained(j)/time.Duration(p.s.JobGPUs(j)) - p.jobs[j].forgot
}

// attained is what the thresholds are compared with.
func (p *original) attained(j simulator.ID) time.Duration {
	if p.byTime {
		return p.ran(j)
	}
	return p.ran(j) * time.Duration(p.s.JobGPUs(j))
}

func (p *original) Plan(plan *simulator.Plan) {
	// A jump foreseen earlier may have moved since.
	if p.changed || p.s.Now() >= p.next {
		p.look()
		p.exchange(plan)
		p.foresee()
	}
	if p.next < math.MaxInt64 {
		p.s.WakeAt(p.next)
	}
}

// look moves jobs between queues.
func (p *original) look() {
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

func (p *original) starving(j simulator.ID) bool { return p.factor > 0 && p.jobs[j].level > 0 }

// patience is how long a job that has run so long waits, in whole seconds.
func (p *original) patience(ran time.Duration) time.Duration {
	return time.Duration(ran.Seconds()*p.factor) * time.Second
}

func (p *original) move(j simulator.ID, level int) {
	o := &p.jobs[j]
	p.line[o.level] = without(p.line[o.level], j)
	p.line[level] = append(p.line[level], j)
	o.level = level
}

// exchange walks the queues with a count of GPUs, and puts waiting jobs behind
// running ones.
func (p *original) exchange(plan *simulator.Plan) {
	p.chosen.Stop, p.chosen.Start = p.chosen.Stop[:0], p.chosen.Start[:0]
	quota := p.s.Cluster().TotalGPUs()
	for _, line := range p.line {
		if p.gittins {
			sort.Stable(byRank{p, line})
		}
		for _, j := range line {
			runs := p.s.JobRunning(j)
			if g := p.s.JobGPUs(j); g <= quota {
				quota -= g
				if !runs {
					p.chosen.Start = append(p.chosen.Start, j)
				}
			} else if runs {
				p.chosen.Stop = append(p.chosen.Stop, j)
			}
		}
	}
	plan.Exchange(p.chosen.Stop, p.chosen.Start)
	for _, line := range p.line {
		p.spare = p.spare[:0]
		n := 0
		for _, j := range line {
			if p.s.JobRunning(j) {
				line[n] = j
				n++
			} else {
				p.spare = append(p.spare, j)
			}
		}
		copy(line[n:], p.spare)
	}
}

// foresee finds when to look again.
func (p *original) foresee() {
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
				rest = max(rest, time.Second) // here the original goes round in circles
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

// byRank sorts by decreasing index, then by submission, the latest last.
type byRank struct {
	p    *original
	line []simulator.ID
}

func (b byRank) Len() int      { return len(b.line) }
func (b byRank) Swap(i, k int) { b.line[i], b.line[k] = b.line[k], b.line[i] }
func (b byRank) Less(i, k int) bool {
	x, y := b.line[i], b.line[k]
	if rx, ry := b.p.jobs[x].rank, b.p.jobs[y].rank; rx != ry {
		return rx > ry
	}
	return b.p.s.JobSubmit(x) < b.p.s.JobSubmit(y)
}

// originalIndex is the original simulator's Gittins index: a value for each
// service of the sample, computed a second below it.
type originalIndex struct {
	services []int64 // seconds, sorted
	index    []float64
}

func (t *originalIndex) make(sample []time.Duration) {
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
func (t *originalIndex) above(s int64) int {
	return sort.Search(len(t.services), func(i int) bool { return t.services[i] > s })
}

// compute is the chance to end within the quantum over the expected service
// until the end or the quantum's. The original takes services from their begin
// rather than from the service attained.
func (t *originalIndex) compute(attained int64) float64 {
	const quantum = int64(GittinsQuantum / time.Second)
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

func (t *originalIndex) of(attained time.Duration) float64 {
	if i := t.above(int64(attained / time.Second)); i < len(t.index) {
		return t.index[i]
	}
	return 0
}
