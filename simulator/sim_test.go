package simulator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
)

const second = time.Second

// steps are a script's actions by instant.
type steps map[time.Duration]func(*simulator.View, *simulator.Plan)

// script is a policy written out by a test: each of its instants comes with the actions
// of it. At any other, waiting jobs start in order of submission wherever
// they fit, unless the script says manual.
type script struct {
	at     steps
	manual bool

	s    *simulator.View
	plan *simulator.Plan
	done map[time.Duration]bool
}

func (p *script) Reset(v *simulator.View, plan *simulator.Plan) {
	p.s, p.plan, p.done = v, plan, map[time.Duration]bool{}
	p.wake()
}

func (p *script) Admit(simulator.ID, simulator.Seen) { p.wake() }
func (p *script) Finish(simulator.ID)                { p.wake() }

// wake asks for the script's next instant.
func (p *script) wake() {
	for at := range p.at {
		if at > p.s.Now() {
			p.plan.WakeAt(at)
		}
	}
}

func (p *script) Plan(plan *simulator.Plan) {
	p.wake()
	if do := p.at[p.s.Now()]; do != nil && !p.done[p.s.Now()] {
		p.done[p.s.Now()] = true
		do(p.s, plan)
		return
	}
	for id := simulator.ID(0); id < p.s.Submitted() && !p.manual; id++ {
		if p.s.JobActive(id) && !p.s.JobRunning(id) {
			plan.Start(id)
		}
	}
}

// preempt, start and exchange make the steps of a script.
func preempt(ids ...simulator.ID) func(*simulator.View, *simulator.Plan) {
	return func(_ *simulator.View, p *simulator.Plan) {
		for _, id := range ids {
			p.Preempt(id)
		}
	}
}

func start(ids ...simulator.ID) func(*simulator.View, *simulator.Plan) {
	return func(_ *simulator.View, p *simulator.Plan) {
		for _, id := range ids {
			p.Start(id)
		}
	}
}

func exchange(stop, start []simulator.ID) func(*simulator.View, *simulator.Plan) {
	return func(_ *simulator.View, p *simulator.Plan) { p.Exchange(stop, start) }
}

func both(steps ...func(*simulator.View, *simulator.Plan)) func(*simulator.View, *simulator.Plan) {
	return func(s *simulator.View, p *simulator.Plan) {
		for _, step := range steps {
			step(s, p)
		}
	}
}

type ids = []simulator.ID

// job is submitted at, runs for and asks for that many whole GPUs. Jobs are
// called a, b, c, in order of submission.
type job struct {
	submit, run time.Duration
	gpus        int
}

