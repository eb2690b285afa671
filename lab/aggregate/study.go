package aggregate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/lab/busy"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Options configure Measure.
type Options struct {
	// Sizes of groups (Group) to compare.
	Sizes []int
	// Configs is the number of configurations ranked: the default, the presets, then
	// random ones.
	Configs int
	// Hours is the number of instants of the window, spread evenly over instants with
	// waiting jobs, each with the active jobs and the arrivals within the horizon. 0 is
	// the whole window at once, from an empty cluster.
	Hours int
	// Repeats is the number of times each measurement is timed; the fastest counts.
	Repeats int
	// Progress is called after every configuration.
	Progress func(done, of int)
}

// Study is the speed-up of the trace aggregator and the loss of accuracy.
type Study struct {
	Trace     string   `json:"trace"`
	Scheduler string   `json:"scheduler"`
	Objective string   `json:"objective"`
	Configs   int      `json:"configurations"`
	Instants  []string `json:"instants"`
	// Rows are by size. The first, of size 1, has no groups but every job submitted up
	// to a minute later: the noise of the ranks.
	Rows []Row `json:"rows"`
}

// Row is a size of groups: means over the instants, times in all.
type Row struct {
	Size    int     `json:"size"`
	JobsIn  float64 `json:"jobs_in"`
	JobsOut float64 `json:"jobs_out"`
	// Tau is Kendall's rank correlation (tau-a) between the configurations'
	// objectives on the groups and on the jobs; MinTau the least of an instant.
	Tau    float64 `json:"tau"`
	MinTau float64 `json:"min_tau"`
	// TauApart is the same over the pairs that differ by more than 1 % on the jobs;
	// Apart is their share of all pairs.
	TauApart float64 `json:"tau_apart"`
	Apart    float64 `json:"apart"`
	// Lost is how much worse, as a share, the best configuration on the groups is on
	// the jobs than the best there; MostLost is the largest of an instant.
	Lost     float64 `json:"objective_lost"`
	MostLost float64 `json:"most_lost"`
	// Bias is the relative excess of the objective on the groups, the mean over
	// configurations.
	Bias float64 `json:"bias"`
	// Speedup is the time to measure a configuration on the jobs over that on the
	// groups, each configuration's share of the grouping included: the median over
	// configurations, in the geometric mean over instants. MostSpeedup is the
	// largest of an instant, the seconds are sums.
	Speedup     float64 `json:"speedup"`
	MostSpeedup float64 `json:"most_speedup"`
	FullS       float64 `json:"seconds_jobs"`
	GroupsS     float64 `json:"seconds_groups"`
}

