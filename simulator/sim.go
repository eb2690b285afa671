package simulator

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/autosched/autosched/workload"
)

const never = time.Duration(math.MaxInt64)

type phase uint8

const (
	pending phase = iota
	running
	done
)

// cut is a reason for which a job ends with work left.
type cut uint8

const (
	uncut     cut = iota
	atLimit       // its time limit
	cancelled     // Plan.Cancel
)

// job is the loop's record of a job. Times are instants unless they say span.
// It is three cache lines: the fields that plans read, the fields that change with a job's rate,
// and the rest.
type job struct {
	next    time.Duration // its event in the heap
	ends    time.Duration // if it runs on; when it did, once it is done
	quantum time.Duration
	gpus    int32 // asked for
	members int32 // equal jobs that it stands for, 1 is itself
	held    int32 // granted; differs from gpus for elastic jobs only
	node    int32 // its only node, -1 if several or counted only
	multi   int32 // index in Sim.multi, -1 if none
	partner int32 // on the same GPUs, -1 if none
	tenant  int32 // index in Sim.tenants, -1 if they do not matter
	class   int16 // index of Models.Classes, -1 until it is drawn
	burden  int16 // index of Models.Loads, likewise
	phase   phase
	pool    uint8
	relaxed bool
	spread  bool
	vacated bool
	noted   bool // is in Sim.moves
	shares  bool // has a partner, or its speed still
	host    bool // was on the GPUs before its partner

	left     time.Duration // span of work left at mark
	mark     time.Duration // up to where left and attained are counted
	ready    time.Duration // a restart makes no progress before it; a waiting job may not start before it
	since    time.Duration // start of the present spell
	waited   time.Duration // span, spells before the present one
	attained time.Duration // GPU-time
	rate     float64       // progress per time
	share    float64       // factor on the rate while GPUs are shared

	work      time.Duration // span; all of it, at rate 1
	first     time.Duration // first start
	restart   time.Duration // span held without progress
	floor     time.Duration // span; the least JCT, see Outcome.Floor
	load      float64       // integral of the number of active jobs at submission; once done, its mean since
	starts    int32
	preempts  int32
	limit     time.Duration // when it reaches its time limit, or the span left of that while it waits; or never
	strayed   bool          // spread in some spell
	cut       cut           // why it ends, or ended, with work left
	anew      bool          // the last preemption lost its progress
	asks      bool          // has a request
	aside     bool          // the policy does not know it yet (postpone)
	firstPool int8          // View.JobFirstPool
	where     uint16        // index in placer.constraints
}

// Sim is one simulation. Its memory is reused by the next Start or Resume.
// It is not safe for concurrent use; forks are independent.
type Sim struct {
	View   // readable by policies
	policy Policy
	quanta Quantumed // policy, nil if it is none
	freed  Freed     // policy, nil if it is none
	holds  Holding   // policy, nil if it is none
	report Reporter  // policy, nil if it is none
	evenly bool      // policy is Scattered
	plan   Plan
	oracle Oracle // of the View, for Clairvoyant policies
}

// inputs are the arguments of a run. They must not change during a run.
type inputs struct {
	opts    Options
	cluster workload.Cluster   // nodes that take jobs
	gpus    int                // of the cluster, nodes that are down included
	w       *workload.Workload // future arrivals
	state   *workload.State    // the jobs before them, nil after Start
	base    ID                 // jobs[base:] are the workload's
	total   int                // jobs, with later ones
	budget  int                // of events
	// overtime is the policy's, if it is Lenient: the limits of jobs include it.
	overtime time.Duration
}

// counters are values without memory of their own.
type counters struct {
	now      time.Duration
	began    time.Duration
	arrives  time.Duration // the next submission, never if there is none
	changes  time.Duration // the next node event, likewise
	changed  int           // node events so far
	wake     time.Duration // requested by the policy, never if it requested none
	planAt   time.Duration // never if nothing happened since the last plan
	moved    ID            // last job that the present plan started or preempted, -1 for none
	active   int           // jobs, members of groups counted
	waiting  int           // jobs
	queued   int           // GPUs that waiting jobs ask for
	finished int           // jobs
	events   int
	common   int     // GPUs held beyond quotas
	shared   int     // GPUs of no quota
	load     float64 // integral of active jobs over time, in seconds
	pastRead bool    // Options.Past was
	metrics  integrals
}

