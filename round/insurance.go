package round

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// insurance compares configurations beyond the futures of a round, once a day: on a
// replay of the last week, and under stress that forecasts seldom show.
type insurance struct {
	At time.Duration `json:"at"`
	// Weight of the replay beside the evidence of rounds, each of which has at most 1.
	Weight float64 `json:"weight"`
	// Replay and Stress are logarithms of the objective over the default's, by key.
	Replay map[string]float64 `json:"replay,omitempty"`
	Stress map[string]float64 `json:"stress,omitempty"`
	// Known are the keys of what was measured, as far as there was anything to measure on.
	Known map[string]bool `json:"known,omitempty"`
}

// lacks reports whether a configuration was not measured.
func (x *insurance) lacks(configs []space.Config, key func(space.Config) string) bool {
	return slices.ContainsFunc(configs, func(c space.Config) bool {
		return !x.Known[key(c)]
	})
}

const (
	// insurancePeriod is the time between replays.
	insurancePeriod = 24 * time.Hour
	// replayWeight is that of a replay of a whole Memory.
	replayWeight = 4
	// mostInsured bounds the logarithm of the ratio of two configurations in a replay and
	// under stress: one batch that meets the wrong one counts for no more.
	mostInsured = .05
	// replayVeto is how much worse than the incumbent a configuration may be in the
	// replay, as a logarithm.
	replayVeto = .01
	// stressWeight is the weight of a difference under stress beside one in the futures.
	stressWeight = .1
	// leastReplayed is the number of jobs from which a replay is made.
	leastReplayed = 100
)

// insurer measures configurations on the replay and the stress of one instant.
type insurer struct {
	replay, stress *Scorer // nil if there is none
	weight         float64
	workers        int
	key            func(space.Config) string
}

// newInsurer prepares the measurements at a snapshot. base is one of its futures.
func newInsurer(ctx context.Context, in *Input, p *Problem, base Scenario, key func(space.Config) string) (*insurer,
	error) {
	x := &insurer{workers: in.Workers, key: key}
	week, span, err := in.lastDays(ctx, replays, in.Seed)
	if err != nil {
		return nil, err
	}
	if !in.Ablation.NoReplay && len(week) > 0 && week[0].Jobs() >= leastReplayed {
		if x.replay, err = scorerOf(ctx, p, week); err != nil {
			return nil, err
		}
		x.weight = replayWeight * float64(span) / float64(Memory)
	}
	if !in.Ablation.NoStress {
		stress, err := in.stress(ctx, base, in.Seed)
		if err != nil {
			return nil, err
		}
		if len(stress) > 0 {
			if x.stress, err = scorerOf(ctx, p, stress); err != nil {
				return nil, err
			}
		}
	}
	return x, nil
}

func scorerOf(ctx context.Context, p *Problem, scenarios []Scenario) (*Scorer, error) {
	s, err := NewScorer(p, scenarios)
	if err != nil {
		return nil, err
	}
	return s, s.CompareWith(ctx, p.Incumbent)
}

// measure adds the configurations to an insurance that lack there.
func (x *insurer) measure(ctx context.Context, to *insurance, configs []space.Config) error {
	if to.Known == nil {
		to.Known = map[string]bool{}
	}
	for _, c := range configs {
		to.Known[x.key(c)] = true
	}
	for _, one := range [...]struct {
		scorer *Scorer
		logs   *map[string]float64
	}{{x.replay, &to.Replay}, {x.stress, &to.Stress}} {
		if one.scorer == nil {
			continue
		}
		if *one.logs == nil {
			*one.logs = map[string]float64{}
		}
		if err := x.compare(ctx, one.scorer, *one.logs, configs); err != nil {
			return err
		}
	}
	return nil
}

