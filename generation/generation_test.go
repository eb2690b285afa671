package generation_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/workload"
)

// group is so many ended jobs of a kind, with durations of first, first+1, ...
// seconds, so that a duration drawn tells which group it is from.
type group struct {
	key, tenant string
	gpus        int
	count       int
	first       int
}

func learn(groups ...group) *generation.Durations {
	var past []generation.Past
	for _, g := range groups {
		for i := range g.count {
			past = append(past, generation.Past{Job: workload.Job{ID: fmt.Sprint(len(past)), Key: g.key, Tenant: g.tenant, GPUs: workload.GPUs(g.gpus)},
				Ran: time.Duration(g.first+i) * time.Second, Ended: true})
		}
	}
	return generation.Learn(past)
}

// TestDrawPrefersTheClosestGroup: key, then tenant and GPUs, then GPUs, then
// anything, each only with enough jobs that ran longer than this one has.
func TestDrawPrefersTheClosestGroup(t *testing.T) {
	d := learn(
		group{"sweep", "vision", 1, 20, 1000},
		group{"rare", "vision", 1, 3, 500},
		group{"", "vision", 1, 20, 2000},
		group{"", "speech", 1, 20, 3000},
		group{"", "speech", 8, 20, 4000},
	)
	for _, tt := range []struct {
		name      string
		job       workload.Job
		ran       time.Duration
		low, high int // seconds, of the groups it may come from
	}{
		{"its key", workload.Job{Key: "sweep", Tenant: "speech", GPUs: workload.GPUs(8)}, 0, 1000, 1019},
		{"its key, the longer ones", workload.Job{Key: "sweep", Tenant: "vision", GPUs: workload.GPUs(1)}, 1005 * time.Second, 1006, 1019},
		{"too few of its key are longer", workload.Job{Key: "sweep", Tenant: "vision", GPUs: workload.GPUs(1)}, 1015 * time.Second, 1016, 2019},
		{"none of its key is longer", workload.Job{Key: "sweep", Tenant: "vision", GPUs: workload.GPUs(1)}, 1019 * time.Second, 2000, 2019},
		{"too few of its key", workload.Job{Key: "rare", Tenant: "speech", GPUs: workload.GPUs(8)}, 0, 4000, 4019},
		{"tenant and GPUs", workload.Job{Key: "new", Tenant: "speech", GPUs: workload.GPUs(1)}, 0, 3000, 3019},
		{"part of a GPU is one", workload.Job{Tenant: "speech", GPUs: 300}, 0, 3000, 3019},
		{"GPUs, whoever's", workload.Job{Tenant: "nobody", GPUs: workload.GPUs(8)}, 0, 4000, 4019},
		{"anything", workload.Job{Tenant: "nobody", GPUs: workload.GPUs(3)}, 3500 * time.Second, 4000, 4019},
		{"what is left of anything", workload.Job{Tenant: "nobody", GPUs: workload.GPUs(3)}, 4015 * time.Second, 4016, 4019},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		seen := map[time.Duration]bool{}
		for range 500 {
			got := d.Draw(r, &tt.job, tt.ran)
			seen[got] = true
			if got < time.Duration(tt.low)*time.Second || got > time.Duration(tt.high)*time.Second {
				t.Errorf("%s: drew %v, want %d to %d s", tt.name, got, tt.low, tt.high)
				break
			}
		}
		if len(seen) < 3 {
			t.Errorf("%s: 500 draws gave only %v", tt.name, seen)
		}
	}
	if d.Len() != 83 {
		t.Errorf("%d durations learnt of 83", d.Len())
	}
}

// TestDrawIsLongerThanRan, whatever history there is: a job that still runs has
// not ended yet.
func TestDrawIsLongerThanRan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var groups []group
		for range rapid.IntRange(0, 5).Draw(t, "groups") {
			groups = append(groups, group{rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"), rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "tenant"),
				rapid.IntRange(1, 3).Draw(t, "GPUs"), rapid.IntRange(1, 12).Draw(t, "count"), rapid.IntRange(0, 100_000).Draw(t, "seconds")})
		}
		d := learn(groups...)
		j := workload.Job{Key: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key"), Tenant: rapid.SampledFrom([]string{"", "x", "z"}).Draw(t, "tenant"),
			GPUs: workload.MilliGPU(rapid.IntRange(1, 4000).Draw(t, "milli-GPUs"))}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		ran := time.Duration(rapid.Int64Range(0, int64(workload.MaxDuration)).Draw(t, "ran"))
		if rapid.Bool().Draw(t, "short") {
			ran = time.Duration(rapid.IntRange(0, 100_100).Draw(t, "ran")) * time.Second
		}
		for range 10 {
			got := d.Draw(r, &j, ran)
			if got <= ran {
				t.Fatalf("has run for %v, drew %v", ran, got)
			}
			j.ID = "drawn"
			if left := got - ran; left > workload.MaxDuration {
				t.Fatalf("has run for %v, drew %v more", ran, left)
			}
		}
	})
}

