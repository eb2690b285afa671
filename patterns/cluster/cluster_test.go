package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

const minute, hour = time.Minute, time.Hour

// world is a state with the facts that it reported.
type world struct {
	*State
	t     *testing.T
	facts []string
	rows  []*Row
	ended []string
}

func newWorld(t *testing.T, c Config) *world {
	w := &world{t: t}
	c.OnFact = func(f *Fact) { w.facts = append(w.facts, strings.TrimSpace(f.Name+" "+f.Group("job"))) }
	c.OnRow = func(_ *Job, r *Row) { w.rows = append(w.rows, r) }
	c.OnJobLeft = func(*Job, time.Duration) {}
	c.OnGPULeft = func(*GPU) {}
	c.OnJobEnded = func(j *Job) { w.ended = append(w.ended, j.Name) }
	if c.Period == 0 {
		c.Period, c.Late = 15*time.Second, 30*time.Second
	}
	if c.Cap == 0 {
		c.Cap = 1000
	}
	w.State = New(c)
	return w
}

// event sends an event of a job, written as "kind job gpus node:gpus ...", at an instant.
func (w *world) event(at time.Duration, text string) {
	w.t.Helper()
	f := strings.Fields(text)
	kinds := map[string]workload.EventKind{"submit": workload.Submitted, "start": workload.Started,
		"stop": workload.Preempted, "resume": workload.Resumed, "resize": workload.Resized, "end": workload.Finished,
		"up": workload.NodeUp, "down": workload.NodeDown}
	e := &workload.Event{ID: text, Kind: kinds[f[0]], Time: at}
	gpus := 0
	if len(f) > 2 {
		gpus, _ = strconv.Atoi(f[2])
	}
	if e.Kind.OfNode() {
		e.Node, e.NodeGPUs = f[1], gpus
	} else {
		id, queue, _ := strings.Cut(f[1], "@")
		e.Job = workload.Job{ID: id, Tenant: id[:1], User: id[:1], Key: "k" + id[:1], GPUs: workload.GPUs(gpus),
			Status: workload.Completed, Requested: workload.Request{Partition: queue}.Shared()}
	}
	for _, x := range f[min(3, len(f)):] {
		node, n, _ := strings.Cut(x, ":")
		held, _ := strconv.Atoi(n)
		e.Placement = append(e.Placement, workload.NodeShare{Node: node, GPUs: held})
	}
	w.Now = max(w.Now, at)
	w.Event(e, at)
}

// TestPool: pending, held and free GPUs of all jobs after each event of a job's life.
func TestPool(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Uniform(2, 4)})
	for i, c := range []struct {
		event                        string
		wanted, held, free, unplaced int
	}{
		{"submit a 2", 2, 0, 8, 0},
		{"submit a 2", 2, 0, 8, 0}, // again
		{"submit b 6", 8, 0, 8, 0},
		{"start a 2 0:2", 6, 2, 6, 0},
		{"start a 2 1:2", 6, 2, 6, 0}, // again: it runs
		{"start b 6", 0, 8, 0, 1},
		{"stop b", 6, 2, 6, 0},
		{"stop b", 6, 2, 6, 0},
		{"resize b 4", 4, 2, 6, 0}, // while it waits
		{"resume b 4 0:2 1:2", 0, 6, 2, 0},
		{"resize b 2 1:2", 0, 4, 4, 0},
		{"resize b 0", 0, 4, 4, 0}, // nothing is no size
		{"down 1", 0, 4, 0, 0},
		{"down 1", 0, 4, 0, 0},
		{"up 1 8", 0, 4, 8, 0},
		{"up 1 4", 0, 4, 8, 0}, // a node keeps its largest size
		{"end a", 0, 2, 10, 0},
		{"end a", 0, 2, 10, 0},
		{"end unknown", 0, 2, 10, 0},
		{"start c 3 0:3", 0, 5, 7, 0}, // never submitted
		{"end b", 0, 3, 9, 0},
		{"end c", 0, 0, 12, 0},
	} {
		w.event(time.Duration(i)*minute, c.event)
		p := w.PoolOf(AllJobs)
		if free, known := p.Free(); p.PendingGPUs() != c.wanted || p.held != c.held || free != c.free || !known ||
			p.Unplaced != c.unplaced {
			t.Errorf("after %q: %d pending, %d held, %d free, %d unplaced, want %+v", c.event, p.wanted, p.held, free,
				p.Unplaced, c)
		}
	}
	want := "job.submitted a,job.submitted b,job.started a,job.started b,job.preempted b,job.resized b,job.resumed b," +
		"job.resized b,node.down,node.down,node.up,node.up,job.ended a,job.started c,job.ended b,job.ended c"
	if got := strings.Join(w.facts, ","); got != want {
		t.Errorf("facts %s\nwant %s", got, want)
	}
	if got := strings.Join(w.ended, ""); got != "abc" || len(w.Jobs) != 0 {
		t.Errorf("ended %s, %d jobs are left", got, len(w.Jobs))
	}
}

