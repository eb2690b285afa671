package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// fewJobs is the number of jobs below which a history is too short to choose by, as a shape of
// less than a hundred is (package round).
const fewJobs = 100

// Evaluation is the state that the methods of one evaluation share.
type Evaluation struct {
	Options  Options            // with defaults filled in
	Workload *workload.Workload // replayed: submitted from the start of the warm-up to To
	history  []workload.Job     // submitted in the Memory before From
	before   []workload.Job     // submitted in the ReplayMemory before the start, for the ledger
	cache    *search.Cache
	engine   *generation.Engine // of the method Options.Generate
	replays  *round.Replays
	notes    []string
	baseMu   sync.Mutex
	baseline *Outcome // see base
}

// Prepare checks options and fills in their defaults. The goal's objective must be one
// of round.Objectives, by which methods can be compared afterwards.
func Prepare(o Options) (*Evaluation, error) {
	e, err := prepare(o)
	if err != nil {
		return nil, err
	}
	return e, round.CheckObjective(e.Options.Goal.Objective(), o.Simulate.Meter != nil)
}

func prepare(o Options) (*Evaluation, error) {
	if o.Scheduler == nil {
		return nil, errors.New("evaluate: no scheduler given")
	}
	if err := o.Cluster.Validate(); err != nil {
		return nil, err
	}
	if o.To <= o.From {
		return nil, fmt.Errorf("evaluate: to (%v) is not after from (%v)", o.To, o.From)
	}
	if o.Warmup < 0 {
		return nil, fmt.Errorf("evaluate: warmup: %v is negative", o.Warmup)
	}
	if o.Goal.IsZero() {
		o.Goal = round.Minimise(round.Objectives[0])
	}
	if len(o.Methods) == 0 {
		o.Methods = MethodNames()
	}
	if err := CheckMethods(o.Methods); err != nil {
		return nil, err
	}
	base := o.baseline()
	o.Methods = append([]string{base}, slices.DeleteFunc(slices.Clone(o.Methods), func(name string) bool {
		return name == base || name == currentMethod
	})...)
	if o.Interval < 0 {
		return nil, fmt.Errorf("evaluate: interval: %v is negative", o.Interval)
	}
	if o.Interval == 0 {
		o.Interval = round.DefaultInterval
	}
	o.Settings = o.Settings.WithDefaults()
	if o.Limits == nil {
		l := rollout.DefaultLimits()
		o.Limits = &l
	}
	var err error
	if o.Search, err = round.ParseSearch(string(o.Search)); err != nil {
		return nil, err
	}
	e := &Evaluation{Options: o, engine: generation.NewEngine(o.Trace.Zero(), o.Generate),
		cache: search.NewCache(1 << 16), replays: &round.Replays{}}
	e.Workload = o.Trace.Window(e.start(), o.To)
	if e.counted().Ended() == 0 {
		return nil, fmt.Errorf("evaluate: no job of %s that ended is submitted between %s and %s",
			o.Trace.Name(), e.Clock(o.From), e.Clock(o.To))
	}
	wide := 0
	e.history, wide = fitting(o.Trace.Window(o.From-round.Memory, o.From).Jobs(), o.Cluster)
	e.before, _ = fitting(o.Trace.Window(e.start()-round.ReplayMemory, e.start()).Jobs(), o.Cluster)
	if wide > 0 {
		e.notes = append(e.notes, fmt.Sprintf(
			"%d jobs of the history ask for more GPUs than the cluster has and are left out.", wide))
	}
	once := slices.Contains(o.Methods, "fixed-history")
	if len(e.history) == 0 && once {
		e.notes = append(e.notes, "There is no history before the window: "+
			"durations are unknown until jobs end, and fixed-history holds the baseline.")
	} else if n := len(e.history); n < fewJobs && once {
		e.notes = append(e.notes, fmt.Sprintf("The history before the window has %d jobs, which are too few to choose "+
			"by: fixed-history may miss a better configuration. Begin the window later (--from).", n))
	}
	inert := round.Inert(o.Scheduler, round.HasDeadline(o.Trace.Jobs()), o.Simulate.Estimate != nil)
	if note := round.InertNote(inert); note != "" {
		e.notes = append(e.notes, note+".")
	}
	if g := o.Cluster.TotalGPUs(); g <= workload.SmallCluster {
		e.notes = append(e.notes, fmt.Sprintf(
			"The cluster has %d GPUs; with %d or fewer there is little to gain from tuning.", g, workload.SmallCluster))
	}
	if len(o.Simulate.Nodes) > 0 {
		e.notes = append(e.notes, "Node events change the cluster; its load is over all nodes that it ever has.")
	}
	return e, nil
}

