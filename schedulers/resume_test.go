package schedulers_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// The observable state of a cluster at an instant must suffice to go
// on from it: the live simulation below stands for the
// cluster, its observer for the events a scheduler sends, and a ledger for the
// controller's memory.

// live is a simulation whose events are written to a ledger as a scheduler
// would tell them: nothing else of it is known outside.
type live struct {
	sim    simulator.Sim
	policy simulator.Policy
	ledger *workload.Ledger
	log    lives
	opts   simulator.Options
}

// happening is an event of a job.
type happening struct {
	Kind  workload.EventKind
	Time  time.Duration
	Seats string
}

func (h happening) String() string {
	return fmt.Sprintf("%v at %d ns %s", h.Kind, int64(h.Time), h.Seats)
}

// lives are the happenings of each job, by its name.
type lives map[string][]happening

func (l lives) add(s *simulator.Sim, e simulator.Event) {
	h := happening{Kind: e.Kind, Time: e.Time}
	if e.Kind == workload.Started || e.Kind == workload.Resumed || e.Kind == workload.Resized {
		h.Seats = fmt.Sprint(s.Placement(nil, e.Job))
	}
	name := s.JobName(e.Job)
	l[name] = append(l[name], h)
}

// after keeps events later than an instant.
func (l lives) after(t time.Duration) lives {
	out := lives{}
	for name, all := range l {
		i := slices.IndexFunc(all, func(h happening) bool { return h.Time > t })
		if i >= 0 {
			out[name] = all[i:]
		}
	}
	return out
}

func (l lives) count() (n int) {
	for _, all := range l {
		n += len(all)
	}
	return n
}

func (l lives) resizes() (n int) {
	for _, all := range l {
		for _, h := range all {
			if h.Kind == workload.Resized {
				n++
			}
		}
	}
	return n
}

func startLive(t *rapid.T, c trial) *live {
	l := &live{ledger: workload.NewLedger(c.cluster), log: lives{}, policy: c.scheduler.New(c.config), opts: c.opts}
	sent := 0
	l.opts.Observer = func(e simulator.Event) {
		sent++
		if e.Kind.OfNode() {
			l.ledger.Apply(workload.Event{ID: fmt.Sprintf("%08d", sent), Kind: e.Kind, Time: e.Time,
				Node: fmt.Sprint(e.Node), NodeGPUs: l.sim.NodeGPUs(e.Node)})
			return
		}
		l.log.add(&l.sim, e)
		out := workload.Event{ID: fmt.Sprintf("%08d", sent), Kind: e.Kind, Time: e.Time,
			LevelAttained: e.Seen.LevelAttained, HasLevel: e.Seen.HasLevel, LeaseUntil: e.Seen.LeaseUntil,
			Lost: e.Lost, HoldUntil: e.HoldUntil}
		out.Job.ID = l.sim.JobName(e.Job)
		switch e.Kind {
		case workload.Submitted:
			out.Job = *l.sim.Spec(e.Job)
			out.Job.Duration = 0
			out.Pool = l.sim.JobPool(e.Job)
		case workload.Started, workload.Resumed:
			out.Placement = workload.Shares(l.sim.Placement(nil, e.Job))
			out.Pool = l.sim.JobPool(e.Job)
			if with := l.sim.JobPartner(e.Job); with >= 0 {
				out.SharesWith = l.sim.JobName(with)
			}
		case workload.Resized:
			out.Placement = workload.Shares(l.sim.Placement(nil, e.Job))
			out.Job.GPUs = workload.GPUs(l.sim.JobHeld(e.Job))
		}
		if err := out.Validate(); err != nil {
			t.Fatal(err)
		}
		l.ledger.Apply(out)
	}
	if err := l.sim.Start(c.cluster, c.w, l.policy, l.opts); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *live) runTo(t *rapid.T, at time.Duration) {
	if err := l.sim.RunUntil(context.Background(), at); err != nil {
		t.Fatalf("until %v: %v", at, err)
	}
}

