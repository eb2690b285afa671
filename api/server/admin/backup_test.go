package admin

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/service/store"
)

func TestOneBackupAtATime(t *testing.T) {
	s := New(Config{Store: &store.Store{}})
	s.copying.Lock()
	defer s.copying.Unlock()
	if err := s.Backup(&pb.BackupRequest{}, nil); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	if _, err := s.Compact(t.Context(), nil); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
}