// TestQueues: a job counts in its queue and in that of all; a node counts in each of its partitions.
func TestQueues(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Cluster{Groups: []workload.NodeGroup{
		{Nodes: 1, GPUsPerNode: 4, Partition: "a,shared"}, {Nodes: 2, GPUsPerNode: 8, Partition: "b"}}}})
	w.event(0, "submit x@a 3")
	w.event(0, "submit y@b 8")
	w.event(0, "submit z@elsewhere 1")
	w.event(minute, "start y 8 1:8")
	for _, c := range []struct {
		queue                 string
		total, free, capacity int
		known                 bool
		pending               int
	}{
		{AllJobs, 20, 12, 20, true, 4},
		{"a", 4, 4, 4, true, 3},
		{"shared", 4, 4, 4, true, 0},
		{"b", 16, 8, 16, true, 0},
		{"elsewhere", 0, 0, 0, false, 1},
	} {
		p := w.PoolOf(c.queue)
		if free, known := p.Free(); p.Total != c.total || free != c.free || known != c.known ||
			p.Capacity() != c.capacity || p.PendingGPUs() != c.pending {
			t.Errorf("%s: %d GPUs, %d free (%t), capacity %d, %d pending, want %+v", c.queue, p.Total, free, known,
				p.Capacity(), p.PendingGPUs(), c)
		}
	}
	if !w.Split() {
		t.Error("jobs are in queues of known size")
	}
	for pair, want := range map[string]bool{"a shared": true, "shared a": true, "a b": false, "b b": true,
		"a all": true, "elsewhere a": true, "unknown b": true} {
		a, b, _ := strings.Cut(pair, " ")
		if got := w.Share(a, b); got != want {
			t.Errorf("%s and %s share nodes: %t, want %t", a, b, got, want)
		}
	}
	names := []string{}
	for _, p := range w.Pools {
		names = append(names, p.Name)
	}
	if got := strings.Join(names, " "); got != "a all b elsewhere shared" {
		t.Errorf("pools %s", got)
	}
}

// TestQueueSample: the sample of a queue replaces the numbers of events for two minutes and the lateness.
func TestQueueSample(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Uniform(1, 8)})
	w.QueueSample(&telemetry.QueueSample{PendingGPUs: 5, FreeGPUs: 2, TotalGPUs: 16}, 0)
	p := w.PoolOf(AllJobs)
	for _, c := range []struct {
		now      time.Duration
		free     int
		capacity int
		pending  int
	}{{minute, 2, 16, 5}, {150 * time.Second, 2, 16, 5}, {151 * time.Second, 8, 8, 0}} {
		w.Now = c.now
		w.SampleQueues()
		if free, _ := p.Free(); free != c.free || p.Capacity() != c.capacity || p.PendingGPUs() != c.pending {
			t.Errorf("after %v: %d of %d free, %d pending, want %+v", c.now, free, p.Capacity(), p.PendingGPUs(), c)
		}
	}
	w.QueueSample(&telemetry.QueueSample{Queue: "q", FreeGPUs: 1}, w.Now)
	if q := w.PoolOf("q"); q.Capacity() != 0 || !q.EverSample {
		t.Errorf("a sample without a total: capacity %d", q.Capacity())
	}
}

