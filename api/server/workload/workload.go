package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// newWorkload is a request that makes a workload.
type newWorkload interface {
	proto.Message
	GetParent() string
	GetWorkloadId() string
	GetDisplayName() string
	GetLabels() map[string]string
}

// workloadFromProto reads the record of the workload that a request makes, and adds its violations.
func workloadFromProto(req newWorkload, v *convert.Violations) (scheduler string, r workloads.Record) {
	r = workloads.Record{ID: req.GetWorkloadId(), Display: req.GetDisplayName(), Labels: req.GetLabels()}
	scheduler, err := convert.ParseScheduler("parent", req.GetParent())
	if bad := (convert.Violations)(nil); errors.As(err, &bad) {
		*v = append(*v, bad...)
	}
	if err := convert.CheckID(r.ID); err != nil {
		v.Add("workload_id", "%v", err)
	}
	convert.CheckDisplayName("display_name", r.Display, v)
	convert.CheckLabels("labels", r.Labels, v)
	return scheduler, r
}

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	EndedJobs(ctx context.Context, id string, from, to time.Time) (w *workload.Workload, err error)
	Future(ctx context.Context, id string, f controller.Future) (w *workload.Workload, out controller.Future,
		err error)
	Once(ctx context.Context, r controller.Request, change func() (name string,
		err error)) (before *controller.Request, err error)
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
}

// Config configures the service of workloads.
type Config struct {
	Controller Controller
	Workloads  *workloads.Keeper
	Stamp      render.Stamp
	Pages      rpc.Pager
	Quota      interface {
		Stream(ctx context.Context, id string) (leave func(), err error)
	}
	Draining <-chan struct{} // closed when the server shuts down
}

// Service serves workloads.
type Service struct {
	pb.UnimplementedWorkloadServiceServer
	o Config
}

// New returns the service of workloads.
func New(o Config) *Service { return &Service{o: o} }

// Register adds the service to a server.
func (s *Service) Register(g grpc.ServiceRegistrar) { pb.RegisterWorkloadServiceServer(g, s) }

