// Package plan simulates a history on clusters of other sizes: how many nodes keep a
// metric below a bound, and the effect of a node or a moved quota.
package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Options configure a plan.
type Options struct {
	Trace     *workload.Workload // the jobs to simulate; those before Simulate.CountFrom warm up the cluster
	Cluster   workload.Cluster   // as it is
	Group     int                // of nodes, whose number varies
	Scheduler *schedulers.Scheduler
	Config    space.Config
	Simulate  simulator.Options
	// Keep are the bounds to keep. A multiple of the incumbent's is of the cluster as it is.
	Keep []round.Constraint
	// Moves of quota to try, each alone.
	Moves []Move
	// AutoVCs divides every cluster into quotas anew, as workload.AutoVCs does.
	AutoVCs  bool
	Seed     uint64
	Progress func(simulations int, c workload.Cluster) // before each; nil for none
}

// Move is a part of a quota that goes to another tenant.
type Move struct {
	From string `json:"from"`
	To   string `json:"to"`
	GPUs int    `json:"gpus"`
}

func (m Move) String() string { return fmt.Sprintf("quota %s to %s: %d GPUs", m.From, m.To, m.GPUs) }

// Estimate is a metric of a run, with a 95 % interval over draws of the history's blocks.
type Estimate struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Case is a cluster on which the history was simulated.
type Case struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"` // of the group that varies
	GPUs  int    `json:"gpus"`  // of the cluster
	// Refused says why the history cannot run there; the rest is then empty.
	Refused     string     `json:"refused,omitempty"`
	Metrics     []Estimate `json:"metrics,omitempty"`
	Utilization float64    `json:"utilization,omitempty"`
	Keeps       bool       `json:"keeps"`             // all bounds
	Tenants     []Tenant   `json:"tenants,omitempty"` // of a move
}

// Tenant is a tenant of a move, before and after it.
type Tenant struct {
	Tenant string   `json:"tenant"`
	Before int      `json:"quota_before"`
	After  int      `json:"quota_after"`
	Was    Estimate `json:"was"`
	Is     Estimate `json:"is"`
}

// Answer is the least number of nodes that keeps all bounds. Low and High are the least
// numbers that keep them in 2.5 % and 97.5 % of the draws. A number is 0 if no number of nodes
// up to Most does, where no job needs to wait for a GPU of the group.
type Answer struct {
	Nodes int `json:"nodes"`
	Low   int `json:"low"`
	High  int `json:"high"`
	Most  int `json:"most"`
	// Broken are larger numbers of nodes, among the simulated ones, that break a bound.
	Broken []int `json:"broken_by_more,omitempty"`
}

// Report is the result of a plan.
type Report struct {
	Jobs   int `json:"jobs"`
	Blocks int `json:"blocks"`
	// Short says that the history has too few blocks for intervals, which are empty.
	Short       bool   `json:"too_short_for_intervals,omitempty"`
	Block       string `json:"block"`
	Simulations int    `json:"simulations"`
	// Cases begin with the cluster as it is.
	Cases  []Case  `json:"cases"`
	Answer *Answer `json:"answer,omitempty"` // with bounds to keep
}

// shown are the metrics of every case, before the metrics of bounds.
var shown = []string{"p95_queue", "avg_jct"}

// tenantMetric is that of the tenants of a move.
const tenantMetric = "p95_queue"

// draws of blocks, the same for every cluster.
const draws = 400

// block is a span of the history that is drawn as a whole: jobs that follow each other
// share a backlog.
type block struct {
	name string
	span time.Duration
}

// blocksOf are the spans to choose from, the longest first of which the history has
// leastBlocks.
var blocksOf = []block{{"a week", 7 * 24 * time.Hour}, {"a day", 24 * time.Hour}, {"6 hours", 6 * time.Hour},
	{"an hour", time.Hour}, {"5 minutes", 5 * time.Minute}}

const leastBlocks = 4

// planner keeps the runs of a plan.
type planner struct {
	ctx     context.Context
	o       *Options
	metrics []string
	now     *run
	block   block
	blocks  int
	weights [][]uint8 // by draw: how often each block was drawn
	runs    map[int]*run
	report  *Report
}

