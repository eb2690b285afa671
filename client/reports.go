package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

const (
	maxReports     = 1000   // of a request
	defaultReports = 10_000 // that wait
)

// RejectedReportError is a report that the service does not take. The other reports of the request are stored.
type RejectedReportError struct {
	*pb.ReportMetricsResponse_RejectedReport
	Report *pb.MetricReport
}

func (e *RejectedReportError) Error() string {
	return fmt.Sprintf("the service rejects the report of %s: %s: %s", instant(e.Report), e.GetField(),
		e.GetDescription())
}

// DroppedReportsError are reports in a row that Report dropped. Options.Notify gets it once one is taken over again.
type DroppedReportsError struct {
	Count       int
	First, Last time.Time // of the scheduler
}

func (e *DroppedReportsError) Error() string {
	return fmt.Sprintf("%d reports from %s to %s were dropped", e.Count, e.First.Format(time.RFC3339),
		e.Last.Format(time.RFC3339))
}

func instant(r *pb.MetricReport) string { return r.GetSchedulerTime().AsTime().Format(time.RFC3339) }

// reports are the reports of a client.
type reports struct {
	queue[*pb.MetricReport]
	dropped DroppedReportsError // since the last one that was taken over
}

// Report takes over a scheduler's measurements of itself. Unset fields are filled in: the instance, Options.Now, and
// the revision in force. It never waits: a report is dropped if Options.Reports others wait, or if it names no revision
// and none is in force. Run sends reports in batches until they are stored, apart from events; a service that refuses
// them is asked again.
func (c *Client) Report(r *pb.MetricReport) bool {
	r = proto.CloneOf(r)
	if r.GetInstanceId() == "" {
		r.InstanceId = c.o.Instance
	}
	if r.GetSchedulerTime() == nil {
		r.SchedulerTime = timestamppb.New(c.o.Now())
	}
	if r.GetConfigurationRevision() == 0 {
		r.ConfigurationRevision = c.revision.Load()
	}
	m := &c.reports
	m.mu.Lock()
	if len(m.waiting) >= m.room || r.GetConfigurationRevision() == 0 {
		at := r.GetSchedulerTime().AsTime()
		if m.dropped.Count == 0 {
			m.dropped.First = at
		}
		m.dropped.Count, m.dropped.Last = m.dropped.Count+1, at
		m.counts.Dropped++
		m.mu.Unlock()
		return false
	}
	m.waiting = append(m.waiting, r)
	dropped := m.dropped
	m.dropped = DroppedReportsError{}
	m.mu.Unlock()
	if dropped.Count > 0 {
		c.o.Notify(&dropped)
	}
	m.wake()
	return true
}

// ReportCounts returns the outcome of the reports so far.
func (c *Client) ReportCounts() Counts { return c.reports.outcome() }

// FlushReports waits until the service has answered every report.
func (c *Client) FlushReports(ctx context.Context) error { return c.reports.flush(ctx) }

// sendReports sends reports until the context ends. A permanent failure may be repaired by an operator, and the
// scheduler goes on without it: it is tried again like a transient one.
func (c *Client) sendReports(ctx context.Context) error {
	retry := retrying{random: c.o.Random}
	most := maxReports
	for {
		if len(c.reports.next(0, 1)) == 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-c.reports.more:
			}
			continue
		}
		err := c.streamReports(ctx, most, &retry)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
		case tooLarge(err) && most > 1:
			most /= 2
		case tooLarge(err): // others wait behind it
			bad := &pb.ReportMetricsResponse_RejectedReport{Field: "reports[0]",
				Description: status.Convert(err).Message()}
			c.reportsAnswered(c.reports.next(0, 1), &pb.ReportMetricsResponse{
				RejectedReports: []*pb.ReportMetricsResponse_RejectedReport{bad}})
		case !c.pause(ctx, &retry, err):
			return ctx.Err()
		}
	}
}

// streamReports sends the waiting reports over one stream, a request at a time.
func (c *Client) streamReports(ctx context.Context, most int, retry *retrying) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	stream, err := c.metrics.ReportMetrics(ctx)
	if err != nil {
		return err
	}
	for sequence := int64(1); ; sequence++ {
		batch := c.reports.next(0, most)
		if len(batch) == 0 {
			return nil
		}
		// The fault that keeps a request from being sent is the reason of the missing answer.
		_ = stream.Send(&pb.ReportMetricsRequest{Parent: c.name, Sequence: sequence, Reports: batch})
		a, err := stream.Recv()
		if err != nil {
			return err
		}
		if a.GetSequence() != sequence {
			return fmt.Errorf("the service answers request %d of reports, which is not the next one", a.GetSequence())
		}
		retry.reset()
		c.reportsAnswered(batch, a)
	}
}

// reportsAnswered forgets reports, which the service has answered.
func (c *Client) reportsAnswered(batch []*pb.MetricReport, a *pb.ReportMetricsResponse) {
	batch = slices.Clone(batch)
	c.reports.mu.Lock()
	c.reports.answered(len(batch), len(a.GetRejectedReports()), a)
	c.reports.mu.Unlock()
	for _, r := range a.GetRejectedReports() {
		if i := int(r.GetIndex()); i >= 0 && i < len(batch) {
			c.o.Notify(&RejectedReportError{r, batch[i]})
		}
	}
}
