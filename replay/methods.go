package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// method is an entry of the table of methods, one of hold and tune.
type method struct {
	name, description string
	// hold chooses one configuration before the replay. It returns its cost, and a
	// remark if it had to choose otherwise than its name says.
	hold func(context.Context, *Evaluation) (choice, error)
	// tune makes the function that decides every round.
	tune func(*Evaluation) roundFunc
	// serves reports whether its rounds have the service's limits of changes.
	serves bool
}

type choice struct {
	config      space.Config
	evaluations int
	took        time.Duration
	remark      string
	hindsight   *Hindsight
}

// RoundInput is the input of a method's round.
type RoundInput struct {
	round.Snapshot
	Round     int
	Incumbent space.Config
	Seed      uint64 // of futures and search, the same for all methods
	Urgent    bool   // round.Input.Urgent
	// History is that of the method's last decision.
	History json.RawMessage
	live    *Cluster
}

// Input returns the input of round n, decided at the instant at.
func (e *Evaluation) Input(live *Cluster, n int, at time.Duration, incumbent space.Config) *RoundInput {
	now := round.Snapshot{State: live.ledger.State(at), Ledger: live.ledger, Zero: e.Options.Trace.Zero(),
		Simulator: e.Options.Simulate, Scattered: round.Scattered(e.Options.Scheduler.Name)}
	return &RoundInput{Snapshot: now, Round: n, Incumbent: incumbent, Seed: round.Seed(e.Options.Seed, n), live: live}
}

type roundFunc func(context.Context, *RoundInput) (round.Result, error)

const (
	defaultMethod = "default"
	currentMethod = "current"
)

// methods in the order in which they are listed.
var methods = []method{
	{name: currentMethod, description: "the configuration that you run (--config, --set, --preset), held",
		hold: holdCurrent},
	{name: defaultMethod, description: "the scheduler's default configuration, held", hold: holdDefault},
	{name: "preset", description: "the scheduler's recommended preset, held", hold: holdPreset},
	{name: "random-preset", description: "a random preset every round: the control", tune: randomPreset},
	{name: "fixed-history", description: "tuned once on the days before the window, held", hold: holdHistory},
	{name: "fixed-oracle", description: "the best of many on the window itself, in hindsight, held (the paper's Fixed)",
		hold: holdOracle},
	{name: "selftune", description: "two-point BlueFin on the last hour, every round", tune: selfTune},
	{name: "selftune+", description: "presets and the whole space searched on the last hour, every round",
		tune: selfTunePlus},
	{name: "autosched", description: "what the service does: the daily rule, and large gains on forecast futures between",
		tune: autoSched, serves: true},
	{name: "paper", description: "the paper's rounds: its forecast, a pruned search, any change of a ratio of 1.1",
		tune: paper, serves: true},
	{name: "oracle", description: "the same, greedy by the round on the true future: not the best possible",
		tune: oracle},
}

// MethodNames returns the names in the order of the table.
func MethodNames() []string {
	var out []string
	for _, m := range methods {
		out = append(out, m.name)
	}
	return out
}

// Draws reports whether the outcome of a method depends on the seed.
func Draws(name string) bool {
	return name != currentMethod && name != defaultMethod && name != "preset"
}

func findMethod(name string) (*method, error) {
	for i := range methods {
		if methods[i].name == name {
			return &methods[i], nil
		}
	}
	return nil, fmt.Errorf("methods: %q is not known; there are %s", name, strings.Join(MethodNames(), ", "))
}

func holdDefault(_ context.Context, e *Evaluation) (choice, error) {
	return choice{config: e.Options.Scheduler.Space.Default()}, nil
}

func holdCurrent(_ context.Context, e *Evaluation) (choice, error) {
	if e.Options.Current.IsZero() {
		return choice{}, errors.New("no configuration was named")
	}
	return choice{config: e.Options.Current}, nil
}

func holdPreset(_ context.Context, e *Evaluation) (choice, error) {
	if len(e.Options.Scheduler.Presets) == 0 {
		return choice{config: e.current(), remark: "the scheduler declares no preset: the baseline is held"}, nil
	}
	p := e.Options.Scheduler.Recommended()
	return choice{config: p.Config, remark: p.Name}, nil
}

