package operation

import (
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
)

// TestOperationsAfter: a token whose operation is forgotten goes on with what is older.
func TestOperationsAfter(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	all := []asked{{id: "d", at: at(4)}, {id: "b", at: at(2)}, {id: "a", at: at(1)}}
	for _, c := range []struct {
		after rpc.Token
		want  string
	}{
		{rpc.Token{}, "dba"},
		{rpc.Token{After: "d", Revision: at(4).UnixNano()}, "ba"},
		{rpc.Token{After: "c", Revision: at(3).UnixNano()}, "ba"},
		{rpc.Token{After: "z", Revision: at(0).UnixNano()}, ""},
	} {
		got := ""
		for _, o := range operationsAfter(all, c.after) {
			got += o.id
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.after, got, c.want)
		}
	}
}

// TestOperationProgress: a round waits for its turn before it is decided.
func TestOperationProgress(t *testing.T) {
	for _, c := range []struct {
		o    controller.Operation
		want pb.OperationProgress_Phase
	}{
		{controller.Operation{}, pb.OperationProgress_WAITING},
		{controller.Operation{Begun: true}, pb.OperationProgress_RUNNING},
		{controller.Operation{Begun: true, Ended: time.Unix(1, 0)}, pb.OperationProgress_ENDED},
	} {
		c.o.ID, c.o.Scheduler = "x", "s"
		got := new(Service).operation(&c.o)
		if p := got.GetProgress(); p.GetPhase() != c.want || p.GetTotalCount() != 0 ||
			got.GetTarget() != "schedulers/s" {
			t.Errorf("%+v: %v", c.o, got)
		}
	}
}
