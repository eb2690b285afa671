package cluster

import (
	"math"
	"slices"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// Series of the kinds of subjects.
const (
	JobBusy = iota
	JobPower
	JobProcesses
	JobMemory
	JobKernels
)
const (
	GPUBusy = iota
	GPUMemory
	GPUClock
	GPUThrottled
	GPUThrottledPower
	GPUThrottledThermal
	GPUThrottledHardware
)
const (
	TenantUse = iota
	TenantOthersWaiting
)
const (
	PartitionBlocked = iota
	PartitionFree
)
const (
	QueuePending = iota
	QueueFree
)

// Series are the series of a kind of subject.
type Series struct {
	Step  time.Duration
	Slots []int // steps kept of each, 0 for none
}

// NewSeries returns the series of all kinds of subjects, none of which is recorded.
func NewSeries(period time.Duration) map[string]*Series {
	of := func(step time.Duration, n int) *Series { return &Series{step, make([]int, n)} }
	return map[string]*Series{"job": of(period, JobKernels+1), "gpu": of(period, GPUThrottledHardware+1),
		"tenant": of(15*time.Minute, TenantOthersWaiting+1), "partition": of(Tick, PartitionFree+1),
		"queue": of(Tick, QueueFree+1)}
}

// Keep lets a series of a kind of subject be recorded over a window.
func (s *State) Keep(kind string, i int, over time.Duration) {
	x := s.Series[kind]
	x.Slots[i] = max(x.Slots[i], int(over/x.Step)+2+int(s.Late/x.Step))
}

// Subject is a part of the cluster that has series: a job, GPU, queue, partition or tenant.
type Subject struct {
	Kind, Name string
	Job        *Job // the subject or, of a GPU, the job that its samples count for; nil for none
	Series     *Series
	Rings      []ring // nil without values
}

func (s *State) subject(kind, name string) Subject {
	return Subject{Kind: kind, Name: name, Series: s.Series[kind]}
}

// clear forgets the values.
func (e *Subject) clear() {
	for i := range e.Rings {
		clear(e.Rings[i].steps)
	}
}

// put adds a value to a step of a series.
func (e *Subject) put(i int, step int64, v float64) {
	slots := e.Series.Slots[i]
	if slots == 0 {
		return
	}
	if e.Rings == nil {
		e.Rings = make([]ring, len(e.Series.Slots))
	}
	e.Rings[i].add(slots, step, v)
}

// putNow adds a value to the present step of a series.
func (s *State) putNow(e *Subject, i int, v float64) { e.put(i, StepOf(s.Now, e.Series.Step), v) }

// Means calls f with the steps from first to before last that have values, the latest first, their means and numbers
// of values, until it returns false. It returns the sums of steps and values.
func (e *Subject) Means(i int, first, last int64, f func(step int64, mean float32, n int) bool) (steps, values int) {
	if e.Rings == nil || e.Rings[i].steps == nil {
		return 0, 0
	}
	r := &e.Rings[i]
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

// StepOf returns the number of the step of a length in which an instant lies.
func StepOf(at, length time.Duration) int64 {
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

// GPUSample takes in a sample of a GPU. Impossible quantities are unknown.
func (s *State) GPUSample(v *telemetry.GPUSample, at time.Duration) {
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
	s.Sampled, s.Seen.GPUs = at, true
	if x.Job != "" && x.Job != g.id {
		j := s.Jobs[x.Job]
		if j == nil {
			j = s.infer(x.Job, at)
		}
		if j != nil && j.Running {
			g.named = true
			s.join(g, j)
		}
	}
	r := reading{GPUSample: &x, step: StepOf(at, s.Period)}
	r.busy, r.hasBusy = x.Busy()
	if r.Has(telemetry.MemoryUsed|telemetry.MemoryTotal) && x.MemoryTotal > 0 {
		r.memory, r.hasMemory = x.MemoryUsed/x.MemoryTotal, true
	}
	g.record(&r)
	if x.Has(telemetry.Xid) && x.Xid != 0 {
		s.OnFact(&Fact{Name: "gpu.xid", At: at, Job: g.Job, GPU: g.Name, Node: g.node.name})
	}
	if j := g.Job; j != nil && j.Running && at >= j.Start {
		j.Sampled = max(j.Sampled, at)
		r.early = !j.inferred && at < j.Start+max(startUp, s.Period)
		j.record(&r, g)
	}
	s.Joins[joined(&x, g, at)]++
}

// joined is how a sample came to the job of its GPU, or why it is of none.
func joined(x *telemetry.GPUSample, g *GPU, at time.Duration) telemetry.Joined {
	switch j := g.Job; {
	case j != nil && j.Running && at >= j.Start && x.Job == j.Name:
		return telemetry.ByName
	case j != nil && j.Running && at >= j.Start:
		return telemetry.ByPlacement
	case x.Job != "":
		return telemetry.EndedJob
	case j == nil && len(g.node.jobs) > 0:
		return telemetry.SharedNode
	}
	return telemetry.IdleNode
}

// startUp is how long a job makes its contexts and loads its data, which is no use of a GPU yet.
const startUp = 2 * time.Minute

// reading is a sample with its shares of use and memory.
type reading struct {
	*telemetry.GPUSample
	step               int64
	early              bool // the job has just started
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
func (g *GPU) record(r *reading) {
	if r.hasBusy {
		g.put(GPUBusy, r.step, r.busy)
	}
	if r.hasMemory {
		g.put(GPUMemory, r.step, r.memory)
	}
	idle := r.Has(telemetry.Throttle) && r.Throttle&telemetry.ThrottleIdle != 0
	if r.Has(telemetry.Throttle) {
		bits := r.Throttle
		if idle {
			bits = 0
		}
		g.put(GPUThrottled, r.step, bit(bits&throttleAny))
		g.put(GPUThrottledPower, r.step, bit(bits&throttlePower))
		g.put(GPUThrottledThermal, r.step, bit(bits&throttleThermal))
		g.put(GPUThrottledHardware, r.step, bit(bits&throttleHardware))
	}
	// An idle GPU lowers its clock by itself.
	if !idle && r.ApplicationClock > 0 && r.Has(telemetry.SMClock|telemetry.ApplicationClock) {
		g.put(GPUClock, r.step, r.SMClock/r.ApplicationClock)
	}
	if g.Job == nil && r.Has(telemetry.Power) && r.hasBusy && r.busy < usedAt && r.Processes == 0 {
		g.freePower += r.Power
		if g.free++; g.free >= enoughFree {
			g.idle = min(g.node.idle, max(g.freePower/float64(g.free), g.node.idle/leastIdle))
		}
	}
}

// record adds a reading of one of its GPUs to the series of a job.
func (j *Job) record(r *reading, g *GPU) {
	if r.hasBusy {
		j.put(JobBusy, r.step, r.busy)
		j.Use.Busy += r.busy
		j.Use.Samples++
		kernels := r.busy // the share of the time in which some ran
		if r.Has(telemetry.Utilization) {
			kernels = r.Utilization / 100
		}
		j.put(JobKernels, r.step, kernels)
		j.Use.Kernels += kernels
		if r.Has(telemetry.SMActive) {
			j.Use.Active++
		}
		used := r.busy >= usedAt
		switch {
		case !used:
			g.started = 0
		case r.early: // it counts if the use goes on
			g.started++
		default:
			if !g.used || g.started > 0 {
				j.Use.Spells++
			}
			j.Use.Used += 1 + g.started
			g.started = 0
		}
		g.used = used
		if low := r.busy < lowUse; low != j.Use.low {
			if j.Use.low = low; low {
				j.Use.Dips++
			}
		}
	}
	if r.Has(telemetry.Power) {
		j.put(JobPower, r.step, r.Power-g.idle)
	}
	if r.Has(telemetry.Processes) {
		j.put(JobProcesses, r.step, float64(r.Processes))
	}
	if r.hasMemory {
		j.put(JobMemory, r.step, r.memory)
		j.Use.Memory += r.memory
		j.Use.Occupied++
	}
}

// gang is the workers of a job, with the rows of iterations that are not complete.
type gang struct {
	Workers []int
	last    []progress // of each of them
	rows    []Row
	lastRow int
	HasRows bool // lastRow was passed on
}

// Row is the times of one iteration, by worker of a job.
type Row struct {
	step   int
	at     time.Duration
	Took   []float64 // ms, NaN where the worker has none; in order of job.workers
	filled int
}

// Progress is the last step of a worker. One that falls back behind rows that were passed on began again, from a
// checkpoint or the start, or had sent wrong numbers: the steps of its job count from there on.
type progress struct {
	step int
	at   time.Duration
}

// rowLimit bounds the rows that wait for a late worker.
const rowLimit = 64

// maxWorkers bounds the workers of a job that are examined.
const maxWorkers = 4096

// Iteration adds an iteration to its row, and passes complete rows on.
func (s *State) Iteration(it *telemetry.Iteration, at time.Duration) {
	j := s.Jobs[it.Job]
	if j == nil {
		if j = s.infer(it.Job, at); j == nil {
			return
		}
	}
	j.Progress = max(j.Progress, at, 1)
	w := slices.Index(j.Workers, it.Worker)
	if w < 0 {
		if len(j.Workers) == maxWorkers || s.workers >= 4*s.Cap {
			s.Drop("workers")
			return
		}
		s.workers++
		w = len(j.Workers)
		j.Workers, j.last = append(j.Workers, it.Worker), append(j.last, progress{})
	}
	if p := j.last[w]; j.HasRows && it.Step <= j.lastRow && it.Step < p.step && at > p.at {
		s.PassRows(j)
		clear(j.last)
		j.HasRows = false
	}
	if p := &j.last[w]; at >= p.at {
		*p = progress{it.Step, at}
	}
	if j.HasRows && it.Step <= j.lastRow {
		return
	}
	i := len(j.rows) // most are of the last row
	for i > 0 && j.rows[i-1].step >= it.Step {
		i--
	}
	if i == len(j.rows) || j.rows[i].step != it.Step {
		j.rows = slices.Insert(j.rows, i, Row{step: it.Step})
	}
	x := &j.rows[i]
	for len(x.Took) < len(j.Workers) {
		x.Took = append(x.Took, math.NaN())
	}
	if math.IsNaN(x.Took[w]) {
		x.filled++
	}
	x.Took[w], x.at = it.Took.Seconds()*1000, at
	for len(j.rows) > 1 && (j.rows[0].filled == len(j.Workers) || len(j.rows) > rowLimit) {
		s.passRow(j)
	}
}

func (s *State) passRow(j *Job) {
	x := j.rows[0]
	j.rows = slices.Delete(j.rows, 0, 1)
	j.lastRow, j.HasRows, s.Seen.Iterations = x.step, true, true
	s.OnRow(j, &x)
}

// PassRows passes on the rows that wait for a worker.
func (s *State) PassRows(j *Job) {
	for len(j.rows) > 0 {
		s.passRow(j)
	}
}

// Slowest is the largest time of a row.
func (x *Row) Slowest() float64 {
	most := math.NaN()
	for _, v := range x.Took {
		if math.IsNaN(most) || v > most {
			most = v
		}
	}
	return most
}

// WorkerNode returns the node of the i-th worker where the placement shows it: there is a worker for each node, or for
// each GPU, in order. Else it is empty.
func (j *Job) WorkerNode(i int) string {
	w := j.Workers[i]
	if w < 0 || len(j.placement) == 0 {
		return ""
	}
	switch len(j.Workers) {
	case len(j.placement):
		if w < len(j.placement) {
			return j.placement[w].Node
		}
	case heldBy(j.placement):
		for _, p := range j.placement {
			if w -= p.GPUs; w < 0 {
				return p.Node
			}
		}
	}
	return ""
}
