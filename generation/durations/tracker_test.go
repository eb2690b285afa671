package durations

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/workload"
)

var zero = time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC)

// job is a record that runs from its submission.
func job(id, tenant string, gpus int, submit, ran time.Duration) Record {
	j := &workload.Job{ID: id, Tenant: tenant, GPUs: workload.GPUs(gpus), Submit: submit, Duration: ran}
	return Record{Job: j, Begin: submit, Until: submit + ran, Ran: ran, Ended: true}
}

func rowAt(t testing.TB, history []Record, i int, at time.Duration) map[string]float64 {
	t.Helper()
	tr, err := NewTracker(history)
	if err != nil {
		t.Fatal(err)
	}
	tr.Advance(at)
	dst := make([]float64, len(Features))
	tr.Row(dst, i)
	out := map[string]float64{}
	for c, f := range Features {
		out[f] = dst[c]
	}
	return out
}

func TestRow(t *testing.T) {
	const m = time.Minute
	history := []Record{
		job("a", "x", 1, 0, 10*m),
		job("b", "x", 1, 30*time.Second, 40*m),
		job("c", "y", 2, 1*m, 3*m),
		job("d", "x", 8, 20*m, 50*m),
		job("e", "x", 1, 20*m+50*time.Second, 70*m),
		job("f", "x", 1, 25*m, 5*m),
	}
	ln := func(d time.Duration) float64 { return math.Log1p(d.Seconds()) }
	got := rowAt(t, history, 4, 30*m) // e, 9 min 10 s after its submission; f has just ended
	for name, want := range map[string]float64{
		"ran": ln(9*m + 10*time.Second), "since_submit": ln(9*m + 10*time.Second), "gpus": 1,
		"tenant_gap": ln(50 * time.Second), "tenant_end1_ran": ln(5 * m), "tenant_end2_ran": ln(10 * m),
		"tenant_end3_ran": math.NaN(),
		// d and e are a batch; before it a and b were one, of which a ended.
		"batch_size": 2, "batch_place": ln(50 * time.Second), "batch_ended": 0, "batch_mean_ran": math.NaN(),
		"batch_first_ran": ln(10 * m), "batch_first_ended": 0,
		"tenant_batch1_size": 2, "tenant_batch1_ended": .5, "tenant_batch1_ran": math.Log(600),
		"tenant_batch2_size": math.NaN(),
		"before1_gap":        ln(50 * time.Second), "before1_same_gpus": 0, "before1_ended": 0,
		"before2_ran": ln(29*m + 30*time.Second), "before2_same_gpus": 1,
		"before_ended1_ran": ln(10 * m), "before_ended2_ran": math.NaN(), "after1_ran": ln(5 * m), "after1_ended": 1,
		"after2_ran": math.NaN(), "after_ended1_gap": ln(4*m + 10*time.Second),
		"key_size": math.NaN(), "similar_ran": ln(10 * m),
	} {
		if g := got[name]; math.Abs(g-want) > 1e-9 || math.IsNaN(g) != math.IsNaN(want) {
			t.Errorf("%s is %g, want %g", name, g, want)
		}
	}
	for _, by := range []string{"near", "tenant", "batches", "width", "kind"} {
		sum := 0.
		for c := range Classes {
			sum += got[fmt.Sprintf("%s_p%d", by, c)]
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("the probabilities by %s add up to %g", by, sum)
		}
		if p := got[by+"_p0"]; p != 0 {
			t.Errorf("by %s: a job that ran 9 min may still end before 5 min (%g)", by, p)
		}
	}
}

// draw makes up a history. Times are whole seconds, so that many things happen at
// once.
func drawHistory(t *rapid.T) []Record {
	var h []Record
	at := time.Duration(0)
	for i := range rapid.IntRange(1, 60).Draw(t, "jobs") {
		at += time.Duration(rapid.SampledFrom([]int{0, 0, 1, 30, 60, 61, 1000, 20000}).Draw(t, "gap")) * time.Second
		r := job(fmt.Sprint(i), rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "tenant"),
			rapid.SampledFrom([]int{1, 1, 1, 8}).Draw(t, "gpus"), at,
			time.Duration(rapid.IntRange(1, 30000).Draw(t, "seconds"))*time.Second)
		r.Key = rapid.SampledFrom([]string{"", "k", "l"}).Draw(t, "key")
		r.User = rapid.SampledFrom([]string{"", "u"}).Draw(t, "user")
		if rapid.IntRange(0, 3).Draw(t, "waits") == 0 {
			wait := time.Duration(rapid.IntRange(0, 5000).Draw(t, "wait")) * time.Second
			r.Begin, r.Until = r.Begin+wait, r.Until+2*wait // stopped in between
		}
		h = append(h, r)
	}
	return h
}

