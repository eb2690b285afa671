package patterns

import (
	"time"

	"github.com/autosched/autosched/telemetry"
)

// Series of the kinds of subjects.
const (
	jobBusy = iota
	jobPower
	jobProcesses
	jobMemory
)
const (
	gpuBusy = iota
	gpuMemory
	gpuClock
	gpuThrottled
	gpuThrottledPower
	gpuThrottledThermal
	gpuThrottledHardware
)
const (
	tenantUse = iota
	tenantOthersWaiting
)
const (
	partitionBlocked = iota
	partitionFree
)
const (
	queuePending = iota
	queueFree
)

// series are the series of a kind of subject.
type series struct {
	step  time.Duration
	slots []int // steps kept of each, 0 for none
}

func newSeries(period time.Duration) map[string]*series {
	of := func(step time.Duration, n int) *series { return &series{step, make([]int, n)} }
	return map[string]*series{"job": of(period, jobMemory+1), "gpu": of(period, gpuThrottledHardware+1),
		"tenant": of(15*time.Minute, tenantOthersWaiting+1), "partition": of(tick, partitionFree+1),
		"queue": of(tick, queueFree+1)}
}

// keep lets a series of a kind of subject be recorded over a window.
func (s *state) keep(kind string, i int, over time.Duration) {
	x := s.series[kind]
	x.slots[i] = max(x.slots[i], int(over/x.step)+2+int(s.late/x.step))
}

// subject is a part of the cluster that has series: a job, GPU, queue, partition or tenant.
type subject struct {
	kind, name string
	job        *job // the subject or, of a GPU, the job that its samples count for; nil for none
	series     *series
	rings      []ring // nil without values
}

func (s *state) subject(kind, name string) subject {
	return subject{kind: kind, name: name, series: s.series[kind]}
}

// clear forgets the values.
func (e *subject) clear() {
	for i := range e.rings {
		clear(e.rings[i].steps)
	}
}

// put adds a value to a step of a series.
func (e *subject) put(i int, step int64, v float64) {
	slots := e.series.slots[i]
	if slots == 0 {
		return
	}
	if e.rings == nil {
		e.rings = make([]ring, len(e.series.slots))
	}
	e.rings[i].add(slots, step, v)
}

// putNow adds a value to the present step of a series.
func (s *state) putNow(e *subject, i int, v float64) { e.put(i, stepOf(s.now, e.series.step), v) }

// means calls f with the steps from first to before last that have values, the latest first, their means and numbers
// of values, until it returns false. It returns the sums of steps and values.
func (e *subject) means(i int, first, last int64, f func(step int64, mean float32, n int) bool) (steps, values int) {
	if e.rings == nil || e.rings[i].steps == nil {
		return 0, 0
	}
	r := &e.rings[i]
	size := int64(len(r.steps))
	p := mod(last-1, size)
	for k := last - 1; k >= max(first, r.head-size+1); k-- {
		if x := r.steps[p]; k <= r.head && x.n > 0 {
			values += int(x.n)
			steps++
			if !f(k, x.sum/float32(x.n), int(x.n)) {
				break
			}
		}
		if p--; p < 0 {
			p = size - 1
		}
	}
	return steps, values
}

// ring has the last values of a series: the mean of each step of time.
type ring struct {
	head  int64 // number of the last step
	pos   int   // its place: its number modulo the size
	steps []stepSum
}

// stepSum has the values of a step; sum and number lie together, as both are read and written at once.
type stepSum struct {
	sum float32
	n   uint32
}

// stepOf returns the number of the step of a length in which an instant lies.
func stepOf(at, length time.Duration) int64 {
	q := at / length
	if at%length < 0 {
		q--
	}
	return int64(q)
}

// firstSlots is the size of a new ring: most jobs are short.
const firstSlots = 16

// grow makes room for a step, up to a number of slots.
func (r *ring) grow(slots int, k int64) {
	size := len(r.steps)
	for int64(size) <= k-r.head+int64(len(r.steps)) && size < slots {
		size = min(slots, 2*size)
	}
	more := ring{r.head, int(mod(r.head, int64(size))), make([]stepSum, size)}
	for i := r.head - int64(len(r.steps)) + 1; i <= r.head; i++ {
		more.steps[mod(i, int64(size))] = r.steps[mod(i, int64(len(r.steps)))]
	}
	*r = more
}

