package simulator

import "math/bits"

// bitmap is a set of nodes.
type bitmap struct {
	words []uint64
	n     int
}

func (b *bitmap) reset(size int) {
	b.words = resized(b.words, (size+63)/64)
	clear(b.words)
	b.n = 0
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// longer returns n elements that keep the memory of the former ones.
func longer[T any](s []T, n int) []T {
	s = s[:min(cap(s), n)]
	for len(s) < n {
		var zero T
		s = append(s, zero)
	}
	return s
}

func (b *bitmap) add(i int) {
	b.words[i>>6] |= 1 << (i & 63)
	b.n++
}

func (b *bitmap) remove(i int) {
	b.words[i>>6] &^= 1 << (i & 63)
	b.n--
}

// next returns the lowest member that is at least i, or -1.
func (b *bitmap) next(i int) int {
	w := i >> 6
	if w >= len(b.words) {
		return -1
	}
	if x := b.words[w] >> (i & 63); x != 0 {
		return i + bits.TrailingZeros64(x)
	}
	for w++; w < len(b.words); w++ {
		if x := b.words[w]; x != 0 {
			return w<<6 + bits.TrailingZeros64(x)
		}
	}
	return -1
}

// last returns the highest member, or -1.
func (b *bitmap) last() int {
	for w := len(b.words) - 1; w >= 0; w-- {
		if x := b.words[w]; x != 0 {
			return w<<6 + 63 - bits.LeadingZeros64(x)
		}
	}
	return -1
}
