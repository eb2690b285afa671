package round

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// book is a ledger that jobs are entered into.
type book struct {
	*workload.Ledger
	t      *testing.T
	events int
}

func newBook(t *testing.T, c workload.Cluster) *book {
	return &book{Ledger: workload.NewLedger(c), t: t}
}

func (b *book) apply(e workload.Event) {
	b.t.Helper()
	b.events++
	e.ID = fmt.Sprint(b.events)
	if err := e.Validate(); err != nil {
		b.t.Fatal(err)
	}
	b.Apply(e)
}

// job enters a job that starts at once; it has not ended if takes is 0.
func (b *book) job(id, tenant string, submit, takes time.Duration, gpus int) {
	b.t.Helper()
	b.apply(workload.Event{Kind: workload.Submitted, Time: submit,
		Job: workload.Job{ID: id, Tenant: tenant, GPUs: workload.GPUs(gpus), Deadline: submit + 99*time.Hour}})
	b.apply(workload.Event{Kind: workload.Started, Time: submit, Job: workload.Job{ID: id}})
	if takes > 0 {
		b.apply(workload.Event{Kind: workload.Finished, Time: submit + takes,
			Job: workload.Job{ID: id, Status: workload.Completed}})
	}
}

func (b *book) snapshot(at time.Duration) *Snapshot {
	return &Snapshot{State: b.State(at), Ledger: b.Ledger, Zero: time.Unix(0, 0)}
}

func ids(jobs []workload.Job) (out []string) {
	for _, j := range jobs {
		out = append(out, j.ID)
	}
	return out
}

// TestLastDays: the jobs submitted within seven days on an empty cluster, a little later
// than they were; those that ended keep their durations.
func TestLastDays(t *testing.T) {
	b := newBook(t, workload.Uniform(4, 8))
	day := 24 * time.Hour
	at := 10 * day
	b.job("before", "", at-Memory-1, time.Hour, 1)
	b.job("first", "", at-Memory, 2*time.Hour, 1)
	b.job("wide", "", 5*day, time.Hour, 32)
	b.job("running", "", at-2*time.Hour, 0, 1)
	b.job("now", "", at, 0, 1)
	b.job("later", "", at+1, 0, 1)
	s := b.snapshot(at)
	s.State.Down = []int{3} // the wide job does not fit any more
	draw := func(seed uint64) []Scenario {
		t.Helper()
		out, span, err := s.lastDays(t.Context(), replays, seed)
		if err != nil || len(out) != replays || span != Memory {
			t.Fatalf("%d replays of %v, error %v", len(out), span, err)
		}
		return out
	}
	one := draw(1)
	for k, x := range one {
		jobs := map[string]workload.Job{}
		for _, j := range x.Arrivals.Jobs() {
			jobs[j.ID] = j
		}
		if got, want := slices.Sorted(maps.Keys(jobs)), []string{"first", "now", "running"}; !slices.Equal(got, want) {
			t.Fatalf("replay %d has %v, want %v", k, got, want)
		}
		for id, submit := range map[string]time.Duration{"first": at - Memory, "running": at - 2*time.Hour, "now": at} {
			if late := jobs[id].Submit - submit; late < 0 || late >= replayJitter {
				t.Errorf("replay %d: %s is %v late", k, id, late)
			}
		}
		if jobs["first"].Duration != 2*time.Hour || jobs["running"].Duration < 2*time.Hour ||
			jobs["now"].Duration <= 0 {
			t.Errorf("replay %d: durations %v, %v, %v", k, jobs["first"].Duration, jobs["running"].Duration,
				jobs["now"].Duration)
		}
		if x.State != nil || x.Past == nil {
			t.Errorf("replay %d begins with state %v, past %v", k, x.State, x.Past)
		}
	}
	same := func(a, b []Scenario) (n int) {
		for k := range a {
			if a[k].Arrivals.Digest() == b[k].Arrivals.Digest() {
				n++
			}
		}
		return n
	}
	if n := same(one, draw(1)); n != replays {
		t.Errorf("%d of %d replays are the same for the same seed", n, replays)
	}
	if n := same(one, draw(2)); n != 0 || same(one[:1], one[1:]) != 0 {
		t.Errorf("%d replays are the same for another seed", n)
	}
	// Two days of history weigh less than seven.
	if _, span, err := b.snapshot(5*day).lastDays(t.Context(), 1, 1); err != nil || span != 2*day+1 {
		t.Errorf("%v since the first job, want two days; error %v", span, err)
	}
	none := newBook(t, workload.Uniform(1, 1)).snapshot(at)
	if out, span, err := none.lastDays(t.Context(), 1, 1); out != nil || span != 0 || err != nil {
		t.Errorf("without a job: %v, %v, error %v", out, span, err)
	}
}

