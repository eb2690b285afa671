package round

import (
	"slices"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// The futures are the scenarios of a round: the configuration in force has the same objective in each.
func TestFuturesAreThoseOfARound(t *testing.T) {
	testshared.Full(t)
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	for _, search := range []Search{SearchAuto, SearchPortfolio, SearchFull} {
		in := portfolioAt(t, 30, "4")
		in.Search, in.Futures, in.Budget = search, 3, 8
		futures, err := Futures(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := decided(t, in)
		scorer, err := NewScorer(&Problem{Scheduler: s, Space: in.Space, Goal: in.Goal,
			Cluster: in.State.Cluster, Options: in.Simulator, Incumbent: in.Incumbent}, futures[:3])
		if err != nil {
			t.Fatal(err)
		}
		want, err := scorer.Measure(t.Context(), in.Incumbent)
		if err != nil {
			t.Fatal(err)
		}
		if values := got.Incumbent.Measurement.Values; len(values) < 3 || !slices.Equal(values[:3], want.Values) {
			t.Errorf("%s: a round measured %v, its futures give %v", search, values, want.Values)
		}
		if len(futures) != 3 {
			t.Errorf("%s: %d futures of a round that searched %s", search, len(futures), got.Search)
		}
	}
}

// A future as a workload has each active job with the work it has done and has left, and each arrival as it is.
func TestFutureAsWorkload(t *testing.T) {
	testshared.Full(t)
	in := portfolioAt(t, 30, "4")
	futures, err := Futures(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	x := &futures[0]
	w, err := in.Snapshot.Workload(x)
	if err != nil {
		t.Fatal(err)
	}
	known := index(in.records())
	jobs := map[string]workload.Job{}
	for _, j := range w.Jobs() {
		jobs[j.ID] = j
	}
	ran := false
	for i := range x.State.Jobs {
		a := &x.State.Jobs[i]
		r := known.of(&a.Job, in.State.At)
		ran = ran || r.Ran > 0
		if j := jobs[a.ID]; j.Duration != r.Ran+x.Left[i] || j.Submit != a.Submit || j.GPUs != a.GPUs ||
			!j.Status.Ended() {
			t.Errorf("active job %+v of %+v, %v left", j, a, x.Left[i])
		}
	}
	for _, want := range x.Arrivals.Jobs() {
		if got := jobs[want.ID]; got != want || want.Submit < in.State.At {
			t.Errorf("arrival %+v, want %+v", got, want)
		}
	}
	if n := len(x.Left) + x.Arrivals.Len(); len(jobs) != n || !ran || x.Arrivals.Len() == 0 {
		t.Errorf("%d jobs, want %d; some job ran: %v; %d arrivals", len(jobs), n, ran, x.Arrivals.Len())
	}
}

// Jobs that ended have the run time of the trace that they are of.
func TestEndedJobs(t *testing.T) {
	in := portfolioAt(t, 30, "4")
	at := in.State.At
	w, err := in.EndedJobs(at/2, at)
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, f := range in.Ledger.Finishes(at/2, at+1) {
		if f.Submit >= at/2 && f.RunTime > 0 {
			ended++
		}
	}
	if w.Len() != ended || ended == 0 || w.Synthetic() {
		t.Errorf("%d jobs, want %d", w.Len(), ended)
	}
	for _, j := range w.Jobs() {
		if j.Submit < at/2 || j.Submit >= at || j.Duration <= 0 {
			t.Errorf("%+v", j)
		}
	}
}