// add adds a value to a step.
func (r *ring) add(slots int, k int64, v float64) {
	if k == r.head && r.steps != nil { // most values are of the last step
		r.steps[r.pos].sum += float32(v)
		r.steps[r.pos].n++
		return
	}
	if r.steps == nil {
		n := min(slots, firstSlots)
		*r = ring{k, int(mod(k, int64(n))), make([]stepSum, n)}
	}
	if k > r.head && len(r.steps) < slots {
		r.grow(slots, k)
	}
	size := int64(len(r.steps))
	p := r.pos
	switch {
	case k == r.head+1: // or of the next
		if p++; p == len(r.steps) {
			p = 0
		}
		r.steps[p] = stepSum{}
		r.head, r.pos = k, p
	case k > r.head:
		for i := max(r.head+1, k-size+1); i <= k; i++ {
			r.steps[mod(i, size)] = stepSum{}
		}
		p = int(mod(k, size))
		r.head, r.pos = k, p
	case k <= r.head-size:
		return
	default:
		p = int(mod(k, size))
	}
	r.steps[p].sum += float32(v)
	r.steps[p].n++
}

func mod(a, b int64) int64 {
	if a %= b; a < 0 {
		a += b
	}
	return a
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

// A GPU is used from usedAt on, and its use is low below lowUse.
const (
	usedAt = .01
	lowUse = .2
)

// gpuSample takes in a sample of a GPU. Impossible quantities are unknown.
func (s *state) gpuSample(v *telemetry.GPUSample, at time.Duration) {
	x := *v
	if x.Lost {
		x.Known &= telemetry.Xid
	}
	x.Known &^= x.Impossible()
	if x.Known == 0 {
		return
	}
	g := s.gpuOf(x.GPU)
	if g == nil {
		return
	}
	s.sampled, s.seen.gpus = at, true
	if x.Job != "" && x.Job != g.id {
		j := s.jobs[x.Job]
		if j == nil {
			j = s.infer(x.Job, at)
		}
		if j != nil && j.running {
			g.named = true
			s.join(g, j)
		}
	}
	r := reading{GPUSample: &x, step: stepOf(at, s.period)}
	r.busy, r.hasBusy = x.Busy()
	if r.Has(telemetry.MemoryUsed|telemetry.MemoryTotal) && x.MemoryTotal > 0 {
		r.memory, r.hasMemory = x.MemoryUsed/x.MemoryTotal, true
	}
	g.record(&r)
	if x.Has(telemetry.Xid) && x.Xid != 0 {
		s.onFact(&fact{name: "gpu.xid", at: at, job: g.job, gpu: g.name, node: g.node.name})
	}
	if j := g.job; j != nil && j.running && at >= j.start {
		j.sampled = max(j.sampled, at)
		j.record(&r, g)
	} else {
		s.unjoined++
	}
}

// reading is a sample with its shares of use and memory.
type reading struct {
	*telemetry.GPUSample
	step               int64
	busy, memory       float64
	hasBusy, hasMemory bool
}

func bit(b uint64) float64 {
	if b != 0 {
		return 1
	}
	return 0
}

// record adds a reading to the series of a GPU.
func (g *gpu) record(r *reading) {
	if r.hasBusy {
		g.put(gpuBusy, r.step, r.busy)
	}
	if r.hasMemory {
		g.put(gpuMemory, r.step, r.memory)
	}
	idle := r.Has(telemetry.Throttle) && r.Throttle&telemetry.ThrottleIdle != 0
	if r.Has(telemetry.Throttle) {
		bits := r.Throttle
		if idle {
			bits = 0
		}
		g.put(gpuThrottled, r.step, bit(bits&throttleAny))
		g.put(gpuThrottledPower, r.step, bit(bits&throttlePower))
		g.put(gpuThrottledThermal, r.step, bit(bits&throttleThermal))
		g.put(gpuThrottledHardware, r.step, bit(bits&throttleHardware))
	}
	// An idle GPU lowers its clock by itself.
	if !idle && r.ApplicationClock > 0 && r.Has(telemetry.SMClock|telemetry.ApplicationClock) {
		g.put(gpuClock, r.step, r.SMClock/r.ApplicationClock)
	}
	if g.job == nil && r.Has(telemetry.Power) && r.hasBusy && r.busy < usedAt && r.Processes == 0 {
		g.freePower += r.Power
		if g.free++; g.free >= enoughFree {
			g.idle = min(g.node.idle, max(g.freePower/float64(g.free), g.node.idle/leastIdle))
		}
	}
}

// record adds a reading of one of its GPUs to the series of a job.
func (j *job) record(r *reading, g *gpu) {
	if r.hasBusy {
		j.put(jobBusy, r.step, r.busy)
		j.use.busy += r.busy
		j.use.samples++
		used := r.busy >= usedAt
		if used {
			j.use.used++
			if !g.used {
				j.use.spells++
			}
		}
		g.used = used
		if low := r.busy < lowUse; low != j.use.low {
			if j.use.low = low; low {
				j.use.dips++
			}
		}
	}
	if r.Has(telemetry.Power) {
		j.put(jobPower, r.step, r.Power-g.idle)
	}
	if r.Has(telemetry.Processes) {
		j.put(jobProcesses, r.step, float64(r.Processes))
	}
	if r.hasMemory {
		j.put(jobMemory, r.step, r.memory)
		j.use.memory += r.memory
		j.use.occupied++
	}
}
