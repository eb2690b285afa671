package simulator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/workload"
)

// Version of the simulator's semantics: results of equal versions, inputs and
// seeds are equal, so caches key on it.
const Version = "4"

// Options of a run. The zero value is the product's semantics; the fields
// under "peers" restore what other simulators do differently.
type Options struct {
	Placement Placement
	// Round is the decision grid, counted from instant 0; 0 decides at every event.
	Round time.Duration
	// Models default to DefaultModels().
	Models *Models
	// EventBudget bounds the events of a run, so that a configuration that makes
	// jobs pay restarts for ever ends. 0 means 1,000 per job and 10,000 more.
	EventBudget int
	// Observer is told of every event of a job, in order. It must not call the
	// simulation's mutating methods.
	Observer func(Event)
	// Estimate is what the scheduler is told about how long a job will run, by
	// itself on the GPUs it asks for; nil tells nothing. It must not change while
	// the run lasts.
	Estimate func(*workload.Job) time.Duration
	// Services are the GPU-times that past jobs took, in order of their end, for
	// policies that learn from history. They must not change while the run lasts.
	Services []time.Duration
	// Protect bounds what preemption may do to a job.
	Protect Protection
	// Quota says whether the cluster's virtual clusters bind.
	Quota Quota
	// PerTenant keeps what each tenant asks for and holds over time, for
	// Sim.TenantReports.
	PerTenant bool
	// Attribute finds out why jobs wait, for Sim.Delays.
	Attribute bool
	// Series follows the run over time; nil costs nothing. A fork has none.
	Series *Series

	// Peers.

	// NoRestartCost lets preempted jobs resume for free, as the Tiresias
	// simulator does.
	NoRestartCost bool
	// RestartOutsideJCT leaves restart time out of the reported end of a job,
	// though its GPUs were held, as TitanSched does.
	RestartOutsideJCT bool
	// RestartOutsideService does not count restart time as attained service.
	RestartOutsideService bool
	// GuestStaysSlow leaves a job at its shared speed when the job whose GPUs it
	// was packed on ends, as Lucid's simulator does.
	GuestStaysSlow bool
	// Clock makes ends be looked for at its ticks only, before the progress since
	// the tick before is counted: a job holds its GPUs until one tick after the
	// first by which its work is done, as in Lucid's simulator, where it is 1 s.
	Clock time.Duration
	// RestartAsWork adds what a restart costs to the work left when a job is
	// stopped, instead of holding its GPUs idle when it resumes, as Lucid's
	// simulator does: a rest of it is not lost when the job is stopped again.
	RestartAsWork bool
	// QuotaOnly lets policies that walk a quota of GPUs look at counts alone:
	// jobs are stopped even if those they make room for find no place, and GPUs
	// left by a job that found none stay idle, as in TitanSched and Lucid.
	QuotaOnly bool
}

const never = time.Duration(math.MaxInt64)

type phase uint8

const (
	pending phase = iota
	running
	done
)

// job is the loop's record of a job. Times are instants unless they say span.
type job struct {
	submit   time.Duration
	work     time.Duration // span; all of it, at rate 1
	left     time.Duration // span of work left at mark
	mark     time.Duration // up to where left and attained are counted
	ready    time.Duration // a restart makes no progress before it
	since    time.Duration // start of the present spell
	first    time.Duration // first start
	waited   time.Duration // span, spells before the present one
	attained time.Duration // GPU-time
	restart  time.Duration // span held without progress
	quantum  time.Duration
	ends     time.Duration // if it runs on; when it did, once it is done
	next     time.Duration // its event in the heap
	floor    time.Duration // elapsed and left when the run began (or at submission)
	load     float64       // integral of the number of active jobs at submission; once done, its mean since
	rate     float64       // progress per time
	share    float64       // factor on the rate while GPUs are shared
	gpus     int32         // asked for
	members  int32         // equal jobs that it stands for, 1 is itself
	held     int32         // granted; differs from gpus for elastic jobs only
	partner  int32         // on the same GPUs, -1 if none
	node     int32         // its only node, -1 if several or counted only
	multi    int32         // index in Sim.multi, -1 if none
	starts   int32
	preempts int32
	resizes  int32
	tenant   int32 // index in Sim.tenants, -1 if they do not matter
	kind     int32 // index in Sim.kinds, kept with Options.Attribute only
	class    int16 // index of Models.Classes, -1 until somebody asks
	burden   int16 // index of Models.Loads, likewise
	phase    phase
	pool     uint8
	shares   bool // has a partner, or its speed still
	host     bool // was on the GPUs before its partner
	relaxed  bool
	spread   bool
	strayed  bool // spread in some spell
	vacated  bool
	noted    bool // is in Sim.moves
}

