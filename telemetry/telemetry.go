// Package telemetry has the records of measurements on GPUs, queues and training loops,
// in the names and units of NVML and DCGM. A quantity that was not measured is
// unknown, which is neither zero nor idle.
package telemetry

import (
	"math/bits"
	"strings"
	"time"
)

// Field is a set of the quantities of a GPUSample.
type Field uint32

// The quantities of a GPUSample.
const (
	Utilization Field = 1 << iota
	SMActive
	MemoryUsed
	MemoryTotal
	Power
	Energy
	Temperature
	SMClock
	ApplicationClock
	Throttle
	Xid
	Processes
	SMOccupancy
	TensorActive
	DRAMActive
)

// Throttle reasons are bits of NVML's nvmlClocksEventReasons.
const (
	ThrottleIdle              = 0x1
	ThrottleApplicationClocks = 0x2
	ThrottleSoftwarePower     = 0x4
	ThrottleHardware          = 0x8
	ThrottleSoftwareThermal   = 0x20
	ThrottleHardwareThermal   = 0x40
	ThrottlePowerBrake        = 0x80
)

// GPU identifies a GPU, or an instance of one, of a cluster.
type GPU struct {
	Node  string
	Index int
	// Instance is the id of a MIG instance, -1 for the whole GPU.
	Instance int
}

// GPUSample is a reading of a GPU.
type GPUSample struct {
	GPU
	UUID string
	Time time.Duration // since the Unix epoch
	// Known says which of the quantities were measured; the others are zero.
	Known            Field
	Utilization      float64 // percent of the time in which a kernel ran, 0 to 100
	SMActive         float64 // mean share of SMs with a warp, 0 to 1
	SMOccupancy      float64 // mean share of the SMs' warps that are there, 0 to 1
	TensorActive     float64 // share of the time in which the tensor cores work, 0 to 1
	DRAMActive       float64 // share of the memory's bandwidth in use, 0 to 1
	MemoryUsed       float64 // MiB
	MemoryTotal      float64 // MiB
	Power            float64 // W
	Energy           float64 // J since the driver was loaded
	Temperature      float64 // degrees Celsius
	SMClock          float64 // MHz
	ApplicationClock float64 // MHz
	Throttle         uint64  // the reasons in force, a set of Throttle bits
	Xid              int     // the last Xid error since the sample before, 0 for none
	Processes        int     // processes with a context on the GPU
	// Job is the job that the processes belong to, empty where it is not known; samples
	// are then joined to jobs by node, GPU and time.
	Job string
	// Lost says that the GPU did not answer: nothing else of it is known, but perhaps the
	// Xid error.
	Lost bool
}

// Has reports whether every quantity of f was measured.
func (s *GPUSample) Has(f Field) bool { return s.Known&f == f }

// Busy is the share of the GPU in use, 0 to 1: SMActive where it was measured, else
// Utilization. It is false where neither was.
func (s *GPUSample) Busy() (float64, bool) {
	switch {
	case s.Has(SMActive):
		return s.SMActive, true
	case s.Has(Utilization):
		return s.Utilization / 100, true
	}
	return 0, false
}

// QueueSample is a reading of a queue of jobs.
type QueueSample struct {
	Queue string        // partition or virtual cluster, empty for the whole cluster
	Time  time.Duration // since the Unix epoch
	// Pending is the number of jobs that wait, PendingGPUs their demand.
	Pending     int
	PendingGPUs int
	// FreeGPUs is the number of GPUs that no job holds, TotalGPUs of the ones in service.
	FreeGPUs  int
	TotalGPUs int
}

// Iteration is a training step of a worker of a job.
type Iteration struct {
	Job    string
	Worker int
	Step   int
	Took   time.Duration
	Time   time.Duration // end of the step since the Unix epoch, 0 where it is not known
}

// Quantity is one of the measured numbers of a GPUSample.
type Quantity struct {
	Field Field
	Name  string // its column in the project's CSV, with the unit
	// Least and Most bound the reports of a GPU; other values are faults.
	Least, Most float64
	At          func(*GPUSample) *float64
}

