package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/telemetry"
)

const (
	maxSamples     = 20_000 // of a request
	maxHours       = 48     // that they are of: each is a file
	maxRejected    = 100    // that are described
	maxGPUIndex    = 100_000
	maxWorker      = 100_000
	maxStep        = 1 << 48
	maxTook        = 24 * time.Hour
	maxAhead       = 24 * time.Hour // of the service's clock
	defaultSamples = 1000           // of a page
	maxSamplesPage = 10_000
)

// quantities are the numbers of a sample with the range that each may have.
var quantities = []struct {
	field  telemetry.Field
	name   string
	lo, hi float64
	get    func(*pb.GpuSample) *float64
	set    func(*pb.GpuSample, *float64)
	of     func(*telemetry.GPUSample) *float64
}{
	{telemetry.Utilization, "utilization_percent", 0, 100,
		func(p *pb.GpuSample) *float64 { return p.UtilizationPercent },
		func(p *pb.GpuSample, v *float64) { p.UtilizationPercent = v },
		func(s *telemetry.GPUSample) *float64 { return &s.Utilization }},
	{telemetry.SMActive, "sm_active", 0, 1,
		func(p *pb.GpuSample) *float64 { return p.SmActive },
		func(p *pb.GpuSample, v *float64) { p.SmActive = v },
		func(s *telemetry.GPUSample) *float64 { return &s.SMActive }},
	{telemetry.MemoryUsed, "memory_used_mib", 0, 1e9,
		func(p *pb.GpuSample) *float64 { return p.MemoryUsedMib },
		func(p *pb.GpuSample, v *float64) { p.MemoryUsedMib = v },
		func(s *telemetry.GPUSample) *float64 { return &s.MemoryUsed }},
	{telemetry.MemoryTotal, "memory_total_mib", 0, 1e9,
		func(p *pb.GpuSample) *float64 { return p.MemoryTotalMib },
		func(p *pb.GpuSample, v *float64) { p.MemoryTotalMib = v },
		func(s *telemetry.GPUSample) *float64 { return &s.MemoryTotal }},
	{telemetry.Power, "power_watts", 0, 1e5,
		func(p *pb.GpuSample) *float64 { return p.PowerWatts },
		func(p *pb.GpuSample, v *float64) { p.PowerWatts = v },
		func(s *telemetry.GPUSample) *float64 { return &s.Power }},
	{telemetry.Energy, "energy_joules", 0, 1e15,
		func(p *pb.GpuSample) *float64 { return p.EnergyJoules },
		func(p *pb.GpuSample, v *float64) { p.EnergyJoules = v },
		func(s *telemetry.GPUSample) *float64 { return &s.Energy }},
	{telemetry.Temperature, "temperature_celsius", -100, 1000,
		func(p *pb.GpuSample) *float64 { return p.TemperatureCelsius },
		func(p *pb.GpuSample, v *float64) { p.TemperatureCelsius = v },
		func(s *telemetry.GPUSample) *float64 { return &s.Temperature }},
	{telemetry.SMClock, "sm_clock_mhz", 0, 1e5,
		func(p *pb.GpuSample) *float64 { return p.SmClockMhz },
		func(p *pb.GpuSample, v *float64) { p.SmClockMhz = v },
		func(s *telemetry.GPUSample) *float64 { return &s.SMClock }},
	{telemetry.ApplicationClock, "application_clock_mhz", 0, 1e5,
		func(p *pb.GpuSample) *float64 { return p.ApplicationClockMhz },
		func(p *pb.GpuSample, v *float64) { p.ApplicationClockMhz = v },
		func(s *telemetry.GPUSample) *float64 { return &s.ApplicationClock }},
}

// SampleFromProto converts a sample as the service sends it.
func SampleFromProto(p *pb.GpuSample) (telemetry.GPUSample, error) {
	s, bad := sampleFromProto(p, math.MaxInt64)
	if bad != nil {
		return s, fmt.Errorf("%s: %s", bad.field, bad.why)
	}
	return s, nil
}

