package telemetry

import (
	"math"
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
	var names []string
	for i := range Quantities {
		names = append(names, Quantities[i].Name)
	}
	return append(names, "throttle", "xid", "processes")
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

// metric is how DCGM reports a quantity.
type metric struct {
	name  string // without DCGM_FI_DEV_ or DCGM_FI_PROF_
	field Field
	scale float64 // makes the quantity's unit of DCGM's
}

// Free and total memory make MemoryTotal.
var metrics = []metric{
	{"GPU_UTIL", Utilization, 1},
	{"SM_ACTIVE", SMActive, 1},
	{"FB_USED", MemoryUsed, 1},
	{"FB_TOTAL", MemoryTotal, 1},
	{"POWER_USAGE", Power, 1},
	{"TOTAL_ENERGY_CONSUMPTION", Energy, 1e-3}, // mJ
	{"GPU_TEMP", Temperature, 1},
	{"SM_CLOCK", SMClock, 1},
	{"APP_SM_CLOCK", ApplicationClock, 1},
	{"CLOCKS_EVENT_REASONS", Throttle, 1},
	{"CLOCK_THROTTLE_REASONS", Throttle, 1}, // its name before DCGM 3.3
	{"XID_ERRORS", Xid, 1},
}

// freeMemory is the metric that completes FB_USED.
const freeMemory = "FB_FREE"

// metricOf finds a metric by its name with or without DCGM's prefixes.
func metricOf(name string) *metric {
	name = bareMetric(name)
	for i := range metrics {
		if metrics[i].name == name {
			return &metrics[i]
		}
	}
	return nil
}

func bareMetric(name string) string {
	name = strings.TrimPrefix(name, "DCGM_FI_DEV_")
	return strings.TrimPrefix(name, "DCGM_FI_PROF_")
}

// blank reports whether DCGM says by a value that it has none: its blanks of 32-bit and
// 64-bit integers and of floating point lie at the ends of the ranges (dcgm_structs.h).
func blank(v float64) bool {
	return math.IsNaN(v) || v >= 0x7ffffff0 && v <= 0x7fffffff || v >= 1<<47 && v < 1<<47+16 ||
		v >= 0x7ffffffffffffff0 && v <= 1<<63
}

// take sets a metric's value. A blank value leaves the quantity unknown.
func (m *metric) take(s *GPUSample, v float64) (reason string) {
	if blank(v) {
		return ""
	}
	whole := v >= 0 && v == math.Trunc(v)
	switch m.field {
	case Throttle:
		if !whole || v >= 1<<53 {
			return outOfRange
		}
		s.Throttle = uint64(v)
	case Xid:
		if !whole || v > maxXid {
			return outOfRange
		}
		s.Xid = int(v)
	default:
		return quantityOf(m.field).set(s, v*m.scale)
	}
	s.Known |= m.field
	return ""
}
