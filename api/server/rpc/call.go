// Package rpc has the parts that services of the API share: codes of errors, pages, filters, quotas,
// streams, and the call that a request makes.
package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
)

const reasonHeader = "autosched-reason-bin"

// CallOf returns the call of a request: who asks, whether it is a dry run, and the id that it is
// stored with.
func CallOf(ctx context.Context, req any) (call controller.Call) {
	header := func(name string) string {
		if md, ok := metadata.FromIncomingContext(ctx); ok {
			if v := md.Get(name); len(v) > 0 {
				return Shorten(v[0])
			}
		}
		return ""
	}
	method, _ := grpc.Method(ctx)
	call.Origin = audit.Origin{Actor: cmp.Or(access.FromContext(ctx).Name, "anonymous"), Verb: path.Base(method),
		RequestID: access.RequestID(ctx), Reason: header(reasonHeader)}
	if r, ok := req.(interface{ GetValidateOnly() bool }); ok {
		call.DryRun = r.GetValidateOnly()
	}
	if r, ok := req.(interface{ GetRequestId() string }); ok && !call.DryRun {
		call.Request = r.GetRequestId()
	}
	return call
}

// longestReason bounds the reason of a freeze, in characters.
const longestReason = 1000

// Lasting checks why something is to last, and reads until when: the zero time for always.
func Lasting(req interface {
	GetReason() string
	GetExpireTime() *timestamppb.Timestamp
}) (until time.Time, err error) {
	var v convert.Violations
	if n := utf8.RuneCountInString(strings.TrimSpace(req.GetReason())); n == 0 || n > longestReason {
		v.Add("reason", "it has %d characters: want 1 to %d", n, longestReason)
	}
	if t := req.GetExpireTime(); t != nil {
		if err := t.CheckValid(); err != nil {
			v.Add("expire_time", "%v", err)
		} else if until = t.AsTime(); until.Year() < convert.FirstYear {
			v.Add("expire_time", "is before %d", convert.FirstYear)
		}
	}
	return until, v.Err()
}

// Operator is the name of an operator that calls.
func Operator(ctx context.Context) string {
	return cmp.Or(access.FromContext(ctx).Name, rollout.Operator)
}

// maxRequestID bounds the id that a caller gives, in bytes.
const maxRequestID = 128

// IsRequestID reports whether a text is short and of visible ASCII characters.
func IsRequestID(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID
}

// Rebuilt reports whether events are taken in and rounds run. Configurations are served before.
func Rebuilt(c interface{ Rebuilt() <-chan struct{} }) bool {
	select {
	case <-c.Rebuilt():
		return true
	default:
		return false
	}
}

// Buckets of latencies in seconds are from an answer out of memory to a commit on a slow disk.
var Buckets = []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10}

// Streams answers the requests of streams that a client keeps open.
type Streams struct {
	Draining <-chan struct{} // closed when the server shuts down
	Quota    *Quota
	Space    func(scheduler string) (*space.Space, error) // fails for a scheduler that takes in nothing
}

// AnswerEach answers each request of a stream, the first of which names the scheduler, until it ends.
func AnswerEach[Q, A any, P interface {
	*Q
	GetParent() string
}](s *Streams, stream grpc.BidiStreamingServer[Q, A],
	one func(ctx context.Context, id string, req P) (*A, error)) error {
	requests := make(chan P)
	ended := make(chan error, 1)
	ctx := stream.Context() // ends when this handler returns, and with it the receiver
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case requests <- req:
			case <-ctx.Done():
				return
			}
		}
	}()
	id := ""
	leave := func() {}
	defer func() { leave() }()
	for {
		select {
		case <-s.Draining:
			return ErrDraining
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case req := <-requests:
			first := id == ""
			if err := s.settle(&id, req.GetParent()); err != nil {
				return err
			}
			if first {
				var err error
				if leave, err = s.Quota.Stream(ctx, id); err != nil {
					leave = func() {}
					return err
				}
			}
			out, err := one(ctx, id, req)
			if err != nil {
				return err
			}
			if err := stream.Send(out); err != nil {
				return err
			}
		}
	}
}

// settle finds the scheduler of a stream, which its first request names.
func (s *Streams) settle(id *string, name string) error {
	if name == "" && *id != "" {
		return nil
	}
	parent, err := convert.ParseScheduler("parent", name)
	if err != nil {
		return err
	}
	if *id != "" && parent != *id {
		return convert.Invalid("parent", "differs from that of the stream, %s", convert.SchedulerName(*id))
	}
	if _, err := s.Space(parent); err != nil {
		return err
	}
	*id = parent
	return nil
}
