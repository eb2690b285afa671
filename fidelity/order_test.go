package fidelity

import (
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// TestOvertaking: pairs of one tenant and width that wait at once, by hand.
func TestOvertaking(t *testing.T) {
	var pairs []pair
	add := func(tenant string, submit, start int) {
		at := time.Duration(submit) * time.Second
		pairs = append(pairs, pair{job: &workload.Job{Tenant: tenant, GPUs: 1000, Submit: at},
			recorded: time.Duration(start)*time.Second - at})
	}
	add("a", 0, 100) // overtaken by the next two, and the last comes after it started
	add("b", 5, 6)
	add("a", 10, 50)
	add("a", 20, 30) // overtakes the one before, too
	add("a", 200, 200)
	if n, of := overtaking(pairs, recordedDelay); n != 3 || of != 3 {
		t.Errorf("%d of %d pairs, want 3 of 3", n, of)
	}
	pairs = pairs[:0]
	add("a", 0, 100)
	add("a", 10, 100)
	add("a", 20, 110)
	if n, of := overtaking(pairs, recordedDelay); n != 0 || of != 3 {
		t.Errorf("%d of %d pairs, want 0 of 3", n, of)
	}
}

func TestSteps(t *testing.T) {
	s := stepsOf([]delta{{10, 5}, {30, -5}, {20, 2}, {20, -1}})
	for at, want := range map[time.Duration]int64{9: 0, 10: 5, 19: 5, 20: 6, 29: 6, 30: 1, 99: 1} {
		if got := s.value(at); got != want {
			t.Errorf("%d at %d, want %d", got, at, want)
		}
	}
	until := s.atLeast(5)
	for at, want := range map[time.Duration]time.Duration{0: 0, 10: 0, 15: 5, 30: 20, 50: 20} {
		if got := until(at); got != want {
			t.Errorf("at least 5 for %d until %d, want %d", got, at, want)
		}
	}
	if s.mean(0, 40) != (50+60+10)/40. || s.mean(15, 25) != 5.5 || s.mean(30, 40) != 1 {
		t.Errorf("mean: %g, %g, %g", s.mean(0, 40), s.mean(15, 25), s.mean(30, 40))
	}
	if s.most(0, 15) != 5 || s.most(15, 25) != 6 || s.most(30, 40) != 1 {
		t.Errorf("most: %d, %d, %d", s.most(0, 15), s.most(15, 25), s.most(30, 40))
	}
}
