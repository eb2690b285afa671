package paper

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/lab/aggregate"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search/prune"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Outcome is a method on a window with a scheduler and a seed.
type Outcome struct {
	Digest string  `json:"trace"` // the beginning of that of the trace
	Jobs   int     `json:"jobs"`
	Load   float64 `json:"load"`
	AvgJCT float64 `json:"avg_jct_s"`
	P95JCT float64 `json:"p95_jct_s"`
	// FTF is the share of jobs with a finish-time fairness of at most 1.
	FTF float64 `json:"ftf_le_1"`
	// Stretches are the sums of the JCTs of a twentieth of the jobs each, in order of submission.
	Stretches []float64 `json:"stretches_s"`
	// Rounds, Changes and Evaluations count decisions, changes and configurations measured.
	Rounds      int `json:"rounds"`
	Changes     int `json:"changes"`
	Evaluations int `json:"evaluations"`
	// Broken counts the guards that the method breaks against the default, absent where that is not compared.
	Broken *int `json:"guards_broken,omitempty"`
	// Changed counts the changes of each parameter.
	Changed map[string]int `json:"changed,omitempty"`
	// Rejected counts proposals that the causal model rejected.
	Rejected int `json:"rejected,omitempty"`
	// Close is the share of a round's measurements that are within relax of its best, of published-rejects.
	Close float64 `json:"close,omitempty"`
}

// samples of a round of the published tuner.
const samples = 40

// stretches of a window in an interval's bootstrap.
const stretches = 20

// published is the paper's tuner, with parts replaced.
type published struct {
	name, about string
	// future is the workload that measures configurations: forecast, truth (the true next hour) or last hour.
	future string
	// history draws durations from history instead of the predictor.
	history bool
	causal  bool
	groups  bool
	budget  int
	hours   int // that a round looks ahead; 0 is 1
	// likeness names the measure by which the generator finds the place most like the last hour, "" its own.
	likeness string
	// each, if set, is called after every round with the GPUs of the jobs that it was measured on, the configuration in
	// force and the processor time it took.
	each func(jobs []workload.MilliGPU, c space.Config, took time.Duration)
}

// variants of the published tuner. Iterations are 40, without the search controller 10, as in the paper's section 5.3.
var variants = []published{
	{"published", "generator, BlueFin, 40 samples, rejection, scope", "forecast", false, true, false, samples, 0,
		"", nil},
	{"published-groups", "with the trace aggregator", "forecast", false, true, true, samples, 0, "", nil},
	{"published-no-causal", "without the causal model", "forecast", false, false, false, samples, 0, "", nil},
	{"published-no-controller", "without the causal model, 10 samples", "forecast", false, false, false, 10, 0,
		"", nil},
	{"published-no-generator", "on the last hour", "last hour", false, true, false, samples, 0, "", nil},
	{"published-no-predictor", "durations drawn from history", "forecast", true, true, false, samples, 0, "", nil},
	{"published-rejects", "rejection as published: whenever the model expects less than the best, without a test of it",
		"forecast", false, true, false, samples, 0, "", nil},
	{"published-optimal", "on the true next hour: the paper's Optimal", "truth", false, true, false, samples, 0,
		"", nil},
	{"published-optimal-4h", "on the true next 4 hours", "truth", false, true, false, samples, 4, "", nil},
	{"published-optimal-12h", "on the true next 12 hours", "truth", false, true, false, samples, 12, "", nil},
	{"published-euclidean", "places of history by squared differences", "forecast", false, true, false, samples, 0,
		"euclidean", nil},
	{"published-cosine", "places of history by cosine", "forecast", false, true, false, samples, 0, "cosine", nil},
	{"published-pearson", "places of history by Pearson's correlation", "forecast", false, true, false, samples, 0,
		"pearson", nil},
}

// publishedOf returns a variant.
func publishedOf(name string) *published {
	return &variants[slices.IndexFunc(variants, func(v published) bool { return v.name == name })]
}

// on replays a window.
func (p *published) on(ctx context.Context, d *Data, x *window, scheduler string) error {
	o, err := d.load(ctx, x, scheduler)
	if err != nil {
		return err
	}
	o.Seed, o.Workers = 1, 1
	e, err := replay.Prepare(o)
	if err != nil {
		return err
	}
	return p.run(ctx, e, &Outcome{})
}

// settingsOf are ablations of autosched.
var settingsOf = map[string]func(*round.Settings){
	"autosched/futures=1":  func(s *round.Settings) { s.Futures = 1 },
	"autosched/futures=8":  func(s *round.Settings) { s.Futures = 8 },
	"autosched/no-daily":   func(s *round.Settings) { s.Ablation.NoDaily = true },
	"autosched/no-fast":    func(s *round.Settings) { s.Ablation.NoFast = true },
	"autosched/no-past":    func(s *round.Settings) { s.Ablation.NoPast = true },
	"autosched/no-guards":  func(s *round.Settings) { s.Guard = -1 },
	"autosched/repeat":     nil, // the last hour again in place of the forecast
	"autosched/no-predict": nil, // durations from history
}

