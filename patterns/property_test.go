package patterns

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// lives are random lives of jobs on a cluster of 4 nodes of 4 GPUs, with samples of their GPUs every minute, iterations
// and lines of logs, in order of time; seed chooses them.
func lives(seed uint64) (out []sent) {
	x := rand.New(rand.NewPCG(seed, 11))
	put := func(at time.Duration, r Record) { out = append(out, sent{at, r}) }
	event := func(at time.Duration, kind workload.EventKind, j workload.Job, placement ...workload.NodeShare) {
		put(at, Record{Event: &workload.Event{ID: fmt.Sprint(len(out)), Kind: kind, Time: at, Job: j,
			Placement: placement}})
	}
	for node := range 4 {
		name := string(rune('a' + node))
		for at, n := time.Duration(x.IntN(30))*minute, 0; at < 10*hour; n++ {
			j := workload.Job{ID: fmt.Sprint(name, n), Tenant: fmt.Sprint("t", x.IntN(2)), User: "u", Key: fmt.Sprint("k", x.IntN(2)),
				GPUs: workload.GPUs(4), Status: workload.Completed}
			ran := time.Duration(1+x.IntN(200)) * minute
			if x.IntN(3) == 0 {
				ran, j.Status = time.Duration(1+x.IntN(6))*minute, workload.Failed
			}
			event(at, workload.Submitted, j)
			at += time.Duration(x.IntN(40)) * minute
			event(at, workload.Started, j, workload.NodeShare{Node: name, GPUs: 4})
			busy, memory, slow := x.Float64()*float64(x.IntN(2)), x.Float64(), x.IntN(6)
			for k := range int(ran / minute) {
				now := at + time.Duration(k)*minute
				for g := range 4 {
					put(now+30*time.Second, Record{GPU: &telemetry.GPUSample{GPU: telemetry.GPU{Node: name, Index: g,
						Instance: -1},
						Time: now + 30*time.Second, Utilization: 100 * busy, MemoryUsed: 100 * memory, MemoryTotal: 100,
						Known: telemetry.Utilization | telemetry.MemoryUsed | telemetry.MemoryTotal}})
					took := time.Second
					if g == slow && x.IntN(2) == 0 {
						took *= 2
					}
					put(now+40*time.Second, Record{Iteration: &telemetry.Iteration{Job: j.ID, Worker: g, Step: k,
						Took: took,
						Time: now + 40*time.Second}})
				}
				if x.IntN(40) == 0 {
					put(now+20*time.Second, Record{Message: &Message{Time: now + 20*time.Second, Job: j.ID,
						Text: "CUDA out of memory"}})
				}
			}
			if at += ran; x.IntN(4) == 0 {
				event(at, workload.Preempted, j)
				at += time.Duration(1+x.IntN(3)) * minute
				event(at, workload.Resumed, j, workload.NodeShare{Node: name, GPUs: 4})
				at += time.Duration(1+x.IntN(60)) * minute
			}
			event(at, workload.Finished, j)
			at += time.Duration(1+x.IntN(20)) * minute
		}
	}
	slices.SortStableFunc(out, func(a, b sent) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.record.Rank(), b.record.Rank()))
	})
	return out
}

// found scans records, with steps to other instants between them where between is set, and returns the findings as they
// closed.
func found(t *testing.T, records []sent, between *rand.Rand) []*Finding {
	t.Helper()
	s := newScan(t, Options{Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 4, GPUsPerNode: 4}}},
		Nodes: []string{"a", "b", "c", "d"}, Period: minute, Price: 2})
	for i, x := range records {
		s.must(s.Apply(x.at, x.record))
		if between != nil && i+1 < len(records) && between.IntN(4) == 0 {
			s.must(s.Scanner.Advance(x.at + time.Duration(between.Int64N(int64(records[i+1].at-x.at)+1))))
		}
	}
	s.must(s.Scanner.Advance(14 * hour))
	s.must(s.Scanner.Close())
	return s.found
}