// compare measures the configurations that logs lack, and the default.
func (x *insurer) compare(ctx context.Context, s *Scorer, logs map[string]float64, configs []space.Config) error {
	var field []search.Trial
	for _, c := range configs {
		_, known := logs[x.key(c)]
		same := func(t search.Trial) bool { return x.key(t.Config) == x.key(c) }
		if !known && !slices.ContainsFunc(field, same) {
			field = append(field, search.Trial{Config: c})
		}
	}
	if len(field) == 0 {
		return nil
	}
	field = append(field, search.Trial{Config: configs[0].Space().Default()})
	measured, err := s.all(ctx, field, x.workers)
	if err != nil {
		return err
	}
	base := &measured[len(measured)-1]
	if base.Exhausted {
		return nil
	}
	for i := range field {
		sum := 0.0
		for k, v := range measured[i].Values {
			sum += logRatio(v, base.Values[k]) / float64(len(base.Values))
		}
		if measured[i].Exhausted {
			sum = failed
		}
		logs[x.key(field[i].Config)] = math.Round(1e6*sum) / 1e6
	}
	return nil
}

// lastDays is the jobs submitted within Memory, replayed n times on an empty cluster,
// and the time since the first of them. Durations of jobs that have not ended are drawn
// from history.
func (s *Snapshot) lastDays(ctx context.Context, n int, seed uint64) ([]Scenario, time.Duration, error) {
	from := s.State.At - Memory
	records := s.records()
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	known := index(records)
	var past generation.Past
	for _, j := range s.arrivals(from, s.State.At+1) {
		past.Arrivals = append(past.Arrivals, known.of(&j, s.State.At))
	}
	if len(past.Arrivals) == 0 {
		return nil, 0, nil
	}
	first := past.Arrivals[0].Submit
	drawn, err := generation.Replay(ctx, s.Zero, past, records, n, seed)
	if err != nil {
		return nil, 0, err
	}
	before := Past(s.Ledger, from)
	out := make([]Scenario, n)
	for k := range out {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		draw := rng.Stream("jitter", seed, uint64(k))
		jobs := slices.Clone(drawn[k].Arrivals.Jobs())
		for i := range jobs {
			jobs[i].Submit += time.Duration(draw.Int64N(int64(replayJitter)))
		}
		w, err := workload.New("last days", s.Zero, jobs)
		if err != nil {
			return nil, 0, err
		}
		out[k] = Scenario{Arrivals: w, Past: before}
	}
	return out, s.State.At - first, nil
}

const (
	// leastSweep is the number of jobs of one tenant in one hour that are a sweep.
	leastSweep = 10
	// crowdPerGPU is the number of one-GPU jobs of a flash crowd.
	crowdPerGPU = 4
	// lostNodes is the share of nodes that a stressed future lacks.
	lostNodes = .1
)

// stress is a future with the largest sweep of the last four weeks, with a flash crowd
// of one-GPU jobs, and without a tenth of the nodes.
func (s *Snapshot) stress(ctx context.Context, base Scenario, seed uint64) ([]Scenario, error) {
	ended := s.Ledger.Finishes(s.State.At-ArrivalMemory, s.State.At+1)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := s.State.Available()
	ended = slices.DeleteFunc(ended, func(f workload.Finish) bool { return f.RunTime <= 0 || !now.Fits(&f.Job) })
	var out []Scenario
	for _, more := range [...][]workload.Job{sweep(ended, s.State.At),
		crowd(ended, s.State.At, s.State.Cluster.TotalGPUs(), rng.Stream("flash crowd", seed))} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(more) == 0 {
			continue
		}
		x, err := base.with(s.Zero, more)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	if x, ok := base.withoutNodes(); ok && x.Jobs() > 0 {
		out = append(out, x)
	}
	return out, nil
}

