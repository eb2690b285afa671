package inject

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// reading overrides fields of a sample.
type reading struct {
	use, memory float64
	watts       float64 // above idle; negative: it follows from the use
	lost        bool
}

// heavy is a factor with a heavy tail and a median of one.
func heavy(h *seat, spread float64) float64 { return math.Exp(spread * h.rand.NormFloat64()) }

// shaping changes a sample, given the time since the case began.
type shaping func(into time.Duration, h *seat, d *telemetry.GPUSample, v *reading)

// shape puts a function of the time since the case began into a run.
func (r *run) shape(gpu int, from, to time.Duration, f shaping) {
	r.effects = append(r.effects, effect{what: shaped, gpu: gpu, from: from, to: to, shape: f})
}

// wave goes from 0 to 1 and back in a period.
func wave(into, period time.Duration) float64 {
	return (1 - math.Cos(2*math.Pi*into.Seconds()/period.Seconds())) / 2
}

// every reports whether a minute is the one of an interval that stands out.
func every(into, interval time.Duration) bool {
	return into/time.Minute%(interval/time.Minute) == interval/time.Minute-1
}

// lateHoarding begins anywhere in a job: use falls slowly, comes in bursts or waves, or other GPUs
// idle after a time.
func (s *Stream) lateHoarding(x *rand.Rand, r *run, near, positive bool) bool {
	if len(s.labels[r.job.ID]) > 0 || r.span() < 2*time.Hour {
		return false
	}
	from := r.start + warmUp + span(x, 0, r.span()-110*time.Minute)
	to := min(from+span(x, 70*time.Minute, 8*time.Hour), r.end)
	level, g := between(x, .01, .05), r.gpus()
	began := from
	freed := g - int(math.Ceil(float64(g)*.15/.8))
	f := func(time.Duration, *seat) float64 { return level }
	kind := x.IntN(5)
	if kind == 3 && g%2 == 1 {
		kind = 4
	}
	switch kind {
	case 0:
		over, high := span(x, 20*time.Minute, 40*time.Minute), between(x, .5, .9)
		began += over
		f = func(into time.Duration, h *seat) float64 {
			return max(high*(1-into.Seconds()/over.Seconds()), level) * heavy(h, .1)
		}
	case 1:
		interval, burst := span(x, 36*time.Minute, 50*time.Minute), between(x, .4, .9)
		if near {
			interval = 32 * time.Minute
		}
		f = func(into time.Duration, h *seat) float64 {
			if every(into, interval) {
				return burst
			}
			return level * heavy(h, .2)
		}
	case 2:
		period, crest := span(x, 50*time.Minute, 2*time.Hour), between(x, .07, .1)
		if near {
			crest = between(x, .115, .13)
		}
		f = func(into time.Duration, h *seat) float64 {
			return (level + (crest-level)*wave(into, period)) * heavy(h, .1)
		}
	case 3:
		turn := span(x, 100*time.Minute, 150*time.Minute)
		freed = g - (5*(g/2)+3)/4
		f = func(into time.Duration, h *seat) float64 {
			if (h.gpu+int(into/turn))%2 == 0 {
				return 0
			}
			return -1 // as before
		}
	default:
		level = between(x, .03, .08)
		if near {
			level = between(x, .11, .125)
		}
		f = func(_ time.Duration, h *seat) float64 { return level * heavy(h, .35) }
	}
	if !positive {
		switch kind := x.IntN(4); {
		case kind == 0:
			to = from + span(x, 10*time.Minute, 20*time.Minute)
		case kind == 1:
			floor := between(x, .21, .3)
			if near {
				floor = between(x, .17, .19)
			}
			f = func(_ time.Duration, h *seat) float64 { return floor * heavy(h, .05) }
		case kind == 2: // too much of the time
			interval, burst := span(x, 8*time.Minute, 10*time.Minute), between(x, .6, .9)
			f = func(into time.Duration, h *seat) float64 {
				if every(into, interval) {
					return burst
				}
				return level
			}
		case s.contended(r.job.Tenant, g, r.start, r.end, 5*time.Minute):
			return false
		}
	} else if freed < 1 || to-began < 50*time.Minute ||
		!s.contended(r.job.Tenant, freed, began+32*time.Minute, to, 12*time.Minute) {
		return false
	}
	r.steady(x)
	r.shape(-1, from, to, func(into time.Duration, h *seat, _ *telemetry.GPUSample, v *reading) {
		if u := f(into, h); u >= 0 {
			v.use = min(u, 1)
		}
	})
	if positive {
		s.label("hoarding", r.job.ID, began, to, near, float64(freed)*(to-began).Hours())
	}
	return true
}

