package workload

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
)

// silent is a stream of an upload whose caller sends nothing.
type silent struct {
	pb.WorkloadService_UploadWorkloadServer
	ctx context.Context
}

func (s silent) Context() context.Context { return s.ctx }

func (s silent) Recv() (*pb.UploadWorkloadRequest, error) {
	<-s.ctx.Done()
	return nil, s.ctx.Err()
}

// TestIdleUpload: an upload that sends nothing does not keep its place.
func TestIdleUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, began := &Service{}, time.Now()
		_, err := s.upload(silent{ctx: ctx})
		if status.Code(rpc.Status(err)) != codes.DeadlineExceeded ||
			!strings.Contains(err.Error(), "sent nothing for 1m0s") ||
			time.Since(began) != maxIdle {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// slow is a stream of an upload that sends a part every half a minute.
type slow struct {
	silent
	part []byte
}

func (s slow) Recv() (*pb.UploadWorkloadRequest, error) {
	select {
	case <-time.After(maxIdle / 2):
		return &pb.UploadWorkloadRequest{Data: s.part}, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// TestSlowUpload: an upload of parts that are empty or small does not keep its place.
func TestSlowUpload(t *testing.T) {
	for _, c := range []struct {
		part string
		want string
		ends time.Duration
	}{
		{"", "sent nothing for 1m0s", maxIdle},
		{"x", "took more than 10m0s", maxUploading},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, began := &Service{}, time.Now()
			u := openUpload(s.o.Draining, slow{silent{ctx: ctx}, []byte(c.part)})
			defer u.end()
			_, err := io.Copy(io.Discard, u)
			if status.Code(rpc.Status(err)) != codes.DeadlineExceeded || !strings.Contains(err.Error(), c.want) ||
				time.Since(began) != c.ends {
				t.Errorf("parts %q: %v after %v", c.part, err, time.Since(began))
			}
		})
	}
}
