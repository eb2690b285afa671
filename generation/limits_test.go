package generation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/workload"
)

// TestFuturesHaveLimits: arrivals have the requests of the jobs they repeat; nothing runs beyond its limit that did not
// before; and a job without one gets the limit of its user's jobs, or of jobs of its size, times its own run time.
func TestFuturesHaveLimits(t *testing.T) {
	r := hour()
	asks := workload.Request{TimeLimit: 20 * time.Minute, NodeCount: 2, QOS: "high", Account: "lab"}
	for i := range r.Records {
		j := r.Records[i].Job
		switch { // ann asks for twice her jobs' needs, others for three times
		case i < 100:
			j.User, j.Requested = "ann", workload.Request{TimeLimit: 2 * r.Records[i].Ran}.Shared()
		case i < 200:
			j.User, j.Requested = "bob", workload.Request{TimeLimit: 3 * r.Records[i].Ran}.Shared()
			j.GPUs = workload.GPUs(4)
		}
	}
	r.Active[0].Job.Requested = workload.Request{TimeLimit: 2*time.Hour + time.Minute}.Shared()
	of := map[string]*workload.Job{}
	for i := range r.Records {
		of[r.Records[i].ID] = r.Records[i].Job
	}
	for i := range r.Submitted {
		j := &r.Submitted[i]
		switch j.ID {
		case "first": // ran for 30 minutes, ten beyond its limit
			j.Requested = asks.Shared()
		case "second": // a second, of ann
			j.User = "ann"
		case "last": // five seconds, without a user
			j.GPUs = workload.GPUs(4)
		case "young": // runs
			j.Requested = workload.Request{TimeLimit: 2 * time.Minute}.Shared()
		}
		of[j.ID].Requested, of[j.ID].User, of[j.ID].GPUs = j.Requested, j.User, j.GPUs
	}
	for k, f := range repeat(t, r) {
		if f.Left[0] > time.Minute || f.Left[1] > time.Minute {
			t.Errorf("future %d: %v left of jobs with a minute to their limits", k, f.Left)
		}
		got := map[string]string{}
		for i := range f.Arrivals.Jobs() {
			j := &f.Arrivals.Jobs()[i]
			name, _, _ := strings.Cut(j.ID, "+")
			got[name] = fmt.Sprint(j.Request().TimeLimit, " ", j.Request().QOS, j.Duration <= j.Request().TimeLimit)
		}
		want := map[string]string{"first": "20m0s highfalse", "second": "1m0s true", "last": "1m0s true",
			"young": "2m0s true"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("future %d: %s", k, d)
		}
	}
	// Where no job has a limit, none is drawn.
	for _, f := range repeat(t, hour()) {
		for i := range f.Arrivals.Jobs() {
			if j := &f.Arrivals.Jobs()[i]; j.Request() != (workload.Request{}) {
				t.Errorf("%s asks for %+v", j.ID, j.Request())
			}
		}
	}
}

// TestLimitsAreTheUsers: a long job of a user gets the ratio of his jobs, not that of others.
func TestLimitsAreTheUsers(t *testing.T) {
	r := hour()
	for i := range 200 {
		j, times := r.Records[i].Job, time.Duration(2)
		if j.User = "ann"; i >= 100 {
			j.User, times = "bob", 5
		}
		j.Requested = workload.Request{TimeLimit: times * r.Records[i].Ran}.Shared()
	}
	for user, want := range map[string]time.Duration{"ann": time.Hour, "bob": 150 * time.Minute} {
		r.Submitted[0].User = user
		for _, f := range repeat(t, r) {
			if got := f.Arrivals.Jobs()[0].Request().TimeLimit; got != want {
				t.Errorf("30 minutes of %s get %v, want %v", user, got, want)
			}
		}
	}
	// One that the cluster ended at its limit is one that would run on.
	first := r.Records[len(r.Records)-4].Job
	if first.ID != "first" {
		t.Fatal(first.ID)
	}
	first.Status, first.Requested = workload.TimedOut, workload.Request{TimeLimit: 31 * time.Minute}.Shared()
	r.Submitted[0].Requested = first.Requested
	var f generation.Future = repeat(t, r)[0]
	if got := f.Arrivals.Jobs()[0].Duration; got != 31*time.Minute {
		t.Errorf("runs for %v, want its limit", got)
	}
}

// TestBeyondLimits: a job beyond its limit did not end there: how long it may, the simulation knows.
func TestBeyondLimits(t *testing.T) {
	r := hour()
	of := map[string]*workload.Job{}
	for i := range r.Records {
		of[r.Records[i].ID] = r.Records[i].Job
	}
	r.Active[0].Job.Requested = workload.Request{TimeLimit: time.Hour}.Shared() // of which it ran two
	of["first"].Status = workload.TimedOut                                      // after 30 minutes
	of["first"].Requested = workload.Request{TimeLimit: 20 * time.Minute}.Shared()
	longest := time.Duration(0)
	for _, f := range repeat(t, r) {
		longest = max(longest, f.Left[0])
		if got := f.Arrivals.Jobs()[0].Duration; got != 30*time.Minute {
			t.Errorf("it runs for %v, want as long as it did", got)
		}
	}
	if longest < time.Minute {
		t.Errorf("%v left at most of a job that runs beyond its limit", longest)
	}
}