// fitting returns the jobs that fit a cluster and the number of jobs that do not.
func fitting(jobs []workload.Job, c workload.Cluster) (fit []workload.Job, wide int) {
	for i := range jobs {
		if c.Fits(&jobs[i]) {
			fit = append(fit, jobs[i])
		} else {
			wide++
		}
	}
	return fit, wide
}

// baseline is the name of the method that the others are compared with.
func (o *Options) baseline() string {
	if o.Current.IsZero() {
		return defaultMethod
	}
	return currentMethod
}

// current is the configuration that the user runs.
func (e *Evaluation) current() space.Config {
	if c := e.Options.Current; !c.IsZero() {
		return c
	}
	return e.Options.Scheduler.Space.Default()
}

func (e *Evaluation) start() time.Duration { return e.Options.From - e.Options.Warmup }

// counted returns the jobs that count.
func (e *Evaluation) counted() *workload.Workload {
	return e.Workload.Window(e.Options.From, e.Options.To)
}

// rounds returns the number of intervals in the window. Methods that tune once get the
// budgets of all.
func (e *Evaluation) rounds() int {
	return int((e.Options.To - e.Options.From + e.Options.Interval - 1) / e.Options.Interval)
}

// roundsAfter is the number of rounds in all, if some are done, the last of them at an
// instant, and none between the regular ones is added.
func (e *Evaluation) roundsAfter(done int, at time.Duration) int {
	return done + max(0, e.rounds()-1-int((at-e.Options.From)/e.Options.Interval))
}

// Clock formats an instant of the trace as RFC 3339.
func (e *Evaluation) Clock(at time.Duration) string {
	return e.Options.Trace.Zero().Add(at).Format(time.RFC3339)
}

func (e *Evaluation) progress(s Step) {
	if e.Options.Progress != nil {
		s.Seed = e.Options.Seed
		e.Options.Progress(s)
	}
}

func (e *Evaluation) report() *Report {
	o := e.Options
	work := 0.0
	for _, j := range e.counted().Jobs() {
		work += j.Duration.Seconds() * j.GPUs.Count()
	}
	var constraints []string
	for _, c := range o.Goal.Constraints {
		constraints = append(constraints, c.String())
	}
	var quiet []string
	for _, q := range o.Limits.QuietHours {
		quiet = append(quiet, q.String())
	}
	return &Report{
		SubjectTo: constraints, Trace: o.Trace.Name(), Digest: o.Trace.Digest(), Synthetic: o.Trace.Synthetic(),
		From: e.Clock(o.From), To: e.Clock(o.To),
		Jobs: e.counted().Len(), HistoryJobs: len(e.history), Cluster: o.Cluster,
		Load:      workload.OfferedLoad(work, o.To-o.From, o.Cluster.TotalGPUs()),
		Scheduler: o.Scheduler.Name,
		Baseline: Baseline{Method: o.baseline(), Configuration: e.current().String(), Assumed: o.Current.IsZero(),
			Default: o.Scheduler.Space.Default().String()},
		Objective: o.Goal.Objective(), IntervalS: o.Interval.Seconds(),
		HorizonS: o.Horizon.Seconds(), Futures: o.Futures, Budget: o.Budget, Search: o.Search, Guard: o.Guard,
		MaxChanges: o.Limits.ChangesPerDay, FlapWindowS: o.Limits.FlapWindow.Seconds(), QuietHours: quiet,
		Seed:      o.Seed,
		Simulator: simulator.Version, Notes: e.notes, Counted: e.counted().Jobs(),
	}
}

// run evaluates one method.
func (e *Evaluation) run(ctx context.Context, name string) (*Method, error) {
	m, err := findMethod(name)
	if err != nil {
		return nil, err
	}
	out := &Method{Method: m.name, Description: m.description}
	incumbent := e.current()
	var spent time.Duration
	if m.hold != nil {
		c, err := m.hold(ctx, e)
		if err != nil {
			return nil, err
		}
		if c.config.Equal(incumbent) {
			base, err := e.base(ctx)
			if err != nil {
				return nil, err
			}
			out.Outcome = *base
		} else if _, err := e.replay(ctx, &method{name: name}, &out.Outcome, c.config); err != nil {
			return nil, err
		}
		out.Evaluations, spent, out.Hindsight = c.evaluations, c.took, c.hindsight
		if c.remark != "" {
			out.Description += " (" + c.remark + ")"
		}
		if c.evaluations > 0 {
			out.Rounds = e.rounds() // it used their budgets
		}
	} else if spent, err = e.replay(ctx, m, &out.Outcome, incumbent); err != nil {
		return nil, err
	}
	if out.Rounds > 0 {
		out.TuningPerRound = spent.Seconds() / float64(out.Rounds)
	}
	e.progress(Step{Method: name, Rounds: out.Rounds, Of: out.Rounds, Done: true})
	return out, nil
}

