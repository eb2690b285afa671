package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/telemetry"
)

// TestTelemetryInTheService: what is imported, in several files and again, is exported as it was, also after a restart,
// and what a node collects joins it.
func TestTelemetryInTheService(t *testing.T) {
	dir := t.TempDir()
	address, stop := startServe(t, dir)
	call := func(cmd *cobra.Command, args ...string) (string, error) {
		var out bytes.Buffer
		err := runClient(t.Context(), cmd, "", &out, append(args, "--server", address)...)
		return out.String(), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := call(newTelemetryCmd(), args...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return out
	}
	if _, err := call(newSchedulerCmd(), "register", "--builtin", "fifo", "--nodes", "2", "--gpus-per-node", "8", "--id",
		"prod"); err != nil {
		t.Fatal(err)
	}
	text := "time,node,gpu,instance,uuid,utilization_percent,power_w,job,lost\n" +
		"2026-01-05T10:00:00Z,n1,0,,GPU-a,97,301.25,7,\n2026-01-05T10:00:15Z,n1,0,,GPU-a,,,,1\n" +
		"2026-01-05T10:00:00Z,n2,0,3,MIG-b,5,,,\n2026-01-05T12:00:00Z,n1,0,,GPU-a,1,60,,\n"
	file := filepath.Join(dir, "gpus.csv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := must("import", "prod", file, file); !strings.Contains(out, "8 samples stored, 0 rejected") {
		t.Errorf("%s", out)
	}
	exported := func() (out []telemetry.GPUSample) {
		t.Helper()
		stats, err := telemetry.Read(strings.NewReader(must("export", "prod")), "export", telemetry.Options{},
			func(s *telemetry.GPUSample) error { out = append(out, *s); return nil })
		if err != nil || stats.Rejected > 0 {
			t.Fatalf("%+v %v", stats, err)
		}
		return out
	}
	var want []telemetry.GPUSample
	if _, err := telemetry.Read(strings.NewReader(text), "", telemetry.Options{},
		func(s *telemetry.GPUSample) error { want = append(want, *s); return nil }); err != nil {
		t.Fatal(err)
	}
	same := func() {
		t.Helper()
		got := exported()
		if len(got) != len(want) {
			t.Fatalf("%d samples, want %d", len(got), len(want))
		}
		for _, w := range want {
			found := false
			for _, g := range got {
				found = found || g == w
			}
			if !found {
				t.Errorf("%+v is missing", w)
			}
		}
	}
	same()
	if out := must("show", "prod", "--node", "n1", "--resolution", "1h"); strings.Count(out, "n1") != 2 {
		t.Errorf("means of two hours:\n%s", out)
	}
	stop()
	address, _ = startServe(t, dir)
	same()
	cmd := newTelemetryCollectCmd()
	if err := cmd.ParseFlags([]string{"--scheduler", "prod", "--server", address}); err != nil {
		t.Fatal(err)
	}
	flags := connectFlags{server: address}
	conn, err := flags.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	said := ""
	sink := &telemetrySink{pb.NewTelemetryServiceClient(conn), "schedulers/prod", func(text string) { said = text }}
	bad := want[0]
	bad.Node = ""
	more := want[0]
	more.Node = "n3"
	err = sink.Send(t.Context(), []telemetry.GPUSample{more, bad})
	if err != nil || !strings.Contains(said, "node_id") {
		t.Errorf("%v, said %q", err, said)
	}
	want = append(want, more)
	same()
	if _, err := call(newTelemetryCmd(), "import", "none", file); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("an unknown scheduler: %v", err)
	}
	if _, err := call(newTelemetryCmd(), "show", "prod", "--resolution", "2h"); err == nil {
		t.Error("a resolution that there is not")
	}
}