// observe is the cluster as a controller knows it, and how long each active
// job really still runs, which no controller knows.
func (l *live) observe(t *rapid.T, c trial) (*workload.State, []time.Duration) {
	state := l.ledger.State(l.sim.Now())
	left := make([]time.Duration, len(state.Jobs))
	last := simulator.ID(-1)
	for i := range state.Jobs {
		id := c.id(state.Jobs[i].ID)
		if id <= last {
			t.Fatalf("the state has %s out of order", state.Jobs[i].ID)
		}
		last = id
		left[i] = l.sim.JobLeft(id)
	}
	if len(left) != l.sim.Active() {
		t.Fatalf("%d jobs in the state, %d active", len(left), l.sim.Active())
	}
	return &state, left
}

// past is a controller's memory of ended jobs.
func (l *live) past(c trial) *simulator.Past {
	ended := l.ledger.Finishes(math.MinInt64, l.sim.Now()+1)
	slices.SortFunc(ended, func(a, b workload.Finish) int {
		if a.End == b.End {
			return int(c.id(a.ID) - c.id(b.ID))
		}
		return int(a.End - b.End)
	})
	out := make([]simulator.EndedJob, len(ended))
	for i, f := range ended {
		out[i] = simulator.EndedJob{Submit: f.Submit, End: f.End, Key: f.Key, Tenant: f.Tenant, GPUs: f.GPUs.Whole(),
			RunTime: f.RunTime + f.Lost, User: f.User, Requested: f.Requested}
	}
	return simulator.NewPast(out)
}

// learnsUnseen reports whether the policy learns from services that events do not
// tell: these tell how long GPUs were held.
func (c trial) learnsUnseen() bool {
	return c.opts.Peer.RestartOutsideService && c.scheduler.Name == "tiresias" &&
		c.config.Get("priority").Text() == "gittins"
}

func (c trial) id(name string) simulator.ID {
	return simulator.ID(slices.IndexFunc(c.w.Jobs(), func(j workload.Job) bool { return j.ID == name }))
}

// resume goes on from an observation with the rest of the arrivals.
func (c trial) resume(sim *simulator.Sim, state *workload.State, left []time.Duration) (lives, error) {
	log := lives{}
	opts := c.opts
	opts.Observer = func(e simulator.Event) {
		if e.Kind.OfJob() {
			log.add(sim, e)
		}
	}
	rest := c.w.Window(state.At+1, math.MaxInt64)
	if err := sim.Resume(state, left, rest, c.scheduler.New(c.config), opts); err != nil {
		return log, err
	}
	return log, sim.Run(context.Background())
}

// outcome is the part of a result that an interruption must not change. The first
// start before a resume, and restarts before it, are not in a State.
type outcome struct {
	End, Wait, Attained time.Duration
	Preemptions         int
	Spread              bool
}

func outcomesByName(s *simulator.Sim, c trial, last lives) map[string]outcome {
	out := map[string]outcome{}
	for _, o := range s.Outcomes(nil) {
		x := outcome{End: o.End, Wait: o.Wait, Attained: o.Attained, Preemptions: o.Preemptions, Spread: o.Spread}
		if c.opts.Peer.RestartOutsideJCT {
			x.End = 0 // restarts before the resume are not known; last has the true end
		}
		if c.opts.Peer.RestartOutsideService {
			x.Attained = 0 // events tell how long GPUs were held
		}
		if _, ok := last[s.JobName(o.ID)]; ok {
			out[s.JobName(o.ID)] = x
		}
	}
	return out
}

// drawInstant draws an instant of a run: within one nanosecond of an event, or
// anywhere.
func drawInstant(t *rapid.T, all lives) time.Duration {
	var instants []time.Duration
	for _, l := range all {
		for _, h := range l {
			instants = append(instants, h.Time)
		}
	}
	slices.Sort(instants)
	instants = slices.Compact(instants)
	at := instants[uniform(0, len(instants)-1).Draw(t, "event")]
	switch uniform(0, 4).Draw(t, "instant") {
	case 0:
		return max(at-1, instants[0]) // a run begins with the first submission
	case 1:
		return at + 1
	case 2:
		return at
	}
	first, last := instants[0], instants[len(instants)-1]
	return first + time.Duration(uniform(0, int(last-first)).Draw(t, "anywhere"))
}

// uncounted are the schedulers of whose jobs a mere counter of GPUs (Count)
// reports too little to go on, and the missing part. They are interrupted on nodes.
var uncounted = map[string]string{
	"optimus": "how many GPUs a job was started on",
	"pollux":  "how many GPUs a job was started on",
}