// TestNodeNames: records name the nodes that the cluster describes: its capacity stays.
func TestNodeNames(t *testing.T) {
	equal := []workload.NodeGroup{{Nodes: 3, GPUsPerNode: 4}}
	sizes := []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 4}, {Nodes: 1, GPUsPerNode: 8}}
	for _, c := range []struct {
		name   string
		groups []workload.NodeGroup
		events []string
		total  int
		names  string // of nodes that are up
	}{
		{"up again", equal, []string{"up a 4", "up a 4"}, 12, "1 2 a"},
		{"by number", equal, []string{"up 0 4", "start x 1 a:1", "start y 1 1:1"}, 12, "0 1 a"},
		{"placed", equal, []string{"start x 1 a:1", "start y 1 b:1", "start z 1 a:1"}, 12, "2 a b"},
		{"down", equal, []string{"down a"}, 8, "1 2"},
		{"more than there were", equal, []string{"up a 4", "up b 4", "up c 4", "up d 4"}, 16, "a b c d"},
		{"sizes", sizes, []string{"up b 8", "up a 4"}, 12, "a b"},
		{"which of two sizes", sizes, []string{"start x 1 b:1"}, 12, "0 1"},
		{"all there are", equal, []string{"snapshot"}, 4, "a"},
	} {
		w := newWorld(t, Config{Cluster: workload.Cluster{Groups: c.groups}})
		for i, e := range c.events {
			if e == "snapshot" {
				w.Event(&workload.Event{Kind: workload.TakenSnapshot,
					Active: []workload.Event{{Kind: workload.NodeUp, Node: "a", NodeGPUs: 4}}}, 0)
				continue
			}
			w.event(time.Duration(i)*minute, e)
		}
		var up []string
		for name, n := range w.nodes {
			if n.up {
				up = append(up, name)
			}
			if name != n.name {
				t.Errorf("%s: node %s is called %s", c.name, name, n.name)
			}
		}
		slices.Sort(up)
		if got := strings.Join(up, " "); got != c.names || w.PoolOf(AllJobs).Total != c.total {
			t.Errorf("%s: %d GPUs on %s, want %d on %s", c.name, w.PoolOf(AllJobs).Total, got, c.total, c.names)
		}
	}
}

// TestSnapshot: jobs that a snapshot lacks have ended, and so are nodes down, but inferred jobs stay.
func TestSnapshot(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Uniform(2, 4)})
	w.event(0, "submit a 1")
	w.event(0, "submit b 2")
	w.event(0, "start b 2 0:2")
	w.event(0, "submit c 4")
	w.infer("d", 0)
	active := []workload.Event{
		{Kind: workload.Submitted, Job: workload.Job{ID: "a", GPUs: workload.GPUs(1)}},
		{Kind: workload.Started, Job: workload.Job{ID: "e", GPUs: workload.GPUs(4), Submit: 30 * time.Second},
			Placement: []workload.NodeShare{{Node: "1", GPUs: 4}}},
		{Kind: workload.NodeUp, Node: "1", NodeGPUs: 4}}
	w.Now = minute
	w.Event(&workload.Event{Kind: workload.TakenSnapshot, Time: minute, Active: active}, minute)
	if got := slices.Sorted(maps.Keys(w.Jobs)); strings.Join(got, "") != "ade" {
		t.Errorf("jobs %v", got)
	}
	if got := strings.Join(w.ended, ""); got != "bc" {
		t.Errorf("ended %s", got)
	}
	if e := w.Jobs["e"]; !e.Running || e.Submit != 30*time.Second || e.Start != minute {
		t.Errorf("e: running %t, submitted at %v, started at %v", e.Running, e.Submit, e.Start)
	}
	if p := w.PoolOf(AllJobs); p.Total != 4 || p.held != 5 {
		t.Errorf("%d GPUs, %d held", p.Total, p.held)
	}
	before := len(w.Jobs)
	w.Event(&workload.Event{Kind: workload.TakenSnapshot, Time: minute}, minute)
	if len(w.Jobs) != before {
		t.Error("a snapshot of nothing ends jobs")
	}
}

