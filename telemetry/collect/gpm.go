//go:build nvml && cgo

package collect

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/autosched/autosched/telemetry"
)

// The functions of GPM, the performance counters that GPUs have since Hopper.
const (
	fnGPMSupport = "nvmlGpmQueryDeviceSupport"
	fnGPMAlloc   = "nvmlGpmSampleAlloc"
	fnGPMFree    = "nvmlGpmSampleFree"
	fnGPMGet     = "nvmlGpmSampleGet"
	fnGPMMig     = "nvmlGpmMigSampleGet"
	fnGPMMetrics = "nvmlGpmMetricsGet"
)

// gpmFields are the metrics that are read, in percent.
var gpmFields = []struct {
	metric nvml.GpmMetricId
	field  telemetry.Field
	at     func(*telemetry.GPUSample) *float64
}{
	{nvml.GPM_METRIC_SM_UTIL, telemetry.SMActive, func(s *telemetry.GPUSample) *float64 { return &s.SMActive }},
	{nvml.GPM_METRIC_SM_OCCUPANCY, telemetry.SMOccupancy,
		func(s *telemetry.GPUSample) *float64 { return &s.SMOccupancy }},
	{nvml.GPM_METRIC_ANY_TENSOR_UTIL, telemetry.TensorActive,
		func(s *telemetry.GPUSample) *float64 { return &s.TensorActive }},
	{nvml.GPM_METRIC_DRAM_BW_UTIL, telemetry.DRAMActive,
		func(s *telemetry.GPUSample) *float64 { return &s.DRAMActive }},
}

// gpm has the counters of a device as they were read last: metrics are of the time between two readings.
type gpm struct {
	before, after nvml.GpmSample
	read          bool // before holds a reading
}

// newGPM makes room for the counters of a GPU, nil if it has none.
func (l *library) newGPM(gpu nvml.Device) *gpm {
	for _, fn := range []string{fnGPMSupport, fnGPMAlloc, fnGPMFree, fnGPMGet, fnGPMMetrics} {
		if !l.has[fn] {
			return nil
		}
	}
	if s, ret := gpu.GpmQueryDeviceSupport(); ret != nvml.SUCCESS || s.IsSupportedDevice == 0 {
		return nil
	}
	g := &gpm{}
	for _, to := range []*nvml.GpmSample{&g.before, &g.after} {
		sample, ret := l.api.GpmSampleAlloc()
		if ret != nvml.SUCCESS {
			break
		}
		*to = sample
		l.gpmRoom = append(l.gpmRoom, sample)
	}
	if g.after == nil {
		return nil
	}
	return g
}

// counters reads the metrics of a GPU, or of an instance of it, since the reading before.
func (l *library) counters(gpu nvml.Device, instance int, g *gpm, s *telemetry.GPUSample) error {
	var ret nvml.Return
	if instance >= 0 {
		ret = gpu.GpmMigSampleGet(instance, g.after)
	} else {
		ret = gpu.GpmSampleGet(g.after)
	}
	if ret != nvml.SUCCESS {
		g.read = false
		return check(ret)
	}
	if g.read {
		m := nvml.GpmMetricsGetType{NumMetrics: uint32(len(gpmFields)), Sample1: g.before, Sample2: g.after}
		for i := range gpmFields {
			m.Metrics[i].MetricId = uint32(gpmFields[i].metric)
		}
		if ret := l.api.GpmMetricsGet(&m); ret != nvml.SUCCESS {
			return check(ret)
		}
		for i := range gpmFields {
			x := &m.Metrics[i]
			if nvml.Return(x.NvmlReturn) == nvml.SUCCESS && x.Value >= 0 {
				*gpmFields[i].at(s) = min(1, x.Value/100)
				s.Known |= gpmFields[i].field
			}
		}
	}
	g.before, g.after, g.read = g.after, g.before, true
	return nil
}
