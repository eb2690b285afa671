package inject

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// The shares of telemetry that is lost, comes twice, and comes late by up to a time within the
// watermark of a scan.
const (
	loses, repeats, delays = .02, .03, .05
	mostLate               = 3 * time.Minute / 2
)

// disturbed is a stream as collectors deliver it: some samples are lost, some come twice, some late.
func (s *Stream) disturbed(records iter.Seq[Record]) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		x := s.stream("disturbance")
		type held struct {
			due time.Duration
			r   Record
		}
		var late []held
		release := func(until time.Duration) bool {
			for len(late) > 0 && late[0].due <= until {
				if !yield(late[0].r) {
					return false
				}
				late = late[1:]
			}
			return true
		}
		for r := range records {
			if !release(r.At) {
				return
			}
			chance := x.Float64()
			sampled := r.GPU != nil || r.Iteration != nil || r.Queue != nil // others are not lost
			switch {
			case sampled && chance < loses:
				continue
			case sampled && chance < loses+delays:
				due := r.At + span(x, time.Second, min(mostLate, s.Period*3/2))
				i, _ := slices.BinarySearchFunc(late, due+1,
					func(h held, d time.Duration) int { return cmp.Compare(h.due, d) })
				late = slices.Insert(late, i, held{due, r.clone()})
				continue
			case chance > 1-repeats:
				if !yield(r) {
					return
				}
			}
			if !yield(r) {
				return
			}
		}
		release(s.To + mostLate)
	}
}

// clone copies data that the next record overwrites.
func (r Record) clone() Record {
	if r.GPU != nil {
		c := *r.GPU
		r.GPU = &c
	}
	if r.Iteration != nil {
		c := *r.Iteration
		r.Iteration = &c
	}
	return r
}
