package server

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/store"
)

func TestBackupIsAStore(t *testing.T) {
	f := serve(t, nil)
	f.create("s", pb.SchedulerSpec_AUTO)
	stream := must[pb.MaintenanceService_BackupClient](t)(
		pb.NewMaintenanceServiceClient(f.conn).Backup(t.Context(), &pb.BackupRequest{}))
	var archive bytes.Buffer
	for {
		part, err := stream.Recv()
		if err != nil {
			break
		}
		archive.Write(part.GetData())
	}
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := store.Restore(&archive, dir); err != nil {
		t.Fatal(err)
	}
	g := serveWith(t, dir, controller.Options{Decide: round.DecideOnline},
		Options{Builtins: []controller.Builtin{testBuiltin}})
	got, err := g.config.GetCurrentConfiguration(t.Context(),
		&pb.GetCurrentConfigurationRequest{Name: "schedulers/s"})
	if err != nil || got.GetConfiguration().GetRevision() != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestReadinessSaysOfTheStore: faults of the store and the rounds are in the diagnosis, and in readiness without the
// details that need a role.
func TestReadinessSaysOfTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	failing := func(context.Context, round.Input) (round.Decision, error) {
		return round.Decision{}, errors.New("no futures")
	}
	f := serveWith(t, dir, controller.Options{Decide: failing}, Options{Builtins: []controller.Builtin{testBuiltin}})
	f.create("s", pb.SchedulerSpec_AUTO)
	diagnose := func() map[string]pb.Check_Status {
		t.Helper()
		got := must[*pb.DiagnoseResponse](t)(
			pb.NewMaintenanceServiceClient(f.conn).Diagnose(t.Context(), &pb.DiagnoseRequest{}))
		out := map[string]pb.Check_Status{}
		for _, c := range got.GetChecks() {
			out[c.GetCheck()] = c.GetStatus()
			if (c.GetStatus() == pb.Check_OK) != (c.GetAction() == "") || c.GetDetail() == "" {
				t.Errorf("%v", c)
			}
			if readyText[c.GetCheck()] == "" {
				t.Errorf("%s has no text for readiness", c.GetCheck())
			}
		}
		return out
	}
	for name, st := range diagnose() {
		if st != pb.Check_OK && name != "disk" {
			t.Errorf("%s is %v at the start", name, st)
		}
	}
	if code, text := get(f, "/readyz/tuning"); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	// A segment cannot be made in a directory that is gone.
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	stream := must[pb.TuningService_IngestEventsClient](t)(f.tuning.IngestEvents(t.Context()))
	batch := &pb.IngestEventsRequest{Parent: "schedulers/s", Events: []*pb.Event{submitted("j", 0)}}
	if err := stream.Send(batch); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil {
		t.Fatal("stored in a directory that is gone")
	}
	if got := diagnose()["ingest"]; got != pb.Check_FAIL {
		t.Errorf("ingest is %v", got)
	}
	if code, text := get(f, "/readyz"); code != 200 || !strings.Contains(text, "fail: events cannot be stored") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := get(f, "/readyz/tuning"); code != 503 || !strings.Contains(text, "not ready") {
		t.Errorf("%d %s", code, text)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	f.ingest("s", submitted("j", 0), submitted("k", time.Hour))
	for diagnose()["rounds"] != pb.Check_WARN {
		time.Sleep(time.Millisecond)
	}
	if code, text := get(f, "/readyz/tuning"); code != 200 || !strings.Contains(text, "warn: rounds fail") ||
		strings.Contains(text, "no futures") {
		t.Errorf("%d %s", code, text)
	}
}
