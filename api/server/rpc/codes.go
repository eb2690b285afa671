// Package rpc has the parts that services of the API share: codes of errors, pages, filters, quotas,
// streams, and the call that a request makes.
package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	codepb "google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/study"
)

// Errors of nodes of a service.
var (
	// ErrNoLeader is the error of a call that was not made: no node leads.
	ErrNoLeader = errors.New("no node of the service leads now; the call was not made")
	// ErrLeaderLost is the error of a call that may have been made.
	ErrLeaderLost = errors.New("the node that leads the service did not answer; a change may have been made")
)

// ErrResync is the error of a watch that cannot go on from its token.
var ErrResync = errors.New("watch again without resume_token and with send_initial_events")

// retryAfter is the delay until a retry may succeed.
const retryAfter = 5 * time.Second

// leaderAfter is the delay of a retry while another node takes over.
const leaderAfter = 500 * time.Millisecond

// reasonQuota is the reason of a quotaError.
const reasonQuota = "QUOTA_EXCEEDED"

// reasons is the one place where errors become codes. The first match counts.
var reasons = []struct {
	err    error
	code   codes.Code
	reason string
}{
	{access.ErrIdentity, codes.Unauthenticated, "NOT_IDENTIFIED"},
	{access.ErrRole, codes.PermissionDenied, "NOT_ALLOWED"},
	{controller.ErrNotFound, codes.NotFound, "NOT_FOUND"},
	{controller.ErrExists, codes.AlreadyExists, "ALREADY_EXISTS"},
	{controller.ErrQuarantined, codes.FailedPrecondition, "QUARANTINED"},
	{controller.ErrRequestReuse, codes.AlreadyExists, "REQUEST_ID_REUSED"},
	{study.ErrBudget, codes.FailedPrecondition, "BUDGET_EXHAUSTED"},
	{study.ErrExhausted, codes.FailedPrecondition, "SPACE_EXHAUSTED"},
	{study.ErrLimit, codes.ResourceExhausted, "STUDY_LIMIT"},
	{study.ErrState, codes.FailedPrecondition, "WRONG_STATE"},
	{study.ErrNotFound, codes.NotFound, "NOT_FOUND"},
	{study.ErrExists, codes.AlreadyExists, "ALREADY_EXISTS"},
	{controller.ErrOutsideSpace, codes.FailedPrecondition, "OUTSIDE_SPACE"},
	{controller.ErrStale, codes.Aborted, "STALE_WRITER"},
	{studies.ErrVersion, codes.Aborted, "CHANGED_MEANWHILE"},
	{rollout.ErrRefused, codes.FailedPrecondition, "CONFIGURATION_REFUSED"},
	{rollout.ErrInstances, codes.ResourceExhausted, "TOO_MANY_INSTANCES"},
	{controller.ErrNoTariff, codes.FailedPrecondition, "NO_POWER_MODEL"},
	{rollout.ErrState, codes.FailedPrecondition, "WRONG_STATE"},
	{errEtag, codes.Aborted, "ETAG_MISMATCH"},
	{rollout.ErrChanged, codes.Aborted, "REVISION_MISMATCH"},
	{rollout.ErrNoCurrent, codes.FailedPrecondition, "NO_CURRENT_CONFIGURATION"},
	{controller.ErrDeleted, codes.FailedPrecondition, "DELETED"},
	{controller.ErrEpoch, codes.FailedPrecondition, "EPOCH_MISMATCH"},
	{ErrResync, codes.OutOfRange, "RESYNC"},
	{controller.ErrBusy, codes.ResourceExhausted, "TOO_MANY_QUESTIONS"},
	{ErrNoLeader, codes.Unavailable, "NO_LEADER"},
	{ErrLeaderLost, codes.Unavailable, "LEADER_LOST"},
	{controller.ErrClosed, codes.Unavailable, "SHUTTING_DOWN"},
	{store.ErrClosed, codes.Unavailable, "SHUTTING_DOWN"},
	{samples.ErrClosed, codes.Unavailable, "SHUTTING_DOWN"},
	{reports.ErrClosed, codes.Unavailable, "SHUTTING_DOWN"},
	{workloads.ErrClosed, codes.Unavailable, "SHUTTING_DOWN"},
	{workloads.ErrLimit, codes.ResourceExhausted, "WORKLOAD_LIMIT"},
	{workloads.ErrJobs, codes.InvalidArgument, "UNUSABLE_JOBS"},
	{workloads.ErrDamaged, codes.DataLoss, "CORRUPT_RECORD"},
	{samples.ErrLimit, codes.ResourceExhausted, "TELEMETRY_LIMIT"},
	{syscall.ENOSPC, codes.ResourceExhausted, "DISK_FULL"},
	{store.ErrFull, codes.ResourceExhausted, "DISK_FULL"},
	{store.ErrCorrupt, codes.DataLoss, "CORRUPT_RECORD"},
	{findings.ErrNotFound, codes.NotFound, "NOT_FOUND"},
	{findings.ErrState, codes.FailedPrecondition, "WRONG_STATE"},
	{findings.ErrClosed, codes.Unavailable, "SHUTTING_DOWN"},
	{context.Canceled, codes.Canceled, "CANCELED"},
	{context.DeadlineExceeded, codes.DeadlineExceeded, "DEADLINE_EXCEEDED"},
}

// ConvertUnary converts the error of a call.
func ConvertUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	resp, err := handle(ctx, req)
	return resp, Status(err)
}