func holdHistory(ctx context.Context, e *Evaluation) (choice, error) {
	if len(e.history) == 0 {
		return choice{config: e.current(), remark: "there is no history: the baseline is held"}, nil
	}
	jobs := append([]workload.Job(nil), e.history...)
	for i := range jobs {
		// Of jobs still running at From only the elapsed time is known.
		jobs[i].Duration = min(jobs[i].Duration, max(time.Second, e.Options.From-jobs[i].Submit))
	}
	w, err := workload.New("history", e.Options.Trace.Zero(), jobs)
	if err != nil {
		return choice{}, err
	}
	c, _, err := e.tuneOnce(ctx, "fixed-history", round.Scenario{Arrivals: w}, true)
	return c, err
}

func holdOracle(ctx context.Context, e *Evaluation) (choice, error) {
	c, trials, err := e.tuneOnce(ctx, "fixed-oracle", e.window(), false)
	if err == nil {
		c.hindsight, err = e.hindsight(ctx, c.config, trials)
	}
	return c, err
}

// window is the replayed workload as a scenario. The past is that of the live
// simulation, so that policies that learn from them decide as in the replay.
func (e *Evaluation) window() round.Scenario {
	return round.Scenario{Arrivals: e.Workload, Past: Past(e.Options.Trace, e.Options.Cluster, e.start()),
		Nodes: e.Options.Simulate.Nodes, Warmup: e.Options.Warmup > 0, CountFrom: e.Options.From}
}

// manyEvaluations is the budget above which a method that tunes once spreads its
// evaluations evenly over the space, as fitting a model to more trials costs more than
// measuring more (docs/evaluation.md#methods).
const manyEvaluations = 400

// tuneOnce spends all rounds' budget on one scenario, and simplifies the best if asked to. It
// returns the trials, too.
func (e *Evaluation) tuneOnce(ctx context.Context, name string, x round.Scenario, simplify bool) (choice,
	[]search.Trial, error) {
	began := time.Now()
	budget := cmp.Or(e.Options.FixedBudget, e.Options.Budget*e.rounds())
	var trials []search.Trial
	r := e.Round([]round.Scenario{x}, e.current(), e.Options.Seed)
	r.Budget, r.Always, r.Simplify = budget, true, simplify
	if budget > manyEvaluations {
		r.Sampler = "sobol"
	}
	r.Progress = func(t search.Trial) {
		trials = append(trials, t)
		e.progress(Step{Method: name, Trials: len(trials), Of: budget})
	}
	got, err := r.Run(ctx)
	return choice{config: got.Config, evaluations: got.Stats.Evaluations, took: time.Since(began)}, trials, err
}

func randomPreset(e *Evaluation) roundFunc {
	draw := rng.Stream("random-preset", e.Options.Seed)
	return func(_ context.Context, m *RoundInput) (round.Result, error) {
		r := round.Result{Decision: round.Decision{Config: m.Incumbent, Ratio: 1}}
		if n := len(e.Options.Scheduler.Presets); n > 0 {
			p := e.Options.Scheduler.Presets[draw.IntN(n)]
			r.Config, r.Adopt, r.Reason = p.Config, !p.Config.Equal(m.Incumbent), "drawn: "+p.Name
		}
		return r, nil
	}
}

// selfTune keeps BlueFin's centre from round to round and measures no presets.
func selfTune(e *Evaluation) roundFunc {
	var state json.RawMessage
	return func(ctx context.Context, m *RoundInput) (round.Result, error) {
		r, err := e.onLastHour(ctx, m)
		if err != nil {
			return round.Result{}, err
		}
		r.Sampler, r.State, r.NoPresets = "bluefin", state, true
		out, err := r.Run(ctx)
		if out.State != nil {
			state = out.State
		}
		return out, err
	}
}

func selfTunePlus(e *Evaluation) roundFunc {
	return func(ctx context.Context, m *RoundInput) (round.Result, error) {
		r, err := e.onLastHour(ctx, m)
		if err != nil {
			return round.Result{}, err
		}
		return r.Run(ctx)
	}
}