// batch are jobs of a tenant that were submitted from an instant on, a minute apart.
func batch(n int, tenant string, from, takes time.Duration, gpus int) (out []workload.Finish) {
	for i := range n {
		submit := from + time.Duration(i)*time.Minute
		out = append(out, workload.Finish{RunTime: takes, End: submit + takes, Job: workload.Job{
			ID: fmt.Sprintf("%s-%v-%d", tenant, from, i), Tenant: tenant, Submit: submit, GPUs: workload.GPUs(gpus),
			Deadline: submit + time.Hour}})
	}
	return out
}

// TestSweep: the tenant's hour with the most GPU-time, of at least leastSweep jobs.
func TestSweep(t *testing.T) {
	at := 90*time.Hour + 7*time.Minute
	for _, tt := range []struct {
		name   string
		ended  [][]workload.Finish
		tenant string
		jobs   int
	}{
		{"none", nil, "", 0},
		{"too few jobs", [][]workload.Finish{batch(leastSweep-1, "a", 0, time.Hour, 8)}, "", 0},
		{"too few jobs of nobody", [][]workload.Finish{batch(leastSweep-1, "", 0, time.Hour, 8)}, "", 0},
		{"just enough", [][]workload.Finish{batch(leastSweep, "a", 0, time.Hour, 8)}, "a", leastSweep},
		{"across the hour", [][]workload.Finish{batch(2*leastSweep-2, "a", time.Hour-(leastSweep-1)*time.Minute,
			time.Hour, 8)}, "", 0},
		{"of two tenants", [][]workload.Finish{batch(leastSweep-1, "a", 0, time.Hour, 8),
			batch(leastSweep-1, "b", 0, time.Hour, 8)}, "", 0},
		{"the most jobs are not the most work", [][]workload.Finish{batch(30, "many", 0, time.Hour, 1),
			batch(10, "wide", 0, time.Hour, 4), batch(10, "short", 0, time.Minute, 8)}, "wide", 10},
		{"equal work: the later hour", [][]workload.Finish{batch(12, "late", 5*time.Hour, time.Hour, 1),
			batch(12, "early", time.Hour, time.Hour, 1)}, "late", 12},
		{"in one hour: the last name", [][]workload.Finish{batch(12, "a", time.Hour, time.Hour, 1),
			batch(12, "b", time.Hour, time.Hour, 1)}, "b", 12},
	} {
		for _, ended := range [][]workload.Finish{slices.Concat(tt.ended...), slices.Concat(reversed(tt.ended)...)} {
			jobs := sweep(ended, at)
			if len(jobs) != tt.jobs || len(jobs) > 0 && jobs[0].Tenant != tt.tenant {
				t.Errorf("%s: %d jobs %v, want %d of %q", tt.name, len(jobs), jobs, tt.jobs, tt.tenant)
				continue
			}
			for i, j := range jobs {
				if want := at + 1 + time.Duration(i)*time.Minute; j.Submit != want || j.Duration <= 0 {
					t.Errorf("%s: job %d comes at %v and runs %v, want %v", tt.name, i, j.Submit, j.Duration, want)
				}
			}
		}
	}
}

func reversed[T any](x []T) []T {
	x = slices.Clone(x)
	slices.Reverse(x)
	return x
}

// TestCrowd: four jobs of one GPU per GPU in an hour, drawn from those that ended.
func TestCrowd(t *testing.T) {
	at := 90 * time.Hour
	past := append(batch(3, "a", 0, time.Hour, 2), batch(2, "b", 0, time.Minute, 1)...)
	draw := func() []workload.Job { return crowd(past, at, 16, rng.Stream("flash crowd", 1)) }
	jobs := draw()
	if len(jobs) != 4*16 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for i, j := range jobs {
		if j.GPUs.Whole() != 1 || j.Tenant != "b" || j.Duration != time.Minute ||
			j.Submit <= at || j.Submit > at+time.Hour || i > 0 && j.Submit <= jobs[i-1].Submit {
			t.Errorf("job %d is %+v", i, j)
		}
	}
	if diff := cmp.Diff(jobs, draw()); diff != "" {
		t.Errorf("drawn again:\n%s", diff)
	}
	if got := crowd(past[:3], at, 16, rng.Stream("flash crowd", 1)); got != nil {
		t.Errorf("without a job of one GPU: %v", got)
	}
}

// running is a job that runs on whole nodes of eight GPUs.
func running(id string, at time.Duration, nodes ...int) workload.ActiveJob {
	a := workload.ActiveJob{Job: workload.Job{ID: id, GPUs: workload.GPUs(8 * len(nodes))}, Running: true, Starts: 1,
		Since: at - time.Hour, RunTime: time.Hour, SharesWith: "other"}
	for _, n := range nodes {
		a.Placement = append(a.Placement, workload.NodeGPUs{Node: n, GPUs: 8})
	}
	return a
}