// Sim is one simulation. Its memory is reused by the next Start or Resume.
// It is not safe for concurrent use; forks are independent.
type Sim struct {
	opts    Options
	cluster workload.Cluster
	w       *workload.Workload // future arrivals
	state   *workload.State    // the jobs before them, nil after Start
	policy  Policy
	quanta  Quantumed
	report  Reporter

	now      time.Duration
	began    time.Duration
	jobs     []job         // those submitted
	total    int           // jobs, with those to come
	base     ID            // jobs[base:] are the workload's
	arrives  time.Duration // the next to be submitted, never if there is none
	active   int
	waiting  int
	queued   int // GPUs waited for
	wake     time.Duration
	planAt   time.Duration // never if nothing happened since the last plan
	moved    ID            // whom the last plan started or stopped, -1 for nobody
	events   int
	budget   int
	finished int

	place   placer
	tenants []tenant
	common  int // GPUs that are held beyond quotas
	shared  int // GPUs of no quota
	room    Room
	kinds   []kind
	kindAt  map[kindKey]int32
	delays  [causes]jobTime
	classes lottery
	loads   lottery
	heap    eventHeap
	due     []ID // scratch of happen
	multi   [][]workload.NodeGPUs
	spare   []int32
	scratch []workload.NodeGPUs
	// gathering says that next events are noted with their jobs only, until the
	// heap is made of all of them at once (regather).
	gathering bool
	// planning says that a plan is being made: moves are the jobs whose next event
	// it has changed, perhaps more than once.
	planning           bool
	moves              []ID
	told               []told // scratch of Reconfigure
	reach              reach
	asking             []kindKey // scratch of Exchange
	stoppable, stopped []ID      // likewise
	load               float64   // integral of active jobs over time, in seconds
	metrics            integrals
	plan               Plan

	tenantOf  map[string]int32
	tenantsOf []int32 // by job, with those to come; empty if tenants do not matter
}

// ErrBudget is wrapped by the error of a run that used up its event budget.
var ErrBudget = errors.New("event budget exhausted")

// Start begins a run of all of w's jobs on an empty cluster, at the first
// submission.
func (s *Sim) Start(c workload.Cluster, w *workload.Workload, p Policy, opts Options) error {
	if w.Len() == 0 {
		return fmt.Errorf("simulate %s: the workload has no jobs", w.Name())
	}
	first, _ := w.Span()
	return s.begin(first, c, nil, nil, w, p, opts)
}

// Resume begins a run at state.At from what was observed of a live cluster,
// followed by w's jobs, which may not be submitted before it (w may be nil).
// left[i] is the work that state.Jobs[i] still has to do, as the caller
// predicts it; at least a nanosecond is assumed. A running job whose
// placement does not fit the cluster, or is not reported and finds no place,
// waits.
func (s *Sim) Resume(state *workload.State, left []time.Duration, w *workload.Workload, p Policy, opts Options) error {
	if len(left) != len(state.Jobs) {
		return fmt.Errorf("resume: %d remaining durations for %d jobs", len(left), len(state.Jobs))
	}
	if w != nil && w.Len() > 0 {
		if first, _ := w.Span(); first < state.At {
			return fmt.Errorf("resume: job %q is submitted at %v, before the state's instant %v", w.Jobs()[0].ID, first, state.At)
		}
	}
	return s.begin(state.At, state.Cluster, state, left, w, p, opts)
}