// replay runs the live simulation to its end, with a round every interval if the method
// tunes, and urgent decisions between them if it leaves a history that asks for them. It
// returns the wall time of the decisions.
func (e *Evaluation) replay(ctx context.Context, m *method, out *Outcome, registered space.Config) (time.Duration,
	error) {
	live, err := e.Start(registered, m.tune != nil)
	if err != nil {
		return 0, err
	}
	var limits rollout.Limits
	if m.serves {
		limits = *e.Options.Limits
	}
	l, err := newLoop(e, live, out, registered, limits)
	if err != nil {
		return 0, err
	}
	var tune roundFunc
	if m.tune != nil {
		tune = m.tune(e)
	}
	spent := time.Duration(0)
	arrived := simulator.ID(0)
	var history json.RawMessage
	decide := func(n int, at time.Duration, urgent bool) error {
		began := time.Now()
		in := e.Input(live, n, at, l.incumbent())
		in.Urgent, in.History = urgent, history
		r, err := tune(ctx, in)
		kept := ""
		if err == nil && r.Adopt {
			kept, err = l.adopt(in, &r)
		}
		if err != nil {
			return fmt.Errorf("round at %s: %w", e.Clock(at), err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		spent += time.Since(began)
		history = r.History
		out.Rounds++
		if urgent {
			out.Urgent++
		}
		out.Evaluations += r.Stats.Evaluations
		d := Decision{At: e.Clock(at), AtS: at.Seconds(), Urgent: urgent, Adopted: r.Adopt && kept == "",
			Reason: cmp.Or(kept, r.Reason), Ratio: finite(r.Ratio), Configuration: l.incumbent().String(),
			Evaluations: r.Stats.Evaluations, Search: r.Search, Why: r.Why, Candidates: r.Candidates}
		if kept != "" {
			out.Held++
		}
		if !r.Interval.IsZero() {
			d.Interval = &r.Interval
		}
		out.Decisions = append(out.Decisions, d)
		e.progress(Step{Method: m.name, At: at, Rounds: out.Rounds, Of: e.roundsAfter(out.Rounds, at)})
		return nil
	}
	for n := 0; ; n++ {
		at := e.Options.From + time.Duration(n)*e.Options.Interval
		if err := live.Sim.RunUntil(ctx, at); err != nil {
			return 0, err
		}
		busy := live.Sim.TotalGPUs() - live.Sim.Free()
		out.Series = append(out.Series, Sample{AtS: at.Seconds(), Running: live.Sim.Active() - live.Sim.Waiting(),
			Waiting: live.Sim.Waiting(), BusyGPU: busy})
		if live.Sim.Done() {
			break
		}
		// Without arrivals to come, a configuration matters only while jobs wait.
		quiet := at >= e.Options.To && live.Sim.Waiting() == 0 && arrived == live.Sim.Submitted()
		arrived = live.Sim.Submitted()
		if tune == nil || quiet || l.waits() {
			continue
		}
		if err := decide(n, at, false); err != nil {
			return 0, err
		}
		next := at + e.Options.Interval
		for mark := at + round.BurstInterval; mark < next && len(history) > 0; mark += round.BurstInterval {
			if err := live.Sim.RunUntil(ctx, mark); err != nil {
				return 0, err
			}
			if !e.Options.Ablation.NoBurst && !l.waits() && round.Burst(history, live.ledger, mark) {
				if err := decide(n, mark, true); err != nil {
					return 0, err
				}
			}
		}
	}
	out.Configuration = l.incumbent().String()
	e.measure(out, &live.Sim)
	return spent, nil
}

// MaxRatio stands for ratios above it, ratios to 0 among them: JSON holds no infinity.
const MaxRatio = 1e9

// finite replaces values that JSON cannot hold.
func finite(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return max(0, min(v, MaxRatio))
}

// measure summarises the outcomes of the counted jobs.
func (e *Evaluation) measure(out *Outcome, sim *simulator.Sim) {
	all := sim.Outcomes(nil)
	counted := all[:0]
	for _, o := range all {
		if o.Submit >= e.Options.From {
			counted = append(counted, o)
		}
	}
	s := simulator.Describe(counted)
	out.AvgJCT, out.P50JCT, out.P95JCT, out.P99JCT, out.AvgQueue = s.AvgJCT, s.P50JCT, s.P95JCT, s.P99JCT, s.AvgQueue
	out.Preemptions, out.FTFLe1, out.P95Rho, out.MaxRho = s.Preemptions, s.FTFLe1, s.P95Rho, s.MaxRho
	out.Utilization = sim.Summarize().Utilization
	if e.Options.Simulate.Meter != nil {
		d := sim.Drawn()
		out.Energy, out.Cost, out.CO2, out.EDP = d.Energy, d.Cost, d.CO2, d.Energy*s.AvgJCT/3600
	}
	out.Rows = rowsOf(sim, e.Workload.Jobs(), e.Options.From)
	out.guard(e.counted().Jobs())
}
