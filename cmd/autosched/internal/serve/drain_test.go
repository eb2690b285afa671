package serve

import (
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// drained is a service as a process with an open watch, a long round, and a
// backup that its caller does not read.
type drained struct {
	t          *testing.T
	serve      *exec.Cmd
	log        clitest.LockedBuffer
	operations string
	watch      pb.ConfigurationService_WatchConfigurationsClient
	backup     pb.MaintenanceService_BackupClient
}

func startDrained(t *testing.T, drain string) *drained {
	t.Helper()
	d := &drained{t: t}
	d.serve = clitest.Process(t, "serve", "--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--operations", "127.0.0.1:0",
		"--drain", drain, "--workers", "1")
	d.serve.Stderr = &d.log
	if err := d.serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.serve.Process.Kill() })
	address := clitest.Eventually(t, d.log.String, `msg=serving address=(\S+)`)
	d.operations = clitest.Eventually(t, d.log.String, `readyz" address=(\S+)`)
	ctx := t.Context()
	for _, args := range []string{
		"register --builtin tiresias --nodes 40 --gpus-per-node 8 --id prod",
		"update prod --budget 4000 --futures 4",
	} {
		all := append([]string{"scheduler"}, strings.Fields(args+" --server "+address)...)
		if code, _, errs := clitest.Run(all...); code != 0 {
			t.Fatal(errs)
		}
	}
	conn, err := (&cli.ConnectFlags{Server: address}).Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if d.watch, err = pb.NewConfigurationServiceClient(conn).WatchConfigurations(ctx,
		&pb.WatchConfigurationsRequest{Parent: "schedulers/prod"}); err == nil {
		_, err = d.watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	ingest, err := pb.NewTuningServiceClient(conn).IngestEvents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	req := &pb.IngestEventsRequest{Parent: "schedulers/prod"}
	for i := range 2000 {
		id := strings.Repeat("x", 100) + time.Duration(i).String()
		req.Events = append(req.Events, &pb.Event{EventId: id, Kind: pb.Event_SUBMITTED,
			Job:           &pb.JobDetails{JobId: id, MilliGpus: 1000},
			SchedulerTime: timestamppb.New(time.Date(2024, 1, 1, 9, 0, 3*i, 0, time.UTC))})
	}
	if err := ingest.Send(req); err != nil {
		t.Fatal(err)
	}
	if _, err := ingest.Recv(); err != nil {
		t.Fatal(err)
	}
	// More than the windows of the transport hold waits for its reader.
	if d.backup, err = pb.NewMaintenanceServiceClient(conn).Backup(ctx, &pb.BackupRequest{}); err == nil {
		_, err = d.backup.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// stop sends SIGTERM and waits until the watch ends.
func (d *drained) stop() {
	d.t.Helper()
	if err := d.serve.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	for {
		if _, err := d.watch.Recv(); err != nil {
			if status.Code(err) != codes.Unavailable {
				d.t.Errorf("the watch ended with %v", err)
			}
			return
		}
	}
}

// TestDrain: on SIGTERM the service is not ready any more, watches end with Unavailable, the round is
// cancelled, and a call under way is finished before the process ends with 0.
func TestDrain(t *testing.T) {
	d := startDrained(t, "100s")
	d.stop()
	answer, err := http.Get("http://" + d.operations + "/readyz")
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readiness while calls are under way: %v, %v", answer, err)
	} else {
		answer.Body.Close()
	}
	for err == nil {
		_, err = d.backup.Recv()
	}
	if err.Error() != "EOF" {
		t.Errorf("the backup under way ended with %v", err)
	}
	if err := d.serve.Wait(); err != nil || !strings.Contains(d.log.String(), "msg=stopped") {
		t.Errorf("%v\n%s", err, d.log.String())
	}
}

// TestDrainIsBounded: a call that does not end is cut, and the process ends with 0.
func TestDrainIsBounded(t *testing.T) {
	d := startDrained(t, "50ms")
	d.stop()
	if err := d.serve.Wait(); err != nil || !strings.Contains(d.log.String(), "cutting calls") {
		t.Errorf("%v\n%s", err, d.log.String())
	}
}

// TestSecondSignalEnds: whatever the service waits for, a second signal ends it.
func TestSecondSignalEnds(t *testing.T) {
	d := startDrained(t, "1h")
	d.stop()
	if err := d.serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	err := d.serve.Wait()
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("%v\n%s", err, d.log.String())
	}
}
