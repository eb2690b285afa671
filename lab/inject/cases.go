package inject

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// warmUp is the time after a start in which nothing is injected.
const warmUp = 15 * time.Minute

// chooseCases gives every job its telemetry and puts cases into some.
func (s *Stream) chooseCases(o *Options, loops []*loop) {
	x := s.stream("profiles")
	for _, r := range s.runs {
		s.give(r, x)
		if r.gpus() >= 4 && r.span() >= time.Hour {
			r.steps = &steps{base: between(x, .1, 2), noise: between(x, .015, .05)}
			if x.IntN(2) == 0 {
				r.steps.checkpoint = 55 + x.IntN(100)
			}
		}
	}
	s.maintain(o, x)
	s.labelLoops(o, loops)
	type taking struct {
		r      *run
		family string
	}
	taken := map[taking]bool{}
	for _, k := range s.patterns() {
		if !o.wants(k.rule) {
			continue
		}
		x := s.stream(k.rule)
		var fit []*run
		for _, r := range s.runs {
			if k.fits(r) && !slices.ContainsFunc(s.dark, func(m maintenance) bool { return r.on(m.node, s.perNode) }) {
				fit = append(fit, r)
			}
		}
		s.Units[k.rule] = len(fit)
		if k.rule == "memory_pressure" || k.rule == "throttle" { // of GPUs
			s.Units[k.rule] = o.Nodes * o.GPUsPerNode
		}
		positives := count(x, o.Prevalence, s.Units[k.rule])
		negatives := max(2, positives)
		near := x.IntN(2) == 0
		for _, i := range x.Perm(len(fit)) {
			r := fit[i]
			by := taking{r, k.family}
			if taken[by] || positives+negatives == 0 {
				continue
			}
			positive := positives > 0
			if !k.put(x, r, near, positive) {
				continue
			}
			taken[by] = true
			near = !near
			if positive {
				positives--
			} else {
				negatives--
			}
		}
	}
}

// maintain lets nodes measure nothing for a time.
func (s *Stream) maintain(o *Options, x *rand.Rand) {
	for range 1 + int(s.GPUDays)/400 {
		from := s.From + span(x, 0, s.To-s.From-2*time.Hour)
		s.dark = append(s.dark, maintenance{x.IntN(o.Nodes), from, from + span(x, 20*time.Minute, 100*time.Minute)})
	}
}

// pattern is an anomaly put into jobs of the trace. A job has one case of a family at most.
type pattern struct {
	rule, family string
	fits         func(*run) bool
	// put makes a case or a hard negative; false if the run does not suit.
	put func(x *rand.Rand, r *run, near, positive bool) bool
}

// patterns lists the patterns of jobs, rare fits first.
func (s *Stream) patterns() []pattern {
	rows := func(r *run) bool { return r.steps != nil }
	manyRows := func(r *run) bool { return r.steps != nil && r.span() > 5*time.Hour }
	hour := func(r *run) bool { return r.span() >= time.Hour }
	gang := func(r *run) bool { return r.gpus() >= 2 && hour(r) }
	night := func(r *run) bool { return r.span() >= 8*time.Hour }
	hours := func(r *run) bool { return r.span() >= 100*time.Minute }
	if s.varied { // two patterns at once
		return []pattern{
			{"straggler", "rows", rows, s.slowing}, {"iteration_outlier", "rows", manyRows, s.stalls},
			{"cv_class", "rows", manyRows, s.regimes}, {"hoarding", "use", gang, s.lateHoarding},
			{"never_ending", "use", night, s.lingering}, {"idle_allocation", "use", hours, s.spells},
			{"memory_pressure", "GPU", hour, s.leak}, {"throttle", "GPU", hour, s.slowClock}}
	}
	return []pattern{
		{"straggler", "", rows, s.straggler}, {"iteration_outlier", "", manyRows, s.outlier},
		{"cv_class", "", manyRows, s.varying}, {"hoarding", "", gang, s.hoarding},
		{"never_ending", "", night, s.neverEnding}, {"idle_allocation", "", hours, s.idle},
		{"memory_pressure", "", hour, s.memory}, {"throttle", "", hour, s.throttle}}
}

