package round

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Replays keeps the results of replays of the history, so that the daily rule simulates each of them once. It is safe
// for concurrent use. Its entries are bounded in number; the size of those with the results of jobs grows with the
// history. The zero value is empty.
type Replays struct {
	results latest[*replayed] // by digests of everything that the replay depends on, without jobs
	jobs    latest[[]jobTimes]
	losers  latest[[]Group]
}

const (
	// keptReplays bounds each of the two parts of the results.
	keptReplays = 1 << 11
	// keptJobs bounds those with the results of all jobs: a question uses them of three configurations in each replay.
	keptJobs = 64
	// keptLosers bounds the comparisons of which the losers are known.
	keptLosers = 64
)

// latest are values by key in two parts. Those that were not used since as many others were as fill a part are
// forgotten.
type latest[V any] struct {
	mu          sync.Mutex
	recent, old map[string]V
}

func (l *latest[V]) get(key string, bound int) (x V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x, ok = l.recent[key]; ok {
		return x, true
	}
	if x, ok = l.old[key]; ok {
		l.keep(key, x, bound)
	}
	return x, ok
}

func (l *latest[V]) put(key string, x V, bound int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(key, x, bound)
}

func (l *latest[V]) keep(key string, x V, bound int) {
	if _, there := l.recent[key]; !there && (l.recent == nil || len(l.recent) >= bound) {
		l.recent, l.old = map[string]V{}, l.recent
	}
	l.recent[key] = x
}

// get returns the result of a replay that begins with a past, nil if it is not kept.
func (r *Replays) get(key string, past *simulator.Past) *replayed {
	if r == nil {
		return nil
	}
	x, _ := r.results.get(key, keptReplays)
	if x == nil || x.past != "" && x.past != pastKey(past) {
		return nil
	}
	return x
}

// pastKey identifies a past in a key; it is not empty.
func pastKey(past *simulator.Past) string { return "past " + past.Digest() }

func (r *Replays) add(key string, x *replayed) {
	if r != nil {
		short := *x
		short.jobs = nil
		r.results.put(key, &short, keptReplays)
	}
}

// replayed is the result of a configuration in a replay.
type replayed struct {
	past      string // the pastKey that it depends on, "" if on none
	exhausted bool   // it did not end within its budget of events; the rest is empty
	// values are the metrics of the goal, tenants those that have a value for each tenant.
	values  map[string]float64
	tenants map[string]map[string]float64
	// guarded are times that a change must not make much worse, by name.
	guarded map[string]meanTime
	// jobs are the results of the jobs that count, nil if the replay was kept.
	jobs []jobTimes
}

// meanTime is the mean over a number of jobs, in seconds.
type meanTime struct{ mean, jobs float64 }

// jobTimes is the result of a job.
type jobTimes struct {
	id        simulator.ID
	wait, jct time.Duration
}

// way is how stretches are replayed.
type way struct {
	size  float64       // of the cluster, in nodes of it
	runIn time.Duration // before a stretch
	times int           // replays of a stretch
}

// Gains are compared in the replays of asIs and larger, and promised by settled, with smaller for the range.
var (
	asIs    = way{1, warming, replays}
	larger  = way{quieter, warming, replays}
	settled = way{1, Warmup, 1}
	smaller = way{crowded, warming, 1}
)

// field is the replays of some stretches in a way.
type field struct {
	way
	scorer *Scorer
	runs   []run // by scenario
}

// run is one of the replays of a stretch.
type run struct {
	key     string // identifies the simulation, but for the configuration and the past
	stretch int
}

// newField prepares the replays of stretches in a way.
func (q *Question) newField(ctx context.Context, all []stretch, t *tape, how way) (*field, error) {
	p := q.Problem
	p.Cluster = resized(q.Cluster, how.size)
	f := &field{way: how}
	var scenarios []Scenario
	site, err := json.Marshal(p.Cluster)
	if err != nil {
		return nil, err
	}
	gpus := p.Cluster.TotalGPUs()
	same := p.Options // but for its Past, and Nodes, which is not used
	same.Past, same.Nodes = nil, nil
	options := same.Digest(gpus, func(func(*workload.Job) bool) {})
	for n, s := range all {
		for k := range how.times {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			may := func(j *workload.Job) bool { return fits(j, p.Cluster, p.Options.Quota) }
			x := t.replay(s, how.runIn, may, k)
			if counted(&x) == 0 {
				continue
			}
			if p.Options.Estimate != nil {
				options = same.Digest(gpus, (&Scorer{scenarios: []Scenario{x}}).jobs)
			}
			sum := sha256.Sum256(fmt.Append(nil, simulator.Version, p.Scheduler.Name, p.Goal, string(site), options,
				x.CountFrom, x.Arrivals.Digest()))
			scenarios, f.runs = append(scenarios, x), append(f.runs, run{hex.EncodeToString(sum[:16]), n})
		}
	}
	if len(scenarios) == 0 {
		return nil, errNothing
	}
	f.scorer, err = NewScorer(&p, scenarios)
	return f, err
}

