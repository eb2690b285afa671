package patterns

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// scan is a scanner of the built-in rules on a cluster, with its findings.
type scan struct {
	*Scanner
	t     *testing.T
	queue string     // of the jobs that are submitted
	found []*Finding // as they were last reported, in order of opening
	jobs  []*JobReport
	sent  []sent
}

type sent struct {
	at     time.Duration
	record Record
}

func newScan(t *testing.T, o Options) *scan {
	t.Helper()
	s := &scan{t: t}
	at := map[string]int{}
	o.OnFinding = func(f *Finding) {
		key := fmt.Sprint(f.Rule, f.Entity, f.Opened)
		if i, ok := at[key]; ok {
			s.found[i] = f.Clone()
			return
		}
		at[key] = len(s.found)
		s.found = append(s.found, f.Clone())
	}
	o.OnJob = func(r *JobReport) { s.jobs = append(s.jobs, r) }
	var err error
	if s.Scanner, err = New(o); err != nil {
		t.Fatal(err)
	}
	return s
}

// put keeps a record until apply.
func (s *scan) put(r Record) error {
	at, err := s.Check(r)
	s.sent = append(s.sent, sent{at, r})
	return err
}

func (s *scan) Event(e *workload.Event) error          { return s.put(Record{Event: new(*e)}) }
func (s *scan) GPU(g *telemetry.GPUSample) error       { return s.put(Record{GPU: new(*g)}) }
func (s *scan) Queue(q *telemetry.QueueSample) error   { return s.put(Record{Queue: new(*q)}) }
func (s *scan) Iteration(i *telemetry.Iteration) error { return s.put(Record{Iteration: new(*i)}) }
func (s *scan) Message(m *Message) error               { return s.put(Record{Message: new(*m)}) }
func (s *scan) Guardrail(g *Guardrail) error           { return s.put(Record{Guardrail: new(*g)}) }

// apply gives the scanner the records in order of time.
func (s *scan) apply() {
	s.t.Helper()
	slices.SortStableFunc(s.sent, func(a, b sent) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.record.Rank(), b.record.Rank()))
	})
	for _, x := range s.sent {
		s.must(s.Apply(x.at, x.record))
	}
	s.sent = nil
}

func (s *scan) Advance(t time.Duration) error {
	s.apply()
	return s.Scanner.Advance(t)
}

func (s *scan) Close() error {
	s.apply()
	return s.Scanner.Close()
}

func (s *scan) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// close returns the findings, a line each.
func (s *scan) close() string {
	s.t.Helper()
	s.must(s.Close())
	var b strings.Builder
	for _, f := range s.found {
		state := "closed"
		if f.Open {
			state = "open"
		}
		fmt.Fprintf(&b, "%s %s %v-%v %s %.2f GPU-hours\n", f.Rule, f.Entity, s.since(f.Opened).Round(time.Minute),
			s.since(f.Closed).Round(time.Minute), state, f.WastedGPUHours)
		if len(f.Evidence) == 0 || f.Confidence <= 0 || f.Confidence > 1 || strings.Contains(f.Words, "{") {
			s.t.Errorf("%s %s: evidence %v, confidence %g, words %q", f.Rule, f.Entity, f.Evidence, f.Confidence,
				f.Words)
		}
	}
	return b.String()
}

func (s *scan) submit(at time.Duration, id, tenant string, gpus int) {
	s.must(s.Event(&workload.Event{ID: id + "s", Kind: workload.Submitted, Time: at,
		Job: workload.Job{ID: id, Tenant: tenant, User: tenant, Key: "k" + tenant, GPUs: workload.GPUs(gpus),
			Requested: workload.Request{Partition: s.queue}.Shared()}}))
}

func (s *scan) start(at time.Duration, id, node string, gpus int) {
	s.must(s.Event(&workload.Event{ID: id + "b", Kind: workload.Started, Time: at, Job: workload.Job{ID: id},
		Placement: []workload.NodeShare{{Node: node, GPUs: gpus}}}))
}

func (s *scan) end(at time.Duration, id string, status workload.Status) {
	s.must(s.Event(&workload.Event{ID: id + "e", Kind: workload.Finished, Time: at,
		Job: workload.Job{ID: id, Status: status}}))
}

// sampled sends a sample of each GPU of a node every 15 s.
func (s *scan) sampled(from, to time.Duration, node string, gpus int, busy func(at time.Duration, gpu int) float64) {
	for at := from; at < to; at += 15 * time.Second {
		for g := range gpus {
			s.must(s.GPU(&telemetry.GPUSample{GPU: telemetry.GPU{Node: node, Index: g, Instance: -1}, Time: at,
				Known: telemetry.Utilization, Utilization: 100 * busy(at, g)}))
		}
	}
}

