package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// method is an entry of the table of methods. Exactly one of hold and tune is
// set.
type method struct {
	name, description string
	// hold chooses one configuration before the replay and keeps it. It returns
	// what it cost, and a remark if it could not do what its name says.
	hold func(context.Context, *evaluation) (choice, error)
	// tune makes the function that decides every round.
	tune func(*evaluation) roundFunc
}

type choice struct {
	config      space.Config
	evaluations int
	took        time.Duration
	remark      string
}

// moment is what a round has.
type moment struct {
	round     int
	at        time.Duration
	ledger    *workload.Ledger
	state     workload.State
	incumbent space.Config
	live      *cluster
}

type roundFunc func(context.Context, *moment) (round.Result, error)

// methods in the order in which they are listed.
var methods = []method{
	{name: "default", description: "the scheduler's default configuration, held", hold: holdDefault},
	{name: "preset", description: "the scheduler's recommended preset, held", hold: holdPreset},
	{name: "random-preset", description: "a random preset every round: the control", tune: randomPreset},
	{name: "fixed-history", description: "tuned once on the days before the window, held", hold: holdHistory},
	{name: "fixed-oracle", description: "tuned once on the window itself, held (the paper's Fixed)", hold: holdOracle},
	{name: "selftune", description: "two-point BlueFin on the last hour, every round", tune: selfTune},
	{name: "selftune+", description: "presets and the whole space searched on the last hour, every round", tune: selfTunePlus},
	{name: "autosched", description: "the product's round: portfolio or whole space (--search) on forecast futures", tune: autoSched},
	{name: "oracle", description: "the same on the true future, every round (greedy, so not a bound)", tune: oracle},
}

// MethodNames in the order of the table.
func MethodNames() []string {
	var out []string
	for _, m := range methods {
		out = append(out, m.name)
	}
	return out
}

func findMethod(name string) (*method, error) {
	for i := range methods {
		if methods[i].name == name {
			return &methods[i], nil
		}
	}
	return nil, fmt.Errorf("methods: %q is not known; there are %s", name, strings.Join(MethodNames(), ", "))
}

func holdDefault(_ context.Context, e *evaluation) (choice, error) {
	return choice{config: e.o.Scheduler.Space.Default()}, nil
}

func holdPreset(_ context.Context, e *evaluation) (choice, error) {
	if len(e.o.Scheduler.Presets) == 0 {
		return choice{config: e.o.Scheduler.Space.Default(), remark: "the scheduler declares no preset: its default is held"}, nil
	}
	return choice{config: e.o.Scheduler.Presets[0].Config, remark: e.o.Scheduler.Presets[0].Name}, nil
}

func holdHistory(ctx context.Context, e *evaluation) (choice, error) {
	if len(e.history) == 0 {
		return choice{config: e.o.Scheduler.Space.Default(), remark: "there is no history: the default is held"}, nil
	}
	jobs := append([]workload.Job(nil), e.history...)
	for i := range jobs {
		// What had not ended by then had only shown so much of its duration.
		jobs[i].Duration = min(jobs[i].Duration, max(time.Second, e.o.From-jobs[i].Submit))
	}
	w, err := workload.New("history", e.o.Trace.Zero(), jobs)
	if err != nil {
		return choice{}, err
	}
	return e.tuneOnce(ctx, "fixed-history", round.Scenario{Arrivals: w})
}

func holdOracle(ctx context.Context, e *evaluation) (choice, error) {
	x, err := e.window()
	if err != nil {
		return choice{}, err
	}
	return e.tuneOnce(ctx, "fixed-oracle", x)
}

// window is what is replayed, as a scenario. Past services are those of the live
// simulation: without, policies that learn from them would be judged otherwise
// than they are replayed.
func (e *evaluation) window() (round.Scenario, error) {
	l := workload.NewLedger(e.o.Cluster)
	err := e.recall(l)
	return round.Scenario{Arrivals: e.live, Services: round.Services(l, e.start()), Warmup: e.o.Warmup > 0, CountFrom: e.o.From}, err
}

// manyEvaluations is the budget above which a method that tunes once spreads its
// evaluations evenly: a model of more trials costs more than measuring more. Up to
// it, a model found better configurations than as many spread evenly (tight: average
// JCT 15,220 s against 15,349 s in 336).
const manyEvaluations = 400

