package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/client"
)

// waited is a report of revision 1 at a number of seconds.
func waited(second int) *pb.MetricReport {
	return &pb.MetricReport{SchedulerTime: timestamppb.New(zero.Add(time.Duration(second) * time.Second)),
		ConfigurationRevision: 1, Metrics: map[string]float64{"wait": float64(second)}}
}

// noted keeps a client's notifications.
type noted struct {
	mu  sync.Mutex
	all []error
}

func (n *noted) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, err)
}

func (n *noted) seen() []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]error(nil), n.all...)
}

// stored are the reports that the service has.
func (s *service) stored() (all []*pb.MetricReport) {
	s.t.Helper()
	req := &pb.ListMetricsRequest{Parent: "schedulers/prod", PageSize: 1000}
	for {
		got := answered(s.t, func(ctx context.Context) (*pb.ListMetricsResponse, error) {
			return pb.NewMetricServiceClient(s.conn).ListMetrics(ctx, req)
		})
		all = append(all, got.GetReports()...)
		if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
			return all
		}
	}
}

// Connections break and the service restarts in the middle of requests: every report is stored once, in order.
func TestReportsAreStoredOnce(t *testing.T) {
	s := newService(t, rpc.DefaultLimits(), 30_000, 5_000, 60_000, 3_000)
	c, _ := s.client(client.Options{})
	const n = 5_000
	for i := range n {
		if !c.Report(waited(i)) {
			t.Fatal("dropped", i)
		}
		if i == n/2 {
			eventually(t, "some are stored", func() bool { return c.ReportCounts().Stored > 0 })
			s.stop()
			s.start(false)
		}
	}
	if err := c.FlushReports(within(t)); err != nil {
		t.Fatal(err)
	}
	got, all := c.ReportCounts(), s.stored()
	if len(all) != n || got.Stored+got.Duplicate != n || got.Waiting+got.Dropped+got.Late+got.Rejected != 0 {
		t.Errorf("%d reports of %d; the client counts %+v", len(all), n, got)
	}
	for i, r := range all {
		if r.GetMetrics()["wait"] != float64(i) {
			t.Fatalf("report %d is %v", i, r)
		}
	}
}

// A report that no request can carry is rejected: later ones are stored.
func TestReportBeyondARequest(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	var n noted
	c, _ := s.client(client.Options{Notify: n.note})
	huge := waited(0)
	huge.Metrics["wait_"+strings.Repeat("x", 8<<20)] = 1
	for _, r := range []*pb.MetricReport{huge, waited(1)} {
		if !c.Report(r) {
			t.Fatal("dropped")
		}
	}
	if err := c.FlushReports(within(t)); err != nil {
		t.Fatal(err)
	}
	var rejected *client.RejectedReportError
	for _, err := range n.seen() {
		errors.As(err, &rejected)
	}
	if got := c.ReportCounts(); got.Rejected != 1 || got.Stored != 1 || rejected == nil ||
		!rejected.Report.GetSchedulerTime().AsTime().Equal(zero) || !strings.Contains(rejected.Error(), "larger") {
		t.Errorf("%+v, %v", got, rejected)
	}
}

// A service that is away costs the scheduler nothing: the buffer is bounded, and dropped reports are reported.
func TestReportsNeverWait(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	var n noted
	c, _ := s.client(client.Options{Reports: 10, Notify: n.note})
	s.stop()
	taken := 0
	for i := range 25 {
		if c.Report(waited(i)) {
			taken++
		}
	}
	if got := c.ReportCounts(); taken != 10 || got.Dropped != 15 || got.Waiting != 10 {
		t.Errorf("%d are taken over, %+v", taken, got)
	}
	s.start(false)
	if err := c.FlushReports(within(t)); err != nil {
		t.Fatal(err)
	}
	if !c.Report(waited(25)) {
		t.Error("there is room, and the report is dropped")
	}
	var dropped *client.DroppedReportsError
	for _, err := range n.seen() {
		errors.As(err, &dropped)
	}
	want := client.DroppedReportsError{Count: 15, First: zero.Add(10 * time.Second), Last: zero.Add(24 * time.Second)}
	if dropped == nil || *dropped != want {
		t.Errorf("%v, want %v", dropped, &want)
	}
	if err := c.FlushReports(within(t)); err != nil || len(s.stored()) != 11 {
		t.Errorf("%d are stored, %v", len(s.stored()), err)
	}
}

// Missing fields of a report are filled in; rejected ones are reported, and the rest of the request stored.
func TestReportsOfTheRevisionInForce(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	var n noted
	var a applied
	c, _ := s.client(client.Options{Instance: "a", Notify: n.note, Apply: a.apply,
		Now: func() time.Time { return zero }})
	unknown, err := client.New(client.Options{Conn: s.conn, Scheduler: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if unknown.Report(&pb.MetricReport{Metrics: map[string]float64{"wait": 1}}) {
		t.Error("a report of no revision is taken over")
	}
	eventually(t, "a report of the revision in force", func() bool {
		return c.Report(&pb.MetricReport{Metrics: map[string]float64{"wait": 1}})
	})
	bad := waited(1)
	bad.Metrics = map[string]float64{"No Name": 1}
	c.Report(bad)
	c.Report(waited(2))
	if err := c.FlushReports(within(t)); err != nil {
		t.Fatal(err)
	}
	all := s.stored()
	if len(all) != 2 || all[0].GetInstanceId() != "a" || all[0].GetConfigurationRevision() != 1 ||
		!all[0].GetSchedulerTime().AsTime().Equal(zero) {
		t.Errorf("%v", all)
	}
	var rejected *client.RejectedReportError
	eventually(t, "the rejected report", func() bool {
		for _, err := range n.seen() {
			errors.As(err, &rejected)
		}
		return rejected != nil
	})
	if rejected.Report.GetMetrics()["No Name"] != 1 || c.ReportCounts().Rejected != 1 {
		t.Errorf("%v, %+v", rejected, c.ReportCounts())
	}
}

// A service that takes no reports is reported to the scheduler, and takes its events as before.
func TestReportsAreRefused(t *testing.T) {
	s := newService(t, rpc.DefaultLimits())
	s.stop()
	s.mute = true
	s.start(false)
	var n noted
	c, _ := s.client(client.Options{Notify: n.note})
	c.Report(waited(1))
	eventually(t, "the refusal", func() bool {
		for _, err := range n.seen() {
			if status.Code(err) == codes.Unimplemented {
				return true
			}
		}
		return false
	})
	send(t, c, submitted(0, 100)...)
	s.allStored(c, 100)
	s.stop()
	s.mute = false
	s.start(false)
	if err := c.FlushReports(within(t)); err != nil || len(s.stored()) != 1 {
		t.Errorf("%v, %d reports", err, len(s.stored()))
	}
}