// TestLearnOnlyFromEnded: how long a running job has run so far is no duration.
func TestLearnOnlyFromEnded(t *testing.T) {
	d := generation.Learn([]generation.Past{{Job: workload.Job{ID: "runs"}, Ran: time.Hour}, {Job: workload.Job{ID: "ended"}, Ran: time.Minute, Ended: true}})
	if d.Len() != 1 {
		t.Errorf("learnt %d durations", d.Len())
	}
}

// hour is a request at 10 h with an hour of history: two active jobs, of which
// one came in that hour, and some that ended.
func hour() generation.Request {
	past := func(id string, submit, ran time.Duration, ended bool) generation.Past {
		return generation.Past{Job: workload.Job{ID: id, Key: "k", Tenant: "x", GPUs: workload.GPUs(2), Submit: submit}, Ran: ran, Ended: ended}
	}
	at := 10 * time.Hour
	old, young := past("old", time.Hour, 2*time.Hour, false), past("young", at-10*time.Minute, time.Minute, false)
	return generation.Request{
		At: at, Active: []generation.Past{old, young},
		Recent:    []generation.Past{past("first", at-time.Hour, 30*time.Minute, true), past("second", at-30*time.Minute, 0, true), young, past("last", at-1, 5*time.Second, true)},
		Durations: learn(group{"k", "x", 2, 200, 1000}, group{"k", "x", 2, 200, 9000}),
		Horizon:   150 * time.Minute, Count: 3, Seed: 7,
	}
}

func TestRepeat(t *testing.T) {
	r := hour()
	r.Recent[0].Deadline = r.Recent[0].Submit + 20*time.Minute
	futures, err := generation.Repeat(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(futures) != r.Count {
		t.Fatalf("%d futures of %d", len(futures), r.Count)
	}
	for k, f := range futures {
		if len(f.Left) != 2 || f.Left[0] <= 0 || f.Left[1] <= 0 {
			t.Errorf("future %d: remaining %v", k, f.Left)
		}
		var ids []string
		for i := range f.Arrivals.Jobs() {
			j := &f.Arrivals.Jobs()[i]
			ids = append(ids, j.ID)
			if j.Submit < r.At || j.Submit >= r.At+r.Horizon {
				t.Errorf("future %d: %s arrives at %v, not within [%v, %v)", k, j.ID, j.Submit, r.At, r.At+r.Horizon)
			}
			name, _, _ := strings.Cut(j.ID, "+")
			for _, p := range r.Recent {
				if p.ID != name {
					continue
				}
				if since := j.Submit - p.Submit; since <= 0 || since%generation.Window != 0 {
					t.Errorf("future %d: %s comes %v after %s", k, j.ID, since, name)
				}
				if j.GPUs != p.GPUs || j.Key != p.Key || j.Tenant != p.Tenant {
					t.Errorf("future %d: %+v repeats %+v", k, j, p.Job)
				}
				if p.Deadline == 0 && j.Deadline != 0 || p.Deadline != 0 && j.Deadline-j.Submit != p.Deadline-p.Submit {
					t.Errorf("future %d: %s has a deadline %v after its submission, and its repetition %v", k, name, p.Deadline-p.Submit, j.Deadline-j.Submit)
				}
				if !p.Ended && j.Duration <= p.Ran {
					t.Errorf("future %d: %s has run for %v and its repetition takes %v", k, name, p.Ran, j.Duration)
				}
			}
		}
		// Two and a half hours: the first half of the hour comes a third time, and
		// what came at its very begin starts each.
		want := "first+1h second+1h young+1h last+1h first+2h second+2h young+2h last+2h first+3h"
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("future %d: %s, want %s", k, got, want)
		}
		if d := f.Arrivals.Jobs()[0].Duration; d != 30*time.Minute {
			t.Errorf("future %d: the repetition of a job of 30 min takes %v", k, d)
		}
		if d := f.Arrivals.Jobs()[1].Duration; d != time.Second {
			t.Errorf("future %d: the repetition of a job that ended at once takes %v, want the least, a second", k, d)
		}
	}
}

