package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/storetest"
)

func get(f *fixture, path string) (int, string) {
	w := httptest.NewRecorder()
	f.server.Web().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestOperationsPageLinksTheOthers(t *testing.T) {
	f := serve(t, nil)
	code, page := get(f, "/")
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/readyz/tuning"} {
		if linked, _ := get(f, path); code != http.StatusOK || linked != http.StatusOK ||
			!strings.Contains(page, `<a href="`+path+`">`) {
			t.Errorf("%s: %d; / is %d:\n%s", path, linked, code, page)
		}
	}
	if code, _ := get(f, "/other"); code != http.StatusNotFound {
		t.Errorf("/other: %d", code)
	}
}

func TestMetrics(t *testing.T) {
	f := serve(t, nil)
	ctx := background(t)
	page := httptest.NewServer(f.server.Web())
	defer page.Close()
	compare := func(name, want string) {
		t.Helper()
		if err := testutil.ScrapeAndCompare(page.URL+"/metrics", strings.NewReader(want), name); err != nil {
			t.Error(err)
		}
	}
	f.create("a", pb.SchedulerSpec_AUTO)
	f.create("b", pb.SchedulerSpec_RECOMMEND)
	bad := submitted("x", 0)
	bad.Job = nil
	f.ingest("a", submitted("1", time.Minute), submitted("2", 2*time.Minute), submitted("1", time.Minute), bad)
	if _, err := f.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: "schedulers/b"}); err != nil {
		t.Fatal(err)
	}
	_, _ = f.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/none"})
	f.ingest("a", submitted("3", 2*time.Hour))
	f.waitRounds("a", 1)

	compare("autosched_scheduler_configurations", `
		# HELP autosched_scheduler_configurations Revisions by state.
		# TYPE autosched_scheduler_configurations gauge
		autosched_scheduler_configurations{scheduler="a",state="parked"} 0
autosched_scheduler_configurations{scheduler="a",state="proposed"} 0
		autosched_scheduler_configurations{scheduler="a",state="published"} 1
		autosched_scheduler_configurations{scheduler="a",state="rejected"} 0
		autosched_scheduler_configurations{scheduler="a",state="rolled_out"} 0
		autosched_scheduler_configurations{scheduler="a",state="superseded"} 1
		autosched_scheduler_configurations{scheduler="b",state="parked"} 0
autosched_scheduler_configurations{scheduler="b",state="proposed"} 0
		autosched_scheduler_configurations{scheduler="b",state="published"} 1
		autosched_scheduler_configurations{scheduler="b",state="rejected"} 0
		autosched_scheduler_configurations{scheduler="b",state="rolled_out"} 0
		autosched_scheduler_configurations{scheduler="b",state="superseded"} 0
	`)
	compare("autosched_rounds_total", `
		# HELP autosched_rounds_total Tuning rounds that ended since the service started, by result.
		# TYPE autosched_rounds_total counter
		autosched_rounds_total{result="decided",scheduler="a"} 1
		autosched_rounds_total{result="decided",scheduler="b"} 0
		autosched_rounds_total{result="failed",scheduler="a"} 0
		autosched_rounds_total{result="failed",scheduler="b"} 0
	`)
	for _, gauge := range []struct {
		name, help string
		a, b       string
	}{
		{"events", "Events in the scheduler's ledger.", "3", "0"},
		{"last_event_timestamp_seconds", "Scheduler time of the latest event since the Unix epoch; 0 before the first.",
			"1.7040744e+09", "0"},
		{"paused", "1 while tuning is paused.", "0", "1"},
		{"auto", "1 in mode AUTO.", "1", "0"},
		{"watchers", "Open watches of the scheduler's configuration.", "0", "0"},
		{"offered_revision", "Revision offered to the scheduler; 0 if its records are damaged.", "2", "1"},
		{"acknowledged_revision", "Revision that most instances say they run; 0 before the first.", "0",
			"0"},
	} {
		name := "autosched_scheduler_" + gauge.name
		compare(name, fmt.Sprintf("# HELP %s %s\n# TYPE %s gauge\n%s{scheduler=\"a\"} %s\n%s{scheduler=\"b\"} %s\n",
			name, gauge.help, name, name, gauge.a, name, gauge.b))
	}
	for name, series := range map[string]int{
		"autosched_round_duration_seconds": 1, "autosched_rpc_duration_seconds": 3,
		"autosched_ingest_duration_seconds": 1,
		"go_goroutines":                     1, "process_start_time_seconds": 1,
	} {
		if n, err := testutil.GatherAndCount(f.server.metrics.registry, name); err != nil || n != series {
			t.Errorf("%s: %d series, want %d; %v", name, n, series, err)
		}
	}
	problems, err := testutil.GatherAndLint(f.server.metrics.registry)
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}

	f.stop() // Streams count when they end
	compare("autosched_rpc_requests_total", `
		# HELP autosched_rpc_requests_total Requests that ended, by method and gRPC code; a stream is one request.
		# TYPE autosched_rpc_requests_total counter
		autosched_rpc_requests_total{code="NotFound",method="GetScheduler"} 1
		autosched_rpc_requests_total{code="OK",method="CreateScheduler"} 2
		autosched_rpc_requests_total{code="OK",method="IngestEvents"} 2
		autosched_rpc_requests_total{code="OK",method="PauseTuning"} 1
	`)
	compare("autosched_events_total", `
		# HELP autosched_events_total Events received, by result: accepted, duplicate, late or rejected.
		# TYPE autosched_events_total counter
		autosched_events_total{result="accepted",scheduler="a"} 3
		autosched_events_total{result="duplicate",scheduler="a"} 1
		autosched_events_total{result="late",scheduler="a"} 0
		autosched_events_total{result="rejected",scheduler="a"} 1
	`)
}

// Readiness distinguishes serving configurations from tuning.
func TestServingIsReadyBeforeTuning(t *testing.T) {
	read := make(chan struct{})
	u := &storetest.Faulty{Store: storetest.NewMemory(), OnReplay: func() error { <-read; return nil }}
	service, err := controller.NewService(controller.Options{Store: u})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	f := &fixture{server: New(Options{Service: service})}
	start(Options{Service: service}, f.server)
	l := bufconn.Listen(1 << 10)
	go func() { _ = f.server.Serve(l) }()
	defer f.server.Shutdown(t.Context())
	health := func(name string) healthpb.HealthCheckResponse_ServingStatus {
		got, err := f.server.health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetStatus()
	}
	tuning := pb.TuningService_ServiceDesc.ServiceName
	if code, text := get(f, "/readyz"); code != 200 || !strings.Contains(text, "are being read") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	if code, _ := get(f, "/readyz/tuning"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz/tuning: %d", code)
	}
	for name, want := range map[string]healthpb.HealthCheckResponse_ServingStatus{
		"": healthpb.HealthCheckResponse_SERVING, tuning: healthpb.HealthCheckResponse_NOT_SERVING,
		pb.ConfigurationService_ServiceDesc.ServiceName: healthpb.HealthCheckResponse_SERVING,
	} {
		if got := health(name); got != want {
			t.Errorf("%q is %v", name, got)
		}
	}
	close(read)
	<-service.Rebuilt()
	if code, _ := get(f, "/readyz/tuning"); code != 200 {
		t.Errorf("/readyz/tuning: %d once the events are read", code)
	}
	for health(tuning) != healthpb.HealthCheckResponse_SERVING {
		time.Sleep(time.Millisecond)
	}
}

func TestReadyUntilShutdown(t *testing.T) {
	f := serve(t, nil)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/readyz/tuning": 200, "/other": 404} {
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
