package cluster

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

func TestStepOf(t *testing.T) {
	for _, c := range []struct {
		at, length time.Duration
		want       int64
	}{{0, minute, 0}, {minute - 1, minute, 0}, {minute, minute, 1}, {-1, minute, -1}, {-minute, minute, -1},
		{-minute - 1, minute, -2}, {90 * minute, hour, 1}} {
		if got := StepOf(c.at, c.length); got != c.want {
			t.Errorf("%v in steps of %v: %d, want %d", c.at, c.length, got, c.want)
		}
	}
}

// TestRing: a ring ends with its latest step, and has no more steps than are kept.
func TestRing(t *testing.T) {
	for seed := range uint64(100) {
		x := rand.New(rand.NewPCG(seed, 1))
		slots := 1 + x.IntN(60)
		e := Subject{Series: &Series{minute, []int{0, slots}}}
		if e.put(0, 1, 1); e.Rings != nil {
			t.Fatal("a series that is not kept has a ring")
		}
		k := int64(x.IntN(20) - 10)
		for range 300 {
			k += int64(x.IntN(2) * x.IntN(2) * x.IntN(80))
			e.put(1, k, 1)
			e.put(1, k-int64(x.IntN(slots+5)), 1)
			if r := &e.Rings[1]; r.head != k || len(r.steps) > slots || r.steps[r.pos].n == 0 {
				t.Fatalf("seed %d: head %d, want %d; %d steps of %d", seed, r.head, k, len(r.steps), slots)
			}
		}
	}
}

// TestMeans: the means of the steps of a window, the latest first, equal those of all values.
func TestMeans(t *testing.T) {
	for seed := range uint64(300) {
		x := rand.New(rand.NewPCG(seed, 2))
		slots := 20 + x.IntN(40)
		e := Subject{Series: &Series{minute, []int{slots}}}
		values := map[int64][]float64{}
		k := int64(-5)
		for range 200 {
			if x.IntN(3) == 0 {
				k += int64(x.IntN(4))
			}
			at := k - int64(x.IntN(3)) // a little late
			v := float64(x.IntN(64))
			if r := e.Rings; r == nil || at > r[0].head-int64(len(r[0].steps)) {
				values[at] = append(values[at], v)
			}
			e.put(0, at, v)
		}
		first, last := k-int64(x.IntN(slots-2)), k+1
		var got []int64
		steps, n := e.Means(0, first, last, func(step int64, mean float32, n int) bool {
			got = append(got, step)
			sum := 0.
			for _, v := range values[step] {
				sum += v
			}
			if n != len(values[step]) || math.Abs(float64(mean)-sum/float64(n)) > 1e-4 {
				t.Errorf("seed %d, step %d: mean %g of %d, want %g of %d", seed, step, mean, n, sum/float64(n),
					len(values[step]))
			}
			return true
		})
		wantSteps, wantN := 0, 0
		for step, list := range values {
			if step >= first && step < last {
				wantSteps, wantN = wantSteps+1, wantN+len(list)
			}
		}
		if steps != wantSteps || n != wantN || !slices.IsSortedFunc(got, func(a, b int64) int { return int(b - a) }) {
			t.Errorf("seed %d: %d steps and %d values, want %d and %d; %v", seed, steps, n, wantSteps, wantN, got)
		}
		calls := 0
		e.Means(0, first, last, func(int64, float32, int) bool { calls++; return false })
		if calls > 1 {
			t.Errorf("seed %d: %d calls after the first said enough", seed, calls)
		}
		e.clear()
		if steps, n := e.Means(0, first, last, func(int64, float32, int) bool { return true }); steps+n != 0 {
			t.Errorf("seed %d: %d steps after they were forgotten", seed, steps)
		}
	}
}

// TestKeep: a series is as long as its longest window, with two steps and the lateness beyond.
func TestKeep(t *testing.T) {
	w := newWorld(t, Config{})
	w.Keep("job", JobBusy, 10*minute)
	w.Keep("job", JobBusy, 5*minute)
	w.Keep("tenant", TenantUse, 7*24*hour)
	for _, c := range []struct {
		kind string
		i    int
		want int
	}{{"job", JobBusy, 40 + 2 + 2}, {"job", JobPower, 0}, {"tenant", TenantUse, 672 + 2}, {"gpu", GPUBusy, 0}} {
		if got := w.Series[c.kind].Slots[c.i]; got != c.want {
			t.Errorf("%s %d: %d steps, want %d", c.kind, c.i, got, c.want)
		}
	}
}