// counted is the number of jobs of a replay that count.
func counted(x *Scenario) (n int) {
	for i := range x.Arrivals.Jobs() {
		if j := &x.Arrivals.Jobs()[i]; j.Submit >= x.CountFrom && !isProbe(j) {
			n++
		}
	}
	return n
}

func isProbe(j *workload.Job) bool { return j.ID == wideProbe || j.ID == tenantProbe }

// resized is a cluster with some times the nodes of each group, and with quotas that are the same parts of it.
func resized(c workload.Cluster, size float64) workload.Cluster {
	before := c.TotalGPUs()
	c.Groups, c.VCs = slices.Clone(c.Groups), slices.Clone(c.VCs)
	for i := range c.Groups {
		if n := &c.Groups[i].Nodes; *n > 0 {
			*n = max(1, int(float64(*n)*size+.5))
		}
	}
	for i := range c.VCs {
		v := &c.VCs[i]
		for _, gpus := range []*int{&v.GPUs, &v.Borrow.GPUs, &v.Lend.GPUs} {
			*gpus = *gpus * c.TotalGPUs() / max(1, before)
		}
	}
	return c
}

// fits reports whether a job can start on an empty cluster with quotas.
func fits(j *workload.Job, c workload.Cluster, quota simulator.Quota) bool {
	most := c.TotalGPUs() // in no quota, and in that of the tenant
	for _, v := range c.VCs {
		if v.Tenant != j.Tenant {
			most -= v.GPUs
		}
	}
	return c.Fits(j) && (quota != simulator.QuotaStrict || j.GPUs.Whole() <= most)
}

// run returns the results of configurations in the replays of a field, by configuration and scenario. step is called
// after each replay, from one goroutine at a time.
func (f *field) run(ctx context.Context, configs []space.Config, kept *Replays, workers int,
	step func()) ([][]*replayed,
	error) {
	out := make([][]*replayed, len(configs))
	errs := make([]error, len(configs)*len(f.runs))
	turn := make(chan struct{}, max(1, workers))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for c := range configs {
		out[c] = make([]*replayed, len(f.runs))
		hash := configs[c].Hash()
		for i := range f.runs {
			turn <- struct{}{}
			wg.Go(func() {
				defer func() { <-turn }()
				key := f.runs[i].key + hash
				x := kept.get(key, f.scorer.scenarios[i].Past)
				if x == nil && ctx.Err() == nil {
					if x, errs[c*len(f.runs)+i] = f.scorer.replay(ctx, configs[c], i); x != nil {
						if f.way != asIs {
							x.jobs = nil // losers are of the cluster as it is
						}
						kept.add(key, x)
					}
				}
				out[c][i] = x
				mu.Lock()
				defer mu.Unlock()
				step()
			})
		}
	}
	wg.Wait()
	return out, cmp.Or(append(errs, ctx.Err())...)
}