// TestInferred: a job that only samples name has as many GPUs as it was seen on, and ends an hour after its samples.
func TestInferred(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Uniform(1, 4)})
	for g := range 3 {
		w.GPUSample(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "n", Index: g, Instance: -1}, Job: "j",
			Known: telemetry.Utilization}, minute)
	}
	j := w.Jobs["j"]
	if j == nil || j.GPUs != 3 || j.Share != 3 || len(j.Units) != 3 || w.PoolOf(AllJobs).held != 3 {
		t.Fatalf("job %+v, %d GPUs held", j, w.PoolOf(AllJobs).held)
	}
	w.Now = minute + hour
	w.Hourly()
	if w.Jobs["j"] == nil {
		t.Error("it ended an hour after its last sample")
	}
	w.Now++
	w.Hourly()
	if w.Jobs["j"] != nil || strings.Join(w.ended, "") != "j" || w.GPUs[0].Job != nil || w.PoolOf(AllJobs).held != 0 {
		t.Errorf("job %v, ended %v, GPU's job %v", w.Jobs["j"], w.ended, w.GPUs[0].Job)
	}
	// Its events come later: they count.
	w.infer("k", w.Now)
	w.event(w.Now, "submit k 4")
	if k := w.Jobs["k"]; k.Running || k.GPUs != 4 || w.PoolOf(AllJobs).PendingGPUs() != 4 {
		t.Errorf("k runs %t on %d GPUs", k.Running, k.GPUs)
	}
	w.event(w.Now, "start k 4")
	w.Now += 2 * hour
	w.Hourly()
	if w.Jobs["k"] == nil {
		t.Error("a job with events ended for lack of samples")
	}
}

// TestCaps: four times the cap of jobs, GPUs and workers.
func TestCaps(t *testing.T) {
	w := newWorld(t, Config{Cap: 1})
	for i := range 6 {
		w.event(0, "submit j"+strconv.Itoa(i)+" 1")
		w.GPUSample(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "n", Index: i, Instance: -1},
			Known: telemetry.Utilization}, 0)
		w.Iteration(&telemetry.Iteration{Job: "j0", Worker: i}, 0)
	}
	if len(w.Jobs) != 4 || len(w.GPUs) != 4 || len(w.Jobs["j0"].Workers) != 4 {
		t.Errorf("%d jobs, %d GPUs, %d workers", len(w.Jobs), len(w.GPUs), len(w.Jobs["j0"].Workers))
	}
	if got := fmt.Sprint(w.Dropped); got != "map[GPUs:2 jobs:2 workers:2]" {
		t.Errorf("dropped %s", got)
	}
}

// TestFactGroups: a fact has a value of each name to group by, empty if it has none.
func TestFactGroups(t *testing.T) {
	j := &Job{Subject: Subject{Name: "1"}, Tenant: "t", User: "u", Key: "k"}
	f := Fact{Job: j, Node: "n", GPU: "n:0", Config: "r"}
	for group, want := range map[string]string{"job": "1", "tenant": "t", "user": "u", "key": "k", "queue": AllJobs,
		"partition": AllJobs, "node": "n", "gpu": "n:0", "config_version": "r", "cluster": AllJobs, "worker": ""} {
		if got := f.Group(group); got != want {
			t.Errorf("%s: %q, want %q", group, got, want)
		}
	}
	j.Queue = "q"
	if got := f.Group("queue"); got != "q" {
		t.Errorf("queue %q", got)
	}
	if got := (&Fact{}).Group("tenant"); got != "" {
		t.Errorf("tenant without a job %q", got)
	}
}

// TestIdlePower: the longest name of a model that is part of the GPU's counts, else the default.
func TestIdlePower(t *testing.T) {
	w := newWorld(t, Config{Cluster: workload.Cluster{Groups: []workload.NodeGroup{
		{Nodes: 1, GPUsPerNode: 1, GPUModel: "NVIDIA H100 80GB HBM3"}, {Nodes: 1, GPUsPerNode: 1,
			GPUModel: "no model"}}}})
	h100, other := w.nodes["0"].idle, w.nodes["1"].idle
	if other != w.idle || h100 == other || h100 <= 0 || other <= 0 {
		t.Errorf("idle power %g W and %g W, by default %g W", h100, other, w.idle)
	}
}