func jobs(t testing.TB, list ...job) *workload.Workload {
	t.Helper()
	var out []workload.Job
	for i, j := range list {
		out = append(out, workload.Job{ID: string(rune('a' + i)), Submit: j.submit, Duration: j.run,
			GPUs: workload.GPUs(j.gpus), Model: "resnet50"})
	}
	w, err := workload.New("by hand", time.Time{}, out)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func run(t testing.TB, c workload.Cluster, w *workload.Workload, p simulator.Policy,
	o simulator.Options) []simulator.Outcome {
	t.Helper()
	var sim simulator.Sim
	if err := sim.Start(c, w, p, o); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return sim.Outcomes(nil)
}

var (
	oneNode  = workload.Uniform(1, 4)
	twoNodes = workload.Uniform(2, 4)
)

// TestRestartCost: a job of 1000 s is stopped at 100 s and resumed at 200 s.
func TestRestartCost(t *testing.T) {
	for _, tt := range []struct {
		gpus int
		cost time.Duration // SIMULATOR.md 1.2
	}{{1, 18 * second}, {2, 22 * second}, {3, 29 * second}, {4, 29 * second}, {7, 29 * second}, {8, 46 * second},
		{12, 69 * second}, {16, 92 * second}, {64, 368 * second}} {
		play := func(o simulator.Options) simulator.Outcome {
			p := &script{at: steps{100 * second: preempt(0), 200 * second: start(0)}}
			return run(t, workload.Uniform(8, 8), jobs(t, job{0, 1000 * second, tt.gpus}), p, o)[0]
		}
		g := time.Duration(tt.gpus)
		for _, v := range []struct {
			name             string
			o                simulator.Options
			end, restart, at time.Duration // at: attained
		}{
			{"by default", simulator.Options{}, 1100*second + tt.cost, tt.cost, g * (1000*second + tt.cost)},
			{"for free", simulator.Options{Peer: simulator.Peer{NoRestartCost: true}}, 1100 * second, 0,
				g * 1000 * second},
			{"outside JCT", simulator.Options{Peer: simulator.Peer{RestartOutsideJCT: true}}, 1100 * second, tt.cost,
				g * (1000*second + tt.cost)},
			{"outside service", simulator.Options{Peer: simulator.Peer{RestartOutsideService: true}},
				1100*second + tt.cost, tt.cost, g * 1000 * second},
		} {
			o := play(v.o)
			if o.End != v.end || o.Restart != v.restart || o.Attained != v.at || o.Wait != 100*second ||
				o.Preemptions != 1 || o.Floor != 1000*second {
				t.Errorf("%d GPUs, restart %s: %+v; want end %v, restart %v, attained %v, and a wait of 100 s",
					tt.gpus, v.name, o, v.end, v.restart, v.at)
			}
		}
	}
}

// TestRestartIsNotSaved: a job stopped in the middle of a restart pays all of
// the next one.
func TestRestartIsNotSaved(t *testing.T) {
	p := &script{at: steps{
		100 * second: preempt(0), 200 * second: start(0), 205 * second: preempt(0), 300 * second: start(0)}}
	o := run(t, oneNode, jobs(t, job{0, 1000 * second, 1}), p, simulator.Options{})[0]
	if want := 5*second + 18*second; o.Restart != want || o.End != 1000*second+195*second+want {
		t.Errorf("%+v: want a restart of %v", o, want)
	}
}

// TestSpreadIsSlower: two jobs of 3 GPUs leave 1+1 of two nodes of four; then a
// job of 100 s comes that may be spread.
func TestSpreadIsSlower(t *testing.T) {
	for _, tt := range []struct {
		model  string
		gpus   int
		start  time.Duration
		length time.Duration
		spread bool
	}{
		{"resnet50", 1, second, 100 * second, false},     // fits a node
		{"vgg16", 2, second, 200 * second, true},         // 1+1, slowed down by 2.0
		{"resnet50", 2, second, 110 * second, true},      // 1+1, by 1.1
		{"vgg16", 3, 5000 * second, 100 * second, false}, // 3 GPUs are not free before
		{"vgg16", 8, 5000 * second, 100 * second, false}, // two nodes suffice
	} {
		w, err := workload.New("spread", time.Time{}, []workload.Job{
			{ID: "a", Duration: 5000 * second, GPUs: workload.GPUs(3), Model: "resnet50"},
			{ID: "b", Duration: 5000 * second, GPUs: workload.GPUs(3), Model: "resnet50"},
			{ID: "c", Submit: second, Duration: 100 * second, GPUs: workload.GPUs(tt.gpus), Model: tt.model},
		})
		if err != nil {
			t.Fatal(err)
		}
		p := &script{at: steps{second: func(s *simulator.View, p *simulator.Plan) {
			p.AllowSpread(2, true)
			p.Start(2)
		}}}
		c := run(t, twoNodes, w, p, simulator.Options{})[2]
		// 1/1.1 is no binary fraction: its progress may be a nanosecond short.
		if length := c.End - c.Start; c.Start != tt.start || length < tt.length || length > tt.length+1 ||
			c.Spread != tt.spread {
			t.Errorf("%s on %d GPUs started at %v, took %v, spread %v; want %+v",
				tt.model, tt.gpus, c.Start, length, c.Spread, tt)
		}
		if want := (c.End - c.Start) * time.Duration(tt.gpus); c.Attained != want {
			t.Errorf("%s on %d GPUs attained %v, want all that it held, %v", tt.model, tt.gpus, c.Attained, want)
		}
	}
}

func TestExchange(t *testing.T) {
	// a, b fill the nodes; c of 4 GPUs may have the place of either.
	full := jobs(t, job{0, 1000 * second, 4}, job{0, 1000 * second, 4}, job{10 * second, 100 * second, 4})
	// a and b share node 0, c is on node 1; d of 4 GPUs fits neither node, even
	// without a.
	shared := jobs(t, job{0, 1000 * second, 2}, job{0, 1000 * second, 2}, job{0, 1000 * second, 3},
		job{10 * second, 100 * second, 4})
	// The wide c and the narrow d, in the order in which they came: c goes first.
	mixed := jobs(t, job{0, 1000 * second, 4}, job{0, 1000 * second, 4}, job{10 * second, 100 * second, 2},
		job{10 * second, 100 * second, 4})
	// a and b share node 0, c has node 1; d and e each take the place of one.
	pairs := jobs(t, job{0, 1000 * second, 2}, job{0, 1000 * second, 2}, job{0, 1000 * second, 4},
		job{10 * second, 100 * second, 2}, job{10 * second, 100 * second, 2})
	tests := []struct {
		name     string
		w        *workload.Workload
		stop     ids
		start    ids
		stopped  string // jobs, by default
		quota    string // jobs, with QuotaOnly
		starting string // jobs started at 10 s
	}{
		{"whoever's place is not taken runs on", full, ids{0, 1}, ids{2}, "a", "a b", "c"},
		{"nobody is stopped for a job that finds no place", shared, ids{0}, ids{3}, "", "a", ""},
		{"a place for both on the node of two", shared, ids{0, 1}, ids{3}, "a b", "a b", "d"},
		{"widest first", mixed, ids{0}, ids{2, 3}, "a", "a", "d"},
		{"and then what is left", mixed, ids{0, 1}, ids{2, 3}, "a b", "a b", "c d"},
		{"one by one on a node, the later one first", pairs, ids{0, 1}, ids{3, 4}, "b a", "a b", "d e"},
		{"nothing for nothing", full, nil, nil, "", "", ""},
		{"stopping for nobody in vain", full, ids{0, 1}, nil, "", "a b", ""},
	}
	for _, tt := range tests {
		for _, mode := range []struct {
			quota bool
			want  string
		}{{false, tt.stopped}, {true, tt.quota}} {
			var sim simulator.Sim
			var stopped, started []string
			o := simulator.Options{Peer: simulator.Peer{QuotaOnly: mode.quota, NoRestartCost: true}}
			o.Observer = func(e simulator.Event) {
				if e.Time != 10*second {
					return
				}
				switch e.Kind {
				case workload.Preempted:
					stopped = append(stopped, sim.JobName(e.Job))
				case workload.Started:
					started = append(started, sim.JobName(e.Job))
				}
			}
			p := &script{at: steps{10 * second: exchange(append(ids(nil), tt.stop...), append(ids(nil), tt.start...))}}
			if err := sim.Start(twoNodes, tt.w, p, o); err != nil {
				t.Fatal(err)
			}
			if err := sim.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(stopped, " "); got != mode.want {
				t.Errorf("%s, quota only %v: stopped %q, want %q", tt.name, mode.quota, got, mode.want)
			}
			seen := strings.Fields(strings.Join(started, " "))
			if len(seen) == 2 && seen[0] > seen[1] {
				seen[0], seen[1] = seen[1], seen[0]
			}
			if got := strings.Join(seen, " "); got != tt.starting {
				t.Errorf("%s, quota only %v: started %q, want %q", tt.name, mode.quota, got, tt.starting)
			}
			for _, out := range sim.Outcomes(nil) {
				if j := tt.w.Jobs()[out.ID]; out.Preemptions == 0 && out.End-out.Start != j.Duration {
					t.Errorf("%s: %s was not stopped but took %v", tt.name, j.ID, out.End-out.Start)
				}
			}
		}
	}
}

func TestErrorsNameTheJob(t *testing.T) {
	restless := &script{at: steps{}}
	for i := range 1000 {
		restless.at[time.Duration(2*i+1)*second] = both(preempt(1), start(1)) // never gets past its restart
	}
	tests := []struct {
		name   string
		w      *workload.Workload
		p      simulator.Policy
		o      simulator.Options
		want   []string
		budget bool
	}{
		{"too large", jobs(t, job{0, second, 1}, job{0, second, 9}), &script{}, simulator.Options{},
			[]string{`job "b"`, "9 GPUs", "has 8"}, false},
		{"stuck", jobs(t, job{0, second, 1}, job{5 * second, second, 3}), &script{manual: true, at: steps{0: start(0)}},
			simulator.Options{}, []string{`job "b"`, "3 GPUs", "5s", "never start"}, false},
		{"livelock", jobs(t, job{0, second, 1}, job{0, time.Hour, 1}), restless, simulator.Options{EventBudget: 7},
			[]string{`job "b"`, "7 events", "1h0m0s"}, true},
		{"livelock on a grid", jobs(t, job{0, second, 1}, job{0, time.Hour, 1}), restless,
			simulator.Options{EventBudget: 7, Round: second}, []string{`job "b"`, "7 events"}, true},
		{"a policy that asks itself for ever", jobs(t, job{0, time.Hour, 1}), sleepless{&script{}}, simulator.Options{},
			[]string{`job "a"`, "11000 events at 0s"}, true},
		{"negative round", jobs(t, job{0, second, 1}), &script{}, simulator.Options{Round: -1},
			[]string{"round", "negative"}, false},
	}
	for _, tt := range tests {
		var sim simulator.Sim
		err := sim.Start(twoNodes, tt.w, tt.p, tt.o)
		if err == nil {
			err = sim.Run(context.Background())
		}
		if err == nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", tt.name, err, want)
			}
		}
		if errors.Is(err, simulator.ErrBudget) != tt.budget {
			t.Errorf("%s: is ErrBudget: %v", tt.name, !tt.budget)
		}
	}

	var sim simulator.Sim
	none, err := workload.New("nobody's", time.Time{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Start(twoNodes, none, &script{}, simulator.Options{}); err == nil ||
		!strings.Contains(err.Error(), "nobody's") {
		t.Errorf("a workload without jobs: %v", err)
	}
	if err := sim.Start(workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 1}}}, jobs(t, job{0, second, 1}),
		&script{}, simulator.Options{}); err == nil {
		t.Error("a cluster without GPUs was taken")
	}
	state := &workload.State{At: 100 * second, Cluster: twoNodes}
	if err := sim.Resume(state, []time.Duration{1}, nil, &script{}, simulator.Options{}); err == nil {
		t.Error("one remaining duration for no job was taken")
	}
	if err := sim.Resume(state, nil, jobs(t, job{99 * second, second, 1}), &script{},
		simulator.Options{}); err == nil || !strings.Contains(err.Error(), `job "a"`) {
		t.Errorf("an arrival before the state: %v", err)
	}
	if err := sim.Resume(state, nil, nil, &script{}, simulator.Options{}); err != nil {
		t.Errorf("nothing to do is no error: %v", err)
	} else if err := sim.Run(context.Background()); err != nil || !sim.Done() || sim.Now() != state.At {
		t.Errorf("nothing to do: %v, done %v at %v", err, sim.Done(), sim.Now())
	}

	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := sim.Start(twoNodes, jobs(t, job{0, second, 1}), &script{}, simulator.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(done); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// sleepless wants to be asked again at once.
type sleepless struct{ *script }

func (p sleepless) Plan(plan *simulator.Plan) {
	p.script.Plan(plan)
	p.plan.WakeAt(p.s.Now())
}

// TestPolicyMistakesPanic: a policy that starts a running job, or stops one that is
// not, is broken.
func TestPolicyMistakesPanic(t *testing.T) {
	for name, step := range map[string]func(*simulator.View, *simulator.Plan){
		"starts a running job":            both(start(0), start(0)),
		"stops a waiting job":             preempt(0),
		"exchanges a waiting job":         exchange(ids{0}, nil),
		"stops a job twice":               both(start(0), both(preempt(0), preempt(0))),
		"sets a quantum of a waiting job": func(_ *simulator.View, p *simulator.Plan) { p.SetQuantum(0, 5*second) },
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "simulator: ") {
					t.Errorf("a policy that %s: %v", name, r)
				}
			}()
			var sim simulator.Sim
			if err := sim.Start(twoNodes, jobs(t, job{0, second, 1}), &script{at: steps{0: step}},
				simulator.Options{}); err != nil {
				t.Fatal(err)
			}
			_ = sim.Run(context.Background())
		}()
	}
}

