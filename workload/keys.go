package workload

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"time"
)

// BatchGap is the longest gap between two jobs of one batch (a sweep): jobs of
// one tenant follow each other by at most this much. 75 % of Philly's batches
// by this measure are single jobs, and half of its jobs are in batches of 100
// or more.
const BatchGap = 60 * time.Second

// assignKeys gives recurrence keys to the jobs of a trace without users and
// names: a hash of tenant, GPUs and batch, where a batch is jobs of one tenant
// with the same GPUs and gaps of at most BatchGap. The batch is known by its
// first submission on the wall clock, so that a window keeps its keys. Jobs are
// in order of submission.
func assignKeys(jobs []Job, zero time.Time) {
	type stream struct {
		tenant string
		gpus   MilliGPU
	}
	type batch struct {
		last time.Duration
		key  string
	}
	open := map[stream]batch{}
	for i := range jobs {
		j := &jobs[i]
		s := stream{j.Tenant, j.GPUs}
		b, ok := open[s]
		if !ok || j.Submit-b.last > BatchGap {
			first := zero.Add(j.Submit)
			b.key = keyOf(j.Tenant, int64(j.GPUs), first.Unix(), int64(first.Nanosecond()))
		}
		b.last = j.Submit
		open[s] = b
		j.Key = b.key
	}
}

// keyOf hashes what identifies recurring jobs into 16 hexadecimal digits.
func keyOf(text string, nums ...int64) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	var b [9]byte // a zero byte ends the text
	for _, n := range nums {
		binary.LittleEndian.PutUint64(b[1:], uint64(n))
		h.Write(b[:])
	}
	s := strconv.FormatUint(h.Sum64(), 16)
	return "0000000000000000"[len(s):] + s
}
