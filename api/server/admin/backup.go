package admin

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// backupPart is how much of an archive one message carries, in bytes.
const backupPart = 64 << 10

// Backup streams a copy of the store. There is one at a time.
func (s *Service) Backup(_ *pb.BackupRequest, stream pb.MaintenanceService_BackupServer) error {
	if s.o.Store == nil {
		return status.Error(codes.Unimplemented, "the service keeps no files")
	}
	if !s.backup.TryLock() {
		return status.Error(codes.ResourceExhausted, "another backup is under way; try again after it")
	}
	defer s.backup.Unlock()
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
