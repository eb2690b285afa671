package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/service/store"
)

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