func (s *Sim) begin(at time.Duration, c workload.Cluster, state *workload.State, left []time.Duration, w *workload.Workload, p Policy, opts Options) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if opts.Models == nil {
		opts.Models = defaultModels
	}
	if opts.Round < 0 {
		return fmt.Errorf("simulate: round: %v is negative", opts.Round)
	}
	if opts.Clock < 0 {
		return fmt.Errorf("simulate: clock: %v is negative", opts.Clock)
	}
	if opts.Series != nil {
		if err := opts.Series.validate(&opts); err != nil {
			return err
		}
		opts.Series.begin(c.TotalGPUs())
	}
	s.opts, s.cluster, s.w, s.state = opts, c, w, state
	opts.Models.lotteries(&s.classes, &s.loads)
	s.now, s.began = at, at
	s.active, s.waiting, s.queued, s.events, s.finished = 0, 0, 0, 0, 0
	s.wake, s.planAt = never, never
	s.planning, s.moves = false, s.moves[:0]
	s.load = 0
	s.metrics = integrals{}
	s.heap = s.heap[:0]
	s.multi, s.spare = s.multi[:0], s.spare[:0]
	s.place.reset(opts.Placement, c)
	s.reach.forget()
	s.plan.s = s

	n := 0
	if state != nil {
		n = len(state.Jobs)
	}
	arrivals := []workload.Job(nil)
	if w != nil {
		arrivals = w.Jobs()
	}
	s.base, s.total = ID(n), n+len(arrivals)
	s.jobs = resized(s.jobs, s.total)[:n]
	clear(s.jobs) // none has ended, as far as the policy can see
	s.expect()
	most := workload.GPUs(c.TotalGPUs())
	for i := range arrivals {
		if a := &arrivals[i]; a.GPUs > most {
			return fmt.Errorf("simulate: job %q asks for %d GPUs and the cluster has %d: leave it out (--skip-wider) or enlarge the cluster", a.ID, a.GPUs.Whole(), c.TotalGPUs())
		}
	}
	s.budget = opts.EventBudget
	if s.budget == 0 {
		s.budget = 1000*s.total + 10_000
	}
	if err := s.enrol(); err != nil {
		return err
	}
	s.forgetDelays()
	s.use(p)
	if n > 0 {
		s.restore(left)
		s.planNextRound() // a decision may have been due between rounds
	}
	return nil
}

var defaultModels = DefaultModels()

// use gives the policy the active jobs as if it had always been there.
func (s *Sim) use(p Policy) {
	s.policy = p
	s.quanta, _ = p.(Quantumed)
	s.report, _ = p.(Reporter)
	p.Reset(s)
}

// Run goes on until every job has ended. An error names the stuck job.
func (s *Sim) Run(ctx context.Context) error { return s.RunUntil(ctx, never) }

// RunUntil goes on until every job has ended or everything up to and including
// an instant has happened. Time stops with the last end.
func (s *Sim) RunUntil(ctx context.Context, until time.Duration) error {
	asked := false
	for i := 0; ; i++ {
		if i&0xfff == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		t := min(s.heap.peek(s.jobs), s.wake, s.arrives)
		if s.planAt < t {
			if s.planAt > until {
				break
			}
			s.advance(s.planAt)
			if err := s.decide(); err != nil {
				return err
			}
			continue
		}
		if t == never {
			if s.active == 0 {
				break
			}
			if asked {
				return s.stuck()
			}
			// Nothing will happen by itself: ask once more before giving up.
			asked = true
			if err := s.decide(); err != nil {
				return err
			}
			continue
		}
		asked = false
		if t > until {
			break
		}
		s.advance(t)
		if err := s.happen(t); err != nil {
			return err
		}
		s.planAt = s.ceil(t)
	}
	if until != never && until > s.now && !s.Done() {
		s.advance(until)
	}
	return nil
}

