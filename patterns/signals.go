package patterns

import (
	"math"
	"strings"
	"time"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/telemetry"
)

// signals are the numbers that conditions can name, by kind of entity.
var signals map[string]*signal

func init() {
	type compute = func(*Scanner, *compiled, *entity) (float64, bool)
	ofJob := func(f func(*Scanner, *compiled, *job) (float64, bool)) compute {
		return func(s *Scanner, r *compiled, e *entity) (float64, bool) {
			if j := s.jobs[e.name]; j != nil {
				return f(s, r, j)
			}
			return 0, false
		}
	}
	signals = map[string]*signal{
		// Of a job: means over its GPUs.
		"job.busy": {unit: "share",
			slot: func(n *slotNumbers) *int { return &n.busy }},
		"job.power_excess": {unit: "W above idle",
			slot: func(n *slotNumbers) *int { return &n.power }},
		"job.processes": {unit: "per GPU",
			slot: func(n *slotNumbers) *int { return &n.processes }},
		"job.memory": {unit: "share",
			slot: func(n *slotNumbers) *int { return &n.memory }},
		"job.run_hours": {unit: "h", age: true, compute: ofJob(func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return (s.now - j.start).Hours(), j.running
		})},
		"job.wait_hours": {unit: "h", age: true, compute: ofJob(func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return (s.now - max(j.submit, j.hold)).Hours(), s.pending.has(j)
		})},
		// The share of the job's samples so far in which its GPUs were used at all, and for how long
		// they were each time. Inference is used in bursts, training throughout.
		"job.used_share": {unit: "share", compute: ofJob(func(_ *Scanner, _ *compiled, j *job) (float64, bool) {
			return float64(j.used) / float64(max(1, j.samples)), j.samples > 0
		})},
		"job.used_run_minutes": {unit: "min", compute: ofJob(func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return float64(j.used) / float64(max(1, j.uses)) * s.o.Period.Minutes(), j.used > 0
		})},
		// The run time relative to the 99th percentile of the job's key.
		"job.run_over_usual": {unit: "x p99 of its key", compute: ofJob(runOverUsual)},
		"job.beyond_limit_minutes": {unit: "min", compute: ofJob(func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return (s.now - j.start - j.limit).Minutes(), j.running && j.limit > 0
		})},
		// The time since the last iteration or line of a log of a job that had some.
		"job.silent_hours": {unit: "h", compute: ofJob(func(s *Scanner, _ *compiled, j *job) (float64, bool) {
			return (s.now - j.progress).Hours(), j.running && j.progress > 0
		})},
		// The wait relative to the 95th percentile of those of its width in seven days.
		"job.wait_over_usual": {unit: "x p95 of its width", compute: ofJob(waitOverUsual)},
		// The work of jobs that overtook it, relative to its own.
		"job.overtaken": {unit: "x its GPU-hours", compute: ofJob(overtakenOver)},
		// The GPUs of the smallest pending job of another tenant that fit those that right-sizing
		// would free, 0 if there is none.
		"job.wanted": {unit: "GPUs", compute: ofJob(wanted)},

		"gpu.busy": {unit: "share",
			slot: func(n *slotNumbers) *int { return &n.gpuBusy }},
		"gpu.memory": {unit: "share",
			slot: func(n *slotNumbers) *int { return &n.gpuMemory }},
		"gpu.throttled": {unit: "share",
			slot: func(n *slotNumbers) *int { return &n.throttled }},
		"gpu.throttled_power": {unit: "share",
			slot: func(n *slotNumbers) *int { return &n.throttledPower }},
		"gpu.throttled_thermal": {unit: "share",
			slot: func(n *slotNumbers) *int { return &n.throttledThermal }},
		"gpu.throttled_hardware": {unit: "share",
			slot: func(n *slotNumbers) *int { return &n.throttledHardware }},
		"gpu.clock": {unit: "of the application clock",
			slot: func(n *slotNumbers) *int { return &n.clock }},

		"tenant.quota_use": {step: 15 * time.Minute, unit: "share",
			slot: func(n *slotNumbers) *int { return &n.quotaUse }},
		"tenant.others_waiting": {step: 15 * time.Minute, unit: "share",
			slot: func(n *slotNumbers) *int { return &n.othersWaiting }},

		// F1 while no pending gang can be placed though the GPUs would do, else 0.
		"partition.blocked": {step: time.Minute, unit: "F1",
			slot: func(n *slotNumbers) *int { return &n.blocked }},
		"partition.free": {step: time.Minute, unit: "GPUs",
			slot: func(n *slotNumbers) *int { return &n.partitionFree }},
		"queue.pending_gpus": {step: time.Minute, unit: "GPUs",
			slot: func(n *slotNumbers) *int { return &n.pendingGPUs }},
		"queue.free": {step: time.Minute, unit: "share",
			slot: func(n *slotNumbers) *int { return &n.queued }},
	}
}

