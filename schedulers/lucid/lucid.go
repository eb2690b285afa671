// Package lucid is the non-preemptive, packing scheduler of Lucid (Hu et al.,
// ASPLOS 2023). A new job of moderate width first runs on nodes set apart, the
// profiler, for a short time. Short jobs end there; the others are stopped and
// wait in the main queue, shortest estimated run time times GPUs first. Whoever
// finds no place there may share the GPUs of a running job of the same width, if
// the two are light enough together (their share scores, their memory, and more
// done than in turns), and if it does not outlast its partner by much. At most two jobs share.
//
// What is simplified: progress in the profiler counts, and going on costs a
// restart. With a profiler, only jobs that went through it may share GPUs:
// share scores are those of the job's load in the models (simulator.Load), known
// exactly once profiled; without one they are known from the start. Run times
// are those the scheduler is told (simulator.Options.Estimate), otherwise the
// mean of what jobs that ended before took, of the same key, else of the same
// tenant and width, else of the same width. The load by which sharing is
// switched is what was submitted in the last hour, not a forecast. While a job
// waits or runs that is wider than the cluster without the profiler, there is
// none.
//
// Resuming, it does not know what it learnt from jobs that had ended, how many
// of these were submitted in the last hour, and which nodes were the profiler's.
package lucid

