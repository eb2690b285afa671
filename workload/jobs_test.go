package workload

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestJobsAreThePages: whatever the window, the parts in which jobs are read are all that were there in it, each once.
func TestJobsAreThePages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger(Uniform(4, 8))
		want := map[string]bool{}
		from := time.Duration(rapid.IntRange(0, 40).Draw(t, "from")) * time.Minute
		to := from + time.Duration(rapid.IntRange(0, 40).Draw(t, "span"))*time.Minute
		for i := range rapid.IntRange(0, 30).Draw(t, "n") {
			id := fmt.Sprint("j", i)
			submit := time.Duration(rapid.IntRange(0, 60).Draw(t, "submit")) * time.Minute
			l.Apply(Event{ID: "s" + id, Kind: Submitted, Time: submit, Job: Job{ID: id, GPUs: GPUs(1)}})
			end := submit + time.Duration(rapid.IntRange(0, 60).Draw(t, "life"))*time.Minute
			if end > submit {
				l.Apply(Event{ID: "f" + id, Kind: Finished, Time: end, Job: Job{ID: id}})
			}
			if submit <= to && (end == submit || end >= from) {
				want[id] = true
			}
		}
		size := rapid.IntRange(1, 7).Draw(t, "size")
		var got []string
		last := time.Duration(1 << 62)
		for place, more := (Place{}), true; more; {
			n := 0
			place, more = l.Jobs(from, to, place, func(h *JobHistory) bool {
				if h.Submit > last || !want[h.ID] || slices.Contains(got, h.ID) {
					t.Fatalf("%s of %v after %v, %v", h.ID, h.Submit, last, got)
				}
				last, got, n = h.Submit, append(got, h.ID), n+1
				return n < size
			})
		}
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// TestJobsAreBounded: a call looks at no more jobs than its bound, and says where to go on.
func TestJobsAreBounded(t *testing.T) {
	l := NewLedger(Uniform(1, 8))
	const n = scanned + 10
	for i := range n {
		id, at := fmt.Sprint(i), time.Duration(i)*time.Second
		l.Apply(Event{ID: "s" + id, Kind: Submitted, Time: at, Job: Job{ID: id, GPUs: GPUs(1)}})
		l.Apply(Event{ID: "f" + id, Kind: Finished, Time: at, Job: Job{ID: id}})
	}
	none := func(*JobHistory) bool { t.Error("a job that had ended"); return true }
	place, more := l.Jobs(n*time.Second, 2*n*time.Second, Place{}, none)
	if !more || place.ID != "10" {
		t.Errorf("%v %v", place, more)
	}
	if place, more = l.Jobs(n*time.Second, 2*n*time.Second, place, none); more || place != (Place{}) {
		t.Errorf("%v %v", place, more)
	}
}
