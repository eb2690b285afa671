// Package rng provides an independent random stream per purpose, so that drawing
// more numbers for one purpose does not affect others.
package rng

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
)

// Stream returns the generator of a purpose, identified by a name, a seed and
// further numbers, such as a round or a sampled future.
func Stream(purpose string, seed uint64, more ...uint64) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(purpose))
	var b [8]byte
	for _, v := range more {
		binary.LittleEndian.PutUint64(b[:], v)
		h.Write(b[:])
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
