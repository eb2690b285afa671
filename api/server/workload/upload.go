// Package workload serves workloads: generated, uploaded and downloaded lists of jobs.
package workload

import (
	"context"
	"fmt"
	"hash"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/workload/trace"
)

const (

	// maxRows and maxUpload (bytes after decompression) bound an upload: formats have several rows for a job, and more
	// to say of it than is kept.
	maxRows   = 10 * workloads.MaxJobs
	maxUpload = 4 * workloads.MaxBytes
	// maxIdle is how long a caller may send nothing of an upload, which has one of few places, and maxUploading how
	// long an upload may take.
	maxIdle      = time.Minute
	maxUploading = 10 * time.Minute
)

// upload is the file that the requests of an upload hold.
type upload struct {
	draining <-chan struct{}
	ctx      context.Context // for as long as an upload may take
	end      func()
	requests chan *pb.UploadWorkloadRequest
	ended    chan error
	rest     []byte // that is not read yet
	err      error  // why there is no more
}

func openUpload(draining <-chan struct{}, stream pb.WorkloadService_UploadWorkloadServer) *upload {
	u := &upload{draining: draining, requests: make(chan *pb.UploadWorkloadRequest), ended: make(chan error, 1)}
	u.ctx, u.end = context.WithTimeoutCause(stream.Context(), maxUploading,
		fmt.Errorf("the upload took more than %v: %w", maxUploading, context.DeadlineExceeded))
	go func() { // ends with the handler, which ends the stream
		for {
			req, err := stream.Recv()
			if err != nil {
				u.ended <- err
				return
			}
			select {
			case u.requests <- req:
			case <-u.ctx.Done():
				return
			}
		}
	}()
	return u
}

// next is the next request, unless the caller is idle for too long.
func (u *upload) next(idle <-chan time.Time) (*pb.UploadWorkloadRequest, error) {
	select {
	case <-idle:
		return nil, fmt.Errorf("the upload sent nothing for %v: %w", maxIdle, context.DeadlineExceeded)
	case req := <-u.requests:
		return req, nil
	case err := <-u.ended:
		return nil, err
	case <-u.draining:
		return nil, rpc.ErrDraining
	case <-u.ctx.Done():
		return nil, context.Cause(u.ctx)
	}
}

// Read reads the parts. A caller that sends only empty ones for a while is not waited for.
func (u *upload) Read(p []byte) (int, error) {
	var idle <-chan time.Time
	for len(u.rest) == 0 {
		if idle == nil {
			idle = time.After(maxIdle)
		}
		if u.err != nil {
			return 0, u.err
		}
		var req *pb.UploadWorkloadRequest
		if req, u.err = u.next(idle); u.err == nil {
			u.rest = req.GetData()
		}
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

func reportToProto(r *trace.Report, out *pb.UploadWorkloadResponse) {
	out.Format, out.RejectedRowCount = r.Format, int32(r.Rejected)
	for _, x := range r.First {
		description := x.Reason
		if x.Value != "" {
			description = x.Value + ": " + x.Reason
		}
		out.RejectedRows = append(out.RejectedRows, &pb.UploadWorkloadResponse_RejectedRow{Line: int32(x.Line),
			Field: x.Field, Description: description})
	}
	for _, x := range r.LeftOutReasons {
		if out.LeftOutJobCounts == nil {
			out.LeftOutJobCounts = map[string]int32{}
		}
		out.LeftOutJobCounts[x.Reason] = int32(x.Jobs)
	}
}

// downloadPart is the size of one message of a download, in bytes.
const downloadPart = 64 << 10

// download sends the bytes written to it.
type download struct {
	stream pb.WorkloadService_DownloadWorkloadServer
	sum    hash.Hash
	err    error
}

func (d *download) Write(p []byte) (int, error) {
	d.sum.Write(p)
	if d.err = d.stream.Send(&pb.DownloadWorkloadResponse{Data: p}); d.err != nil {
		return 0, d.err
	}
	return len(p), nil
}