// Quantities are the ones with a unit, in the order of the columns.
var Quantities = []Quantity{
	{Utilization, "utilization_percent", 0, 100, func(s *GPUSample) *float64 { return &s.Utilization }},
	{SMActive, "sm_active", 0, 1, func(s *GPUSample) *float64 { return &s.SMActive }},
	{MemoryUsed, "memory_used_mib", 0, 1 << 24, func(s *GPUSample) *float64 { return &s.MemoryUsed }},
	{MemoryTotal, "memory_total_mib", 0, 1 << 24, func(s *GPUSample) *float64 { return &s.MemoryTotal }},
	{Power, "power_w", 0, 1e5, func(s *GPUSample) *float64 { return &s.Power }},
	{Energy, "energy_j", 0, 1e15, func(s *GPUSample) *float64 { return &s.Energy }},
	{Temperature, "temperature_c", -50, 250, func(s *GPUSample) *float64 { return &s.Temperature }},
	{SMClock, "sm_clock_mhz", 0, 1e5, func(s *GPUSample) *float64 { return &s.SMClock }},
	{ApplicationClock, "application_clock_mhz", 0, 1e5, func(s *GPUSample) *float64 { return &s.ApplicationClock }},
	{SMOccupancy, "sm_occupancy", 0, 1, func(s *GPUSample) *float64 { return &s.SMOccupancy }},
	{TensorActive, "tensor_active", 0, 1, func(s *GPUSample) *float64 { return &s.TensorActive }},
	{DRAMActive, "dram_active", 0, 1, func(s *GPUSample) *float64 { return &s.DRAMActive }},
}

// Bounds of the counts of a sample.
const (
	maxXid       = 100_000
	maxProcesses = 1_000_000
	maxGPU       = 100_000 // index on a node, and id of an instance
)

// set takes a value in the quantity's unit; the reason is empty if it is possible.
func (q *Quantity) set(s *GPUSample, v float64) (reason string) {
	if !(v >= q.Least && v <= q.Most) {
		return outOfRange
	}
	*q.At(s) = v
	s.Known |= q.Field
	return ""
}

// Impossible are the known quantities that no GPU can report.
func (s *GPUSample) Impossible() Field {
	var bad Field
	for i := range Quantities {
		q := &Quantities[i]
		if v := *q.At(s); s.Has(q.Field) && !(v >= q.Least && v <= q.Most) {
			bad |= q.Field
		}
	}
	if s.Xid < 0 || s.Xid > maxXid {
		bad |= Xid
	}
	if s.Processes < 0 || s.Processes > maxProcesses {
		bad |= Processes
	}
	return bad
}

// Forget makes quantities unknown.
func (s *GPUSample) Forget(f Field) {
	for i := range Quantities {
		if q := &Quantities[i]; f&q.Field != 0 {
			*q.At(s) = 0
		}
	}
	if f&Throttle != 0 {
		s.Throttle = 0
	}
	if f&Xid != 0 {
		s.Xid = 0
	}
	if f&Processes != 0 {
		s.Processes = 0
	}
	s.Known &^= f
}

func quantityOf(f Field) *Quantity {
	for i := range Quantities {
		if Quantities[i].Field == f {
			return &Quantities[i]
		}
	}
	return nil
}

// fieldNames are the columns of all fields, by bit.
var fieldNames = func() []string {
	names := make([]string, len(Quantities)+3)
	set := func(f Field, name string) { names[bits.TrailingZeros32(uint32(f))] = name }
	for i := range Quantities {
		set(Quantities[i].Field, Quantities[i].Name)
	}
	set(Throttle, "throttle")
	set(Xid, "xid")
	set(Processes, "processes")
	return names
}()

// Names lists the columns of the fields in a set.
func (f Field) Names() []string {
	var names []string
	for i, name := range fieldNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func (f Field) String() string { return strings.Join(f.Names(), ", ") }