// requested is a request for the trace's partition with a limit.
func requested(limit time.Duration) workload.Requested {
	return workload.Request{Partition: main, TimeLimit: limit}.Shared()
}

// on reports whether a run has GPUs of a node.
func (r *run) on(node, perNode int) bool {
	return slices.ContainsFunc(r.at, func(g int) bool { return g/perNode == node })
}

// label notes a case.
func (s *Stream) label(rule, entity string, from, to time.Duration, near bool, wasted float64, also ...string) {
	s.Labels = append(s.Labels, Label{Rule: rule, Entity: entity, From: from, To: to, Near: near,
		WastedGPUHours: wasted, Also: also})
}

// steady makes a job one whose use is high but for the effects put into it.
func (r *run) steady(x *rand.Rand) {
	r.prof.kind, r.prof.level, r.prof.every, r.prof.gap = training, between(x, .6, .95), 0, [2]time.Duration{}
}

// unclear notes that rules may or may not hold for an entity.
func (s *Stream) unclear(entity string, from, to time.Duration, rules ...string) {
	s.Unclear = append(s.Unclear, Label{Entity: entity, From: from, To: to, Also: rules})
}

// hoarding: low use, or half of the GPUs idle, within two hours of the start, while a job of
// another tenant that would fit the unused part waits.
func (s *Stream) hoarding(x *rand.Rand, r *run, near, positive bool) bool {
	if len(s.labels[r.job.ID]) > 0 {
		return false
	}
	e := effect{what: low, gpu: -1, use: between(x, .02, .1)}
	e.from = r.start + warmUp + span(x, 0, 15*time.Minute)
	length := span(x, 50*time.Minute, 6*time.Hour)
	freed := r.gpus() - int(math.Ceil(float64(r.gpus())*e.use/.8))
	if x.IntN(2) == 0 && r.gpus() >= 4 {
		e.what, e.n = partly, r.gpus()/2+x.IntN(r.gpus()/2)
		if near {
			e.n = r.gpus() / 2
		}
		freed = r.gpus() - min(r.gpus(), (5*(r.gpus()-e.n)+3)/4) // the others work at most at 80 %
	} else if near {
		e.use = between(x, .11, .14)
		freed = r.gpus() - int(math.Ceil(float64(r.gpus())*e.use/.8))
	}
	if !positive {
		// Low use that no job waits for, use just above, or for too short a time.
		switch x.IntN(3) {
		case 0:
			if s.contended(r.job.Tenant, r.gpus(), r.start, r.end, 5*time.Minute) {
				return false
			}
		case 1:
			e.what, e.use, e.n = low, between(x, .165, .195), 0
		default:
			length = span(x, 14*time.Minute, 22*time.Minute)
		}
	}
	e.to = min(e.from+length, r.end)
	if positive && (freed < 1 || e.to-e.from < 50*time.Minute ||
		!s.contended(r.job.Tenant, freed, e.from+32*time.Minute, min(e.to, r.start+2*time.Hour), 12*time.Minute)) {
		return false
	}
	r.steady(x)
	r.effects = append(r.effects, e)
	if positive {
		s.label("hoarding", r.job.ID, e.from, e.to, near, float64(freed)*(e.to-e.from).Hours())
	}
	return true
}

// idling is of a job whose GPUs do not work.
func idling(x *rand.Rand) effect {
	e := effect{what: idle, gpu: -1, use: between(x, 0, .004), watts: between(x, 0, 8)}
	if x.IntN(2) == 0 { // a process stays
		e.n, e.watts = 1, between(x, 20, 45)
	}
	return e
}