func (e *Evaluation) onLastHour(ctx context.Context, m *RoundInput) (*round.Round, error) {
	x, err := m.LastHour(ctx, e.Options.Futures, m.Seed)
	return e.Round(x, m.Incumbent, m.Seed), err
}

func autoSched(e *Evaluation) roundFunc {
	return func(ctx context.Context, m *RoundInput) (round.Result, error) {
		return round.Decide(ctx, e.decideInput(m))
	}
}

func paper(e *Evaluation) roundFunc {
	engine := generation.NewEngine(e.Options.Trace.Zero(), round.RulePaper.Generator())
	return func(ctx context.Context, m *RoundInput) (round.Result, error) {
		in := e.decideInput(m)
		in.Rule, in.Engine = round.RulePaper, engine
		return round.Decide(ctx, in)
	}
}

// decideInput returns the input of the product's round.
func (e *Evaluation) decideInput(m *RoundInput) round.Input {
	return round.Input{Snapshot: m.Snapshot, Settings: e.Options.Settings,
		Scheduler: e.Options.Scheduler.Name, Space: e.Options.Scheduler.Space, Goal: e.Options.Goal,
		Incumbent: m.Incumbent, Round: m.Round, Urgent: m.Urgent,
		History: m.History, Engine: e.engine, Replays: e.replays}
}

func oracle(e *Evaluation) roundFunc {
	return func(ctx context.Context, m *RoundInput) (round.Result, error) {
		return e.Round([]round.Scenario{e.Truth(m)}, m.Incumbent, m.Seed).Run(ctx)
	}
}

// Futures returns the sampled futures of a round.
func (e *Evaluation) Futures(ctx context.Context, m *RoundInput) ([]round.Scenario, error) {
	return m.Forecast(ctx, e.engine, e.Options.Horizon, e.Options.Futures, m.Seed)
}

// Truth returns the scenario of the trace itself: true arrivals, remaining durations
// and node events.
func (e *Evaluation) Truth(m *RoundInput) round.Scenario {
	sim := &m.live.Sim
	x := round.Scenario{State: &m.State, Arrivals: e.Workload.Window(m.State.At+1, m.State.At+1+e.Options.Horizon),
		Past: round.Past(m.Ledger, m.State.At), Nodes: e.Options.Simulate.Nodes}
	left := map[string]time.Duration{}
	for j := range sim.Submitted() {
		if sim.JobActive(j) {
			left[sim.JobName(j)] = sim.JobLeft(j)
		}
	}
	for i := range m.State.Jobs {
		x.Left = append(x.Left, left[m.State.Jobs[i].ID])
	}
	return x
}

// Problem returns the tuning problem of all methods.
func (e *Evaluation) Problem(incumbent space.Config) round.Problem {
	o := &e.Options
	return round.Problem{Scheduler: o.Scheduler, Space: o.Scheduler.Space, Cluster: o.Cluster, Options: o.Simulate,
		Goal: o.Goal, Incumbent: incumbent}
}

// Scorer returns a scorer of configurations on scenarios.
func (e *Evaluation) Scorer(scenarios ...round.Scenario) (*round.Scorer, error) {
	p := e.Problem(e.Options.Scheduler.Space.Default())
	return round.NewScorer(&p, scenarios)
}

// Round returns a round with the settings of all methods.
func (e *Evaluation) Round(x []round.Scenario, incumbent space.Config, seed uint64) *round.Round {
	r := &round.Round{Problem: e.Problem(incumbent), Settings: e.Options.Settings, Scenarios: x, Cache: e.cache}
	r.Seed, r.Search = seed, round.SearchFull
	return r
}

// Methods returns the names and descriptions of the table, in its order.
func Methods() [][2]string {
	var out [][2]string
	for _, m := range methods {
		out = append(out, [2]string{m.name, m.description})
	}
	return out
}

// CheckMethods fails on a name that is not in the table.
func CheckMethods(names []string) error {
	for _, n := range names {
		if _, err := findMethod(n); err != nil {
			return err
		}
	}
	return nil
}
