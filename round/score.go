package round

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Scenario is a workload to measure configurations on: jobs that are active at an
// instant with their remaining work, and jobs that arrive.
type Scenario struct {
	State    *workload.State // nil: an empty cluster
	Left     []time.Duration
	Arrivals *workload.Workload
	// Past is the jobs that ended before it begins, for policies that learn from
	// them (simulator.Options.Past).
	Past *simulator.Past
	// Nodes are the node events that are known to come (simulator.Options.Nodes). A
	// forecast knows none: nodes that are down or draining stay so.
	Nodes []workload.NodeEvent
	// Warmup reports whether jobs submitted before CountFrom run without counting.
	Warmup    bool
	CountFrom time.Duration
}

// eventsPerJob bounds a simulation. Good configurations need fewer than 8; those that
// need more are livelocked, for instance by thresholds below the restart cost with a
// short starve limit.
const eventsPerJob = 40

// Scorer simulates configurations of a scheduler on scenarios, each until its last
// job ends, and measures the goal over exactly those jobs. It is safe for concurrent
// use.
type Scorer struct {
	scheduler *schedulers.Scheduler
	cluster   workload.Cluster
	scenarios []Scenario
	goal      Goal
	others    []string // further metrics to measure
	options   simulator.Options
	turn      Turn
	players   sync.Pool
	incumbent *reference          // nil where the goal is not relative to one
	best      *search.Measurement // that Measure stops a configuration against; nil: it measures all scenarios
	inForce   *search.Measurement // that a configuration has to be far ahead of, too; nil for none
	// AllMetrics makes Measure compute every metric of MetricNames, not only the first
	// four, which take no extra time. Set it before the first measurement.
	AllMetrics bool
	// ended receives the jobs of each simulation of play that ends, if it is set.
	ended func(c space.Config, x *Scenario, all []simulator.Outcome)
}

// MetricNames are the intermediate metrics of a measurement with AllMetrics, through
// which a configuration changes the objectives. Times are in seconds.
var MetricNames = []string{"avg_queue_s", "restart_s_per_job", "slowdown", "preemptions_per_job", "spread_share",
	"fragmentation"}

// player holds the buffers of one evaluation.
type player struct {
	sim    simulator.Sim
	out    []simulator.Outcome
	values []float64
	begin  simulator.ID // of the first arrival; the jobs before were active at the start
}

// NewScorer returns a scorer of a problem on the scenarios that have jobs. It fails if
// none has.
func NewScorer(p *Problem, scenarios []Scenario) (*Scorer, error) {
	if err := p.Goal.check(); err != nil {
		return nil, err
	}
	if p.Goal.Metered() != "" && p.Options.Meter == nil {
		return nil, fmt.Errorf("objective %s: %w", p.Goal, ErrNoMeter)
	}
	sc := &Scorer{scheduler: p.Scheduler, cluster: p.Cluster, goal: p.Goal, options: p.Options, turn: p.Turn}
	sc.options.Observer, sc.options.Nodes = nil, nil
	for _, x := range scenarios {
		if x.Jobs() > 0 {
			sc.scenarios = append(sc.scenarios, x)
		}
	}
	if len(sc.scenarios) == 0 {
		return nil, errNothing
	}
	sc.players.New = func() any { return new(player) }
	return sc, nil
}

// errNothing is returned if the scenarios have no job.
var errNothing = errors.New("no active job and no arrival to simulate")

// Jobs returns the number of jobs and groups.
func (x *Scenario) Jobs() int {
	n := len(x.Left)
	if x.Arrivals != nil {
		n += x.Arrivals.Len()
	}
	return n
}

// Measure is a search.Evaluator.
func (sc *Scorer) Measure(ctx context.Context, c space.Config) (search.Measurement, error) {
	if sc.incumbent != nil && sc.incumbent.config.Equal(c) && !sc.AllMetrics {
		return sc.score(sc.incumbent.figures), nil
	}
	if sc.best != nil {
		return sc.against(ctx, c, sc.best)
	}
	f, err := sc.play(ctx, c, sc.scenarios)
	if err != nil {
		return search.Measurement{}, err
	}
	return sc.score(f), nil
}

// figures are the metrics of a configuration. If one of its simulations exhausted its
// events, values lack scenarios.
type figures struct {
	exhausted bool
	values    map[string]*metricValues // of the goal's metrics
	metrics   map[string]float64       // of MetricNames, means over the scenarios
}

