package traces_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/telemetry"
)

// TestRealPrometheus fetches from the server itself, out of blocks that its own tool made: three hours of two GPUs, as
// a server that scraped an exporter in a pod has them. AUTOSCHED_PROMETHEUS is the folder of both programs.
func TestRealPrometheus(t *testing.T) {
	bin := os.Getenv("AUTOSCHED_PROMETHEUS")
	if bin == "" {
		t.Skip("AUTOSCHED_PROMETHEUS names no folder with prometheus and promtool: 'make prometheus' builds them")
	}
	dir := t.TempDir()
	text := strings.Builder{}
	text.WriteString("# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n")
	const minutes, begin = 180, 1772409600
	for i := range minutes {
		for g := range 2 {
			fmt.Fprintf(&text, "DCGM_FI_DEV_GPU_UTIL{Hostname=\"n1\",gpu=\"%d\",job=\"dcgm\",instance=\"10.0.0.1:9400\","+
				"pod=\"exporter-x\",exported_pod=\"train-0\"} %d %d\n", g, i%60, begin+60*i)
		}
	}
	text.WriteString("# EOF\n")
	metrics, config := filepath.Join(dir, "metrics.txt"), filepath.Join(dir, "prometheus.yml")
	for path, text := range map[string]string{metrics: text.String(), config: "global: {}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "promtool"), "tsdb", "create-blocks-from",
		"openmetrics", metrics, data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	server := exec.CommandContext(t.Context(), filepath.Join(bin, "prometheus"), "--config.file="+config,
		"--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y", "--web.listen-address="+address)
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Wait() }) // the test's context has ended by then
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if answer, err := http.Get("http://" + address + "/-/ready"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the server is not ready after a minute")
		}
	}
	path := filepath.Join(dir, "fetched.csv")
	code, out, errs := clitest.Run("telemetry", "fetch", "http://"+address, "--from", "2026-03-02T00:00:00Z", "--to",
		"2026-03-02T03:00:00Z", "--out", path)
	if code != 0 || !strings.Contains(out, "360 samples written") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	n := 0
	each := func(s *telemetry.GPUSample) error {
		want := telemetry.GPUSample{GPU: telemetry.GPU{Node: "n1", Index: n % 2, Instance: -1},
			Time: time.Duration(begin+60*(n/2)) * time.Second, Known: telemetry.Utilization,
			Utilization: float64(n / 2 % 60),
			Job:         "train-0"}
		if *s != want {
			t.Fatalf("sample %d: %+v, want %+v", n, s, want)
		}
		n++
		return nil
	}
	_, err = telemetry.ReadFile(t.Context(), path, telemetry.Options{}, telemetry.Visit{GPU: each})
	if err != nil || n != 2*minutes {
		t.Errorf("%d samples, %v", n, err)
	}
	if code, _, errs := clitest.Run("telemetry", "fetch", "http://"+address, "--from", "2026-03-02T00:00:00Z", "--to",
		"2026-03-02T03:00:00Z", "--match", `cluster="none"`, "--out", filepath.Join(dir, "none.csv")); code != 1 {
		t.Errorf("without a match: exit %d: %s", code, errs)
	}
}