// rounded are the schedulers whose jobs progress at other speeds than 1 even
// under evenModels, and why. An observation rounds their progress to a
// nanosecond, as does asking for a size that finds no place, and later times
// may be off by as much each time. Their jobs get
// speeds in odd ratios, so that ends do not meet the instants of decisions.
var rounded = map[string]string{
	"optimus": "the speed on a number of GPUs is what it decides by",
	"pollux":  "the speed on a number of GPUs is what it decides by",
}

// forgetful are the schedulers that act on more than is observed, and on what.
var forgetful = map[string]string{
	"kueue": "when jobs that did not fit are considered again, and which are admitted without GPUs",
}

// diff compares the outcome of an interrupted run with that of one without interruption.
func (c trial) diff(want, got any) string {
	if rounded[c.scheduler.Name] == "" {
		return cmp.Diff(want, got)
	}
	return cmp.Diff(want, got, cmp.Comparer(func(a, b time.Duration) bool { return max(a-b, b-a) <= time.Microsecond }))
}

// undecided skips trials in which rounding decides which of two events comes
// first: one nanosecond decides which job gets the GPUs, and so all that follows.
func (c trial) undecided(t *rapid.T, logs ...lives) {
	if rounded[c.scheduler.Name] == "" {
		return
	}
	for _, l := range logs {
		// Up to two nanoseconds where the observation cuts a spell and at every
		// change of size, to either side.
		if l.closest(c.opts.Round) <= time.Duration(4*(l.resizes()+1)) {
			t.Skip("which of two events comes first hangs on rounding")
		}
	}
}

// evenModels make spread jobs as fast as others, so that every progress is a
// whole number of nanoseconds and results can be compared exactly.
func evenModels() *simulator.Models {
	m := *defaultModels
	m.Classes = slices.Clone(m.Classes)
	for i := range m.Classes {
		m.Classes[i].Slowdown = 1
	}
	return &m
}

