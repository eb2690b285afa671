package patterns

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// custom reads rules of a test.
func custom(t *testing.T, text string) *RuleSet {
	t.Helper()
	set, err := ReadRules(strings.NewReader("version: 1\nrules:\n"+text), "test")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

const hour24 = 24 * hour

// messages scans lines of one job at given seconds.
func messages(t *testing.T, rules *RuleSet, lines ...any) string {
	s := newScan(t, Options{Rules: rules})
	s.submit(0, "j", "t", 1)
	for i := 0; i < len(lines); i += 2 {
		at := time.Duration(lines[i].(int)) * time.Second
		s.must(s.Message(&Message{Time: at, Job: "j", Text: lines[i+1].(string)}))
	}
	s.must(s.Advance(hour24))
	return s.close()
}

func TestSequenceAndSet(t *testing.T) {
	rule := func(match string) *RuleSet {
		return custom(t, "  - {id: r, group_by: [job], action: a, words: w, quiet: 1m, "+match+"}\n")
	}
	line := func(v string) string { return "{event: message, value: " + v + "}" }
	seq := rule("sequence: {window: 10s, order: [" + line("one") + ", " + line("two") + "]}")
	set := rule("set: {window: 10s, match: [" + line("one") + ", {event: message, regex: 'tw.', count: 2}]}")
	now := rule("sequence: {window: 10s, order: [" + line("one") + ", " + line("two") + "], negate: [" + line("no") + "]}")
	later := rule("set: {match: [" + line("one") + "], negate: [{event: message, value: no, window: 30s}]}")
	before := rule("set: {match: [" + line("one") + "], negate: [{event: message, value: no, window: 10s, slide: -9s}]}")
	for _, c := range []struct {
		name  string
		rules *RuleSet
		lines []any
		want  bool
	}{
		{"in order", seq, []any{1, "one", 11, "two"}, true},
		{"too late", seq, []any{1, "one", 12, "two"}, false},
		{"the wrong order", seq, []any{1, "two", 2, "one"}, false},
		{"the last beginning counts", seq, []any{1, "one", 9, "one", 15, "two"}, true},
		{"a set in any order", set, []any{1, "two", 2, "two", 3, "one"}, true},
		{"a set with a term once", set, []any{2, "two", 3, "one"}, false},
		{"a set too wide", set, []any{1, "two", 5, "two", 13, "one"}, false},
		{"negative within", now, []any{1, "one", 2, "no", 3, "two"}, false},
		{"negative before", now, []any{0, "no", 1, "one", 3, "two"}, true},
		{"negative after", now, []any{1, "one", 3, "two", 4, "no"}, true},
		{"a negative term to come", later, []any{1, "one", 20, "no"}, false},
		{"a negative term too late", later, []any{1, "one", 40, "no"}, true},
		{"a negative term shortly before", before, []any{1, "no", 8, "one"}, false},
		{"a negative term long before", before, []any{1, "no", 20, "one"}, true},
	} {
		if got := messages(t, c.rules, c.lines...); (got != "") != c.want {
			t.Errorf("%s: found %q, want a finding %t", c.name, got, c.want)
		}
	}
}

// TestCap: entities beyond the cap are reported.
func TestCap(t *testing.T) {
	rules := custom(t, "  - {id: r, group_by: [job], action: a, words: w, set: {match: [{event: job.submitted}]}}\n")
	s := newScan(t, Options{Rules: rules, Cap: 2})
	for _, id := range []string{"1", "2", "3"} {
		s.submit(0, id, "t", 1)
	}
	if got := s.close(); strings.Count(got, "\n") != 2 {
		t.Errorf("found %q", got)
	}
	if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "r: the cap was hit: 1 records") {
		t.Errorf("notes %q", notes)
	}
}

