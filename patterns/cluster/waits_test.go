package cluster

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

func TestWidthClass(t *testing.T) {
	for gpus, want := range map[int]int{-1: 0, 0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4, 1024: 10} {
		if got := widthClass(gpus); got != want {
			t.Errorf("%d GPUs: class %d, want %d", gpus, got, want)
		}
	}
}

// TestUsualWait: the 95th percentile by nearest rank of the waits of a class that ended within a week.
func TestUsualWait(t *testing.T) {
	var w Waits
	if _, known := w.Usual(1, 0); known {
		t.Error("a usual wait without any")
	}
	for i := range 20 {
		w.add(3, time.Duration(i)*hour, time.Duration(i+1)*hour)
	}
	for _, c := range []struct {
		gpus  int
		now   time.Duration
		want  float64
		known bool
	}{
		{4, 20 * hour, 19, true},      // all: the 19th of 20
		{3, week, 19, true},           // the first is a week old
		{3, week + 1, 20, true},       // and older: the 19th of 19
		{2, 20 * hour, 0, false},      // of another class
		{3, week + 19*hour, 20, true}, // one is left
		{3, week + 19*hour + 1, 0, false},
	} {
		w.prune(widthClass(c.gpus), c.now)
		if got, known := w.Usual(c.gpus, c.now); got != c.want || known != c.known {
			t.Errorf("%d GPUs after %v: %g h (%t), want %g h (%t)", c.gpus, c.now, got, known, c.want, c.known)
		}
	}
}

// TestRuns: a key has quantiles of its last 256 runs; keys beyond the cap have none, but count in the mean.
func TestRuns(t *testing.T) {
	r := Runs{byKey: map[string]*history{}}
	for i := range 300 {
		r.add("k", float64(i), 2)
	}
	for _, key := range []string{"l", "m", ""} {
		r.add(key, 1, 2)
	}
	for _, c := range []struct {
		key   string
		q     float64
		want  float64
		known bool
	}{{"k", .5, 171, true}, {"k", .99, 297, true}, {"k", 1, 299, true}, {"k", 0, 44, true}, {"l", .5, 1, true},
		{"m", .5, 0, false}, {"", .5, 0, false}} {
		if got, known := r.Quantile(c.key, c.q); got != c.want || known != c.known {
			t.Errorf("%q at %g: %g (%t), want %g (%t)", c.key, c.q, got, known, c.want, c.known)
		}
	}
	if r.n != 303 || r.hours != 299*300/2+3 {
		t.Errorf("%d runs of %g h", r.n, r.hours)
	}
}

// TestWork: by the limit, else the median of the key, else the mean of all jobs that ended, which is a guess.
func TestWork(t *testing.T) {
	w := newWorld(t, Config{})
	j := &Job{GPUs: 2, Share: 2, Key: "k"}
	check := func(what string, hours float64, guessed, known bool) {
		t.Helper()
		if h, g, k := w.Work(j); h != hours || g != guessed || k != known {
			t.Errorf("%s: %g GPU-hours, guessed %t, known %t; want %g, %t, %t", what, h, g, k, hours, guessed, known)
		}
	}
	check("nothing is known", 0, true, false)
	w.Runs.add("", 3, 9)
	check("another job ended", 6, true, true)
	w.Runs.add("k", 5, 9)
	check("one of its key ended", 10, false, true)
	j.Limit = hour
	check("by its limit", 2, false, true)
	j.Share = .5
	check("half a GPU", .5, false, true)
}

// TestOvertaken: the work of jobs that were submitted later than a pending job of the same
// queue, and started; of all jobs where it names no queue.
func TestOvertaken(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Uniform(4, 8)})
	submit := func(id string, at time.Duration, gpus int, limit time.Duration, queue string) {
		w.Now = max(w.Now, at)
		w.Event(&workload.Event{Kind: workload.Submitted, Time: at, Job: workload.Job{ID: id, GPUs: workload.GPUs(gpus),
			Requested: workload.Request{TimeLimit: limit, Partition: queue}.Shared()}}, w.Now)
	}
	submit("same", minute, 1, hour, "")
	submit("a", minute, 8, hour, "")
	submit("b", 2*minute, 4, hour, "")
	submit("c", 3*minute, 2, 3*hour, "")
	submit("d", 3*minute, 1, hour, "other")
	submit("e", minute, 1, hour, "other")
	overtaken := func(id string) float64 { return w.Overtaken(w.Jobs[id]) }
	for _, c := range []struct {
		start string
		a, b  float64
	}{{"same 1", 0, 0}, {"c 2", 6, 6}, {"d 1", 7, 7}, {"", 7, 7}} {
		if c.start != "" {
			w.event(w.Now+minute, "start "+c.start)
		}
		if a, b := overtaken("a"), overtaken("b"); a != c.a || b != c.b {
			t.Errorf("after the start of %q: %g and %g GPU-hours, want %g and %g", c.start, a, b, c.a, c.b)
		}
	}
	if e := overtaken("e"); e != 1 {
		t.Errorf("in its queue: %g GPU-hours, want 1", e)
	}
	w.event(w.Now, "start b 4")
	if a := overtaken("a"); a != 11 {
		t.Errorf("after the start of b: %g GPU-hours, want 11", a)
	}
	w.event(w.Now, "start a 8")
	w.event(w.Now, "end e")
	w.Hourly()
	if n := len(w.PoolOf(AllJobs).overtakers.started); n != 0 {
		t.Errorf("%d jobs are kept that overtook none", n)
	}
}

