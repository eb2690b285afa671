package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

func TestOperate(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	call := func(cmd *cobra.Command, args ...string) (string, error) {
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), cmd, "", &out, append(args, "--server", address)...)
		return out.String(), err
	}
	if _, err := call(newSchedulerCmd(), "register", "--builtin", "tiresias", "--nodes", "4", "--gpus-per-node", "8",
		"--id", "s"); err != nil {
		t.Fatal(err)
	}
	costs := filepath.Join(t.TempDir(), "costs.json")
	restart := `{"restart": {"source": "measured", "steps": [{"gpus": 1, "seconds": 60}], "proportional_beyond": false}}`
	if err := os.WriteFile(costs, []byte(restart), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cmd  *cobra.Command
		args string
		says string
	}{
		{newSchedulerCmd(), "update s --mode auto --validate-only", "nothing was stored"},
		{newSchedulerCmd(), "update s --max-preemptions 3 --models " + costs,
			"simulated  at most 3 preemptions of a job; models of its own for restart"},
		{newSchedulerCmd(), "update s --min-run 10m",
			"at most 3 preemptions of a job; no preemption in the first 10 min; models of its own for restart"},
		{newSchedulerCmd(), "update s --max-preemptions 0 --models=", "simulated  no preemption in the first 10 min\n"},
		{newSchedulerCmd(), "get s", "(tiresias, recommend)"},
		{newSchedulerCmd(), "update s --mode auto --interval 30m", "every 30 min\n"},
		{newSchedulerCmd(), "update s --adoption paper --guard off", "adoption paper, guard off"},
		{newSchedulerCmd(), "update s --adoption daily --guard 0.2", "adoption daily, guard 20%"},
		{newSchedulerCmd(), "get s",
			"limits     6 changes in 24 h, one return to earlier values in 24 h, none for 24 h after a rollback\n"},
		{newSchedulerCmd(), "update s --max-changes 1 --flap-window off --rollback-hold 0 --quiet-hours 22:00-06:30",
			"limits     1 change in 24 h, none from 22:00 to 06:30 UTC\n"},
		{newSchedulerCmd(), "update s --max-changes off --quiet-hours off", "limits     none\n"},
		{newSchedulerCmd(), "update s --canary --wave-share 0.5", "waves      1 instance, 50% of them, all; 1 h between\n"},
		{newSchedulerCmd(), "update s --wave-share 0 --soak-time off", "waves      1 instance, all\n"},
		{newSchedulerCmd(), "update s --objective avg_queue --json", `"metricId": "avg_queue"`},
		{newSchedulerCmd(), "update s --objective p95_jct --json", `"metricId": "p95_jct"`},
		{newFreezeCmd(), "s --reason why --until 2090-01-01T00:00:00Z", "s is frozen; it keeps revision 1\n"},
		{newSchedulerCmd(), "get s", "held       tuning is frozen until 2090-01-01T00:00:00Z: why\n"},
		{newFreezeCmd(), "--all --reason why", "s is frozen; it keeps revision 1\n"},
		{newUnfreezeCmd(), "--all", "s is not frozen; it keeps revision 1\n"},
		{newSchedulerCmd(), "pause s", "keeps revision 1"},
		{newSchedulerCmd(), "list", "auto, paused"},
		{newConfigCmd(), "list s", "1         PUBLISHED  DEFAULT "},
		{newSchedulerCmd(), "resume s", "is resumed"},
	} {
		if out, err := call(c.cmd, strings.Fields(c.args)...); err != nil || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v, %s; want %q", c.args, err, out, c.says)
		}
	}
	for _, c := range []struct {
		cmd  *cobra.Command
		args string
		says string
	}{
		{newSchedulerCmd(), "update s", "nothing to change"},
		{newSchedulerCmd(), "update s --mode sometimes", "--mode"},
		{newSchedulerCmd(), "update s --max-preemptions -1", "--max-preemptions"},
		{newSchedulerCmd(), "update s --min-run 200h",
			"scheduler.spec.simulation.min_run: 200h0m0s is not from 0s to 168h0m0s"},
		{newSchedulerCmd(), "update s --models none.json", "--models"},
		{newSchedulerCmd(), "update s --futures 100", "scheduler.spec.rollout.futures: 100 is not from 1 to 64"},
		{newSchedulerCmd(), "update s --objective joy", "scheduler.spec.objective.metric_id"},
		{newSchedulerCmd(), "pause none", "not found"},
		{newConfigCmd(), "approve s", "no configuration of s is proposed"},
		{newConfigCmd(), "approve s --revision -1", "--revision"},
		{newConfigCmd(), "approve s --revision 7", "not found"},
		{newConfigCmd(), "rollback s", "nothing to go back to"},
		{newConfigCmd(), "rollback s --revision 7", "not found"},
		{newConfigCmd(), "rollback s --from-revision 7", "another configuration is on offer by now: revision 1 of scheduler"},
		{newConfigCmd(), "rollback s --from-revision -7", "--from-revision"},
	} {
		if _, err := call(c.cmd, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error that says %q", c.args, err, c.says)
		}
	}
}