// TestWithoutNodes: a tenth of the nodes is lost, the last ones. Jobs that ran there wait,
// and those that fit no more are left out.
func TestWithoutNodes(t *testing.T) {
	at := 5 * time.Hour
	waiting := workload.ActiveJob{Job: workload.Job{ID: "all", GPUs: workload.GPUs(19 * 8)}, Since: at}
	state := workload.State{At: at, Cluster: workload.Uniform(20, 8), Jobs: []workload.ActiveJob{
		running("stays", at, 0, 17), running("loses one", at, 16, 18), waiting, running("loses all", at, 19)}}
	w, err := workload.New("arrivals", time.Time{}, []workload.Job{
		{ID: "fits", Submit: at + 1, Duration: time.Hour, GPUs: workload.GPUs(18 * 8)},
		{ID: "too wide", Submit: at + 1, Duration: time.Hour, GPUs: workload.GPUs(18*8 + 1)}})
	if err != nil {
		t.Fatal(err)
	}
	x := Scenario{State: &state, Left: []time.Duration{1, 2, 3, 4}, Arrivals: w}
	before := fmt.Sprintf("%+v", state)
	got, ok := x.withoutNodes()
	if !ok || got.State.Cluster.Nodes() != 18 || !slices.Equal(got.Left, []time.Duration{1, 2, 4}) ||
		!slices.Equal(ids(got.Arrivals.Jobs()), []string{"fits"}) {
		t.Fatalf("%v: %v, left %v of %v, then %v", ok, got.State.Cluster, got.Left, got.State.Jobs, got.Arrivals.Jobs())
	}
	for i, want := range []struct {
		id    string
		waits bool
	}{{"stays", false}, {"loses one", true}, {"loses all", true}} {
		a := got.State.Jobs[i]
		if a.ID != want.id || a.Running == want.waits || (len(a.Placement) == 0) != want.waits ||
			(a.Since == at) != want.waits || (a.SharesWith == "") != want.waits {
			t.Errorf("job %d: %+v, want %s waiting %v", i, a, want.id, want.waits)
		}
	}
	if fmt.Sprintf("%+v", state) != before {
		t.Error("the given state was changed")
	}

	// Nodes that are down already take no job either.
	down := state
	down.Down = []int{3, 4, 19}
	down.Jobs = []workload.ActiveJob{{Job: workload.Job{ID: "16", GPUs: workload.GPUs(16 * 8)}},
		{Job: workload.Job{ID: "17", GPUs: workload.GPUs(17 * 8)}}}
	if got, ok := (Scenario{State: &down, Left: []time.Duration{1, 2}}).withoutNodes(); !ok ||
		!slices.Equal(got.Left, []time.Duration{1}) {
		t.Errorf("with nodes down: %v, left %v", ok, got.Left)
	}

	quotas := state
	quotas.Cluster.VCs = []workload.VC{{Tenant: "vc", GPUs: 160}}
	one, small := state, state
	one.Cluster = workload.Uniform(1, 8)
	small.Cluster.Groups = []workload.NodeGroup{{Nodes: 29, GPUsPerNode: 8}, {Nodes: 1, GPUsPerNode: 4}}
	for name, x := range map[string]Scenario{"quotas": {State: &quotas}, "one node": {State: &one},
		"the last group is too small": {State: &small}, "an empty cluster": {Arrivals: w}} {
		if _, ok := x.withoutNodes(); ok {
			t.Errorf("%s: nodes are lost", name)
		}
	}
}