// sampled is a world with a job on one GPU, all of whose series are kept.
func sampled(t *testing.T) *world {
	w := newWorld(t, Config{Cluster: workload.Uniform(1, 1)})
	for kind, x := range w.Series {
		for i := range x.Slots {
			w.Keep(kind, i, hour)
		}
	}
	w.event(0, "start j 1 0:1")
	return w
}

// last returns the mean of the step of an instant of a series.
func last(e *Subject, i int, at time.Duration) float64 {
	k := StepOf(at, e.Series.Step)
	got := math.NaN()
	e.Means(i, k, k+1, func(_ int64, mean float32, _ int) bool {
		got = float64(mean)
		return true
	})
	return got
}

// TestGPUSample: the series of a sample; impossible and unknown quantities have no value.
func TestGPUSample(t *testing.T) {
	nan := math.NaN()
	all := telemetry.Utilization | telemetry.SMActive | telemetry.MemoryUsed | telemetry.MemoryTotal | telemetry.Power |
		telemetry.Processes | telemetry.Throttle | telemetry.SMClock | telemetry.ApplicationClock
	whole := telemetry.GPUSample{Known: all, Utilization: 90, SMActive: .5, MemoryUsed: 20, MemoryTotal: 80, Power: 300,
		Processes: 2, SMClock: 900, ApplicationClock: 1000, Throttle: telemetry.ThrottleSoftwarePower}
	with := func(f func(*telemetry.GPUSample)) telemetry.GPUSample {
		x := whole
		f(&x)
		return x
	}
	for _, c := range []struct {
		name                                          string
		sample                                        telemetry.GPUSample
		busy, memory, excess, processes, clock, power float64
	}{
		{"whole", whole, .5, .25, 1, 2, .9, 1},
		{"no SM activity", with(func(x *telemetry.GPUSample) { x.Known &^= telemetry.SMActive }), .9, .25, 1, 2, .9, 1},
		{"impossible use", with(func(x *telemetry.GPUSample) { x.SMActive, x.Utilization = 1.5, 101 }), nan, .25, 1,
			2, .9, 1},
		{"no total memory", with(func(x *telemetry.GPUSample) { x.MemoryTotal = 0 }), .5, nan, 1, 2, .9, 1},
		{"no power", with(func(x *telemetry.GPUSample) { x.Power = -1 }), .5, .25, nan, 2, .9, 1},
		{"no processes", with(func(x *telemetry.GPUSample) { x.Known &^= telemetry.Processes }), .5, .25, 1, nan, .9,
			1},
		{"idle", with(func(x *telemetry.GPUSample) { x.Throttle |= telemetry.ThrottleIdle }), .5, .25, 1, 2, nan, 0},
		{"no application clock", with(func(x *telemetry.GPUSample) { x.ApplicationClock = 0 }), .5, .25, 1, 2, nan, 1},
		{"heat", with(func(x *telemetry.GPUSample) { x.Throttle = telemetry.ThrottleHardwareThermal }), .5, .25, 1, 2,
			.9, 0},
		{"lost", with(func(x *telemetry.GPUSample) { x.Lost = true }), nan, nan, nan, nan, nan, nan},
	} {
		w := sampled(t)
		x := c.sample
		x.GPU = telemetry.GPU{Node: "0", Instance: -1}
		w.GPUSample(&x, minute)
		j := w.Jobs["j"]
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) < 1e-6 }
		excess := last(&j.Subject, JobPower, minute)
		if !math.IsNaN(excess) {
			excess /= 300 - w.idle
		}
		var g Subject
		if len(w.GPUs) > 0 {
			g = w.GPUs[0].Subject
		} else {
			g = w.subject("gpu", "none")
		}
		for name, v := range map[string][2]float64{"busy": {last(&j.Subject, JobBusy, minute), c.busy},
			"memory": {last(&g, GPUMemory, minute), c.memory}, "power": {excess, c.excess},
			"processes": {last(&j.Subject, JobProcesses, minute), c.processes},
			"clock":     {last(&g, GPUClock, minute), c.clock}, "throttled": {last(&g, GPUThrottledPower, minute),
				c.power}} {
			if !same(v[0], v[1]) {
				t.Errorf("%s: %s is %g, want %g", c.name, name, v[0], v[1])
			}
		}
	}
}

// TestXid: an Xid error is a fact, also of a GPU that is lost.
func TestXid(t *testing.T) {
	w := sampled(t)
	for _, x := range []telemetry.GPUSample{{Known: telemetry.Xid, Xid: 79}, {Known: telemetry.Xid, Xid: 79,
		Lost: true},
		{Known: telemetry.Xid}, {Xid: 79}, {Known: telemetry.Xid, Xid: -1}} {
		x.GPU = telemetry.GPU{Node: "0", Instance: -1}
		w.GPUSample(&x, minute)
	}
	n := 0
	for _, f := range w.facts {
		if f == "gpu.xid j" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d errors in %v", n, w.facts)
	}
}

