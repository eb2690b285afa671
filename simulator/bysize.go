package simulator

import (
	"bytes"
	"fmt"
)

// BySize is a quantity by the number of GPUs that jobs ask for, in the order of
// SizeNames.
type BySize [4]float64

// SizeNames are one GPU, up to half a usual node of eight, up to a node, more.
var SizeNames = [len(BySize{})]string{"1", "2-4", "5-8", "9+"}

// sizeOf is the index of a number of GPUs.
func sizeOf(gpus int) int {
	switch {
	case gpus <= 1:
		return 0
	case gpus <= 4:
		return 1
	case gpus <= 8:
		return 2
	}
	return 3
}

// MarshalJSON writes an object with the names of the sizes.
func (b BySize) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for i, v := range b {
		fmt.Fprintf(&out, ",%q:%g", SizeNames[i], v)
	}
	out.Bytes()[0] = '{'
	out.WriteByte('}')
	return out.Bytes(), nil
}
