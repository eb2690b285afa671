package aggregate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
	"pgregory.net/rapid"
)

// anyJobs draws jobs that come in sweeps: often alike, seldom the same.
func anyJobs(t *rapid.T, widest int) []workload.Job {
	var jobs []workload.Job
	at := time.Duration(0)
	for range rapid.IntRange(1, 12).Draw(t, "sweeps") {
		at += time.Duration(rapid.IntRange(0, 7200).Draw(t, "gap")) * time.Second
		length := rapid.IntRange(1, 50_000).Draw(t, "length")
		gpus := rapid.SampledFrom([]workload.MilliGPU{1000, 1000, 1000, 2000, 4000, 500, workload.GPUs(widest)}).Draw(t, "gpus")
		for range rapid.IntRange(1, 9).Draw(t, "jobs") {
			j := workload.Job{ID: fmt.Sprintf("j%d", len(jobs)), Tenant: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"),
				Submit: at + time.Duration(rapid.IntRange(0, 300).Draw(t, "after"))*time.Second, GPUs: gpus,
				Duration: time.Duration(rapid.IntRange(length, 2*length).Draw(t, "duration"))*time.Second +
					time.Duration(len(jobs))}
			if rapid.IntRange(0, 20).Draw(t, "deadline") == 0 {
				j.Deadline = j.Submit + 2*j.Duration
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func gpuTime(jobs []workload.Job) (sum time.Duration) {
	for i := range jobs {
		sum += time.Duration(jobs[i].GPUs) * (jobs[i].Duration / 1000)
		sum += time.Duration(jobs[i].GPUs) * (jobs[i].Duration % 1000) / 1000
	}
	return sum
}

func TestAggregateKeepsWhatCounts(t *testing.T) {
	shrunk := false
	rapid.Check(t, func(t *rapid.T) {
		c := workload.Uniform(rapid.SampledFrom([]int{1, 4, 60}).Draw(t, "nodes"), 8)
		w, err := workload.New("any", time.Time{}, anyJobs(t, 16))
		if err != nil {
			t.Fatal(err)
		}
		size := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "size")
		before := slices.Clone(w.Jobs())
		out := Group(c, w, size)
		if !reflect.DeepEqual(before, w.Jobs()) {
			t.Fatal("the workload was changed")
		}
		if _, err := workload.New("again", time.Time{}, slices.Clone(out.Jobs())); err != nil {
			t.Fatal(err)
		}
		if Group(c, w, size).Digest() != out.Digest() {
			t.Fatal("another result")
		}
		members, submit, was := 0, time.Duration(0), time.Duration(0)
		for i := range out.Jobs() {
			j := &out.Jobs()[i]
			members += j.Size()
			submit += j.Submit * time.Duration(j.Size())
			if i > 0 && j.Submit < out.Jobs()[i-1].Submit {
				t.Fatal("not in order of submission")
			}
			if j.Size() > 1 && (j.GPUs.Whole() > size || j.GPUs.Whole()*clusterShare > c.TotalGPUs() ||
				j.Deadline != 0) {
				t.Fatalf("group %+v", *j)
			}
		}
		for i := range before {
			was += before[i].Submit
		}
		if members != len(before) {
			t.Fatalf("%d members of %d jobs", members, len(before))
		}
		if d := submit - was; d > 0 || d < -time.Duration(8*len(before)) {
			t.Fatalf("mean submission moved by %v", d)
		}
		// To the nanosecond: less than one per member of a group and width.
		if d := gpuTime(before) - gpuTime(out.Jobs()); d < -100 || d > 100 {
			t.Fatalf("GPU-time changed by %v", d)
		}
		shrunk = shrunk || out.Len() < len(before)
	})
	if !shrunk {
		t.Error("nothing was ever grouped")
	}
}

func TestAggregateGroupsTheSimilar(t *testing.T) {
	c := workload.Uniform(10, 8)
	job := func(id string, submit, seconds, gpus int) workload.Job {
		return workload.Job{ID: id, Submit: time.Duration(submit) * time.Second,
			Duration: time.Duration(seconds) * time.Second, GPUs: workload.GPUs(gpus)}
	}
	w, err := workload.New("w", time.Time{}, []workload.Job{
		job("a", 0, 1000, 1), job("b", 10, 1100, 1), job("c", 20, 1060, 1), // alike
		job("d", 30, 9000, 1),   // longer
		job("e", 40, 1000, 2),   // wider
		job("f", 5000, 1000, 1), // later
		// one too many
		job("g", 5001, 1000, 1), job("h", 5002, 1000, 1), job("i", 5003, 1000, 1), job("j", 5004, 1000, 1),
		job("k", 5005, 1000, 8), job("l", 5006, 1000, 8), // wide
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range Group(c, w, 4).Jobs() {
		got = append(got, fmt.Sprintf("%s:%dx%d@%v+%v",
			j.ID, j.Size(), j.GPUs.Whole()/j.Size(), j.Submit, j.Duration.Round(time.Millisecond)))
	}
	want := []string{"a:3x1@10s+17m33.333s", "d:1x1@30s+2h30m0s", "e:1x2@40s+16m40s", "f:4x1@1h23m21.5s+16m40s",
		"j:1x1@1h23m24s+16m40s", "k:1x8@1h23m25s+16m40s", "l:1x8@1h23m26s+16m40s"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if Group(c, w, 1) != w || Group(c, w, 0) != w {
		t.Error("size 1 groups something")
	}
	c.VCs = []workload.VC{{Tenant: "", GPUs: 16}} // an eighth of it is 2
	if n := Group(c, w, 4).Jobs()[0].Size(); n != 2 {
		t.Errorf("%d members beside a quota of 16", n)
	}
}

func TestGroupState(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := &workload.State{At: 100_000 * time.Second, Cluster: workload.Uniform(60, 8)}
	var left []time.Duration
	free := 0
	for i := range 400 {
		a := workload.ActiveJob{Job: workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(i*200) * time.Second,
			GPUs: workload.GPUs(1 + r.IntN(2))}, Since: time.Duration(i*210) * time.Second,
			WaitTime: time.Duration(i) * time.Second}
		if r.IntN(2) == 0 && free+a.GPUs.Whole() <= 480 {
			a.Running, a.Held, a.Starts = true, a.GPUs.Whole(), 1
			a.Placement = []workload.NodeGPUs{{Node: free / 8, GPUs: a.Held}}
			free += 2
		}
		if r.IntN(2) == 0 {
			a.Attained, a.HasLevel = time.Duration(r.IntN(100_000))*time.Second, true
			a.LevelAttained = a.Attained / 2
		}
		s.Jobs = append(s.Jobs, a)
		left = append(left, time.Duration(1+r.IntN(20_000))*time.Second)
	}
	sum := func(s *workload.State, left []time.Duration) (v [7]time.Duration, nodes map[int]int) {
		nodes = map[int]int{}
		for i := range s.Jobs {
			a := &s.Jobs[i]
			n := time.Duration(a.Size())
			v[0] += n
			v[1] += a.Attained
			v[2] += a.LevelAttained
			v[3] += left[i] * time.Duration(a.GPUs.Whole())
			v[4] += time.Duration(a.Held)
			v[5] += n * a.WaitTime / time.Microsecond
			v[6] += n * (a.Submit + a.Since) / time.Microsecond
			if a.Running != (a.Held > 0) {
				t.Errorf("%s runs on %d GPUs", a.ID, a.Held)
			}
			for _, p := range a.Placement {
				nodes[p.Node] += p.GPUs
			}
		}
		return v, nodes
	}
	out, times := GroupState(s, left, 4)
	if len(out.Jobs) > 320 || len(times) != len(out.Jobs) {
		t.Fatalf("%d groups of %d jobs", len(out.Jobs), len(s.Jobs))
	}
	before, nodes := sum(s, left)
	after, same := sum(out, times)
	for i := range before {
		if d := before[i] - after[i]; d < -8 || d > 8 {
			t.Errorf("sum %d changed from %v to %v", i, before[i], after[i])
		}
	}
	if !reflect.DeepEqual(nodes, same) {
		t.Error("GPUs moved between nodes")
	}
	if !slices.IsSortedFunc(out.Jobs, func(a, b workload.ActiveJob) int { return cmp.Compare(a.Submit, b.Submit) }) {
		t.Error("not in order of submission")
	}
	if again, _ := GroupState(s, left, 1); again != s {
		t.Error("size 1 groups something")
	}
}

func BenchmarkAggregate(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000, 100_000} {
		r := rand.New(rand.NewPCG(1, 2))
		var jobs []workload.Job
		for i := range n {
			jobs = append(jobs, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(i*20) * time.Second,
				GPUs: workload.GPUs(1 << r.IntN(3)), Duration: time.Duration(r.ExpFloat64()*3600)*time.Second + 1})
		}
		w, err := workload.New("w", time.Time{}, jobs)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Group(workload.Uniform(60, 8), w, DefaultGroup)
			}
		})
	}
}