// tuneOnce spends all rounds' budget on one scenario.
func (e *evaluation) tuneOnce(ctx context.Context, name string, x round.Scenario) (choice, error) {
	began := time.Now()
	budget := e.o.Budget * e.rounds()
	done := 0
	r := e.round([]round.Scenario{x}, e.o.Scheduler.Space.Default(), e.o.Seed)
	r.Budget, r.Always = budget, true
	if budget > manyEvaluations {
		r.Sampler = "sobol"
	}
	r.Progress = func(search.Trial) {
		done++
		e.tell(Step{Method: name, Trials: done, Of: budget})
	}
	got, err := r.Run(ctx)
	return choice{config: got.Config, evaluations: int(got.Details["evaluations"]), took: time.Since(began)}, err
}

func randomPreset(e *evaluation) roundFunc {
	draw := rng.Stream("random-preset", e.o.Seed)
	return func(_ context.Context, m *moment) (round.Result, error) {
		r := round.Result{Decision: round.Decision{Config: m.incumbent, Ratio: 1}}
		if n := len(e.o.Scheduler.Presets); n > 0 {
			p := e.o.Scheduler.Presets[draw.IntN(n)]
			r.Config, r.Adopt, r.Reason = p.Config, !p.Config.Equal(m.incumbent), "drawn: "+p.Name
		}
		return r, nil
	}
}

// selfTune keeps the sampler's centre from round to round, and knows no preset.
func selfTune(e *evaluation) roundFunc {
	var state json.RawMessage
	return func(ctx context.Context, m *moment) (round.Result, error) {
		r, err := e.onLastHour(m)
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

func selfTunePlus(e *evaluation) roundFunc {
	return func(ctx context.Context, m *moment) (round.Result, error) {
		r, err := e.onLastHour(m)
		if err != nil {
			return round.Result{}, err
		}
		return r.Run(ctx)
	}
}

func (e *evaluation) onLastHour(m *moment) (*round.Round, error) {
	x, err := round.LastHour(m.ledger, &m.state, e.o.Trace.Zero(), e.o.Futures, e.seed(m), e.o.Simulate)
	return e.round(x, m.incumbent, e.seed(m)), err
}

func autoSched(e *evaluation) roundFunc {
	var experience json.RawMessage
	return func(ctx context.Context, m *moment) (round.Result, error) {
		out, err := round.Decide(ctx, round.Input{
			Scheduler: e.o.Scheduler.Name, Space: e.o.Scheduler.Space, Objective: e.o.Objective, State: m.state, Ledger: m.ledger, Zero: e.o.Trace.Zero(),
			Incumbent: m.incumbent, Seed: e.o.Seed, Round: m.round, Experience: experience, Engine: e.engine,
			Settings: round.Settings{Horizon: e.o.Horizon, Futures: e.o.Futures, Budget: e.o.Budget, Workers: e.o.Workers, MinRatio: e.o.MinRatio,
				Search: e.o.Search, Always: e.o.Always},
		}, e.o.Simulate)
		experience = out.Experience
		return out, err
	}
}

func oracle(e *evaluation) roundFunc {
	return func(ctx context.Context, m *moment) (round.Result, error) {
		return e.round(e.truth(m), m.incumbent, e.seed(m)).Run(ctx)
	}
}

// truth is the one future that will be.
func (e *evaluation) truth(m *moment) []round.Scenario {
	sim := &m.live.Sim
	x := round.Scenario{State: &m.state, Arrivals: e.live.Window(m.at+1, m.at+1+e.o.Horizon),
		Services: round.Services(m.ledger, m.at)}
	left := map[string]time.Duration{}
	for j := range sim.Submitted() {
		if sim.JobActive(j) {
			left[sim.JobName(j)] = sim.JobLeft(j)
		}
	}
	for i := range m.state.Jobs {
		x.Left = append(x.Left, left[m.state.Jobs[i].ID])
	}
	return []round.Scenario{x}
}

// round fills in what all methods share.
func (e *evaluation) round(x []round.Scenario, incumbent space.Config, seed uint64) *round.Round {
	return &round.Round{
		Scheduler: e.o.Scheduler, Space: e.o.Scheduler.Space, Objective: e.o.Objective, Cluster: e.o.Cluster, Scenarios: x, Options: e.o.Simulate,
		Incumbent: incumbent, Budget: e.o.Budget, Workers: e.o.Workers, MinRatio: e.o.MinRatio, Always: e.o.Always, Seed: seed,
		Cache: e.cache,
	}
}

// seed of a round's futures and search, the same for all methods.
func (e *evaluation) seed(m *moment) uint64 { return round.Seed(e.o.Seed, m.round) }

// Methods are the names and descriptions of the table, in its order.
func Methods() [][2]string {
	var out [][2]string
	for _, m := range methods {
		out = append(out, [2]string{m.name, m.description})
	}
	return out
}

// CheckMethods refuses names that are not in the table.
func CheckMethods(names []string) error {
	for _, n := range names {
		if _, err := findMethod(n); err != nil {
			return err
		}
	}
	return nil
}