// TestCausal: a row at an instant does not depend on events after
// it. A history that ends there gives the same row.
func TestCausal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		for i := range h { // the known work of a stopped job is not its true pace
			h[i].Until = h[i].Begin + h[i].Ran
		}
		i := rapid.IntRange(0, len(h)-1).Draw(t, "job")
		at := h[i].Submit + time.Duration(rapid.Int64Range(0, int64(h[i].Until-h[i].Submit)-1).Draw(t, "after"))
		cut := Known(h, at)
		whole, err := NewTracker(h)
		if err != nil {
			t.Fatal(err)
		}
		part, err := NewTracker(cut)
		if err != nil {
			t.Fatal(err)
		}
		a, b := make([]float64, len(Features)), make([]float64, len(Features))
		whole.Advance(at)
		whole.Row(a, i)
		part.Advance(at)
		part.Row(b, i)
		for c, f := range Features {
			if a[c] != b[c] && !(math.IsNaN(a[c]) && math.IsNaN(b[c])) {
				t.Fatalf("%s is %g, and %g to one who does not know the future", f, a[c], b[c])
			}
			if math.IsInf(a[c], 0) {
				t.Fatalf("%s is infinite", f)
			}
		}
	})
}

// TestOnePass: rows do not depend on how a tracker came to its instant.
func TestOnePass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		steps, err := NewTracker(h)
		if err != nil {
			t.Fatal(err)
		}
		last := h[len(h)-1].Submit
		a, b := make([]float64, len(Features)), make([]float64, len(Features))
		for at := time.Duration(0); at <= last; at += last/7 + 1 {
			steps.Advance(at)
			if steps.arrived > 0 {
				steps.Row(a, rapid.IntRange(0, steps.arrived-1).Draw(t, "asked"))
			}
		}
		steps.Advance(last)
		leap, err := NewTracker(h)
		if err != nil {
			t.Fatal(err)
		}
		leap.Advance(last)
		for i := range h {
			steps.Row(a, i)
			leap.Row(b, i)
			if !slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || x != x && y != y }) {
				t.Fatalf("job %d: %v\n%v", i, a, b)
			}
		}
	})
}

func TestRowAllocatesNothing(t *testing.T) {
	var h []Record
	for i := range 200 {
		h = append(h, job(fmt.Sprint(i), "x", 1, time.Duration(i)*time.Minute, time.Duration(i%37+1)*time.Minute))
	}
	tr, err := NewTracker(h)
	if err != nil {
		t.Fatal(err)
	}
	tr.Advance(3 * time.Hour)
	dst := make([]float64, len(Features))
	if n := testing.AllocsPerRun(100, func() { tr.Row(dst, 150) }); n > 0 {
		t.Errorf("a row allocates %g times", n)
	}
}

func TestTrackerWantsOrder(t *testing.T) {
	if _, err := NewTracker([]Record{job("a", "", 1, 10, 10), job("b", "", 1, 5, 10)}); err == nil {
		t.Error("a history out of order passed")
	}
}

// TestSurvivalCountsTheRunning: three neighbours of a sweep ended within minutes
// and twenty still run after an hour. The ended ones alone say "short", all
// together say "long".
func TestSurvivalCountsTheRunning(t *testing.T) {
	var h []Record
	for i := range 23 {
		ran := 3 * time.Hour
		if i%8 == 0 {
			ran = 2 * time.Minute
		}
		h = append(h, job(fmt.Sprint(i), "x", 1, time.Duration(i)*time.Second, ran))
	}
	h = append(h, job("asked", "x", 1, time.Hour+time.Minute, time.Hour))
	got := rowAt(t, h, 23, time.Hour+time.Minute)
	if got["near_p0"] > .4 || got["near_p3"]+got["near_p4"]+got["near_p5"] < .5 {
		t.Errorf("neighbours say %.2f below 5 min and %.2f above 1 h",
			got["near_p0"], got["near_p3"]+got["near_p4"]+got["near_p5"])
	}
}