// run is the history on one cluster.
type run struct {
	cluster     workload.Cluster
	outcomes    []simulator.Outcome
	utilization float64
	refused     error
	estimates   map[string][]float64 // by metric: the value, then of each draw
}

// Run simulates the history on the cluster as it is, with one node less and one more,
// with each move of quota, and on as many nodes as the search for the answer asks for.
func Run(ctx context.Context, o Options) (*Report, error) {
	p := &planner{ctx: ctx, o: &o, runs: map[int]*run{}, report: &Report{}}
	p.draw()
	p.metrics = slices.Clone(shown)
	for _, k := range o.Keep {
		if !slices.Contains(p.metrics, k.Metric) {
			p.metrics = append(p.metrics, k.Metric)
		}
	}
	nodes := o.Cluster.Groups[o.Group].Nodes
	now, err := p.at(nodes)
	if err != nil {
		return nil, err
	}
	if now.refused != nil {
		return nil, now.refused
	}
	p.now = now
	p.add("as it is", nodes, now)
	for _, c := range []struct {
		name string
		by   int
	}{{"one node less", -1}, {"one node more", 1}} {
		if nodes+c.by < 1 {
			continue
		}
		r, err := p.at(nodes + c.by)
		if err != nil {
			return nil, err
		}
		p.add(c.name, nodes+c.by, r)
	}
	if len(o.Keep) > 0 {
		if err := p.answer(); err != nil {
			return nil, err
		}
	}
	for _, m := range o.Moves {
		if err := p.move(m, nodes); err != nil {
			return nil, err
		}
	}
	return p.report, nil
}

// span has the first and the last submission that counts.
func (p *planner) span() (first, last time.Duration) {
	first, last = p.o.Trace.Span()
	if from := p.o.Simulate.CountFrom; from != 0 {
		first = max(first, from)
	}
	return first, last
}

// draw chooses the blocks, and draws as many of them as there are, with repetition.
func (p *planner) draw() {
	first, last := p.span()
	p.report.Jobs = p.o.Trace.Window(first, last+1).Len()
	for _, p.block = range blocksOf {
		if p.blocks = int((last-first)/p.block.span) + 1; p.blocks >= leastBlocks {
			break
		}
	}
	p.report.Block, p.report.Blocks, p.report.Short = p.block.name, p.blocks, p.blocks < leastBlocks
	random := rng.Stream("plan-blocks", p.o.Seed)
	p.weights = make([][]uint8, draws)
	for d := range p.weights {
		p.weights[d] = make([]uint8, p.blocks)
		for range p.blocks {
			if w := &p.weights[d][random.IntN(p.blocks)]; *w < math.MaxUint8 {
				*w++
			}
		}
	}
}

// at simulates on a number of nodes of the group, once.
func (p *planner) at(nodes int) (*run, error) {
	if r := p.runs[nodes]; r != nil {
		return r, nil
	}
	c := p.cluster(nodes)
	if p.o.AutoVCs {
		c.VCs = workload.AutoVCs(p.o.Trace.Jobs(), c.TotalGPUs())
	}
	r, err := p.simulate(c)
	if err != nil {
		return nil, err
	}
	if p.runs[nodes] = r; len(p.runs) > 1 { // the first is that of the cluster as it is
		for _, m := range p.metrics {
			p.estimate(r, m)
		}
		r.outcomes = nil
	}
	return r, nil
}

func (p *planner) cluster(nodes int) workload.Cluster {
	c := p.o.Cluster
	c.Groups = slices.Clone(c.Groups)
	c.Groups[p.o.Group].Nodes = nodes
	return c
}

// simulate simulates on a cluster. A refusal of the simulator, such as a job that does
// not fit, is kept in the run.
func (p *planner) simulate(c workload.Cluster) (*run, error) {
	p.report.Simulations++
	if p.o.Progress != nil {
		p.o.Progress(p.report.Simulations, c)
	}
	var sim simulator.Sim
	r := &run{cluster: c, estimates: map[string][]float64{}}
	if r.refused = sim.Start(c, p.o.Trace, p.o.Scheduler.New(p.o.Config), p.o.Simulate); r.refused != nil {
		return r, nil
	}
	if err := sim.Run(p.ctx); err != nil {
		return nil, err
	}
	r.outcomes = sim.Outcomes(nil)
	r.utilization = sim.Summarize().Utilization
	return r, nil
}

