package traces

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/telemetry"
)

// TestTelemetryInTheService: samples imported from several files, and again, are exported unchanged, also after a
// restart, and the samples of a node join them.
func TestTelemetryInTheService(t *testing.T) {
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir)
	call := func(cmd *cobra.Command, args ...string) (string, error) {
		var out bytes.Buffer
		err := clitest.RunClient(t.Context(), cmd, "", &out, append(args, "--server", address)...)
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
	if _, err := call(clitest.Cmd("scheduler"), "register", "--builtin", "fifo", "--nodes", "2", "--gpus-per-node",
		"8", "--id",
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
		stats, err := telemetry.Read(t.Context(), strings.NewReader(must("export", "prod")), "export",
			telemetry.Options{},
			func(s *telemetry.GPUSample) error { out = append(out, *s); return nil })
		if err != nil || stats.Rejected > 0 {
			t.Fatalf("%+v %v", stats, err)
		}
		return out
	}
	var want []telemetry.GPUSample
	if _, err := telemetry.Read(t.Context(), strings.NewReader(text), "", telemetry.Options{},
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
	if out := must("export", "prod", "--node", "n1", "--resolution", "1h"); strings.Count(out, "n1") != 2 {
		t.Errorf("means of two hours:\n%s", out)
	}
	stop()
	address, _ = clitest.StartServe(t, dir)
	same()
	cmd := newTelemetryCollectCmd()
	if err := cmd.ParseFlags([]string{"--id", "prod", "--server", address}); err != nil {
		t.Fatal(err)
	}
	flags := cli.ConnectFlags{Server: address}
	conn, err := flags.Dial()
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
	if _, err := call(newTelemetryCmd(), "export", "prod", "--resolution", "2h"); err == nil {
		t.Error("a resolution that there is not")
	}
}

// TestCollectAcrossRestarts: measurements while the service is down arrive once it is back: nothing is lost, and
// nothing is there twice.
func TestCollectAcrossRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("collects for seconds")
	}
	var scrapes atomic.Int64
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := scrapes.Add(1)
		for gpu := range 2 {
			fmt.Fprintf(w, "DCGM_FI_DEV_POWER_USAGE{gpu=\"%d\",Hostname=\"n1\"} %d\n", gpu, n)
		}
	}))
	defer exporter.Close()
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir)
	must := clitest.ClientOf(t, &address)
	must("scheduler", "register", "--builtin", "fifo", "--nodes", "1", "--gpus-per-node", "2", "--id", "prod")
	const rounds = 80
	var notes clitest.SharedBuffer
	cmd := newTelemetryCollectCmd()
	cmd.SetArgs([]string{"--id", "prod", "--server", address, "--scrape", exporter.URL, "--period", "100ms",
		"--rounds", fmt.Sprint(rounds)})
	cmd.SetErr(&notes)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(t.Context()) }()
	for until := time.Now().Add(2 * time.Minute); !strings.Contains(must("telemetry", "export", "prod"), "n1"); {
		if time.Now().After(until) {
			t.Fatal("nothing arrives")
		}
	}
	stop()
	clitest.Eventually(t, notes.String, `(samples cannot be sent)`)
	_, _ = clitest.StartServe(t, dir, "--listen", address)
	if err := <-ended; err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	seen := map[int]int{} // by the exporter's value, which differs from scrape to scrape
	stats, err := telemetry.Read(t.Context(), strings.NewReader(must("telemetry", "export", "prod")), "export",
		telemetry.Options{},
		func(s *telemetry.GPUSample) error {
			seen[int(s.Power)]++
			return nil
		})
	if err != nil || stats.Rejected > 0 {
		t.Fatalf("%+v %v", stats, err)
	}
	for n := 1; n <= int(scrapes.Load()); n++ {
		if seen[n] != 2 {
			t.Errorf("scrape %d of %d is there %d times for 2 GPUs", n, scrapes.Load(), seen[n])
		}
	}
	want := fmt.Sprintf("%d samples written, 0 dropped", 2*rounds)
	if len(seen) != rounds || !strings.Contains(notes.String(), want) {
		t.Errorf("%d scrapes arrived, want %d:\n%s", len(seen), rounds, notes.String())
	}
}
