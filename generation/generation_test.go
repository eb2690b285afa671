package generation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/workload"
)

// record is the knowledge about a job.
func record(id string, submit, ran time.Duration, ended bool) durations.Record {
	return durations.Record{Job: &workload.Job{ID: id, Key: "k", Tenant: "x", GPUs: workload.GPUs(2), Submit: submit},
		Begin: submit, Until: submit + ran, Ran: ran, Ended: ended}
}

// ended are 200 jobs that ran for first, first+1, ... seconds.
func ended(first int) []durations.Record {
	var out []durations.Record
	for i := range 200 {
		out = append(out, record(fmt.Sprint(first+i), 0, time.Duration(first+i)*time.Second, true))
	}
	return out
}

// hour is a request at 10 h with an hour of arrivals: two active jobs, of which
// one came in that hour, and some that ended.
func hour() generation.Request {
	at := 10 * time.Hour
	old, young := record("old", time.Hour, 2*time.Hour, false), record("young", at-10*time.Minute, time.Minute, false)
	recent := []durations.Record{record("first", at-time.Hour, 30*time.Minute, true),
		record("second", at-30*time.Minute, 0, true), young, record("last", at-1, 5*time.Second, true)}
	r := generation.Request{At: at, Active: []durations.Record{old, young},
		Records: append(append(ended(1000), old), recent...),
		Horizon: 150 * time.Minute, Count: 3, Seed: 7}
	for _, p := range recent {
		r.Submitted = append(r.Submitted, *p.Job)
	}
	return r
}

func repeat(t *testing.T, r generation.Request) []generation.Future {
	t.Helper()
	m, err := generation.ParseMethod("repeat/history")
	if err != nil {
		t.Fatal(err)
	}
	futures, err := generation.NewEngine(time.Time{}, m).Futures(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return futures
}

func TestRepeat(t *testing.T) {
	r := hour()
	r.Submitted[0].Deadline = r.Submitted[0].Submit + 20*time.Minute
	futures := repeat(t, r)
	if len(futures) != r.Count {
		t.Fatalf("%d futures of %d", len(futures), r.Count)
	}
	for k, f := range futures {
		if len(f.Left) != 2 || f.Left[0] <= 0 || f.Left[1] <= 0 {
			t.Errorf("future %d: remaining %v", k, f.Left)
		}
		var came []string
		for i := range f.Arrivals.Jobs() {
			j := &f.Arrivals.Jobs()[i]
			name, _, _ := strings.Cut(j.ID, "+")
			for i := range r.Submitted {
				p := &r.Submitted[i]
				if p.ID != name {
					continue
				}
				since := j.Submit - p.Submit
				came = append(came, fmt.Sprint(name, "+", since))
				if j.GPUs != p.GPUs || j.Key != p.Key || j.Tenant != p.Tenant {
					t.Errorf("future %d: %+v repeats %+v", k, j, p)
				}
				if p.Deadline == 0 && j.Deadline != 0 || p.Deadline != 0 && j.Deadline-j.Submit != p.Deadline-p.Submit {
					t.Errorf("future %d: %s has a deadline %v after its submission, and its repetition %v",
						k, name, p.Deadline-p.Submit, j.Deadline-j.Submit)
				}
			}
		}
		// Two and a half hours: the first half of the hour comes a third time, and
		// the arrivals at its very begin starts each.
		want := "first+1h0m0s second+1h0m0s young+1h0m0s last+1h0m0s first+2h0m0s second+2h0m0s young+2h0m0s " +
			"last+2h0m0s first+3h0m0s"
		if got := strings.Join(came, " "); got != want {
			t.Errorf("future %d: %s, want %s", k, got, want)
		}
		for i, want := range map[int]time.Duration{0: 30 * time.Minute, 1: time.Second, 3: 5 * time.Second,
			4: 30 * time.Minute} {
			if j := f.Arrivals.Jobs()[i]; j.Duration != want {
				t.Errorf("future %d: %s takes %v, want %v", k, j.ID, j.Duration, want)
			}
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
		return repeat(t, r)
	}
	same := func(*generation.Request) {}
	a, b := draw(same), draw(same)
	other := draw(func(r *generation.Request) { r.Seed++ })
	fewer := draw(func(r *generation.Request) { r.Count = 1 })
	quiet := draw(func(r *generation.Request) { r.Submitted = nil })
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
	r.Records, r.Submitted = nil, nil
	for k, f := range repeat(t, r) {
		if f.Arrivals.Len() != 0 || len(f.Left) != 2 || f.Left[0] <= 0 || f.Left[1] <= 0 {
			t.Errorf("future %d: remaining %v, %d arrivals", k, f.Left, f.Arrivals.Len())
		}
	}
}

// TestReplay: known jobs stay, others are drawn, for an hour ago.
func TestReplay(t *testing.T) {
	past := generation.Past{
		Active: []durations.Record{record("ended", time.Hour, 3*time.Hour, true),
			record("runs", time.Hour, 4*time.Hour, false), record("killed early", time.Hour, time.Hour, true)},
		Ran: []time.Duration{time.Hour, 2 * time.Hour, time.Hour},
		Arrivals: []durations.Record{record("came and ended", time.Hour, time.Minute, true),
			record("came", time.Hour, 10*time.Minute, false)},
	}
	replays, err := generation.Replay(context.Background(), time.Time{}, past, ended(20000), 4, 3)
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