// spells is idleness with noise, with processes that come and go, or in several spells.
func (s *Stream) spells(x *rand.Rand, r *run, near, positive bool) bool {
	from := r.start + warmUp + span(x, 0, max(0, r.span()-100*time.Minute))
	length := span(x, 80*time.Minute, 10*time.Hour)
	if near {
		length = span(x, 68*time.Minute, 78*time.Minute)
	}
	watts, memory := between(x, 0, 6), 0.
	idleFor, busyFor, come := 100*24*time.Hour, time.Duration(0), time.Duration(0)
	switch x.IntN(3) {
	case 0:
		come, memory = span(x, 10*time.Minute, 25*time.Minute), between(x, .05, .5)
	case 1:
		length = max(length, span(x, 3*time.Hour, 8*time.Hour))
		idleFor, busyFor = span(x, 76*time.Minute, 2*time.Hour), span(x, 25*time.Minute, 50*time.Minute)
	}
	ping, alone := 100*24*time.Hour, -1
	if !positive {
		switch kind := x.IntN(4); {
		case kind == 0:
			length, busyFor = span(x, 35*time.Minute, 54*time.Minute), 0
		case kind == 1:
			ping = span(x, 25*time.Minute, 50*time.Minute)
		case kind == 2 && r.gpus() > 1:
			alone = x.IntN(r.gpus())
		default: // power says that they work
			watts, come, memory = between(x, 22, 40), 0, 0
			if near {
				watts = between(x, 18.5, 20)
			}
		}
	}
	to := min(from+length, r.end)
	if positive && to-from < 66*time.Minute {
		return false
	}
	r.steady(x)
	lose := between(x, 0, .04)
	r.shape(-1, from, to, func(into time.Duration, h *seat, d *telemetry.GPUSample, v *reading) {
		if into%(idleFor+busyFor) >= idleFor || h.gpu == alone {
			v.use = max(v.use, .6)
			return
		}
		v.use = min(.0015*h.rand.ExpFloat64(), .009)
		v.watts, v.memory, d.Processes = watts+2*wave(into, 37*time.Minute), memory, 0
		if come > 0 && into/come%2 == 0 {
			v.watts, d.Processes = 25+15*wave(into, 13*time.Minute), 1
		}
		if into%ping >= ping-2*time.Minute { // one of them may be lost
			v.use = between(h.rand, .03, .2)
		}
		v.lost = h.rand.Float64() < lose
	})
	if positive {
		idle := (to - from).Hours()
		if busyFor > 0 {
			idle *= idleFor.Hours() / (idleFor + busyFor).Hours()
		}
		s.label("idle_allocation", r.job.ID, from, to, near, float64(r.gpus())*idle, "hoarding")
	} else {
		s.unclear(r.job.ID, from, to, "hoarding")
	}
	return true
}

// lingering is a job beyond its limit that hardly does anything at its end or in the middle, but for
// single minutes.
func (s *Stream) lingering(x *rand.Rand, r *run, near, positive bool) bool {
	length := span(x, 170*time.Minute, max(171*time.Minute, r.span()/2))
	if near {
		length = span(x, 136*time.Minute, 150*time.Minute)
	}
	level, interval, gone := between(x, .001, .006), span(x, 30*time.Minute, time.Hour), x.IntN(3) == 0
	limit := time.Duration(between(x, .1, .3) * float64(r.span()-length)).Round(time.Minute)
	from := r.end - length
	if x.IntN(2) == 0 { // it works again
		from = r.start + span(x, limit+10*time.Minute, r.span()-length)
	}
	if !positive {
		gone = false
		switch x.IntN(3) {
		case 0:
			length = span(x, 50*time.Minute, 100*time.Minute)
		case 1: // often enough
			interval = span(x, 6*time.Minute, 8*time.Minute)
			if near {
				interval = 12 * time.Minute
			}
		default: // within its limit
			limit = r.span() + time.Hour
		}
	}
	to := min(from+length, r.end)
	r.steady(x)
	r.job.Requested = requested(limit)
	burst := between(x, .2, .5)
	r.shape(-1, from, to, func(into time.Duration, h *seat, d *telemetry.GPUSample, v *reading) {
		v.use = min(level*h.rand.ExpFloat64(), .015)
		if gone {
			v.use, v.memory, d.Processes = 0, 0, 0
		} else if every(into, interval) {
			v.use = burst
		}
		v.lost = h.rand.Float64() < .03
	})
	if positive {
		s.label("never_ending", r.job.ID, from, to, near, float64(r.gpus())*length.Hours(), "hoarding", "idle_allocation")
	} else {
		s.unclear(r.job.ID, from, to, "hoarding", "idle_allocation")
	}
	return true
}

