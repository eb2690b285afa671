package kueue

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// draw is the unknowns of a recorded run: the UIDs of its jobs, and how long before its zero a second began. The zero
// draw takes the ids of jobs for UIDs, as jobs of Kueue have them.
type draw struct {
	seed  uint64
	phase time.Duration
}

// uid orders jobs of one second.
func (d draw) uid(id string) uint64 {
	var b [8]byte
	if d.seed == 0 {
		copy(b[:], id)
		return binary.BigEndian.Uint64(b[:])
	}
	h := fnv.New64a()
	binary.BigEndian.PutUint64(b[:], d.seed)
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(id))
	// The last bytes of an id hardly move the first bits of the sum.
	u := h.Sum64()
	u ^= u >> 32
	u *= 0x9e3779b97f4a7c15
	return u ^ u>>29
}

const members = 20

// Members makes policies of a configuration that differ in the UIDs of jobs and in when seconds begin, both of which
// decide between jobs that were created or admitted in the same second. Delays that are many seconds do not depend on
// them.
func Members(c space.Config) (out []simulator.Member, scale time.Duration) {
	for i := range members {
		phase := time.Duration((float64(i) + .5) / members * float64(time.Second))
		out = append(out, simulator.Member{Policy: &policy{config: c, draw: draw{uint64(i + 1), phase}}})
	}
	return out, time.Second
}