// idle: no GPU works for an hour, at idle power.
func (s *Stream) idle(x *rand.Rand, r *run, near, positive bool) bool {
	e := idling(x)
	e.from = r.start + warmUp + span(x, 0, max(0, r.span()-100*time.Minute))
	length := span(x, 85*time.Minute, 12*time.Hour)
	if near {
		switch x.IntN(3) {
		case 0:
			length = span(x, 66*time.Minute, 78*time.Minute)
		case 1:
			e.use = between(x, .0075, .0095)
		default:
			e.watts = between(x, 11, 13)
			if e.n == 1 {
				e.watts = between(x, 52, 66)
			}
		}
	}
	if !positive {
		switch x.IntN(3) {
		case 0:
			length = span(x, 35*time.Minute, 55*time.Minute)
		case 1:
			e.what, e.every = pulsed, span(x, 20*time.Minute, 50*time.Minute)
		default:
			e.what, e.every = thinned, span(x, 3*time.Minute, 5*time.Minute)
		}
	}
	e.to = min(e.from+length, r.end)
	if positive && e.to-e.from < 64*time.Minute {
		return false
	}
	r.steady(x)
	r.effects = append(r.effects, e)
	if positive {
		s.label("idle_allocation", r.job.ID, e.from, e.to, near, float64(r.gpus())*(e.to-e.from).Hours(),
			"hoarding")
	} else {
		s.unclear(r.job.ID, e.from, e.to, "hoarding")
	}
	return true
}

// neverEnding: beyond its limit, and for two hours hardly any use, or its process is gone.
func (s *Stream) neverEnding(x *rand.Rand, r *run, near, positive bool) bool {
	e := effect{what: quiet, gpu: -1, use: between(x, .011, .014)}
	length := span(x, 160*time.Minute, max(161*time.Minute, r.span()/2))
	if x.IntN(3) == 0 {
		e.what = gone
	}
	if near {
		if e.what == quiet {
			e.use = between(x, .015, .019)
		} else {
			length = span(x, 132*time.Minute, 156*time.Minute)
		}
	}
	limit := time.Duration(between(x, .2, .5) * float64(r.span()-length)).Round(time.Minute)
	if !positive {
		switch x.IntN(4) {
		case 0: // beyond its limit, and works
			e.what, e.use = partly, 0
		case 1: // for too short a time
			e.what, length = quiet, span(x, 60*time.Minute, 100*time.Minute)
		case 2: // nothing is measured
			e.what = silent
		default: // within its limit
			limit = 0
		}
	}
	e.from, e.to = r.end-length, r.end
	r.steady(x)
	r.job.Requested = requested(limit)
	r.effects = append(r.effects, e)
	if positive {
		s.label("never_ending", r.job.ID, e.from, e.to, near, float64(r.gpus())*length.Hours(), "hoarding",
			"idle_allocation")
	} else {
		s.unclear(r.job.ID, e.from, e.to, "hoarding", "idle_allocation")
	}
	return true
}

// straggler: in 5 of 20 rows or more a worker is more than 1.2 times slower than the median.
func (s *Stream) straggler(x *rand.Rand, r *run, near, positive bool) bool {
	slow := &slowness{worker: x.IntN(r.gpus()), factor: between(x, 1.7, 3), rows: 8 + x.IntN(13)}
	if near {
		slow.factor = between(x, 1.3, 1.55)
		if x.IntN(2) == 0 {
			slow.factor, slow.rows = between(x, 1.4, 2), 6
		}
	}
	if !positive {
		if x.IntN(2) == 0 {
			slow.factor, slow.rows = between(x, 1.04, 1.1), 20
		} else {
			slow.rows = 3
		}
	}
	slow.from = r.start + span(x, 20*time.Minute, r.span()/2)
	slow.to = min(slow.from+span(x, 40*time.Minute, 8*time.Hour), r.end)
	if slow.to-slow.from < 30*time.Minute {
		return false
	}
	r.steps.noise, r.steps.slow = between(x, .015, .04), slow
	if positive {
		s.label("straggler", r.job.ID+"/"+strconv.Itoa(slow.worker), slow.from, slow.to, near,
			float64(r.gpus())*(slow.to-slow.from).Hours()*(1-1/slow.factor)*float64(slow.rows)/20,
			"iteration_outlier")
	} else {
		s.unclear(r.job.ID, slow.from, slow.to, "iteration_outlier")
	}
	s.unclear(r.job.ID, slow.from, slow.to+classLag, "cv_class")
	return true
}

