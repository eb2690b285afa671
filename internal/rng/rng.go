// Package rng gives every purpose its own random stream, so that drawing more
// for one never changes another.
package rng

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
)

// Stream is the generator for a purpose, identified by a name and numbers (a
// run's seed, a round, a future).
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
