package traces

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// The records of an emulated scheduler are a trace of the same jobs, with the waits and run times they had, and of the
// registered cluster.
func TestExportIsATraceOfTheEmulatedJobs(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	at := func(name string) string { return filepath.Join(dir, name) }
	address, stop := clitest.StartServe(t, data)
	replayed := []string{"--trace", "sample", "--to", "2017-10-09T10:00:00Z", "--nodes", "6", "--gpus-per-node", "8",
		"--scheduler", "fifo"}
	if code, _, errs := clitest.Run(append([]string{"scheduler", "emulate", "--server", address, "--id", "demo", "--mode", "recommend",
		"--speedup", "1000000", "--interval", "168h"}, replayed...)...); code != 0 {
		t.Fatal(errs)
	}
	report := func(events ...*pb.Event) {
		t.Helper()
		conn, err := (&cli.ConnectFlags{Server: address}).Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream, err := pb.NewTuningServiceClient(conn).IngestEvents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&pb.IngestEventsRequest{Parent: "schedulers/demo", Events: events}); err != nil {
			t.Fatal(err)
		}
		if r, err := stream.Recv(); err != nil || int(r.GetAcceptedCount()) != len(events) {
			t.Fatalf("%v, %v", r, err)
		}
		_ = stream.CloseSend()
		_, _ = stream.Recv()
	}
	begin, _, err := trace.Open(t.Context(), "sample", trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := begin.Span()
	when := func(hours int) *timestamppb.Timestamp {
		return timestamppb.New(begin.Clock(first).Add(time.Duration(hours) * time.Hour))
	}
	report(
		&pb.Event{EventId: "n1", Kind: pb.Event_NODE_DOWN, SchedulerTime: when(1),
			Node: &pb.NodeDetails{NodeId: "gpu7"}},
		&pb.Event{EventId: "n2", Kind: pb.Event_NODE_UP, SchedulerTime: when(2),
			Node: &pb.NodeDetails{NodeId: "gpu7", Gpus: 8}})

	export := []string{"trace", "export", "--dir", data, "--id", "demo", "--out", at("demo.jsonl.gz")}
	if code, _, errs := clitest.Run(export...); code != 1 || !strings.Contains(errs, "stop 'autosched serve'") {
		t.Errorf("while the service runs: %d, %s", code, errs)
	}
	stop()
	if code, out, errs := clitest.Run(append(export, "--node-events-out", at("nodes.csv"))...); code != 0 ||
		!strings.Contains(out, "on 6 nodes x 8 GPUs\nchanges of nodes: 2") {
		t.Fatal(out, errs)
	}
	got, r, err := trace.Open(t.Context(), at("demo.jsonl.gz"), trace.Options{Strict: true})
	if err != nil || !r.Declared || len(r.Machines) != 1 || r.Machines[0].Nodes != 6 {
		t.Fatalf("%v, %+v", err, r)
	}
	simulated := at("simulated.jsonl")
	if code, _, errs := clitest.Run(append([]string{"simulate", "--events-out", simulated},
		replayed...)...); code != 0 {
		t.Fatal(errs)
	}
	want, _, err := trace.Open(t.Context(), simulated, trace.Options{Strict: true})
	if err != nil || got.Len() != want.Len() || !want.Synthetic() {
		t.Fatalf("%d jobs, want %d: %v", got.Len(), want.Len(), err)
	}
	byID := map[string]workload.Job{}
	for _, j := range want.Jobs() {
		byID[j.ID] = j
	}
	for _, j := range got.Jobs() {
		if w := byID[j.ID]; j != w {
			t.Fatalf("%+v, want %+v", j, w)
		}
	}
	code, out, errs := clitest.Run("simulate", "--trace", at("demo.jsonl.gz"), "--scheduler", "fifo", "--node-events",
		at("nodes.csv"))
	if code != 0 || !strings.Contains(errs, "6 nodes x 8 GPUs, as the trace states") ||
		!strings.Contains(out, "node events") {
		t.Errorf("simulate: %s %s", out, errs)
	}
	// A part of it, and missing schedulers.
	if code, out, errs := clitest.Run(append(export, "--to", "3h")...); code != 0 || !strings.Contains(out, "to 2017-10-09T02:") {
		t.Errorf("--to: %s %s", out, errs)
	}
	for _, x := range []struct{ args, want string }{
		{"--dir " + data + " --id prod", `--id: "prod" is none of the schedulers demo`},
		{"--dir " + dir + " --id demo", "is not the directory of a service"},
		{"--dir " + data + " --id demo --from 2030-01-01", "no events of scheduler demo from 2030-01-01"},
		{"--dir " + data + " --id demo --from 2h --to 1h", "--to: 1h is not after --from 2h"},
		{"--dir " + data + " --id demo --from noon", "--from:"},
		{"--dir " + data + " --id demo --json", "--json needs --out"},
		{"--id demo", "--dir is missing"}, {"--dir " + data, "--id is missing"},
	} {
		if code, _, errs := clitest.Run(append([]string{"trace", "export"}, strings.Fields(x.args)...)...); code == 0 ||
			!strings.Contains(errs, x.want) {
			t.Errorf("%s: %d %s", x.args, code, errs)
		}
	}
}