// sweep is the jobs that one tenant submitted within one hour with the most GPU-time,
// submitted again in the hour after an instant.
func sweep(ended []workload.Finish, at time.Duration) []workload.Job {
	type batch struct {
		tenant string
		hour   time.Duration
	}
	jobs, service := map[batch][]int{}, map[batch]float64{}
	largest, found := batch{}, false
	for i := range ended {
		f := &ended[i]
		b := batch{f.Tenant, f.Submit.Truncate(time.Hour)}
		if f.Submit < b.hour { // before the first day
			b.hour -= time.Hour
		}
		jobs[b] = append(jobs[b], i)
		service[b] += f.RunTime.Seconds() * float64(f.GPUs.Whole())
	}
	for b := range jobs {
		if len(jobs[b]) < leastSweep {
			continue
		}
		if !found || cmp.Or(cmp.Compare(service[largest], service[b]), cmp.Compare(largest.hour, b.hour),
			cmp.Compare(largest.tenant, b.tenant)) < 0 {
			largest, found = b, true
		}
	}
	if !found {
		return nil
	}
	var out []workload.Job
	for n, i := range jobs[largest] {
		j := ended[i].Job
		j.ID, j.Duration = fmt.Sprintf("sweep-%d", n), ended[i].RunTime
		j.Submit = at + 1 + j.Submit - largest.hour
		out = append(out, j)
	}
	return out
}

// crowd is a number of one-GPU jobs per GPU in the hour after an instant, drawn from
// those that ended.
func crowd(ended []workload.Finish, at time.Duration, gpus int, draw *rand.Rand) []workload.Job {
	var narrow []int
	for i := range ended {
		if ended[i].GPUs.Whole() == 1 {
			narrow = append(narrow, i)
		}
	}
	if len(narrow) == 0 {
		return nil
	}
	out := make([]workload.Job, crowdPerGPU*gpus)
	for n := range out {
		f := &ended[narrow[draw.IntN(len(narrow))]]
		out[n] = f.Job
		out[n].ID, out[n].Duration = fmt.Sprintf("crowd-%d", n), f.RunTime
		out[n].Submit = at + 1 + time.Duration(n)*time.Hour/time.Duration(len(out))
	}
	return out
}

// with adds arrivals to a scenario. Deadlines of the copies are dropped.
func (x Scenario) with(zero time.Time, more []workload.Job) (Scenario, error) {
	var jobs []workload.Job
	if x.Arrivals != nil {
		jobs = slices.Clone(x.Arrivals.Jobs())
	}
	for _, j := range more {
		j.Deadline = 0
		jobs = append(jobs, j)
	}
	w, err := workload.New("stress", zero, jobs)
	x.Arrivals = w
	return x, err
}

// withoutNodes is a scenario whose last nodes are lost; their jobs wait. It reports
// false if no node can be spared, as where quotas add up to the whole cluster.
func (x Scenario) withoutNodes() (Scenario, bool) {
	if x.State == nil || len(x.State.Cluster.VCs) > 0 {
		return x, false
	}
	state := *x.State
	state.Cluster.Groups = slices.Clone(state.Cluster.Groups)
	before, lost := 0, 0
	for i := range state.Cluster.Groups {
		before += state.Cluster.Groups[i].Nodes
	}
	last := &state.Cluster.Groups[len(state.Cluster.Groups)-1]
	if lost = int(math.Ceil(lostNodes * float64(before))); lost >= last.Nodes || lost >= before {
		return x, false
	}
	last.Nodes -= lost
	state.Jobs = nil
	up := state.Available()
	left := x.Left
	x.Left = nil
	for i, a := range x.State.Jobs {
		if !up.Fits(&a.Job) {
			continue
		}
		if slices.ContainsFunc(a.Placement, func(n workload.NodeGPUs) bool { return n.Node >= before-lost }) {
			a.Running, a.Placement, a.Since, a.SharesWith = false, nil, x.State.At, ""
		}
		state.Jobs = append(state.Jobs, a)
		x.Left = append(x.Left, left[i])
	}
	if x.Arrivals != nil {
		jobs := slices.DeleteFunc(slices.Clone(x.Arrivals.Jobs()), func(j workload.Job) bool {
			return !up.Fits(&j)
		})
		w, err := workload.New("stress", x.Arrivals.Zero(), jobs)
		if err != nil {
			return x, false
		}
		x.Arrivals = w
	}
	x.State = &state
	return x, true
}
