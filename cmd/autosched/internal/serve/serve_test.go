package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestCollectorIsDown: without the collector of traces the service is as before, and ends.
func TestCollectorIsDown(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	address, stop := clitest.StartServe(t, t.TempDir(), "--otlp-endpoint", "http://"+closed.Addr().String(),
		"--drain", "1h")
	for _, args := range []string{"register --builtin tiresias --nodes 4 --gpus-per-node 8 --id prod", "get prod"} {
		var out bytes.Buffer
		all := append(strings.Fields(args), "--server", address)
		if err := clitest.RunClient(t.Context(), clitest.Cmd("scheduler"), "", &out, all...); err != nil ||
			!strings.Contains(out.String(), "prod") {
			t.Errorf("%s: %v, %s", args, err, &out)
		}
	}
	stop()
}

func TestServeRegisterTuneWatch(t *testing.T) {
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir)
	ctx := t.Context()
	run := func(cmd *cobra.Command, stdin string, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := clitest.RunClient(ctx, cmd, stdin, &out, append(args, "--server", address)...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out.String()
	}
	out := run(clitest.Cmd("scheduler"), "", "register", "--builtin", "tiresias", "--nodes", "4", "--gpus-per-node", "8",
		"--mode", "auto", "--id", "prod", "--validate-only")
	if !strings.Contains(out, "schedulers/prod is valid; nothing was stored") {
		t.Error(out)
	}
	out = run(clitest.Cmd("scheduler"), "", "register", "--builtin", "tiresias", "--nodes", "4", "--gpus-per-node", "8",
		"--mode", "auto", "--id", "prod")
	for _, want := range []string{"prod (tiresias, auto)", "4 nodes x 8 GPUs", "queue_thresholds", "3250,7200"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// The output of get can be registered again; so can YAML.
	spec := run(clitest.Cmd("scheduler"), "", "get", "prod", "--json")
	run(clitest.Cmd("scheduler"), spec, "register", "-", "--id", "copy")
	yaml := filepath.Join(t.TempDir(), "s.yaml")
	text := "name: schedulers/narrow\nspec:\n  scheduler_type: tiresias\n  cluster: {nodes: 2, gpus_per_node: " +
		"8}\n  rollout: {update_interval: 1800s}\n" +
		"  parameters:\n  - parameter_id: queues\n    integer_value_spec: {min_value: 2, max_value: 4}\n    " +
		"default_value: 3\n"
	if err := os.WriteFile(yaml, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(clitest.Cmd("scheduler"), "", "register", yaml); !strings.Contains(out, "every 30 min") {
		t.Error(out)
	}
	if out := run(clitest.Cmd("scheduler"), "", "list"); strings.Count(out, "tiresias") != 3 ||
		!strings.Contains(out, "narrow") {
		t.Error(out)
	}
	if out := run(clitest.Cmd("scheduler config"), "", "get", "prod"); !strings.Contains(out, "prod revision 1 (PUBLISHED)") ||
		!strings.Contains(out, "running_first") {
		t.Error(out)
	}

	watchCtx, endWatch := context.WithCancel(ctx)
	var seen clitest.LockedBuffer
	watched := make(chan error, 1)
	go func() {
		watched <- clitest.RunClient(watchCtx, clitest.Cmd("scheduler config"), "", &seen, "watch", "prod",
			"--server", address)
	}()
	clitest.Eventually(t, seen.String, "revision 1  PUBLISHED")

	// An hour of jobs, and one a minute after it: a round decides.
	conn, err := (&cli.ConnectFlags{Server: address}).Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := pb.NewTuningServiceClient(conn).IngestEvents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req := &pb.IngestEventsRequest{Parent: "schedulers/prod"}
	for i := range 62 {
		id := string(rune('A' + i))
		req.Events = append(req.Events, &pb.Event{EventId: id, Kind: pb.Event_SUBMITTED,
			Job:           &pb.JobDetails{JobId: id, Tenant: "vc", MilliGpus: 1000 * int64(1+i%8)},
			SchedulerTime: timestamppb.New(time.Date(2024, 1, 1, 9, i, 1, 0, time.UTC))})
	}
	if err := stream.Send(req); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || got.GetAcceptedCount() != 62 {
		t.Fatal(got, err)
	}
	_ = stream.CloseSend()
	get := func() string { return run(clitest.Cmd("scheduler"), "", "get", "prod") }
	if decision := clitest.Eventually(t, get, `last (round|error) +(.+)`); strings.Contains(get(), "last error") {
		t.Errorf("the round failed: %s", decision)
	}

	if out := run(clitest.Cmd("scheduler config"), "", "ack", "prod", "--revision", "1", "--outcome",
		"applied"); !strings.Contains(out, "the scheduler should run revision") {
		t.Error(out)
	}
	var list struct {
		Configurations []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(run(clitest.Cmd("scheduler config"), "", "list", "prod", "--json")),
		&list); err != nil ||
		len(list.Configurations) == 0 {
		t.Error(list, err)
	}

	// The watch outlives the service and ends when it is interrupted.
	stop()
	endWatch()
	if err := <-watched; err != nil {
		t.Errorf("watch: %v", err)
	}
	address, _ = clitest.StartServe(t, dir)
	clitest.Eventually(t, get, "62, until 2024-01-01T10:01:01Z") // once they are read
}

func TestWatchWaitsForRegistration(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen, notes clitest.LockedBuffer
	watched := make(chan error, 1)
	go func() {
		cmd := clitest.Cmd("scheduler config")
		cmd.SetArgs([]string{"watch", "later", "--wait", "--server", address})
		cmd.SetOut(&seen)
		cmd.SetErr(&notes)
		watched <- cmd.ExecuteContext(ctx)
	}()
	clitest.Eventually(t, notes.String, "waiting until later is registered")
	args := []string{"register", "--builtin", "tiresias", "--nodes", "4", "--gpus-per-node", "8", "--id", "later",
		"--server", address}
	if err := clitest.RunClient(ctx, clitest.Cmd("scheduler"), "", io.Discard, args...); err != nil {
		t.Fatal(err)
	}
	clitest.Eventually(t, seen.String, "revision 1  PUBLISHED")
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

func TestEmulate(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	args := []string{"--server", address, "--trace", "sample", "--to", "2017-10-10T00:00:00Z", "--nodes", "14",
		"--gpus-per-node", "8", "--interval", "12h", "--budget", "2"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	if err := clitest.RunClient(ctx, clitest.Cmd("scheduler emulate"), "",
		&out, append(args, "--id", "fast", "--speedup", "1e6")...); err != nil ||
		!strings.Contains(out.String(), "events acknowledged") {
		t.Errorf("as fast as can be: %v\n%s", err, out.String())
	}
	// Interrupted, it ends at once.
	var log clitest.LockedBuffer
	ended := make(chan error, 1)
	go func() {
		cmd := clitest.Cmd("scheduler emulate")
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append(args, "--id", "slow", "--speedup", "60"))
		cmd.SetOut(io.Discard)
		cmd.SetErr(&log)
		ended <- cmd.ExecuteContext(ctx)
	}()
	clitest.Eventually(t, log.String, "revision 1 in force")
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) || err.Error() != context.Canceled.Error() {
			t.Errorf("interrupted: %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("an interrupted emulation goes on")
	}
}

func TestServiceCommandsRefuse(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	ctx := t.Context()
	var usage cli.UsageError
	for _, c := range []struct {
		cmd  *cobra.Command
		args []string
		says string
	}{
		{newServeCmd(), nil, "--dir is missing"},
		{newServeCmd(), []string{"--dir", "x", "--listen", "nowhere"}, "--listen"},
		{newServeCmd(), []string{"--dir", "x", "--drain", "0s"}, "--drain"},
		{clitest.Cmd("scheduler"), []string{"register"}, "name a FILE"},
		{clitest.Cmd("scheduler"), []string{"register", "--builtin", "tiresias"}, "--nodes"},
		{clitest.Cmd("scheduler"), []string{"register", "--builtin", "tiresias", "--nodes", "1", "--gpus-per-node", "8",
			"--mode", "x"}, "--mode"},
		{clitest.Cmd("scheduler"), []string{"get"}, "name of one scheduler"},
		{clitest.Cmd("scheduler config"), []string{"get", "a", "b"}, "name of one scheduler"},
		{clitest.Cmd("scheduler config"), []string{"ack", "a", "--revision", "1"}, "--outcome"},
		{clitest.Cmd("scheduler config"), []string{"list", "a", "--limit", "0"}, "--limit"},
	} {
		err := clitest.RunClient(ctx, c.cmd, "", io.Discard, c.args...)
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want misuse that says %q", c.args, err, c.says)
		}
	}
	for _, c := range []struct {
		cmd   *cobra.Command
		stdin string
		args  []string
		says  string
	}{
		{clitest.Cmd("scheduler config"), "", []string{"get", "unknown", "--server", address}, `scheduler "unknown": not found`},
		{clitest.Cmd("scheduler config"), "", []string{"watch", "unknown", "--server", address}, "not found"},
		{clitest.Cmd("scheduler"), "", []string{"register", "--builtin", "magic", "--nodes", "0", "--gpus-per-node", "8",
			"--nodes", "1", "--server", address},
			"  scheduler.spec.scheduler_type: \"magic\" is not known: want one of"},
		{clitest.Cmd("scheduler"), "spec: {nonsense: 1}", []string{"register", "-", "--server", address}, "nonsense"},
		{clitest.Cmd("scheduler"), "a: [", []string{"register", "-", "--server", address}, "yaml"},
		{clitest.Cmd("scheduler config"), "", []string{"get", "x", "--server", "127.0.0.1:1"}, "is 'autosched serve' running there?"},
	} {
		err := clitest.RunClient(ctx, c.cmd, c.stdin, io.Discard, c.args...)
		if err == nil || errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want a failure that says %q", c.args, err, c.says)
		}
	}
}