// TestCauses: why a job waits, by the state of its queue.
func TestCauses(t *testing.T) {
	quota := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 4}},
		VCs: []workload.VC{{Tenant: "q", GPUs: 4}}}
	for _, c := range []struct {
		name   string
		on     workload.Cluster
		before []string
		job    string
		want   int
	}{
		{"it fits", quota, nil, "a 8", WaitCannotTell},
		{"no GPU is free", quota, []string{"start x 8 0:4 1:4"}, "a 1", waitCapacity},
		{"one too few", quota, []string{"start x 1 0:1"}, "a 8", waitCapacity},
		{"within its quota", quota, []string{"start q1 3 0:3"}, "q 1", WaitCannotTell},
		{"beyond its quota", quota, []string{"start q1 3 0:3"}, "q 2", waitQuota},
		{"free, but not on one node", quota, []string{"start x 2 0:2", "start y 2 1:2"}, "a 4", waitFragmentation},
		{"free on one node", quota, []string{"start x 2 0:2", "start y 2 0:2"}, "a 4", WaitCannotTell},
		{"it is not known where", quota, []string{"start x 2", "start y 2 1:2"}, "a 4", WaitCannotTell},
		{"a job ahead that does not fit", quota, []string{"submit w 16"}, "a 1", waitHeadOfLine},
		{"the cluster is not known", workload.Cluster{}, nil, "a 1", WaitCannotTell},
	} {
		w := newWorld(t, Config{Cluster: c.on})
		for _, e := range c.before {
			w.event(0, e)
		}
		w.Now = minute // what started before this tick is no cause
		w.SampleQueues()
		w.event(minute, "submit "+c.job)
		w.Now = 2 * minute
		w.SampleQueues()
		w.event(2*minute, "start "+c.job)
		var got [Causes]time.Duration
		got[c.want] = minute
		if j := w.Jobs[c.job[:1]]; j.Waits != got {
			t.Errorf("%s: waited %v, want a minute of %d", c.name, j.Waits, c.want)
		}
	}
}

// TestPriority: jobs that started in the minute took the GPUs that a job waits for.
func TestPriority(t *testing.T) {
	for _, c := range []struct {
		started int
		want    int
	}{{4, waitPriority}, {3, waitCapacity}} {
		w := newWorld(t, Config{Cluster: workload.Uniform(1, 4)})
		if c.started < 4 {
			w.event(0, "start x 1 0:1")
		}
		w.Now = minute
		w.SampleQueues()
		w.event(minute, "submit a 4")
		w.event(minute, "start y "+strconv.Itoa(c.started)+" 0:"+strconv.Itoa(c.started))
		w.Now = 2 * minute
		w.SampleQueues()
		w.event(2*minute, "end a")
		if p := w.PoolOf(AllJobs); p.waiting[need{"a", 4}][c.want] != minute {
			t.Errorf("%d GPUs were taken: waits %v, want %d", c.started, *p.waiting[need{"a", 4}], c.want)
		}
	}
}

// TestFits: requests wider than a node need nodes with an equal share each.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		held []int // of four nodes of 4 GPUs
		size int
		most int
		want int
	}{
		{[]int{0, 0, 0, 0}, 4, 9, 4}, {[]int{0, 0, 0, 0}, 4, 2, 2}, {[]int{1, 1, 1, 1}, 4, 9, 0},
		{[]int{1, 1, 1, 0}, 4, 9, 1}, {[]int{3, 3, 2, 4}, 1, 9, 4}, {[]int{2, 2, 4, 4}, 2, 9, 2},
		{[]int{0, 0, 4, 4}, 8, 9, 1}, {[]int{0, 1, 1, 4}, 8, 9, 0}, {[]int{1, 1, 4, 4}, 6, 9, 1},
		{[]int{0, 0, 0, 0}, 16, 9, 1}, {[]int{0, 0, 0, 0}, 17, 9, 0}, {[]int{0, 0, 0, 0}, 0, 9, 0},
	} {
		w := newWorld(t, Config{Cluster: workload.Uniform(4, 4)})
		for i, held := range c.held {
			w.nodes[strconv.Itoa(i)].held = held
		}
		if got := w.PoolOf(AllJobs).fits(c.size, c.most); got != c.want {
			t.Errorf("%v held: %d requests of %d GPUs fit, want %d", c.held, got, c.size, c.want)
		}
	}
	if got := (&Pool{}).fits(1, 1); got != 0 {
		t.Errorf("%d fit without nodes", got)
	}
}