// sampleFromProto converts a sample and finds what is wrong with it.
func sampleFromProto(p *pb.GpuSample, latest time.Duration) (telemetry.GPUSample, *fault) {
	c := converter{}
	s := telemetry.GPUSample{GPU: telemetry.GPU{Node: p.GetNodeId(), Index: int(p.GetGpuIndex()), Instance: -1},
		UUID: p.GetGpuUuid(), Job: p.GetJobId(), Lost: p.GetLost(), Time: c.time("sample_time", p.GetSampleTime())}
	for _, t := range []struct{ field, text string }{{"node_id", s.Node}, {"gpu_uuid", s.UUID}, {"job_id", s.Job}} {
		c.text(t.field, t.text)
	}
	switch {
	case s.Node == "":
		c.add("node_id", "is required")
	case strings.ContainsFunc(s.Node, unicode.IsSpace):
		c.add("node_id", "has a blank")
	case p.GetSampleTime() == nil:
		c.add("sample_time", "is required")
	case s.Time > latest:
		c.add("sample_time", "is more than a day ahead of the service's clock")
	case s.Index < 0 || s.Index > maxGPUIndex:
		c.add("gpu_index", fmt.Sprintf("%d is not from 0 to %d", s.Index, maxGPUIndex))
	}
	if p.MigInstance != nil {
		if s.Instance = int(p.GetMigInstance()); s.Instance < 0 {
			c.add("mig_instance", fmt.Sprintf("%d is negative", s.Instance))
		}
	}
	for _, q := range quantities {
		v := q.get(p)
		if v == nil {
			continue
		}
		if !(*v >= q.lo && *v <= q.hi) {
			c.add(q.name, fmt.Sprintf("%v is not from %v to %v; leave out what was not measured", *v, q.lo, q.hi))
		}
		s.Known |= q.field
		*q.of(&s) = *v
	}
	if p.ThrottleReasons != nil {
		s.Known |= telemetry.Throttle
		if s.Throttle = p.GetThrottleReasons(); s.Throttle > math.MaxInt64 {
			c.add("throttle_reasons", "is no set of bits of NVML")
		}
	}
	count := func(field telemetry.Field, name string, v *int32, dst *int) {
		if v == nil {
			return
		}
		if *v < 0 {
			c.add(name, fmt.Sprintf("%d is negative", *v))
		}
		s.Known |= field
		*dst = int(*v)
	}
	count(telemetry.Xid, "xid", p.Xid, &s.Xid)
	count(telemetry.Processes, "processes", p.Processes, &s.Processes)
	if s.Lost && s.Known&^telemetry.Xid != 0 {
		c.add("lost", "a GPU that did not answer measured nothing")
	}
	return s, c.first
}