// play simulates a configuration on scenarios.
func (sc *Scorer) play(ctx context.Context, c space.Config, scenarios []Scenario) (*figures, error) {
	p := sc.players.Get().(*player)
	defer sc.players.Put(p)
	f := &figures{values: map[string]*metricValues{}}
	var ran account
	sums := map[string]float64{}
	policy := sc.scheduler.New(c)
	wanted := sc.wanted()
	for _, name := range wanted {
		f.values[name] = &metricValues{}
	}
	for i := range scenarios {
		x := &scenarios[i]
		err := sc.run(ctx, p, x, policy)
		if errors.Is(err, simulator.ErrBudget) {
			f.exhausted = true
			return f, nil
		}
		if err != nil {
			return f, err
		}
		p.out = p.sim.Outcomes(p.out[:0])
		if sc.ended != nil {
			sc.ended(c, x, p.out)
		}
		if x.Warmup {
			p.out = slices.DeleteFunc(p.out, func(o simulator.Outcome) bool { return o.Submit < x.CountFrom })
		}
		p.begin = simulator.ID(len(x.Left))
		for _, name := range wanted {
			m := metrics[name]
			f.values[name].add(&m, p, x)
			if err := f.values[name].positive(name); err != nil {
				return f, err
			}
		}
		ran.add(p.out, p.begin)
		if sc.AllMetrics {
			summary := p.sim.Summarize()
			sums["spread_share"] += summary.SpreadShare
			sums["fragmentation"] += summary.Fragmentation
		}
	}
	f.metrics = ran.metrics()
	for name, sum := range sums {
		f.metrics[name] = sum / float64(len(scenarios))
	}
	return f, nil
}

// run simulates a policy on a scenario, until its last job ends.
func (sc *Scorer) run(ctx context.Context, p *player, x *Scenario, policy simulator.Policy) error {
	o := sc.options
	o.EventBudget = eventsPerJob*x.Jobs() + 1000
	o.Past, o.Nodes = x.Past, x.Nodes
	return sc.turn.Run(func() (err error) {
		if x.State != nil {
			err = p.sim.Resume(x.State, x.Left, x.Arrivals, policy, o)
		} else {
			err = p.sim.Start(sc.cluster, x.Arrivals, policy, o)
		}
		if err == nil {
			err = p.sim.Run(ctx)
		}
		return err
	})
}

// Digest identifies everything but the configuration that a measurement depends on.
func (sc *Scorer) Digest() string {
	h := sha256.New()
	gpus := sc.cluster.TotalGPUs()
	for i := range sc.scenarios {
		if state := sc.scenarios[i].State; state != nil {
			gpus = max(gpus, state.Cluster.TotalGPUs())
		}
	}
	fmt.Fprintln(h, simulator.Version, sc.scheduler.Name, sc.goal, sc.others, sc.cluster.Groups, sc.cluster.VCs,
		sc.options.Digest(gpus, sc.jobs))
	if sc.incumbent != nil {
		fmt.Fprintln(h, sc.incumbent.config)
	}
	for i := range sc.scenarios {
		x := &sc.scenarios[i]
		fmt.Fprintln(h, x.CountFrom, x.Warmup, x.Left, x.Past.Digest(), x.Nodes)
		if x.State != nil {
			fmt.Fprintln(h, *x.State, x.State.Cluster.Groups, x.State.Cluster.VCs)
		}
		if x.Arrivals != nil {
			fmt.Fprintln(h, x.Arrivals.Digest())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// jobs yields the active and arriving jobs of all scenarios.
func (sc *Scorer) jobs(yield func(*workload.Job) bool) {
	for i := range sc.scenarios {
		x := &sc.scenarios[i]
		if x.State != nil {
			for k := range x.State.Jobs {
				if !yield(&x.State.Jobs[k].Job) {
					return
				}
			}
		}
		if x.Arrivals != nil {
			for k := range x.Arrivals.Jobs() {
				if !yield(&x.Arrivals.Jobs()[k]) {
					return
				}
			}
		}
	}
}

// each returns a value of every outcome, repeated for each member of a group.
func (p *player) each(of func(*simulator.Outcome) float64) []float64 {
	p.values = p.values[:0]
	for i := range p.out {
		v := of(&p.out[i])
		for range p.out[i].Members {
			p.values = append(p.values, v)
		}
	}
	return p.values
}

// account sums how jobs waited and ran, for the metrics of MetricNames that take no extra time.
type account struct {
	jobs, wait, preemptions float64 // of the members of groups
	// restart and slowdown are sums of the scenarios' means.
	restart, slowdown float64
	scenarios         int
	arrived           int // jobs that were not active at the start
}

// add adds the jobs of a scenario. Those before begin were active at its start.
func (a *account) add(all []simulator.Outcome, begin simulator.ID) {
	// How much longer new jobs run than they would alone and on the fewest nodes.
	restart, slow, fresh := 0.0, 0.0, 0
	for i := range all {
		o := &all[i]
		n := float64(o.Members)
		a.jobs += n
		a.wait += n * o.Wait.Seconds()
		a.preemptions += n * float64(o.Preemptions)
		restart += o.Restart.Seconds()
		if o.ID >= begin {
			slow += o.Slowdown
			fresh++
		}
	}
	a.restart += restart / float64(len(all))
	a.slowdown += slow / float64(max(1, fresh))
	a.scenarios++
	a.arrived += fresh
}

// metrics returns the means over the scenarios. The slowdown is 0 if no job arrived.
func (a *account) metrics() map[string]float64 {
	return map[string]float64{"avg_queue_s": a.wait / a.jobs, "preemptions_per_job": a.preemptions / a.jobs,
		"restart_s_per_job": a.restart / float64(a.scenarios), "slowdown": a.slowdown / float64(a.scenarios)}
}