// tie makes durations, sizes and gaps of a workload coarse, so that many jobs
// are equal and much happens at the same instants.
func tie(t *rapid.T, w *workload.Workload) *workload.Workload {
	jobs := slices.Clone(w.Jobs())
	for i := range jobs {
		j := &jobs[i]
		j.Submit = j.Submit.Round(20 * time.Minute)
		j.Duration = max(j.Duration.Round(20*time.Minute), 20*time.Minute)
	}
	tied, err := workload.New("tied", w.Zero(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return tied
}

// stallable counts how often a run stalled: since when is not observed.
type stallable struct {
	simulator.Policy
	stalls *int
}

func (s stallable) Freed(j simulator.ID) {
	if f, ok := s.Policy.(simulator.Freed); ok {
		f.Freed(j)
	}
}

func (s stallable) Stalled() {
	*s.stalls++
	s.Policy.(simulator.Stallable).Stalled()
}

// interruptible is a trial on which an observation reports enough to go on.
func interruptible(t *rapid.T, c trial, models *simulator.Models) trial {
	c.opts.Models = models
	if c.learnsUnseen() {
		c.opts.Peer.RestartOutsideService = false
	}
	if c.opts.Placement == simulator.Count && uncounted[c.scheduler.Name] != "" {
		c.opts.Placement = simulator.ConsolidateFewest
	}
	if c.scheduler.Name == "volcano" { // which waiting jobs are let in is not reported
		var err error
		if c.config, err = c.scheduler.Space.Parse(c.config, []string{"actions=allocate,backfill"}); err != nil {
			t.Fatal(err)
		}
	}
	s, inner := *c.scheduler, c.scheduler.New
	if _, stalls := inner(c.config).(simulator.Stallable); stalls {
		c.scheduler, c.stalls = &s, new(int)
		s.New = func(config space.Config) simulator.Policy {
			p := inner(config)
			if x, scatters := p.(simulator.Scattered); scatters {
				return struct {
					stallable
					simulator.Scattered
				}{stallable{p, c.stalls}, x}
			}
			return stallable{p, c.stalls}
		}
	}
	if _, shares := c.scheduler.New(c.config).(simulator.Sharer); shares {
		// Full speed together, so that progress is a whole number of nanoseconds.
		c.opts.Models.Pair = func(a, b int) (float64, float64) { return 1, 1 }
	}
	if rounded[c.scheduler.Name] != "" {
		c.opts.Models.Speed = func(_, gpus int) float64 { return math.Pow(float64(gpus), .8123) }
	}
	return c
}

func forEachInterrupted(t *testing.T,
	property func(t *rapid.T, c trial, whole *live, at time.Duration, used *simulator.Sim)) {
	forEach(t, func(t *rapid.T, c trial, used *simulator.Sim) {
		c = interruptible(t, c, evenModels())
		if rapid.Bool().Draw(t, "ties") {
			c.w = tie(t, c.w)
		}
		if rapid.Bool().Draw(t, "demands") {
			c.w = demanding(t, c)
		}
		whole := startLive(t, c)
		if err := whole.sim.Run(context.Background()); err != nil {
			t.Skip("the run failed")
		}
		property(t, c, whole, drawInstant(t, whole.log), used)
	})
}

// TestResumeContinues: State at T with the true remainders goes on as the
// cluster itself and as a fork of it.
func TestResumeContinues(t *testing.T) {
	testshared.Full(t)
	forEachInterrupted(t, func(t *rapid.T, c trial, cluster *live, at time.Duration, scratch *simulator.Sim) {
		resumeContinues(t, c, cluster, at, scratch)
	})
}

// TestResumeUnderAnotherConfiguration: a candidate simulated from an observation
// acts as the cluster does when it is given that candidate at that instant.
// This is what makes the scores of a tuning round mean something.
func TestResumeUnderAnotherConfiguration(t *testing.T) {
	forEachInterrupted(t, func(t *rapid.T, c trial, _ *live, at time.Duration, _ *simulator.Sim) {
		part := startLive(t, c)
		part.runTo(t, at)
		state, left := part.observe(t, c)
		c.opts.Past = part.past(c)
		if c.config = drawConfig(t, c.scheduler.Space); c.learnsUnseen() {
			t.Skip("it learns what is not observed")
		}
		part.sim.Reconfigure(c.scheduler.New(c.config))
		clear(part.log) // events at this very instant are still to come
		wantErr := part.sim.Run(context.Background())
		got, gotErr := c.resume(new(simulator.Sim), state, left)
		if errors.Is(wantErr, simulator.ErrBudget) || errors.Is(gotErr, simulator.ErrBudget) {
			t.Skip("the budget counts from the begin of a run")
		}
		if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) {
			t.Fatalf("reconfigured, it ends with %v, resumed with %v", wantErr, gotErr)
		}
		c.undecided(t, part.log, got)
		if diff := c.diff(part.log, got); diff != "" {
			t.Fatalf("under %v from %v on (-reconfigured +resumed):\n%s", c.config, at, diff)
		}
	})
}

// view is all that anybody may know of an active job.
type view struct {
	Running              bool
	Seats                string
	Since, Waited        time.Duration
	Attained, Left       time.Duration
	Starts               int
	LevelAttained, Lease time.Duration
}

func look(s *simulator.Sim, p simulator.Policy) map[string]view {
	out := map[string]view{}
	for id := range s.Submitted() {
		if !s.JobActive(id) {
			continue
		}
		v := view{Running: s.JobRunning(id), Seats: fmt.Sprint(s.Placement(nil, id)), Since: s.JobSince(id),
			Waited:   s.JobWaited(id),
			Attained: s.JobAttained(id), Left: s.JobLeft(id), Starts: s.JobStarts(id)}
		if r, ok := p.(simulator.Reporter); ok {
			seen := r.Report(id)
			v.LevelAttained, v.Lease = seen.LevelAttained, seen.LeaseUntil
		}
		out[s.JobName(id)] = v
	}
	return out
}

// TestReconfigureStopsNothing: by itself it starts and stops no job, and
// progress, service and a policy's memory of it stay.
func TestReconfigureStopsNothing(t *testing.T) {
	forEachInterrupted(t, func(t *rapid.T, c trial, _ *live, at time.Duration, _ *simulator.Sim) {
		part := startLive(t, c)
		part.runTo(t, at)
		before := look(&part.sim, part.policy)
		happened := part.log.count()
		config := drawConfig(t, c.scheduler.Space)
		next := c.scheduler.New(config)
		part.sim.Reconfigure(next)
		after := look(&part.sim, next)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("(-before +after):\n%s", diff)
		}
		if now := part.log.count(); now != happened {
			t.Fatalf("%d happenings before, %d after", happened, now)
		}
		if c.opts.Round > 0 {
			return // a decision may be due now
		}
		part.runTo(t, at)
		if now := part.log.count(); now != happened {
			t.Fatalf("nothing has happened since, yet %d happenings became %d", happened, now)
		}
	})
}

