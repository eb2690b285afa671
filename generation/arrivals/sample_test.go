package arrivals

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
)

// busy makes days of jobs in sweeps, with a daily shape.
func busy(seed uint64, days int) []workload.Job {
	r := rand.New(rand.NewPCG(seed, 3))
	var jobs []workload.Job
	for at := time.Duration(0); at < time.Duration(days)*day; {
		tenant := string(rune('a' + r.IntN(4)))
		size := 1
		if r.IntN(4) == 0 {
			size += r.IntN(40)
		}
		for range size {
			jobs = append(jobs, job(len(jobs), tenant, at))
			at += time.Duration(r.IntN(20)) * time.Second
		}
		quiet := 1.0
		if hour := at % day / time.Hour; hour < 8 {
			quiet = 4
		}
		at += time.Duration(quiet * r.ExpFloat64() * float64(8*time.Minute))
	}
	return jobs
}

func names() (out []string) {
	for _, m := range Methods {
		out = append(out, m.Name)
	}
	return out
}

func sample(t interface{ Fatal(...any) }, f *Forecaster, h *History, n int, seed uint64) []Future {
	got, err := f.Sample(context.Background(), h, n, seed)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func forecaster(t interface{ Fatal(...any) }, method string, horizon time.Duration) *Forecaster {
	choice, err := Parse(method)
	if err != nil {
		t.Fatal(err)
	}
	if choice.String() != method {
		t.Fatal(method, "is", choice)
	}
	f, err := New(Options{Method: choice, Horizon: horizon})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFuturesAreWhole: in time, in order, counted right, made of past jobs, and
// a batch keeps its jobs' order and gaps.
func TestFuturesAreWhole(t *testing.T) {
	jobs := busy(1, 5)
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom([]string{"repeat", "paper", "ridge"}).Draw(t, "method")
		horizon := time.Duration(rapid.IntRange(1, 8).Draw(t, "half hours")) * 30 * time.Minute
		end := time.Duration(rapid.Int64Range(0, int64(5*day)).Draw(t, "end"))
		h := mustHistory(t, time.Time{}, jobs, end)
		for k, f := range sample(t, forecaster(t, method, horizon), h, 5, rapid.Uint64().Draw(t, "seed")) {
			if len(f.Jobs) != int(horizon/h.bin) || len(f.Batches) != len(f.Jobs) {
				t.Fatalf("future %d has %d bins of jobs and %d of batches", k, len(f.Jobs), len(f.Batches))
			}
			counts := make([]int, len(f.Jobs))
			type place struct {
				batch int32
				shift time.Duration
			}
			latest := map[place]int{}
			for i, a := range f.Arrivals {
				if a.Source < 0 || a.Source >= len(h.Jobs()) || a.At < end || a.At >= end+horizon ||
					i > 0 && a.At < f.Arrivals[i-1].At {
					t.Fatalf("future %d: arrival %d is job %d of %d at %v, not in order within [%v, %v)",
						k, i, a.Source, len(h.Jobs()), a.At, end, end+horizon)
				}
				counts[(a.At-end)/h.bin]++
				p := place{h.batch[a.Source], a.At - h.Jobs()[a.Source].Submit}
				if last, ok := latest[p]; ok {
					if next, ok := h.after(last); !ok || next != a.Source {
						t.Fatalf("future %d: after job %d of a batch comes %d, not %d", k, last, a.Source, next)
					}
				}
				latest[p] = a.Source
			}
			if diff := cmp.Diff(counts, f.Jobs); diff != "" {
				t.Fatalf("future %d miscounts its jobs:\n%s", k, diff)
			}
			began := 0
			for _, n := range f.Batches {
				began += n
			}
			if began > len(latest) {
				t.Fatalf("future %d says that %d batches begin and has %d", k, began, len(latest))
			}
		}
	})
}

// TestNothingAfterTheInstantEnters: a forecast is the same whatever comes, and
// whatever jobs turn out to take.
func TestNothingAfterTheInstantEnters(t *testing.T) {
	testshared.Full(t)
	jobs, other := busy(1, 12), busy(1, 12)
	at := 9*day + 10*time.Hour + 7*time.Minute
	kept := 0
	for i := range other {
		if other[i].Submit < at {
			other[i].Duration *= 7
			kept = i + 1
		}
	}
	other = other[:kept]
	for i, n := 0, len(jobs)-kept; i < n; i++ {
		other = append(other, job(kept+i, "z", at+time.Duration(i)*time.Second))
	}
	for _, method := range names() {
		a := sample(t, forecaster(t, method, 2*time.Hour), mustHistory(t, time.Time{}, jobs, 12*day).Until(at), 8, 1)
		b := sample(t, forecaster(t, method, 2*time.Hour), mustHistory(t, time.Time{}, other, 12*day).Until(at), 8, 1)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s sees what comes:\n%s", method, diff)
		}
	}
}

// TestForecastersAreFunctions: of the history, the number and the seed. Former
// forecasts do not matter, nor does another history in between.
func TestForecastersAreFunctions(t *testing.T) {
	testshared.Full(t)
	h := mustHistory(t, time.Time{}, busy(1, 6), 6*day)
	another := mustHistory(t, time.Time{}, busy(2, 6), 6*day)
	for _, method := range names() {
		rolled := forecaster(t, method, time.Hour)
		for at := 10 * time.Minute; at < 6*day; at += 7 * time.Hour {
			sample(t, rolled, h.Until(at), 1, 0)
		}
		at := 5*day + 5*time.Hour
		want := sample(t, forecaster(t, method, time.Hour), h.Until(at), 8, 3)
		check := func(what string, got []Future) {
			if diff := cmp.Diff(want[:len(got)], got); diff != "" {
				t.Errorf("%s: %s:\n%s", method, what, diff)
			}
		}
		check("after later instants", sample(t, rolled, h.Until(at), 8, 3))
		check("again", sample(t, rolled, h.Until(at), 8, 3))
		check("the first three only", sample(t, rolled, h.Until(at), 3, 3))
		sample(t, rolled, another, 1, 0)
		check("after another history", sample(t, rolled, h.Until(at), 8, 3))
		if method == "ridge" && cmp.Equal(want, sample(t, rolled, h.Until(at), 8, 4)) {
			t.Errorf("%s: another seed, the same futures", method)
		}
	}
}

