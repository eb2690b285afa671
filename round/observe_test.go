package round

import (
	"slices"
	"testing"
	"time"
)

// TestObserve: changes and dwell follow from what rounds see in force, rollbacks included.
func TestObserve(t *testing.T) {
	at := numbered(t)
	h := loadHistory(nil, at(0).Space())
	hour, day := time.Hour, 24*time.Hour
	for i, tt := range []struct {
		at      time.Duration
		inForce int
		since   time.Duration
		changes []time.Duration
		dwells  bool // two hours
	}{
		{hour, 0, 0, nil, false}, // the first round knows no change
		{2 * hour, 0, 0, nil, false},
		{3 * hour, 1, 3 * hour, []time.Duration{3 * hour}, true},
		{4 * hour, 1, 3 * hour, []time.Duration{3 * hour}, true},
		{5 * hour, 1, 3 * hour, []time.Duration{3 * hour}, false},
		{6 * hour, 0, 6 * hour, []time.Duration{3 * hour, 6 * hour}, true}, // rolled back
		{day + 3*hour - 1, 0, 6 * hour, []time.Duration{3 * hour, 6 * hour}, false},
		{day + 3*hour, 0, 6 * hour, []time.Duration{6 * hour}, false},
		{day + 7*hour, 0, 6 * hour, nil, false},
		{day + 8*hour, 2, day + 8*hour, []time.Duration{day + 8*hour}, true},
	} {
		h.observe(at(tt.inForce), tt.at)
		dwells := h.dwells(tt.at, 2*hour)
		if h.Since != tt.since || !slices.Equal(h.Changes, tt.changes) || dwells != tt.dwells {
			t.Errorf("step %d: since %v, changes %v, dwells %v; want %+v", i, h.Since, h.Changes, dwells, tt)
		}
	}
	if now := 3 * day; h.dwells(now, day) || !h.dwells(now, 2*day) || h.dwells(now, 0) || h.dwells(now, -1) {
		t.Error("a dwell of a day or of none is not over, or one of two days is")
	}
	if h := (&history{}); h.dwells(hour, 2*hour) {
		t.Error("the first configuration dwells")
	}
}

// TestObserveLeavesItsInput: two rounds from one history do not share memory.
func TestObserveLeavesItsInput(t *testing.T) {
	at := numbered(t)
	given := make([]time.Duration, 1, 8)
	given[0] = time.Hour
	a, b := &history{InForce: at(0).Hash(), Changes: given}, &history{InForce: at(0).Hash(), Changes: given}
	a.observe(at(1), 2*time.Hour)
	b.observe(at(1), 3*time.Hour)
	if a.Changes[1] != 2*time.Hour || given[0] != time.Hour {
		t.Errorf("%v, %v of %v", a.Changes, b.Changes, given)
	}
}
