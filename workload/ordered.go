package workload

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// ordered is a slice that is sorted when it is read: disorder costs no more
// than order. Equal elements are one.
type ordered[T any] struct {
	sorted []T
	late   []T // to be sorted in
}

func (o *ordered[T]) add(v T, compare func(a, b T) int) {
	if n := len(o.sorted); len(o.late) == 0 && (n == 0 || compare(o.sorted[n-1], v) < 0) {
		o.sorted = append(o.sorted, v)
	} else {
		o.late = append(o.late, v)
	}
}

func (o *ordered[T]) all(compare func(a, b T) int) []T {
	if len(o.late) == 0 {
		return o.sorted
	}
	slices.SortFunc(o.late, compare)
	i, _ := slices.BinarySearchFunc(o.sorted, o.late[0], compare)
	tail := slices.Concat(o.sorted[i:], o.late)
	slices.SortStableFunc(tail, compare)
	tail = slices.CompactFunc(tail, func(a, b T) bool { return compare(a, b) == 0 })
	o.sorted, o.late = append(o.sorted[:i], tail...), nil
	return o.sorted
}

// latest is the last instant up to and with another, the first possible if there is none.
func latest(o *ordered[time.Duration], at time.Duration) time.Duration {
	all := o.all(cmp.Compare)
	i, found := slices.BinarySearch(all, at)
	switch {
	case found:
		return at
	case i > 0:
		return all[i-1]
	}
	return math.MinInt64
}

// list is jobs in an order that is brought up to date when they are read.
type list struct {
	ordered[*record]
	left  bool // some do not belong there any more
	moved bool // some have another place
}

func (l *list) settle(order func(a, b *record) int, belongs func(*record) bool) {
	if l.moved {
		l.sorted, l.late = nil, append(l.sorted, l.late...)
	}
	if l.left {
		out := func(r *record) bool { return !belongs(r) }
		l.sorted, l.late = slices.DeleteFunc(l.sorted, out), slices.DeleteFunc(l.late, out)
		if cap(l.sorted) > 2*len(l.sorted)+64 {
			l.sorted = slices.Clone(l.sorted)
		}
	}
	l.left, l.moved = false, false
	l.all(order)
}
