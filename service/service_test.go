package service

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/autosched/autosched/adapter/push"
	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/workload"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logged is a log that tests read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func local() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// options are those of a service with every part.
func options(t *testing.T) (Options, *logged) {
	t.Helper()
	files, err := access.Open(access.Files{}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := &logged{}
	decide := func(_ context.Context, in round.Input) (round.Decision, error) {
		return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
	}
	agent := push.Agent{Scheduler: "prod", Instance: "a", Endpoint: client.Endpoint{Address: "127.0.0.1:1"},
		Deadline: time.Second, Interval: time.Second}
	return Options{Dir: t.TempDir(), Access: files, Listen: local, Web: local, Agents: []push.Agent{agent},
		Controller: controller.Options{Decide: decide, Workers: 1, Retain: 60 * 24 * time.Hour},
		Findings:   Findings{RoundsEvery: time.Hour, Webhook: "http://127.0.0.1:1/hook"}, Drain: 10 * time.Second,
		Log: slog.New(slog.NewTextHandler(log, nil))}, log
}

// TestConstructorsStartNothing: no part has a goroutine before it runs.
func TestConstructorsStartNothing(t *testing.T) {
	o, _ := options(t)
	before := goleak.IgnoreCurrent()
	s, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestOrderOfShutdown: agents end before rounds are cancelled, these before calls are drained, and the keepers and the
// controller end after the API, which uses them.
func TestOrderOfShutdown(t *testing.T) {
	o, log := options(t)
	ctx, cancel := context.WithCancel(t.Context())
	var states []string
	o.Notify = func(state string) error {
		states = append(states, state)
		return nil
	}
	s, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	all := s.tasks()
	var mu sync.Mutex
	var ended []string
	for i, one := range all {
		all[i].run = func(ctx context.Context) error {
			err := one.run(ctx)
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, one.name)
			return err
		}
	}
	done := make(chan error, 1)
	go func() { done <- run(ctx, all) }()
	var got *http.Response
	for deadline := time.Now().Add(2 * time.Minute); got == nil || got.StatusCode != http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatalf("it is not ready: %v\n%s", err, log)
		}
		if got, err = http.Get("http://" + s.web.Addr().String() + "/readyz/tuning"); err == nil {
			_ = got.Body.Close()
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := errors.Join(<-done, s.close()); err != nil {
		t.Error(err)
	}
	want := []string{"notices", "agents", "rounds", "api", "web", "findings", "rounds on findings", "webhook",
		"studies", "reports", "workloads", "controller", "access files"}
	if !slices.Equal(ended, want) {
		t.Errorf("the parts ended in this order: %v, want %v", ended, want)
	}
	if want := []string{"READY=1", "STOPPING=1"}; !slices.Equal(states, want) {
		t.Errorf("states %v, want %v", states, want)
	}
}

// TestRunFailsWithAPart: a part that cannot start ends the service, whose directory is free afterwards.
func TestRunFailsWithAPart(t *testing.T) {
	o, _ := options(t)
	taken, err := local()
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	o.Listen = func() (net.Listener, error) { return net.Listen("tcp", taken.Addr().String()) }
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("on a taken address: %v", err)
	}
	o.Listen = func() (net.Listener, error) {
		l, err := local()
		return closed{l}, err
	}
	if err := Run(t.Context(), o); !errors.Is(err, net.ErrClosed) {
		t.Errorf("with a listener that fails: %v", err)
	}
	repo, err := store.Open(o.Dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Close(); err != nil {
		t.Error(err)
	}
}

// closed is a listener that accepts nothing.
type closed struct{ net.Listener }

func (closed) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// TestStopIsBounded: a round that ignores its cancellation is left at the deadline.
func TestStopIsBounded(t *testing.T) {
	o, log := options(t)
	begun, end := make(chan bool), make(chan bool)
	o.Controller.Decide = func(_ context.Context, in round.Input) (round.Decision, error) {
		close(begun)
		<-end
		return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
	}
	o.Drain = 10 * time.Millisecond
	s, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, s.tasks()) }()
	policy := controller.DefaultPolicy()
	policy.AllowedLateness = 0
	if _, err := s.controller.Register(ctx, controller.Call{}, controller.Registration{ID: "s", Type: "test",
		Objective: "avg_jct",
		Params:    []space.Param{{ID: "pack", Kind: space.KindBool, Default: space.Bool(false)}},
		Cluster:   workload.Uniform(1, 8), Policy: policy, Mode: controller.Auto}); err != nil {
		t.Fatal(err)
	}
	for i, minutes := range []int{30, 61} {
		e := workload.Event{ID: string(rune('a' + i)), Kind: workload.Submitted,
			Time: 400*24*time.Hour + time.Duration(minutes)*time.Minute,
			Job:  workload.Job{ID: string(rune('a' + i)), GPUs: workload.GPUs(1)}}
		if got, err := s.controller.Ingest(ctx, controller.Call{}, "s", []workload.Event{e}); err != nil ||
			got.Accepted != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	<-begun
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "leaving rounds that did not end in time") {
		t.Errorf("the log does not say that a round is left:\n%s", log)
	}
	close(end)
	s.controller.Close() // the round ends
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestControllerOutlivesDrain: calls that last until the deadline do not have the controller left behind, which ends
// after them and before the store is closed.
func TestControllerOutlivesDrain(t *testing.T) {
	o, log := options(t)
	s, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	s.cut()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.runController(ctx) }()
	<-s.controller.Rebuilt()
	select {
	case err := <-done:
		t.Errorf("it ended before it was stopped: %v", err)
		done <- err
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "leaving rounds") {
		t.Errorf("the log has rounds that were left:\n%s", log)
	}
	s.controller.Close()
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestDamagedTelemetryIsShown: damage to telemetry is a fault of readiness, named to callers of a role, and counted.
func TestDamagedTelemetryIsShown(t *testing.T) {
	o, _ := options(t)
	raw := filepath.Join(o.Dir, samples.Folder, "prod", "raw-20250301T00")
	if err := errors.Join(os.MkdirAll(filepath.Dir(raw), 0o750),
		os.WriteFile(raw, bytes.Repeat([]byte("x"), 100), 0o640)); err != nil {
		t.Fatal(err)
	}
	s, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ready := func() string {
		w := httptest.NewRecorder()
		s.server.Web().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return w.Body.String()
	}
	if text := ready(); strings.Contains(text, "damaged") {
		t.Errorf("before it is read: %s", text)
	}
	err = s.samples.Read(t.Context(), "prod", samples.Query{}, func(*telemetry.GPUSample) error { return nil })
	if text := ready(); err != nil || !strings.Contains(text, "telemetry are damaged") {
		t.Errorf("%s, %v", text, err)
	}
	want := "# HELP autosched_store_damaged Damaged records found in a file of the store, 1 if whole pages of it are; of " +
		"telemetry, damaged files.\n# TYPE autosched_store_damaged gauge\nautosched_store_damaged{file=\"telemetry\"} 1\n"
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(want), "autosched_store_damaged"); err != nil {
		t.Error(err)
	}
}

