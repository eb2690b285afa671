// Package lucid is the non-preemptive, packing scheduler of Lucid (Hu et al.,
// ASPLOS 2023). A new job of moderate width first runs on nodes set apart, the
// profiler, for a short time. Short jobs end there; the others are stopped and
// wait in the main queue, shortest estimated run time times GPUs first. A job that
// finds no place there may share the GPUs of a running job of the same width, if
// the two are light enough together (their share scores, their memory, and more
// progress than in turns), and if it does not outlast its partner by much. At most
// two jobs share.
//
// Simplified: progress in the profiler counts, and going on costs a
// restart. Share scores are the shares of the job's load in the models (simulator.Load),
// known exactly once profiled. They are known from the start of jobs that wait from
// before there was a profiler, or come while it is too small for them; jobs that it
// never takes do not share GPUs. Run times
// are estimates (simulator.Options.Estimate), otherwise the
// mean of the run times of ended jobs, of the same key, else of the same
// tenant and width, else of the same width. The load by which sharing is
// switched counts the submissions of the last hour, not a forecast. While a job
// waits or runs that is wider than the cluster without the profiler, there is
// none.
//
// A resumed run takes the jobs that ended before from simulator.Options.Past, and pairs
// and pools from the events of jobs.
package lucid

import (
	"math"
	"sort"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Quirks are behaviours of the simulator published by Lucid's authors.
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

// NewOriginal makes the policy with quirks, to compare with that simulator.
func NewOriginal(c space.Config, q Quirks) simulator.Policy {
	return &policy{
		quirks:    q,
		byTime:    c.Get("priority").Text() == "time",
		eager:     c.Get("share_when").Text() == "always",
		factor:    c.Get("share_factor").Float(),
		loadAbove: c.Get("share_load").Float(),
		pairs:     pairs{limit: int(c.Get("share_limit").Int()), memory: float64(c.Get("memory_limit").Int())},
		profiler: profiler{want: c.Get("profiler_nodes").Int(), time: c.Get("profiler_time").Duration(),
			factor: c.Get("profiler_factor").Int()},
	}
}

type policy struct {
	quirks    Quirks
	byTime    bool
	eager     bool
	factor    float64
	loadAbove float64 // jobs per hour; 0 is always

	s        *simulator.View
	plan     *simulator.Plan
	pairs    pairs
	queue    queue
	partners []*partners // by width, in order of appearance
	jobs     []job
	past     history
	profiler profiler
	starts   int64
	// Jobs from recent to before counted were submitted within the last hour: inHour
	// in number, weighted by JobMembers.
	recent, counted simulator.ID
	inHour          int
	// before are the submissions within the last hour of jobs that ended before the
	// run.
	before []time.Duration
}

type job struct {
	estimate time.Duration // of the run time, when submitted
	key      int64
	partner  simulator.ID // shares its GPUs, or -1
	offers   bool         // is among the partners
	started  int64        // counts starts, with Quirks.PlanOrder
}

// Shares marks a simulator.Sharer.
func (*policy) Shares() {}

func (p *policy) Reset(s *simulator.View, plan *simulator.Plan) {
	p.s, p.plan = s, plan
	p.pairs.reset(s.Models())
	p.queue.reset()
	for _, c := range p.partners {
		c.reset()
	}
	p.jobs, p.recent, p.counted, p.inHour, p.starts = p.jobs[:0], 0, 0, 0, 0
	p.past.reset(s)
	p.before = p.before[:0]
	if p.loadAbove > 0 {
		p.before = s.Past().SubmittedAfter(p.before, s.Now()-time.Hour)
	}
	p.profiler.reset(s, plan)
}

func (p *policy) Admit(j simulator.ID, _ simulator.Seen) {
	p.jobs = lanes.Grow(p.jobs, j)
	d, ok := p.s.JobEstimate(j)
	if !ok {
		d = p.past.estimate(j)
	}
	p.jobs[j] = job{estimate: d, partner: -1}
	p.jobs[j].key = p.rank(j)
	p.profiler.admit(j)
	switch {
	case p.profiler.has(j):
	case !p.s.JobRunning(j):
		p.wait(j)
	default:
		p.jobs[j].partner = p.s.JobPartner(j)
		p.offer(j)
	}
}

// rank is a job's priority value, the smallest first: its estimated run time,
// which is at least its time in the profiler, times its GPUs.
func (p *policy) rank(j simulator.ID) int64 {
	v := max(int64(p.jobs[j].estimate), 0)
	if p.profiled(j) {
		v = max(v, int64(p.profiler.time))
	}
	if p.byTime {
		return v
	}
	if g := int64(p.s.JobGPUs(j)); v <= math.MaxInt64/g {
		return v * g
	}
	return math.MaxInt64
}

// wait adds a job to the main queue.
func (p *policy) wait(j simulator.ID) {
	p.plan.SetPool(j, 0)
	p.plan.AllowSpread(j, false) // the policy of which this run is a fork may have relaxed it
	load := int32(unknown)
	if p.mayShare(j) {
		load = p.pairs.of(p.s, j)
	}
	l := p.queue.lane(p.of(p.s.JobDemand(j)), load, p.s.JobConstraint(j))
	l.list.Insert(lanes.Entry{Key: p.jobs[j].key, ID: j})
	p.queue.total++
}

// mayShare reports whether a job's load is known and the job fits a node.
func (p *policy) mayShare(j simulator.ID) bool {
	if p.pairs.limit == Off || p.s.JobDemand(j) > p.profiler.perNode {
		return false
	}
	return p.profiler.nodes == 0 || p.profiled(j) || p.profiler.takes(j, p.profiler.nodes)
}

// profiled reports whether a job has been through the profiler. Jobs are preempted
// nowhere else.
func (p *policy) profiled(j simulator.ID) bool {
	n := p.s.JobStarts(j)
	if p.s.JobRunning(j) {
		n--
	}
	return n > 0
}

// offer adds a running job without a partner to the possible partners.
func (p *policy) offer(j simulator.ID) {
	if p.jobs[j].offers || p.s.JobShares(j) || !p.mayShare(j) {
		return
	}
	p.jobs[j].offers = true
	p.of(p.s.JobDemand(j)).add(p.partner(j))
}

func (p *policy) partner(j simulator.ID) partner {
	since := int64(p.s.JobSince(j))
	if p.quirks.PlanOrder {
		since = p.jobs[j].started
	}
	return partner{since: since, job: j, load: p.pairs.of(p.s, j), key: float64(p.jobs[j].key)}
}

func (p *policy) began(j simulator.ID) {
	p.starts++
	p.jobs[j].started = p.starts
}

// withdraw undoes offer.
func (p *policy) withdraw(j simulator.ID) {
	if p.jobs[j].offers {
		p.jobs[j].offers = false
		p.of(p.s.JobDemand(j)).remove(p.partner(j))
	}
}

// of returns the possible partners of a width.
func (p *policy) of(width int) *partners {
	for _, c := range p.partners {
		if c.width == width {
			return c
		}
	}
	c := &partners{width: width, top: first}
	p.partners = append(p.partners, c)
	return c
}

func (p *policy) Finish(j simulator.ID) {
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
func (p *policy) Quantum(j simulator.ID) {
	if p.profiler.state[j] == profiled {
		p.profiler.over = append(p.profiler.over, j)
	}
}

func (p *policy) Plan(plan *simulator.Plan) {
	p.profiler.decide(p, plan)
	if p.queue.total == 0 {
		return
	}
	share := p.sharing()
	blocks := p.quirks.BlockApart && !share
	p.queue.walk(func(l *lane) bool {
		return blocks || l.partners.width <= plan.Free() ||
			share && l.load != unknown && l.unseen(l.list.At(0).Key) < len(l.partners.list)
	})
	for {
		in := p.queue.next()
		if in < 0 {
			return
		}
		switch h := p.queue.open[in]; {
		case !p.s.QuotaAllows(h.ID):
			p.queue.skip(in)
		case p.begin(plan, h, share):
			p.queue.take(in)
		case blocks:
			return
		default:
			// Jobs behind of the same kind find no place either: no job of this width
			// starts alone any more, so there are no new partners.
			p.queue.close(in)
		}
	}
}

// begin starts a job alone or beside a partner, and reports whether it did.
func (p *policy) begin(plan *simulator.Plan, h head, share bool) bool {
	j, with := h.ID, simulator.ID(-1)
	if share && p.eager {
		with = p.mate(h)
	}
	if with < 0 && plan.Start(j) {
		p.began(j)
		p.offer(j)
		return true
	}
	if with < 0 && share && !p.eager {
		with = p.mate(h)
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
	old := sort.Search(len(p.before), func(i int) bool { return p.before[i] > p.s.Now()-time.Hour })
	return float64(p.inHour+len(p.before)-old) > p.loadAbove
}

// mate returns the first possible partner for a job of a lane, or -1.
func (p *policy) mate(h head) simulator.ID {
	l, key := h.lane, h.Key
	if l.load == unknown {
		return -1
	}
	from := l.unseen(key)
	least := float64(key) / p.factor
	lapses := false // a refusal, as that of a node without room, or one that drains
	for i := from; i < len(l.partners.list); i++ {
		if x := &l.partners.list[i]; x.key >= least && p.pairs.fit(l.load, x.load) {
			if p.s.JobMayJoin(h.ID, x.job) {
				return x.job
			}
			lapses = true
		}
	}
	if !lapses {
		l.look(from, key)
	}
	return -1
}
