package lanes_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// drawRoster draws running jobs, of which some came and went, with enough of
// them for several blocks, in order.
func drawRoster(t *rapid.T, from simulator.ID) (*lanes.Roster, []lanes.Entry) {
	var r lanes.Roster
	var all []lanes.Entry
	for i := range rapid.IntRange(0, 200).Draw(t, "come") {
		e := lanes.Entry{Key: rapid.Int64Range(0, 3).Draw(t, "key"), ID: from + simulator.ID(2*i),
			Width: int32(rapid.IntRange(1, 9).Draw(t, "width"))}
		r.Insert(e)
		at, _ := slices.BinarySearchFunc(all, e, compare)
		all = slices.Insert(all, at, e)
		for rapid.IntRange(0, 2).Draw(t, "go") == 0 && len(all) > 0 {
			k := rapid.IntRange(0, len(all)-1).Draw(t, "which")
			r.Remove(all[k])
			all = slices.Delete(all, k, k+1)
		}
	}
	return &r, all
}

func compare(a, b lanes.Entry) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}

func TestRosterIsSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, want := drawRoster(t, 0)
		held := 0
		for _, e := range want {
			held += int(e.Width)
		}
		if r.Len() != len(want) || r.Held() != held {
			t.Fatalf("%d jobs of %d GPUs, want %d of %d", r.Len(), r.Held(), len(want), held)
		}
		if got := slices.Collect(r.All()); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		r.Reset()
		if r.Len() != 0 || r.Held() != 0 || len(slices.Collect(r.All())) != 0 {
			t.Fatal("a reset roster has jobs")
		}
	})
}

// TestDivideIsAWalk: passing blocks at once and hiding lanes gives the same as going
// through the jobs one by one.
func TestDivideIsAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run, running := drawRoster(t, 0)
		_, waiting := drawRoster(t, 1)
		var wait lanes.Lanes
		for _, e := range waiting {
			wait.Add(int(e.Width), e.ID%3 == 0, e)
		}
		quota := rapid.IntRange(0, run.Held()+wait.GPUs()).Draw(t, "quota")
		runningFirst := rapid.Bool().Draw(t, "running first")

		var want lanes.Shares
		left := quota
		all := append(slices.Clone(running), waiting...)
		if !runningFirst {
			slices.SortFunc(all, compare)
		}
		for _, e := range all {
			runs := e.ID%2 == 0
			switch g := int(e.Width); {
			case g <= left:
				left -= g
				if !runs {
					want.Start = append(want.Start, e.ID)
				}
			case runs:
				want.Stop = append(want.Stop, e.ID)
			}
		}
		var got lanes.Shares
		if rest := got.Divide(quota, run, &wait, runningFirst); rest != left || !slices.Equal(got.Start, want.Start) ||
			!slices.Equal(got.Stop, want.Stop) {
			t.Fatalf("of %d GPUs: %+v and %d left, want %+v and %d", quota, got, rest, want, left)
		}
	})
}

func TestRemovingAStrangerFromARosterPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var r lanes.Roster
	r.Insert(lanes.Entry{ID: 1})
	r.Remove(lanes.Entry{ID: 2})
}
