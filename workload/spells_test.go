package workload

import (
	"fmt"
	"testing"
	"time"
)

// TestSpells: when jobs held which GPUs between two instants.
func TestSpells(t *testing.T) {
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	on := func(e Event, nodes ...NodeShare) Event {
		e.Placement = nodes
		return e
	}
	join := on(ev(Started, "b", 30), NodeShare{Node: "0", GPUs: 1}, NodeShare{Node: "1", GPUs: 1})
	join.SharesWith = "a"
	resize := on(ev(Resized, "c", 45), NodeShare{Node: "0", GPUs: 8}, NodeShare{Node: "1", GPUs: 2})
	resize.Job.GPUs = GPUs(10)
	seen := Event{ID: "seen", Kind: TakenSnapshot, Time: s(47)}
	for _, id := range []string{"a", "c"} {
		one := on(ev(Started, id, 0), NodeShare{Node: "0", GPUs: 2})
		if id == "c" {
			one = on(one, resize.Placement...)
		}
		seen.Active = append(seen.Active, one)
	}
	l := NewLedger(testCluster)
	apply(t, l, ev(Submitted, "a", 0), on(ev(Started, "a", 10), NodeShare{Node: "0", GPUs: 2}),
		ev(Submitted, "b", 20), join,
		ev(Preempted, "b", 40), ev(Submitted, "c", 41), ev(Started, "c", 42), resize, seen,
		on(ev(Resumed, "b", 50), NodeShare{Node: "2", GPUs: 2}), ev(Finished, "b", 60), ev(Submitted, "d", 61),
		ev(Started, "d", 90))
	text := func(from, to int) (out string) {
		for _, x := range l.Spells(s(from), s(to)) {
			out += fmt.Sprintf("%s %v-%v %d", x.ID, x.From.Seconds(), x.To.Seconds(), x.Held)
			for _, flag := range []struct {
				is   bool
				text string
			}{{x.Spread, " spread"}, {x.Resumed, " resumed"}, {x.Resized, " resized"},
				{x.SharesWith != "", " with " + x.SharesWith}} {
				if flag.is {
					out += flag.text
				}
			}
			out += "\n"
		}
		return out
	}
	for _, x := range []struct {
		from, to int
		want     string
	}{
		{0, 5, ""},
		{0, 35, "a 10-35 2\nb 30-35 2 spread with a\n"},
		{40, 70, "a 10-70 2\nb 50-60 2 resumed\nc 42-45 2\nc 45-70 10 resized\n"},
		{70, 80, "a 10-80 2\nc 45-80 10 resized\n"},
	} {
		if got := text(x.from, x.to); got != x.want {
			t.Errorf("from %d to %d s:\n%swant\n%s", x.from, x.to, got, x.want)
		}
	}
}
