package pq

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type number int

func (a number) Before(b number) bool { return a < b }

// TestQueue checks the order of elements after random pushes, pops and replacements.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[number]
		var want []number // sorted
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			x := number(rapid.IntRange(0, 20).Draw(t, "number"))
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op == 0 && len(q) > 0:
				if got := q.Pop(); got != want[0] {
					t.Fatalf("popped %d, want %d", got, want[0])
				}
				want = want[1:]
			case op == 1 && len(q) > 0:
				q[0], want[0] = x, x
				q.Fix()
			default:
				q.Push(x)
				want = append(want, x)
			}
			slices.Sort(want)
			if len(q) != len(want) || len(q) > 0 && q[0] != want[0] {
				t.Fatalf("the queue is %v, want %v", q, want)
			}
		}
	})
}
