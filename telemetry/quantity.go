package telemetry

import (
	"math/bits"
	"strings"
)

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