const minute, hour = time.Minute, time.Hour

// TestAffectedByPartition: jobs are affected where they ask for nodes that the finding's job may hold.
func TestAffectedByPartition(t *testing.T) {
	s := newScan(t, Options{Cluster: workload.Cluster{Groups: []workload.NodeGroup{
		{Nodes: 1, GPUsPerNode: 2, Partition: "a,shared"}, {Nodes: 1, GPUsPerNode: 2, Partition: "b"}}}})
	s.queue = "a"
	s.submit(0, "idle", "t", 2)
	s.start(0, "idle", "0", 2)
	for _, queue := range []string{"b", "shared", "a", "", "unknown"} {
		s.queue = queue
		s.submit(minute, "in "+queue, "u", 4)
	}
	s.must(s.Event(&workload.Event{ID: "held", Kind: workload.Submitted, Time: minute, HoldUntil: hour24,
		Job: workload.Job{ID: "held", Tenant: "u", GPUs: workload.GPUs(1)}}))
	s.sampled(0, 2*hour, "0", 2, func(time.Duration, int) float64 { return 0 })
	s.close()
	want := []string{"tenant/t", "job/in shared", "job/in a", "job/in ", "job/in unknown"}
	if len(s.found) != 1 || s.found[0].Rule != "idle_allocation" || !slices.Equal(s.found[0].Affected, want) {
		for _, f := range s.found {
			t.Errorf("found %s %s affecting %q, want %q", f.Rule, f.Entity, f.Affected, want)
		}
	}
}

func TestHoarding(t *testing.T) {
	for _, c := range []struct {
		name   string
		busy   float64
		tenant string // of the job that waits
		want   string
	}{
		{"used little", .1, "b", "hoarding job/1"},
		{"used a little more", .2, "b", ""},
		{"none waits but its own", .1, "a", ""},
	} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 8)})
		s.submit(0, "1", "a", 8)
		s.start(0, "1", "0", 8)
		s.submit(minute, "2", c.tenant, 4)
		s.sampled(0, 2*hour, "0", 8, func(time.Duration, int) float64 { return c.busy })
		s.end(2*hour, "1", workload.Completed)
		if got := s.close(); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}

// Half of the GPUs idle is hoarding, whatever the others do.
func TestHoardingHalf(t *testing.T) {
	for idle, want := range map[int]bool{3: false, 4: true} {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 8)})
		s.submit(0, "1", "a", 8)
		s.start(0, "1", "0", 8)
		s.submit(minute, "2", "b", 2)
		s.sampled(0, 2*hour, "0", 8, func(_ time.Duration, g int) float64 {
			if g < idle {
				return 0
			}
			return .9
		})
		if got := s.close(); strings.Contains(got, "hoarding") != want {
			t.Errorf("%d of 8 GPUs idle: found %q", idle, got)
		}
	}
}

func TestIdleAllocation(t *testing.T) {
	s := newScan(t, Options{Cluster: workload.Uniform(2, 8)})
	s.submit(0, "1", "a", 8)
	s.start(0, "1", "0", 8)
	s.submit(0, "2", "a", 8)
	s.start(0, "2", "1", 8)
	// Job 1 is idle from its start on until 3 h; job 2 has no samples, which is not idle.
	s.sampled(0, 5*hour, "0", 8, func(at time.Duration, _ int) float64 {
		if at < 3*hour {
			return 0
		}
		return .9
	})
	got := s.close()
	if !strings.HasPrefix(got, "idle_allocation job/1 1h9m0s-3h1m0s closed 22.") || strings.Count(got, "\n") != 1 {
		t.Errorf("found %q", got)
	}
}

func TestCrashLoop(t *testing.T) {
	fails := func(gap, ran time.Duration, successAt int) string {
		s := newScan(t, Options{Cluster: workload.Uniform(1, 8)})
		for i := range 4 {
			id, at := strconv.Itoa(i), time.Duration(i)*gap
			s.submit(at, id, "a", 2)
			s.start(at, id, "0", 2)
			status := workload.Failed
			if i == successAt {
				status = workload.Completed
			}
			s.end(at+ran, id, status)
		}
		return s.close()
	}
	if got := fails(10*minute, 3*minute, -1); !strings.HasPrefix(got, "crash_loop key/a/ka 23m0s-") ||
		!strings.Contains(got, " 0.40 GPU-hours") {
		t.Errorf("four failures in 33 min: found %q", got)
	}
	for name, got := range map[string]string{"slow ones": fails(10*minute, 6*minute, -1),
		"far apart": fails(35*minute, minute, -1), "a success between": fails(10*minute, minute, 1)} {
		if got != "" {
			t.Errorf("%s: found %q", name, got)
		}
	}
}