// iterationFromProto converts an iteration and finds what is wrong with it.
func iterationFromProto(p *pb.TrainingIteration, latest time.Duration) (telemetry.Iteration, *fault) {
	c := converter{}
	c.text("job_id", p.GetJobId())
	took := p.GetDurationSeconds()
	i := telemetry.Iteration{Job: p.GetJobId(), Worker: int(p.GetWorker()), Step: int(p.GetStep()),
		Took: time.Duration(took * float64(time.Second)), Time: c.time("end_time", p.GetEndTime())}
	switch {
	case i.Job == "":
		c.add("job_id", "is required")
	case i.Worker < 0 || i.Worker > maxWorker:
		c.add("worker", fmt.Sprintf("%d is not from 0 to %d", i.Worker, maxWorker))
	case p.GetStep() < 0 || p.GetStep() > maxStep:
		c.add("step", fmt.Sprintf("%d is not from 0 to %d", p.GetStep(), int64(maxStep)))
	case !(took > 0 && took <= maxTook.Seconds()):
		c.add("duration_seconds", fmt.Sprintf("%v is not positive and at most a day", took))
	case p.GetEndTime() == nil:
		c.add("end_time", "is required")
	case i.Time > latest:
		c.add("end_time", "is more than a day ahead of the service's clock")
	}
	return i, c.first
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
	for _, q := range quantities {
		if s.Has(q.field) {
			q.set(p, new(*q.of(s)))
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

// IngestTelemetry stores samples and iterations.
func (s *Server) IngestTelemetry(ctx context.Context, req *pb.IngestTelemetryRequest) (*pb.IngestTelemetryResponse,
	error) {
	id, err := s.telemetryOf(req.GetParent())
	if err != nil {
		return nil, err
	}
	if n := len(req.GetSamples()); n > maxSamples {
		return nil, invalid("samples", "are %d, more than %d: send them in several requests", n, maxSamples)
	}
	if n := len(req.GetIterations()); n > maxSamples {
		return nil, invalid("iterations", "are %d, more than %d: send them in several requests", n,
			maxSamples)
	}
	out := &pb.IngestTelemetryResponse{}
	all := make([]telemetry.GPUSample, 0, len(req.GetSamples()))
	hours := map[time.Duration]bool{}
	latest := time.Duration(s.now().Add(maxAhead).UnixNano())
	for i, p := range req.GetSamples() {
		one, bad := sampleFromProto(p, latest)
		if bad != nil {
			if out.RejectedCount++; out.RejectedCount <= maxRejected {
				out.Rejected = append(out.Rejected, &pb.IngestTelemetryResponse_RejectedSample{Index: int32(i),
					Field: bad.field, Reason: bad.why})
			}
			continue
		}
		hours[one.Time/time.Hour] = true
		all = append(all, one)
	}
	ofSamples := len(hours)
	steps := make([]telemetry.Iteration, 0, len(req.GetIterations()))
	for i, p := range req.GetIterations() {
		one, bad := iterationFromProto(p, latest)
		if bad != nil {
			if out.RejectedIterationCount++; out.RejectedIterationCount <= maxRejected {
				out.RejectedIterations = append(out.RejectedIterations,
					&pb.IngestTelemetryResponse_RejectedSample{Index: int32(i), Field: bad.field, Reason: bad.why})
			}
			continue
		}
		hours[one.Time/time.Hour] = true
		steps = append(steps, one)
	}
	if len(hours) > maxHours {
		field := "samples"
		if ofSamples <= maxHours {
			field = "iterations"
		}
		return nil, invalid(field, "are of %d hours, more than %d: send them in order of time",
			len(hours), maxHours)
	}
	if err := s.samples.Append(ctx, id, all); err != nil {
		return nil, err
	}
	if err := s.samples.AppendIterations(ctx, id, steps); err != nil {
		return nil, err
	}
	if s.findings != nil {
		s.findings.Samples(id, all)
		s.findings.Iterations(id, steps)
	}
	out.StoredCount, out.StoredIterationCount = int64(len(all)), int64(len(steps))
	s.metrics.samples.WithLabelValues(id, "stored").Add(float64(len(all)))
	s.metrics.samples.WithLabelValues(id, "rejected").Add(float64(out.RejectedCount))
	s.metrics.iterations.WithLabelValues(id, "stored").Add(float64(len(steps)))
	s.metrics.iterations.WithLabelValues(id, "rejected").Add(float64(out.RejectedIterationCount))
	return out, nil
}

// telemetryOf is the id of a scheduler that there is.
func (s *Server) telemetryOf(parent string) (string, error) {
	id, err := parseScheduler("parent", parent)
	if err != nil {
		return "", err
	}
	_, _, err = s.service.Scheduler(id)
	return id, err
}

var errPageFull = errors.New("the page is full")

// ListTelemetry lists samples. Its tokens are the last sample listed.
func (s *Server) ListTelemetry(ctx context.Context, req *pb.ListTelemetryRequest) (*pb.ListTelemetryResponse, error) {
	id, err := s.telemetryOf(req.GetParent())
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	switch {
	case size < 0:
		return nil, invalid("page_size", "%d is negative", size)
	case size == 0:
		size = defaultSamples
	}
	size = min(size, maxSamplesPage)
	c := converter{}
	q := samples.Query{From: c.time("start_time", req.GetStartTime()), To: c.time("end_time", req.GetEndTime()),
		Node: req.GetNodeId(), Job: req.GetJobId(), Resolution: samples.Resolution(req.GetResolution())}
	if _, known := pb.ListTelemetryRequest_Resolution_name[int32(req.GetResolution())]; !known {
		c.add("resolution", fmt.Sprintf("%d is not known", req.GetResolution()))
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	if req.GpuIndex != nil {
		q.Index = new(int(req.GetGpuIndex()))
	}
	t, err := s.pages.after(req)
	if err != nil {
		return nil, err
	}
	var last *telemetry.GPUSample
	if t.After != "" {
		last = &telemetry.GPUSample{}
		_, err := fmt.Sscanf(t.After, "%d %d %d %s", &last.Time, &last.Index, &last.Instance, &last.Node)
		if err != nil {
			return nil, invalid("page_token", "is not one that this service gave")
		}
		q.From = max(q.From, last.Time/time.Hour*time.Hour)
	}
	out := &pb.ListTelemetryResponse{}
	err = s.samples.Read(ctx, id, q, func(x *telemetry.GPUSample) error {
		if last != nil && x.Time/time.Hour == last.Time/time.Hour && samples.Order(x, last) <= 0 {
			return nil
		}
		if n := len(out.Samples); n == size {
			end := out.Samples[n-1]
			instance := -1
			if end.MigInstance != nil {
				instance = int(end.GetMigInstance())
			}
			out.NextPageToken = s.pages.next(req, token{After: fmt.Sprintf("%d %d %d %s",
				end.GetSampleTime().AsTime().UnixNano(), end.GetGpuIndex(), instance, end.GetNodeId())})
			return errPageFull
		}
		out.Samples = append(out.Samples, SampleToProto(x))
		return nil
	})
	if err != nil && !errors.Is(err, errPageFull) {
		return nil, err
	}
	return out, nil
}
