package search

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// The first points of the unscrambled sequence, as in Joe and Kuo's notes.
func TestSobolVectors(t *testing.T) {
	want := [][]float64{{0, 0, 0}, {.5, .5, .5}, {.75, .25, .25}, {.25, .75, .75}, {.375, .375, .625},
		{.875, .875, .125}, {.625, .125, .875}, {.125, .625, .375}}
	for d := range 3 {
		v := sobolVectors(d)
		var x uint32
		for n := range want {
			if n > 0 {
				x ^= v[bits.TrailingZeros(uint(n))]
			}
			if got := float64(x) / (1 << 32); got != want[n][d] {
				t.Errorf("dimension %d point %d is %v, want %v", d, n, got, want[n][d])
			}
		}
	}
}

// Scrambled or not, the first 2^m points have exactly one coordinate in each
// of 2^m intervals of every dimension, and the first two dimensions form a
// (0,m,2)-net: one point in every box of volume 2^-m.
func TestSobolIsBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.IntRange(2, maxSobolDims).Draw(t, "dims")
		m := rapid.IntRange(1, 8).Draw(t, "m")
		n := 1 << m
		s := newSobol(dims, rapid.Uint64().Draw(t, "seed"))
		points := make([][]float64, n)
		for i := range points {
			points[i] = make([]float64, dims)
			s.next(points[i])
		}
		for d := range dims {
			seen := make([]bool, n)
			for _, x := range points {
				cell := int(x[d] * float64(n))
				if seen[cell] {
					t.Fatalf("dimension %d has two of %d points in interval %d", d, n, cell)
				}
				seen[cell] = true
			}
		}
		for a := 0; a <= m; a++ {
			seen := make([]bool, n)
			for _, x := range points {
				cell := int(x[0]*float64(int(1)<<a))<<(m-a) | int(x[1]*float64(int(1)<<(m-a)))
				if seen[cell] {
					t.Fatalf("two of %d points in box %d of shape %d", n, cell, a)
				}
				seen[cell] = true
			}
		}
	})
}

// Every pair of the first dimensions fills the plane: the quality parameter t
// of the projections is the criterion of Joe and Kuo's numbers. With the
// wrong numbers some pairs collapse onto few boxes.
func TestSobolPairsFillThePlane(t *testing.T) {
	const m, dims = 10, maxSobolDims
	s := newSobol(dims, 1)
	points := make([][]float64, 1<<m)
	for i := range points {
		points[i] = make([]float64, dims)
		s.next(points[i])
	}
	for a := range dims {
		for b := range a {
			var count [16]int // a 4 by 4 grid: 64 points each in a perfect net
			for _, x := range points {
				count[int(x[a]*4)<<2|int(x[b]*4)]++
			}
			for cell, c := range count {
				if c != len(points)/16 {
					t.Fatalf("dimensions %d and %d: cell %d has %d of %d points", b, a, cell, c, len(points))
				}
			}
		}
	}
}

func TestSobolBeyondItsTable(t *testing.T) {
	s := newSobol(maxSobolDims+3, 5)
	x := make([]float64, maxSobolDims+3)
	for range 100 {
		s.next(x)
		for d, v := range x {
			if !(v >= 0 && v < 1) {
				t.Fatalf("coordinate %d is %v", d, v)
			}
		}
	}
}