func TestServeOperations(t *testing.T) {
	var log clitest.LockedBuffer
	cmd := clitest.Cmd("serve")
	cmd.SetArgs([]string{"--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--operations", "127.0.0.1:0"})
	cmd.SetErr(&log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	address := clitest.Eventually(t, log.String, `readyz" address=(\S+)`)
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "go_goroutines") {
		t.Errorf("%v %s", err, text)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + address + "/healthz"); err == nil {
		t.Error("it answers after its end")
	}
	if code, _, errs := clitest.Run("serve", "--dir", "x", "--operations", "nowhere"); code != 2 ||
		!strings.Contains(errs, "--operations") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestKilledServiceKeepsWhatItAnswered kills the service while events come in and
// rounds run, again and again. Every event and configuration that a client got
// an answer about is there afterwards, and revisions only go forward.
func TestKilledServiceKeepsWhatItAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the service several times")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	origin := time.Date(2024, 1, 1, 9, 0, 0, 0, time.UTC)
	answered := int64(0)        // events
	known := map[int64]string{} // revisions seen, their hashes
	sent := 0
	for life := range 5 {
		serve, address := clitest.ServeProcess(t, dir, "127.0.0.1:0")
		conn, err := (&cli.ConnectFlags{Server: address}).Dial()
		if err != nil {
			t.Fatal(err)
		}
		tuning, config := pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn)
		if life == 0 {
			_, err := tuning.CreateScheduler(ctx,
				&pb.CreateSchedulerRequest{SchedulerId: "s", Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{
					SchedulerType: "tiresias", Mode: pb.SchedulerSpec_AUTO,
					Cluster: &pb.Cluster{Nodes: 1, GpusPerNode: 8},
					Rollout: &pb.RolloutPolicy{UpdateInterval: durationpb.New(10 * time.Minute), Futures: 1,
						TrialBudget: 3, AllowedLateness: durationpb.New(-1)},
				}}})
			if err != nil {
				t.Fatal(err)
			}
		}
		// The service answers while it still reads the events.
		for got := int64(-1); got < answered; time.Sleep(time.Millisecond) {
			s, err := tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/s"})
			if err != nil {
				t.Fatalf("life %d: %d events are left of %d answered: %v", life, got, answered, err)
			}
			if got = s.GetStatus().GetEventCount(); got > int64(sent) ||
				got > 0 && got < answered {
				t.Fatalf("life %d: %d events are left of %d sent and %d answered", life, got, sent, answered)
			}
		}
		list, err := config.ListConfigurations(ctx,
			&pb.ListConfigurationsRequest{Parent: "schedulers/s", PageSize: 1000})
		if err != nil {
			t.Fatal(err)
		}
		all := map[int64]string{}
		for i, c := range list.GetConfigurations() {
			if want := int64(len(list.GetConfigurations()) - i); c.GetRevision() != want {
				t.Fatalf("life %d: revision %d in place %d", life, c.GetRevision(), want)
			}
			all[c.GetRevision()] = c.GetContentHash()
		}
		for revision, hash := range known {
			if all[revision] != hash {
				t.Fatalf("life %d: revision %d is %q, was %q", life, revision, all[revision], hash)
			}
		}
		known = all

		stream, err := tuning.IngestEvents(ctx)
		if err != nil {
			t.Fatal(err)
		}
		first, killed := make(chan bool), make(chan bool)
		begin := sync.OnceFunc(func() { close(first) })
		go func() {
			defer close(killed)
			<-first
			time.Sleep(time.Duration(50+60*life) * time.Millisecond)
			_ = serve.Process.Kill()
		}()
		for {
			req := &pb.IngestEventsRequest{Parent: "schedulers/s"}
			for range 5 {
				id := fmt.Sprint("e", sent)
				req.Events = append(req.Events, &pb.Event{
					EventId: id, Kind: pb.Event_SUBMITTED,
					SchedulerTime: timestamppb.New(origin.Add(time.Duration(sent) * 20 * time.Second)),
					Job:           &pb.JobDetails{JobId: id, Tenant: "vc", MilliGpus: 1000 * int64(1+sent%8)},
				})
				sent++
			}
			if stream.Send(req) != nil {
				break
			}
			answer, err := stream.Recv()
			if err != nil {
				break
			}
			answered += int64(answer.GetAcceptedCount())
			begin()
			if c, err := config.GetCurrentConfiguration(ctx,
				&pb.GetCurrentConfigurationRequest{Name: "schedulers/s"}); err == nil {
				known[c.GetConfiguration().GetRevision()] = c.GetConfiguration().GetContentHash()
			}
		}
		begin()
		<-killed
		_ = serve.Wait()
		_ = conn.Close()
	}
	if answered == 0 {
		t.Error("no event was answered before a kill")
	}
	t.Logf("%d events answered, %d revisions", answered, len(known))
}

