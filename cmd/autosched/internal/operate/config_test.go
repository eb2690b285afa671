package operate

import (
	"strings"
	"testing"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

// TestReasonIsOneLine: a further line of a reason does not pass for a row of the table.
func TestReasonIsOneLine(t *testing.T) {
	const reason, want = "later\n99\troot\x1b[31m\u202e \r", "later 99 root?[31m? ?"
	var out strings.Builder
	park := &pb.ParkedConfiguration{Configuration: "schedulers/s/configurations/2", Actor: "alice", Reason: reason}
	if err := printParked(&out, &pb.ListParkedConfigurationsResponse{
		ParkedConfigurations: []*pb.ParkedConfiguration{park}}); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 2 || !strings.HasSuffix(rows[1], want) {
		t.Errorf("parked: %q", rows)
	}
	if got := byText("alice", nil, reason); !strings.HasSuffix(got, ": "+want) {
		t.Errorf("review: %q", got)
	}
	if got := pauseText(&pb.WatchConfigurationsResponse_Paused{Reason: reason}); got != ": "+want {
		t.Errorf("pause: %q", got)
	}
}