// iterations reads the shared iteration times.
func iterations(t *testing.T, each func(job string, worker, step int, ms float64)) {
	readShared(t, "traces/telemetry/pai_minibatch.csv.gz", func(f []string) {
		worker, _ := strconv.Atoi(f[1])
		step, _ := strconv.Atoi(f[3])
		ms, _ := strconv.ParseFloat(f[4], 64)
		each(f[0], worker, step, ms)
	})
}

func readShared(t *testing.T, name string, each func([]string)) {
	t.Helper()
	data, err := os.ReadFile(testshared.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(z)
	r.ReuseRecord = true
	for first := true; ; first = false {
		f, err := r.Read()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if !first {
			each(f)
		}
	}
}

// TestStragglersMeasured holds the counts of the two published jobs.
func TestStragglersMeasured(t *testing.T) {
	testshared.Full(t)
	rows := map[string][][]float64{}
	at := map[string]map[int]int{"job1": {}, "job4": {}}
	iterations(t, func(job string, worker, step int, ms float64) {
		i, ok := at[job][step]
		if !ok {
			i = len(rows[job])
			at[job][step] = i
			row := make([]float64, 10)
			for k := range row {
				row[k] = math.NaN()
			}
			rows[job] = append(rows[job], row)
		}
		rows[job][i][worker] = ms
	})
	count := func(job string, factor float64, need int) (windows [10]int, first int) {
		x := &stragglerJob{rows: 20, need: need, factor: factor}
		for i, row := range rows[job] {
			x.add(row)
			for w := range x.workers {
				if x.workers[w].count >= need {
					windows[w]++
					if first == 0 {
						first = i + 1
					}
				}
			}
		}
		return windows, first
	}
	fired := func(w [10]int) (out []int) {
		for i, n := range w {
			if n > 0 {
				out = append(out, i)
			}
		}
		return out
	}
	one, first := count("job1", 1.2, 5)
	if one != [10]int{6: 21} || first != 187 {
		t.Errorf("job1, 1.2 x, 5 of 20: windows %v, first row %d", one, first)
	}
	if w, first := count("job4", 1.2, 5); fmt.Sprint(fired(w)) != "[0 5 6 7 8]" || first != 5 {
		t.Errorf("job4, 1.2 x, 5 of 20: windows %v, first row %d", w, first)
	}
	if w, _ := count("job1", 1.3, 10); fired(w) != nil {
		t.Errorf("job1, 1.3 x, 10 of 20: windows %v", w)
	}
	if w, _ := count("job4", 1.3, 10); fmt.Sprint(fired(w)) != "[0 5 6 7 8]" {
		t.Errorf("job4, 1.3 x, 10 of 20: windows %v", w)
	}

	// The scanner finds the same workers.
	s := newScan(t, Options{})
	iterations(t, func(job string, worker, step int, ms float64) {
		s.must(s.Iteration(&telemetry.Iteration{Job: job, Worker: worker, Step: step,
			Took: time.Duration(ms * float64(time.Millisecond))}))
	})
	s.must(s.Close())
	found := map[string]int{}
	for _, f := range s.found {
		found[f.Rule+" "+f.Entity.Name]++
	}
	t.Log(found)
	for _, name := range []string{"job1/6", "job4/0", "job4/5", "job4/6", "job4/7", "job4/8"} {
		if found["straggler "+name] == 0 {
			t.Errorf("straggler %s was not found", name)
		}
		delete(found, "straggler "+name)
	}
	for name := range found {
		if strings.HasPrefix(name, "straggler") {
			t.Errorf("%s is none", name)
		}
	}
}

// TestInferenceIsNotIdle scans the published inference pods: the three that are idle all day are
// found, and of those that are used in bursts none.
func TestInferenceIsNotIdle(t *testing.T) {
	testshared.Full(t)
	s := newScan(t, Options{Period: minute, Zero: time.Unix(1662854400, 0)})
	sums := map[string][2]float64{}
	readShared(t, "traces/telemetry/genai_pods.csv.gz", func(f []string) {
		unix, _ := strconv.ParseInt(f[0], 10, 64)
		x := &telemetry.GPUSample{GPU: telemetry.GPU{Node: f[1], Instance: -1}, Job: f[1],
			Time: time.Duration(unix) * time.Second}
		if v, err := strconv.ParseFloat(f[2], 64); err == nil {
			x.Known, x.Utilization = telemetry.Utilization, v
			was := sums[f[1]]
			sums[f[1]] = [2]float64{was[0] + v, was[1] + 1}
		}
		s.must(s.GPU(x))
	})
	s.must(s.Close())
	found := map[string]int{}
	for _, f := range s.found {
		if f.Rule == "idle_allocation" || f.Rule == "hoarding" || f.Rule == "never_ending" {
			found[f.Entity.Name]++
			t.Logf("%s %s %v-%v %.2f mean %.3f%% of %g samples", f.Rule, f.Entity, f.Opened, f.Closed, f.Confidence,
				sums[f.Entity.Name][0]/sums[f.Entity.Name][1], sums[f.Entity.Name][1])
		}
	}
	for _, pod := range []string{"pod067", "pod086", "pod088"} {
		if found[pod] == 0 {
			t.Errorf("%s is idle all day and was not found", pod)
		}
		delete(found, pod)
	}
	for _, pod := range []string{"pod051", "pod073", "pod095"} {
		delete(found, pod) // 71 to 75 samples, all idle
	}
	if len(found) > 0 {
		t.Errorf("found %v, which are used in bursts", found)
	}
	t.Log(s.Notes())
}

// BenchmarkScan scans events and samples of 1,000 GPUs, every 15 s: half of the nodes have jobs of
// twelve hours, a fifth of which are idle, the others a job after another. CPU seconds count the
// making of the records.
func BenchmarkScan(b *testing.B) {
	for _, samples := range []int{10_000, 100_000, 1_000_000, 10_000_000} {
		b.Run(strconv.Itoa(samples), func(b *testing.B) {
			b.ReportAllocs()
			began, findings := cputime.Process(), 0
			var heap runtime.MemStats
			for b.Loop() {
				s, err := New(Options{Cluster: workload.Uniform(125, 8), OnFinding: func(f *Finding) {
					if f.Open && f.Closed.Equal(f.Opened) {
						findings++
					}
				}})
				if err != nil {
					b.Fatal(err)
				}
				feed(b, s, samples, samples/10)
				runtime.GC()
				runtime.ReadMemStats(&heap)
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cputime.Process()-began).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(heap.HeapAlloc)/(1<<20), "heap-MiB")
			b.ReportMetric(float64(findings)/float64(b.N), "findings")
		})
	}
}

