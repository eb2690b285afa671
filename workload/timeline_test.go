package workload

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func one(string) int { return 1 }

// TestTimelineIsTheJobs: the rows and buckets of any timeline add up to what the jobs held and asked for in it, and
// each cell counts the jobs that were there.
func TestTimelineIsTheJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		by := TimelineBy(rapid.IntRange(0, 1).Draw(t, "by"))
		from := time.Duration(rapid.IntRange(0, 50).Draw(t, "from")) * time.Minute
		to := from + time.Duration(rapid.IntRange(1, 50).Draw(t, "span"))*time.Minute
		b := NewTimeline(by, from, to, to)
		rows, buckets := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 9).Draw(t, "buckets")
		step := (to - from).Seconds() / float64(buckets)
		busy, waiting := 0.0, 0.0
		running := make([]int, buckets)
		inside := func(a, z time.Duration) float64 { return max(0, min(z, to)-max(a, from)).Seconds() }
		for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
			h := &JobHistory{ActiveJob: ActiveJob{Job: Job{ID: fmt.Sprint(i), GPUs: GPUs(3),
				Tenant: fmt.Sprint("t", i%4)}}, Ended: true}
			at := time.Duration(rapid.IntRange(0, 60).Draw(t, "submit")) * time.Minute
			h.Submit = at
			ran := make([]bool, buckets)
			for range rapid.IntRange(0, 3).Draw(t, "spells") {
				begin := at + time.Duration(rapid.IntRange(0, 20).Draw(t, "wait"))*time.Minute
				end := begin + time.Duration(rapid.IntRange(1, 20).Draw(t, "run"))*time.Minute
				h.Spells = append(h.Spells, Spell{From: begin, To: end, Held: 3,
					placement: []NodeShare{{Node: fmt.Sprint("n", i%7), GPUs: 3}}})
				busy += 3 * inside(begin, end)
				waiting += 3 * inside(at, begin)
				for k := range ran {
					first := from.Seconds() + float64(k)*step
					ran[k] = ran[k] || inside(begin, end) > 0 && begin.Seconds() < first+step-1e-6 &&
						end.Seconds() > first+1e-6
				}
				at = end
			}
			h.End = at
			for k := range ran {
				if ran[k] {
					running[k]++
				}
			}
			b.Add(h, nil)
		}
		got := b.Build(rows, buckets, one)
		if len(got.Rows) > rows {
			t.Fatalf("%d rows, at most %d", len(got.Rows), rows)
		}
		if by == ByNode {
			waiting = 0
		}
		counts := make([]int, buckets)
		for _, r := range got.Rows {
			for k := range buckets {
				busy -= r.Busy[k] * step
				waiting -= r.Waiting[k] * step
				counts[k] += int(r.Running[k])
				if r.Busy[k] < 0 || r.Waiting[k] < 0 {
					t.Fatal(r)
				}
			}
		}
		if math.Abs(busy) > float64(rows*buckets)*step*1e-3 || math.Abs(waiting) > float64(rows*buckets)*step*1e-3 {
			t.Fatalf("%g GPU-seconds busy and %g waiting are lost in %+v", busy, waiting, got)
		}
		if fmt.Sprint(counts) != fmt.Sprint(running) {
			t.Fatalf("%v jobs ran, want %v: %+v", counts, running, got)
		}
	})
}

// TestTimelineRows: the smaller tenants share the last row, and nodes share rows in the order of their names.
func TestTimelineRows(t *testing.T) {
	tenants, nodes := NewTimeline(ByTenant, 0, time.Hour, time.Hour), NewTimeline(ByNode, 0, time.Hour, time.Hour)
	for i := range 5 {
		h := &JobHistory{ActiveJob: ActiveJob{Job: Job{Tenant: fmt.Sprint("t", i), GPUs: GPUs(1)}, Running: true},
			Spells: []Spell{{From: 0, To: time.Hour, Held: i + 1, placement: []NodeShare{{Node: fmt.Sprint("n", i),
				GPUs: i + 1}}}}}
		tenants.Add(h, nil)
		nodes.Add(h, func(node string) bool { return node != "n0" })
	}
	nodes.Node("idle")
	got := tenants.Build(3, 2, one)
	if r := got.Rows; len(r) != 3 || r[0].First != "t4" || r[1].First != "t3" || r[2].First != "" ||
		r[2].Members != 3 || r[2].Busy[1] != 6 || r[2].Running[0] != 3 {
		t.Errorf("%+v", got)
	}
	got = nodes.Build(2, 1, one)
	if r := got.Rows; len(r) != 2 || r[0].First != "idle" || r[0].Last != "n2" || r[0].Members != 3 || r[0].GPUs != 3 ||
		r[0].Busy[0] != 5 || r[1].Last != "n4" || got.Placed != 1 || got.Jobs != 5 {
		t.Errorf("%+v", got)
	}
}

// TestTimelineIsOfWhatIsKnown: a job that waits is not said to wait after the latest event.
func TestTimelineIsOfWhatIsKnown(t *testing.T) {
	b := NewTimeline(ByTenant, 0, 4*time.Hour, 2*time.Hour)
	b.Add(&JobHistory{ActiveJob: ActiveJob{Job: Job{Tenant: "a", GPUs: GPUs(1)}}}, nil)
	if r := b.Build(1, 4, one).Rows[0]; fmt.Sprint(r.Waiting, r.Queued) != "[1 1 0 0] [1 1 0 0]" {
		t.Error(r)
	}
}

// BenchmarkTimeline is the timeline of a month with a million jobs by 50 tenants in 100 buckets, read from the ledger.
func BenchmarkTimeline(b *testing.B) {
	const n, month = 1_000_000, 28 * 24 * time.Hour
	l := NewLedger(Uniform(100, 8))
	for i := range n {
		id, at := fmt.Sprint(i), month/n*time.Duration(i)
		node := []NodeShare{{Node: fmt.Sprint("n", i%100), GPUs: 1}}
		l.Apply(Event{ID: "s" + id, Kind: Submitted, Time: at,
			Job: Job{ID: id, Tenant: fmt.Sprint("t", i%50), GPUs: GPUs(1)}})
		l.Apply(Event{ID: "r" + id, Kind: Started, Time: at + time.Minute, Job: Job{ID: id}, Placement: node})
		l.Apply(Event{ID: "f" + id, Kind: Finished, Time: at + 10*time.Minute, Job: Job{ID: id}})
	}
	for name, by := range map[string]TimelineBy{"tenants": ByTenant, "nodes": ByNode} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				t := NewTimeline(by, 0, month, month)
				for place, more := (Place{}), true; more; {
					place, more = l.Jobs(0, month, place, func(h *JobHistory) bool { t.Add(h, nil); return true })
				}
				if got := t.Build(50, 100, one); got.Jobs != n || len(got.Rows) != 50 {
					b.Fatal(got.Jobs, len(got.Rows))
				}
			}
		})
	}
}