// TestUse: spells of use and dips begin where the threshold is crossed; samples before the start do not count.
func TestUse(t *testing.T) {
	w := sampled(t)
	w.Jobs["j"].Start = minute
	for i, busy := range []float64{.9, .009, .01, .5, .19, .2, .1, 0, 1} {
		w.GPUSample(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1}, Known: telemetry.SMActive,
			SMActive: busy}, time.Duration(i)*minute)
	}
	u := w.Jobs["j"].Use
	if u.Samples != 8 || u.Used != 6 || u.Spells != 2 || u.Dips != 3 || w.Joins[telemetry.IdleNode] != 1 ||
		w.Joins[telemetry.ByPlacement] != 8 {
		t.Errorf("%d samples, %d used in %d spells, %d dips, joined %v", u.Samples, u.Used, u.Spells, u.Dips,
			w.Joins)
	}
}

// TestLearnedIdlePower: the mean of ten samples without a job, at most the model's and at least a quarter of it.
func TestLearnedIdlePower(t *testing.T) {
	for _, c := range []struct {
		n     int
		share float64 // of the model's
		want  float64
	}{{9, .5, 1}, {10, .5, .5}, {10, .1, .25}, {10, 2, 1}} {
		w := newWorld(t, Config{Cluster: workload.Uniform(1, 1)})
		for range c.n {
			w.GPUSample(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1}, Power: c.share * w.idle,
				Known: telemetry.Power | telemetry.Utilization}, 0)
		}
		if got := w.GPUs[0].idle / w.idle; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d samples at %g of the model's: %g, want %g", c.n, c.share, got, c.want)
		}
	}
}

// TestJoin: a GPU has the samples of the job that holds its node, or that an assignment or the sample names.
func TestJoin(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Uniform(1, 2)})
	sample := func(gpu int, job string) string {
		w.GPUSample(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Index: gpu, Instance: -1}, Job: job,
			Known: telemetry.Utilization}, w.Now)
		for _, g := range w.GPUs {
			if g.Name == "0:"+string(rune('0'+gpu)) && g.Job != nil {
				return g.Job.Name
			}
		}
		return ""
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: job %q, want %q", what, got, want)
		}
	}
	w.event(0, "start a 1 0:1")
	check("part of a node", sample(0, ""), "")
	check("named by a sample", sample(0, "a"), "a")
	check("named before", sample(0, ""), "a")
	w.event(minute, "start b 1 0:1")
	check("a second job leaves the first", sample(0, ""), "a")
	check("and is not known itself", sample(1, ""), "")
	w.event(2*minute, "end b")
	check("a is not alone on all GPUs", sample(1, ""), "")
	w.event(3*minute, "end a")
	check("ended", sample(0, ""), "")
	w.event(4*minute, "start c 2 0:2")
	check("the whole node", sample(1, ""), "c")
	w.event(5*minute, "stop c")
	check("preempted", sample(1, ""), "")
	w.Event(&workload.Event{Kind: workload.Started, Job: workload.Job{ID: "d", GPUs: workload.GPUs(1)}, Time: w.Now,
		Placement: []workload.NodeShare{{Node: "0", GPUs: 1, Indexes: "1"}}}, w.Now)
	check("assigned", sample(1, ""), "d")
	check("not assigned", sample(0, ""), "")
}

// TestJoinForgets: a GPU forgets its samples as its job changes, and a job its own as it stops.
func TestJoinForgets(t *testing.T) {
	w := sampled(t)
	x := telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1}, Known: telemetry.SMActive, SMActive: .5}
	w.GPUSample(&x, minute)
	j, g := w.Jobs["j"], w.GPUs[0]
	if got := last(&g.Subject, GPUBusy, minute); got != .5 || last(&j.Subject, JobBusy, minute) != .5 {
		t.Fatalf("use of the GPU %g", got)
	}
	w.event(minute, "stop j")
	if got := last(&g.Subject, GPUBusy, minute); !math.IsNaN(got) {
		t.Errorf("use of a GPU without a job %g", got)
	}
	if got := last(&j.Subject, JobBusy, minute); !math.IsNaN(got) {
		t.Errorf("use of a job that was stopped %g", got)
	}
	if j.Use.Samples != 1 {
		t.Errorf("%d samples of the job in all", j.Use.Samples)
	}
}