// TestForkIsIndependent: neither the fork nor its source sees the other's
// progress, and two forks are equal.
func TestForkIsIndependent(t *testing.T) {
	forEachInterrupted(t, func(t *rapid.T, c trial, whole *live, at time.Duration, used *simulator.Sim) {
		part := startLive(t, c)
		part.runTo(t, at)
		other := drawConfig(t, c.scheduler.Space)
		first, second := new(simulator.Sim), used
		part.sim.Fork(first, c.scheduler.New(other))
		part.sim.Fork(second, c.scheduler.New(other))
		budget := first.Run(context.Background())
		if err := part.sim.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole.log, part.log); diff != "" {
			t.Fatalf("the cluster goes another way once forked and run (-never forked +forked):\n%s", diff)
		}
		if err := second.Run(context.Background()); fmt.Sprint(err) != fmt.Sprint(budget) {
			t.Fatalf("one fork ended with %v, its twin with %v", budget, err)
		}
		if a, b := fmt.Sprintf("%+v", first.Outcomes(nil)), fmt.Sprintf("%+v", second.Outcomes(nil)); a != b {
			t.Fatalf("two forks differ:\n%s\n%s", a, b)
		}
		if a, b := first.Summarize(), second.Summarize(); a != b {
			t.Fatalf("two forks differ:\n%+v\n%+v", a, b)
		}
	})
}

// TestResumeReused: a simulation that served before gives the same as a new one.
func TestResumeReused(t *testing.T) {
	forEachInterrupted(t, func(t *rapid.T, c trial, _ *live, at time.Duration, used *simulator.Sim) {
		part := startLive(t, c)
		part.runTo(t, at)
		state, left := part.observe(t, c)
		fresh := new(simulator.Sim)
		want, err1 := c.resume(fresh, state, left)
		got, err2 := c.resume(used, state, left)
		if fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Fatalf("%v with new memory, %v with used", err1, err2)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-new +used):\n%s", diff)
		}
		if a, b := fmt.Sprintf("%+v", fresh.Outcomes(nil)), fmt.Sprintf("%+v", used.Outcomes(nil)); a != b {
			t.Fatalf("new memory:\n%s\nused memory:\n%s", a, b)
		}
		if a, b := fresh.Summarize(), used.Summarize(); a != b {
			t.Fatalf("new memory:\n%+v\nused memory:\n%+v", a, b)
		}
	})
}

// everyRound is a policy that is asked in every round, whether something
// happened or not.
type everyRound struct {
	simulator.Policy
	s     *simulator.View
	round time.Duration
}

func (p *everyRound) Foresee(o *simulator.Oracle) {
	if c, ok := p.Policy.(simulator.Clairvoyant); ok {
		c.Foresee(o)
	}
}

func (p *everyRound) Reset(s *simulator.View, plan *simulator.Plan) {
	p.s = s
	p.Policy.Reset(s, plan)
}

func (p *everyRound) Quantum(j simulator.ID) {
	if q, ok := p.Policy.(simulator.Quantumed); ok {
		q.Quantum(j)
	}
}

func (p *everyRound) Freed(j simulator.ID) {
	if f, ok := p.Policy.(simulator.Freed); ok {
		f.Freed(j)
	}
}

func (p *everyRound) Plan(plan *simulator.Plan) {
	p.Policy.Plan(plan)
	if p.s.Active() > 0 {
		plan.WakeAt(p.s.Now() + p.round)
	}
}