// replay simulates a configuration on a scenario.
func (sc *Scorer) replay(ctx context.Context, c space.Config, i int) (*replayed, error) {
	p := sc.players.Get().(*player)
	defer sc.players.Put(p)
	x := &sc.scenarios[i]
	err := sc.run(ctx, p, x, sc.scheduler.New(c))
	past := ""
	if p.sim.PastRead() {
		past = pastKey(x.Past)
	}
	if errors.Is(err, simulator.ErrBudget) {
		return &replayed{past: past, exhausted: true}, nil
	}
	if err != nil {
		return nil, err
	}
	p.out = p.sim.Outcomes(p.out[:0])
	out := &replayed{past: past, values: map[string]float64{}, tenants: map[string]map[string]float64{},
		guarded: map[string]meanTime{}}
	p.out = slices.DeleteFunc(p.out, func(o simulator.Outcome) bool {
		j := x.job(o.ID)
		if isProbe(j) {
			out.guarded["wait of a "+j.ID] = meanTime{o.Wait.Seconds(), 1}
		}
		return isProbe(j) || x.Warmup && o.Submit < x.CountFrom
	})
	p.begin = simulator.ID(len(x.Left))
	for _, name := range sc.wanted() {
		m, v := metrics[name], &metricValues{}
		v.add(&m, p, x)
		if err := v.positive(name); err != nil {
			return nil, err
		}
		if m.tenants {
			out.tenants[name] = v.byTenant[0]
		} else {
			out.values[name] = v.all[0]
		}
	}
	if len(p.out) > 0 {
		p.guard(out.guarded, x)
	}
	out.jobs = make([]jobTimes, 0, len(p.out))
	for i := range p.out {
		out.jobs = append(out.jobs, jobTimes{p.out[i].ID, p.out[i].Wait, p.out[i].JCT()})
	}
	return out, nil
}

// guard notes the mean JCT of short jobs, the p99 of the JCT, and the mean wait of the jobs of each class of width.
func (p *player) guard(times map[string]meanTime, x *Scenario) {
	jcts := slices.Clone(p.each(jct))
	slices.Sort(jcts)
	times["p99 JCT"] = meanTime{stats.Quantile(jcts, .99), 1}
	short := 0.
	for i := range p.out {
		if isShort(&p.out[i]) {
			short += float64(p.out[i].Members)
		}
	}
	if short > 0 {
		times["mean JCT of jobs of less than 10 minutes"] = meanTime{shareKnown(p.each(shortJCT)), short}
	}
	var wait, of [64]float64
	for i := range p.out {
		o := &p.out[i]
		class := WidthClass(x.job(o.ID).GPUs.Whole())
		wait[class] += o.Wait.Seconds() * float64(o.Members)
		of[class] += float64(o.Members)
	}
	for class, n := range of {
		if n > 0 {
			times["mean wait of "+WidthName(class)+"-GPU jobs"] = meanTime{wait[class] / n, n}
		}
	}
}

// guarded compares the guarded times of the replays of two configurations.
func (f *field) guarded(share float64, now, before []*replayed) guardVerdict {
	return guarded(share, func(i int) int { return f.runs[i].stretch }, now, before)
}

// losersOf are the losers of a change in the replays; jobs are counted once a stretch.
func (f *field) losersOf(ctx context.Context, before, after *Compared, kept *Replays) ([]Group, error) {
	if kept == nil {
		kept = &Replays{}
	}
	key := before.Config.Hash() + after.Config.Hash()
	for i := range f.runs {
		key += f.runs[i].key + before.replays[i].past + after.replays[i].past
	}
	if out, known := kept.losers.get(key, keptLosers); known {
		return out, nil
	}
	var changes []JobChange
	for i := range f.runs {
		var all [2][]jobTimes
		for n, c := range [...]*Compared{before, after} {
			at := f.runs[i].key + c.Config.Hash() + c.replays[i].past
			if all[n] = c.replays[i].jobs; all[n] == nil {
				all[n], _ = kept.jobs.get(at, keptJobs)
			}
			if all[n] == nil {
				x, err := f.scorer.replay(ctx, c.Config, i)
				if err != nil {
					return nil, err
				}
				all[n] = x.jobs
			}
			kept.jobs.put(at, all[n], keptJobs) // for the next day
		}
		changes = append(changes, jobChanges(f.scorer.scenarios[i].Arrivals.Jobs(), all[0], all[1])...)
	}
	out := Losers(changes)
	for i := range out {
		out[i].Jobs, out[i].Slower = max(1, (out[i].Jobs+replays/2)/replays), (out[i].Slower+replays/2)/replays
	}
	kept.losers.put(key, out, keptLosers)
	return out, nil
}

// jobChanges joins the results of two replays, which are in order of the jobs.
func jobChanges(jobs []workload.Job, before, after []jobTimes) []JobChange {
	result := func(x *jobTimes) JobResult { return JobResult{x.wait.Seconds(), x.jct.Seconds(), true} }
	out := make([]JobChange, 0, len(after))
	for i := range after {
		out = append(out, JobChange{&jobs[after[i].id], result(&before[i]), result(&after[i])})
	}
	return out
}
