// Package tiresias is the two-dimensional least-attained-service scheduler of
// Tiresias (Gu et al., NSDI 2019), discretised into queues: a job starts in the
// first queue and sinks when its attained service (GPU-time, or time) reaches
// the queue's threshold; lower queues run on the rest of higher ones, and
// running jobs are stopped for jobs of higher queues. A job that has waited for
// the starve limit since it last ran goes back to the first queue. A job whose
// model's tensors are skewed beyond the pack limit is placed on as few nodes as
// it needs; others may be spread, and then run slower.
//
// With the Gittins index (section 3.2.2) the jobs of a queue are in order of how
// likely they are to end soon for the service that takes, which is learnt from
// the services of past jobs: of given jobs (simulator.Options.Past) and of
// jobs that end in the run. Without any it is the order of submission.
//
// Unlike the original release (schedulers/internal/peers), levels change exactly
// when a threshold is reached, the starve limit is an absolute time (AutoSched
// section 5.3), spreading slows a job down, and the index is constant over steps of
// service, so that it changes at instants known ahead.
package tiresias

import (
	"math"
	"time"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// New makes the policy of a configuration.
func New(c space.Config) simulator.Policy { return newPolicy(c) }

func newPolicy(c space.Config) *policy {
	p := &policy{
		gittins:      c.Get("priority").Text() == "gittins",
		byTime:       c.Get("priority").Text() == "time",
		runningFirst: c.Get("order").Text() == "running_first",
		starve:       c.Get("starve_limit").Duration(),
		pack:         c.Get("pack_limit").Float(),
	}
	if c.Has("queue_thresholds") {
		for _, v := range c.Get("queue_thresholds").Floats() {
			p.limits = append(p.limits, seconds(v))
		}
	}
	p.queues = make([]queue, len(p.limits)+1)
	return p
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

type policy struct {
	byTime       bool
	gittins      bool
	runningFirst bool
	limits       []time.Duration // GPU-time, or time; one less than queues
	starve       time.Duration   // 0 is off
	pack         float64         // 0 is off

	s      *simulator.View
	plan   *simulator.Plan
	memory []memory // by job
	past   history  // with the Gittins index only
	index  index
	all    []simulator.ID
	queues []queue
	// starving are the waiting jobs of lower queues that have run, by the instant
	// at which they are promoted; entries of jobs that run again by then are stale.
	starving lanes.List
	chosen   lanes.Shares
	// still means that the last plan moved no job and that only jobs wider than rest,
	// the quota left after the first queue, arrived since. They come last in that
	// queue, so that choosing again would give the same.
	still bool
	rest  int
}

type memory struct {
	forgot time.Duration // GPU-time attained before the last promotion
	ran    time.Duration // forgot when it last ran
	key    int32         // of the Gittins index
	level  int8
}

type queue struct {
	run  lanes.Roster
	wait lanes.Lanes
}

func (p *policy) Reset(s *simulator.View, plan *simulator.Plan) {
	p.s, p.plan = s, plan
	p.memory = p.memory[:0]
	p.starving.Reset()
	p.still = false
	p.empty()
	if p.gittins {
		p.all = p.past.begin(s, p.all[:0])
		sample, _ := p.past.due()
		p.index.learn(sample)
	}
}

func (p *policy) empty() {
	for i := range p.queues {
		p.queues[i].run.Reset()
		p.queues[i].wait.Reset()
		p.queues[i].wait.Split(p.s)
	}
}

// service is the service that thresholds compare.
func (p *policy) service(j simulator.ID) time.Duration {
	v := p.s.JobAttained(j) - p.memory[j].forgot
	if p.byTime {
		v /= time.Duration(p.s.JobGPUs(j))
	}
	return v
}

func (p *policy) levelOf(service time.Duration) int8 {
	level := int8(0)
	for _, l := range p.limits {
		if service < l {
			break
		}
		level++
	}
	return level
}

// Report implements simulator.Reporter: a promotion resets service, which does not
// follow from a job's events. That of a waiting job lasts once the job runs; until then
// another configuration decides by its own starve limit.
func (p *policy) Report(j simulator.ID) simulator.Seen {
	forgot := p.memory[j].ran
	if p.s.JobRunning(j) {
		forgot = p.memory[j].forgot
	}
	return simulator.Seen{LevelAttained: p.s.JobAttained(j) - forgot, HasLevel: true}
}

func (p *policy) Admit(j simulator.ID, seen simulator.Seen) {
	p.memory = lanes.Grow(p.memory, j)
	m := &p.memory[j]
	*m = memory{}
	if seen.HasLevel {
		m.forgot = p.s.JobAttained(j) - seen.LevelAttained
		m.ran = m.forgot
	}
	service := p.rank(j)
	p.still = p.still && !p.gittins && p.s.JobDemand(j) > p.rest
	if p.s.JobRunning(j) {
		p.runs(j, service)
		return
	}
	if p.starves(j) && p.s.JobSince(j)+p.starve <= p.s.Now() {
		p.lift(j) // it has been promoted already
	}
	p.waits(j)
}

// rank sets the level and the key of a job that is in no queue, and returns the
// service from which they follow.
func (p *policy) rank(j simulator.ID) time.Duration {
	m, service := &p.memory[j], p.service(j)
	m.level = p.levelOf(service)
	if p.gittins {
		m.key, _ = p.index.at(service)
	}
	return service
}

// lift promotes a job that is in no queue to the first level, with no service.
func (p *policy) lift(j simulator.ID) {
	p.memory[j].forgot = p.s.JobAttained(j)
	p.rank(j)
}

// starves reports whether a waiting job will be promoted at the starve limit.
func (p *policy) starves(j simulator.ID) bool {
	return p.starve > 0 && p.memory[j].level > 0 && p.s.JobStarts(j) > 0
}

// runs adds a running job to its queue.
func (p *policy) runs(j simulator.ID, service time.Duration) {
	m := &p.memory[j]
	m.ran = m.forgot
	p.queues[m.level].run.Insert(p.entry(j))
	if len(p.limits) == 0 && !p.gittins {
		return
	}
	if until := p.until(j, service); until < math.MaxInt64 {
		rest := until - service
		if !p.byTime {
			g := time.Duration(p.s.JobGPUs(j))
			rest = (rest + g - 1) / g
		}
		p.plan.SetQuantum(j, p.s.JobServedFrom(j)+rest)
	}
}

// until is the service at which a job's level or key changes next.
func (p *policy) until(j simulator.ID, service time.Duration) time.Duration {
	until := time.Duration(math.MaxInt64)
	if level := int(p.memory[j].level); level < len(p.limits) {
		until = p.limits[level]
	}
	if p.gittins {
		_, step := p.index.at(service)
		until = min(until, step)
	}
	return until
}

// waits adds a waiting job to its queue.
func (p *policy) waits(j simulator.ID) {
	p.plan.AllowSpread(j, p.pack > 0 && p.s.JobSkew(j) <= p.pack)
	p.queues[p.memory[j].level].wait.Add(p.s.JobDemand(j), p.s.MaySpread(j), p.entry(j))
	if !p.starves(j) {
		return
	}
	p.starving.Insert(lanes.Entry{Key: int64(p.s.JobSince(j) + p.starve), ID: j})
	p.watch()
}

// watch requests a plan at the next promotion.
func (p *policy) watch() {
	if p.starving.Len() > 0 {
		p.plan.WakeAt(time.Duration(p.starving.At(0).Key))
	}
}

// entry is a job's place in its queue: all have the same key without the Gittins
// index, and are in order of submission.
func (p *policy) entry(j simulator.ID) lanes.Entry {
	return lanes.Entry{Key: int64(p.memory[j].key), ID: j, Width: int32(p.s.JobDemand(j))}
}

// leaves removes a running job from its queue.
func (p *policy) leaves(j simulator.ID) {
	p.queues[p.memory[j].level].run.Remove(p.entry(j))
}

func (p *policy) Finish(j simulator.ID) {
	p.still = false
	p.leaves(j)
	if p.gittins {
		p.past.add(p.s, j)
	}
}

// learn rebuilds the index if enough jobs have ended, and ranks all jobs by it.
func (p *policy) learn() {
	sample, ok := p.past.due()
	if !ok {
		return
	}
	p.index.learn(sample)
	p.all = p.all[:0]
	for i := range p.queues {
		q := &p.queues[i]
		for e := range q.run.All() {
			p.all = append(p.all, e.ID)
		}
		q.wait.Walk()
		for {
			e, _, lane, ok := q.wait.Next(math.MaxInt)
			if !ok {
				break
			}
			q.wait.Skip(lane)
			p.all = append(p.all, e.ID)
		}
	}
	p.empty()
	for _, j := range p.all {
		service := p.rank(j)
		if p.s.JobRunning(j) {
			p.runs(j, service)
		} else {
			p.queues[p.memory[j].level].wait.Add(p.s.JobDemand(j), p.s.MaySpread(j), p.entry(j))
		}
	}
}

// Quantum demotes a job that reached its threshold.
func (p *policy) Quantum(j simulator.ID) {
	p.still = false
	p.leaves(j)
	p.runs(j, p.rank(j))
}

// promote promotes the jobs that reached the starve limit.
func (p *policy) promote() {
	for p.starving.Len() > 0 {
		a := p.starving.At(0)
		at, j := time.Duration(a.Key), a.ID
		if at > p.s.Now() {
			return
		}
		p.starving.Remove(a)
		m := &p.memory[j]
		if !p.s.JobActive(j) || p.s.JobRunning(j) || m.level == 0 || p.s.JobSince(j)+p.starve != at {
			continue
		}
		p.queues[m.level].wait.Remove(p.s.JobDemand(j), p.s.MaySpread(j), p.entry(j))
		p.lift(j)
		p.still = false
		p.queues[0].wait.Add(p.s.JobDemand(j), p.s.MaySpread(j), p.entry(j))
	}
}

func (p *policy) Plan(plan *simulator.Plan) {
	p.promote()
	if p.gittins {
		p.learn()
	}
	if p.s.Waiting() > 0 {
		moved := false
		if !p.still {
			p.choose()
			if len(p.chosen.Start) > 0 || len(p.chosen.Stop) > 0 {
				if moved = plan.Exchange(p.chosen.Stop, p.chosen.Start); moved {
					p.settle(plan)
				}
			}
		}
		if plan.AllowsBackfill() && p.backfill(plan) {
			moved = true
		}
		p.still = !moved && !plan.RetryAfterMinRun()
	}
	p.watch()
}

// choose walks the queues with a quota of all GPUs and lists the jobs to start and
// to stop. Jobs that do not fit the rest of the quota are passed over.
func (p *policy) choose() {
	p.chosen.Reset(p.s)
	quota := p.s.TotalGPUs()
	waiting, held := 0, 0 // in this queue and the ones below
	for i := range p.queues {
		waiting += p.queues[i].wait.Len()
		held += p.queues[i].run.Held()
	}
	for i := range p.queues {
		if waiting == 0 && held <= quota && (!p.chosen.Strict() || len(p.chosen.Start) == 0) {
			return
		}
		q := &p.queues[i]
		waiting -= q.wait.Len()
		held -= q.run.Held()
		quota = p.chosen.Divide(quota, &q.run, &q.wait, p.runningFirst)
		if i == 0 {
			p.rest = quota
		}
	}
}

// settle moves the jobs that an exchange stopped and started.
func (p *policy) settle(plan *simulator.Plan) {
	for _, j := range p.chosen.Start {
		if p.s.JobRunning(j) {
			p.queues[p.memory[j].level].wait.Remove(p.s.JobDemand(j), p.s.MaySpread(j), p.entry(j))
			p.runs(j, p.service(j))
		}
	}
	for _, j := range plan.Stopped() {
		p.leaves(j)
		p.waits(j)
	}
}

// backfill starts waiting jobs on the GPUs that the chosen jobs could not use, and
// reports whether it started any.
func (p *policy) backfill(plan *simulator.Plan) bool {
	started := false
	for i := range p.queues {
		q := &p.queues[i]
		if q.wait.Len() == 0 || plan.Free() == 0 {
			continue
		}
		q.wait.Walk()
		for plan.Free() > 0 {
			e, _, lane, ok := q.wait.Next(plan.Free())
			if !ok {
				break
			}
			if !plan.Start(e.ID) {
				q.wait.Close(lane)
				continue
			}
			q.wait.Take(lane)
			p.runs(e.ID, p.service(e.ID))
			started = true
		}
	}
	return started
}
