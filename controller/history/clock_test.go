package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// hours are times in hours.
func hours(at ...int) []time.Duration {
	var out []time.Duration
	for _, h := range at {
		out = append(out, time.Duration(h)*time.Hour)
	}
	return out
}

func clockAt(at ...int) *clock {
	var c clock
	for _, t := range hours(at...) {
		c.advance(t)
	}
	return &c
}

const week = 7 * 24

func TestClockAdvances(t *testing.T) {
	for _, c := range []struct {
		events       []int
		latest, held int
	}{
		{[]int{5}, 5, 1},
		{[]int{-5}, -5, 1},
		{[]int{5, 6, 4}, 6, 3},
		{[]int{5, 5 + week}, 5 + week, 2},
		{[]int{5, 6 + week}, 6 + week, 1},       // a jump: earlier events do not hold it
		{[]int{2 * week, 0, 1}, 2 * week, 1},    // a backfill does not
		{[]int{2 * week, week, 1}, 2 * week, 2}, // but times within a week
		{[]int{0, week, 2 * week}, 2 * week, 3}, // nor do steps of a week
		{[]int{0, 3 * week, 1, 2}, 3 * week, 1},
	} {
		if got := clockAt(c.events...); got.latest != hours(c.latest)[0] || got.held != c.held || !got.running {
			t.Errorf("%v: at %v, held by %d, want %d h, %d", c.events, got.latest, got.held, c.latest, c.held)
		}
	}
}

func TestClockWindow(t *testing.T) {
	for _, c := range []struct {
		clock     *clock
		batch     []int
		from, end int
	}{
		{clockAt(10), []int{11}, 3, 11},
		{clockAt(10), []int{5}, 3, 10},
		{clockAt(10), []int{10 + week}, 3, 10 + week},
		{clockAt(10), []int{11 + week}, 3, 10},
		{clockAt(10), []int{10 + 2*week, 10 + week}, 3, 10 + 2*week}, // one leads to the next
		// The first batch sets both, whatever its order; a time of its own counts
		// if it is the middle one's.
		{clockAt(), []int{1000, 999, 20 * 365 * 24}, 999 - 30*24 - 1, 1000},
		{clockAt(), []int{1000, 999, -20 * 365 * 24}, 999 - 30*24 - 1, 1000},
		{clockAt(), []int{1000}, 1000 - 30*24 - 1, 1000},
	} {
		from, end := c.clock.window(hours(c.batch...), 3*time.Hour)
		if from != hours(c.from)[0] || end != hours(c.end)[0] {
			t.Errorf("clock at %v, %v: from %v to %v, want %d h to %d h",
				c.clock.latest, c.batch, from, end, c.from, c.end)
		}
	}
}

func TestStraysSetTheClock(t *testing.T) {
	strays := func(n, from int) (out []workload.Event) {
		for i := range n {
			out = append(out, workload.Event{ID: fmt.Sprint(from, "-", i), Time: hours(from + i)[0]})
		}
		return out
	}
	busy := clockAt()
	for i := range 50 {
		busy.advance(hours(10000 + i)[0])
	}
	for _, c := range []struct {
		name   string
		clock  *clock
		events []workload.Event
		to     int
		enough bool
	}{
		{"nine ahead", clockAt(0), strays(9, 1000), 1008, false},
		{"ten ahead", clockAt(0), strays(10, 1000), 1009, true},
		{"ten that do not agree", clockAt(0), append(strays(5, 1000), strays(5, 3000)...), 3004, false},
		{"ten after others", clockAt(0), append(strays(5, 1000), strays(10, 3000)...), 3009, true},
		{"one, ten times", clockAt(0), append(append(strays(1, 1000), strays(1, 1000)...), strays(8, 1000)...), 1007,
			false},
		{"ten behind one event", clockAt(10000), strays(10, 0), 9, true},
		{"ten behind fifty", busy, strays(10, 0), 9, false},
		{"fifty behind fifty", &clock{running: true, latest: busy.latest, held: 50}, strays(50, 0), 49, true},
		{"a thousand behind more", &clock{running: true, latest: hours(10000)[0], held: 5000}, strays(1000, 0),
			999, true},
	} {
		to, enough := c.clock.stray(c.events)
		if to != hours(c.to)[0] || enough != c.enough {
			t.Errorf("%s: %v, %v, want %d h, %v", c.name, to, enough, c.to, c.enough)
		}
	}
}