// flat makes a future comparable.
func flat(f generation.Future) any {
	return struct {
		Left []time.Duration
		Jobs []workload.Job
	}{f.Left, f.Arrivals.Jobs()}
}

func TestRepeatIsDecidedByTheSeed(t *testing.T) {
	draw := func(change func(*generation.Request)) []generation.Future {
		r := hour()
		change(&r)
		f, err := generation.Repeat(r)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	same := func(*generation.Request) {}
	a, b := draw(same), draw(same)
	other := draw(func(r *generation.Request) { r.Seed++ })
	fewer := draw(func(r *generation.Request) { r.Count = 1 })
	quiet := draw(func(r *generation.Request) { r.Recent = nil })
	for k := range a {
		if diff := cmp.Diff(flat(a[k]), flat(b[k])); diff != "" {
			t.Errorf("future %d, drawn twice:\n%s", k, diff)
		}
		if cmp.Equal(a[k].Left, other[k].Left) {
			t.Errorf("future %d: the same remaining durations with another seed", k)
		}
		if diff := cmp.Diff(a[k].Left, quiet[k].Left); diff != "" {
			t.Errorf("future %d: without arrivals the active jobs go on otherwise:\n%s", k, diff)
		}
		for l := range a[:k] {
			if cmp.Equal(a[k].Left, a[l].Left) {
				t.Errorf("futures %d and %d have the same remaining durations", k, l)
			}
			if cmp.Equal(a[k].Arrivals.Jobs(), a[l].Arrivals.Jobs()) {
				t.Errorf("futures %d and %d have the same arrivals", k, l)
			}
		}
	}
	if diff := cmp.Diff(flat(a[0]), flat(fewer[0])); diff != "" {
		t.Errorf("the first future depends on how many there are:\n%s", diff)
	}
}

// TestRepeatWithoutHistory: at a cold start there is nothing to draw from, and
// nothing to repeat.
func TestRepeatWithoutHistory(t *testing.T) {
	r := hour()
	r.Durations, r.Recent = generation.Learn(nil), nil
	futures, err := generation.Repeat(r)
	if err != nil {
		t.Fatal(err)
	}
	for k, f := range futures {
		if f.Arrivals.Len() != 0 || len(f.Left) != 2 || f.Left[0] <= 0 || f.Left[1] <= 0 {
			t.Errorf("future %d: remaining %v, %d arrivals", k, f.Left, f.Arrivals.Len())
		}
	}
}

// TestReplay: what is known stays, what is not is drawn, for an hour ago.
func TestReplay(t *testing.T) {
	d := learn(group{"k", "x", 2, 200, 20000})
	job := workload.Job{ID: "a", Key: "k", Tenant: "x", GPUs: workload.GPUs(2), Submit: time.Hour}
	named := func(id string) workload.Job { j := job; j.ID = id; return j }
	active := []generation.Past{
		{Job: named("ended"), Ran: 3 * time.Hour, Ended: true},
		{Job: named("runs"), Ran: 4 * time.Hour},
		{Job: named("killed early"), Ran: time.Hour, Ended: true},
	}
	then := []time.Duration{time.Hour, 2 * time.Hour, time.Hour}
	arrivals := []generation.Past{{Job: named("came and ended"), Ran: time.Minute, Ended: true}, {Job: named("came"), Ran: 10 * time.Minute}}
	replays, err := generation.Replay(time.Time{}, active, then, arrivals, d, 4, 3)
	if err != nil {
		t.Fatal(err)
	}
	for k, f := range replays {
		if f.Left[0] != 2*time.Hour {
			t.Errorf("replay %d: 3 h in all, 1 h done, %v left", k, f.Left[0])
		}
		if f.Left[1] <= 2*time.Hour {
			t.Errorf("replay %d: it has run 4 h by now and 2 h then, and had %v left", k, f.Left[1])
		}
		if f.Left[2] != time.Second {
			t.Errorf("replay %d: nothing was left, the least is a second, not %v", k, f.Left[2])
		}
		jobs := f.Arrivals.Jobs()
		if jobs[0].Duration != time.Minute || jobs[1].Duration <= 10*time.Minute {
			t.Errorf("replay %d: arrivals take %v and %v", k, jobs[0].Duration, jobs[1].Duration)
		}
		if k > 0 && f.Left[1] == replays[0].Left[1] && jobs[1].Duration == replays[0].Arrivals.Jobs()[1].Duration {
			t.Errorf("replays 0 and %d are the same", k)
		}
	}
}