// records describe jobs, GPUs and tenants.
type records struct {
	jobs      []job                 // submitted ones
	multi     [][]workload.NodeGPUs // placements on several nodes
	spare     []int32               // unused entries of multi
	place     placer
	kinds     kinds
	tenants   []tenant
	tenantsOf []int32 // by job, with later ones; empty if tenants do not matter
	classes   lottery
	loads     lottery
	drawn     []Draw // by job, as far as Options.Meter measured; empty without it
	sleep     sleep
	deferral  deferral
}

// buffers are memory that means nothing to another simulation: scratch, and derived data
// that is rebuilt from the records.
type buffers struct {
	heap     eventHeap // next events of running jobs
	sweepAt  int       // length from which stale items are removed
	deferred bool      // next events are only noted in jobs, until rebuildHeap
	planning bool      // next events are noted in moves, until the plan is complete
	moves    []ID      // jobs whose next event changed, possibly with repetitions

	reach     reach
	room      Room
	tenantOf  map[string]int32 // by name, while a run begins
	nodes     []workload.NodeGPUs
	metered   []workload.NodeGPUs
	full      []uint64   // of allocateMembers
	due       []ID       // of one instant
	handover  []handover // to the next policy
	stoppable []ID       // not protected
	cleared   []ID       // vacated by clearNodes
	preempted []ID       // by the last exchange
	column    []float64  // of outcomes
}

// Start begins a run of all of w's jobs on an empty cluster, at the first
// submission.
func (s *Sim) Start(c workload.Cluster, w *workload.Workload, p Policy, opts Options) error {
	if w.Len() == 0 {
		return fmt.Errorf("simulate %s: the workload has no jobs", w.Name())
	}
	first, _ := w.Span()
	return s.begin(first, c, nil, nil, w, p, opts)
}

// Resume begins a run at state.At from the observed state of a live cluster,
// followed by w's jobs, which may not be submitted before it (w may be nil).
// left[i] is the work that state.Jobs[i] still has to do, as the caller
// predicts it; at least a nanosecond is assumed. A running job whose
// placement does not fit the cluster, or is not reported and finds no place,
// waits. Nodes that are down or draining in the state are so until Options.Nodes says
// otherwise.
func (s *Sim) Resume(state *workload.State, left []time.Duration, w *workload.Workload, p Policy, opts Options) error {
	if len(left) != len(state.Jobs) {
		return fmt.Errorf("resume: %d remaining durations for %d jobs", len(left), len(state.Jobs))
	}
	if w != nil && w.Len() > 0 {
		if first, _ := w.Span(); first < state.At {
			return fmt.Errorf("resume: job %q is submitted at %v, before the state's instant %v",
				w.Jobs()[0].ID, first, state.At)
		}
	}
	return s.begin(state.At, state.Cluster, state, left, w, p, opts)
}

func (s *Sim) begin(at time.Duration, c workload.Cluster, state *workload.State, left []time.Duration,
	w *workload.Workload, p Policy, opts Options) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if opts.Models == nil {
		opts.Models = defaultModels
	}
	if opts.Round < 0 {
		return fmt.Errorf("simulate: round: %v is negative", opts.Round)
	}
	if opts.Peer.Clock < 0 {
		return fmt.Errorf("simulate: clock: %v is negative", opts.Peer.Clock)
	}
	if opts.Epilog < 0 {
		return fmt.Errorf("simulate: epilog: %v is negative", opts.Epilog)
	}
	if opts.Wake < 0 {
		return fmt.Errorf("simulate: wake: %v is negative", opts.Wake)
	}
	if sleeps(p) && opts.Placement == Count {
		return errors.New("simulate: sleep: placement by counts knows no nodes: use another placement")
	}
	if opts.Placement == Count && len(c.Groups) > 1 {
		return fmt.Errorf("simulate: placement by counts takes a cluster of one group of nodes, this is %v", c)
	}
	if opts.Series != nil {
		if err := opts.Series.validate(&opts); err != nil {
			return err
		}
		opts.Series.begin(c.TotalGPUs())
	}
	s.opts, s.cluster, s.gpus, s.w, s.state = opts, c, c.TotalGPUs(), w, state
	opts.Models.lotteries(&s.classes, &s.loads)
	s.now, s.began = at, at
	s.active, s.waiting, s.queued, s.events, s.finished = 0, 0, 0, 0, 0
	s.wake, s.planAt = never, never
	s.deferred, s.planning, s.moves = false, false, s.moves[:0]
	s.load, s.pastRead = 0, false
	s.metrics = integrals{}
	s.heap, s.sweepAt = s.heap[:0], sweepLength(0)
	s.multi, s.spare, s.drawn = s.multi[:0], s.spare[:0], s.drawn[:0]
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
	s.beginRations(arrivals)
	s.jobs = resized(s.jobs, s.total)[:n]
	clear(s.jobs) // to a policy, none has ended
	s.nextArrival()
	for i := range arrivals {
		if err := s.checkFits(&arrivals[i]); err != nil {
			return err
		}
	}
	s.budget = opts.EventBudget
	if s.budget == 0 {
		s.budget = 1000*s.total + 10_000
	}
	if err := s.initTenants(); err != nil {
		return err
	}
	s.kinds.reset()
	s.sleep.on, s.sleep.after, s.sleep.naps, s.sleep.drawn = false, never, s.sleep.naps[:0], Draw{}
	s.sleep.empty = s.sleep.empty[:0]
	s.deferral = deferral{}
	if err := s.beginNodes(); err != nil {
		return err
	}
	s.use(s.unwrapped(p))
	if n > 0 {
		s.restore(left)
		s.planNextRound() // a decision may have been due between rounds
	}
	return nil
}