// TestSkippedRoundsChangeNothing: rounds in which nothing can change are
// skipped, and the result is the same as if they had run. SRTF is left out: its
// order changes as running jobs get closer to their end, and it looks at it only
// when something happens.
func TestSkippedRoundsChangeNothing(t *testing.T) {
	testshared.Full(t)
	forEachInterrupted(t, func(t *rapid.T, c trial, _ *live, _ time.Duration, _ *simulator.Sim) {
		if c.scheduler.Name == "srtf" {
			return
		}
		if c.scheduler.Name == "tiresias" { // a skipped round may matter where service is lost (docs/simulator.md)
			c.w = keeping(t, c.w)
		}
		c.opts.Round = []time.Duration{10 * time.Second, time.Minute,
			17 * time.Minute}[uniform(0, 2).Draw(t, "round length")]
		skipping := startLive(t, c)
		if err := skipping.sim.Run(context.Background()); err != nil {
			t.Skip("the run failed")
		}
		log := lives{}
		var sim simulator.Sim
		c.opts.Observer = func(e simulator.Event) { log.add(&sim, e) }
		if c.stalls != nil && *c.stalls > 0 {
			t.Skip("the run stalled, which rounds without end hide")
		}
		c.opts.EventBudget = math.MaxInt // every round counts as an event
		if err := sim.Start(c.cluster, c.w, &everyRound{Policy: c.scheduler.New(c.config), round: c.opts.Round},
			c.opts); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if diff := c.diff(skipping.log, log); diff != "" {
			t.Fatalf("(-rounds skipped +all rounds):\n%s", diff)
		}
	})
}

// TestResumeContinuesSpread is TestResumeContinues with jobs that run slower
// where they are spread. Their progress is rounded to a nanosecond when a spell
// ends and once more where the observation cuts one, so each later spell may end
// two nanoseconds off, and two instants that lie closer than that may change
// places: such runs are left out.
func TestResumeContinuesSpread(t *testing.T) {
	testshared.Full(t)
	forEach(t, func(t *rapid.T, c trial, _ *simulator.Sim) {
		if rounded[c.scheduler.Name] != "" || forgetful[c.scheduler.Name] != "" {
			return // at every interruption, not only once a spell
		}
		if c.scheduler.Name == "themis" {
			return // it ranks by rho, of which a nanosecond of age changes the order
		}
		models := *defaultModels
		c = interruptible(t, c, &models)
		whole := startLive(t, c)
		if err := whole.sim.Run(context.Background()); err != nil {
			t.Skip("the run failed")
		}
		if c.stalls != nil && *c.stalls > 0 {
			t.Skip("the run stalled")
		}
		at := drawInstant(t, whole.log)
		want := whole.log.after(at)
		slack := time.Duration(2 * (want.count() + 1))
		if want.closest(c.opts.Round) <= 2*slack {
			t.Skip("which of two events comes first hangs on rounding")
		}

		part := startLive(t, c)
		part.runTo(t, at)
		state, left := part.observe(t, c)

		fork := new(simulator.Sim)
		part.sim.Fork(fork, c.scheduler.New(c.config))
		if err := fork.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(outcomesByName(&whole.sim, c, want), outcomesByName(fork, c, want)); diff != "" {
			t.Fatalf("a fork at %v goes another way, without any rounding (-cluster +fork):\n%s", at, diff)
		}

		c.opts.Past = part.past(c)
		got, err := c.resume(new(simulator.Sim), state, left)
		if err != nil {
			t.Fatal(err)
		}
		near := cmp.Comparer(func(a, b time.Duration) bool { return max(a-b, b-a) <= slack })
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Fatalf("resumed at %v, it goes another way (-cluster +resumed):\n%s", at, diff)
		}
	})
}

// closest is the least time between two instants at which something happened,
// decision rounds included.
func (l lives) closest(round time.Duration) time.Duration {
	var instants []time.Duration
	for _, all := range l {
		for _, h := range all {
			instants = append(instants, h.Time)
		}
	}
	slices.Sort(instants)
	instants = slices.Compact(instants)
	least := time.Duration(math.MaxInt64)
	for i, t := range instants {
		if i > 0 {
			least = min(least, t-instants[i-1])
		}
		if m := t % max(round, 1); m != 0 {
			m = max(m, -m)
			least = min(least, m, round-m)
		}
	}
	return least
}

