package waste

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/telemetry"
)

const maxSamples = 20_000 // of a request

const maxHours = 48 // that they are of: each is a file

const maxRejected = 100 // that are described

const defaultSamples = 1000 // of a page

const maxSamplesPage = 10_000

// Register adds the services to a server, and their metrics to a registry.
func (s *Service) Register(g grpc.ServiceRegistrar, r prometheus.Registerer) {
	r.MustRegister(s.samples, s.iterations)
	if s.o.Samples != nil {
		pb.RegisterTelemetryServiceServer(g, s)
	}
	if s.o.Findings != nil {
		pb.RegisterFindingServiceServer(g, s)
		r.MustRegister(s.o.Findings)
	}
}

// Forget drops the metrics of a purged scheduler.
func (s *Service) Forget(id string) {
	s.samples.DeletePartialMatch(prometheus.Labels{"scheduler": id})
	s.iterations.DeletePartialMatch(prometheus.Labels{"scheduler": id})
}

// IngestTelemetry stores samples and iterations.
func (s *Service) IngestTelemetry(ctx context.Context,
	req *pb.IngestTelemetryRequest) (*pb.IngestTelemetryResponse,
	error) {
	id, deleted, err := s.telemetryOf(req.GetParent())
	if err == nil && deleted {
		err = fmt.Errorf("scheduler %q %w", id, controller.ErrDeleted)
	}
	if err != nil {
		return nil, err
	}
	if n := len(req.GetSamples()); n > maxSamples {
		return nil, convert.Invalid("samples", "are %d, more than %d: send them in several requests", n, maxSamples)
	}
	if n := len(req.GetIterations()); n > maxSamples {
		return nil, convert.Invalid("iterations", "are %d, more than %d: send them in several requests", n,
			maxSamples)
	}
	if err := s.o.Quota.TakeSamples(id, len(req.GetSamples())+len(req.GetIterations())); err != nil {
		return nil, err
	}
	out := &pb.IngestTelemetryResponse{}
	all := make([]telemetry.GPUSample, 0, len(req.GetSamples()))
	hours := map[time.Duration]bool{}
	latest := time.Duration(s.o.Now().Add(rpc.MaxAhead).UnixNano())
	for i, p := range req.GetSamples() {
		one, bad := convert.SampleUntil(p, latest)
		if bad != nil {
			if out.RejectedCount++; out.RejectedCount <= maxRejected {
				out.Rejected = append(out.Rejected, &pb.IngestTelemetryResponse_RejectedSample{Index: int32(i),
					Field: bad.Field, Reason: bad.Why})
			}
			continue
		}
		hours[one.Time/time.Hour] = true
		all = append(all, one)
	}
	ofSamples := len(hours)
	steps := make([]telemetry.Iteration, 0, len(req.GetIterations()))
	for i, p := range req.GetIterations() {
		one, bad := convert.IterationUntil(p, latest)
		if bad != nil {
			if out.RejectedIterationCount++; out.RejectedIterationCount <= maxRejected {
				out.RejectedIterations = append(out.RejectedIterations,
					&pb.IngestTelemetryResponse_RejectedSample{Index: int32(i), Field: bad.Field, Reason: bad.Why})
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
		return nil, convert.Invalid(field, "are of %d hours, more than %d: send them in order of time",
			len(hours), maxHours)
	}
	if err := s.o.Samples.Append(ctx, id, all); err != nil {
		return nil, err
	}
	if err := s.o.Samples.AppendIterations(ctx, id, steps); err != nil {
		return nil, err
	}
	if s.o.Findings != nil {
		s.o.Findings.Samples(id, all)
		s.o.Findings.Iterations(id, steps)
	}
	out.StoredCount, out.StoredIterationCount = int64(len(all)), int64(len(steps))
	s.samples.WithLabelValues(id, "stored").Add(float64(len(all)))
	s.samples.WithLabelValues(id, "rejected").Add(float64(out.RejectedCount))
	s.iterations.WithLabelValues(id, "stored").Add(float64(len(steps)))
	s.iterations.WithLabelValues(id, "rejected").Add(float64(out.RejectedIterationCount))
	return out, nil
}

// telemetryOf is the id of a scheduler that there is, and whether it is deleted.
func (s *Service) telemetryOf(parent string) (id string, deleted bool, err error) {
	if id, err = convert.ParseScheduler("parent", parent); err != nil {
		return "", false, err
	}
	c, _, err := s.o.Controller.Scheduler(id)
	return id, !c.Deleted.IsZero(), err
}

var errPageFull = errors.New("the page is full")

// ListTelemetry lists samples. Its tokens are the last sample listed.
func (s *Service) ListTelemetry(ctx context.Context, req *pb.ListTelemetryRequest) (*pb.ListTelemetryResponse,
	error) {
	id, _, err := s.telemetryOf(req.GetParent())
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	switch {
	case size < 0:
		return nil, convert.Invalid("page_size", "%d is negative", size)
	case size == 0:
		size = defaultSamples
	}
	size = min(size, maxSamplesPage)
	c := convert.Checker{}
	q := samples.Query{From: c.Time("start_time", req.GetStartTime()), To: c.Time("end_time", req.GetEndTime()),
		Node: req.GetNodeId(), Job: req.GetJobId(), Resolution: samples.Resolution(req.GetResolution())}
	if _, known := pb.ListTelemetryRequest_Resolution_name[int32(req.GetResolution())]; !known {
		c.Add("resolution", fmt.Sprintf("%d is not known", req.GetResolution()))
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if req.GpuIndex != nil {
		q.Index = new(int(req.GetGpuIndex()))
	}
	t, err := s.o.Pages.After(req)
	if err != nil {
		return nil, err
	}
	if t.After != "" {
		last := &telemetry.GPUSample{}
		q.After = last
		_, err := fmt.Sscanf(t.After, "%d %d %d %s", &last.Time, &last.Index, &last.Instance, &last.Node)
		if err != nil {
			return nil, convert.Invalid("page_token", "is not one that this service gave")
		}
	}
	out := &pb.ListTelemetryResponse{}
	err = s.o.Samples.Read(ctx, id, q, func(x *telemetry.GPUSample) error {
		if n := len(out.Samples); n == size {
			end := out.Samples[n-1]
			instance := -1
			if end.MigInstance != nil {
				instance = int(end.GetMigInstance())
			}
			out.NextPageToken = s.o.Pages.Next(req, rpc.Token{After: fmt.Sprintf("%d %d %d %s",
				end.GetSampleTime().AsTime().UnixNano(), end.GetGpuIndex(), instance, end.GetNodeId())})
			return errPageFull
		}
		out.Samples = append(out.Samples, convert.SampleToProto(x))
		return nil
	})
	if err != nil && !errors.Is(err, errPageFull) {
		return nil, err
	}
	return out, nil
}