// checkFits refuses a job that does not fit the cluster.
func (s *Sim) checkFits(j *workload.Job) error {
	where := s.constraintOf(j)
	if s.cluster.Fits(j) {
		return nil
	}
	total := s.gpus
	if where == 0 && len(s.cluster.Groups) == 1 {
		return fmt.Errorf("simulate: job %q asks for %d GPUs and the cluster has %d: "+
			"leave it out (--skip-wider) or enlarge the cluster", j.ID, j.GPUs.Whole(), total)
	}
	asked, r := fmt.Sprintf("%d GPUs", j.GPUs.Whole()), j.Request()
	if r.NodeCount > 0 {
		asked += fmt.Sprintf(" on %d nodes", r.NodeCount)
	}
	if r.GPUModel != "" {
		asked += fmt.Sprintf(" of model %q", r.GPUModel)
	}
	if r.Partition != "" {
		asked += fmt.Sprintf(" in partition %q", r.Partition)
	}
	if s.cluster.Rationed() && (r.MilliCPUs > 0 || r.Memory > 0) {
		asked += fmt.Sprintf(" with %g CPUs and %.1f GiB of memory", float64(r.MilliCPUs)/1000,
			float64(r.Memory)/(1<<30))
	}
	return fmt.Errorf("simulate: job %q asks for %s, which no group of nodes has; the cluster is %v: "+
		"leave it out (--skip-wider) or enlarge a group", j.ID, asked, s.cluster)
}

// constraintOf is the index of a job's requirement on its nodes.
func (s *Sim) constraintOf(j *workload.Job) uint16 {
	if j.Requested == (workload.Requested{}) && !s.place.rationed() {
		return 0
	}
	if r := j.Request(); r.GPUModel == "" && r.Partition == "" && r.NodeCount == 0 && !s.place.rationed() {
		return 0
	}
	return s.place.constraint(&s.cluster, j)
}

var defaultModels = DefaultModels()

// use gives the policy the active jobs as if it had always been there.
func (s *Sim) use(p Policy) {
	s.policy = p
	s.quanta, _ = p.(Quantumed)
	s.freed, _ = p.(Freed)
	s.holds, _ = p.(Holding)
	s.report, _ = p.(Reporter)
	_, s.evenly = p.(Scattered)
	if c, ok := p.(Clairvoyant); ok {
		s.oracle.v = &s.View
		c.Foresee(&s.oracle)
	}
	p.Reset(&s.View, &s.plan)
	s.overtime = 0
	if l, ok := p.(Lenient); ok {
		s.overtime = l.Overtime()
	}
}

// Len is the number of jobs of the run, past, active and future.
func (s *Sim) Len() int { return s.total }

// Done reports whether every job has ended.
func (s *Sim) Done() bool { return s.finished == s.total }

// Events is the number of events so far.
func (s *Sim) Events() int { return s.events }

// Spec is the job as its workload or state describes it. The caller must not
// change it.
func (s *Sim) Spec(id ID) *workload.Job { return s.spec(id) }

// JobLeft is the work the job still has to do.
func (s *Sim) JobLeft(id ID) time.Duration { return s.jobLeft(id) }
