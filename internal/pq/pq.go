// Package pq implements a priority queue as a binary heap.
package pq

// Orderable is the constraint of queue elements: Before is a strict weak order.
type Orderable[T any] interface{ Before(T) bool }

// Queue is a heap with the first element at index 0. The zero value is empty. The
// order in which equal elements are popped depends only on the calls made.
type Queue[T Orderable[T]] []T

// Push adds x.
func (q *Queue[T]) Push(x T) {
	*q = append(*q, x)
	s := *q
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].Before(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

// Pop removes and returns the first element.
func (q *Queue[T]) Pop() T {
	s := *q
	first, last := s[0], len(s)-1
	s[0] = s[last]
	*q = s[:last]
	q.Fix()
	return first
}

// Fix restores the heap order after element 0 was replaced.
func (q Queue[T]) Fix() {
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(q) {
			return
		}
		if down+1 < len(q) && q[down+1].Before(q[down]) {
			down++
		}
		if !q[down].Before(q[i]) {
			return
		}
		q[i], q[down] = q[down], q[i]
		i = down
	}
}
