package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

// unlessNever is nil for the zero time.
func unlessNever(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// GetLoad returns the load of a scheduler's cluster.
func (s *Service) GetLoad(ctx context.Context, req *pb.GetLoadRequest) (*pb.Load, error) {
	id, err := convert.ParseLoad("name", req.GetName())
	if err != nil {
		return nil, err
	}
	l, err := s.o.Controller.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &pb.Load{Name: convert.LoadName(id), SchedulerTime: unlessNever(l.At), TotalGpus: int32(l.Total),
		BusyGpus: int32(l.Busy), WaitingGpus: int32(l.Waiting), RunningJobs: int32(l.Running),
		WaitingJobs: int32(l.Queued), LongestWaitDuration: unlessZero(l.LongestWait), NodeCount: int32(l.Nodes),
		ClosedNodeCount: int32(l.Closed), ReceiveTime: unlessNever(l.Received),
		AcknowledgeTime: unlessNever(l.Acknowledged)}
	if !l.Received.IsZero() {
		out.ClockSkew = durationpb.New(l.Skew)
	}
	if s.o.Samples != nil {
		at, err := s.o.Samples.Latest(id)
		if err != nil {
			return nil, err
		}
		if at > 0 {
			out.SampleTime = timestamppb.New(time.Unix(0, int64(at)))
		}
	}
	return out, nil
}

// ForecastLoad simulates the load of the next hours.
func (s *Service) ForecastLoad(ctx context.Context, req *pb.ForecastLoadRequest) (*pb.ForecastLoadResponse, error) {
	id, err := convert.ParseLoad("name", req.GetName())
	if err != nil {
		return nil, err
	}
	a, err := s.o.Controller.LookAhead(ctx, id)
	if err != nil {
		return nil, err
	}
	out := &pb.ForecastLoadResponse{Revision: a.Revision, NoFuturesReason: a.Reason, LimitedReason: limited(a)}
	if a.Ahead == nil {
		return out, nil
	}
	out.Futures = int32(len(a.Load))
	for k := range a.Load[0] {
		band := func(of func(round.Load) int) *pb.ForecastLoadResponse_Band {
			var all []float64
			for _, course := range a.Load {
				all = append(all, float64(of(course[k])))
			}
			low, middle, high := spread(all)
			return &pb.ForecastLoadResponse_Band{Low: low, Middle: middle, High: high}
		}
		out.Points = append(out.Points, &pb.ForecastLoadResponse_Point{
			SchedulerTime: timestamppb.New(a.Zero.Add(a.At + time.Duration(k)*a.Step)),
			BusyGpus:      band(func(l round.Load) int { return l.Busy }),
			WaitingGpus:   band(func(l round.Load) int { return l.Waiting }),
			WaitingJobs:   band(func(l round.Load) int { return l.Jobs })})
	}
	return out, nil
}

// limited says why futures end early; empty if they do not.
func limited(a controller.Ahead) string {
	if a.Ahead == nil || a.Horizon == a.Asked {
		return ""
	}
	return fmt.Sprintf("the work of a simulation is bounded, and many jobs are active: futures end after %v of %v",
		a.Horizon, a.Asked)
}

// spread is the least, the middle and the most of numbers.
func spread[T float64 | time.Duration](all []T) (low, middle, high T) {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	return all[0], (all[(n-1)/2] + all[n/2]) / 2, all[n-1]
}

// The bounds of a timeline.
const (
	maxBuckets, maxRows, maxCells = 1000, 500, 100_000
	maxMarks                      = 200
)

// GetTimeline sums up jobs by rows and parts of a time.
func (s *Service) GetTimeline(ctx context.Context, req *pb.GetTimelineRequest) (*pb.Timeline, error) {
	id, err := convert.ParseScheduler("name", req.GetName())
	if err != nil {
		return nil, err
	}
	from, to, err := window(req.GetStartTime(), req.GetEndTime())
	if err != nil {
		return nil, err
	}
	q := controller.TimelineQuery{From: from, To: to, Rows: 50, Buckets: 100, First: req.GetFirstNodeId(),
		Last: req.GetLastNodeId()}
	if n := req.GetBucketCount(); n != 0 {
		q.Buckets = int(n)
	}
	if n := req.GetRowCount(); n != 0 {
		q.Rows = int(n)
	}
	var v convert.Violations
	if q.Buckets < 0 || q.Buckets > maxBuckets {
		v.Add("bucket_count", "%d is not from 1 to %d", q.Buckets, maxBuckets)
	}
	if q.Rows < 0 || q.Rows > maxRows {
		v.Add("row_count", "%d is not from 1 to %d", q.Rows, maxRows)
	} else if q.Rows*q.Buckets > maxCells {
		v.Add("row_count", "%d rows of %d buckets are more than %d cells", q.Rows, q.Buckets, maxCells)
	}
	if !from.IsZero() && !to.Before(from) && from.Equal(to) {
		v.Add("end_time", "is start_time: there is no time to show")
	}
	switch req.GetRows() {
	case pb.GetTimelineRequest_ROWS_UNSPECIFIED, pb.GetTimelineRequest_TENANTS:
	case pb.GetTimelineRequest_NODES:
		q.By = workload.ByNode
	default:
		v.Add("rows", "%d is not known", req.GetRows())
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	t, err := s.o.Controller.Timeline(ctx, id, q)
	if err != nil {
		return nil, err
	}
	out := &pb.Timeline{StartTime: timestamppb.New(t.Zero.Add(t.From)), EndTime: timestamppb.New(t.Zero.Add(t.To)),
		KnownTime: timestamppb.New(t.Known), BucketDuration: durationpb.New((t.To - t.From) / time.Duration(q.Buckets)),
		JobCount: int64(t.Jobs), PlacedShare: t.Placed}
	for i := range t.Rows {
		r := &t.Rows[i]
		out.Rows = append(out.Rows, &pb.Timeline_Row{First: r.First, Last: r.Last, MemberCount: int32(r.Members),
			Gpus: int32(r.GPUs), BusyGpus: r.Busy, WaitingGpus: r.Waiting, RunningJobs: r.Running,
			WaitingJobs: r.Queued})
	}
	changes := t.Changes
	for _, c := range changes[max(0, len(changes)-maxMarks):] {
		out.Configurations = append(out.Configurations, &pb.Timeline_Mark{
			Name: convert.ConfigurationName(id, c.Revision), StartTime: timestamppb.New(controller.TookEffect(c)),
			Words: fmt.Sprintf("Revision %d (%s)", c.Revision, c.Origin)})
	}
	s.addFindings(id, out)
	return out, nil
}

// addFindings adds the findings that were open in the time of a timeline, the latest opened first.
func (s *Service) addFindings(id string, out *pb.Timeline) {
	if s.o.Findings == nil {
		return
	}
	all, _, _ := s.o.Findings.List(id, findings.Query{Limit: 10_000})
	from, to := out.GetStartTime().AsTime(), out.GetEndTime().AsTime()
	for _, f := range all {
		if f.Began.After(to) || !f.Open && f.Closed.Before(from) || len(out.Findings) == maxMarks {
			continue
		}
		m := &pb.Timeline_Mark{Name: convert.FindingName(id, f.ID), StartTime: timestamppb.New(f.Began),
			Words: fmt.Sprintf("%s: %s %s", f.Rule, f.Entity.Kind, f.Entity.Name)}
		if !f.Open {
			m.EndTime = timestamppb.New(f.Closed)
		}
		out.Findings = append(out.Findings, m)
	}
}

// ListTenants sums up jobs by tenant. Its tokens are the last one listed.
func (s *Service) ListTenants(ctx context.Context, req *pb.ListTenantsRequest) (*pb.ListTenantsResponse, error) {
	id, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	from, to, err := window(req.GetStartTime(), req.GetEndTime())
	if err != nil {
		return nil, err
	}
	all, err := s.o.Controller.Tenants(ctx, id, from, to, req.GetPageToken() != "")
	if err != nil {
		return nil, err
	}
	list := rpc.List[*pb.Tenant]{
		Some: func(after rpc.Token, n int) (out []*pb.Tenant, err error) {
			begin := 0
			if after != (rpc.Token{}) {
				begin = 1 + slices.IndexFunc(all, func(t *controller.Tenant) bool { return t.Name == after.After })
				if begin == 0 {
					return nil, rpc.ErrGone
				}
			}
			for _, t := range all[begin:min(len(all), begin+n)] {
				out = append(out, tenantToProto(t))
			}
			return out, nil
		},
		Place: func(t *pb.Tenant) rpc.Token { return rpc.Token{After: t.GetTenant(), Revision: 1} }}
	page, next, err := list.Page(s.o.Pages, req)
	if err != nil {
		return nil, err
	}
	return &pb.ListTenantsResponse{Tenants: page, NextPageToken: next}, nil
}

func tenantToProto(t *controller.Tenant) *pb.Tenant {
	out := &pb.Tenant{Tenant: t.Name, QuotaGpus: int32(t.Quota), GpuHours: t.Held, Share: t.Share,
		WaitingGpuHours: t.Asked, JobCount: int32(t.Jobs), SubmittedCount: int32(t.Submitted),
		StartedCount: int32(t.Started), EndedCount: int32(t.Ended), PreemptionCount: int32(t.Preemptions),
		RestartedCount: int32(t.Restarted), BusyGpus: int32(t.Busy), WaitingGpus: int32(t.Waiting)}
	if t.Started > 0 {
		out.MeanWaitDuration, out.P95WaitDuration = durationpb.New(t.MeanWait), durationpb.New(t.P95Wait)
	}
	if t.Restarted > 0 {
		out.MeanRestartWaitDuration = durationpb.New(t.MeanRestartWait)
	}
	return out
}

// ExplainJob says why a job waited, when it starts and ends, and how it uses its GPUs.
func (s *Service) ExplainJob(ctx context.Context, req *pb.ExplainJobRequest) (*pb.ExplainJobResponse, error) {
	id, job, err := convert.ParseJob("name", req.GetName())
	if err != nil {
		return nil, err
	}
	p, err := s.GetJob(ctx, &pb.GetJobRequest{Name: req.GetName()})
	if err != nil {
		return nil, err
	}
	out := &pb.ExplainJobResponse{}
	if state := p.GetState(); state == pb.Job_WAITING || state == pb.Job_RUNNING {
		looked, err := s.lookAhead(ctx, id, job, out)
		if err != nil {
			return nil, err
		}
		if looked && p.GetPredictedRun() == nil { // there are futures now
			if p, err = s.GetJob(ctx, &pb.GetJobRequest{Name: req.GetName()}); err != nil {
				return nil, err
			}
		}
	}
	out.Job = p
	w, err := s.o.Controller.Waits(ctx, id, job)
	if err != nil {
		return nil, err
	}
	out.InstantCount, out.PassedCount = int32(w.Samples), int32(w.Passed)
	total := time.Duration(0)
	for _, d := range w.By {
		total += d
	}
	for _, m := range w.Modelled {
		total += m.Duration
	}
	add := func(cause pb.ExplainJobResponse_Cause, d time.Duration, simulated bool, detail string) {
		if d > 0 {
			out.Waits = append(out.Waits, &pb.ExplainJobResponse_Wait{Cause: cause, Duration: durationpb.New(d),
				Share: d.Seconds() / total.Seconds(), Simulated: simulated, Detail: detail})
		}
	}
	for cause, d := range w.By {
		add(pb.ExplainJobResponse_Cause(cause+1), d, false, "")
	}
	for _, m := range w.Modelled {
		cause, detail := modelled(&m)
		add(cause, m.Duration, true, detail)
	}
	out.SimulatedInstantCount, out.NoModelReason = int32(w.Asked), w.Reason
	slices.SortStableFunc(out.Waits, func(a, b *pb.ExplainJobResponse_Wait) int {
		return cmp.Compare(b.GetDuration().AsDuration(), a.GetDuration().AsDuration())
	})
	if s.o.Samples != nil {
		out.Usage, err = s.usage(ctx, id, job, p)
	}
	return out, err
}

// modelled is the cause of a wait by the simulated scheduler.
func modelled(m *controller.ModelledWait) (cause pb.ExplainJobResponse_Cause, detail string) {
	switch {
	case m.Cycle:
		return pb.ExplainJobResponse_CYCLE, m.Detail
	case m.Split:
		return pb.ExplainJobResponse_FRAGMENTED, m.Detail
	}
	switch m.Cause {
	case simulator.Limited:
		cause = pb.ExplainJobResponse_LIMIT
	case simulator.OverQuota:
		cause = pb.ExplainJobResponse_QUOTA
	case simulator.Reserved:
		cause = pb.ExplainJobResponse_RESERVED
	case simulator.Closed:
		cause = pb.ExplainJobResponse_SET_APART
	case simulator.Depth:
		cause = pb.ExplainJobResponse_DEPTH
	case simulator.Behind, simulator.Taken:
		cause = pb.ExplainJobResponse_BEHIND_OTHERS
	default:
		return pb.ExplainJobResponse_UNKNOWN, "the simulated scheduler starts it then"
	}
	return cause, m.Detail
}

// lookAhead adds when an active job starts and ends, and reports whether there are futures.
func (s *Service) lookAhead(ctx context.Context, id, job string, out *pb.ExplainJobResponse) (bool, error) {
	a, err := s.o.Controller.LookAhead(ctx, id)
	if errors.Is(err, rollout.ErrState) {
		a.Reason, err = err.Error(), nil
	}
	if err != nil {
		return false, err
	}
	out.NoFuturesReason, out.Revision, out.LimitedReason = a.Reason, a.Revision, limited(a)
	if a.Ahead == nil {
		return false, nil
	}
	if a.Ends[job] == nil {
		out.NoFuturesReason = "the job fits no node that is up, or came after the futures were simulated"
		return true, nil
	}
	out.Futures = int32(len(a.Load))
	out.SchedulerTime = timestamppb.New(a.Zero.Add(a.At))
	out.HorizonTime = timestamppb.New(a.Zero.Add(a.At + a.Horizon))
	instants := func(all []time.Duration) *pb.ExplainJobResponse_Instants {
		if all == nil {
			return nil
		}
		known := slices.DeleteFunc(slices.Clone(all), func(at time.Duration) bool { return at < 0 })
		at := &pb.ExplainJobResponse_Instants{Futures: int32(len(known))}
		if len(known) > 0 {
			low, middle, high := spread(known)
			time := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(a.Zero.Add(d)) }
			at.LowTime, at.MiddleTime, at.HighTime = time(low), time(middle), time(high)
		}
		return at
	}
	out.Start, out.End = instants(a.Starts[job]), instants(a.Ends[job])
	return true, nil
}

// longestUsage bounds how far back the samples of a job are read.
const longestUsage = 7 * 24 * time.Hour

// usage sums up the samples that name a job; nil without any.
func (s *Service) usage(ctx context.Context, id, job string, p *pb.Job) (*pb.ExplainJobResponse_Usage, error) {
	if p.GetStartTime() == nil {
		return nil, nil
	}
	from := p.GetStartTime().AsTime()
	end, err := s.o.Samples.Latest(id)
	if err != nil || end == 0 {
		return nil, err
	}
	to := time.Unix(0, int64(end)+1)
	if p.GetEndTime() != nil {
		to = p.GetEndTime().AsTime()
	}
	out := &pb.ExplainJobResponse_Usage{}
	if to.Sub(from) > longestUsage {
		from, out.Partial = to.Add(-longestUsage), true
	}
	var busy, memory, power mean
	err = s.o.Samples.Read(ctx, id, samples.Query{From: time.Duration(from.UnixNano()),
		To: time.Duration(to.UnixNano()), Job: job, Resolution: samples.Fine}, func(one *telemetry.GPUSample) error {
		at := time.Unix(0, int64(one.Time))
		if out.SampleCount == 0 || at.Before(out.StartTime.AsTime()) {
			out.StartTime = timestamppb.New(at)
		}
		if out.SampleCount == 0 || at.After(out.EndTime.AsTime()) {
			out.EndTime = timestamppb.New(at)
		}
		out.SampleCount++
		b, known := one.Busy()
		busy.add(b, known)
		memory.add(one.MemoryUsed, one.Has(telemetry.MemoryUsed))
		power.add(one.Power, one.Has(telemetry.Power))
		return nil
	})
	if err != nil || out.SampleCount == 0 {
		return nil, err
	}
	out.Busy, out.MemoryMib, out.PowerWatts = busy.get(), memory.get(), power.get()
	return out, nil
}

// mean is that of the values that are known.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64, known bool) {
	if known {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

// get is nil without values.
func (m *mean) get() *float64 {
	if m.n == 0 {
		return nil
	}
	return new(m.sum / float64(m.n))
}