// GenerateWorkload makes a workload of the events of a scheduler.
func (s *Service) GenerateWorkload(ctx context.Context, req *pb.GenerateWorkloadRequest) (*pb.Workload, error) {
	var v convert.Violations
	scheduler, r := workloadFromProto(req, &v)
	f := controller.Future{Index: int(req.GetFuture()), Seed: req.Seed}
	if f.Index < 0 {
		v.Add("future", "%d is negative", f.Index)
	}
	window := req.GetEndedJobs()
	from := bound("ended_jobs.start_time", window.GetStartTime(), &v)
	to := bound("ended_jobs.end_time", window.GetEndTime(), &v)
	switch {
	case window != nil && (req.Seed != nil || f.Index > 0):
		v.Add("ended_jobs", "has neither a seed nor futures")
	case req.GetRound() != "":
		of, sequence, err := convert.ParseRound("round", req.GetRound())
		if bad := (convert.Violations)(nil); errors.As(err, &bad) {
			v = append(v, bad...)
		} else if f.Round = sequence; of != scheduler && scheduler != "" {
			v.Add("round", "%q is of another scheduler", req.GetRound())
		}
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	if err := s.o.Workloads.Free(scheduler, r.ID); err != nil {
		return nil, err
	}
	err := s.o.Workloads.Make(func() (err error) {
		var w *workload.Workload
		if r.Origin = workloads.Generated; window != nil {
			r.Origin = workloads.Historical
			w, err = s.o.Controller.EndedJobs(ctx, scheduler, from, to)
		} else {
			w, f, err = s.o.Controller.Future(ctx, scheduler, f)
			r.Future = &f
		}
		if err != nil {
			return err
		}
		c, _, err := s.o.Controller.Scheduler(scheduler)
		if err == nil {
			r, err = s.o.Workloads.Add(ctx, rpc.CallOf(ctx, req), scheduler, r, w, c.Cluster.Groups)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.workloadToProto(scheduler, &r), nil
}

// bound is a time that bounds others, zero for none.
func bound(field string, t *timestamppb.Timestamp, v *convert.Violations) time.Time {
	if t == nil {
		return time.Time{}
	}
	var c convert.Checker
	if c.Time(field, t); c.First != nil {
		v.Add(c.First.Field, "%s", c.First.Why)
	}
	return t.AsTime()
}

// UploadWorkload stores jobs that the caller sends.
func (s *Service) UploadWorkload(stream pb.WorkloadService_UploadWorkloadServer) error {
	out, err := s.upload(stream)
	if err != nil {
		return err
	}
	return stream.SendAndClose(out)
}

func (s *Service) upload(stream pb.WorkloadService_UploadWorkloadServer) (*pb.UploadWorkloadResponse, error) {
	ctx := stream.Context()
	body := openUpload(s.o.Draining, stream)
	defer body.end()
	first, err := body.next(time.After(maxIdle))
	if errors.Is(err, io.EOF) {
		return nil, convert.Invalid("parent", "is required: the upload has no request")
	} else if err != nil {
		return nil, err
	}
	var v convert.Violations
	scheduler, r := workloadFromProto(first, &v)
	if len(first.GetRequestId()) > convert.MaxRequestID {
		v.Add("request_id", "is longer than %d bytes", convert.MaxRequestID)
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	if _, _, err := s.o.Controller.Scheduler(scheduler); err != nil {
		return nil, err
	}
	leave, err := s.o.Quota.Stream(ctx, scheduler)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := &pb.UploadWorkloadResponse{}
	err = s.o.Workloads.Make(func() error {
		body.rest = first.GetData()
		w, report, err := trace.Read(ctx, body, r.ID, trace.Options{Format: first.GetFormat(),
			Strict: first.GetStrict(), MaxRows: maxRows, MaxJobs: workloads.MaxJobs,
			MaxBytes: maxUpload})
		switch {
		case body.err != nil && !errors.Is(body.err, io.EOF):
			return body.err
		case errors.Is(err, trace.ErrLimit):
			return fmt.Errorf("%w: %w", workloads.ErrLimit, err)
		case err != nil:
			text := strings.TrimPrefix(err.Error(), "trace "+r.ID+": ")
			// The headers of all formats are longer than an error of the API may be.
			if parts := strings.Split(text, "\n"); len(parts) > 1 {
				text = parts[0] + " 'autosched trace --help' lists the formats; 'autosched trace import' " +
					"converts other tables: " + parts[len(parts)-1]
			}
			return convert.Invalid("data", "%s", text)
		}
		r.Origin, r.Rejected, r.LeftOut = workloads.Uploaded, report.Rejected, report.LeftOut
		reportToProto(report, out)
		out.Workload, err = s.addOnce(ctx, scheduler, r, w, report.Machines, first)
		return err
	})
	return out, err
}

// addOnce adds a workload, once if its upload has a request_id.
func (s *Service) addOnce(ctx context.Context, scheduler string, r workloads.Record, w *workload.Workload,
	nodes []workload.NodeGroup, first *pb.UploadWorkloadRequest) (*pb.Workload, error) {
	call := rpc.CallOf(ctx, first)
	add := func() (string, error) {
		var err error
		r, err = s.o.Workloads.Add(ctx, call, scheduler, r, w, nodes)
		return convert.WorkloadName(scheduler, r.ID), err
	}
	if call.Request == "" {
		_, err := add()
		return s.workloadToProto(scheduler, &r), err
	}
	content := proto.Clone(first).(*pb.UploadWorkloadRequest)
	content.RequestId, content.Data = "", nil
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(content)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append(text, w.Digest()...))
	before, err := s.o.Controller.Once(ctx, controller.Request{ID: call.Request, Digest: hex.EncodeToString(sum[:]),
		Scheduler: scheduler, Method: "UploadWorkload"}, add)
	if err == nil && before != nil {
		r, err = s.o.Workloads.Get(scheduler, r.ID)
	}
	return s.workloadToProto(scheduler, &r), err
}

// GetWorkload returns a workload.
func (s *Service) GetWorkload(_ context.Context, req *pb.GetWorkloadRequest) (*pb.Workload, error) {
	scheduler, id, err := convert.ParseWorkload("name", req.GetName())
	if err != nil {
		return nil, err
	}
	r, err := s.o.Workloads.Get(scheduler, id)
	if err != nil {
		return nil, err
	}
	return s.workloadToProto(scheduler, &r), nil
}

// ListWorkloads lists the workloads of a scheduler.
func (s *Service) ListWorkloads(_ context.Context, req *pb.ListWorkloadsRequest) (*pb.ListWorkloadsResponse,
	error) {
	scheduler, err := convert.ParseScheduler("parent", req.GetParent())
	if err != nil {
		return nil, err
	}
	some := func(after rpc.Token, n int) ([]*pb.Workload, error) {
		all, err := s.o.Workloads.List(scheduler, after.After, n)
		return rpc.Map(all, func(r *workloads.Record) *pb.Workload { return s.workloadToProto(scheduler, r) }), err
	}
	of := convert.SchedulerName(scheduler) + convert.WorkloadsSegment
	place := func(x *pb.Workload) rpc.Token { return rpc.Token{After: strings.TrimPrefix(x.GetName(), of)} }
	page, next, err := rpc.List[*pb.Workload]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListWorkloadsResponse{Workloads: page, NextPageToken: next}, err
}

// DeleteWorkload removes a workload.
func (s *Service) DeleteWorkload(ctx context.Context, req *pb.DeleteWorkloadRequest) (*emptypb.Empty, error) {
	scheduler, id, err := convert.ParseWorkload("name", req.GetName())
	if err == nil {
		err = s.o.Workloads.Delete(ctx, rpc.CallOf(ctx, req), scheduler, id,
			func(r *workloads.Record) error {
				return rpc.Match(req.GetEtag(), s.o.Stamp.WorkloadEtag(r))
			})
	}
	return &emptypb.Empty{}, err
}

// DownloadWorkload sends the jobs of a workload.
func (s *Service) DownloadWorkload(req *pb.DownloadWorkloadRequest,
	stream pb.WorkloadService_DownloadWorkloadServer) error {
	scheduler, id, err := convert.ParseWorkload("name", req.GetName())
	if err != nil {
		return err
	}
	r, text, err := s.o.Workloads.Text(scheduler, id)
	if err != nil {
		return err
	}
	send := &download{stream: stream, sum: sha256.New()}
	in, err := workloads.Open(text)
	if err == nil {
		_, err = io.CopyBuffer(send, in, make([]byte, downloadPart))
	}
	switch {
	case send.err != nil:
		return send.err
	case err != nil:
		return fmt.Errorf("%w: %w", workloads.ErrDamaged, err)
	case hex.EncodeToString(send.sum.Sum(nil)) != r.SHA256:
		return fmt.Errorf("%w: it has another SHA-256", workloads.ErrDamaged)
	}
	return nil
}

var workloadOrigins = map[workloads.Origin]pb.Workload_Origin{workloads.Generated: pb.Workload_GENERATED,
	workloads.Uploaded: pb.Workload_UPLOADED, workloads.Historical: pb.Workload_HISTORICAL}

func (s *Service) workloadToProto(scheduler string, r *workloads.Record) *pb.Workload {
	quantiles := func(q *workloads.Quantiles) *pb.WorkloadStatistics_Quantiles {
		return &pb.WorkloadStatistics_Quantiles{P10: q.P10, P50: q.P50, P90: q.P90, P99: q.P99, Max: q.Max,
			Mean: q.Mean}
	}
	x := &r.Stats
	out := &pb.Workload{Name: convert.WorkloadName(scheduler, r.ID), Uid: r.UID, DisplayName: r.Display,
		Labels: r.Labels, Origin: workloadOrigins[r.Origin], CreateTime: timestamppb.New(r.Created),
		Etag: s.o.Stamp.WorkloadEtag(r), Sha256: r.SHA256, SizeBytes: r.Size,
		RejectedRowCount: int32(r.Rejected), LeftOutJobCount: int32(r.LeftOut),
		Statistics: &pb.WorkloadStatistics{JobCount: int32(x.Jobs), Gpus: x.GPUs, GpuHours: x.GPUHours,
			FirstSubmitTime: timestamppb.New(x.First), LastSubmitTime: timestamppb.New(x.Last), Load: x.Load,
			WiderJobCount: int32(x.Wider), DurationSeconds: quantiles(&x.Duration), WidthGpus: quantiles(&x.Width)}}
	if f := r.Future; f != nil {
		out.Future = &pb.Workload_Future{SchedulerTime: timestamppb.New(f.At), Future: int32(f.Index), Seed: *f.Seed,
			Horizon: durationpb.New(f.Horizon), ActiveJobCount: int32(f.Active)}
		if f.Round > 0 {
			out.Future.Round = convert.RoundName(scheduler, f.Round)
		}
	}
	return out
}
