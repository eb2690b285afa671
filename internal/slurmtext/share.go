package slurmtext

import (
	"strings"
)

// A Share is a number of GPUs, of which MIG instances, MPS and shards are fractions. It is opaque: a caller chooses how
// to round it by the name of a method.
type Share struct{ parts int64 }

// partsPerGPU makes the fractions whole: sevenths and quarters by MIG, thousandths, and most numbers of shards.
const partsPerGPU = 84_000

// maxGPUs bounds the GPUs of a job or a node.
const maxGPUs = 1_000_000

// GPUs returns a share of whole GPUs.
func GPUs(n int64) Share { return Share{n * partsPerGPU} }

// fraction returns n parts of which a GPU has a number, rounded down to a part of the share.
func fraction(n, of int64) Share { return Share{n * partsPerGPU / of} }

// Plus returns the sum of two shares.
func (s Share) Plus(o Share) Share { return Share{s.parts + o.parts} }

// IsZero reports whether the share is of no GPU at all.
func (s Share) IsZero() bool { return s.parts == 0 }

// NearestMilli returns the nearest number of thousandths of a GPU, at least 1 unless the share is zero.
func (s Share) NearestMilli() int64 { return s.nearest(partsPerGPU / 1000) }

// NearestGPUs returns the nearest number of GPUs, at least 1 unless the share is zero.
func (s Share) NearestGPUs() int { return int(s.nearest(partsPerGPU)) }

func (s Share) nearest(unit int64) int64 {
	n := (s.parts + unit/2) / unit
	if s.parts > 0 {
		n = max(n, 1)
	}
	return n
}

// MIGSlices returns the compute slices of a MIG profile at the end of a GPU's type (1g.10gb, nvidia_a100_3g.20gb,
// 1g.5gb+me) and the slices of a GPU: seven, of an A30 four. Both are 0 where there is no profile. The types are those
// of src/plugins/gpu/nvml/gpu_nvml.c.
func MIGSlices(model string) (slices, of int64) {
	at := strings.LastIndex(model, "g.")
	if at < 1 || model[at-1] < '1' || model[at-1] > '7' || at > 1 && model[at-2] >= '0' && model[at-2] <= '9' {
		return 0, 0
	}
	memory := strings.TrimLeft(model[at+2:], "0123456789")
	if len(memory) == len(model[at+2:]) || !strings.HasPrefix(memory, "gb") {
		return 0, 0
	}
	switch model[at-1 : len(model)-len(memory)] {
	case "1g.6", "2g.12", "4g.24":
		return int64(model[at-1] - '0'), 4
	}
	return int64(model[at-1] - '0'), 7
}

// gpusOf returns the share of n GPUs of a type, which may be a MIG profile.
func gpusOf(n int64, model string) (s Share, mig bool) {
	if slices, of := MIGSlices(model); slices > 0 {
		return fraction(n*slices, of), true
	}
	return GPUs(n), false
}