// TestStressCanRun: what is simulated under stress can end, also where nodes are down or
// no job fits what is left.
func TestStressCanRun(t *testing.T) {
	s, first, _ := line(t)
	at := 30 * time.Hour
	for _, tt := range []struct {
		name      string
		nodes     int
		down      []int
		wide      int // nodes of the sweep's jobs
		active    int // nodes of a waiting job
		scenarios int
	}{
		{"all is up", 10, nil, 2, 1, 3},
		{"the largest sweep fits no more, another does", 10, []int{1, 2, 3}, 8, 1, 3},
		{"the only job fits no more", 10, nil, 10, 10, 2},
		{"the only job fits no more where nodes are down", 10, []int{1, 2}, 2, 8, 2},
	} {
		b := newBook(t, workload.Uniform(tt.nodes, 8))
		for i := range 12 {
			b.job(fmt.Sprint("sweep", i), "a", time.Duration(i)*time.Minute, time.Hour, 8*tt.wide)
			b.job(fmt.Sprint("one", i), "b", time.Duration(i)*time.Minute, time.Minute, 1)
		}
		now := b.snapshot(at)
		now.State.Down = tt.down
		active := workload.Job{ID: "active", GPUs: workload.GPUs(8 * tt.active)}
		now.State.Jobs = []workload.ActiveJob{{Job: active, Since: at}}
		x, err := now.stress(t.Context(), Scenario{State: &now.State, Left: []time.Duration{time.Hour}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(x) != tt.scenarios {
			t.Errorf("%s: %d scenarios, want %d", tt.name, len(x), tt.scenarios)
		}
		sc, err := NewScorer(&Problem{Scheduler: s, Cluster: now.State.Cluster, Goal: Minimise("avg_jct")}, x)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := sc.Measure(t.Context(), first); err != nil || m.Exhausted {
			t.Errorf("%s: exhausted %v, error %v", tt.name, m.Exhausted, err)
		}
		for _, x := range x {
			if x.Arrivals == nil {
				continue
			}
			for _, j := range x.Arrivals.Jobs() {
				if j.Deadline != 0 {
					t.Errorf("%s: %s has a deadline", tt.name, j.ID)
				}
			}
		}
	}
}

// TestInsurerMeasures: each configuration once, as a logarithm of the ratio to the default
// that is averaged over the scenarios.
func TestInsurerMeasures(t *testing.T) {
	s, first, last := line(t)
	var short, long oneGPU
	short.add(1, "", 0, time.Minute) // runs when the others come
	short.add(1, "", time.Second, time.Minute)
	short.add(1, "", 2*time.Second, time.Hour)
	long.add(1, "", 0, time.Minute)
	long.add(1, "", time.Second, time.Hour)
	long.add(1, "", 2*time.Second, time.Minute)
	p := &Problem{Scheduler: s, Space: s.Space, Cluster: workload.Uniform(1, 1), Goal: Minimise("avg_jct"),
		Incumbent: last}
	scorer := func(x ...Scenario) *Scorer {
		t.Helper()
		sc, err := scorerOf(t.Context(), p, x)
		if err != nil {
			t.Fatal(err)
		}
		return sc
	}
	x := &insurer{replay: scorer(short.scenario(t), long.scenario(t)), key: keyer(nil), workers: 2}
	var to insurance
	if err := x.measure(t.Context(), &to, []space.Config{last, last}); err != nil {
		t.Fatal(err)
	}
	// Submitted at 1, 2 and 3 s; the sum of the JCTs in seconds, in order and the last first.
	inOrder, lastFirst := [2]float64{60 + 119 + 3718, 60 + 3659 + 3718}, [2]float64{60 + 3719 + 3658, 60 + 3719 + 118}
	want := 0.0
	for i := range inOrder {
		want += math.Log(lastFirst[i]/inOrder[i]) / 2
	}
	if got := to.Replay[last.Hash()]; math.Abs(got-want) > 1e-6 || to.Replay[first.Hash()] != 0 || len(to.Replay) != 2 {
		t.Errorf("replay %v, want %v of the last first", to.Replay, want)
	}
	if to.Stress != nil || !to.Known[last.Hash()] || !to.lacks([]space.Config{last, first}, x.key) ||
		to.lacks([]space.Config{last}, x.key) {
		t.Errorf("insured %+v", to)
	}
	// What is known is not measured again.
	to.Replay[last.Hash()] = 7
	x.stress = scorer(short.scenario(t))
	if err := x.measure(t.Context(), &to, []space.Config{last, first}); err != nil {
		t.Fatal(err)
	}
	if to.Replay[last.Hash()] != 7 || len(to.Stress) != 2 || to.lacks([]space.Config{last, first}, x.key) {
		t.Errorf("insured %+v", to)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	err := x.measure(ctx, &insurance{}, []space.Config{last})
	if err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("a context that ended: error %v", err)
	}
}

// TestSweepBeforeTheFirstDay: events may be older than the first one that came, and so be before the zero.
func TestSweepBeforeTheFirstDay(t *testing.T) {
	b := newBook(t, workload.Uniform(4, 8))
	for i := range 12 {
		b.job(fmt.Sprint(i), "a", time.Duration(i-100)*time.Minute, time.Hour, 8)
	}
	const at = time.Hour
	jobs := sweep(b.snapshot(at).Ledger.Finishes(-24*time.Hour, at), at)
	if len(jobs) != 12 {
		t.Fatalf("%d jobs", len(jobs))
	}
	for _, j := range jobs {
		if j.Submit <= at || j.Submit > at+time.Hour {
			t.Errorf("%s is submitted at %v", j.ID, j.Submit)
		}
	}
}