// TestRounds: decisions happen on a grid from instant 0, ends when they happen.
func TestRounds(t *testing.T) {
	w := jobs(t, job{-31 * second, 10 * second, 4}, job{-30 * second, 30 * second, 4}, job{1 * second, 29 * second, 4},
		job{59 * second, second, 4})
	out := run(t, oneNode, w, &script{}, simulator.Options{Round: 30 * second})
	want := []struct{ start, end time.Duration }{
		{-30 * second, -20 * second}, // not before the round at -30 s
		{0, 30 * second},             // its GPUs were free from -20 s on
		{30 * second, 59 * second},   // an end at a round makes room in it
		{60 * second, 61 * second},
	}
	for i, o := range out {
		if o.Start != want[i].start || o.End != want[i].end {
			t.Errorf("%s ran from %v to %v, want %v to %v", w.Jobs()[i].ID, o.Start, o.End, want[i].start, want[i].end)
		}
	}
}

// TestQuantum: a job's quantum is reported at the instant set, the later setting wins, and
// an end comes first.
func TestQuantum(t *testing.T) {
	var notified []time.Duration
	p := &quanta{script: script{}, set: map[time.Duration]time.Duration{}, notified: &notified}
	p.at = steps{
		0: func(s *simulator.View, plan *simulator.Plan) {
			plan.Start(0)
			plan.SetQuantum(0, 50*second)
			plan.SetQuantum(0, 30*second)
		},
	}
	p.set[30*second] = 20 * second   // the past means the next nanosecond
	p.set[30*second+1] = 90 * second // after its end
	out := run(t, oneNode, jobs(t, job{0, 60 * second, 1}), p, simulator.Options{})
	if diff := cmp.Diff([]time.Duration{30 * second, 30*second + 1}, notified); diff != "" || out[0].End != 60*second {
		t.Errorf("ended at %v, notified (-want +got):\n%s", out[0].End, diff)
	}
}

