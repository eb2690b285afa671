package traces_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/telemetry"
)

// prometheus answers as the server of that name does, for two GPUs whose utilisation is the minute of the hour.
type prometheus struct {
	*httptest.Server
	asked atomic.Int64 // for ranges
	fails atomic.Int64 // the request for a range from which on all fail
	most  int          // steps of a range
	token string
}

func newPrometheus(t *testing.T) *prometheus {
	p := &prometheus{most: 11_000}
	p.fails.Store(1 << 30)
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(code int, text string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"status":"error","errorType":"x","error":%q}`, text)
	}
	if p.token != "" && r.Header.Get("Authorization") != p.token {
		fail(http.StatusUnauthorized, "who are you?")
		return
	}
	number := func(name string) float64 {
		v, _ := strconv.ParseFloat(r.URL.Query().Get(name), 64)
		return v
	}
	switch r.URL.Path {
	case "/prom/api/v1/label/__name__/values":
		fmt.Fprint(w, `{"status":"success","data":["up","DCGM_FI_DEV_GPU_UTIL","DCGM_FI_DEV_POWER_USAGE"]}`)
		return
	case "/prom/api/v1/query_range":
	default:
		fail(http.StatusNotFound, "page not found")
		return
	}
	start, end, step := number("start"), number("end"), number("step")
	switch n := p.asked.Add(1); {
	case n >= p.fails.Load():
		fail(http.StatusBadRequest, "out of order")
		return
	case n == 2:
		fail(http.StatusServiceUnavailable, "starting up")
		return
	case int((end-start)/step)+1 > p.most:
		fail(http.StatusUnprocessableEntity, "query processing would load too many samples")
		return
	}
	name := strings.Split(r.URL.Query().Get("query"), `"`)[1]
	var all []map[string]any
	for g := range 2 {
		var values [][2]any
		for at := start; at <= end; at += step {
			values = append(values, [2]any{at, fmt.Sprint(int(at) / 60 % 60)})
		}
		all = append(all, map[string]any{"metric": map[string]string{"__name__": name, "Hostname": "n1",
			"gpu": fmt.Sprint(g),
			"job": "dcgm", "instance": "10.0.0.1:9400", "pod": "exporter-x", "exported_pod": "train-0"},
			"values": values})
	}
	json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix",
		"result": all}})
}

func TestTelemetryFetch(t *testing.T) {
	p, dir := newPrometheus(t), t.TempDir()
	fetch := func(out string, args ...string) (int, string, string) {
		return clitest.Run(append([]string{"telemetry", "fetch", p.URL + "/prom", "--from", "2026-03-02T00:00:00Z", "--to",
			"2026-03-02T10:00:00Z", "--out", filepath.Join(dir, out)}, args...)...)
	}
	whole := func(out string) string {
		t.Helper()
		n := 0
		text, err := os.ReadFile(filepath.Join(dir, out))
		if err != nil {
			t.Fatal(err)
		}
		_, err = telemetry.Read(t.Context(), strings.NewReader(string(text)), out, telemetry.Options{},
			func(s *telemetry.GPUSample) error {
				minute := time.Duration(n/2) * time.Minute
				want := telemetry.GPUSample{GPU: telemetry.GPU{Node: "n1", Index: n % 2, Instance: -1},
					Time: 1772409600*time.Second + minute, Known: telemetry.Utilization | telemetry.Power,
					Utilization: float64(n / 2 % 60), Power: float64(n / 2 % 60), Job: "train-0"}
				if *s != want {
					t.Fatalf("sample %d: %+v, want %+v", n, s, want)
				}
				n++
				return nil
			})
		if err != nil || n != 1200 {
			t.Fatalf("%d samples, %v", n, err)
		}
		if _, err := os.Stat(filepath.Join(dir, out) + ".fetch"); err == nil {
			t.Error("the note of how far it came is left")
		}
		return string(text)
	}
	code, out, errs := fetch("a.csv")
	if code != 0 || !strings.Contains(out, "1,200 samples written") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	want := whole("a.csv")
	if code, _, errs := fetch("a.csv"); code != 1 || !strings.Contains(errs, "it exists") {
		t.Errorf("over a file: exit %d: %s", code, errs)
	}

	p.most = 50 // halves of chunks
	if code, _, errs := fetch("b.csv"); code != 0 || whole("b.csv") != want {
		t.Errorf("small ranges: exit %d: %s", code, errs)
	}
	p.most = 11_000
	p.fails.Store(p.asked.Load() + 7) // goes on where it was
	if code, _, errs := fetch("c.csv"); code != 1 || !strings.Contains(errs, "400 Bad Request: out of order") {
		t.Errorf("a failure: exit %d: %s", code, errs)
	}
	p.fails.Store(1 << 30)
	if code, _, errs := fetch("c.csv", "--period", "2m"); code != 1 || !strings.Contains(errs, "is of another fetch") {
		t.Errorf("another step: exit %d: %s", code, errs)
	}
	before := p.asked.Load()
	if code, _, errs := fetch("c.csv"); code != 0 || !strings.Contains(errs, "note: goes on at 2026-03-02T06:00:00Z") ||
		whole("c.csv") != want || p.asked.Load()-before != 4 {
		t.Errorf("resumed: exit %d after %d: %s", code, p.asked.Load()-before, errs)
	}

	p.token = "Bearer x"
	if code, _, errs := fetch("d.csv"); code != 1 || !strings.Contains(errs, "--header-file") {
		t.Errorf("without a token: exit %d: %s", code, errs)
	}
	header := filepath.Join(dir, "header")
	if err := os.WriteFile(header, []byte("Authorization: Bearer x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := fetch("d.csv", "--header-file", header); code != 0 || whole("d.csv") != want {
		t.Errorf("with a token: exit %d: %s", code, errs)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"x"}, 2, `"x" is not a URL`},
		{[]string{p.URL, "--from", "2026-03-02T00:00:00Z", "--out", "x", "--header-file", header}, 1, "page not found"},
		{[]string{p.URL, "--out", "x"}, 2, "--from, --to"},
		{[]string{p.URL, "--from", "2026-03-02T00:00:00Z"}, 2, "--out"},
		{[]string{p.URL, "--from", "2026-03-02T00:00:00Z", "--out", "-"}, 2, "--out: - is no name of a CSV file"},
		{[]string{p.URL, "--from", "2026-03-02T00:00:00Z", "--to", "2026-03-01T00:00:00Z"}, 2, "is not before --to"},
		{[]string{p.URL, "--from", "2026-03-02T00:00:00Z", "--period", "1ms"}, 2, "--period"},
	} {
		if code, _, errs := clitest.Run(append([]string{"telemetry", "fetch"}, c.args...)...); code != c.code ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d: %s", c.args, code, errs)
		}
	}
}