// TestCapOfWorkers: the workers of all jobs are bounded together, and workers of jobs that ended do not count.
func TestCapOfWorkers(t *testing.T) {
	s := newScan(t, Options{Cap: 2})
	steps := func(at time.Duration, job string) {
		for w := range 4 {
			s.must(s.Iteration(&telemetry.Iteration{Job: job, Worker: w, Took: time.Second,
				Time: time.Duration(s.zeroUnix()) + at}))
		}
	}
	for i, id := range []string{"1", "2", "3", "4"} {
		at := time.Duration(i) * hour
		s.submit(at, id, "t", 1)
		s.start(at, id, "0", 1)
		if steps(at+minute, id); id == "3" {
			s.end(at+2*minute, "1", workload.Completed)
		}
	}
	s.close()
	if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "\nworkers: the cap was hit: 4 records") {
		t.Errorf("notes %q", notes)
	}
}

// TestStepsFallBack: a worker that is slow is found though steps begin again at a checkpoint, or some had wrong numbers
// before.
func TestStepsFallBack(t *testing.T) {
	for name, add := range map[string]func(k int) int{
		"they rise":     func(int) int { return 0 },
		"begun again":   func(k int) int { return map[bool]int{true: 1000}[k < 30] },
		"wrong numbers": func(k int) int { return map[bool]int{true: 1 << 48}[k == 5 || k == 6] },
	} {
		s := newScan(t, Options{})
		s.submit(0, "j", "t", 4)
		s.start(0, "j", "0", 4)
		for k := range 100 {
			for w := range 4 {
				took := 10 * time.Second
				if w == 2 && k >= 40 {
					took *= 2
				}
				s.must(s.Iteration(&telemetry.Iteration{Job: "j", Worker: w, Step: k + add(k), Took: took,
					Time: time.Duration(s.zeroUnix()) + time.Duration(k+1)*minute + time.Duration(w)*time.Second}))
			}
		}
		if got := s.close(); !strings.HasPrefix(got, "straggler worker/j/2 46m0s-1h40m0s open") {
			t.Errorf("%s: found %q", name, got)
		}
	}
}

// TestOrder: a scanner refuses a record before the last one, and all once it is closed.
func TestOrder(t *testing.T) {
	s := newScan(t, Options{})
	one := Record{Event: &workload.Event{ID: "h", Kind: workload.Heartbeat, Time: hour}}
	s.must(s.Apply(hour, one))
	s.must(s.Apply(hour, one))
	if err := s.Apply(hour-1, one); err == nil || !strings.Contains(err.Error(), "event h: time: is 59m59.999999999s") {
		t.Errorf("a record before the last one: %v", err)
	}
	s.must(s.Advance(2 * hour))
	if err := s.Apply(2*hour-1, one); err == nil {
		t.Error("a record of a time that was examined is accepted")
	}
	s.must(s.Close())
	if err := s.Advance(3 * hour); err == nil {
		t.Error("a closed scanner advances")
	}
	if err := s.Apply(3*hour, one); err == nil {
		t.Error("a closed scanner takes records")
	}
}

func TestHostileRecords(t *testing.T) {
	s := newScan(t, Options{Cluster: workload.Uniform(1, 8)})
	if err := s.Event(&workload.Event{Kind: workload.Started}); err == nil {
		t.Error("an event without a job is accepted")
	}
	if err := s.Advance(math.MaxInt64); err == nil {
		t.Error("a time beyond a hundred years is accepted")
	}
	if err := s.Event(&workload.Event{Kind: workload.Heartbeat, Time: math.MaxInt64}); err == nil {
		t.Error("an event beyond a hundred years is accepted")
	}
	// Out of order of their sense: an end without a start, starts twice, a size of nothing.
	s.end(0, "x", workload.Failed)
	s.start(minute, "y", "9", 8)
	s.start(minute, "y", "8", 8)
	s.must(s.Event(&workload.Event{Kind: workload.Resized, Time: 2 * minute, Job: workload.Job{ID: "y"}}))
	s.must(s.Event(&workload.Event{Kind: workload.Preempted, Time: 3 * minute, Job: workload.Job{ID: "y"}}))
	s.must(s.Event(&workload.Event{Kind: workload.NodeDown, Time: 3 * minute, Node: "unknown"}))
	s.must(s.GPU(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "9", Instance: -1}, Time: 4 * minute,
		Known: telemetry.Utilization, Utilization: math.NaN()}))
	s.must(s.GPU(&telemetry.GPUSample{Lost: true}))
	s.must(s.Event(&workload.Event{Kind: workload.Heartbeat, Time: 50 * 365 * hour24}))
	s.close()
}