func waitOverUsual(s *Scanner, _ *compiled, j *job) (float64, bool) {
	usual, known := s.usualWait(j)
	if !known {
		return 0, false
	}
	return (s.now - max(j.submit, j.hold)).Hours() / max(usual, 1./60), true
}

func overtakenOver(s *Scanner, _ *compiled, j *job) (float64, bool) {
	own, _, known := s.work(j)
	if !known || own <= 0 {
		return 0, false
	}
	return s.overtaken(j) / own, true
}

func runOverUsual(s *Scanner, _ *compiled, j *job) (float64, bool) {
	h := s.keys[j.key]
	if !j.running || j.key == "" || h == nil || len(h.runs) == 0 {
		return 0, false
	}
	return (s.now - j.start).Hours() / max(quantile(h.runs, .99), 1./3600), true
}

// freed is how many GPUs a job would not need if those it keeps were used as the rule says.
func (s *Scanner) freed(r *compiled, j *job) (int, bool) {
	v := s.viewOf(r, &j.entity, nil)
	busy, _, known := v.number(&Condition{Signal: "busy", Fn: "mean", Over: r.rule.RightSize.Over, sig: signals["job.busy"]})
	if !known || r.rule.RightSize.Busy <= 0 {
		return 0, false
	}
	keep := int(math.Ceil(busy * float64(j.gpus) / r.rule.RightSize.Busy))
	return max(0, j.gpus-keep), true
}

func wanted(s *Scanner, r *compiled, j *job) (float64, bool) {
	freed, known := s.freed(r, j)
	if !known {
		return 0, false
	}
	least := 0
	for n := range s.attributed(j).pending {
		other := n.tenant != j.tenant
		if other && n.gpus <= freed && (least == 0 || n.gpus < least) {
			least = n.gpus
		}
	}
	return float64(least), true
}

// idlePower is that of a GPU model without a context, in W.
func (s *Scanner) idlePower(model string) float64 {
	if s.power == nil {
		s.power = energy.Default()
	}
	name := strings.ToLower(model)
	best := ""
	for key := range s.power.GPUs {
		if strings.Contains(name, key) && (len(key) > len(best) || len(key) == len(best) && key < best) {
			best = key
		}
	}
	if best == "" {
		best = s.power.GPU
	}
	return s.power.GPUs[best].Idle
}

// Bits of throttling that slow a GPU down, and their kinds.
const (
	throttlePower    = telemetry.ThrottleSoftwarePower | telemetry.ThrottlePowerBrake
	throttleThermal  = telemetry.ThrottleSoftwareThermal | telemetry.ThrottleHardwareThermal
	throttleHardware = telemetry.ThrottleHardware
	throttleAny      = throttlePower | throttleThermal | throttleHardware
)

// A GPU's idle power is the mean of enough samples without a job, at most that of its model. leastIdle bounds
// how far below that it may lie: less is an error of the sensor.
const (
	enoughFree = 10
	leastIdle  = 4
)

// usedAt is how busy a GPU is that is used at all.
const usedAt = .01