func feed(tb testing.TB, s *Scanner, samples, events int) {
	const nodes, perNode, long = 125, 8, 62
	x := rand.New(rand.NewPCG(1, 2))
	names, running, idle := [nodes]string{}, [nodes]string{}, [nodes]bool{}
	for n := range names {
		names[n] = strconv.Itoa(n)
	}
	event := func(at time.Duration, e *workload.Event) {
		if err := s.Apply(at, Record{Event: e}); err != nil {
			tb.Fatal(err)
		}
	}
	id := 0
	start := func(n int, at time.Duration) {
		if old := running[n]; old != "" {
			j := workload.Job{ID: old, Status: workload.Completed}
			event(at, &workload.Event{ID: "e", Kind: workload.Finished, Time: at, Job: j})
		}
		running[n] = strconv.Itoa(id)
		j := workload.Job{ID: running[n], Tenant: "t" + strconv.Itoa(id%20), User: "u" + strconv.Itoa(id%200),
			Key: "k" + strconv.Itoa(id%1000), GPUs: workload.GPUs(perNode)}
		event(at, &workload.Event{ID: "s", Kind: workload.Submitted, Time: at, Job: j})
		event(at, &workload.Event{ID: "b", Kind: workload.Started, Time: at, Job: j,
			Placement: []workload.NodeShare{{Node: names[n], GPUs: perNode}}})
		idle[n] = n < long && x.IntN(5) == 0
		id++
	}
	steps, jobs, next := samples/(nodes*perNode), events/3, long
	for k := range steps {
		at := time.Duration(k) * 15 * time.Second
		for n := range long {
			if (k+n*40)%(12*240) == 0 || k == 0 {
				start(n, at)
			}
		}
		for ; id < jobs*(k+1)/steps; next++ {
			start(long+next%(nodes-long), at)
		}
		for n, name := range names {
			for g := range perNode {
				d := telemetry.GPUSample{GPU: telemetry.GPU{Node: name, Index: g, Instance: -1}, Time: at,
					Known: telemetry.Utilization | telemetry.MemoryUsed | telemetry.MemoryTotal | telemetry.Power |
						telemetry.Throttle | telemetry.SMClock | telemetry.ApplicationClock | telemetry.Processes,
					Utilization: 60 + 40*x.Float64(), MemoryUsed: 20000, MemoryTotal: 80000, Power: 300, SMClock: 1400,
					ApplicationClock: 1410, Processes: 1}
				if idle[n] {
					d.Utilization, d.Power = .5*x.Float64(), 70
				}
				if err := s.Apply(at, Record{GPU: &d}); err != nil {
					tb.Fatal(err)
				}
			}
		}
	}
}
