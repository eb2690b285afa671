package generation_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// sample returns the built-in trace.
func sample(t testing.TB) *workload.Workload {
	t.Helper()
	w, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// moment is a request on the embedded sample at an instant, as it would be on a
// cluster without queues.
func moment(t testing.TB, at time.Duration, count int, seed uint64) (*workload.Workload, generation.Request) {
	t.Helper()
	return momentOf(t, sample(t), at, count, seed)
}

func momentOf(t testing.TB, w *workload.Workload, at time.Duration, count int, seed uint64) (*workload.Workload,
	generation.Request) {
	t.Helper()
	first, _ := w.Span()
	at += first
	jobs := w.Window(first, at).Jobs()
	r := generation.Request{At: at, Submitted: jobs, Records: durations.Known(durations.Unqueued(jobs), at),
		Horizon: 4 * time.Hour, Count: count, Seed: seed}
	for _, j := range r.Records {
		if !j.Ended {
			r.Active = append(r.Active, j)
		}
	}
	return w, r
}

func foresee(t testing.TB, e *generation.Engine, r generation.Request) []generation.Future {
	t.Helper()
	futures, err := e.Futures(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return futures
}

func engine(t testing.TB, method string) *generation.Engine {
	t.Helper()
	m, err := generation.ParseMethod(method)
	if err != nil {
		t.Fatal(err)
	}
	return generation.NewEngine(sample(t).Zero(), m)
}

// engineMethods combine methods for arrivals and durations; "" is the default,
// ensemble/predicted.
var engineMethods = []string{"", "repeat", "paper", "ridge/history"}

func TestEngineFutures(t *testing.T) {
	testshared.Full(t)
	for _, m := range engineMethods {
		t.Run(m, func(t *testing.T) {
			_, r := moment(t, 40*time.Hour, 5, 1)
			past := map[string]bool{}
			for _, j := range r.Submitted {
				past[j.ID] = true
			}
			futures := foresee(t, engine(t, m), r)
			if len(futures) != 5 {
				t.Fatalf("%d futures", len(futures))
			}
			for k, f := range futures {
				if len(f.Left) != len(r.Active) {
					t.Fatalf("future %d: %d remaining durations of %d jobs", k, len(f.Left), len(r.Active))
				}
				for i, l := range f.Left {
					if l <= 0 {
						t.Errorf("future %d: %v left of %s", k, l, r.Active[i].ID)
					}
				}
				for _, j := range f.Arrivals.Jobs() {
					name, _, _ := strings.Cut(j.ID, "+")
					if j.Submit < r.At || j.Submit >= r.At+r.Horizon || j.Duration <= 0 || !past[name] {
						t.Errorf("future %d: %+v", k, j)
					}
				}
			}
		})
	}
}

// TestEngineMovesDeadlines: a job that comes again should end as long after it was
// submitted as before.
func TestEngineMovesDeadlines(t *testing.T) {
	if testing.Short() {
		t.Skip("makes futures by every method")
	}
	for _, m := range engineMethods {
		_, r := moment(t, 40*time.Hour, 2, 1)
		for i := range r.Submitted {
			r.Submitted[i].Deadline = r.Submitted[i].Submit + time.Duration(i%2)*3*time.Hour - time.Minute
		}
		for k, f := range foresee(t, engine(t, m), r) {
			for _, j := range f.Arrivals.Jobs() {
				if after := j.Deadline - j.Submit; after != 3*time.Hour-time.Minute && after != -time.Minute {
					t.Fatalf("%q, future %d: a deadline %v after the submission", m, k, after)
				}
			}
		}
	}
}

// TestEngineForgetsNothingAndRemembersNothing: an engine that has made futures
// before, at other instants, makes the same as a fresh one.
func TestEngineForgetsNothingAndRemembersNothing(t *testing.T) {
	testshared.Full(t)
	all := sample(t)
	var some []workload.Job
	for i, j := range all.Jobs() {
		if i%5 == 0 {
			some = append(some, j)
		}
	}
	w, err := workload.New("some", all.Zero(), some)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range engineMethods {
		used := engine(t, m)
		for _, hour := range []time.Duration{30, 49, 33} {
			_, r := momentOf(t, w, hour*time.Hour, 3, 9)
			got, want := foresee(t, used, r), foresee(t, engine(t, m), r)
			for k := range got {
				if diff := cmp.Diff(want[k].Left, got[k].Left); diff != "" {
					t.Fatalf("%s at hour %d, future %d (-fresh +used):\n%s", m, hour, k, diff)
				}
				if diff := cmp.Diff(want[k].Arrivals.Jobs(), got[k].Arrivals.Jobs()); diff != "" {
					t.Fatalf("%s at hour %d, future %d (-fresh +used):\n%s", m, hour, k, diff)
				}
			}
		}
	}
}

// TestEngineKeepsBatchesTogether: jobs that come again in a batch have the
// durations they had.
func TestEngineKeepsBatchesTogether(t *testing.T) {
	testshared.Full(t)
	_, r := moment(t, 60*time.Hour, 8, 2)
	ran := map[string]time.Duration{}
	for _, rec := range r.Records {
		if rec.Ended {
			ran[rec.ID] = max(rec.Ran, time.Second)
		}
	}
	jobs := 0
	for _, f := range foresee(t, engine(t, "ridge"), r) {
		for _, j := range f.Arrivals.Jobs() {
			name, _, _ := strings.Cut(j.ID, "+")
			if d, ok := ran[name]; ok && d != j.Duration {
				t.Errorf("%s took %v, and %v when it came again", name, d, j.Duration)
			}
			jobs++
		}
	}
	if jobs == 0 {
		t.Error("nothing arrives")
	}
}

// TestEngineWithoutHistory repeats the last hour until there is a day of history.
func TestEngineWithoutHistory(t *testing.T) {
	_, r := moment(t, 5*time.Hour, 2, 3)
	got, want := foresee(t, engine(t, "ensemble"), r), foresee(t, engine(t, "repeat"), r)
	for k := range got {
		if diff := cmp.Diff(want[k].Arrivals.Jobs(), got[k].Arrivals.Jobs()); diff != "" {
			t.Errorf("future %d:\n%s", k, diff)
		}
	}
	r = generation.Request{At: r.At, Horizon: r.Horizon, Count: r.Count}
	if f := foresee(t, engine(t, ""), r); f[0].Arrivals.Len() != 0 || len(f[0].Left) != 0 {
		t.Errorf("%+v", f[0])
	}
}

func TestEngineRefuses(t *testing.T) {
	for _, m := range []string{"magic", "ridge/magic", "repeat/", "/predicted", "a/b/c"} {
		parsed, err := generation.ParseMethod(m)
		if again, e := generation.ParseMethod(parsed.String()); err == nil &&
			(e != nil || again.String() != parsed.String()) {
			t.Errorf("%q is %s, and that is %s", m, parsed, again)
		}
		if bad := m == "magic" || m == "ridge/magic" || m == "a/b/c"; bad != (err != nil) {
			t.Errorf("%q: %v", m, err)
		}
	}
	_, r := moment(t, 40*time.Hour, 2, 3)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := engine(t, "ensemble/predicted").Futures(ctx, r); err == nil {
		t.Error("a cancelled engine answers")
	}
}

func BenchmarkEngine(b *testing.B) {
	for _, m := range []string{"repeat/history", "ensemble/history", "ensemble/predicted"} {
		b.Run(m, func(b *testing.B) {
			_, r := moment(b, 60*time.Hour, 4, 2)
			e := engine(b, m)
			foresee(b, e, r)
			b.ReportAllocs()
			for b.Loop() {
				foresee(b, e, r)
			}
		})
	}
}