import (
	"math"
	"math/bits"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Quirks are settings that only the simulator published by Lucid's authors has.
type Quirks struct {
	// BlockApart lets the first job that finds no place block the others while
	// sharing is off.
	BlockApart bool
	// PlanOrder prefers, among partners that started at the same instant, the one
	// of higher priority to the one submitted first.
	PlanOrder bool
}

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy { return NewOriginal(c, Quirks{}) }

// NewOriginal makes it with quirks, to compare with the original's results.
func NewOriginal(c space.Config, q Quirks) simulator.Policy {
	return &policy{
		quirks:    q,
		byTime:    c.Get("priority").Text() == "time",
		eager:     c.Get("share_when").Text() == "always",
		factor:    c.Get("share_factor").Float(),
		loadAbove: c.Get("share_load").Float(),
		pairs:     pairs{limit: int(c.Get("share_limit").Int()), memory: float64(c.Get("memory_limit").Int())},
		profiler:  newProfiler(c),
	}
}

type policy struct {
	quirks    Quirks
	byTime    bool
	eager     bool
	factor    float64
	loadAbove float64 // jobs per hour; 0 is always

	s        *simulator.Sim
	pairs    pairs
	queue    queue
	jobs     []job
	past     history
	profiler profiler
	starts   int64
	// freed counts the instants at which GPUs or quota may have been given back.
	freed int
	// The first job submitted within the last hour, and the first not counted;
	// those between are so many, members of groups counted.
	recent, counted simulator.ID
	inHour          int
}

type job struct {
	estimate time.Duration // of the run time, when submitted
	key      int64
	partner  simulator.ID // -1 for nobody
	width    int32        // index of queue.widths
	offer    int32        // number among the partners, and one more; 0 for none
	started  int64        // counts starts, with Quirks.PlanOrder
}

// Shares marks a simulator.Sharer.
func (*policy) Shares() {}

func (p *policy) Reset(s *simulator.Sim) {
	p.s = s
	p.pairs.reset(s.Models())
	p.queue.reset(len(p.pairs.loads))
	p.jobs, p.recent, p.counted, p.inHour, p.starts = p.jobs[:0], 0, 0, 0, 0
	p.freed = 1
	p.past.reset(s)
	p.profiler.reset(s)
}

func (p *policy) Admit(j simulator.ID, _ simulator.Seen) {
	for int(j) >= len(p.jobs) {
		p.jobs = append(p.jobs, job{partner: -1})
	}
	x := &p.jobs[j]
	d, ok := p.s.JobEstimate(j)
	if !ok {
		p.past.learn(p.s.JobSubmit(j))
		d = p.past.estimate(j)
	}
	x.estimate, x.width = d, p.queue.width(p.s.JobGPUs(j))
	x.key = p.rank(j)
	p.profiler.admit(j)
	switch {
	case p.profiler.has(j):
	case !p.s.JobRunning(j):
		p.wait(j)
	default:
		x.partner = p.s.JobPartner(j)
		p.offer(j)
	}
}

// rank is a job's priority value, the smallest first: its estimated run time,
// which is at least what it was profiled for, times its GPUs.
func (p *policy) rank(j simulator.ID) int64 {
	v := max(int64(p.jobs[j].estimate), 0)
	if p.profiled(j) {
		v = max(v, int64(p.profiler.time))
	}
	if p.byTime {
		return v
	}
	high, low := bits.Mul64(uint64(v), uint64(p.s.JobWidth(j)))
	if high > 0 {
		return math.MaxInt64
	}
	return int64(min(low, math.MaxInt64))
}

// wait puts a job into the main queue.
func (p *policy) wait(j simulator.ID) {
	p.s.SetPool(j, 0)
	p.s.SetRelaxed(j, false) // another policy may have let it
	load := int32(p.queue.kinds - 1)
	if p.mayShare(j) {
		load = p.pairs.of(p.s, j)
	}
	x := &p.jobs[j]
	p.queue.add(x.width, load, p.s.JobMembers(j) > 1, lanes.Entry{Key: x.key, ID: j})
}

// mayShare reports whether a job is one whose load is known and that fits a
// node. What a job has run since it left the profiler does not matter.
func (p *policy) mayShare(j simulator.ID) bool {
	if p.pairs.limit == Off || p.s.JobGPUs(j) > p.profiler.perNode {
		return false
	}
	return p.profiler.nodes == 0 || p.profiled(j)
}

// profiled reports whether a job has been through the profiler, which is the
// only place where jobs are stopped.
func (p *policy) profiled(j simulator.ID) bool {
	n := p.s.JobStarts(j)
	if p.s.JobRunning(j) {
		n--
	}
	return n > 0
}

// offer makes a running job that is alone on its GPUs a possible partner.
func (p *policy) offer(j simulator.ID) {
	x := &p.jobs[j]
	if x.offer > 0 || p.s.JobShares(j) || !p.mayShare(j) {
		return
	}
	w := &p.queue.widths[x.width]
	w.partners.add(p.partner(j))
	x.offer = w.joined()
}

func (p *policy) partner(j simulator.ID) partner {
	since := int64(p.s.JobSince(j))
	if p.quirks.PlanOrder {
		since = p.jobs[j].started
	}
	return partner{since: since, job: j, key: float64(p.jobs[j].key)}
}

func (p *policy) began(j simulator.ID) {
	p.starts++
	p.jobs[j].started = p.starts
}

// withdraw undoes offer.
func (p *policy) withdraw(j simulator.ID) {
	x := &p.jobs[j]
	if x.offer == 0 {
		return
	}
	if moved := p.queue.widths[x.width].partners.remove(p.partner(j), x.offer-1); moved >= 0 {
		p.jobs[moved].offer = x.offer
	}
	x.offer = 0
}

func (p *policy) Finish(j simulator.ID) {
	p.freed++
	p.past.end(j, p.s.Now())
	if p.profiler.finish(j) {
		return
	}
	p.withdraw(j)
	if with := p.jobs[j].partner; with >= 0 {
		p.jobs[with].partner = -1
		p.offer(with)
	}
}

// Quantum implements simulator.Quantumed: a job has been profiled.
func (p *policy) Quantum(j simulator.ID) { p.profiler.quantum(j) }

func (p *policy) Plan(plan *simulator.Plan) {
	p.profiler.plan(p, plan)
	if p.queue.total == 0 {
		return
	}
	share := p.sharing()
	p.scan(plan, share)
	p.place(plan, share)
	for _, i := range p.queue.busy {
		p.queue.widths[i].rewind()
	}
}

// scan begins a walk over the jobs for which there may be a place or a partner.
func (p *policy) scan(plan *simulator.Plan, share bool) {
	p.queue.walk = p.queue.walk[:0]
	free := plan.Free()
	for _, i := range p.queue.busy {
		w := &p.queue.widths[i]
		switch {
		case p.mayStart(w) && w.gpus <= free || p.quirks.BlockApart && !share:
			w.all()
		case share:
			p.settle(w)
			w.warm()
		default:
			continue
		}
		if w.front >= 0 {
			p.queue.walk = append(p.queue.walk, i)
		}
	}
}

// mayStart reports whether a job of a width might find a place, if there were
// enough free GPUs. Where a gang finds none, others of its width find none until
// GPUs are given back, but for groups, which are placed by member.
func (p *policy) mayStart(w *width) bool { return w.full != p.freed || w.groups > 0 }

// place starts the jobs of a walk, alone or beside others.
func (p *policy) place(plan *simulator.Plan, share bool) {
	for {
		w, at := p.queue.next()
		if w == nil {
			return
		}
		e := w.heads[w.front]
		if j := e.ID; !p.s.QuotaAllows(j) {
			w.skip()
		} else if p.begin(plan, w, e, share) {
			p.queue.take(w, p.s.JobMembers(j) > 1)
		} else if p.quirks.BlockApart && !share {
			return
		} else {
			// Whoever finds no place hides the jobs behind of its kind: none of its
			// width is started alone any more, which could be their partner.
			w.open.remove(int(w.front))
			switch {
			case p.mayStart(w):
			case share:
				w.cool()
			default:
				clear(w.open)
			}
		}
		if w.look(); w.front < 0 {
			p.queue.hide(at)
		}
	}
}

// begin starts a width's next job, if it finds a place or a partner.
func (p *policy) begin(plan *simulator.Plan, w *width, e lanes.Entry, share bool) bool {
	j, with := e.ID, simulator.ID(-1)
	if share && p.eager {
		with = p.mate(w, e.Key)
	}
	if with < 0 && p.mayStart(w) {
		if plan.Start(j) {
			p.began(j)
			p.offer(j)
			return true
		}
		if p.s.JobMembers(j) == 1 {
			w.full = p.freed
		}
	}
	if with < 0 && share && !p.eager {
		with = p.mate(w, e.Key)
	}
	if with < 0 {
		return false
	}
	p.withdraw(with)
	plan.Share(j, with)
	p.began(j)
	p.jobs[j].partner, p.jobs[with].partner = with, j
	return true
}

// sharing reports whether jobs may share GPUs at this load.
func (p *policy) sharing() bool {
	if p.pairs.limit == Off || p.loadAbove == 0 {
		return p.pairs.limit != Off
	}
	for ; p.counted < p.s.Submitted(); p.counted++ {
		p.inHour += p.s.JobMembers(p.counted)
	}
	for ; p.recent < p.counted && p.s.JobSubmit(p.recent) <= p.s.Now()-time.Hour; p.recent++ {
		p.inHour -= p.s.JobMembers(p.recent)
	}
	return float64(p.inHour) > p.loadAbove
}

// settle finds out of which loads those are who joined a width's partners, and
// who may hope for them.
func (p *policy) settle(w *width) {
	joined := w.unsettled()
	if len(joined) == 0 {
		return
	}
	for i := range joined {
		x := &joined[i]
		x.load = p.pairs.of(p.s, x.job)
		for k, guests := range p.pairs.welcome(x.load) {
			w.hot[k] |= guests
		}
	}
	w.partners.settle()
}

// mate is the first possible partner for a width's next job, -1 if there is
// none.
func (p *policy) mate(w *width, key int64) simulator.ID {
	p.settle(w)
	i := w.front
	if !w.hot.has(int(i)) {
		return -1
	}
	from := int32(-1)
	if l := &w.lanes[i]; l.looked && key >= l.failed {
		from = l.seen
	}
	with := w.partners.first(p.pairs.besides(i), float64(key)/p.factor, from)
	if with < 0 {
		w.failed(i, key)
	}
	return with
}