// relay passes connections on to the service, and kills it before more than some bytes of its callers reach it.
type relay struct {
	to   atomic.Pointer[string]
	left atomic.Int64
	kill func()
}

func (r *relay) pass(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", *r.to.Load())
	if err != nil {
		return
	}
	defer s.Close()
	go func() {
		_, _ = io.Copy(c, s)
		_ = c.Close()
	}()
	for part := make([]byte, 1024); ; {
		n, err := c.Read(part)
		if left := r.left.Add(-int64(n)); left <= 0 && left > -int64(n) {
			r.kill()
		}
		if _, failed := s.Write(part[:n]); err != nil || failed != nil {
			return
		}
	}
}

// TestEmulationOutlivesTheService kills the service under an emulated scheduler
// and starts it again: the scheduler goes on, and no event is missing.
func TestEmulationOutlivesTheService(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the service twice")
	}
	dir := t.TempDir()
	serve, address := clitest.ServeProcess(t, dir, "127.0.0.1:0")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := &relay{kill: func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	}}
	r.to.Store(&address)
	r.left.Store(20_000) // less than half of all
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go r.pass(c)
		}
	}()
	var out bytes.Buffer
	var log clitest.LockedBuffer
	done := make(chan error, 1)
	go func() {
		cmd := clitest.Cmd("scheduler emulate")
		cmd.SetArgs([]string{"--server", l.Addr().String(), "--trace", "sample", "--to", "2017-10-09T08:00:00Z",
			"--nodes", "14", "--gpus-per-node", "8", "--speedup", "100000", "--interval", "4h", "--budget", "3", "--id",
			"s", "--json"})
		cmd.SetOut(&out)
		cmd.SetErr(&log)
		done <- cmd.ExecuteContext(t.Context())
	}()
	clitest.Eventually(t, log.String, "no connection")
	_, again := clitest.ServeProcess(t, dir, "127.0.0.1:0")
	r.to.Store(&again)
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	var report struct {
		Events int64 `json:"events_sent"`
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	conn, err := (&cli.ConnectFlags{Server: again}).Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, err := pb.NewTuningServiceClient(conn).GetScheduler(t.Context(), &pb.GetSchedulerRequest{Name: "schedulers/s"})
	if err != nil || s.GetStatus().GetEventCount() != report.Events || report.Events < 100 {
		t.Errorf("the service knows %d events, the scheduler sent %d: %v",
			s.GetStatus().GetEventCount(), report.Events, err)
	}
}

func TestValuesLineNamesSpecialValues(t *testing.T) {
	s := &pb.Scheduler{Spec: &pb.SchedulerSpec{Parameters: []*pb.ParameterSpec{
		{ParameterId: "starve_limit", SpecialValues: []*pb.SpecialValue{{Value: 0, DisplayName: "off"}, {Value: -1}}},
		{ParameterId: "queues"}, {ParameterId: "absent"},
	}}}
	for value, want := range map[float64]string{0: "off", -1: "-1", 60: "60"} {
		c := map[string]*structpb.Value{
			"queues": structpb.NewNumberValue(0), "starve_limit": structpb.NewNumberValue(value)}
		if got := valuesLine(c, s); got != "starve_limit="+want+" queues=0" {
			t.Errorf("starve_limit %v: %s", value, got)
		}
	}
}

// TestPrintable: control characters in texts of schedulers and operators do not reach the terminal.
func TestPrintable(t *testing.T) {
	address, _ := clitest.StartServe(t, t.TempDir())
	call := func(cmd *cobra.Command, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := clitest.RunClient(t.Context(), cmd, "", &out, append(args, "--server", address)...); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return out.String()
	}
	call(newSchedulerCmd(), "register", "--id", "own", "--objective", "wait", "--nodes", "1", "--gpus-per-node", "8",
		"--space", clitest.NumberSpace(t))
	call(newConfigCmd(), "ack", "own", "--revision", "1", "--outcome", "failed", "--error", "\x1b[2J\u009b31mno queues für x")
	call(newFreezeCmd(), "own", "--reason", "\a\x1b]0;title\a")
	for _, got := range []string{call(newSchedulerCmd(), "get", "own"), call(newConfigCmd(), "get", "own")} {
		if strings.ContainsAny(got, "\x1b\a\u009b") {
			t.Errorf("%q", got)
		}
	}
	if got := call(newSchedulerCmd(), "get", "own"); !strings.Contains(got, "?[2J?31mno queues für x") {
		t.Errorf("%q", got)
	}
	var list struct{ Freeze struct{ Reason string } }
	if err := json.Unmarshal([]byte(call(newSchedulerCmd(), "get", "own", "--json")), &list); err != nil ||
		list.Freeze.Reason != "\a\x1b]0;title\a" {
		t.Errorf("%q %v", list.Freeze.Reason, err)
	}
}