// decide asks the policy for a plan. Having moved somebody, it may want to move
// more the next time, so the next round is not skipped.
func (s *Sim) decide() error {
	s.planAt, s.moved = never, -1
	s.planning = true
	s.policy.Plan(&s.plan)
	s.planning = false
	for _, id := range s.moves {
		if j := &s.jobs[id]; j.next != never {
			s.heap.push(heapItem{j.next, id})
		}
		s.jobs[id].noted = false
	}
	s.moves = s.moves[:0]
	if s.moved < 0 || s.opts.Round <= 0 {
		return nil
	}
	s.planAt = s.ceil(s.now + 1)
	return s.count(s.moved) // so that going round in circles ends
}

// happen takes everything of an instant in: ends and quanta in order of ID,
// then arrivals, then the wake-up.
func (s *Sim) happen(t time.Duration) error {
	s.due = s.due[:0]
	for len(s.heap) > 0 && s.heap[0].at == t {
		s.due = append(s.due, s.heap.pop().id)
	}
	slices.Sort(s.due)
	for _, id := range s.due {
		j := &s.jobs[id]
		if j.next != t {
			continue // stale
		}
		j.next = never
		if err := s.count(id); err != nil {
			return err
		}
		if j.ends <= t {
			s.finish(id)
			continue
		}
		j.quantum = never
		if s.quanta != nil {
			s.quanta.Quantum(id)
		}
		s.schedule(id)
	}
	for s.arrives == t {
		if err := s.arrive(); err != nil {
			return err
		}
	}
	if s.wake == t {
		s.wake = never
		return s.count(-1)
	}
	return nil
}

// expect sets the instant of the next arrival.
func (s *Sim) expect() {
	s.arrives = never
	if len(s.jobs) < s.total {
		s.arrives = s.w.Jobs()[len(s.jobs)-int(s.base)].Submit
	}
}

// arrive makes the next job active. Jobs to come have no record, so that what is
// not simulated (beyond a horizon, in a fork) costs nothing.
func (s *Sim) arrive() error {
	id := ID(len(s.jobs))
	a := &s.w.Jobs()[id-s.base]
	s.jobs = append(s.jobs, job{submit: a.Submit, work: a.Duration, left: a.Duration, floor: a.Duration, since: a.Submit, load: s.load, first: -1, rate: 1, share: 1,
		quantum: never, next: never, gpus: int32(a.GPUs.Whole()), members: int32(a.Size()), relaxed: a.Size() > 1, node: -1, multi: -1, partner: -1, tenant: s.tenantAt(id), class: -1, burden: -1})
	s.expect()
	if err := s.count(id); err != nil {
		return err
	}
	s.enter(&s.jobs[id], 1)
	s.await(&s.jobs[id], 1)
	if len(s.jobs) == s.total {
		s.metrics.lastSubmit(s)
	}
	s.policy.Admit(id, Seen{})
	s.tell(workload.Submitted, id)
	return nil
}

// count counts an event, of a job or, with -1, of the policy alone.
func (s *Sim) count(id ID) error {
	if s.events++; s.events > s.budget {
		for i := ID(0); id < 0; i++ {
			if i == s.Submitted() {
				return fmt.Errorf("%w after %d events at %v: no job is active", ErrBudget, s.budget, s.now)
			}
			if s.JobActive(i) {
				id = i
			}
		}
		return fmt.Errorf("%w after %d events at %v: job %q has %v of %v left", ErrBudget, s.budget, s.now, s.JobName(id), s.jobs[id].left, s.jobs[id].work)
	}
	return nil
}

func (s *Sim) stuck() error {
	for i := range s.jobs {
		if j := &s.jobs[i]; j.phase == pending {
			return fmt.Errorf("simulate: job %q (%d GPUs, waiting since %v) can never start: nothing runs or arrives any more and the policy does not start it", s.JobName(ID(i)), j.gpus, j.since)
		}
	}
	for i := range s.jobs {
		if s.jobs[i].phase == running {
			return fmt.Errorf("simulate: job %q runs without progress and can never end", s.JobName(ID(i)))
		}
	}
	return errors.New("simulate: active jobs are neither waiting nor running")
}

// ceil is the first decision instant at or after t.
func (s *Sim) ceil(t time.Duration) time.Duration {
	if s.opts.Round <= 0 {
		return t
	}
	return nextTick(t, s.opts.Round)
}