// TestBlocked: fragmentation is 1 where GPUs are free for the smallest pending request and none can be placed.
func TestBlocked(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []string
		want   string
	}{
		{"nothing waits", nil, "0"},
		{"nothing is free", []string{"start x 8 0:4 1:4", "submit a 1"}, "0"},
		{"two halves", []string{"start x 2 0:2", "start y 2 1:2", "submit a 4"}, "1"},
		{"too few for the smallest", []string{"start x 3 0:3", "start y 3 1:3", "submit a 4"}, "0"},
		{"a smaller one fits", []string{"start x 2 0:2", "start y 2 1:2", "submit a 4", "submit b 2"}, "0"},
		{"on an unknown node", []string{"start x 2 0:2", "start y 2", "submit a 4"}, "NaN"},
	} {
		w := newWorld(t, Config{Cluster: workload.Uniform(2, 4)})
		w.Keep("partition", PartitionBlocked, hour)
		for _, e := range c.events {
			w.event(0, e)
		}
		w.SampleQueues()
		if got := fmt.Sprint(last(&w.PoolOf(AllJobs).Part, PartitionBlocked, 0)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestQueueSeries: queues have their free share and pending GPUs, tenants their use, and whether others wait.
func TestQueueSeries(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 8}},
		VCs: []workload.VC{{Tenant: "a", GPUs: 4}, {Tenant: "b"}}}})
	for kind, x := range w.Series {
		for i := range x.Slots {
			w.Keep(kind, i, hour)
		}
	}
	all, a := w.PoolOf(AllJobs), w.Tenants["a"]
	check := func(name string, got, want float64) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %g, want %g", name, got, want)
		}
	}
	w.event(0, "start a1 3 0:3")
	w.event(0, "submit a2 2")
	w.SampleQueues()
	check("use", last(&a.Subject, TenantUse, 0), .75)
	check("its own job waits", last(&a.Subject, TenantOthersWaiting, 0), 0)
	check("free", last(&all.Subject, QueueFree, 0), .625)
	check("free GPUs", last(&all.Part, PartitionFree, 0), 5)
	check("pending", last(&all.Subject, QueuePending, 0), 2)
	check("served", all.Flow.Served, 3./60)
	w.event(15*minute, "submit c1 1")
	w.SampleQueues()
	check("another's job waits", last(&a.Subject, TenantOthersWaiting, 15*minute), 1)
	if b := w.Tenants["b"]; b.Rings != nil {
		t.Error("a tenant without a quota has a use")
	}
	for _, c := range []struct {
		now  time.Duration
		want string
	}{{15 * minute, "[15m0s 0s]"}, {20 * minute, "[20m0s 5m0s]"}} {
		w.Now = c.now
		if got := fmt.Sprint(w.WaitedSoFar(all)); got != c.want {
			t.Errorf("waited so far %s, want %s", got, c.want)
		}
	}
}

// TestFlow: the work that arrives in a queue, as far as it is known.
func TestFlow(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Uniform(1, 8)})
	all := w.PoolOf(AllJobs)
	w.event(0, "submit a 2")
	if f := all.Flow; !f.Unknown || f.Arrived != 0 {
		t.Errorf("the first job: %+v", f)
	}
	all.Flow = Flow{}
	w.event(0, "start a 2 0:2")
	w.event(2*hour, "end a")
	w.event(2*hour, "submit b 3")
	w.event(2*hour, "submit a9 1") // of the key of a
	if f := all.Flow; f.Unknown || f.Arrived != 8 || f.Guessed != 6 || len(f.Waits) != 1 || f.Waits[0] != 0 {
		t.Errorf("later ones: %+v", f)
	}
	w.QueueSample(&telemetry.QueueSample{}, w.Now)
	w.event(3*hour, "start b 3 0:3")
	if f := all.Flow; len(f.Waits) != 2 || f.Waits[1] != hour {
		t.Errorf("waits %v", f.Waits)
	}
	w.event(4*hour, "stop b")
	w.event(5*hour, "resume b 3 0:3")
	if f := all.Flow; len(f.Waits) != 2 {
		t.Errorf("a resumption counts as a wait: %v", f.Waits)
	}
}