type quanta struct {
	script
	set      map[time.Duration]time.Duration
	notified *[]time.Duration
}

func (p *quanta) Quantum(j simulator.ID) {
	*p.notified = append(*p.notified, p.s.Now())
	if next, ok := p.set[p.s.Now()]; ok {
		p.plan.SetQuantum(j, next)
	}
}

// TestSummaryByHand: three jobs on four GPUs, worked out on paper.
//
//	a: submitted   0 s, 4 GPUs, runs   0-100
//	b: submitted   0 s, 2 GPUs, runs 100-200
//	c: submitted 150 s, 4 GPUs, runs 200-250
//
// N(t) jobs are active: 2 until 100 s, 1 until 150, 2 until 200, 1 until 250.
func TestSummaryByHand(t *testing.T) {
	w := jobs(t, job{0, 100 * second, 4}, job{0, 100 * second, 2}, job{150 * second, 50 * second, 4})
	var sim simulator.Sim
	if err := sim.Start(oneNode, w, &script{}, simulator.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	rho := []float64{
		100 / (100 * 2.0),                   // T_id = 100 s x 4 GPUs x 2 jobs / 4 GPUs
		200 / 100.0,                         // mean N is 350/200, 2 x 1.75 / 4 is below 1: T_id = 100 s
		100 / (50 * 1 * (2*50 + 50) / 100.), // T_id = 50 s x 4 x 1.5 / 4
	}
	for i, o := range sim.Outcomes(nil) {
		if math.Abs(o.Rho-rho[i]) > 1e-12 { // a division or two apart
			t.Errorf("%s: rho %v, want %v", w.Jobs()[i].ID, o.Rho, rho[i])
		}
	}
	want := simulator.Summary{
		Objectives: simulator.Objectives{Jobs: 3, AvgJCT: 400. / 3, P50JCT: 100, P95JCT: 190, P99JCT: 198,
			AvgQueue: 150. / 3, P95Queue: 95, Makespan: 250,
			FTFLe1: 1. / 3, MaxRho: 2, P95Rho: rho[2] + (rho[1]-rho[2])*.9, Slowdown: 1},
		Utilization:   (4*100 + 2*50) / (150 * 4.), // until the last submission
		AvgWaiting:    (1*100 + 1*50) / 250.,
		WaitingBySize: simulator.BySize{0, (1*100 + 1*50) / 250., 0, 0},
		AvgQueuedGPUs: (2*100 + 4*50) / 250.,
		Fragmentation: 2 * 50 / (250 * 4.), // two GPUs beside b while c waits
		Events:        6,                   // three submissions, three ends
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a)) })
	if diff := cmp.Diff(want, sim.Summarize(), near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDescribe(t *testing.T) {
	if got := simulator.Describe(nil); got != (simulator.Objectives{}) {
		t.Errorf("of nothing: %+v", got)
	}
	got := simulator.Describe([]simulator.Outcome{
		{Submit: 10 * second, End: 110 * second, Wait: 20 * second, Restart: 1800 * second, GPUs: 4, Preemptions: 2,
			Spread: true, Rho: 1, Slowdown: 2},
		{Submit: -10 * second, End: 290 * second, Wait: 40 * second, Restart: 3600 * second, GPUs: 1, Preemptions: 3,
			Rho: 1.0000001, Slowdown: .5},
	})
	want := simulator.Objectives{Jobs: 2, AvgJCT: 200, P50JCT: 200, P95JCT: 290, P99JCT: 298, AvgQueue: 30,
		P95Queue: 39, Makespan: 300, Preemptions: 5,
		FTFLe1: .5, MaxRho: 1.0000001, P95Rho: 1 + .95e-7, RestartGPUHours: 3, SpreadShare: .5, Slowdown: 1.25}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(a)) })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