// nextTick is the first multiple of a length at or after t.
func nextTick(t, length time.Duration) time.Duration {
	m := t % length
	if m > 0 {
		m -= length
	}
	return t - m
}

func (s *Sim) advance(t time.Duration) {
	if t == s.now {
		return
	}
	dt := (t - s.now).Seconds()
	s.load += float64(float64(s.active) * dt)
	s.metrics.add(s, dt)
	if s.opts.Attribute {
		s.attribute(t - s.now)
	}
	if s.opts.Series != nil {
		s.opts.Series.add(s, t)
	}
	s.now = t
}

// settle counts a running job's progress and service up to now. It is done
// where its pace changes and at the end of a spell only, so that asking about a job never changes how its
// progress is rounded.
func (s *Sim) settle(j *job) {
	j.attained = s.attainedNow(j)
	j.left = s.leftNow(j)
	j.restart += s.idleNow(j)
	j.mark = s.now
}

// idleNow is how long a running job has made no progress since mark, because it
// restarts.
func (s *Sim) idleNow(j *job) time.Duration {
	return max(0, min(s.now, j.ready)-j.mark)
}

func (s *Sim) attainedNow(j *job) time.Duration {
	held := s.now - j.mark
	if s.opts.RestartOutsideService {
		held -= s.idleNow(j)
	}
	return j.attained + held*time.Duration(j.held)
}

func (s *Sim) leftNow(j *job) time.Duration {
	if s.now >= j.ends {
		return 0
	}
	progress := s.now - j.mark - s.idleNow(j)
	if j.rate != 1 {
		progress = time.Duration(math.Round(float64(progress) * j.rate))
	}
	if s.opts.Clock > 0 {
		return max(0, j.left-progress) // done, and not found out yet
	}
	return max(1, j.left-progress)
}

// run sets when a job that now runs will end, from its work left and its speed.
func (s *Sim) run(id ID) {
	j := &s.jobs[id]
	span, from := j.left, max(j.mark, j.ready)
	if j.rate != 1 {
		// One that makes next to no progress does not end by itself.
		span = never - max(from, 0)
		if spell := math.Ceil(float64(j.left) / j.rate); spell < float64(span) {
			span = time.Duration(spell)
		}
	}
	j.ends = from + span
	if c := s.opts.Clock; c > 0 && j.ends < never-2*c {
		j.ends = nextTick(j.ends, c) + c
	}
	s.schedule(id)
}

// schedule puts the running job's next event into the heap.
func (s *Sim) schedule(id ID) {
	j := &s.jobs[id]
	t := min(j.ends, j.quantum)
	if t == j.next {
		return
	}
	j.next = t
	switch {
	case s.gathering:
	case !s.planning:
		s.heap.push(heapItem{t, id})
	case !j.noted:
		j.noted = true
		s.moves = append(s.moves, id)
	}
}

func (s *Sim) start(id ID, gpus int) bool {
	j := &s.jobs[id]
	if j.phase != pending {
		panic(fmt.Sprintf("simulator: policy starts job %d, which is not waiting", id))
	}
	if !s.seat(id, gpus) {
		return false
	}
	s.begins(id)
	return true
}

// begins makes a job that has its GPUs run.
func (s *Sim) begins(id ID) {
	j := &s.jobs[id]
	s.await(j, -1)
	j.waited += s.now - j.since
	j.phase, j.since, j.mark, j.ready, j.quantum = running, s.now, s.now, s.now, never
	if j.starts == 0 {
		j.first = s.now
	}
	kind := workload.Started
	if j.starts > 0 {
		kind = workload.Resumed
		if !s.opts.NoRestartCost && !s.opts.RestartAsWork {
			j.ready = s.now + s.opts.Models.Restart(int(j.held/j.members))
		}
	}
	j.starts++
	s.moved = id
	s.run(id)
	s.tell(kind, id)
}