// Measure measures the same configurations on jobs and on groups of
// similar ones.
func Measure(ctx context.Context, o replay.Options, a Options) (*Study, error) {
	if a.Configs < 2 || a.Hours < 0 || len(a.Sizes) == 0 {
		return nil, fmt.Errorf("aggregate: %d configurations, %d hours, sizes %v; want at least 2, 0 and one",
			a.Configs, a.Hours, a.Sizes)
	}
	e, err := replay.Prepare(o)
	if err != nil {
		return nil, err
	}
	configs, err := configs(e, a.Configs)
	if err != nil {
		return nil, err
	}
	out := &Study{Trace: o.Trace.Name(), Scheduler: e.Options.Scheduler.Name,
		Objective: e.Options.Goal.String(), Configs: len(configs)}
	for _, size := range append([]int{1}, a.Sizes...) {
		out.Rows = append(out.Rows, Row{Size: size, MinTau: 1})
	}
	done := 0
	study := func(at string, x round.Scenario, instants int) error {
		out.Instants = append(out.Instants, at)
		progress := func() {
			if done++; a.Progress != nil {
				a.Progress(done, instants*len(configs)*(2+len(a.Sizes)))
			}
		}
		full, fullTimes, err := measureAll(ctx, e, x, configs, a.Repeats, progress)
		if err != nil {
			return err
		}
		for i := range out.Rows {
			r := &out.Rows[i]
			began := time.Now()
			groups := aggregated(x, e.Options.Cluster, r.Size)
			grouping := time.Since(began)
			if r.Size == 1 {
				if groups.Arrivals, err = jittered(e, x.Arrivals, uint64(len(out.Instants))); err != nil {
					return err
				}
			}
			values, times, err := measureAll(ctx, e, groups, configs, a.Repeats, progress)
			if err != nil {
				return err
			}
			r.JobsIn += float64(x.Jobs())
			r.JobsOut += float64(groups.Jobs())
			r.time(fullTimes, times, grouping)
			r.compare(full, values)
		}
		return nil
	}
	if a.Hours == 0 {
		err = study(e.Clock(e.Options.From), round.Scenario{Arrivals: e.Workload}, 1)
	} else {
		err = eachBusy(ctx, e, a.Hours, func(at time.Duration, x round.Scenario) error {
			return study(e.Clock(at), x, a.Hours)
		})
	}
	if err != nil {
		return nil, err
	}
	n := float64(len(out.Instants))
	for i := range out.Rows {
		r := &out.Rows[i]
		r.JobsIn, r.JobsOut, r.Tau, r.Lost, r.Bias = r.JobsIn/n, r.JobsOut/n, r.Tau/n, r.Lost/n, r.Bias/n
		r.TauApart, r.Apart = r.TauApart/n, r.Apart/n
		r.Speedup = math.Exp(r.Speedup / n)
	}
	return out, nil
}

// jittered returns a workload whose jobs are submitted up to a minute later.
func jittered(e *replay.Evaluation, w *workload.Workload, at uint64) (*workload.Workload, error) {
	stream := rng.Stream("aggregate-jitter", e.Options.Seed, at)
	jobs := slices.Clone(w.Jobs())
	for i := range jobs {
		jobs[i].Submit += time.Duration(stream.Int64N(int64(time.Minute)))
	}
	return workload.New(w.Name(), w.Zero(), jobs)
}

// aggregated returns a scenario with similar jobs merged into groups. The cluster is
// used if the scenario has no state.
func aggregated(x round.Scenario, cluster workload.Cluster, size int) round.Scenario {
	if x.State != nil {
		cluster = x.State.Cluster
		x.State, x.Left = GroupState(x.State, x.Left, size)
	}
	if x.Arrivals != nil {
		x.Arrivals = Group(cluster, x.Arrivals, size)
	}
	return x
}

// eachBusy calls back at instants at which jobs wait under the default, with the active
// jobs and the true arrivals.
func eachBusy(ctx context.Context, e *replay.Evaluation, hours int,
	each func(time.Duration, round.Scenario) error) error {
	incumbent := e.Options.Scheduler.Space.Default()
	instants, err := busy.Instants(ctx, e, incumbent, hours)
	if err != nil {
		return err
	}
	live, err := e.Start(incumbent, true)
	if err != nil {
		return err
	}
	for _, at := range instants {
		if err := live.Sim.RunUntil(ctx, at); err != nil {
			return err
		}
		m := e.Input(live, 0, at, incumbent)
		if err := each(at, e.Truth(m)); err != nil {
			return err
		}
	}
	return nil
}

// configs returns the configurations to rank, each once.
func configs(e *replay.Evaluation, want int) ([]space.Config, error) {
	s := e.Options.Scheduler
	var out []space.Config
	seen := map[string]bool{}
	add := func(c space.Config) {
		if h := c.Hash(); !seen[h] && len(out) < want {
			seen[h] = true
			out = append(out, c)
		}
	}
	add(s.Space.Default())
	for _, p := range s.Presets {
		add(p.Config)
	}
	stream := rng.Stream("aggregate-configurations", e.Options.Seed)
	x := make([]float64, s.Space.Dims())
	for tries := 0; len(out) < want; tries++ {
		if tries == 100*want {
			return nil, fmt.Errorf("aggregate: %s has only %d configurations to rank, not %d", s.Name, len(out), want)
		}
		for d := range x {
			x[d] = stream.Float64()
		}
		add(s.Space.Decode(x))
	}
	return out, nil
}