// outlier: of 50 rows, three or more take far longer than the hundred before.
func (s *Stream) outlier(x *rand.Rand, r *run, near, positive bool) bool {
	p := &spikes{rows: 5 + x.IntN(3), factor: between(x, 1.6, 3)}
	r.steps.noise = .02
	if near {
		p.rows, p.factor = 4, between(x, 1.14, 1.2)
	}
	if !positive {
		p.rows, p.factor = 1, 2
		if near {
			p.rows, p.factor = 4, between(x, 1.01, 1.03)
		}
	}
	p.from = r.start + span(x, 2*time.Hour, 3*time.Hour)
	p.to = min(p.from+span(x, 100*time.Minute, 6*time.Hour), r.end)
	r.steps.checkpoint, r.steps.spikes = 0, p
	if positive {
		s.label("iteration_outlier", r.job.ID, p.from, p.to, near, 0)
	}
	s.unclear(r.job.ID, p.from, p.to+classLag, "cv_class")
	return true
}

// classLag is for how long rows are among the 200 that the class of a job is of.
const classLag = 5 * time.Hour

// varying: the times of a job's iterations have a standard deviation of more than .2 times their
// mean.
func (s *Stream) varying(x *rand.Rand, r *run, near, positive bool) bool {
	switch p := r.steps; {
	case positive && near:
		p.spread = between(x, .235, .26)
	case positive:
		p.spread = between(x, .3, .5)
	case near:
		p.spread = between(x, .13, .17)
	default:
		p.spread = between(x, .06, .1)
	}
	r.steps.checkpoint, r.steps.noise = 0, between(x, .01, .02)
	if positive {
		s.label("cv_class", r.job.ID, r.start+50*time.Minute, r.end, near, 0, "iteration_outlier")
	} else {
		s.unclear(r.job.ID, r.start, r.end, "iteration_outlier")
	}
	return true
}

// onGPU draws a GPU of a run and a time of its life.
func (s *Stream) onGPU(x *rand.Rand, r *run, shortest time.Duration) (e effect, entity string) {
	e.gpu = x.IntN(r.gpus())
	e.from = r.start + span(x, warmUp, r.span()-shortest-10*time.Minute)
	e.to = min(e.from+span(x, shortest, 2*time.Hour), r.end)
	at := r.at[e.gpu]
	return e, s.Nodes[at/s.perNode] + ":" + strconv.Itoa(at%s.perNode)
}

// memory: more than 90 % of a GPU's is in use for a minute.
func (s *Stream) memory(x *rand.Rand, r *run, near, positive bool) bool {
	e, entity := s.onGPU(x, r, 5*time.Minute)
	e.what, e.use = full, between(x, .94, .995)
	if near {
		e.use = between(x, .905, .93)
	}
	if !positive {
		e.use = between(x, .86, .895)
	}
	r.effects, r.prof.gap = append(r.effects, e), [2]time.Duration{}
	if positive {
		s.label("memory_pressure", entity, e.from, e.to, near, 0)
	}
	return true
}

// throttle: for more than two of ten minutes a throttle reason holds, and the clock is low.
func (s *Stream) throttle(x *rand.Rand, r *run, near, positive bool) bool {
	e, entity := s.onGPU(x, r, 22*time.Minute)
	reasons := []uint64{telemetry.ThrottleSoftwarePower, telemetry.ThrottlePowerBrake,
		telemetry.ThrottleSoftwareThermal, telemetry.ThrottleHardwareThermal, telemetry.ThrottleHardware}
	e.what, e.bit, e.n, e.clock = throttle, reasons[x.IntN(len(reasons))], 5+x.IntN(6), between(x, .45, .62)
	if near {
		e.n, e.clock = 3+x.IntN(2), between(x, .75, .88)
	}
	if !positive {
		if x.IntN(2) == 0 {
			e.n = 1
		} else {
			e.clock = between(x, .92, .99)
		}
	}
	r.effects, r.prof.gap = append(r.effects, e), [2]time.Duration{}
	if positive {
		s.label("throttle", entity, e.from, e.to, near, 0)
	}
	return true
}