// TestMetricsReference: docs/reference/metrics.md has every metric of the service.
func TestMetricsReference(t *testing.T) {
	o, _ := options(t)
	s, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	agents, err := push.New(nil, nil, s.log)
	if err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc, 1000)
	s.registry.Describe(descriptions)
	agents.Describe(descriptions)
	close(descriptions)
	form := regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)",.* constLabels: {([^}]*)}, variableLabels: {([^}]*)}`)
	var rows []string
	for d := range descriptions {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatal(d)
		}
		if !strings.HasPrefix(m[1], "autosched_") { // of the runtime and the process
			continue
		}
		labels := strings.ReplaceAll(m[4], ",", ", ")
		if m[3] != "" { // names without the values of this build
			labels = regexp.MustCompile(`="[^"]*"`).ReplaceAllString(strings.ReplaceAll(m[3], ",", ", "), "")
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", m[1], labels, m[2]))
	}
	slices.Sort(rows)
	want := "# Metrics\n\nGenerated from the program by `go test ./service -run TestMetricsReference -update`: edit the " +
		"help texts of the\nmetrics. `/metrics` also has `go_*`, `process_*` and `promhttp_*`, of the runtime and the process. " +
		"Names that end with\n`_total` are counters, with `duration_seconds` and `age_seconds` histograms, the others gauges.\n\n" +
		"| metric | labels | meaning |\n| --- | --- | --- |\n" + strings.Join(slices.Compact(rows), "")
	path := filepath.Join("..", "docs", "reference", "metrics.md")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); string(got) != want {
		t.Errorf("%v: docs/reference/metrics.md is out of date: "+
			"'go test ./service -run TestMetricsReference -update' writes it", err)
	}
}
