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

// sliced are the GPUs with other than seven compute slices, by a part of their model's name.
var sliced = []struct {
	model string
	of    int64
}{{"a30", 4}, {"pro_6000", 4}, {"pro_5000", 2}, {"pro_4500", 2}}

// unnamed are the slices of GPUs by profile where the model is not named and other than seven are certain or, with
// unsure, likely: RTX PRO 6000 and 5000 share profiles with each other and with GPUs of seven slices.
var unnamed = map[string]struct {
	of     int64
	unsure bool
}{"1g.6gb": {4, false}, "2g.12gb": {4, false}, "4g.24gb": {4, false}, "4g.96gb": {4, false}, "1g.16gb": {2, false},
	"2g.32gb": {2, false}, "2g.48gb": {4, true}, "1g.24gb": {7, true}}

// MIGSlices returns the compute slices of a MIG profile at the end of a GPU's type (1g.10gb, nvidia_a100_3g.20gb,
// 1g.5gb+me, 1c.3g.20gb) and the slices of a GPU by its model, or by the profile where no model is named; unsure
// reports that GPUs of other numbers of slices have the profile, too. All are zero where there is no profile.
// src/plugins/gpu/nvml/gpu_nvml.c writes the types; NVIDIA's MIG user guide has the profiles.
func MIGSlices(model string) (slices, of int64, unsure bool) {
	at := strings.LastIndex(model, "g.")
	if at < 1 || model[at-1] < '1' || model[at-1] > '7' || at > 1 && model[at-2] >= '0' && model[at-2] <= '9' {
		return 0, 0, false
	}
	memory := strings.TrimLeft(model[at+2:], "0123456789")
	if len(memory) == len(model[at+2:]) || !strings.HasPrefix(memory, "gb") {
		return 0, 0, false
	}
	slices, name := int64(model[at-1]-'0'), strings.ToLower(model[:at-1])
	if n := len(name); n >= 3 && name[n-2:] == "c." && name[n-3] >= '1' && name[n-3] <= '7' { // of an instance's slices
		slices, name = min(slices, int64(name[n-3]-'0')), name[:n-3]
	}
	for _, m := range sliced {
		if strings.Contains(name, m.model) {
			return min(slices, m.of), m.of, false
		}
	}
	u := unnamed[model[at-1:len(model)-len(memory)+len("gb")]]
	if name != "" || u.of == 0 {
		return slices, 7, false
	}
	return slices, u.of, u.unsure
}

// gpusOf returns the share of n GPUs of a type, which may be a MIG profile.
func gpusOf(n int64, model string) (s Share, mig bool) {
	if slices, of, _ := MIGSlices(model); slices > 0 {
		return fraction(n*slices, of), true
	}
	return GPUs(n), false
}