// method of the comparison.
type method struct {
	name    string
	seeds   int
	seconds float64 // of a window of two days
	few     bool    // on the windows of all methods only
	rank    int
	only    string // scheduler; empty is all
}

// methodTable has the methods, the most telling for its processor time first.
var methodTable = []method{
	{"default", 1, .2, false, 0, ""},
	{"preset", 1, .3, false, 0, ""},
	{"random-preset", 3, .5, true, 0, ""},
	{"daily", 1, 3, false, 1, ""},
	{"fixed-oracle", 1, 5, false, 1, ""},
	{"published", 3, 15, true, 1, ""},
	{"selftune", 3, 12, true, 1, ""},
	{"autosched", 3, 45, true, 1, ""},
	{"published-optimal", 3, 10, true, 3, ""},
	{"published-optimal-4h", 1, 10, true, 4, ""},
	{"published-optimal-12h", 1, 15, true, 4, ""},
	{"published-rejects", 1, 15, true, 3, ""},
	{"fixed-history", 1, 5, true, 3, ""},
	{"published-no-causal", 3, 15, true, 4, ""},
	{"published-no-generator", 3, 10, true, 4, ""},
	{"published-no-predictor", 3, 10, true, 4, ""},
	{"published-no-controller", 3, 5, true, 4, ""},
	{"published-euclidean", 3, 10, true, 4, "tiresias"},
	{"published-cosine", 3, 10, true, 4, "tiresias"},
	{"published-pearson", 3, 10, true, 4, "tiresias"},
	{"published-groups", 3, 10, true, 5, ""},
	{"paper", 3, 40, true, 5, ""},
	{"oracle", 1, 40, true, 6, ""},
	{"autosched/futures=1", 1, 15, true, 6, ""},
	{"autosched/no-fast", 1, 15, true, 6, ""},
	{"autosched/no-daily", 1, 40, true, 6, ""},
	{"autosched/no-guards", 1, 45, true, 7, ""},
	{"autosched/no-past", 1, 40, true, 7, ""},
	{"autosched/repeat", 1, 40, true, 7, ""},
	{"autosched/no-predict", 1, 40, true, 7, ""},
	{"autosched/futures=8", 1, 90, true, 7, ""},
}

// everyHour are the tuners of every hour on the other windows.
var everyHour = []method{{"published", 1, 15, false, 6, ""}, {"autosched", 1, 30, false, 6, ""}}

func methodID(window, scheduler, method string, seed int) string {
	return fmt.Sprintf("methods/%s/%s/%s/%d", window, scheduler, method, seed)
}

func methodUnits() (out []Unit) {
	for i := range windows {
		x := &windows[i]
		of := methodTable
		if !x.all {
			of = append(slices.DeleteFunc(slices.Clone(methodTable), func(m method) bool { return m.few }),
				everyHour...)
		}
		names := schedulerNames
		if x.all {
			names = append(slices.Clone(names), fairThemis)
		}
		for _, scheduler := range names {
			for _, m := range of {
				if scheduler == fairThemis && !slices.Contains(fairMethods, m.name) ||
					m.only != "" && m.only != scheduler {
					continue
				}
				for seed := 1; seed <= m.seeds; seed++ {
					u := Unit{Experiment: "methods", Name: methodID(x.name, scheduler, m.name, seed)[len("methods/"):],
						Core: !x.fortnight, Seed: uint64(seed), Data: x.file, Rank: m.rank + 5*(seed-1),
						Seconds: m.seconds * float64(x.days) / 2}
					if !x.all || x.fortnight || scheduler == fairThemis {
						u.Rank++
					}
					u.measure = func(ctx context.Context, d *Data) (any, map[string]float64, error) {
						return measureMethod(ctx, d, x, scheduler, m.name, uint64(seed))
					}
					out = append(out, u)
				}
			}
		}
	}
	return out
}

// fairThemis is Themis tuned for the share of jobs with a finish-time fairness of at most 1.
const fairThemis = "themis+ftf"

var fairMethods = []string{"default", "fixed-oracle", "selftune", "published", "published-optimal", "autosched",
	"published-no-controller", "published-no-causal", "published-groups"}

// hindsightBudget is the number of configurations that fixed-history and fixed-oracle measure.
const hindsightBudget = 60