// estimate is a metric of a run, and of each draw of its blocks. Of a metric of tenants it
// is the worst tenant's. It is 0 without jobs that ended.
func (p *planner) estimate(r *run, metric string) []float64 {
	if v := r.estimates[metric]; v != nil {
		return v
	}
	worst := make([]float64, 1+draws)
	if !round.PerTenant(metric) {
		worst = p.of(metric, r, func(*simulator.Outcome) bool { return true })
	} else {
		jobs := p.o.Trace.Jobs()
		tenants := map[string]bool{}
		for i := range r.outcomes {
			t := jobs[r.outcomes[i].ID].Tenant
			if tenants[t] {
				continue
			}
			tenants[t] = true
			v := p.of(metric, r, func(o *simulator.Outcome) bool { return jobs[o.ID].Tenant == t })
			for k := range worst {
				worst[k] = max(worst[k], v[k])
			}
		}
	}
	r.estimates[metric] = worst
	return worst
}

// of is a metric of some jobs of a run, and of each draw of their blocks; 0 where a draw
// has none of them.
func (p *planner) of(metric string, r *run, some func(*simulator.Outcome) bool) []float64 {
	type value struct {
		v     float64
		block int
	}
	first, _ := p.span()
	var values []value
	for i := range r.outcomes {
		if o := &r.outcomes[i]; some(o) {
			values = append(values, value{round.MetricValue(metric, o), int((o.Submit - first) / p.block.span)})
		}
	}
	slices.SortFunc(values, func(a, b value) int {
		return cmp.Or(cmp.Compare(a.v, b.v), cmp.Compare(a.block, b.block))
	})
	all := make([]float64, 0, len(values))
	statistic := func(times func(block int) int) float64 {
		all = all[:0]
		for _, x := range values {
			for range times(x.block) {
				all = append(all, x.v)
			}
		}
		if len(all) == 0 {
			return 0
		}
		return round.Statistic(metric, all)
	}
	out := []float64{statistic(func(int) int { return 1 })}
	for _, w := range p.weights {
		out = append(out, statistic(func(block int) int { return int(w[block]) }))
	}
	return out
}

// interval makes an estimate of a value and the values of the draws.
func interval(metric string, values []float64) Estimate {
	lo, hi := stats.Interval(slices.Clone(values[1:]), 1)
	return Estimate{metric, values[0], lo, hi}
}

// add adds a case.
func (p *planner) add(name string, nodes int, r *run) *Case {
	c := Case{Name: name, Nodes: nodes, GPUs: r.cluster.TotalGPUs()}
	if r.refused != nil {
		c.Refused = r.refused.Error()
	} else {
		for _, m := range p.metrics {
			c.Metrics = append(c.Metrics, interval(m, p.estimate(r, m)))
		}
		c.Utilization, c.Keeps = r.utilization, p.keeps(r, 0)
	}
	p.report.Cases = append(p.report.Cases, c)
	return &p.report.Cases[len(p.report.Cases)-1]
}

// keeps reports whether a draw of a run keeps all bounds, 0 for the history itself.
func (p *planner) keeps(r *run, draw int) bool {
	for _, k := range p.o.Keep {
		if p.estimate(r, k.Metric)[draw] > k.Factor*p.estimate(p.now, k.Metric)[draw]+k.Slack {
			return false
		}
	}
	return true
}

// answer finds the least number of nodes that keeps the bounds. It takes for granted that
// more nodes keep the bounds that fewer keep.
func (p *planner) answer() error {
	a := &Answer{Most: p.most()}
	p.report.Answer = a
	least := p.least(a.Most)
	var err error
	share := func(enough float64) func(*run) bool {
		return func(r *run) bool {
			kept := 0
			for d := 1; d <= draws; d++ {
				if p.keeps(r, d) {
					kept++
				}
			}
			return float64(kept) >= enough*draws
		}
	}
	if a.Nodes, err = p.search(least, a.Most, func(r *run) bool { return p.keeps(r, 0) }); err != nil {
		return err
	}
	if a.Low, err = p.search(least, a.Most, share(.025)); err != nil {
		return err
	}
	if a.High, err = p.search(least, a.Most, share(.975)); err != nil {
		return err
	}
	if a.Nodes == 0 {
		return nil
	}
	p.add("enough", a.Nodes, p.runs[a.Nodes])
	for n, r := range p.runs {
		if n > a.Nodes && (r.refused != nil || !p.keeps(r, 0)) {
			a.Broken = append(a.Broken, n)
		}
	}
	slices.Sort(a.Broken)
	return nil
}

