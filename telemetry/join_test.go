package telemetry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// joiner joins samples to jobs written as "id nodes gpus from-to" in minutes; to is running or the end.
func joiner(t *testing.T, c workload.Cluster, jobs ...string) *Joiner {
	t.Helper()
	var list []workload.Job
	for _, text := range jobs {
		var id, nodes, to string
		var gpus, from, end int
		if _, err := fmt.Sscanf(text, "%s %s %d %d-%s", &id, &nodes, &gpus, &from, &to); err != nil {
			t.Fatal(text, err)
		}
		j := workload.Job{ID: id, Nodes: nodes, GPUs: workload.GPUs(gpus), HasWait: true, Status: workload.Completed,
			Submit: time.Duration(from) * time.Minute}
		if to == "running" {
			j.Status, j.Duration = workload.Running, time.Minute
		} else {
			fmt.Sscan(to, &end)
			j.Duration = time.Duration(end-from) * time.Minute
		}
		list = append(list, j)
	}
	w, err := workload.New("trace", time.Unix(1000, 0), list)
	if err != nil {
		t.Fatal(err)
	}
	return NewJoiner(w, c)
}

// sampleAt is a sample of a GPU at a minute of the trace.
func sampleAt(node string, index int, minute float64, job string) *GPUSample {
	return &GPUSample{GPU: GPU{Node: node, Index: index, Instance: -1}, Job: job,
		Time: 1000*time.Second + time.Duration(minute*float64(time.Minute))}
}

// TestJoinSamples: a sample is of the job that it names, or of the one that holds all GPUs of its node then.
func TestJoinSamples(t *testing.T) {
	for _, c := range []struct {
		name   string
		jobs   []string
		sample *GPUSample
		job    string
		how    Joined
	}{
		{"named", []string{"a n1 4 0-10"}, sampleAt("n1", 0, 5, "a"), "a", ByName},
		{"named on another node", []string{"a n1 4 0-10"}, sampleAt("x", 0, 99, "a"), "a", ByName},
		{"named, unknown", []string{"a n1 4 0-10"}, sampleAt("n1", 0, 5, "b"), "", OtherJob},
		{"the whole node", []string{"a n1 4 0-10"}, sampleAt("n1", 3, 5, ""), "a", ByPlacement},
		{"at its start", []string{"a n1 4 2-10"}, sampleAt("n1", 0, 2, ""), "a", ByPlacement},
		{"before its start", []string{"a n1 4 2-10"}, sampleAt("n1", 0, 1.99, ""), "", IdleNode},
		{"before its end", []string{"a n1 4 2-10"}, sampleAt("n1", 0, 9.99, ""), "a", ByPlacement},
		{"at its end", []string{"a n1 4 2-10"}, sampleAt("n1", 0, 10, ""), "", IdleNode},
		{"it still runs", []string{"a n1 4 2-running"}, sampleAt("n1", 0, 1e6, ""), "a", ByPlacement},
		{"part of the node", []string{"a n1 3 0-10"}, sampleAt("n1", 0, 5, ""), "", SharedNode},
		{"two jobs", []string{"a n1 4 0-10", "b n1 4 4-6"}, sampleAt("n1", 0, 5, ""), "", SharedNode},
		{"after the second", []string{"a n1 4 0-10", "b n1 4 4-6"}, sampleAt("n1", 0, 7, ""), "a", ByPlacement},
		{"one after the other", []string{"a n1 4 0-5", "b n1 4 5-9"}, sampleAt("n1", 0, 5, ""), "b", ByPlacement},
		{"several nodes", []string{"a n[1-2] 8 0-10"}, sampleAt("n2", 0, 5, ""), "a", ByPlacement},
		{"several nodes in part", []string{"a n[1-2] 4 0-10"}, sampleAt("n2", 0, 5, ""), "", SharedNode},
		{"another node", []string{"a n1 4 0-10"}, sampleAt("n3", 0, 5, ""), "", OtherNode},
		{"an instance", []string{"a n1 4 0-10"}, &GPUSample{GPU: GPU{Node: "n1", Instance: 2},
			Time: 1100 * time.Second},
			"", SharedNode},
	} {
		j := joiner(t, workload.Uniform(2, 4), c.jobs...)
		if job, how := j.Join(c.sample); job != c.job || how != c.how {
			t.Errorf("%s: job %q, %d, want %q, %d", c.name, job, how, c.job, c.how)
		}
	}
}

// TestJoinUnknownSize: where the size of nodes is not known, the GPUs that samples show count.
func TestJoinUnknownSize(t *testing.T) {
	sizes := workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 1, GPUsPerNode: 2}, {Nodes: 1, GPUsPerNode: 8}}}
	for name, c := range map[string]workload.Cluster{"no cluster": {}, "two sizes": sizes} {
		j := joiner(t, c, "a n1 2 0-10")
		for i, want := range []Joined{ByOnlyJob, ByOnlyJob, SharedNode} { // the third GPU is not the job's
			if _, how := j.Join(sampleAt("n1", i, 5, "")); how != want {
				t.Errorf("%s, GPU %d: %d, want %d", name, i, how, want)
			}
		}
	}
}

