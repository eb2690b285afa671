package simulator

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

// Digest is the SHA-256, in hexadecimal, of all that the models say of a cluster
// with a number of GPUs: models with equal digests give equal runs there,
// wherever they come from. nil are the defaults, as in Options.
func (m *Models) Digest(gpus int) string {
	if m == nil {
		m = defaultModels
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %#v %#v\n", gpus, m.Classes, m.Loads)
	var b []byte
	put := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	for n := 1; n <= gpus; n++ {
		put(uint64(m.Restart(n)))
	}
	for class := range m.Classes {
		for n := 1; n <= gpus; n++ {
			put(math.Float64bits(m.Throughput(class, n)))
		}
		h.Write(b)
		b = b[:0]
	}
	for x := range m.Loads {
		for y := range m.Loads {
			one, other := m.PairSpeeds(x, y)
			put(math.Float64bits(one))
			put(math.Float64bits(other))
		}
	}
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}
