// Package waste serves telemetry, and findings of waste in a cluster.
package waste

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/telemetry"
)

const (
	maxSnooze      = 365 * 24 * time.Hour
	maxSamples     = 20_000 // of a request
	maxHours       = 48     // that they are of: each is a file
	maxRejected    = 100    // that are described
	defaultSamples = 1000   // of a page
	maxSamplesPage = 10_000
)

// ListFindings lists findings. Its tokens are the last one listed.
func (s *Service) ListFindings(_ context.Context, req *pb.ListFindingsRequest) (*pb.ListFindingsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err == nil {
		_, _, err = s.o.Controller.Scheduler(id)
	}
	if err != nil {
		return nil, err
	}
	size, err := rpc.PageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	if _, known := pb.Finding_State_name[int32(req.GetState())]; !known {
		return nil, convert.Invalid("state", "%d is not known", req.GetState())
	}
	t, err := s.o.Pages.After(req)
	if err != nil {
		return nil, err
	}
	all, rules, more := s.o.Findings.List(id, findings.Query{Open: req.GetState() == pb.Finding_OPEN,
		Closed: req.GetState() == pb.Finding_CLOSED, Rule: req.GetRule(), Kind: req.GetEntityKind(),
		Entity: req.GetEntity(), Limit: size, AfterID: t.After, AfterOpened: time.Unix(0, t.Revision)})
	out := &pb.ListFindingsResponse{}
	for _, f := range all {
		out.Findings = append(out.Findings, findingToProto(id, f))
	}
	if more {
		last := all[len(all)-1]
		out.NextPageToken = s.o.Pages.Next(req, rpc.Token{After: last.ID, Revision: last.Opened.UnixNano()})
	}
	for i := range rules {
		r := &rules[i]
		one := &pb.ListFindingsResponse_RuleSummary{Rule: r.Rule, TotalCount: int64(r.Total),
			OpenCount: int64(r.Open), AcknowledgedCount: int64(r.Acknowledged),
			FalsePositiveCount: int64(r.FalsePositives),
			WastedGpuHours:     r.Wasted, Cost: r.Cost}
		if share, known := r.Precision(); known {
			one.Precision = &share
		}
		out.Rules = append(out.Rules, one)
	}
	return out, nil
}

// GetFinding returns a finding.
func (s *Service) GetFinding(_ context.Context, req *pb.GetFindingRequest) (*pb.Finding, error) {
	return s.change(req.GetName(), s.o.Findings.Get)
}

// change calls f with a finding's scheduler and id.
func (s *Service) change(name string, f func(scheduler, id string) (*findings.Finding, error)) (*pb.Finding,
	error) {
	scheduler, id, err := convert.ParseFinding("name", name)
	if err == nil {
		_, _, err = s.o.Controller.Scheduler(scheduler)
	}
	if err != nil {
		return nil, err
	}
	got, err := f(scheduler, id)
	if err != nil {
		return nil, err
	}
	return findingToProto(scheduler, got), nil
}

// judge changes the marks of a finding, and records the change.
func (s *Service) judge(ctx context.Context, req interface {
	GetName() string
	GetReason() string
}, f func(scheduler, id, by string) (*findings.Finding, error)) (*pb.Finding, error) {
	return s.change(req.GetName(), func(scheduler, id string) (*findings.Finding, error) {
		was, err := s.o.Findings.Get(scheduler, id)
		if err != nil {
			return nil, err
		}
		is, err := f(scheduler, id, access.FromContext(ctx).Name)
		if err != nil {
			return nil, err
		}
		return is, s.o.Controller.Note(ctx, rpc.CallOf(ctx, req), scheduler, req.GetReason(),
			"findings/"+id+".", was.Marks, is.Marks)
	})
}

// checkReason bounds the reason of a caller.
func checkReason(text string) error {
	var c convert.Checker
	c.Text("reason", text)
	return c.Err()
}

// AcknowledgeFinding says that a finding is true and seen to.
func (s *Service) AcknowledgeFinding(ctx context.Context, req *pb.AcknowledgeFindingRequest) (*pb.Finding, error) {
	if err := checkReason(req.GetReason()); err != nil {
		return nil, err
	}
	return s.judge(ctx, req,
		func(scheduler, id, by string) (*findings.Finding, error) {
			return s.o.Findings.Acknowledge(scheduler, id, by, req.GetReason())
		})
}

// SnoozeFinding makes a finding silent for a while.
func (s *Service) SnoozeFinding(ctx context.Context, req *pb.SnoozeFindingRequest) (*pb.Finding, error) {
	now := s.o.Now()
	var c convert.Checker
	until := time.Unix(0, int64(c.Time("until_time", req.GetUntilTime())))
	switch {
	case req.GetUntilTime() == nil:
		c.Add("until_time", "is required")
	case !until.After(now):
		c.Add("until_time", "is not after the service's clock, "+now.UTC().Format(time.RFC3339))
	case until.Sub(now) > maxSnooze:
		c.Add("until_time", "is more than a year ahead of the service's clock")
	}
	c.Text("reason", req.GetReason())
	if err := c.Err(); err != nil {
		return nil, err
	}
	return s.judge(ctx, req,
		func(scheduler, id, by string) (*findings.Finding, error) {
			return s.o.Findings.Snooze(scheduler, id, by, req.GetReason(), until)
		})
}

