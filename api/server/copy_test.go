package server

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/forward"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
)

// copyReader answers as a copy of the records of a node does.
type copyReader struct {
	conn *grpc.ClientConn
	web  http.Handler
}

func (r copyReader) Conn() *grpc.ClientConn { return r.conn }
func (r copyReader) Web() http.Handler      { return r.web }

// newCopy makes a copy with options that has one scheduler of an id.
func newCopy(t *testing.T, id string, o Options) copyReader {
	t.Helper()
	f := serveWith(t, t.TempDir(), controller.Options{Decide: round.DecideOnline},
		Options{Builtins: []controller.Builtin{testBuiltin}})
	if _, err := pb.NewTuningServiceClient(f.conn).CreateScheduler(background(t),
		request(id, pb.SchedulerSpec_AUTO)); err != nil {
		t.Fatal(err)
	}
	o.Service, o.Forwarded, o.Copy = f.server.service, true, true
	s := New(o)
	conn := must[*grpc.ClientConn](t)(s.ConnectFront())
	t.Cleanup(func() {
		_ = conn.Close()
		s.Shutdown(t.Context())
	})
	return copyReader{conn, s.Web()}
}

// TestStaleReads: a read that allows an age is answered from the copy if that is no older, with its age; any other call
// by the leader.
func TestStaleReads(t *testing.T) {
	n, _, conn, front := through(t, func() bool { return true })
	tuning, config := pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn)
	if _, err := tuning.CreateScheduler(background(t), request("led", pb.SchedulerSpec_AUTO)); err != nil {
		t.Fatal(err)
	}
	n.reader, n.age = newCopy(t, "copied", Options{}), 2*time.Second
	// answers says who answers a read with a bound, and how old the answer says it is.
	answers := func(most string) (who, age string, err error) {
		for _, id := range []string{"led", "copied"} {
			ctx := background(t)
			if most != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "autosched-max-staleness", most)
			}
			var header metadata.MD
			_, err = config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: "schedulers/" + id},
				grpc.Header(&header))
			if err == nil {
				return id, strings.Join(header.Get("autosched-staleness"), ","), nil
			}
		}
		return "", "", err
	}
	for _, c := range []struct{ most, who, age string }{
		{"", "led", ""}, {"0s", "led", ""}, {"2s", "copied", "2s"}, {"1.9s", "led", ""}, {"1h", "copied", "2s"},
	} {
		if who, age, err := answers(c.most); who != c.who || age != c.age {
			t.Errorf("at most %q: %s of age %q, want %s of %q; %v", c.most, who, age, c.who, c.age, err)
		}
	}
	for _, most := range []string{"5", "-1s", "soon"} {
		if _, _, err := answers(most); status.Code(err) != codes.InvalidArgument {
			t.Errorf("at most %q: %v", most, err)
		}
	}
	hour := metadata.AppendToOutgoingContext(background(t), "autosched-max-staleness", "1h")
	if _, err := tuning.GetScheduler(hour, &pb.GetSchedulerRequest{Name: "schedulers/led"}); err != nil {
		t.Errorf("a method that a copy cannot answer: %v", err)
	}

	get := func(path, most string) (code int, age string) {
		r := httptest.NewRequestWithContext(background(t), http.MethodGet, path, nil)
		r.Host = "localhost"
		r.Header.Set("Autosched-Max-Staleness", most)
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		return w.Code, w.Header().Get("Autosched-Staleness")
	}
	for _, c := range []struct {
		path, most string
		code       int
		age        string
	}{
		{"/v1/schedulers/copied/configurations", "2s", http.StatusOK, "2s"},
		{"/v1/schedulers/led/configurations", "1s", http.StatusOK, ""},
		{"/v1/schedulers/led/configurations", "2s", http.StatusNotFound, "2s"},
		{"/v1/schedulers/led", "2s", http.StatusOK, ""}, // not from a copy
		{"/v1/schedulers/led/configurations", "2", http.StatusBadRequest, ""},
	} {
		if code, age := get(c.path, c.most); code != c.code || age != c.age {
			t.Errorf("%s at most %s: %d of age %q, want %d of %q", c.path, c.most, code, age, c.code, c.age)
		}
	}

	n.leader = forward.Leader{}
	n.front.Refresh()
	if who, age, err := answers("2s"); who != "copied" || age != "2s" {
		t.Errorf("without a leader: %s of age %q, %v", who, age, err)
	}
	if _, _, err := answers("1s"); status.Code(err) != codes.Unavailable {
		t.Errorf("without a leader, of an old copy: %v", err)
	}
}

// TestStaleReadsOfRoles: a copy whose access files refuse a caller leaves the decision to the leader, and stands by it
// without one.
func TestStaleReadsOfRoles(t *testing.T) {
	strict := newSecured(t).server.guard.access
	n, _, conn, _ := through(t, func() bool { return true })
	if _, err := pb.NewTuningServiceClient(conn).CreateScheduler(background(t),
		request("led", pb.SchedulerSpec_AUTO)); err != nil {
		t.Fatal(err)
	}
	n.reader, n.age = newCopy(t, "led", Options{Access: strict}), time.Second
	read := func() (age string, err error) {
		var header metadata.MD
		_, err = pb.NewConfigurationServiceClient(conn).GetCurrentConfiguration(metadata.AppendToOutgoingContext(
			background(t), "autosched-max-staleness", "5s"),
			&pb.GetCurrentConfigurationRequest{Name: "schedulers/led"}, grpc.Header(&header))
		return strings.Join(header.Get("autosched-staleness"), ","), err
	}
	if age, err := read(); err != nil || age != "" {
		t.Errorf("refused by the copy alone: age %q, %v", age, err)
	}
	n.leader = forward.Leader{}
	n.front.Refresh()
	if _, err := read(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("refused by the copy, without a leader: %v", err)
	}
}

// TestGateOfStrangers: connections that never shake hands cannot exhaust a gate, and nodes pass it beside them.
func TestGateOfStrangers(t *testing.T) {
	n, _, _, _ := through(t, func() bool { return true })
	n.place.Store(1)
	before := runtime.NumGoroutine()
	for range 200 {
		c := must[net.Conn](t)(net.Dial("tcp", n.leader.Address))
		defer c.Close()
	}
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		if more := runtime.NumGoroutine() - before; more > 140 { // two for a handshake
			t.Fatalf("%d goroutines for 200 connections", more)
		}
	}
	if _, err := n.front.Place(t.Context()); err != nil {
		t.Error(err)
	}
	n.front.HangUp()
}

// TestPlace: the leader says its place in the log while it may answer, and not before it knows it.
func TestPlace(t *testing.T) {
	var over atomic.Bool
	n, _, _, _ := through(t, func() bool { return !over.Load() })
	if at, err := n.front.Place(t.Context()); err == nil {
		t.Errorf("place %d of a leader that knows none", at)
	}
	for _, want := range []uint64{7, 7, 8} {
		n.place.Store(want)
		if at, err := n.front.Place(t.Context()); err != nil || at != want {
			t.Errorf("place %d, want %d; %v", at, want, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if at, err := n.front.Place(ctx); err == nil {
		t.Errorf("place %d of a question that ended", at)
	}
	if at, err := n.front.Place(t.Context()); err != nil || at != 8 {
		t.Errorf("after it: place %d, %v", at, err)
	}
	over.Store(true)
	if at, err := n.front.Place(t.Context()); err == nil {
		t.Errorf("place %d of a leader whose lease ended", at)
	}
	n.front.HangUp()
}