// TestJoinNodeNames: short and full names of a node match, two full ones only where they are equal.
func TestJoinNodeNames(t *testing.T) {
	for _, c := range []struct{ trace, sample, want string }{
		{"n1", "n1.example.org", "n1"}, {"n1.example.org", "n1", "n1.example.org"}, {"n1", "N1", "n1"},
		{"N1.Example.org", "n1.example.ORG", "N1.Example.org"}, {"n1.a.org", "n1.b.org", ""}, {"n1", "n11", ""},
		{"10.0.0.1", "10", ""}, {"10.0.0.1", "10.0.0.1", "10.0.0.1"}, {"10.0.0.1", "10.0.0.2", ""},
	} {
		j := joiner(t, workload.Uniform(1, 4), "a "+c.trace+" 4 0-10")
		s := sampleAt(c.sample, 0, 5, "")
		job, _ := j.Join(s)
		if c.want == "" && job != "" || c.want != "" && (job != "a" || s.Node != c.want) {
			t.Errorf("%s in the trace, %s in a sample: job %q on %s, want it on %q", c.trace, c.sample, job, s.Node,
				c.want)
		}
	}
	j := joiner(t, workload.Uniform(2, 4), "a n1.a.org 4 0-10", "b n1.b.org 4 0-10")
	if job, how := j.Join(sampleAt("n1", 0, 5, "")); job != "" || how != OtherNode {
		t.Errorf("a short name of two nodes: job %q", job)
	}
}

// TestJoinAgainstScan: a join equals one that looks at every job.
func TestJoinAgainstScan(t *testing.T) {
	x := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		var jobs []string
		type run struct {
			id       string
			node     int
			from, to int
		}
		var runs []run
		for i := range 12 {
			from := x.IntN(60)
			r := run{fmt.Sprint("j", i), x.IntN(3), from, from + 1 + x.IntN(20)}
			runs = append(runs, r)
			jobs = append(jobs, fmt.Sprintf("%s n%d 4 %d-%d", r.id, r.node, r.from, r.to))
		}
		j := joiner(t, workload.Uniform(3, 4), jobs...)
		for range 100 {
			node, at := x.IntN(3), x.IntN(90)
			var on []string
			any := false
			for _, r := range runs {
				any = any || r.node == node
				if r.node == node && r.from <= at && at < r.to {
					on = append(on, r.id)
				}
			}
			want, why := "", SharedNode
			switch {
			case !any:
				why = OtherNode
			case len(on) == 0:
				why = IdleNode
			case len(on) == 1:
				want, why = on[0], ByPlacement
			}
			if job, how := j.Join(sampleAt(fmt.Sprint("n", node), 0, float64(at), "")); job != want || how != why {
				t.Fatalf("n%d at %d: job %q (%d), want %q (%d); jobs %q", node, at, job, how, want, why, jobs)
			}
		}
	}
}

// TestJoinReport: the report counts by how and why, and it is an error if nothing is of the trace.
func TestJoinReport(t *testing.T) {
	j := joiner(t, workload.Uniform(1, 4), "a n1 4 0-10")
	if err := j.Nothing(); err != nil {
		t.Errorf("without samples: %v", err)
	}
	for _, s := range []*GPUSample{sampleAt("m2", 0, 5, ""), sampleAt("m1", 0, 5, ""), sampleAt("n1", 0, 5, "other")} {
		j.Join(s)
	}
	err := j.Nothing()
	if !errors.Is(err, ErrNothing) || !strings.HasSuffix(err.Error(),
		`none of 3 samples is of a job or a node of the trace, such as "m1"; jobs ran on nodes such as "n1"`) {
		t.Errorf("samples of nothing: %v", err)
	}
	for range 2 {
		j.Join(sampleAt("n1", 0, 5, ""))
	}
	j.Join(sampleAt("n1", 0, 50, ""))
	j.Join(sampleAt("n1", 0, 5, "a"))
	if err := j.Nothing(); err != nil {
		t.Errorf("with joined samples: %v", err)
	}
	r := j.Report()
	if r.Samples != 7 || r.Joined != 3 || len(r.Not) != 3 ||
		fmt.Sprint(r.By) != "map[by placement:2 named by the sample:1]" {
		t.Errorf("%+v", r)
	}
	text := strings.Join(r.Lines, "\n") + "\n" + strings.Join(r.Left, "\n")
	for _, want := range []string{"2 of 7 samples of GPUs are joined to jobs: by placement",
		"2 of 7 samples of GPUs are joined to no job: they are of nodes that no job of the trace ran on",
		"1 of 7 samples of GPUs are joined to no job: they are of a time when no job ran on the node"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}