// seat finds and takes a place for a number of GPUs and sets the speed there.
func (s *Sim) seat(id ID, g int) bool {
	j := &s.jobs[id]
	if !s.allows(j, g) {
		return false
	}
	if s.place.mode == Count {
		if g > s.place.idle {
			return false
		}
		s.place.count(g)
		j.held = int32(g)
		s.charge(j)
		s.pace(id)
		return true
	}
	if j.members > 1 && g == int(j.gpus) {
		return s.seatEach(id)
	}
	s.scratch = s.place.find(s.scratch[:0], g, j.pool, j.relaxed)
	if len(s.scratch) == 0 {
		return false
	}
	s.occupy(id, s.scratch)
	return true
}

// seatEach finds a place for every member of a group, or for none.
func (s *Sim) seatEach(id ID) bool {
	j := &s.jobs[id]
	if int(j.gpus) > s.place.total[j.pool] {
		return false
	}
	each, full, ok := int(j.gpus/j.members), s.place.full[j.pool], true
	s.scratch = s.scratch[:0]
	for range j.members {
		from := len(s.scratch)
		s.scratch = s.place.find(s.scratch, each, j.pool, false)
		if ok = len(s.scratch) > from; !ok {
			break
		}
		for _, n := range s.scratch[from:] {
			s.place.take(n.Node, n.GPUs)
		}
	}
	for _, n := range s.scratch { // occupy takes them again, by node
		s.place.give(n.Node, n.GPUs)
	}
	s.place.full[j.pool] = full // nothing has changed
	if ok {
		s.occupy(id, merged(s.scratch))
	}
	return ok
}

// merged adds up the GPUs on each node, in place.
func merged(at []workload.NodeGPUs) []workload.NodeGPUs {
	out := at[:0]
	for _, n := range at {
		if k := slices.IndexFunc(out, func(o workload.NodeGPUs) bool { return o.Node == n.Node }); k >= 0 {
			out[k].GPUs += n.GPUs
		} else {
			out = append(out, n)
		}
	}
	return out
}

// occupy takes the GPUs of a placement, which must be free.
func (s *Sim) occupy(id ID, at []workload.NodeGPUs) {
	j := &s.jobs[id]
	j.held = 0
	for _, n := range at {
		s.place.take(n.Node, n.GPUs)
		j.held += int32(n.GPUs)
	}
	s.charge(j)
	s.sit(id, at)
}

// sit notes where a job is.
func (s *Sim) sit(id ID, at []workload.NodeGPUs) {
	j := &s.jobs[id]
	if len(at) == 1 {
		j.node = int32(at[0].Node)
	} else {
		if n := len(s.spare); n > 0 {
			j.multi, s.spare = s.spare[n-1], s.spare[:n-1]
		} else {
			j.multi = int32(len(s.multi))
			if cap(s.multi) > len(s.multi) {
				s.multi = s.multi[:len(s.multi)+1]
			} else {
				s.multi = append(s.multi, nil)
			}
		}
		s.multi[j.multi] = append(s.multi[j.multi][:0], at...)
	}
	fewest := (int(j.held) + s.place.perNode - 1) / s.place.perNode
	j.spread = len(at) > fewest && j.members == 1 // members need not be together
	j.strayed = j.strayed || j.spread
	s.pace(id)
}

// pace sets a job's rate of progress from its place, its GPUs and its partner.
func (s *Sim) pace(id ID) {
	j := &s.jobs[id]
	j.rate = j.share
	if j.spread {
		if d := s.opts.Models.Classes[s.JobClass(id)].Slowdown; d > 1 {
			j.rate /= d
		}
	}
	if j.held != j.gpus {
		j.rate *= s.opts.Models.speedup(s.JobClass(id), int(j.gpus), int(j.held))
	}
}

// seats is where a job runs (or ran until it was vacated).
func (s *Sim) seats(dst []workload.NodeGPUs, j *job) []workload.NodeGPUs {
	switch {
	case j.multi >= 0:
		return append(dst, s.multi[j.multi]...)
	case j.node >= 0:
		return append(dst, workload.NodeGPUs{Node: int(j.node), GPUs: int(j.held)})
	}
	return dst
}

// vacate frees a running job's GPUs but remembers where they are.
func (s *Sim) vacate(id ID) {
	j := &s.jobs[id]
	if j.phase != running || j.vacated {
		panic(fmt.Sprintf("simulator: policy stops job %d, which is not running", id))
	}
	j.vacated = true
	s.release(id)
}

