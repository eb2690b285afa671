package inject

import (
	"math"
	"math/rand/v2"
	"time"
)

// steps is how long the iterations of a job take: a row a minute of all its workers.
type steps struct {
	base  float64 // seconds
	noise float64 // relative standard deviation of a worker's
	// spread is that of all workers together.
	spread float64
	// Checkpoint rows recur, and take all workers longer.
	checkpoint int
	slow       *slowness
	spikes     *spikes
	// In a varied stream, from and to are when the functions apply to a row and to a worker's, and
	// missing is the share of a worker's rows that are not measured.
	from, to time.Duration
	common   func(into time.Duration, row int, x *rand.Rand) float64
	worker   func(into time.Duration, row, worker int, x *rand.Rand) float64
	missing  float64
	rand     *rand.Rand
	row      int
}

// slowness is one worker slower than the others, in some rows of twenty.
type slowness struct {
	worker   int
	factor   float64
	rows     int // of twenty
	from, to time.Duration
}

// spikes are rows of a span, some of every fifty, in which all workers take longer.
type spikes struct {
	rows     int
	factor   float64
	from, to time.Duration
}

// rows makes the iterations of a job at an instant.
func (g *generator) rows(r *run, t time.Duration, yield func(Record) bool) bool {
	p := r.steps
	row := int((t - r.start) / time.Minute)
	if p.rand == nil || row <= p.row { // a stream can be read again
		p.rand = g.s.stream("steps", uint64(r.index))
	}
	p.row = row
	all := max(.2, 1+max(.01, p.spread)*p.rand.NormFloat64())
	if p.checkpoint > 0 && row%p.checkpoint == 0 {
		all *= 2
	}
	if s := p.spikes; s != nil && s.from <= t && t < s.to {
		if int((t-s.from)/time.Minute)%(50/s.rows) == 0 {
			all *= s.factor
		}
	}
	within := p.from <= t && t < p.to
	if within && p.common != nil {
		all *= p.common(t-p.from, row, p.rand)
	}
	for w := range r.gpus() {
		took := p.base * all * math.Exp(p.noise*p.rand.NormFloat64())
		if s := p.slow; s != nil && s.worker == w && s.from <= t && t < s.to &&
			(row*7)%20 < s.rows { // 7 spreads the rows over the twenty
			took *= s.factor
		}
		if within && p.worker != nil {
			took *= p.worker(t-p.from, row, w, p.rand)
		}
		if p.missing > 0 && p.rand.Float64() < p.missing {
			continue
		}
		g.row.Job, g.row.Worker, g.row.Step = r.job.ID, w, row
		g.row.Took, g.row.Time = time.Duration(took*float64(time.Second)), g.epoch+t
		if !yield(Record{At: t, Iteration: &g.row}) {
			return false
		}
	}
	return true
}
