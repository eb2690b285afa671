// Package admin serves maintenance and the audit log.
package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/service/store"
)

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	AuditLog(before int64, resource string, limit int) (out []controller.AuditRecord, err error)
	Quarantined() map[string]error
	Rebuilt() <-chan struct{}
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
	Schedulers(after string, limit int) []string
}

// Store is the part of a store that is backed up, compacted and checked.
type Store interface {
	Backup(ctx context.Context, out io.Writer) (*store.Manifest, error)
	Compact(ctx context.Context) (before, after int64, err error)
	Health() (store.Health, error)
}

// Config configures the service of maintenance and the audit log.
type Config struct {
	Controller Controller
	Store      Store                           // backups are refused, and it is not checked, if nil
	Samples    interface{ Damaged() []string } // nil if no telemetry is kept
	Access     *access.Source                  // nil if callers are not identified
	Log        *slog.Logger
	Pages      rpc.Pager
	Version    string // of the program
}

// Service serves maintenance and the audit log.
type Service struct {
	pb.UnimplementedMaintenanceServiceServer
	pb.UnimplementedAuditServiceServer

	o       Config
	copying sync.Mutex // held by the backup or the compaction under way
}

// New returns the service of maintenance and of the audit log.
func New(o Config) *Service { return &Service{o: o} }

// ListAuditRecords lists the records of the audit log, newest first.
func (s *Service) ListAuditRecords(_ context.Context,
	req *pb.ListAuditRecordsRequest) (*pb.ListAuditRecordsResponse, error) {
	if req.GetResource() != "" {
		if _, err := convert.ParseScheduler("resource", req.GetResource()); err != nil {
			return nil, err
		}
	}
	some := func(after rpc.Token, n int) ([]*pb.AuditRecord, error) {
		all, err := s.o.Controller.AuditLog(after.Revision, req.GetResource(), n)
		if err != nil {
			return nil, err
		}
		if id := strings.TrimPrefix(req.GetResource(), convert.SchedulersPrefix); len(all) == 0 &&
			after.Revision == 0 && id != "" {
			if _, _, err := s.o.Controller.Scheduler(id); err != nil { // not even its end is recorded
				return nil, err
			}
		}
		return rpc.Map(all, auditRecordToProto), nil
	}
	place := func(x *pb.AuditRecord) rpc.Token { return rpc.Token{Revision: x.GetSequence()} }
	page, next, err := rpc.List[*pb.AuditRecord]{Some: some, Place: place}.Page(s.o.Pages, req)
	return &pb.ListAuditRecordsResponse{AuditRecords: page, NextPageToken: next}, err
}

func auditRecordToProto(r *controller.AuditRecord) *pb.AuditRecord {
	out := &pb.AuditRecord{Sequence: r.Place, CreateTime: timestamppb.New(r.Time), Actor: r.Actor, Verb: r.Verb,
		RequestId: r.RequestID, Resource: r.Resource, RevisionBefore: r.RevisionBefore,
		RevisionAfter: r.RevisionAfter, Reason: r.Reason, ContentHash: r.Head.Hash, PreviousHash: r.Previous,
		Line: string(r.Line)}
	for _, f := range r.Fields {
		out.Fields = append(out.Fields, &pb.AuditRecord_Field{Name: f.Name, Before: f.Before, After: f.After})
	}
	return out
}

// backupPart is how much of an archive one message carries, in bytes.
const backupPart = 64 << 10

// begin locks copying.
func (s *Service) begin() error {
	if s.o.Store == nil {
		return status.Error(codes.Unimplemented, "the service keeps no files")
	}
	if !s.copying.TryLock() {
		return status.Error(codes.ResourceExhausted, "another backup or compaction is under way; try again after it")
	}
	return nil
}

// Compact gives the free pages of files back to the disk.
func (s *Service) Compact(ctx context.Context, _ *pb.CompactRequest) (*pb.CompactResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.copying.Unlock()
	before, after, err := s.o.Store.Compact(ctx)
	if err != nil {
		return nil, err
	}
	s.o.Log.InfoContext(ctx, "files compacted", "bytes", after, "before", before)
	return &pb.CompactResponse{BytesBefore: before, BytesAfter: after}, nil
}

// Backup streams a copy of the store. There is one at a time.
func (s *Service) Backup(_ *pb.BackupRequest, stream pb.MaintenanceService_BackupServer) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.copying.Unlock()
	m, err := s.o.Store.Backup(stream.Context(), backupStream{stream})
	if err != nil {
		return err
	}
	s.o.Log.InfoContext(stream.Context(), "backup sent", "files", len(m.Files), "bytes", m.Size())
	return nil
}

// backupStream sends the bytes written to it.
type backupStream struct {
	stream pb.MaintenanceService_BackupServer
}

func (b backupStream) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(n+backupPart, len(p))]
		if err := b.stream.Send(&pb.BackupResponse{Data: part}); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// Register adds the services to a server.
func (s *Service) Register(g grpc.ServiceRegistrar) {
	pb.RegisterMaintenanceServiceServer(g, s)
	pb.RegisterAuditServiceServer(g, s)
}

// Diagnose checks the service and its store.
func (s *Service) Diagnose(context.Context, *pb.DiagnoseRequest) (*pb.DiagnoseResponse, error) {
	now := time.Now()
	return &pb.DiagnoseResponse{Checks: s.Checks(now), Time: timestamppb.New(now), Version: s.o.Version}, nil
}