// TestImplausibleSamples: an impossible use is unknown, neither idle nor used.
func TestImplausibleSamples(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(-1), -1, 101} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 1)})
		s.submit(0, "1", "a", 1)
		s.start(0, "1", "0", 1)
		s.sampled(0, 2*hour, "0", 1, func(time.Duration, int) float64 { return v / 100 })
		if got := s.close(); got != "" {
			t.Errorf("a utilisation of %g %%: found %q", v, got)
		}
	}
}

// Samples are a job's only where that is certain, and labels of jobs leave them out.
func TestJoin(t *testing.T) {
	for _, c := range []struct {
		name            string
		gpus            int // of the job, of 8
		named           bool
		indexes, labels string
		want            bool
	}{
		{"the whole node", 8, false, "", "", true},
		{"part of the node", 4, false, "", "", false},
		{"part of the node, named by the samples", 4, true, "", "", true},
		{"part of the node, whose GPUs are known", 4, false, "3,2,1,0", "", true},
		{"other GPUs of the node", 4, false, "4,5,6,7", "", false},
		{"a job that may idle", 4, false, "0,1,2,3", "debug,idle-ok", false},
	} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 8)})
		s.must(s.Event(&workload.Event{ID: "s", Kind: workload.Submitted, Labels: c.labels,
			Job: workload.Job{ID: "1", Tenant: "a", GPUs: workload.GPUs(c.gpus)}}))
		share := workload.NodeShare{Node: "0", GPUs: c.gpus, Indexes: c.indexes}
		s.must(s.Event(&workload.Event{ID: "b", Kind: workload.Started, Job: workload.Job{ID: "1"},
			Placement: []workload.NodeShare{share}}))
		for at := time.Duration(0); at < 2*hour; at += 15 * time.Second {
			for g := range c.gpus {
				x := &telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Index: g, Instance: -1}, Time: at,
					Known: telemetry.Utilization}
				if c.named {
					x.Job = "1"
				}
				s.must(s.GPU(x))
			}
		}
		if got := s.close(); (got != "") != c.want {
			t.Errorf("%s: found %q, want a finding %t", c.name, got, c.want)
		}
	}
}

// TestUnknownAfterItsJob: nothing holds of a GPU whose job has ended until it is seen again.
func TestUnknownAfterItsJob(t *testing.T) {
	for _, indexes := range []string{"", "0"} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 1)})
		share := workload.NodeShare{Node: "0", GPUs: 1, Indexes: indexes}
		s.submit(0, "a", "t", 1)
		s.must(s.Event(&workload.Event{ID: "b", Kind: workload.Started, Job: workload.Job{ID: "a"},
			Placement: []workload.NodeShare{share}}))
		for at := time.Duration(0); at < 20*time.Minute; at += 15 * time.Second {
			s.must(s.GPU(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1}, Time: at, MemoryUsed: 95,
				MemoryTotal: 100, Known: telemetry.MemoryUsed | telemetry.MemoryTotal}))
		}
		s.end(20*time.Minute, "a", workload.Completed)
		s.must(s.Advance(3 * hour))
		if got, want := s.close(), "memory_pressure gpu/0:0 1m0s-20m0s closed"; !strings.HasPrefix(got, want) ||
			strings.Count(got, "\n") != 1 {
			t.Errorf("indexes %q: found %q, want %q", indexes, got, want)
		}
	}
}

// TestFindingBeforeAJob: a finding about a GPU without a job ends as one starts on it.
func TestFindingBeforeAJob(t *testing.T) {
	s := newScan(t, Options{Cluster: workload.Uniform(1, 1)})
	for at := time.Duration(0); at < 20*time.Minute; at += 15 * time.Second {
		s.must(s.GPU(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1}, Time: at, MemoryUsed: 95,
			MemoryTotal: 100, Known: telemetry.MemoryUsed | telemetry.MemoryTotal}))
	}
	s.submit(20*time.Minute, "a", "t", 1)
	s.start(20*time.Minute, "a", "0", 1)
	s.must(s.Advance(3 * hour))
	if got, want := s.close(), "memory_pressure gpu/0:0 1m0s-20m0s closed 0.00 GPU-hours\n"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

