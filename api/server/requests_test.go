package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
)

// lines collects JSON log lines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// of returns the records with a message.
func (l *lines) of(t *testing.T, msg string) (out []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r["msg"] == msg {
			out = append(out, r)
		}
	}
	return out
}

// TestRequestIDs: the lines of a call have its id, and its answer, too.
func TestRequestIDs(t *testing.T) {
	var log lines
	logger := slog.New(access.LogHandler(slog.NewJSONHandler(&log, nil)))
	n := 0
	f := serveWith(t, t.TempDir(), controller.Options{Decide: round.DecideOnline, Log: logger},
		Options{Builtins: []controller.Builtin{testBuiltin}, Log: logger,
			NewID: func() string { n++; return fmt.Sprint("made-", n) }})
	call := func(id string, scheduler string) string {
		t.Helper()
		ctx := t.Context()
		if id != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, requestIDHeader, id)
		}
		var header metadata.MD
		_, _ = f.tuning.CreateScheduler(ctx, request(scheduler, pb.SchedulerSpec_AUTO), grpc.Header(&header))
		return strings.Join(header.Get(requestIDHeader), " ")
	}
	for i, c := range []struct{ given, want string }{
		{"mine", "mine"}, {"", "made-1"}, {strings.Repeat("x", 129), "made-2"}, {"with blank", "made-3"},
	} {
		if got := call(c.given, fmt.Sprint("s", i)); got != c.want {
			t.Errorf("%q: the answer has id %q, want %q", c.given, got, c.want)
		}
	}
	call("again", "s0") // exists already
	var ids, codes []string
	for _, r := range log.of(t, "request") {
		ids, codes = append(ids, r["request_id"].(string)), append(codes, r["code"].(string))
		if r["method"] != "CreateScheduler" || r["scheduler"] == nil {
			t.Errorf("%v", r)
		}
	}
	if !slices.Equal(ids, []string{"mine", "made-1", "made-2", "made-3", "again"}) || codes[4] != "AlreadyExists" {
		t.Errorf("access lines of %v, %v", ids, codes)
	}
	if got := log.of(t, "scheduler registered"); len(got) != 4 || got[0]["request_id"] != "mine" {
		t.Errorf("%v", got)
	}
	if _, err := f.tuning.GetScheduler(t.Context(), &pb.GetSchedulerRequest{Name: "schedulers/s0"}); err != nil {
		t.Fatal(err)
	}
	if got := log.of(t, "request"); len(got) != 5 {
		t.Errorf("a call that changes nothing has a line: %v", got[5:])
	}
	f.ingest("s0", submitted("j", 0))
	f.stop()
	if got := log.of(t, "request"); len(got) != 6 || got[5]["scheduler"] != "s0" || got[5]["request_id"] == nil {
		t.Errorf("of an event stream: %v", got)
	}
}

// TestInternalErrorsAreLogged: the hidden cause is in the log, with the request's id.
func TestInternalErrorsAreLogged(t *testing.T) {
	var log lines
	s := &Server{log: slog.New(access.LogHandler(slog.NewJSONHandler(&log, nil))), newID: func() string { return "id" }}
	info := &grpc.UnaryServerInfo{FullMethod: "/autosched.v1.TuningService/GetScheduler"}
	_, err := s.identifyUnary(t.Context(), nil, info, func(context.Context, any) (any, error) {
		return nil, rpc.Status(errors.New("a detail"))
	})
	if st := status.Convert(err); st.Code() != codes.Internal || strings.Contains(st.Message(), "detail") {
		t.Error(st)
	}
	got := log.of(t, "request failed")
	if len(got) != 1 || got[0]["err"] != "a detail" || got[0]["request_id"] != "id" ||
		got[0]["method"] != "GetScheduler" {
		t.Errorf("%v", got)
	}
}

// TestSecretsAreNowhere: a token or key is in no log line, error, answer or metric, also where it is
// wrong, in the wrong place or in a file that is.
func TestSecretsAreNowhere(t *testing.T) {
	const canary = "canary5f2e"
	s := newSecured(t)
	seen := ""
	note := func(err error) { seen += status.Convert(err).String() + "\n" }
	conn := s.dial(nil)
	for _, header := range []string{"Bearer " + canary, "Basic " + canary, canary, "Bearer " + canary + " " + canary} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", header)
		_, err := pb.NewTuningServiceClient(conn).PauseTuning(ctx, &pb.PauseTuningRequest{Name: "schedulers/s"})
		note(err)
		stream, err := pb.NewMaintenanceServiceClient(conn).Backup(ctx, &pb.BackupRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		note(err)
	}
	good := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer token-admin")
	_, err := pb.NewTuningServiceClient(conn).CreateScheduler(good, request("s", pb.SchedulerSpec_AUTO))
	note(err)
	// Tokens and keys in files that are wrong.
	stale := func() bool { return s.server.guard.access.Stale() }
	for _, c := range []struct{ path, text string }{
		{s.files.Roles, "callers:\n  - {name: a, role: admin, token_sha256: [" + canary + "]}\n"},
		{s.files.Roles, "callers:\n  - {name: a, role: admin, token: " + canary + "}\n"},
		{s.files.Roles, "callers: " + canary + ": {\n"},
		{s.files.Key, "-----BEGIN PRIVATE KEY-----\n" + canary + "\n-----END PRIVATE KEY-----\n"},
	} {
		before := must[[]byte](t)(os.ReadFile(c.path))
		s.replace(c.path, c.text)
		for !stale() {
		}
		s.replace(c.path, string(before))
		for stale() {
		}
	}
	code, page := get(s.fixture, "/readyz")
	seen += fmt.Sprint(code, page)
	families := must[[]*dto.MetricFamily](t)(s.server.metrics.registry.Gather())
	for _, m := range families {
		seen += m.String()
	}
	seen += s.logged()
	for _, secret := range []string{canary, "token-admin"} {
		if i := strings.Index(seen, secret); i >= 0 {
			t.Errorf("%s is in: %s", secret, seen[max(0, i-200):i+50])
		}
	}
	if !strings.Contains(seen, "caller=admin") || !strings.Contains(seen, "stay") {
		t.Errorf("the logs lack what the test is about:\n%s", seen)
	}
}