// TestColdStart: a history of nothing, a moment, an hour or a day is enough for
// an answer, and its arrivals come again.
func TestColdStart(t *testing.T) {
	if testing.Short() {
		t.Skip("learns from histories of up to a month by every method")
	}
	one := []workload.Job{job(0, "a", 30*time.Minute)}
	for _, method := range names() {
		f := forecaster(t, method, 4*time.Hour)
		for _, h := range []*History{
			mustHistory(t, time.Time{}, nil, 0),
			mustHistory(t, time.Time{}, nil, 100*time.Hour),
			mustHistory(t, time.Time{}, one, 31*time.Minute),
			mustHistory(t, time.Time{}, one, 30*day),
			mustHistory(t, time.Time{}, busy(1, 1), 5*time.Hour),
			mustHistory(t, time.Time{}, busy(1, 3), 50*time.Hour),
		} {
			for _, future := range sample(t, f, h, 3, 1) {
				if len(future.Jobs) != 48 {
					t.Errorf("%s: %d bins", method, len(future.Jobs))
				}
			}
		}
	}
	for _, method := range names() {
		short := forecaster(t, method, 5*time.Minute)
		for at := 23 * time.Hour; at < 74*time.Hour; at += 55 * time.Minute {
			sample(t, short, mustHistory(t, time.Time{}, busy(1, 4), at), 1, 1)
		}
	}
	young := mustHistory(t, time.Time{}, one, time.Hour)
	for _, method := range []string{"ridge", DefaultMethod} {
		if n := len(sample(t, forecaster(t, method, 4*time.Hour), young, 1, 1)[0].Arrivals); n != 4 {
			t.Errorf("%s: after an hour with one job, %d in four", method, n)
		}
	}
}

// TestTotalsAreMet: a composed future has about as many jobs and batches as it
// should.
func TestTotalsAreMet(t *testing.T) {
	h := mustHistory(t, time.Time{}, busy(1, 10), 10*day)
	c := composer{horizon: 12}
	c.gather(h, 10*day)
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		d := draw{edge: r.IntN(h.bins() - 12), scaled: true, jobs: float64(r.IntN(200))}
		d.batches = min(float64(1+r.IntN(15)), d.jobs)
		f := c.compose(h, d, r)
		if n := len(f.Arrivals); distance(n, int(d.jobs)) > int(d.jobs)/50+2 {
			began, groups := 0, len(c.groups)
			for _, b := range f.Batches {
				began += b
			}
			// Batches under way cannot be made larger, nor can one batch
			// be larger than any was.
			if !(began == 0 || float64(began) == d.batches && int(d.jobs) > 40*began) {
				t.Errorf("%d jobs in %d batches (%d groups), want %g in %g", n, began, groups, d.jobs, d.batches)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if c, err := Parse("magic"); err == nil {
		t.Errorf("magic accepted as %s", c)
	}
	for _, o := range []Options{{Horizon: -1}, {Horizon: 8 * day}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
	h := mustHistory(t, time.Time{}, nil, day)
	if _, err := forecaster(t, "repeat", 7*time.Minute).Sample(t.Context(), h, 1, 1); err == nil {
		t.Error("a horizon off the grid accepted")
	}
	if _, err := forecaster(t, "repeat", time.Hour).Sample(t.Context(), h, 0, 1); err == nil {
		t.Error("no future accepted")
	}
}

func TestLearnStops(t *testing.T) {
	h := mustHistory(t, time.Time{}, busy(1, 6), 6*day)
	f := forecaster(t, DefaultMethod, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Learn(ctx, h); err == nil {
		t.Fatal("learned on after the context ended")
	}
	if diff := cmp.Diff(sample(t, forecaster(t, DefaultMethod, time.Hour), h, 2, 1),
		sample(t, f, h, 2, 1)); diff != "" {
		t.Errorf("an interruption shows:\n%s", diff)
	}
}

// TestBatchesCanBeFoundAgain: grouping a future's jobs into batches finds about as
// many as it names, although batches of a tenant may overlap.
func TestBatchesCanBeFoundAgain(t *testing.T) {
	h := mustHistory(t, time.Time{}, busy(1, 12), 12*day)
	f := forecaster(t, "ridge", time.Hour)
	said, found := 0, 0
	for at := 8 * day; at < 12*day; at += time.Hour {
		h := h.Until(at)
		for _, future := range sample(t, f, h, 10, 1) {
			for _, n := range future.Batches {
				said += n
			}
			last := map[string]time.Duration{}
			first, after := h.window(at-workload.BatchGap, at)
			for _, j := range h.Jobs()[first:after] {
				last[j.Tenant] = j.Submit
			}
			for _, a := range future.Arrivals {
				tenant := h.Jobs()[a.Source].Tenant
				if l, ok := last[tenant]; !ok || a.At-l > workload.BatchGap {
					found++
				}
				last[tenant] = a.At
			}
		}
	}
	if ratio := float64(found) / float64(said); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("%d batches in futures that say they have %d", found, said)
	}
}
