// Package held judges the daily rule (round.Ask) on windows that it did not see: the configuration that it picks is
// held for a window of five days, and compared with the default and with the presets, each simulated on the same jobs.
package held

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

const (
	day = 24 * time.Hour
	// Length of a window. Jobs of the Warmup before it run without counting.
	Length = 5 * day
	// replays of a window: as it was, and with every submission up to ten minutes later.
	replays = 5
	jitter  = 10 * time.Minute
)

// Study is a trace on clusters of some sizes, with the schedulers to tune and the beginnings of the windows.
type Study struct {
	Trace      *workload.Workload
	Nodes      []int
	Schedulers []*schedulers.Scheduler
	From       []time.Duration
	Workers    int
	Progress   func(Cell)
}

// Cell is a window on a cluster under a scheduler.
type Cell struct {
	Scheduler string  `json:"scheduler"`
	Nodes     int     `json:"nodes"`
	From      string  `json:"from"`
	Week      int     `json:"week"` // since 1970
	Load      float64 `json:"load"`
	// Default is the mean JCT of the default, in seconds, as the window was.
	Default float64 `json:"default_s"`
	// Gains of the presets over the default, logarithms, means over the replays; Best is the largest, of the default
	// too.
	Gains map[string]float64 `json:"gains"`
	Best  float64            `json:"best"`
	Rules []Picked           `json:"rules"`
}

