package workload

import (
	"encoding/binary"
	"time"
)

// BatchGap is the longest gap between two jobs of one batch (a sweep): jobs of
// one tenant follow each other by at most this much. 81 % of Philly's batches
// by this measure are single jobs, and half of its jobs are in batches of 100
// or more.
const BatchGap = 60 * time.Second

// assignKeys gives recurrence keys to the jobs of a trace without names, where
// they have none: a hash of tenant, user, GPUs and batch, where a batch is jobs
// of one tenant and user with the same GPUs and gaps of at most BatchGap. The
// batch is known by its first submission on the wall clock, so that a window
// keeps its keys. Jobs are in order of submission.
func assignKeys(jobs []Job, zero time.Time) {
	type stream struct {
		tenant, user string
		gpus         MilliGPU
	}
	type batch struct {
		last time.Duration
		key  string
	}
	open := map[stream]batch{}
	var keys arena
	for i := range jobs {
		j := &jobs[i]
		if j.Key != "" {
			continue
		}
		s := stream{j.Tenant, j.User, j.GPUs}
		b, ok := open[s]
		if !ok || j.Submit-b.last > BatchGap {
			first := zero.Add(j.Submit)
			h := fnvBytes(fnvBegin, j.Tenant)
			if j.User != "" {
				h = fnvBytes(fnvBytes(h, "\x00"), j.User)
			}
			hex := hex16(fnvNumbers(h, int64(j.GPUs), first.Unix(), int64(first.Nanosecond())))
			b.key = keys.own(hex[:])
		}
		b.last = j.Submit
		open[s] = b
		j.Key = b.key
	}
}

// keyOf hashes what identifies recurring jobs into 16 hexadecimal digits.
func keyOf(text string, nums ...int64) string {
	hex := hex16(fnvNumbers(fnvBytes(fnvBegin, text), nums...))
	return string(hex[:])
}

// FNV-1a of 64 bits, as hash/fnv has it, but in place.
const (
	fnvBegin = 14695981039346656037
	fnvPrime = 1099511628211
)

func fnvBytes[T string | []byte](h uint64, text T) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return h
}

func fnvNumbers(h uint64, nums ...int64) uint64 {
	var b [9]byte // a zero byte ends the text
	for _, n := range nums {
		binary.LittleEndian.PutUint64(b[1:], uint64(n))
		h = fnvBytes(h, b[:])
	}
	return h
}

// nameHash is the key of a job whose name is known: jobs of one user and name
// recur.
func nameHash(user, name []byte) uint64 {
	return fnvBytes(fnvBytes(fnvBytes(fnvBegin, user), "\x00"), name)
}

// hex16 writes a hash as keys have it.
func hex16(h uint64) (b [16]byte) {
	const digits = "0123456789abcdef"
	for i := 15; i >= 0; i-- {
		b[i] = digits[h&15]
		h >>= 4
	}
	return b
}