// ConvertStream converts the error of a stream.
func ConvertStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return Status(handle(srv, stream))
}

// Status converts an error by the table of reasons. An error without a row becomes an InternalError.
func Status(err error) error {
	if err == nil {
		return nil
	}
	var bad convert.Violations
	if errors.As(err, &bad) {
		return violationStatus(bad)
	}
	var beyond *quotaError
	if errors.As(err, &beyond) {
		return beyond.status()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			info := &errdetails.ErrorInfo{Reason: r.reason, Domain: pb.ErrorDomain}
			var other *controller.EpochError
			if errors.As(err, &other) {
				info.Metadata = map[string]string{"epoch_id": other.Now.ID,
					"epoch_counter": fmt.Sprint(other.Now.Counter)}
			}
			details := []protoadapt.MessageV1{info}
			if r.code == codes.Unavailable || r.code == codes.ResourceExhausted {
				delay := retryAfter
				if errors.Is(err, ErrNoLeader) || errors.Is(err, ErrLeaderLost) {
					delay = leaderAfter
				}
				details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
			}
			return withDetails(status.New(r.code, err.Error()), details...)
		}
	}
	return InternalError{err}
}

// Describe adds the subject of an error to its google.rpc.ErrorInfo, which every error has: the method, and
// the scheduler that the request names. Its reason is that of the error, or the code's name.
func Describe(err error, method, scheduler string) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err).Proto()
	info := &errdetails.ErrorInfo{}
	at := slices.IndexFunc(st.GetDetails(), func(d *anypb.Any) bool { return d.MessageIs(info) })
	if at < 0 {
		info.Reason, info.Domain = codepb.Code(st.GetCode()).String(), pb.ErrorDomain
	} else if bad := st.Details[at].UnmarshalTo(info); bad != nil {
		return err
	}
	if info.Metadata == nil {
		info.Metadata = map[string]string{}
	}
	info.Metadata["method"] = path.Base(method)
	if convert.SchedulerID.MatchString(scheduler) {
		info.Metadata["scheduler"] = scheduler
	}
	detail, bad := anypb.New(info)
	if bad != nil {
		return err
	}
	if at < 0 {
		st.Details = append(st.Details, detail)
	} else {
		st.Details[at] = detail
	}
	return status.ErrorProto(st)
}

// Errors travel in trailers, which many clients bound to 8 KB: an answer has the first violations
// with the beginning of long texts, and the number of the others.
const (
	maxViolations  = 20
	maxDescription = 768  // bytes of one
	maxTexts       = 1536 // bytes of all; they stand in the message and in the details
)

// violationStatus converts violations to InvalidArgument.
func violationStatus(v convert.Violations) error {
	var first convert.Violations
	size := 0
	for _, one := range v[:min(len(v), maxViolations)] {
		one = &errdetails.BadRequest_FieldViolation{Field: Shorten(one.Field), Description: Shorten(one.Description)}
		if size += len(one.Field) + len(one.Description); size > maxTexts && len(first) > 0 {
			break
		}
		first = append(first, one)
	}
	text := first.Error()
	if n := len(v) - len(first); n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return withDetails(status.New(codes.InvalidArgument, text), &errdetails.BadRequest{FieldViolations: first})
}

// Shorten cuts a text to the length of a description.
func Shorten(text string) string {
	if len(text) <= maxDescription {
		return text
	}
	return strings.ToValidUTF8(text[:maxDescription], "") + "..."
}

func withDetails(st *status.Status, details ...protoadapt.MessageV1) error {
	if full, err := st.WithDetails(details...); err == nil {
		st = full
	}
	return st.Err()
}

// ErrGone is the error of a token whose element is not in the list any more.
var ErrGone = convert.Invalid("page_token", "is of an element that is gone: list again without it")

var errEtag = errors.New("it was changed since its etag was read; read it again")

// Match is errEtag if a request has an etag and it is not the present one.
func Match(etag, present string) error {
	if etag != "" && etag != present {
		return fmt.Errorf("etag %.80q is not %q: %w", etag, present, errEtag)
	}
	return nil
}

// InternalError is one that the caller does not see.
type InternalError struct{ Cause error }

// InternalText is the message of every internal error.
const InternalText = "internal error; the service's log says more"

func (e InternalError) Error() string { return InternalText }

// GRPCStatus returns the status that the caller sees.
func (e InternalError) GRPCStatus() *status.Status { return status.New(codes.Internal, InternalText) }

// ErrDraining ends the streams of a server that shuts down.
var ErrDraining = status.Error(codes.Unavailable, "the service is shutting down; connect again")

// reasonHeader is the key of a caller's reason in the metadata of a call: any text, as its name ends in -bin.
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

// longestReason bounds the reason of a freeze, a pin or a proposal, in characters.
const longestReason = 1000

// CheckReason adds to v whether a reason is missing or too long.
func CheckReason(v *convert.Violations, reason string) {
	if n := utf8.RuneCountInString(strings.TrimSpace(reason)); n == 0 || n > longestReason {
		v.Add("reason", "it has %d characters: want 1 to %d", n, longestReason)
	}
}

// Lasting checks why something is to last, and reads until when: the zero time for always.
func Lasting(req interface {
	GetReason() string
	GetExpireTime() *timestamppb.Timestamp
}) (until time.Time, err error) {
	var v convert.Violations
	CheckReason(&v, req.GetReason())
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