// Picked is the answer of a rule at the beginning of a window.
type Picked struct {
	// Rule is "reported" where guards are only reported, "enforced" where they refuse. With "chain " before it, the
	// pick of the window before is in force, otherwise the default.
	Rule    string `json:"rule"`
	Config  string `json:"config"`
	Changed bool   `json:"changed"`
	// Promised is the gain over the one in force, between Low and High, as the answer says; 0 if nothing changes.
	Promised float64 `json:"promised"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	// Came is the gain over the one in force in the window as it was, Expected over the default in the mean of the
	// replays.
	Came     float64 `json:"came"`
	Expected float64 `json:"expected"`
	// Kept counts the guards that the answer takes for kept and of which the window has jobs, Broken are the ones of
	// them that the change breaks in half of the replays of the window or more.
	Kept   int      `json:"kept"`
	Broken []string `json:"broken,omitempty"`
}

// Run measures all cells, by scheduler, size and window.
func (s *Study) Run(ctx context.Context) (out []Cell, err error) {
	for _, one := range s.Schedulers {
		for _, nodes := range s.Nodes {
			cells, err := s.column(ctx, one, nodes)
			if err != nil {
				return nil, fmt.Errorf("%s on %d nodes: %w", one.Name, nodes, err)
			}
			out = append(out, cells...)
		}
	}
	return out, nil
}

// rule is a way to ask.
type rule struct {
	name  string
	guard float64
	chain bool
}

var rules = []rule{{"reported", -1, false}, {"enforced", .1, false}, {"chain reported", -1, true}, {"chain enforced",
	.1, true}}

// column is the windows of a scheduler on a cluster, in order.
func (s *Study) column(ctx context.Context, one *schedulers.Scheduler, nodes int) (out []Cell, err error) {
	cluster := workload.Uniform(nodes, 8)
	kept := &round.Replays{}
	configs := []space.Config{one.Space.Default()}
	for _, p := range one.Presets {
		configs = append(configs, p.Config)
	}
	inForce := make([]space.Config, len(rules))
	for i := range inForce {
		inForce[i] = one.Space.Default()
	}
	for _, from := range s.From {
		w, err := s.window(ctx, one, cluster, from, configs)
		if err != nil {
			return nil, err
		}
		c := w.cell(s, one, nodes, from)
		for i, r := range rules {
			incumbent := one.Space.Default()
			if r.chain {
				incumbent = inForce[i]
			}
			a, err := round.Ask(ctx, round.Question{Problem: round.Problem{Scheduler: one, Space: one.Space,
				Cluster: cluster,
				Goal:    round.Minimise("avg_jct"), Incumbent: incumbent}, History: round.RecordedOf(s.Trace, from),
				Guard: r.guard,
				Seed:  1, Workers: s.Workers, Replays: kept})
			if err != nil {
				return nil, err
			}
			inForce[i] = a.Config
			c.Rules = append(c.Rules, w.judge(r.name, incumbent, &a))
		}
		if s.Progress != nil {
			s.Progress(c)
		}
		out = append(out, c)
	}
	return out, nil
}

// seen is the results of configurations in a window, by configuration and replay.
type seen struct {
	configs []space.Config
	jct     [][]float64
	times   [][]map[string]float64 // that guards compare
	load    float64
}

// window simulates configurations.
func (s *Study) window(ctx context.Context, one *schedulers.Scheduler, c workload.Cluster, from time.Duration,
	configs []space.Config) (*seen, error) {
	out := &seen{configs: configs, jct: make([][]float64, len(configs)), times: make([][]map[string]float64,
		len(configs))}
	works := make([]*workload.Workload, replays)
	for k := range works {
		draw := rng.Stream("held window", uint64(from), uint64(k))
		var jobs []workload.Job
		for _, j := range s.Trace.Window(from-round.Warmup, from+Length).Jobs() {
			if !c.Fits(&j) {
				continue
			}
			if k > 0 {
				j.Submit += time.Duration(draw.Int64N(int64(jitter)))
			}
			if k == 0 && j.Submit >= from {
				out.load += j.Duration.Hours() * j.GPUs.Count()
			}
			jobs = append(jobs, j)
		}
		var err error
		if works[k], err = workload.New("window", s.Trace.Zero(), jobs); err != nil {
			return nil, err
		}
	}
	out.load /= Length.Hours() * float64(c.TotalGPUs())
	turn := make(chan struct{}, max(1, s.Workers))
	errs := make([]error, len(configs)*replays)
	var wg sync.WaitGroup
	for i := range configs {
		out.jct[i], out.times[i] = make([]float64, replays), make([]map[string]float64, replays)
		for k := range replays {
			turn <- struct{}{}
			wg.Go(func() {
				defer func() { <-turn }()
				var sim simulator.Sim
				err := sim.Start(c, works[k], one.New(configs[i]), simulator.Options{})
				if err == nil {
					err = sim.Run(ctx)
				}
				if errs[i*replays+k] = err; err != nil {
					return
				}
				all := slices.DeleteFunc(sim.Outcomes(nil), func(o simulator.Outcome) bool { return o.Submit < from })
				out.jct[i][k], out.times[i][k] = timesOf(all, works[k].Jobs())
			})
		}
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// timesOf returns the mean JCT and the times that guards compare: of short jobs, the p99 and waits by width.
func timesOf(all []simulator.Outcome, jobs []workload.Job) (mean float64, times map[string]float64) {
	sum, of := map[string]float64{}, map[string]float64{}
	add := func(name string, seconds float64) { sum[name], of[name] = sum[name]+seconds, of[name]+1 }
	var jcts []float64
	for i := range all {
		o := &all[i]
		jcts = append(jcts, o.JCT().Seconds())
		add("", o.JCT().Seconds())
		if o.RunTime < round.ShortRun {
			add("mean JCT of jobs of less than 10 minutes", o.JCT().Seconds())
		}
		add("mean wait of "+round.WidthName(round.WidthClass(jobs[o.ID].GPUs.Whole()))+"-GPU jobs", o.Wait.Seconds())
	}
	for name := range sum {
		sum[name] /= of[name]
	}
	slices.Sort(jcts)
	mean = sum[""]
	delete(sum, "")
	sum["p99 JCT"] = jcts[int(.99*float64(len(jcts)-1))]
	return mean, sum
}

func (w *seen) at(c space.Config) int { return slices.IndexFunc(w.configs, c.Equal) }

// gain of a configuration over another in a replay, as a logarithm.
func (w *seen) gain(c, over, k int) float64 { return math.Log(w.jct[over][k] / w.jct[c][k]) }

// expected is the mean gain over the replays.
func (w *seen) expected(c, over int) (sum float64) {
	for k := range replays {
		sum += w.gain(c, over, k) / replays
	}
	return sum
}

func (w *seen) cell(s *Study, one *schedulers.Scheduler, nodes int, from time.Duration) Cell {
	clock := s.Trace.Clock(from)
	c := Cell{Scheduler: one.Name, Nodes: nodes, From: clock.Format(time.DateOnly),
		Week: int(clock.Unix() / (7 * 86400)),
		Load: w.load, Default: w.jct[0][0], Gains: map[string]float64{}}
	for i, p := range one.Presets {
		c.Gains[p.Name] = w.expected(i+1, 0)
		c.Best = max(c.Best, c.Gains[p.Name])
	}
	return c
}

// judge compares an answer with the window.
func (w *seen) judge(name string, incumbent space.Config, a *round.Answer) Picked {
	picked, before := w.at(a.Config), w.at(incumbent)
	p := Picked{Rule: name, Config: a.Config.String(), Changed: a.Adopt, Came: w.gain(picked, before, 0),
		Expected: w.expected(picked, 0)}
	if !a.Adopt {
		return p
	}
	p.Promised, p.Low, p.High = a.Gain, a.Low, a.High
	for what := range w.times[picked][0] {
		if slices.Contains(a.Best.Unclear, what) ||
			slices.ContainsFunc(a.Best.Breaks, func(b round.Broken) bool { return b.What == what }) {
			continue
		}
		p.Kept++
		worse := 0
		for k := range replays {
			if w.times[picked][k][what] > 1.1*w.times[before][k][what]+round.GuardSlack {
				worse++
			}
		}
		if 2*worse >= replays {
			p.Broken = append(p.Broken, what)
		}
	}
	slices.Sort(p.Broken)
	return p
}

// Summary is the numbers of a rule over cells; shares are of 1.
type Summary struct {
	Rule    string
	Windows int
	Weeks   int
	// Gain is the mean expected gain over the default, Share its part of that of the best of default and presets in
	// hindsight, with 95 % intervals by a bootstrap over weeks. Random is the mean gain of a preset drawn at random.
	Gain, Random float64
	Share        Estimate
	// Below1 and Below3 are the shares of windows with an expected loss above 1 and 3 %.
	Below1, Below3 Estimate
	Worst          float64
	// AheadOfRandom is the share of the cells of a scheduler and a size that gain more than random presets.
	AheadOfRandom float64
	// Promised and Came are means over the changes, Covered the share of them whose gain came within the range.
	Changes                 int
	Promised, Came, Covered float64
	// Kept is the share of the guards that are taken for kept which are, KeptAll that of the changes that break none of
	// these.
	Kept, KeptAll float64
}

// Estimate is a value with its interval.
type Estimate struct{ Value, Low, High float64 }

// Summarise summarises a rule over cells.
func Summarise(cells []Cell, name string) Summary {
	out := Summary{Rule: name, Windows: len(cells), Worst: math.Inf(1)}
	guards := 0
	byWeek := map[int][]*Cell{}
	type column struct{ gain, random float64 }
	columns := map[string]*column{}
	pick := func(c *Cell) *Picked {
		return &c.Rules[slices.IndexFunc(c.Rules, func(p Picked) bool { return p.Rule == name })]
	}
	for i := range cells {
		c := &cells[i]
		byWeek[c.Week] = append(byWeek[c.Week], c)
		p := pick(c)
		key := fmt.Sprint(c.Scheduler, c.Nodes)
		if columns[key] == nil {
			columns[key] = &column{}
		}
		random := 0.
		for _, g := range c.Gains {
			random += g / float64(len(c.Gains))
		}
		columns[key].gain += p.Expected
		columns[key].random += random
		out.Gain += p.Expected / float64(len(cells))
		out.Random += random / float64(len(cells))
		out.Worst = min(out.Worst, p.Expected)
		if p.Changed {
			out.Changes++
			out.Promised += p.Promised
			out.Came += p.Came
			if p.Low <= p.Came && p.Came <= p.High {
				out.Covered++
			}
			if len(p.Broken) == 0 {
				out.KeptAll++
			}
			guards += p.Kept
			out.Kept += float64(p.Kept - len(p.Broken))
		}
	}
	if n := float64(out.Changes); n > 0 {
		out.Promised, out.Came, out.Covered, out.KeptAll = out.Promised/n, out.Came/n, out.Covered/n, out.KeptAll/n
		out.Kept /= float64(max(1, guards))
	}
	for _, c := range columns {
		if c.gain > c.random {
			out.AheadOfRandom += 1 / float64(len(columns))
		}
	}
	out.Weeks = len(byWeek)
	weeks := make([]int, 0, len(byWeek))
	for w := range byWeek {
		weeks = append(weeks, w)
	}
	slices.Sort(weeks)
	estimate := func(of func([]*Cell) float64) Estimate {
		all := make([]*Cell, 0, len(cells))
		for i := range cells {
			all = append(all, &cells[i])
		}
		draw := rand.New(rand.NewPCG(1, 2))
		var values []float64
		for range 2000 {
			var drawn []*Cell
			for range weeks {
				drawn = append(drawn, byWeek[weeks[draw.IntN(len(weeks))]]...)
			}
			values = append(values, of(drawn))
		}
		slices.Sort(values)
		return Estimate{of(all), values[50], values[1949]}
	}
	below := func(loss float64) func([]*Cell) float64 {
		return func(all []*Cell) (share float64) {
			for _, c := range all {
				if pick(c).Expected < -loss {
					share += 1 / float64(len(all))
				}
			}
			return share
		}
	}
	out.Below1, out.Below3 = estimate(below(.01)), estimate(below(.03))
	out.Share = estimate(func(all []*Cell) float64 {
		gain, best := 0., 0.
		for _, c := range all {
			gain, best = gain+pick(c).Expected, best+c.Best
		}
		return gain / best
	})
	return out
}

// Names are the names of the rules.
func Names() (out []string) {
	for _, r := range rules {
		out = append(out, r.name)
	}
	return out
}

// Processors is a default for Study.Workers.
func Processors() int { return runtime.GOMAXPROCS(0) }