// Checks looks at the store, the schedulers and the files of access.
func (s *Service) Checks(now time.Time) []*pb.Check {
	out := []*pb.Check{s.checkEvents()}
	if s.o.Store != nil {
		out = append(out, s.checkStore()...)
	}
	out = append(out, s.checkSchedulers()...)
	if s.o.Access != nil {
		out = append(out, s.checkAccess(now))
	}
	return out
}

func found(name string, st pb.Check_Status, action, format string, args ...any) *pb.Check {
	if st == pb.Check_OK {
		action = ""
	}
	return &pb.Check{Check: name, Status: st, Detail: fmt.Sprintf(format, args...), Action: action}
}

// checkStatus has the API's value of each status.
var checkStatus = map[checkup.Status]pb.Check_Status{
	checkup.OK: pb.Check_OK, checkup.Warn: pb.Check_WARN, checkup.Fail: pb.Check_FAIL,
}

func (s *Service) checkEvents() *pb.Check {
	if !rpc.Rebuilt(s.o.Controller) {
		return found("start", pb.Check_WARN, "wait; events are taken in and rounds decided after it",
			"the stored events are being read")
	}
	return found("start", pb.Check_OK, "", "the stored events are read")
}

// checkStore looks at the last writes, the files and the disk.
func (s *Service) checkStore() []*pb.Check {
	h, err := s.o.Store.Health()
	write := func(name, what string, err error) *pb.Check {
		switch {
		case err == nil:
			return found(name, pb.Check_OK, "", "%s are stored", what)
		case errors.Is(err, store.ErrFull):
			return found(name, pb.Check_FAIL, "free space on the disk of the service's directory", "%s are refused: %v",
				what, err)
		}
		return found(name, pb.Check_FAIL, "see the service's log, and the disk's", "%s are refused: %v", what, err)
	}
	out := []*pb.Check{write("changes", "changes of configurations", h.Changes), write("ingest", "events", h.Events)}
	if s.o.Samples != nil {
		h.Damaged = append(h.Damaged, s.o.Samples.Damaged()...)
	}
	if len(h.Damaged) > 0 {
		out = append(out, found("files", pb.Check_WARN,
			"their readable part counts; a backup has the rest of event files, but no telemetry",
			"files of events or telemetry with damage: %v", h.Damaged))
	} else {
		out = append(out, found("files", pb.Check_OK, "", "no file of events or telemetry is known to be damaged"))
	}
	return append(out, diskCheck(h.Free, h.Size, err))
}

func diskCheck(free, size uint64, err error) *pb.Check {
	if err != nil {
		return found("disk", pb.Check_WARN, "see the service's log", "the file system does not answer: %v", err)
	}
	return found("disk", checkStatus[checkup.Disk(free)], "free space on the disk of the service's directory",
		"%d of %d MiB are free", free>>20,
		size>>20)
}

// checkSchedulers names the schedulers that are quarantined and those whose last round failed.
func (s *Service) checkSchedulers() []*pb.Check {
	quarantined := s.o.Controller.Quarantined()
	ids := s.o.Controller.Schedulers("", 1<<30)
	failing, why := 0, ""
	for _, id := range ids {
		if quarantined[id] != nil {
			continue
		}
		if _, st, err := s.o.Controller.Scheduler(id); err == nil && st.LastError != "" {
			failing++
			why = cmp.Or(why, fmt.Sprintf("%s: %s", id, st.LastError))
		}
	}
	out := []*pb.Check{found("schedulers", pb.Check_OK, "", "none of %d is quarantined", len(ids)),
		found("rounds", pb.Check_OK, "", "no scheduler's last round failed")}
	if len(quarantined) > 0 {
		first := ""
		for id, err := range quarantined {
			if text := fmt.Sprintf("%s: %v", id, err); first == "" || text < first {
				first = text
			}
		}
		out[0] = found("schedulers", pb.Check_FAIL, "restore a backup, or run a version that accepts the record",
			"%d quarantined, such as %s", len(quarantined), first)
	}
	if failing > 0 {
		out[1] = found("rounds", pb.Check_WARN, "'autosched scheduler get NAME' has each one's last error",
			"the last round of %d failed, such as %s", failing, why)
	}
	return out
}

func (s *Service) checkAccess(now time.Time) *pb.Check {
	switch end := s.o.Access.Expires(); {
	case s.o.Access.Stale():
		return found("access", pb.Check_WARN, "correct it; the service's log names it",
			"a file of certificates or roles is wrong, and its former content in force")
	case end.IsZero():
		return found("access", pb.Check_OK, "", "connections are not encrypted")
	case now.After(end):
		return found("access", pb.Check_FAIL, "replace --tls-cert and --tls-key",
			"the server's certificate expired at %s",
			end.Format(time.RFC3339))
	case now.Add(access.ExpiresSoon).After(end):
		return found("access", pb.Check_WARN, "replace --tls-cert and --tls-key",
			"the server's certificate expires at %s",
			end.Format(time.RFC3339))
	default:
		return found("access", pb.Check_OK, "", "the server's certificate is valid until %s", end.Format(time.RFC3339))
	}
}