// text writes findings, in order of rule, entity and opening.
func text(list []*Finding) string {
	var lines []string
	for _, f := range list {
		lines = append(lines, fmt.Sprintf("%s %s %v %v %t %.9g %g %s %v", f.Rule, f.Entity, f.Opened, f.Closed, f.Open,
			f.WastedGPUHours, f.Confidence, f.Words, f.Evidence))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

const seeds = 12

// TestAnySteps: a scan that is brought to any instants between its records finds the same.
func TestAnySteps(t *testing.T) {
	rules := map[string]bool{}
	for seed := range uint64(seeds) {
		records := lives(seed)
		list := found(t, records, nil)
		for _, f := range list {
			rules[f.Rule] = true
		}
		if got, want := text(found(t, records, rand.New(rand.NewPCG(seed, 3)))), text(list); got != want {
			t.Fatalf("seed %d: found\n%s\nwithout steps between\n%s", seed, got, want)
		}
	}
	for _, rule := range []string{"crash_loop", "idle_allocation", "memory_pressure", "straggler"} {
		if !rules[rule] {
			t.Errorf("no stream has a finding of %s", rule)
		}
	}
}

// TestOrderWithinInstant: samples, iterations and lines of one instant may come in any order.
func TestOrderWithinInstant(t *testing.T) {
	for seed := range uint64(seeds) {
		records := lives(seed)
		want := text(found(t, records, nil))
		x := rand.New(rand.NewPCG(seed, 5))
		for from := 0; from < len(records); {
			first, to := &records[from], from+1
			for to < len(records) && records[to].at == first.at && records[to].record.Rank() == first.record.Rank() {
				to++
			}
			if first.record.Event == nil { // events of an instant have an order of their own
				x.Shuffle(to-from, func(i, k int) {
					records[from+i], records[from+k] = records[from+k], records[from+i]
				})
			}
			from = to
		}
		if got := text(found(t, records, nil)); got != want {
			t.Fatalf("seed %d: found\n%s\nin another order\n%s", seed, got, want)
		}
	}
}

// TestFindingsEndWithJobs: no finding about a job, its GPUs or workers is open after its job, and none opens before its
// evidence or closes before it opened.
func TestFindingsEndWithJobs(t *testing.T) {
	for seed := range uint64(seeds) {
		records := lives(seed)
		type run struct{ from, to time.Duration }
		runs := map[string][]run{}
		for _, x := range records {
			e := x.record.Event
			if e == nil {
				continue
			}
			list := runs[e.Job.ID]
			switch e.Kind {
			case workload.Started, workload.Resumed:
				runs[e.Job.ID] = append(list, run{x.at, 0})
			case workload.Preempted, workload.Finished:
				list[len(list)-1].to = x.at
			}
		}
		for _, f := range found(t, records, nil) {
			opened, closed, began := f.Opened.Sub(time.Time{}), f.Closed.Sub(time.Time{}), f.Began.Sub(time.Time{})
			if began > opened || closed < opened {
				t.Errorf("seed %d: %s %s began %v, opened %v, closed %v", seed, f.Rule, f.Entity, began, opened, closed)
			}
			if f.WastedGPUHours < 0 || f.WastedGPUHours > 16*(closed-began).Hours()+1e-9 && f.Rule != "crash_loop" ||
				f.Cost != 2*f.WastedGPUHours {
				t.Errorf("seed %d: %s %s wastes %g GPU-hours in %v", seed, f.Rule, f.Entity, f.WastedGPUHours,
					closed-began)
			}
			if f.Job == "" {
				continue
			}
			if !slices.ContainsFunc(runs[f.Job],
				func(r run) bool { return r.from <= opened && closed <= r.to }) || f.Open {
				t.Errorf("seed %d: %s %s of job %s is open from %v to %v (%t), the job ran %v", seed, f.Rule,
					f.Entity, f.Job,
					opened, closed, f.Open, runs[f.Job])
			}
		}
	}
}

// TestResumed: a scan of all events, but samples of the last six hours only, has the open findings of one that went on.
func TestResumed(t *testing.T) {
	for seed := range uint64(seeds) {
		records := lives(seed)
		x := rand.New(rand.NewPCG(seed, 9))
		for range 4 {
			cut := x.IntN(len(records))
			open := func(list []sent) string {
				s := newScan(t, Options{Cluster: workload.Uniform(4, 4), Nodes: []string{"a", "b", "c", "d"},
					Period: minute})
				for _, one := range list {
					s.must(s.Apply(one.at, one.record))
				}
				var out []string
				for _, f := range s.Open() {
					out = append(out, f.Rule+" "+f.Entity.String()+" "+f.Opened.String())
				}
				return strings.Join(out, "\n")
			}
			var late []sent
			for _, one := range records[:cut] {
				if one.record.GPU == nil || one.at > records[cut].at-6*hour {
					late = append(late, one)
				}
			}
			if got, want := open(late), open(records[:cut]); got != want {
				t.Errorf("seed %d, after %d records: open are\n%s\nwant\n%s", seed, cut, got, want)
			}
		}
	}
}