// TestSums: after any events the sums of queues, nodes and tenants are those of the jobs.
func TestSums(t *testing.T) {
	for seed := range uint64(200) {
		x := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t, Config{Cluster: workload.Cluster{Groups: []workload.NodeGroup{
			{Nodes: 2, GPUsPerNode: 4, Partition: "a"}, {Nodes: 1, GPUsPerNode: 8, Partition: "b"}},
			VCs: []workload.VC{{Tenant: "x", GPUs: 4}, {Tenant: "y", GPUs: 8}}}})
		pick := func(of ...string) string { return of[x.IntN(len(of))] }
		for i := range 150 {
			kind := pick("submit", "submit", "start", "stop", "resume", "resize", "end")
			text := fmt.Sprintf("%s %s%d", kind, pick("x", "y", "z"), x.IntN(5))
			if kind == "submit" {
				text += pick("", "@a", "@b", "@c")
			}
			text += fmt.Sprint(" ", 1+x.IntN(6))
			if kind != "submit" {
				text += pick("", " 0:2 1:1", " 2:4", " n:1")
			}
			if x.IntN(20) == 0 {
				text = pick("up", "down") + " " + pick("0", "1", "2", "n") + pick(" 4", " 8")
			}
			w.event(time.Duration(i)*minute, text)
			if wrong := w.wrong(); wrong != "" {
				t.Fatalf("seed %d, after %q: %s", seed, text, wrong)
			}
		}
	}
}

// wrong compares the sums with the jobs, and returns the first difference.
func (w *world) wrong() string {
	type sums struct{ held, wanted, unplaced, total int }
	pools, nodes, tenants := map[string]*sums{}, map[string]int{}, map[string]*sums{}
	for _, p := range w.Pools {
		pools[p.Name] = &sums{}
	}
	for name := range w.Tenants {
		tenants[name] = &sums{}
	}
	for _, j := range w.Jobs {
		if j.Running != (slices.Contains(w.Running.List, j)) || w.Pending.Has(j) != slices.Contains(w.Pending.List,
			j) ||
			j.Running && w.Pending.Has(j) {
			return j.Name + " is in the wrong sets"
		}
		queues := []string{AllJobs}
		if j.Queue != "" {
			queues = append(queues, j.Queue)
		}
		for _, q := range queues {
			switch {
			case j.Running:
				pools[q].held += j.GPUs
				if len(j.placement) == 0 {
					pools[q].unplaced++
				}
			case w.Pending.Has(j):
				pools[q].wanted += j.GPUs
			}
		}
		for _, share := range j.placement {
			nodes[share.Node] += share.GPUs
		}
		if x := tenants[j.Tenant]; x != nil && j.Running {
			x.held += j.GPUs
		} else if x != nil && w.Pending.Has(j) {
			x.wanted++
		}
	}
	for name, n := range w.nodes {
		if n.held != nodes[name] {
			return fmt.Sprintf("node %s: %d held, %d by jobs", name, n.held, nodes[name])
		}
		if n.up {
			for _, p := range append([]string{AllJobs}, n.partitions...) {
				pools[p].total += n.gpus
			}
		}
	}
	for _, p := range w.Pools {
		pending := 0
		for n, c := range p.Pending {
			pending += c * n.GPUs
		}
		if got, want := (sums{p.held, p.wanted, p.Unplaced,
			p.Total}), *pools[p.Name]; got != want || pending != p.wanted {
			return fmt.Sprintf("queue %s: %+v, %d pending by kind, want %+v", p.Name, got, pending, want)
		}
	}
	for name, x := range w.Tenants {
		if x.Held != tenants[name].held || x.pending != tenants[name].wanted {
			return fmt.Sprintf("tenant %s: %d held, %d pending, want %+v", name, x.Held, x.pending, *tenants[name])
		}
	}
	return ""
}
