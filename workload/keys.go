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

// KeyOf hashes the identity of recurring jobs into 16 hexadecimal digits.
func KeyOf(text string, nums ...int64) string {
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

// NameKey is the key of a job whose name is known: jobs of one user and name
// recur. It is KeyOf(user + "\x00" + name).
func NameKey(user, name []byte) [16]byte {
	return hex16(fnvBytes(fnvBytes(fnvBytes(fnvBegin, user), "\x00"), name))
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
