package server

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func get(f *fixture, path string) (int, string) {
	w := httptest.NewRecorder()
	f.server.Operations().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestMetrics(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	f.create("a", pb.SchedulerSpec_AUTO)
	f.create("b", pb.SchedulerSpec_RECOMMEND)
	bad := submitted("x", 0)
	bad.Job = nil
	f.ingest("a", submitted("1", time.Minute), submitted("2", 2*time.Minute), submitted("1", time.Minute), bad)
	if _, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: "schedulers/b"}); err != nil {
		t.Fatal(err)
	}
	_, _ = f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/none"})

	var text string
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // a stream counts when it has ended
		if _, text = get(f, "/metrics"); strings.Contains(text, `calls_total{method="IngestEvents",code="OK"} 1`) || time.Now().After(deadline) {
			break
		}
	}
	for _, want := range []string{
		`autosched_calls_total{method="CreateScheduler",code="OK"} 2`,
		`autosched_calls_total{method="GetScheduler",code="NotFound"} 1`,
		`autosched_calls_total{method="IngestEvents",code="OK"} 1`,
		`autosched_events_total{scheduler="a",result="accepted"} 2`,
		`autosched_events_total{scheduler="a",result="duplicate"} 1`,
		`autosched_events_total{scheduler="a",result="rejected"} 1`,
		`autosched_scheduler_events{scheduler="a"} 2`,
		`autosched_scheduler_event_time_seconds{scheduler="a"} 1.70406732e+09`,
		`autosched_scheduler_paused{scheduler="b"} 1`,
		`autosched_scheduler_auto{scheduler="a"} 1`,
		`autosched_served_revision{scheduler="a"} 1`,
		`autosched_configurations{scheduler="a",state="published"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) autosched_\w+ .+|autosched_\w+(\{(\w+="[^"\\]*",?)+\})? [-+.e0-9]+)$`)
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if !line.MatchString(l) {
			t.Errorf("not in Prometheus' format: %q", l)
		}
	}
}

func TestReadyUntilShutdown(t *testing.T) {
	f := serve(t, nil)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/other": 404} {
		if code, _ := get(f, path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	f.stop()
	if code, _ := get(f, "/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d after shutdown", code)
	}
	if code, _ := get(f, "/healthz"); code != 200 {
		t.Errorf("/healthz: %d after shutdown", code)
	}
}
