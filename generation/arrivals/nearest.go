package arrivals

import (
	"math"
	"slices"
)

// nearest keeps the k candidates at the least distance, nearest first; of equals,
// those offered earlier.
type nearest struct {
	k     int
	found []candidate
}

type candidate struct {
	at       int
	distance float64
}

// limit is the distance from which on a candidate need not be offered.
func (n *nearest) limit() float64 {
	if len(n.found) < n.k {
		return math.Inf(1)
	}
	return n.found[n.k-1].distance
}

func (n *nearest) offer(at int, distance float64) {
	if distance >= n.limit() {
		return
	}
	i, _ := slices.BinarySearchFunc(n.found, distance, func(c candidate, d float64) int {
		if c.distance <= d {
			return -1
		}
		return 1
	})
	if len(n.found) == n.k {
		n.found = n.found[:n.k-1]
	}
	n.found = slices.Insert(n.found, i, candidate{at, distance})
}