func measureMethod(ctx context.Context, d *Data, x *window, scheduler, name string, seed uint64) (any,
	map[string]float64, error) {
	o, err := d.load(ctx, x, scheduler)
	if err != nil {
		return nil, nil, err
	}
	o.Seed, o.FixedBudget, o.Workers = seed, hindsightBudget, 1
	what := name
	if set, ok := settingsOf[name]; ok {
		o.Settings = o.Settings.WithDefaults()
		what = "autosched"
		text := map[string]string{"autosched/repeat": "repeat", "autosched/no-predict": "/history"}[name]
		if o.Generate, err = generation.ParseMethod(text); err != nil {
			return nil, nil, err
		}
		if set != nil {
			set(&o.Settings)
		}
		o.Seed, o.Workers = seed, 1
	}
	e, err := replay.Prepare(o)
	if err != nil {
		return nil, nil, err
	}
	began := cputime.Process()
	base, err := e.Measure(ctx, "default")
	if err != nil {
		return nil, nil, err
	}
	simulated := cputime.Process() - began
	out := Outcome{Digest: o.Trace.Digest()[:12], Load: load(&o)}
	began = cputime.Process()
	v := slices.IndexFunc(variants, func(v published) bool { return v.name == name })
	switch {
	case v >= 0:
		err = variants[v].run(ctx, e, &out)
	case name == "daily":
		err = holdDaily(ctx, e, &out)
	default:
		var m *replay.Method
		if m, err = e.Measure(ctx, what); err == nil {
			out.count(m.Rows.JCTs())
			out.P95JCT, out.FTF, out.Rounds, out.Changes, out.Evaluations = m.P95JCT, m.FTFLe1, m.Rounds, m.Changes,
				m.Evaluations
			if m.Guards != nil {
				out.Broken = new(len(m.Guards.Broken))
			}
			out.changes(e, base.Configuration, m.Decisions)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	var times map[string]float64
	if out.Rounds > 0 {
		// A round's time over that of a simulation of the window.
		times = map[string]float64{"round_over_simulation": round3((cputime.Process() - began).Seconds() /
			float64(out.Rounds) / max(simulated.Seconds(), 1e-3))}
	}
	return &out, times, nil
}

func round3(v float64) float64 { return roundTo(v, 3) }

// roundTo rounds to decimal places.
func roundTo(v float64, places int) float64 {
	unit := math.Pow10(places)
	return math.Round(v*unit) / unit
}

func load(o *replay.Options) float64 {
	work := 0.
	for _, j := range o.Trace.Window(o.From, o.To).Jobs() {
		work += j.Duration.Seconds() * j.GPUs.Count()
	}
	return work / (o.To - o.From).Seconds() / float64(o.Cluster.TotalGPUs())
}

// count fills in the numbers of JCTs, in order of submission.
func (o *Outcome) count(jcts []float64) {
	o.Jobs, o.Stretches = len(jcts), make([]float64, stretches)
	for i, v := range jcts {
		o.AvgJCT += v / float64(len(jcts))
		o.Stretches[i*stretches/len(jcts)] += v
	}
	for i, v := range o.Stretches {
		o.Stretches[i] = math.Round(v)
	}
}

// outcomes fills in the numbers of the jobs of a simulation that count.
func (o *Outcome) outcomes(e *replay.Evaluation, sim *simulator.Sim) {
	counted := slices.DeleteFunc(sim.Outcomes(nil), func(x simulator.Outcome) bool { return x.Submit < e.Options.From })
	var jcts []float64
	for i := range counted {
		jcts = append(jcts, counted[i].JCT().Seconds())
	}
	o.count(jcts)
	s := simulator.Describe(counted)
	o.P95JCT, o.FTF = s.P95JCT, s.FTFLe1
}

// changes counts the changes of parameters by decisions.
func (o *Outcome) changes(e *replay.Evaluation, first string, all []replay.Decision) {
	last := first
	for _, d := range all {
		if d.Adopted && d.Configuration != last {
			o.change(e.Options.Scheduler.Space, last, d.Configuration)
			last = d.Configuration
		}
	}
}

// change counts the parameters in which two configurations, as texts, differ.
func (o *Outcome) change(s *space.Space, before, after string) {
	if o.Changed == nil {
		o.Changed = map[string]int{}
	}
	value := func(text, id string) string {
		for _, f := range strings.Fields(text) {
			if name, v, _ := strings.Cut(f, "="); name == id {
				return v
			}
		}
		return ""
	}
	for _, p := range s.Params() {
		if value(before, p.ID) != value(after, p.ID) {
			o.Changed[p.ID]++
		}
	}
}

// run replays the window with a round of the published tuner every hour.
func (p *published) run(ctx context.Context, e *replay.Evaluation, out *Outcome) error {
	o := &e.Options
	arrive := round.RulePaper.Generator()
	if p.history {
		var err error
		if arrive, err = generation.ParseMethod("paper/history"); err != nil {
			return err
		}
	}
	if p.likeness != "" {
		arrive.Arrivals = arrivals.PaperBy(similarityOf(p.likeness).of)
	}
	engine := generation.NewEngine(o.Trace.Zero(), arrive)
	incumbent := o.Scheduler.Space.Default()
	live, err := e.Start(incumbent, true)
	if err != nil {
		return err
	}
	o.Horizon = time.Duration(max(1, p.hours)) * time.Hour
	arrived := simulator.ID(0)
	var state json.RawMessage
	var rejects *rejecter
	near := 0.
	if p.name == "published-rejects" {
		rejects = newRejecter(ctx, o.Scheduler.Space, o.Seed)
	}
	for n := 0; ; n++ {
		at := o.From + time.Duration(n)*o.Interval
		if err := live.Sim.RunUntil(ctx, at); err != nil {
			return err
		}
		if live.Sim.Done() {
			break
		}
		quiet := at >= o.To && live.Sim.Waiting() == 0 && arrived == live.Sim.Submitted()
		if arrived = live.Sim.Submitted(); quiet {
			continue
		}
		began := cputime.Process()
		in := e.Input(live, n, at, incumbent)
		var x []round.Scenario
		switch p.future {
		case "truth":
			x = []round.Scenario{e.Truth(in)}
		case "last hour":
			x, err = in.LastHour(ctx, 1, in.Seed)
		default:
			x, err = in.Forecast(ctx, engine, time.Hour, 1, in.Seed)
		}
		if err != nil {
			return err
		}
		if p.groups {
			for i := range x {
				if x[i].Arrivals != nil {
					x[i].Arrivals = aggregate.Group(o.Cluster, x[i].Arrivals, aggregate.DefaultGroup)
				}
				if x[i].State != nil {
					x[i].State, x[i].Left = aggregate.GroupState(x[i].State, x[i].Left, aggregate.DefaultGroup)
				}
			}
		}
		r := e.Round(x, incumbent, in.Seed)
		r.Sampler, r.State, r.NoPresets, r.Always, r.Budget = "bluefin", state, true, true, p.budget
		var pruner *prune.Pruner
		if rejects != nil {
			r.Pruner = rejects
		} else if p.causal {
			pruner = prune.New(ctx, r.Space, incumbent, in.Seed)
			r.Pruner = pruner
		}
		got, err := r.Run(ctx)
		if err != nil {
			return fmt.Errorf("round %d: %w", n, err)
		}
		state = got.State
		out.Rounds++
		took := cputime.Process() - began
		if rejects != nil {
			near += within(got.Trials)
		}
		out.Evaluations += got.Stats.Evaluations
		if pruner != nil {
			out.Rejected += pruner.Rejected
		}
		if got.Adopt && !got.Config.Equal(incumbent) {
			out.Changes++
			out.change(o.Scheduler.Space, incumbent.String(), got.Config.String())
			incumbent = got.Config
			live.Sim.Reconfigure(o.Scheduler.New(incumbent))
			live.Applied(at, incumbent.Hash())
		}
		if p.each != nil {
			p.each(gpusOf(x), incumbent, took)
		}
	}
	if rejects != nil {
		out.Rejected, out.Close = rejects.rejected, near/float64(max(1, out.Rounds))
	}
	out.outcomes(e, &live.Sim)
	return nil
}

// gpusOf are the GPUs of each job of scenarios.
func gpusOf(all []round.Scenario) (out []workload.MilliGPU) {
	for i := range all {
		if x := &all[i]; x.State != nil {
			for k := range x.State.Jobs {
				out = append(out, x.State.Jobs[k].GPUs)
			}
		}
		if all[i].Arrivals != nil {
			for _, j := range all[i].Arrivals.Jobs() {
				out = append(out, j.GPUs)
			}
		}
	}
	return out
}

// holdDaily holds the answer of the daily rule at the beginning of the window.
func holdDaily(ctx context.Context, e *replay.Evaluation, out *Outcome) error {
	o := &e.Options
	p := e.Problem(o.Scheduler.Space.Default())
	a, err := round.Ask(ctx, round.Question{Problem: p, History: round.RecordedOf(o.Trace, o.From), Guard: o.Guard,
		Seed: o.Seed, Workers: cmp.Or(o.Workers, 1)})
	if err != nil {
		return err
	}
	if a.Adopt {
		out.Changes = 1
		out.change(o.Scheduler.Space, p.Incumbent.String(), a.Config.String())
	}
	live, err := e.Start(a.Config, false)
	if err == nil {
		err = live.Sim.Run(ctx)
	}
	if err == nil {
		out.outcomes(e, &live.Sim)
	}
	return err
}
