// Package metric serves metrics that schedulers report.
package metric

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/reports"
)

// maxReports bounds the reports of one request.
const maxReports = 1000

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
}

// Config configures the service of reported metrics.
type Config struct {
	Controller Controller
	Reports    *reports.Keeper
	Pages      rpc.Pager
	Quota      interface {
		TakeEvents(ctx context.Context, id string, n int) error
	}
	Streams *rpc.Streams
	Now     func() time.Time
}

// Service serves metrics that schedulers report.
type Service struct {
	pb.UnimplementedMetricServiceServer

	o        Config
	received *prometheus.CounterVec // by scheduler and result
}

// New returns the service of reported metrics.
func New(o Config) *Service {
	return &Service{o: o, received: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "autosched_metric_reports_total",
		Help: "Reports of metrics received, by result: accepted, duplicate, late or rejected.",
	}, []string{"scheduler", "result"})}
}

// Register adds the service to a server, and its metrics to a registry.
func (s *Service) Register(g grpc.ServiceRegistrar, r prometheus.Registerer) {
	pb.RegisterMetricServiceServer(g, s)
	r.MustRegister(s.received, s.o.Reports)
}

// Forget drops the metrics of a purged scheduler.
func (s *Service) Forget(id string) {
	s.received.DeletePartialMatch(prometheus.Labels{"scheduler": id})
}

// ReportMetrics takes reports in and answers each request when its reports are on disk.
func (s *Service) ReportMetrics(stream pb.MetricService_ReportMetricsServer) error {
	return rpc.AnswerEach(s.o.Streams, stream, s.report)
}

// reportFromProto converts a report and finds its first fault. Revisions count up to last.
func reportFromProto(p *pb.MetricReport, latest time.Duration, last int64) (reports.Report, *convert.Fault) {
	var c convert.Checker
	at := c.Time("scheduler_time", p.GetSchedulerTime())
	switch {
	case p.GetSchedulerTime() == nil:
		c.Add("scheduler_time", "is required")
	case at > latest:
		c.Add("scheduler_time", "is more than a day ahead of the service's clock")
	}
	c.Text("instance_id", p.GetInstanceId())
	if n := p.GetConfigurationRevision(); n < 1 || n > last {
		c.Add("configuration_revision",
			fmt.Sprintf("%d is not a revision of the scheduler: there are 1 to %d", n, last))
	}
	if n := len(p.GetMetrics()); n < 1 || n > reports.MaxMetrics {
		c.Add("metrics", fmt.Sprintf("are %d, not 1 to %d", n, reports.MaxMetrics))
	}
	for _, name := range slices.Sorted(maps.Keys(p.GetMetrics())) {
		switch v := p.GetMetrics()[name]; {
		case !convert.MetricID.MatchString(name):
			c.Add("metrics", fmt.Sprintf("%.80q is not 1 to 63 of a-z, 0-9 and '_', starting with a letter", name))
		case math.IsNaN(v) || math.Abs(v) > maxReported:
			c.Add("metrics", fmt.Sprintf("%s: %v is not a number from -1e100 to 1e100", name, v))
		}
	}
	return reports.Report{Key: reports.Key{Time: time.Unix(0, int64(at)).UTC(), Instance: p.GetInstanceId()},
		Revision: p.GetConfigurationRevision(), Metrics: p.GetMetrics()}, c.First
}

// maxReported is the largest value, so that squares of sums are numbers.
const maxReported = 1e100

// report takes reports of a registered scheduler in.
func (s *Service) report(ctx context.Context, id string,
	req *pb.ReportMetricsRequest) (*pb.ReportMetricsResponse, error) {
	if n := len(req.GetReports()); n > maxReports {
		return nil, convert.Invalid("reports", "%d are more than %d", n, maxReports)
	}
	if err := s.o.Quota.TakeEvents(ctx, id, len(req.GetReports())); err != nil {
		return nil, err
	}
	c, _, err := s.o.Controller.Scheduler(id)
	if err != nil {
		return nil, err
	}
	out := &pb.ReportMetricsResponse{Sequence: req.GetSequence()}
	reject := func(i int, field, why string) {
		out.RejectedReports = append(out.RejectedReports, &pb.ReportMetricsResponse_RejectedReport{Index: int32(i),
			Field: fmt.Sprintf("reports[%d].%s", i, field), Description: why})
	}
	latest := time.Duration(s.o.Now().Add(rpc.MaxAhead).UnixNano())
	var all []reports.Report
	var places []int
	for i, p := range req.GetReports() {
		one, bad := reportFromProto(p, latest, c.LastRevision)
		if bad != nil {
			reject(i, bad.Field, bad.Why)
			continue
		}
		all, places = append(all, one), append(places, i)
	}
	results, err := s.o.Reports.Append(ctx, rpc.CallOf(ctx, req), id, all)
	if err != nil {
		return nil, err
	}
	for i, result := range results {
		switch result {
		case reports.Stored:
			out.AcceptedCount++
		case reports.Duplicate:
			out.DuplicateCount++
		case reports.Late:
			out.LateCount++
		case reports.TooMany:
			reject(places[i], "metrics", fmt.Sprintf("are more than %d of a scheduler, with those that are kept",
				reports.MaxMetrics))
		}
	}
	slices.SortFunc(out.RejectedReports, func(a, b *pb.ReportMetricsResponse_RejectedReport) int {
		return int(a.GetIndex() - b.GetIndex())
	})
	for name, n := range map[string]int{"accepted": int(out.GetAcceptedCount()), "late": int(out.GetLateCount()),
		"duplicate": int(out.GetDuplicateCount()), "rejected": len(out.GetRejectedReports())} {
		s.received.WithLabelValues(id, name).Add(float64(n))
	}
	return out, nil
}

// ListMetrics lists reports. Its tokens are the last report listed.
func (s *Service) ListMetrics(_ context.Context, req *pb.ListMetricsRequest) (*pb.ListMetricsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	size, err := rpc.PageSize(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	var c convert.Checker
	from, to := c.Time("start_time", req.GetStartTime()), c.Time("end_time", req.GetEndTime())
	if req.GetConfigurationRevision() < 0 {
		c.Add("configuration_revision", "is negative")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	t, err := s.o.Pages.After(req)
	if err != nil {
		return nil, err
	}
	after := reports.Key{}
	switch {
	case req.GetPageToken() != "":
		after = reports.Key{Time: time.Unix(0, t.Revision), Instance: t.After}
	case from > 0:
		after = reports.Key{Time: time.Unix(0, int64(from)-1), Instance: string([]byte{0xff})}
	}
	out := &pb.ListMetricsResponse{}
	err = s.o.Reports.List(id, after, func(r *reports.Report) bool {
		_, has := r.Metrics[req.GetMetricId()]
		switch {
		case req.GetEndTime() != nil && r.Time.UnixNano() >= int64(to):
			return false
		case req.InstanceId != nil && r.Instance != req.GetInstanceId(),
			req.GetConfigurationRevision() > 0 && r.Revision != req.GetConfigurationRevision(),
			req.GetMetricId() != "" && !has:
			return true
		case len(out.Reports) == size:
			last := out.GetReports()[size-1]
			out.NextPageToken = s.o.Pages.Next(req, rpc.Token{After: last.GetInstanceId(),
				Revision: last.GetSchedulerTime().AsTime().UnixNano()})
			return false
		}
		out.Reports = append(out.Reports, &pb.MetricReport{InstanceId: r.Instance, Metrics: r.Metrics,
			SchedulerTime: timestamppb.New(r.Time), ConfigurationRevision: r.Revision})
		return true
	})
	return out, err
}