// Why jobs wait. A queue that names no nodes of the cluster has all of them.
func TestWaits(t *testing.T) {
	for _, queue := range []string{"", "gpu"} {
		t.Run(queue, func(t *testing.T) { testWaits(t, queue) })
	}
}

func testWaits(t *testing.T, queue string) {
	s := newScan(t, Options{Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 2, GPUsPerNode: 4}},
		VCs: []workload.VC{{Tenant: "a", GPUs: 8}, {Tenant: "b", GPUs: 4}}}})
	s.queue = queue
	s.submit(0, "left", "a", 2)
	s.start(0, "left", "0", 2)
	s.submit(0, "right", "a", 2)
	s.start(0, "right", "1", 2)
	s.submit(0, "gang", "a", 4)  // free by count, not by place
	s.submit(0, "quota", "b", 6) // beyond its tenant's
	s.end(hour, "left", workload.Completed)
	s.start(hour, "gang", "0", 4)
	s.submit(hour, "wide", "c", 4) // 2 are free
	s.end(2*hour, "gang", workload.Completed)
	s.end(2*hour, "right", workload.Completed)
	s.start(2*hour, "wide", "0", 4)
	s.end(3*hour, "wide", workload.Completed)
	s.end(3*hour, "quota", workload.Cancelled)
	s.close()
	want := map[string]string{"gang": "fragmentation", "wide": "capacity", "quota": "quota"}
	for _, r := range s.jobs {
		cause := want[r.Job]
		if cause == "" {
			continue
		}
		delete(want, r.Job)
		if d := r.Waits[cause]; d < 55*minute || len(r.Waits) > 2 {
			t.Errorf("%s waited %v, want %s", r.Job, r.Waits, cause)
		}
		if r.Bottleneck != "cannot_tell" {
			t.Errorf("%s without samples has the bottleneck %s", r.Job, r.Bottleneck)
		}
	}
	if len(want) > 0 {
		t.Errorf("no reports of %v", want)
	}
}

func TestBottlenecks(t *testing.T) {
	run := func(busy, memory float64) string {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 1), Rules: custom(t, "  - {id: r, group_by: [job], action: a, "+
			"words: w, set: {match: [{event: job.resized}]}}\n")})
		s.submit(0, "1", "a", 1)
		s.start(0, "1", "0", 1)
		for at := time.Duration(0); at < hour; at += 15 * time.Second {
			s.must(s.GPU(&telemetry.GPUSample{GPU: telemetry.GPU{Node: "0", Instance: -1}, Time: at, Utilization: busy,
				Known:      telemetry.Utilization | telemetry.MemoryUsed | telemetry.MemoryTotal,
				MemoryUsed: 1000 * memory, MemoryTotal: 1000}))
		}
		s.end(hour, "1", workload.Completed)
		s.close()
		return s.jobs[0].Bottleneck
	}
	for _, c := range []struct {
		busy, memory float64
		want         string
	}{{95, .95, "memory_bound"}, {5, .1, "compute_underused"}, {95, .5, "cannot_tell"}, {50, .5, "cannot_tell"}} {
		if got := run(c.busy, c.memory); got != c.want {
			t.Errorf("busy %g %%, memory %g: %s, want %s", c.busy, c.memory, got, c.want)
		}
	}
}

func TestMannKendall(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		// By hand: S = 6, variance 8.67, z = 1.70.
		{[]float64{1, 2, 3, 4}, .0447},
		{[]float64{4, 3, 2, 1}, 1},
		{[]float64{1, 1, 1, 1}, 1},
		// S = 13, variance 26.3 with two ties, z = 2.34.
		{[]float64{1, 2, 2, 3, 3, 4}, .0097},
	} {
		if got := mannKendall(c.x); math.Abs(got-c.want) > .0005 {
			t.Errorf("%v: p %.4f, want %.4f", c.x, got, c.want)
		}
	}
}