// MarkFalsePositive says that a finding is wrong.
func (s *Service) MarkFalsePositive(ctx context.Context, req *pb.MarkFalsePositiveRequest) (*pb.Finding, error) {
	if strings.TrimSpace(req.GetReason()) == "" {
		return nil, convert.Invalid("reason", "is required: say why the finding is wrong")
	}
	if err := checkReason(req.GetReason()); err != nil {
		return nil, err
	}
	return s.judge(ctx, req,
		func(scheduler, id, by string) (*findings.Finding, error) {
			return s.o.Findings.MarkFalsePositive(scheduler, id, by, req.GetReason())
		})
}

func findingToProto(scheduler string, f *findings.Finding) *pb.Finding {
	out := &pb.Finding{Name: convert.FindingName(scheduler, f.ID), Rule: f.Rule, EntityKind: f.Entity.Kind,
		Entity: f.Entity.Name, JobId: f.Job, State: pb.Finding_OPEN, BeginTime: timestamppb.New(f.Began),
		OpenTime: timestamppb.New(f.Opened), UpdateTime: timestamppb.New(f.Updated), Confidence: f.Confidence,
		WastedGpuHours: f.WastedGPUHours, Cost: f.Cost, Affected: f.Affected, Action: f.Action,
		Words: f.Words, Lost: f.Lost,
		Acknowledged: markToProto(f.Acknowledged), Snoozed: markToProto(f.Snoozed),
		FalsePositive: markToProto(f.FalsePositive)}
	if !f.Open {
		out.State, out.CloseTime = pb.Finding_CLOSED, timestamppb.New(f.Closed)
	}
	for _, e := range f.Evidence {
		out.Evidence = append(out.Evidence, &pb.Finding_Evidence{What: e.What, Value: e.Value, Threshold: e.Threshold,
			Unit: e.Unit, StartTime: timestamppb.New(e.From), EndTime: timestamppb.New(e.To)})
	}
	return out
}

func markToProto(m *findings.Mark) *pb.Finding_Mark {
	if m == nil {
		return nil
	}
	out := &pb.Finding_Mark{Actor: m.By, CreateTime: timestamppb.New(m.At), Reason: m.Reason}
	if !m.Until.IsZero() {
		out.UntilTime = timestamppb.New(m.Until)
	}
	return out
}

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	Note(ctx context.Context, call controller.Call, scheduler, reason, prefix string, before, after any) error
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
}

// Samples keeps the telemetry of schedulers.
type Samples interface {
	Append(ctx context.Context, scheduler string, all []telemetry.GPUSample) error
	AppendIterations(ctx context.Context, scheduler string, all []telemetry.Iteration) error
	Damaged() []string
	Latest(scheduler string) (time.Duration, error)
	Read(ctx context.Context, scheduler string, q samples.Query, f func(*telemetry.GPUSample) error) error
}

// Findings keeps findings and their marks, and looks for more in what it is given.
type Findings interface {
	prometheus.Collector
	Acknowledge(scheduler, id, by, reason string) (*findings.Finding, error)
	Get(scheduler, id string) (*findings.Finding, error)
	Iterations(id string, iterations []telemetry.Iteration)
	List(id string, q findings.Query) (out []*findings.Finding, rules []findings.Rule, more bool)
	MarkFalsePositive(scheduler, id, by, reason string) (*findings.Finding, error)
	Samples(id string, samples []telemetry.GPUSample)
	Snooze(scheduler, id, by, reason string, until time.Time) (*findings.Finding, error)
}

// Config configures the service of telemetry and findings.
type Config struct {
	Controller Controller
	Samples    Samples  // TelemetryService is not served if nil
	Findings   Findings // FindingService is not served if nil
	Pages      rpc.Pager
	Quota      interface{ TakeSamples(id string, n int) error }
	Now        func() time.Time
}

// Service serves telemetry, and findings of waste in a cluster.
type Service struct {
	pb.UnimplementedTelemetryServiceServer
	pb.UnimplementedFindingServiceServer

	o                   Config
	samples, iterations *prometheus.CounterVec // by scheduler and result
}

// New returns the services of telemetry and findings.
func New(o Config) *Service {
	return &Service{o: o,
		samples: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_telemetry_samples_total",
			Help: "Samples of GPUs received, by result: stored, those sent before among them, or rejected.",
		}, []string{"scheduler", "result"}),
		iterations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_telemetry_iterations_total",
			Help: "Training iterations received, by result: stored, those sent before among them, or rejected.",
		}, []string{"scheduler", "result"})}
}

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
