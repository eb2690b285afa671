package traces

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/telemetry/collect"
)

func TestTelemetryValidate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpus.csv")
	text := "time,node,gpu,power_w,xid,job\n1700000000,a,0,100,0,j\n1700000015,a,0,300,79,j\n1700000030,a,0,200,0,k\n" +
		"1700000000,b,1,50,,\n1700000120,b,1,x,,\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := clitest.Run("telemetry", "validate", path)
	want := `file        gpus.csv (autosched)
rows        5, 4 GPU samples
GPUs        2 of 2 nodes, 2 jobs named by 3 samples
span        2023-11-14T22:13:20Z to 2023-11-14T22:13:50Z, 30 s
period      15 s
coverage    100.0 %, 0 gaps
absent      2
Xid errors  1
  quantity  samples  least    mean  most
   power_w        4     50   162.5   300
       xid        3      0  0.3333     1
1 of 5 rows rejected:
       1 x power_w is not a number
  gpus.csv:6: power_w: "x": is not a number
`
	if code != 1 || out != want || !strings.Contains(errs, "1 of 5 rows rejected, first gpus.csv:6") {
		t.Errorf("exit %d: %s\n%s\nwant %s", code, errs, out, want)
	}
	_, out, errs = clitest.Run("telemetry", "validate", path, "--out", "-")
	if strings.Count(out, "\n") != 5 || !strings.Contains(out, "2023-11-14T22:13:30") && !strings.Contains(out, "1700000030") ||
		!strings.HasPrefix(errs, want) {
		t.Errorf("standard output has\n%s, standard error\n%s", out, errs)
	}
	for _, x := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "name the files"},
		{[]string{path, "--scrape-time", "now"}, 2, "--scrape-time"},
		{[]string{path, "--show", "0"}, 2, "--show"},
		{[]string{path, "--timezone", "Mars"}, 2, "--timezone: \"Mars\" is not a zone"},
		{[]string{path, "--timezone", "Europe/Berlin"}, 1, "note: --timezone made no difference: gpus.csv has"},
		{[]string{path, "--format", "csv"}, 2, "is not one of acme, autosched"},
		{[]string{path + "x"}, 1, "no such file"},
		{[]string{path, "--format", "queue"}, 1, "the header lacks pending"},
	} {
		if code, _, errs := clitest.Run(append([]string{"telemetry", "validate"}, x.args...)...); code != x.code ||
			!strings.Contains(errs, x.want) {
			t.Errorf("%v: exit %d: %s", x.args, code, errs)
		}
	}
	local := "timestamp, index\n2026/01/05 12:00:00, 0\n"
	if err := os.WriteFile(path, []byte(local), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs = clitest.Run("telemetry", "validate", path, "--node", "a", "--timezone", "Europe/Berlin")
	if code != 0 || errs != "" || !strings.Contains(out, "2026-01-05T11:00:00Z to ") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
}

// oneGPU is a driver of a GPU that always says the same.
type oneGPU struct{}

func (oneGPU) Init() error { return nil }

func (oneGPU) Shutdown() {}

func (oneGPU) Xids(dst []collect.XidEvent) ([]collect.XidEvent, error) {
	return dst, nil
}

func (oneGPU) Devices() ([]collect.Device, error) {
	read := func(s *telemetry.GPUSample, pids []int) ([]int, error) {
		s.Known, s.Power = telemetry.Power, 55
		return append(pids, 1, os.Getpid()), nil
	}
	return []collect.Device{{Instance: -1, UUID: "GPU-1", Read: read}}, nil
}

func TestFourDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.0 / 3: "0.3333", 162.5: "162.5", 999.96: "1000", 40960: "40960",
		-12345.6: "-12346"} {
		if got := fourDigits(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestTelemetryCollect(t *testing.T) {
	dir := t.TempDir()
	pids, file := filepath.Join(dir, "pids"), filepath.Join(dir, "gpus.csv")
	if err := os.WriteFile(pids, []byte("1 abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	for _, path := range []string{"-", file, file} {
		o := telemetryCollectOptions{out: path, node: "n", interval: leastInterval, rounds: 2, pidMap: pids, buffer: 10,
			stdout: &out}
		if err := errors.Join(o.check(), o.run(t.Context(), oneGPU{}, &notes)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{out.String(): 2, string(data): 4} {
		n := 0
		each := func(s *telemetry.GPUSample) error {
			n++
			if s.Node != "n" || s.Power != 55 || s.Job != "abc" || time.Since(time.Unix(0, int64(s.Time))) > time.Hour {
				t.Errorf("%+v", s)
			}
			return nil
		}
		stats, err := telemetry.Read(t.Context(), strings.NewReader(text), "f", telemetry.Options{}, each)
		if err != nil || n != want || stats.Rejected > 0 {
			t.Errorf("%d samples, %+v, %v", n, stats, err)
		}
	}
	if !strings.Contains(notes.String(), "2 samples written, 0 dropped") {
		t.Error(notes.String())
	}
	full := telemetryCollectOptions{out: "/dev/full", node: "n", interval: leastInterval, rounds: 1, buffer: 10}
	if _, err := os.Stat(full.out); err == nil {
		err := full.run(t.Context(), oneGPU{}, &notes)
		if err == nil || !strings.Contains(err.Error(), "1 samples could not") {
			t.Error(err)
		}
	}
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "DCGM_FI_PROF_SM_ACTIVE{gpu=\"3\",Hostname=\"n7\"} 0.5\n")
	}))
	defer exporter.Close()
	code, csv, errs := clitest.Run("telemetry", "collect", "--scrape", exporter.URL, "--rounds", "2", "--period", "100ms")
	if lines := strings.Split(csv, "\n"); code != 0 || len(lines) != 4 || !strings.Contains(lines[2], ",n7,3,,,,0.5,") {
		t.Errorf("exit %d: %s: %s", code, errs, csv)
	}
	for _, x := range [][2]string{{"--period", "1ms"}, {"--rounds", "-1"}, {"--buffer", "0"}, {"--node", "a\nb"},
		{"--scrape", "node7"}} {
		code, _, errs := clitest.Run("telemetry", "collect", x[0], x[1])
		if code != 2 || !strings.Contains(errs, x[0]+": ") {
			t.Errorf("%v: exit %d: %s", x, code, errs)
		}
	}
}
