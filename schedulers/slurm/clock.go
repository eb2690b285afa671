package slurm

import (
	"math"
	"time"
)

const (
	never   = time.Duration(math.MaxInt64)
	longAgo = time.Duration(math.MinInt64) // ago
)

// clock strikes at equal intervals.
type clock struct {
	phase, interval time.Duration // an interval of 0 never strikes
	from            time.Duration // no stroke before it
}

// newClock first strikes at a phase, or for a phase of 0 at every multiple of the interval.
func newClock(phase, interval time.Duration) clock {
	if phase == 0 {
		return clock{0, interval, longAgo}
	}
	return clock{phase, interval, phase}
}

// last is the last stroke at or before an instant, long ago if there is none.
func (c clock) last(t time.Duration) time.Duration {
	if c.interval <= 0 || t < c.from {
		return longAgo
	}
	d := (t - c.phase) % c.interval
	if d < 0 {
		d += c.interval
	}
	return t - d
}

// next is the first stroke at or after an instant.
func (c clock) next(t time.Duration) time.Duration {
	switch {
	case c.interval <= 0:
		return never
	case t < c.from:
		return c.from
	}
	if at := c.last(t); at < t {
		return at + c.interval
	}
	return t
}