// slowing is workers that slow down over hours, in blocks of rows, by chance, or two at once.
func (s *Stream) slowing(x *rand.Rand, r *run, near, positive bool) bool {
	if r.span() < 2*time.Hour {
		return false
	}
	from := r.start + span(x, 20*time.Minute, r.span()/2)
	to := min(from+span(x, 50*time.Minute, 8*time.Hour), r.end)
	factor, share := between(x, 1.6, 2.6), between(x, .55, .95)
	if near {
		factor = between(x, 1.3, 1.5)
	}
	if to-from < 50*time.Minute {
		return false
	}
	slow := []int{x.IntN(r.gpus())}
	began, over, block := from, time.Duration(0), 0
	switch x.IntN(4) {
	case 0:
		if r.gpus() >= 5 {
			slow = append(slow, (slow[0]+1+x.IntN(r.gpus()-1))%r.gpus())
		}
	case 1:
		over = (to - from) / 3
		began += time.Duration(float64(over) * .1 / (factor - 1))
	case 2:
		block = 8 + x.IntN(5)
	}
	p := r.steps
	p.noise, p.missing = between(x, .02, .05), between(x, 0, .04)
	p.worker = func(into time.Duration, row, w int, rand *rand.Rand) float64 {
		chance := rand.Float64()
		if w != slow[0] && w != slow[len(slow)-1] {
			return 1
		}
		f := factor
		if over > 0 {
			f = 1 + (factor-1)*min(1, into.Seconds()/over.Seconds())
		}
		if block > 0 && row%20 < block || block == 0 && chance < share {
			return f
		}
		return 1
	}
	if !positive {
		p.noise = .02
		switch x.IntN(3) {
		case 0: // all of them
			p.worker, p.common = nil, func(_ time.Duration, row int, _ *rand.Rand) float64 {
				if row%20 < 8 {
					return factor
				}
				return 1
			}
		case 1: // each in turn
			n, pick := r.gpus(), x.IntN(1000)
			p.worker = func(_ time.Duration, row, w int, _ *rand.Rand) float64 {
				if row%9 == 0 && (row/9*7+pick)%n == w {
					return factor
				}
				return 1
			}
		default: // by little
			p.worker = func(_ time.Duration, _, w int, _ *rand.Rand) float64 {
				if w == slow[0] {
					return 1.09
				}
				return 1
			}
		}
	}
	p.from, p.to = from, to
	s.unclear(r.job.ID, from, to+classLag, "cv_class")
	if !positive {
		s.unclear(r.job.ID, from, to, "iteration_outlier")
		return true
	}
	for i, w := range slow {
		if i > 0 && w == slow[0] {
			break
		}
		s.label("straggler", r.job.ID+"/"+strconv.Itoa(w), began, to, near,
			float64(r.gpus())*(to-began).Hours()*(1-1/factor)*share, "iteration_outlier")
	}
	return true
}

// stalls are rows at irregular times that take longer by different factors, on times that drift.
func (s *Stream) stalls(x *rand.Rand, r *run, near, positive bool) bool {
	share, low, high := between(x, .1, .2), 1.5, 3.5
	if near {
		share, low, high = between(x, .08, .12), 1.2, 1.3
	}
	period := span(x, 4*time.Hour, 10*time.Hour)
	if !positive {
		low, high = 1.02, 1.05
		if near {
			share, low, high = .02, 1.5, 3
		}
	}
	p := r.steps
	p.noise, p.checkpoint = between(x, .01, .02), 0
	from := r.start + span(x, 2*time.Hour, 3*time.Hour)
	to := min(from+span(x, 100*time.Minute, 6*time.Hour), r.end)
	rows := 0 // since the last one, where they are hard negatives
	p.common = func(into time.Duration, _ int, rand *rand.Rand) float64 {
		f := .95 + .1*wave(into, period)
		rows++
		chance, size := rand.Float64(), between(rand, low, high)
		if share > .05 && chance < share || share <= .05 && rows%26 == 0 {
			return f * size
		}
		return f
	}
	p.from, p.to = from, to
	if positive {
		s.label("iteration_outlier", r.job.ID, from, to, near, 0)
	}
	s.unclear(r.job.ID, from, to+classLag, "cv_class")
	return true
}

