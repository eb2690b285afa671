package lanes_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/simulator"
)

// waiting is a job in a list that is searched from its head, the plain form of Lanes.
type waiting struct {
	lanes.Entry
	width   int
	relaxed bool
}

func order(a, b waiting) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID)) }

// TestLanesAreOneQueue: however jobs come, go and are walked past, the next one
// is the first in order that is narrow enough and in no closed lane.
func TestLanesAreOneQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l lanes.Lanes
		var all []waiting
		used := map[simulator.ID]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0: // come
				for range rapid.IntRange(1, 10).Draw(t, "come") {
					w := waiting{lanes.Entry{Key: rapid.Int64Range(0, 5).Draw(t, "key"),
						ID: simulator.ID(rapid.IntRange(0, 200).Draw(t, "id"))},
						rapid.IntRange(1, 4).Draw(t, "width"), rapid.Bool().Draw(t, "relaxed")}
					if used[w.ID] {
						continue
					}
					used[w.ID] = true
					l.Add(w.width, w.relaxed, w.Entry)
					all = append(all, w)
					slices.SortFunc(all, order)
				}
			case 1: // go
				for i := rapid.IntRange(0, 5).Draw(t, "go"); i > 0 && len(all) > 0; i-- {
					k := rapid.IntRange(0, len(all)-1).Draw(t, "which")
					l.Remove(all[k].width, all[k].relaxed, all[k].Entry)
					delete(used, all[k].ID)
					all = slices.Delete(all, k, k+1)
				}
			case 2:
				walk(t, &l, &all, used)
			}
			gpus := 0
			for _, w := range all {
				gpus += w.width
			}
			if l.Len() != len(all) || l.GPUs() != gpus {
				t.Fatalf("%d jobs of %d GPUs, want %d of %d", l.Len(), l.GPUs(), len(all), gpus)
			}
		}
	})
}

func walk(t *rapid.T, l *lanes.Lanes, all *[]waiting, used map[simulator.ID]bool) {
	passed := map[simulator.ID]bool{}
	type kind struct {
		width   int
		relaxed bool
	}
	closed := map[kind]bool{}
	limit := rapid.IntRange(0, 5).Draw(t, "limit")
	l.Walk()
	for {
		at := slices.IndexFunc(*all, func(w waiting) bool {
			return w.width <= limit && !passed[w.ID] && !closed[kind{w.width, w.relaxed}]
		})
		e, width, in, ok := l.Next(limit)
		if ok != (at >= 0) {
			t.Fatalf("limit %d: next is there %v, want %v", limit, ok, at >= 0)
		}
		if !ok {
			return
		}
		w := (*all)[at]
		if e != w.Entry || width != w.width {
			t.Fatalf("limit %d: next is %+v of %d, want %+v", limit, e, width, w)
		}
		switch rapid.IntRange(0, 3).Draw(t, "then") {
		case 0:
			l.Skip(in)
			passed[w.ID] = true
		case 1:
			l.Close(in)
			closed[kind{w.width, w.relaxed}] = true
		default:
			if got := l.Take(in); got != w.Entry {
				t.Fatalf("took %+v, want %+v", got, w.Entry)
			}
			*all = slices.Delete(*all, at, at+1)
			delete(used, w.ID)
			limit = max(0, limit-rapid.IntRange(0, 1).Draw(t, "less"))
		}
	}
}

func TestListIsSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l lanes.List
		var want []lanes.Entry
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if e := (lanes.Entry{Key: rapid.Int64Range(0, 9).Draw(t, "key"),
				ID: simulator.ID(rapid.IntRange(0, 9).Draw(t, "id"))}); !slices.Contains(want, e) {
				l.Insert(e)
				want = append(want, e)
				slices.SortFunc(want, func(a, b lanes.Entry) int {
					return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID))
				})
			} else {
				l.Remove(e)
				want = slices.DeleteFunc(want, func(x lanes.Entry) bool { return x == e })
			}
			if rapid.IntRange(0, 3).Draw(t, "head") == 0 && len(want) > 0 { // as a queue loses its head
				l.Remove(want[0])
				want = want[1:]
			}
			if l.Len() != len(want) {
				t.Fatalf("%d entries, want %d", l.Len(), len(want))
			}
			for i, e := range want {
				if l.At(i) != e {
					t.Fatalf("entry %d is %+v, want %+v", i, l.At(i), e)
				}
			}
		}
	})
}

func TestRemovingAStrangerPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var l lanes.List
	l.Insert(lanes.Entry{ID: 1})
	l.Remove(lanes.Entry{ID: 2})
}