func (s *Sim) release(id ID) {
	j := &s.jobs[id]
	s.withdraw(id)
	s.discharge(j)
	if j.partner >= 0 {
		return // the partner keeps them
	}
	switch {
	case s.place.mode == Count:
		s.place.count(-int(j.held))
	case j.multi >= 0:
		for _, n := range s.multi[j.multi] {
			s.place.give(n.Node, n.GPUs)
		}
	default:
		s.place.give(int(j.node), int(j.held))
	}
}

func (s *Sim) forget(j *job) {
	if j.multi >= 0 {
		s.spare = append(s.spare, j.multi)
	}
	j.node, j.multi = -1, -1
}

// reclaim lets a vacated job run on if its GPUs are still free and its tenant
// may still have them, and reports whether it does.
func (s *Sim) reclaim(j *job) bool {
	if s.allows(j, int(j.held)) {
		s.retake(j)
	}
	return !j.vacated
}

// retake gives a vacated job its GPUs back if they are still free.
func (s *Sim) retake(j *job) {
	switch {
	case j.partner >= 0: // it never left
	case s.place.mode == Count:
		if int(j.held) > s.place.idle {
			return
		}
		s.place.count(int(j.held))
	case j.multi >= 0:
		for _, n := range s.multi[j.multi] {
			if int(s.place.free[n.Node]) < n.GPUs || s.place.pool[n.Node] != j.pool {
				return
			}
		}
		for _, n := range s.multi[j.multi] {
			s.place.take(n.Node, n.GPUs)
		}
	default:
		if s.place.free[j.node] < uint16(j.held) || s.place.pool[j.node] != j.pool {
			return
		}
		s.place.take(int(j.node), int(j.held))
	}
	s.charge(j)
	j.vacated = false
}

// evict makes a vacated job wait.
func (s *Sim) evict(id ID) {
	j := &s.jobs[id]
	s.settle(j)
	s.part(j)
	s.forget(j)
	j.vacated = false
	j.phase, j.since, j.next, j.quantum = pending, s.now, never, never
	j.preempts++
	if s.opts.Series != nil {
		s.opts.Series.stopped++
	}
	if s.opts.PerTenant {
		s.tenants[j.tenant].stopped++
	}
	if s.opts.RestartAsWork && !s.opts.NoRestartCost {
		cost := s.opts.Models.Restart(int(j.held / j.members))
		j.left += cost
		j.restart += cost
	}
	s.moved = id
	s.await(j, 1)
	s.tell(workload.Preempted, id)
}

func (s *Sim) finish(id ID) {
	j := &s.jobs[id]
	s.settle(j)
	s.release(id)
	s.part(j)
	s.forget(j)
	j.phase, j.ends = done, s.now
	if life := (s.now - j.submit).Seconds(); life > 0 {
		j.load = (s.load - j.load) / life
	} else {
		j.load = float64(s.active)
	}
	s.enter(j, -1)
	s.finished++
	s.policy.Finish(id)
	s.tell(workload.Finished, id)
}

func (s *Sim) tell(k workload.EventKind, id ID) {
	if s.opts.Observer == nil {
		return
	}
	e := Event{Kind: k, Time: s.now, Job: id}
	if s.report != nil && k != workload.Finished && k != workload.Submitted {
		e.Seen = s.report.Report(id)
	}
	s.opts.Observer(e)
}

// SetQuantum names the instant at which the policy wants to be called for a
// running job; it replaces an earlier one. An instant that is not in the future
// means the next nanosecond.
func (s *Sim) SetQuantum(id ID, at time.Duration) {
	j := &s.jobs[id]
	if j.phase != running {
		panic(fmt.Sprintf("simulator: policy sets a quantum for job %d, which is not running", id))
	}
	j.quantum = max(at, s.now+1)
	s.schedule(id)
}

// WakeAt asks for a Plan at an instant, if nothing else brings an earlier one.
// Several requests keep the earliest.
func (s *Sim) WakeAt(at time.Duration) { s.wake = min(s.wake, max(at, s.now)) }
