package rounds

import (
	"slices"

	"github.com/autosched/autosched/simulator"
)

// Ranked is a job in the order of a round: smallest key first, ties by ID.
type Ranked struct {
	Key float64
	ID  simulator.ID
	// Width is the GPUs that the job asks for.
	Width int32
}

func (a Ranked) before(b Ranked) bool { return a.Key < b.Key || a.Key == b.Key && a.ID < b.ID }

func compare(a, b Ranked) int {
	switch {
	case a.Key < b.Key:
		return -1
	case a.Key > b.Key:
		return 1
	}
	return int(a.ID - b.ID)
}

// merge sorts a list whose first so many are in order, and the others of their
// own. It returns the scratch memory it was given, perhaps grown.
func merge(list []Ranked, old int, scratch []Ranked) []Ranked {
	if old == 0 || old == len(list) || list[old-1].before(list[old]) {
		return scratch
	}
	scratch = append(scratch[:0], list[old:]...)
	a, b := old-1, len(scratch)-1
	for i := len(list) - 1; b >= 0; i-- {
		if a >= 0 && scratch[b].before(list[a]) {
			list[i] = list[a]
			a--
		} else {
			list[i] = scratch[b]
			b--
		}
	}
	return scratch
}

// patience is how many places a job may move, on average, before a list is
// sorted as if it were in no order.
const patience = 8

// repair sorts a list that is almost in order.
func repair(list []Ranked) {
	if len(list) == 0 {
		return
	}
	left := patience * len(list)
	last := list[0]
	for i, x := range list {
		if !x.before(last) {
			last = x
			continue
		}
		k := i - 1
		list[i] = last
		for k > 0 && x.before(list[k-1]) {
			list[k] = list[k-1]
			k--
		}
		list[k] = x
		if left -= i - k; left < 0 {
			slices.SortFunc(list, compare)
			return
		}
	}
}
