package inject

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

var update = flag.Bool("update", false, "write golden files")

// jobsOf draws a trace of two days of jobs, as wide and as long as shared clusters have them.
func jobsOf(t testing.TB) *workload.Workload {
	x := rng.Stream("inject test", 1)
	var jobs []workload.Job
	for i := range 500 {
		j := workload.Job{ID: fmt.Sprintf("j%03d", i), Tenant: fmt.Sprintf("vc%d", i%4), Key: fmt.Sprintf("k%d", i%40),
			Submit: span(x, 0, 47*time.Hour), Duration: span(x, 2*time.Minute, 14*time.Hour), GPUs: workload.GPUs(1)}
		if i%3 == 0 {
			j.GPUs = workload.GPUs([]int{2, 4, 8}[x.IntN(3)])
		}
		jobs = append(jobs, j)
	}
	w, err := workload.New("test", time.Unix(1_500_000_000, 0).UTC(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func options(t testing.TB) Options {
	return Options{Trace: jobsOf(t), To: 48 * time.Hour, Nodes: 12, Prevalence: .2, Seed: 5}
}

// sum is a digest of a whole stream.
func sum(t testing.TB, s *Stream) (string, map[string]int) {
	h := fnv.New64a()
	n := map[string]int{}
	last := time.Duration(-1)
	for r := range s.Records() {
		if r.At < last && !s.varied {
			t.Fatalf("a record of %v comes after one of %v", r.At, last)
		}
		last = r.At
		switch {
		case r.Event != nil:
			n["event"]++
			fmt.Fprintln(h, r.Event.Kind, r.Event.Time, r.Event.Job.ID, r.Event.Placement)
		case r.GPU != nil:
			n["gpu"]++
			g := r.GPU
			fmt.Fprintln(h, g.Node, g.Index, g.Time, g.Utilization, g.Power, g.Throttle, g.Job)
		case r.Queue != nil:
			n["queue"]++
			fmt.Fprintln(h, *r.Queue)
		case r.Iteration != nil:
			n["iteration"]++
			fmt.Fprintln(h, *r.Iteration)
		case r.Guardrail != nil:
			n["guardrail"]++
			fmt.Fprintln(h, *r.Guardrail)
		}
	}
	return fmt.Sprintf("%x", h.Sum64()), n
}

func TestSameSeedSameStream(t *testing.T) {
	for _, varied := range []bool{false, true} {
		o := options(t)
		o.To, o.Nodes, o.Varied = 8*time.Hour, 4, varied
		testSameSeed(t, o)
	}
}

// TestDisturbed: a varied stream loses, repeats and delays telemetry, by less than the watermark of a
// scan, and loses no event.
func TestDisturbed(t *testing.T) {
	o := options(t)
	o.To, o.Nodes, o.Varied = 8*time.Hour, 4, true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	type key struct {
		gpu telemetry.GPU
		at  time.Duration
	}
	sent, got, events := map[key]int{}, map[key]int{}, map[string]int{}
	for r := range s.ordered() {
		if r.GPU != nil {
			sent[key{r.GPU.GPU, r.GPU.Time}]++
		}
		if r.Event != nil {
			events[r.Event.ID]--
		}
	}
	newest, late, twice := time.Duration(0), 0, 0
	for r := range s.Records() {
		if r.At < newest {
			if r.GPU != nil {
				late++
			}
			if newest-r.At > mostLate {
				t.Fatalf("a record is late by %v", newest-r.At)
			}
		}
		newest = max(newest, r.At)
		if r.GPU != nil {
			k := key{r.GPU.GPU, r.GPU.Time}
			if got[k]++; got[k] == 2 {
				twice++
			}
		}
		if r.Event != nil {
			events[r.Event.ID] = 1
		}
	}
	n := float64(len(sent))
	for what, share := range map[string][2]float64{"lost": {1 - float64(len(got))/n, loses},
		"late": {float64(late) / n, delays}, "repeated": {float64(twice) / n, repeats}} {
		if share[0] < .7*share[1] || share[0] > 1.3*share[1] {
			t.Errorf("%s: %.3f, want about %.3f", what, share[0], share[1])
		}
	}
	for id, n := range events {
		if n != 1 {
			t.Errorf("event %s is lost", id)
		}
	}
}

func testSameSeed(t *testing.T, o Options) {
	make := func() *Stream {
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := make()
	one, n := sum(t, s)
	if again, _ := sum(t, s); again != one {
		t.Error("reading a stream twice gives other records")
	}
	if other, _ := sum(t, make()); other != one {
		t.Error("the same seed gives other records")
	}
	for _, kind := range []string{"event", "gpu", "queue", "iteration", "guardrail"} {
		if n[kind] == 0 {
			t.Errorf("no record of kind %s: %v", kind, n)
		}
	}
	o.Seed++
	if other, _ := sum(t, make()); other == one {
		t.Error("another seed gives the same records")
	}
}

// TestLabels shows the labels of a small stream.
func TestLabels(t *testing.T) {
	s, err := New(options(t))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d jobs ran, %.0f GPU-days\n", s.Jobs, s.GPUDays)
	quotas, err := NewQuotas(options(t))
	if err != nil {
		t.Fatal(err)
	}
	s.Labels = append(s.Labels, quotas.Labels...)
	s.Units["quota_hoarding"] = quotas.Units["quota_hoarding"]
	for _, rule := range Rules {
		fmt.Fprintf(&out, "\n%s of %d\n", rule, s.Units[rule])
		for _, l := range s.Labels {
			if l.Rule == rule {
				near := map[bool]string{true: "near"}[l.Near]
				fmt.Fprintf(&out, "  %-22s %8v to %8v %4s %5.1f GPU-hours %s\n", l.Entity, l.From.Round(time.Minute),
					l.To.Round(time.Minute), near, l.WastedGPUHours, strings.Join(l.Also, " "))
			}
		}
		if !slices.ContainsFunc(s.Labels, func(l Label) bool { return l.Rule == rule }) {
			t.Errorf("%s has no case", rule)
		}
	}
	golden := filepath.Join("testdata", "labels.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("labels differ from %s; -update writes them:\n%s", golden, out.String())
	}
}

// TestDefinitions holds the samples of labelled cases to the definitions of their rules.
func TestDefinitions(t *testing.T) {
	for _, varied := range []bool{false, true} {
		o := options(t)
		o.Varied = varied
		testDefinitions(t, o)
	}
}

func testDefinitions(t *testing.T, o Options) {
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	type tally struct {
		n, busy, throttled, full int
		use                      float64
	}
	tallies := make([]tally, len(s.Labels))
	of := map[string][]int{} // labels by entity
	for i, l := range s.Labels {
		of[l.Entity] = append(of[l.Entity], i)
	}
	for r := range s.Records() {
		if r.GPU == nil {
			continue
		}
		gpu := r.GPU.Node + ":" + strconv.Itoa(r.GPU.Index)
		for _, i := range append(of[gpu], of[r.GPU.Job]...) {
			c, l := &tallies[i], &s.Labels[i]
			if r.At < l.From || r.At >= l.To {
				continue
			}
			u, ok := r.GPU.Busy()
			if !ok {
				t.Fatal("a sample without use")
			}
			c.n++
			c.use += u
			if u >= .01 {
				c.busy++
			}
			if r.GPU.Throttle&^telemetry.ThrottleIdle != 0 {
				c.throttled++
			}
			if r.GPU.MemoryUsed > .9*r.GPU.MemoryTotal {
				c.full++
			}
		}
	}
	for i, l := range s.Labels {
		c, ok := tallies[i], true
		switch l.Rule {
		case "hoarding":
			ok = c.use/float64(c.n) < .15 || 2*(c.n-c.busy) >= c.n ||
				o.Varied && 21*(c.n-c.busy) >= 10*c.n // some are lost
		case "idle_allocation":
			ok = c.busy == 0 && c.n >= 60 || o.Varied && c.n-c.busy > 60
		case "memory_pressure":
			ok = c.full == c.n && c.n > 1 || o.Varied && c.full > 1
		case "throttle":
			ok = 5*c.throttled > c.n
		case "never_ending":
			ok = c.n == 0 || c.use/float64(c.n) < .02
		}
		if !ok {
			t.Errorf("%+v: %+v", l, c)
		}
	}
}

// TestQuotas holds labelled tenants, and the others, to the definition: less than half of the
// quota for all but a twentieth of some week.
func TestQuotas(t *testing.T) {
	o := options(t)
	cases := 0
	for seed := range uint64(4) {
		o.Seed, o.Varied = seed, seed >= 2
		s, err := NewQuotas(o)
		if err != nil {
			t.Fatal(err)
		}
		const step = 15 * time.Minute
		use := map[string][]int{}
		for _, e := range s.Events() {
			if e.Kind != workload.Finished || e.Job.Status != workload.Completed {
				continue
			}
			u := use[e.Job.Tenant]
			if u == nil {
				u = make([]int, int((s.To-s.From)/step))
				use[e.Job.Tenant] = u
			}
			for at := max(e.Time-e.Job.Duration, s.From); at < e.Time; at += step {
				u[int((at-s.From)/step)] += e.Job.GPUs.Whole()
			}
		}
		waits := 0.
		for _, e := range s.Events() {
			if e.Kind == workload.Finished && e.Job.Tenant == "others" {
				waits += (e.Time - e.Job.Submit).Hours()
			}
		}
		labelled := map[string]bool{}
		for _, l := range s.Labels {
			labelled[l.Entity] = true
		}
		cases += len(s.Labels)
		for _, vc := range s.Cluster.VCs {
			u, low := use[vc.Tenant], false
			const week = 7 * 96
			for i := 0; i+week <= len(u)-1; i += 16 {
				high := 0
				for _, n := range u[i : i+week] {
					if 2*n >= vc.GPUs {
						high++
					}
				}
				low = low || 20*high < week
			}
			if low = low && waits > quotaDays; low != labelled[vc.Tenant] {
				t.Errorf("seed %d, %s: low use is %v, the label says %v (%.1f h of waits)", seed, vc.Tenant, low,
					labelled[vc.Tenant], waits)
			}
		}
	}
	if cases < 5 {
		t.Errorf("%d cases", cases)
	}
	o.Rules = []string{}
	if s, err := NewQuotas(o); err != nil || len(s.Events()) > 0 || len(s.Labels) > 0 {
		t.Errorf("quotas that are not wanted: %v, %v", s.Labels, err)
	}
}

// TestNothingInjected: without rules a stream has no label.
func TestNothingInjected(t *testing.T) {
	o := options(t)
	o.Rules = []string{}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Labels) > 0 {
		t.Errorf("labels without rules: %v", s.Labels)
	}
	if s.Judged("starvation", s.runs[0].job.ID) || !s.Judged("hoarding", s.runs[0].job.ID) || s.Judged("no such rule", "") {
		t.Error("what is judged of the trace's jobs is wrong")
	}
}

func TestRefuses(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"window":     func(o *Options) { o.To = time.Hour },
		"cluster":    func(o *Options) { o.Nodes = -1 },
		"load":       func(o *Options) { o.Load = -1 },
		"prevalence": func(o *Options) { o.Prevalence = .7 },
		"period":     func(o *Options) { o.Period = 7 * time.Second },
		"rules":      func(o *Options) { o.Rules = []string{"no such rule"} },
		"curves":     func(o *Options) { o.Curves = "no such cluster" },
		"no job":     func(o *Options) { o.From, o.To = 100*time.Hour, 200*time.Hour },
	} {
		o := options(t)
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestCurves: the published percentiles are there, and rise.
func TestCurves(t *testing.T) {
	for _, name := range []string{"kalos", "pai", "philly", "seren"} {
		c, err := readCurves(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, v := range map[string]curve{"busy": c.busy, "memory": c.memory, "power": c.power} {
			if !slices.IsSorted(v[:]) || v[0] <= 0 {
				t.Errorf("%s %s: %v", name, what, v)
			}
		}
		if c.busy[0] < least-.01 || c.busy[points-1] > 1 || c.sm != (name == "kalos" || name == "seren") {
			t.Errorf("%s: %v, SM %v", name, c.busy, c.sm)
		}
	}
}