// TestResumeFromGarbage: whatever is reported of a cluster, a run from it
// oversubscribes no GPU and ends, or says which job could not.
func TestResumeFromGarbage(t *testing.T) {
	forEach(t, func(t *rapid.T, c trial, _ *simulator.Sim) {
		state, left := drawGarbage(t, c.cluster)
		rest := c.w.Window(state.At, math.MaxInt64)
		var sim simulator.Sim
		err := sim.Resume(state, left, rest, c.scheduler.New(c.config), c.opts)
		if errors.Is(err, simulator.ErrQuota) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		checkGPUs(t, &sim)
		for range 20 {
			if err = sim.RunUntil(context.Background(), sim.Now()+time.Hour); err != nil {
				break
			}
			checkGPUs(t, &sim)
		}
		if err == nil {
			err = sim.Run(context.Background())
		}
		checkGPUs(t, &sim)
		if err == nil {
			if !sim.Done() || sim.Free() != c.cluster.TotalGPUs() {
				t.Fatalf("all well, but done: %v, %d GPUs free of %d", sim.Done(), sim.Free(), c.cluster.TotalGPUs())
			}
			return
		}
		for id := range sim.Submitted() {
			if sim.JobActive(id) && strings.Contains(err.Error(), fmt.Sprintf("job %q", sim.JobName(id))) {
				return
			}
		}
		t.Fatalf("the error names no unfinished job: %v", err)
	})
}

// checkGPUs compares which jobs run where with the free GPUs.
func checkGPUs(t *rapid.T, s *simulator.Sim) {
	used := 0
	perNode := make([]int, s.Cluster().Nodes())
	for id := range s.Submitted() {
		if !s.JobRunning(id) {
			continue
		}
		if partner := s.JobPartner(id); partner >= 0 && partner < id {
			continue // counted with the job it shares with
		}
		used += s.JobHeld(id)
		seats := s.Placement(nil, id)
		sum := 0
		for _, p := range seats {
			perNode[p.Node] += p.GPUs
			sum += p.GPUs
		}
		if len(seats) > 0 && sum != s.JobHeld(id) {
			t.Fatalf("%s holds %d GPUs and runs on %v", s.JobName(id), s.JobHeld(id), seats)
		}
	}
	if used+s.Free() != s.TotalGPUs() {
		t.Fatalf("%d GPUs in use and %d free of %d", used, s.Free(), s.TotalGPUs())
	}
	for n, g := range perNode {
		if g > s.Cluster().GPUsPerNode() {
			t.Fatalf("node %d has %d GPUs in use of %d", n, g, s.Cluster().GPUsPerNode())
		}
	}
}

// drawGarbage draws a state that no cluster was ever in: jobs on top of each
// other, on nodes there are not, with clocks that disagree.
func drawGarbage(t *rapid.T, c workload.Cluster) (*workload.State, []time.Duration) {
	span := func(name string) time.Duration {
		switch uniform(0, 9).Draw(t, name+", kind") {
		case 0:
			return 0
		case 1:
			return -time.Duration(uniform(1, 20000).Draw(t, name)) * time.Second
		case 2:
			return time.Duration(uniform(1, 100).Draw(t, name))
		}
		return time.Duration(uniform(1, 200000).Draw(t, name)) * time.Second
	}
	s := &workload.State{At: span("at"), Cluster: c}
	left := make([]time.Duration, uniform(0, 12).Draw(t, "active"))
	for i := range left {
		a := workload.ActiveJob{
			Job: workload.Job{ID: fmt.Sprintf("old-%d", i), Submit: s.At - span("age"),
				GPUs: workload.MilliGPU(uniform(1, 1200*c.TotalGPUs()).Draw(t, "milli-GPUs"))},
			Running: rapid.Bool().Draw(t, "running"), Since: s.At - span("spell"),
			RunTime: span("run time"), WaitTime: span("wait time"), Attained: span("attained"),
			Starts: uniform(0, 3).Draw(t, "starts"), Preemptions: uniform(0, 3).Draw(t, "preemptions"),
			LevelAttained: span("level"), HasLevel: rapid.Bool().Draw(t, "has level"), LeaseUntil: s.At + span("lease"),
		}
		if uniform(0, 20).Draw(t, "endless") == 0 {
			a.Attained = math.MaxInt64 // the count of a ledger when it can count no further
		}
		for range uniform(0, 4).Draw(t, "nodes") {
			a.Placement = append(a.Placement, workload.NodeGPUs{Node: uniform(-1, c.Nodes()).Draw(t, "node"),
				GPUs: uniform(-1, c.GPUsPerNode()+1).Draw(t, "GPUs")})
		}
		if rapid.Bool().Draw(t, "whole") {
			a.Placement = []workload.NodeGPUs{{Node: uniform(0, c.Nodes()-1).Draw(t, "node"), GPUs: a.GPUs.Whole()}}
		}
		s.Jobs = append(s.Jobs, a)
		left[i] = span("left")
	}
	return s, left
}
