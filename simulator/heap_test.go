package simulator

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHeapGivesItemsInOrder: whatever is pushed, taken out and swept, the next
// item that is not stale is the earliest.
func TestHeapGivesItemsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sim
		for range rapid.IntRange(1, 60).Draw(t, "jobs") {
			s.jobs = append(s.jobs, job{next: never})
		}
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			id := ID(rapid.IntRange(0, len(s.jobs)-1).Draw(t, "job"))
			j := &s.jobs[id]
			switch rapid.SampledFrom([]string{"push", "push", "push", "stop", "pop", "sweep", "rebuild"}).Draw(t,
				"what") {
			case "push": // the job's former entry is stale
				j.next = time.Duration(rapid.Int64Range(-50, 50).Draw(t, "at"))
				s.heap.push(heapItem{j.next, id})
			case "stop":
				j.next = never
			case "pop":
				if at := s.heap.peek(s.jobs); at != never {
					s.jobs[s.heap.pop().id].next = never
				}
			case "sweep":
				s.sweep()
			case "rebuild":
				s.heap.rebuild()
			}
			want := never
			for i := range s.jobs {
				want = min(want, s.jobs[i].next)
			}
			if got := s.heap.peek(s.jobs); got != want {
				t.Fatalf("next is %v, want %v", got, want)
			}
		}
	})
}