// search finds the least number of nodes from low to high that is enough, 0 if high is not.
func (p *planner) search(low, high int, enough func(*run) bool) (int, error) {
	is := func(nodes int) (bool, error) {
		r, err := p.at(nodes)
		return err == nil && r.refused == nil && enough(r), err
	}
	if ok, err := is(high); !ok {
		return 0, err
	}
	for low < high {
		mid := low + (high-low)/2
		ok, err := is(mid)
		switch {
		case err != nil:
			return 0, err
		case ok:
			high = mid
		default:
			low = mid + 1
		}
	}
	return high, nil
}

// least is the least number of nodes on which every job fits.
func (p *planner) least(most int) int {
	widest := map[workload.Request]*workload.Job{}
	for i := range p.o.Trace.Jobs() {
		j := &p.o.Trace.Jobs()[i]
		k := workload.Request{GPUModel: j.Request().GPUModel, Partition: j.Request().Partition}
		if w := widest[k]; w == nil || j.GPUs > w.GPUs {
			widest[k] = j
		}
	}
	fits := func(nodes int) bool {
		c := p.cluster(nodes)
		for _, j := range widest {
			if !c.Fits(j) {
				return false
			}
		}
		return true
	}
	low, high := 1, most
	for low < high {
		if mid := low + (high-low)/2; fits(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// most is a number of nodes on which no job needs to wait for another's: each has nodes of
// its own. It is at least that of the cluster as it is.
func (p *planner) most() int {
	g := &p.o.Cluster.Groups[p.o.Group]
	type change struct {
		at    time.Duration
		nodes int
	}
	var changes []change
	for i := range p.o.Trace.Jobs() {
		j := &p.o.Trace.Jobs()[i]
		n := (j.GPUs.Whole() + g.GPUsPerNode - 1) / g.GPUsPerNode
		changes = append(changes, change{j.Submit, n}, change{j.Submit + j.Duration, -n})
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.nodes, b.nodes))
	})
	held, most := 0, g.Nodes
	for _, c := range changes {
		held += c.nodes
		most = max(most, held)
	}
	return min(most, workload.MaxNodes)
}

// move adds the case of a move of quota.
func (p *planner) move(m Move, nodes int) error {
	c := p.now.cluster
	c.VCs = slices.Clone(c.VCs)
	of := func(tenant string) *workload.VC {
		k := slices.IndexFunc(c.VCs, func(v workload.VC) bool { return v.Tenant == tenant })
		if k < 0 {
			return nil
		}
		return &c.VCs[k]
	}
	from, to := of(m.From), of(m.To)
	for _, t := range []struct {
		name string
		vc   *workload.VC
	}{{m.From, from}, {m.To, to}} {
		if t.vc == nil {
			return fmt.Errorf("%s: tenant %q has no quota", m, t.name)
		}
	}
	if from.GPUs < m.GPUs {
		return fmt.Errorf("%s: %s has a quota of %d GPUs", m, m.From, from.GPUs)
	}
	tenants := []Tenant{{Tenant: m.From, Before: from.GPUs, After: from.GPUs - m.GPUs},
		{Tenant: m.To, Before: to.GPUs, After: to.GPUs + m.GPUs}}
	from.GPUs -= m.GPUs
	to.GPUs += m.GPUs
	r, err := p.simulate(c)
	if err != nil {
		return err
	}
	shown := p.add(m.String(), nodes, r)
	if r.refused != nil {
		return nil
	}
	jobs := p.o.Trace.Jobs()
	for _, t := range tenants {
		own := func(o *simulator.Outcome) bool { return jobs[o.ID].Tenant == t.Tenant }
		t.Was = interval(tenantMetric, p.of(tenantMetric, p.now, own))
		t.Is = interval(tenantMetric, p.of(tenantMetric, r, own))
		shown.Tenants = append(shown.Tenants, t)
	}
	return nil
}