// measureAll measures every configuration on one scenario, NaN where it
// exhausts its events, and the time of each, the fastest of repeats.
func measureAll(ctx context.Context, e *replay.Evaluation, x round.Scenario, configs []space.Config, repeats int,
	progress func()) ([]float64, []time.Duration, error) {
	scorer, err := e.Scorer(x)
	if err != nil {
		return nil, nil, err
	}
	values, times := make([]float64, len(configs)), make([]time.Duration, len(configs))
	for i, c := range configs {
		times[i] = math.MaxInt64
		for range max(repeats, 1) {
			began := time.Now()
			m, err := scorer.Measure(ctx, c)
			if err != nil {
				return nil, nil, fmt.Errorf("aggregate: %v: %w", c, err)
			}
			times[i] = min(times[i], time.Since(began))
			if values[i] = math.NaN(); !m.Exhausted {
				values[i] = m.Values[0]
			}
		}
		progress()
	}
	return values, times, nil
}

// time adds how long one instant took.
func (r *Row) time(full, groups []time.Duration, grouping time.Duration) {
	ratios := make([]float64, len(full))
	for i := range full {
		took := groups[i] + grouping/time.Duration(len(full))
		ratios[i] = float64(full[i]) / float64(max(took, 1))
		r.FullS += full[i].Seconds()
		r.GroupsS += took.Seconds()
	}
	slices.Sort(ratios)
	median := ratios[len(ratios)/2]
	r.Speedup += math.Log(max(median, 1e-9))
	r.MostSpeedup = max(r.MostSpeedup, median)
}

// compare adds the results of one instant.
func (r *Row) compare(full, groups []float64) {
	best, pick, n := -1, -1, 0
	bias := 0.0
	for i := range full {
		if math.IsNaN(full[i]) || math.IsNaN(groups[i]) {
			continue
		}
		n++
		if full[i] > 0 {
			bias += groups[i]/full[i] - 1
		}
		if best < 0 || full[i] < full[best] {
			best = i
		}
		if pick < 0 || groups[i] < groups[pick] {
			pick = i
		}
	}
	tau, lost := Kendall(full, groups), 0.0
	tauApart, pairs := kendallApart(full, groups, indifference)
	r.TauApart += tauApart
	r.Apart += float64(pairs) / max(1, float64(n*(n-1)/2))
	if best >= 0 && full[best] > 0 {
		lost = full[pick]/full[best] - 1
	}
	r.Tau += tau
	r.MinTau = min(r.MinTau, tau)
	r.Lost += lost
	r.MostLost = max(r.MostLost, lost)
	r.Bias += bias / float64(max(n, 1))
}

// Kendall returns the rank correlation tau-a of two series: the share of concordant
// pairs minus that of discordant ones. Pairs that are equal in the first, up to a part
// in 1e9, and pairs with NaN are left out; without any pair it is 1.
func Kendall(a, b []float64) float64 {
	tau, _ := kendallApart(a, b, 1e-9)
	return tau
}

// indifference is the relative difference below which two objectives count as equal:
// the variation between seeds.
const indifference = .01

// kendallApart returns Kendall over the pairs that differ by more than a share in the
// first series, and the number of these pairs.
func kendallApart(a, b []float64, share float64) (tau float64, pairs int) {
	score := 0
	for i := range a {
		for j := range i {
			x, y := a[i]-a[j], b[i]-b[j]
			if math.IsNaN(x) || math.IsNaN(y) || math.Abs(x) <= share*min(math.Abs(a[i]), math.Abs(a[j])) {
				continue
			}
			pairs++
			switch {
			case x > 0 && y > 0, x < 0 && y < 0:
				score++
			case y != 0:
				score--
			}
		}
	}
	if pairs == 0 {
		return 1, 0
	}
	return float64(score) / float64(pairs), pairs
}