// TestRunningInBins: every job is in the bin of its time so far, in each of its
// groups, at any instant.
func TestRunningInBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		tr, err := NewTracker(h)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Duration(rapid.Int64Range(0, int64(h[len(h)-1].Submit+time.Hour)).Draw(t, "at"))
		tr.Advance(at / 2)
		tr.Advance(at)
		var stopped, running [Bins]float64
		for i := range tr.arrived {
			// Instants are rounded to nanoseconds.
			if b := binOf(max(1, tr.ran(int32(i)).Seconds()+1e-6)); tr.jobs[i].ended {
				stopped[b]++
			} else {
				running[b]++
			}
		}
		if g := &tr.groups[everybody]; g.stopped != stopped || g.running != running {
			t.Fatalf("ended %v, running %v;\nwant %v, %v", g.stopped, g.running, stopped, running)
		}
	})
}

// TestUnqueued: an ended job ran its duration, a running one at least that, a waiting one not at all:
// its duration is a guess.
func TestUnqueued(t *testing.T) {
	of := func(status workload.Status) workload.Job {
		return workload.Job{ID: status.String(), GPUs: workload.GPUs(1), Submit: time.Hour, Duration: 5 * time.Hour,
			Status: status}
	}
	jobs := []workload.Job{of(workload.Completed), of(workload.Running), of(workload.Pending)}
	h := Unqueued(jobs)
	for i, want := range []Record{
		{Job: &jobs[0], Begin: time.Hour, Until: 6 * time.Hour, Ran: 5 * time.Hour, Ended: true},
		{Job: &jobs[1], Begin: time.Hour, Until: 6 * time.Hour, Ran: 5 * time.Hour},
		{Job: &jobs[2], Begin: time.Hour, Until: time.Hour},
	} {
		if h[i] != want {
			t.Errorf("%s: %+v, want %+v", want.ID, h[i], want)
		}
	}
	known := Known(h, 3*time.Hour)
	if known[1].Ran != 2*time.Hour || known[2].Ran != 0 || known[2].Ended {
		t.Errorf("two hours on: %+v", known)
	}
}

func TestKnown(t *testing.T) {
	const m = time.Minute
	h := []Record{job("ended", "x", 1, 0, 10*m), job("runs", "x", 1, 5*m, 20*m), job("later", "x", 1, 16*m, m)}
	waits := job("waits", "x", 1, 6*m, 5*m)
	waits.Begin, waits.Until = 30*m, 35*m
	h = slices.Insert(h, 2, waits)
	got := Known(h, 15*m)
	if len(got) != 3 {
		t.Fatalf("%d jobs known, want 3", len(got))
	}
	for i, want := range []struct {
		ran   time.Duration
		ended bool
	}{{10 * m, true}, {10 * m, false}, {0, false}} {
		if got[i].Ran != want.ran || got[i].Ended != want.ended {
			t.Errorf("%s has run %v, ended %v", got[i].ID, got[i].Ran, got[i].Ended)
		}
	}
	if h[1].Ran != 20*m {
		t.Error("the history was changed")
	}
}

// TestObserved builds the history from a scheduler's events.
func TestObserved(t *testing.T) {
	const m = time.Minute
	l := workload.NewLedger(workload.Uniform(1, 8))
	n := 0
	event := func(kind workload.EventKind, id string, at time.Duration) {
		n++
		e := workload.Event{ID: fmt.Sprint(n), Kind: kind, Time: at,
			Job: workload.Job{ID: id, Tenant: "x", GPUs: workload.GPUs(1)}}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		l.Apply(e)
	}
	event(workload.Submitted, "old", 0)
	event(workload.Started, "old", 0)
	event(workload.Finished, "old", m)
	event(workload.Submitted, "done", 10*m)
	event(workload.Started, "done", 12*m)
	event(workload.Finished, "done", 20*m)
	event(workload.Submitted, "stopped", 11*m)
	event(workload.Started, "stopped", 12*m)
	event(workload.Preempted, "stopped", 14*m)
	event(workload.Resumed, "stopped", 20*m)
	event(workload.Submitted, "waits", 25*m)
	event(workload.Submitted, "runs", 26*m)
	event(workload.Started, "runs", 27*m)
	got := Observed(l, 30*m, 20*m, func(held time.Duration, starts int, _ *workload.Job) time.Duration {
		return held - time.Duration(starts-1)*m
	})
	type seen struct {
		id                string
		begin, until, ran time.Duration
		ended             bool
	}
	want := []seen{{"done", 12 * m, 20 * m, 8 * m, true}, {"stopped", 11 * m, 30 * m, 11 * m, false},
		{"waits", 30 * m, 30 * m, 0, false}, {"runs", 27 * m, 30 * m, 3 * m, false}}
	var all []seen
	for _, r := range got {
		all = append(all, seen{r.ID, r.Begin, r.Until, r.Ran, r.Ended})
	}
	if !slices.Equal(all, want) {
		t.Errorf("observed %+v\nwant %+v", all, want)
	}
}