// sample records the signals of a sample.
func (s *Scanner) sample(g *gpu, x *reading, at time.Duration) {
	step := floorDiv(at, s.o.Period) // of GPUs' and jobs' signals
	if x.known.any(telemetry.Utilization | telemetry.SMActive) {
		s.putStep(&g.entity, s.slots.gpuBusy, step, x.busy)
	}
	memory, hasMemory := 0., x.known.has(telemetry.MemoryUsed|telemetry.MemoryTotal) && x.total > 0
	if hasMemory {
		memory = x.used / x.total
		s.putStep(&g.entity, s.slots.gpuMemory, step, memory)
	}
	if x.known.has(telemetry.Throttle) {
		bits := x.throttle
		if bits&telemetry.ThrottleIdle != 0 {
			bits = 0
		}
		s.putStep(&g.entity, s.slots.throttled, step, bit(bits&throttleAny))
		s.putStep(&g.entity, s.slots.throttledPower, step, bit(bits&throttlePower))
		s.putStep(&g.entity, s.slots.throttledThermal, step, bit(bits&throttleThermal))
		s.putStep(&g.entity, s.slots.throttledHardware, step, bit(bits&throttleHardware))
	}
	if idle := x.known.has(telemetry.Throttle) && x.throttle&telemetry.ThrottleIdle != 0; !idle && x.appClock > 0 &&
		x.known.has(telemetry.SMClock|telemetry.ApplicationClock) { // an idle GPU lowers its clock by itself
		s.putStep(&g.entity, s.slots.clock, step, x.clock/x.appClock)
	}
	if x.known.has(telemetry.Xid) && x.xid != 0 {
		f := &fact{name: "gpu.xid", at: at, job: g.job, gpu: g.name, node: g.nodeName()}
		s.fact(f)
	}
	j := g.job
	if j == nil && x.known.has(telemetry.Power) && x.known.any(telemetry.Utilization|telemetry.SMActive) &&
		x.busy < usedAt && x.processes == 0 {
		g.freePower += x.power
		if g.free++; g.free >= enoughFree {
			g.idle = min(g.node.idle, max(g.freePower/float64(g.free), g.node.idle/leastIdle))
		}
	}
	if j == nil || !j.running || at < j.start {
		s.unjoined++
		return
	}
	j.seen = max(j.seen, at)
	if x.known.any(telemetry.Utilization | telemetry.SMActive) {
		s.putStep(&j.entity, s.slots.busy, step, x.busy)
		j.busySum += x.busy
		j.samples++
		used := x.busy >= usedAt
		if used {
			j.used++
			if !g.used {
				j.uses++
			}
		}
		g.used = used
		if low := x.busy < .2; low != j.below {
			if j.below = low; low {
				j.dips++
			}
		}
	}
	if x.known.has(telemetry.Power) {
		s.putStep(&j.entity, s.slots.power, step, x.power-g.idle)
	}
	if x.known.has(telemetry.Processes) {
		s.putStep(&j.entity, s.slots.processes, step, float64(x.processes))
	}
	if hasMemory {
		s.putStep(&j.entity, s.slots.memory, step, memory)
		j.memorySum += memory
		j.occupied++
	}
}

func (g *gpu) nodeName() string {
	if g.node == nil {
		return ""
	}
	return g.node.name
}

func bit(b uint64) float64 {
	if b != 0 {
		return 1
	}
	return 0
}

// slotNumbers are the places of signals in the rings of their entities, -1 for those that no
// rule asks for.
type slotNumbers struct {
	busy, power, processes, memory                                       int
	gpuBusy, gpuMemory, clock                                            int
	throttled, throttledPower, throttledThermal, throttledHardware       int
	quotaUse, othersWaiting, blocked, partitionFree, pendingGPUs, queued int
}

// put adds a value to a signal of a step of its own.
func (s *Scanner) put(e *entity, slot int, at time.Duration, v float64) {
	if slot >= 0 {
		s.putStep(e, slot, floorDiv(at, s.recorded[e.kind][slot].step), v)
	}
}

// putStep adds a value to a step of a signal.
func (s *Scanner) putStep(e *entity, slot int, step int64, v float64) {
	if slot < 0 {
		return
	}
	if e.rings == nil {
		e.recorded = s.recorded[e.kind]
		e.rings = make([]ring, len(e.recorded))
	}
	e.rings[slot].add(e.recorded[slot].slots, step, v)
}