// regimes are iteration times of two lengths, by chance or for a while each, or with a heavy tail.
func (s *Stream) regimes(x *rand.Rand, r *run, near, positive bool) bool {
	p := r.steps
	p.noise, p.checkpoint = between(x, .01, .02), 0
	more, spread := between(x, 1.2, 2), between(x, .3, .5)
	switch {
	case positive && near:
		more, spread = between(x, .68, .75), between(x, .235, .26)
	case !positive && near:
		more, spread = between(x, .33, .4), between(x, .13, .16)
	case !positive:
		more, spread = between(x, .1, .2), between(x, .05, .1)
	}
	switch x.IntN(3) {
	case 0: // short and long batches
		share := between(x, .2, .3)
		p.common = func(_ time.Duration, _ int, rand *rand.Rand) float64 {
			if rand.Float64() < share {
				return 1 + more
			}
			return 1
		}
	case 1: // for 25 rows each
		p.common = func(_ time.Duration, row int, _ *rand.Rand) float64 {
			if row/25%2 == 0 {
				return 1 + more
			}
			return 1
		}
	default:
		p.common = func(_ time.Duration, _ int, rand *rand.Rand) float64 {
			return math.Exp(spread * rand.NormFloat64())
		}
	}
	p.from, p.to = r.start, r.end
	if positive {
		s.label("cv_class", r.job.ID, r.start+50*time.Minute, r.end, near, 0, "iteration_outlier")
	} else {
		s.unclear(r.job.ID, r.start, r.end, "iteration_outlier")
	}
	return true
}

// leak is memory that fills slowly, or again and again.
func (s *Stream) leak(x *rand.Rand, r *run, near, positive bool) bool {
	e, entity := s.onGPU(x, r, 30*time.Minute)
	top, began := between(x, .94, .99), e.from
	if near {
		top = between(x, .915, .93)
	}
	if !positive {
		top = between(x, .85, .885)
	}
	bottom := between(x, .4, .6)
	rise, period := (e.to-e.from)/2, time.Duration(0)
	if x.IntN(2) == 0 {
		period, rise = span(x, 10*time.Minute, 14*time.Minute), 5*time.Minute
	}
	began += time.Duration(float64(rise) * (.9 - bottom) / (top - bottom))
	r.prof.gap = [2]time.Duration{}
	r.shape(e.gpu, e.from, e.to, func(into time.Duration, _ *seat, _ *telemetry.GPUSample, v *reading) {
		if period > 0 {
			into %= period
		}
		v.memory = bottom + (top-bottom)*min(1, into.Seconds()/rise.Seconds())
	})
	if positive {
		s.label("memory_pressure", entity, began, e.to, near, 0)
	}
	return true
}

// slowClock is clocks that fall in one part of every ten minutes, for changing reasons.
func (s *Stream) slowClock(x *rand.Rand, r *run, near, positive bool) bool {
	e, entity := s.onGPU(x, r, 25*time.Minute)
	reasons := []uint64{telemetry.ThrottleSoftwarePower,
		telemetry.ThrottleSoftwarePower | telemetry.ThrottleHardwareThermal,
		telemetry.ThrottleSoftwareThermal, telemetry.ThrottleHardware, telemetry.ThrottlePowerBrake}
	first, n := x.IntN(len(reasons)), 4+x.IntN(5)
	if near {
		n = 3
	}
	clock := 1 - between(x, .16, .3)*10/float64(n)
	if near {
		clock = 1 - between(x, .13, .15)*10/float64(n)
	}
	switch kind := x.IntN(3); {
	case positive:
	case kind == 0:
		n, clock = 1, .5
	case kind == 1:
		clock = between(x, .93, .99)
	default: // clocks that someone set
		reasons = []uint64{telemetry.ThrottleApplicationClocks}
		first = 0
	}
	r.prof.gap = [2]time.Duration{}
	r.shape(e.gpu, e.from, e.to, func(into time.Duration, h *seat, d *telemetry.GPUSample, _ *reading) {
		if int(into/time.Minute)%10 < n {
			d.Throttle = reasons[(first+int(into/(10*time.Minute)))%len(reasons)]
			d.SMClock = clock * clockMHz * (1 + .01*h.rand.NormFloat64())
		}
	})
	if positive {
		s.label("throttle", entity, e.from, e.to, near, 0)
	}
	return true
}
