package convert

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/telemetry"
)

const maxGPUIndex = 100_000

// MaxWorker bounds the number of a worker of a job.
const MaxWorker = 100_000

const maxStep = 1 << 48

const maxTook = 24 * time.Hour

// quantities are the fields of the numbers of a sample, in the order of telemetry.Quantities.
var quantities = []struct {
	name string
	at   func(*pb.GpuSample) **float64
}{
	{"utilization_percent", func(p *pb.GpuSample) **float64 { return &p.UtilizationPercent }},
	{"sm_active", func(p *pb.GpuSample) **float64 { return &p.SmActive }},
	{"memory_used_mib", func(p *pb.GpuSample) **float64 { return &p.MemoryUsedMib }},
	{"memory_total_mib", func(p *pb.GpuSample) **float64 { return &p.MemoryTotalMib }},
	{"power_watts", func(p *pb.GpuSample) **float64 { return &p.PowerWatts }},
	{"energy_joules", func(p *pb.GpuSample) **float64 { return &p.EnergyJoules }},
	{"temperature_celsius", func(p *pb.GpuSample) **float64 { return &p.TemperatureCelsius }},
	{"sm_clock_mhz", func(p *pb.GpuSample) **float64 { return &p.SmClockMhz }},
	{"application_clock_mhz", func(p *pb.GpuSample) **float64 { return &p.ApplicationClockMhz }},
	{"sm_occupancy", func(p *pb.GpuSample) **float64 { return &p.SmOccupancy }},
	{"tensor_active", func(p *pb.GpuSample) **float64 { return &p.TensorActive }},
	{"dram_active", func(p *pb.GpuSample) **float64 { return &p.DramActive }},
}

// SampleFromProto converts a sample as the service sends it.
func SampleFromProto(p *pb.GpuSample) (telemetry.GPUSample, error) {
	s, bad := SampleUntil(p, math.MaxInt64)
	if bad != nil {
		return s, fmt.Errorf("%s: %s", bad.Field, bad.Why)
	}
	return s, nil
}

// SampleUntil converts a sample taken until an instant and finds its first fault.
func SampleUntil(p *pb.GpuSample, latest time.Duration) (telemetry.GPUSample, *Fault) {
	c := Checker{}
	s := telemetry.GPUSample{GPU: telemetry.GPU{Node: p.GetNodeId(), Index: int(p.GetGpuIndex()), Instance: -1},
		UUID: p.GetGpuUuid(), Job: p.GetJobId(), Lost: p.GetLost(), Time: c.Time("sample_time", p.GetSampleTime())}
	for _, t := range []struct{ field, text string }{{"node_id", s.Node}, {"gpu_uuid", s.UUID}, {"job_id", s.Job}} {
		c.Text(t.field, t.text)
	}
	switch {
	case s.Node == "":
		c.Add("node_id", "is required")
	case strings.ContainsFunc(s.Node, unicode.IsSpace):
		c.Add("node_id", "has a blank")
	case p.GetSampleTime() == nil:
		c.Add("sample_time", "is required")
	case s.Time > latest:
		c.Add("sample_time", "is more than a day ahead of the service's clock")
	case s.Index < 0 || s.Index > maxGPUIndex:
		c.Add("gpu_index", fmt.Sprintf("%d is not from 0 to %d", s.Index, maxGPUIndex))
	}
	if p.MigInstance != nil {
		if s.Instance = int(p.GetMigInstance()); s.Instance < 0 {
			c.Add("mig_instance", fmt.Sprintf("%d is negative", s.Instance))
		}
	}
	for i := range quantities {
		q, v := &telemetry.Quantities[i], *quantities[i].at(p)
		if v == nil {
			continue
		}
		if !(*v >= q.Least && *v <= q.Most) {
			c.Add(quantities[i].name,
				fmt.Sprintf("%v is not from %v to %v; leave out what was not measured", *v, q.Least, q.Most))
		}
		s.Known |= q.Field
		*q.At(&s) = *v
	}
	if p.ThrottleReasons != nil {
		s.Known |= telemetry.Throttle
		if s.Throttle = p.GetThrottleReasons(); s.Throttle > math.MaxInt64 {
			c.Add("throttle_reasons", "is no set of bits of NVML")
		}
	}
	count := func(field telemetry.Field, name string, v *int32, dst *int) {
		if v == nil {
			return
		}
		if *v < 0 {
			c.Add(name, fmt.Sprintf("%d is negative", *v))
		}
		s.Known |= field
		*dst = int(*v)
	}
	count(telemetry.Xid, "xid", p.Xid, &s.Xid)
	count(telemetry.Processes, "processes", p.Processes, &s.Processes)
	if s.Lost && s.Known&^telemetry.Xid != 0 {
		c.Add("lost", "a GPU that did not answer measured nothing")
	}
	return s, c.First
}

// IterationUntil converts an iteration that ended until an instant and finds its first fault.
func IterationUntil(p *pb.TrainingIteration, latest time.Duration) (telemetry.Iteration, *Fault) {
	c := Checker{}
	c.Text("job_id", p.GetJobId())
	took := p.GetDurationSeconds()
	i := telemetry.Iteration{Job: p.GetJobId(), Worker: int(p.GetWorker()), Step: int(p.GetStep()),
		Took: time.Duration(took * float64(time.Second)), Time: c.Time("end_time", p.GetEndTime())}
	switch {
	case i.Job == "":
		c.Add("job_id", "is required")
	case i.Worker < 0 || i.Worker > MaxWorker:
		c.Add("worker", fmt.Sprintf("%d is not from 0 to %d", i.Worker, MaxWorker))
	case p.GetStep() < 0 || p.GetStep() > maxStep:
		c.Add("step", fmt.Sprintf("%d is not from 0 to %d", p.GetStep(), int64(maxStep)))
	case !(took > 0 && took <= maxTook.Seconds()):
		c.Add("duration_seconds", fmt.Sprintf("%v is not positive and at most a day", took))
	case p.GetEndTime() == nil:
		c.Add("end_time", "is required")
	case i.Time > latest:
		c.Add("end_time", "is more than a day ahead of the service's clock")
	}
	return i, c.First
}

// IterationToProto converts an iteration for the service. One without a time has none.
func IterationToProto(i *telemetry.Iteration) *pb.TrainingIteration {
	p := &pb.TrainingIteration{JobId: i.Job, Worker: int32(i.Worker), Step: int64(i.Step),
		DurationSeconds: i.Took.Seconds()}
	if i.Time != 0 {
		p.EndTime = timestamppb.New(time.Unix(0, int64(i.Time)))
	}
	return p
}

// SampleToProto converts a sample for the service.
func SampleToProto(s *telemetry.GPUSample) *pb.GpuSample {
	p := &pb.GpuSample{NodeId: s.Node, GpuIndex: int32(s.Index), GpuUuid: s.UUID, JobId: s.Job, Lost: s.Lost,
		SampleTime: timestamppb.New(time.Unix(0, int64(s.Time)))}
	if s.Instance >= 0 {
		p.MigInstance = new(int32(s.Instance))
	}
	for i := range quantities {
		if q := &telemetry.Quantities[i]; s.Has(q.Field) {
			*quantities[i].at(p) = new(*q.At(s))
		}
	}
	if s.Has(telemetry.Throttle) {
		p.ThrottleReasons = new(s.Throttle)
	}
	if s.Has(telemetry.Xid) {
		p.Xid = new(int32(s.Xid))
	}
	if s.Has(telemetry.Processes) {
		p.Processes = new(int32(s.Processes))
	}
	return p
}
