package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/forward"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
)

// nodes are a leader's gate and the front of another node.
type nodes struct {
	gate   *forward.Gate
	front  *forward.Front
	leader forward.Leader
	place  atomic.Uint64  // of the log; 0 if the leader does not know it
	reader forward.Reader // nil for none
	age    time.Duration  // of it
}

// copy is that of the front's node.
func (n *nodes) copy() *forward.Copy {
	return &forward.Copy{Has: FromCopy, Read: func(most time.Duration) (forward.Reader, func() time.Duration, error) {
		if n.reader == nil {
			return nil, nil, errors.New("there is none")
		}
		return n.reader, func() time.Duration { return n.age }, nil
	}}
}

// newNodes makes a gate that lets the front in.
func newNodes(t *testing.T, valid func() bool) *nodes {
	t.Helper()
	leading := must[*forward.Identity](t)(forward.NewIdentity("a"))
	other := must[*forward.Identity](t)(forward.NewIdentity("b"))
	n := &nodes{}
	n.gate = forward.NewGate(must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0")), leading,
		func(node string) ([]byte, error) {
			if node != "b" {
				return nil, errors.New("unknown")
			}
			return other.Certificate(), nil
		}, valid, func() (uint64, bool) { return n.place.Load(), n.place.Load() > 0 })
	n.leader = forward.Leader{Address: n.gate.RPC.Addr().String(), Certificate: leading.Certificate(), Process: "1"}
	n.front = forward.NewFront(other, func() (forward.Leader, bool) { return n.leader, n.leader.Address != "" },
		n.copy(), slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- n.gate.Run() }()
	t.Cleanup(func() {
		n.front.Close()
		n.gate.Cut()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return n
}

// frontOn has callers of a listener pass a front, and returns the listener of the leader.
func (s *secured) frontOn(l net.Listener, source *access.Source) net.Listener {
	n := newNodes(s.t, func() bool { return true })
	front := grpc.NewServer(append(Transport(source, defaultMessage), n.front.Options()...)...)
	go func() { _ = front.Serve(l) }()
	s.t.Cleanup(front.Stop)
	return n.gate.RPC
}

// TestForwarded: callers have the rights at a front that they have at the leader, and lose them as there.
func TestForwarded(t *testing.T) {
	for name, test := range map[string]func(*testing.T){"matrix": TestAccessMatrix, "own": TestSchedulerOfItsOwn,
		"certificates": TestClientCertificates, "rotation": TestRotationUnderWatch,
		"revocation": TestRevocationUnderStream} {
		t.Run(name, test)
	}
}

// through is a service without access files behind a front: its connection, and the front as HTTP.
func through(t *testing.T, valid func() bool) (*nodes, *fixture, *grpc.ClientConn, http.Handler) {
	t.Helper()
	n := newNodes(t, valid)
	f := serveWith(t, t.TempDir(), controller.Options{Decide: round.DecideOnline},
		Options{Builtins: []controller.Builtin{testBuiltin}, Forwarded: true})
	go func() { _ = f.server.Serve(n.gate.RPC) }()
	web := &http.Server{Handler: f.server.Web()}
	go func() { _ = web.Serve(n.gate.Web) }()
	t.Cleanup(func() { _ = web.Close() })
	front := grpc.NewServer(append(Transport(nil, 1000), n.front.Options()...)...)
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = front.Serve(l) }()
	t.Cleanup(front.Stop)
	conn := must[*grpc.ClientConn](t)(grpc.NewClient(l.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials())))
	t.Cleanup(func() { _ = conn.Close() })
	return n, f, conn, n.front
}

// TestForwardedCalls: headers, trailers and the details of errors are those of the leader; without one, a call fails as
// one that may be repeated.
func TestForwardedCalls(t *testing.T) {
	n, _, conn, _ := through(t, func() bool { return true })
	tuning, config := pb.NewTuningServiceClient(conn), pb.NewConfigurationServiceClient(conn)
	if _, err := tuning.CreateScheduler(background(t), request("prod", pb.SchedulerSpec_AUTO)); err != nil {
		t.Fatal(err)
	}
	var header metadata.MD
	ctx := metadata.AppendToOutgoingContext(background(t), requestIDHeader, "mine")
	_, err := tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/none"}, grpc.Header(&header))
	if status.Code(err) != codes.NotFound || !slices.Equal(header.Get(requestIDHeader), []string{"mine"}) {
		t.Errorf("%v, header %v", err, header)
	}
	if info := infoOf(err); info.GetReason() != "NOT_FOUND" || info.GetMetadata()["scheduler"] != "none" {
		t.Errorf("the details are %v", info)
	}
	_, err = tuning.GetScheduler(background(t), &pb.GetSchedulerRequest{Name: strings.Repeat("x", 2000)})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "larger than max") {
		t.Errorf("a message above the limit: %v", err)
	}
	deadline, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	watch := must[pb.ConfigurationService_WatchConfigurationsClient](t)(config.WatchConfigurations(deadline,
		&pb.WatchConfigurationsRequest{Parent: "schedulers/prod"}))
	for err = nil; err == nil; {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a watch with a deadline: %v", err)
	}

	watch = must[pb.ConfigurationService_WatchConfigurationsClient](t)(config.WatchConfigurations(background(t),
		&pb.WatchConfigurationsRequest{Parent: "schedulers/prod", SendInitialEvents: true}))
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	n.leader = forward.Leader{}
	n.front.Refresh()
	for err = nil; err == nil; {
		_, err = watch.Recv()
	}
	if code := status.Code(err); code != codes.Unavailable && code != codes.Canceled {
		t.Errorf("a watch at a leader that ended: %v", err)
	}
	_, err = tuning.GetScheduler(background(t), &pb.GetSchedulerRequest{Name: "schedulers/prod"})
	retry := false
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok {
			retry = r.GetRetryDelay().AsDuration() > 0
		}
	}
	if status.Code(err) != codes.Unavailable || infoOf(err).GetReason() != "NO_LEADER" || !retry {
		t.Errorf("without a leader: %v", err)
	}
}

func infoOf(err error) *errdetails.ErrorInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

// TestGate: nothing but a node's process enters, and nothing leaves once the lease has ended.
func TestGate(t *testing.T) {
	var over atomic.Bool
	n, _, conn, front := through(t, func() bool { return !over.Load() })
	get := func(conn *grpc.ClientConn) error {
		_, err := pb.NewTuningServiceClient(conn).ListSchedulers(background(t), &pb.ListSchedulersRequest{})
		return err
	}
	if err := get(conn); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/schedulers", nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	front.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("by HTTP: %d %s", w.Code, w.Body)
	}
	for name, strange := range map[string]*forward.Identity{
		"another key of the node":  must[*forward.Identity](t)(forward.NewIdentity("b")),
		"a node that is not known": must[*forward.Identity](t)(forward.NewIdentity("c")),
	} {
		leader := n.leader
		other := forward.NewFront(strange, func() (forward.Leader, bool) { return leader, true }, nil,
			slog.New(slog.DiscardHandler))
		w := httptest.NewRecorder()
		other.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/schedulers", nil))
		if w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		other.Close()
	}
	plain := must[*grpc.ClientConn](t)(grpc.NewClient(n.gate.RPC.Addr().String(),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13,
			InsecureSkipVerify: true}))))
	defer plain.Close()
	if err := get(plain); status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}
	over.Store(true)
	if err := get(conn); status.Code(err) != codes.Unavailable {
		t.Errorf("after the lease: %v", err)
	}
	w = httptest.NewRecorder()
	front.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("by HTTP after the lease: %d %s", w.Code, w.Body)
	}
}

// TestForwardedRequests: the leader knows a request's caller, and a caller cannot say that it is another.
func TestForwardedRequests(t *testing.T) {
	s := newSecured(t)
	s.fixture.stop()
	n := newNodes(t, func() bool { return true })
	f := serveWith(t, t.TempDir(), controller.Options{Decide: round.DecideOnline},
		Options{Builtins: []controller.Builtin{testBuiltin}, Access: s.server.guard.access, Forwarded: true})
	web := &http.Server{Handler: f.server.Web()}
	go func() { _ = web.Serve(n.gate.Web) }()
	defer web.Close()
	front := httptest.NewUnstartedServer(n.front)
	front.TLS = s.server.guard.access.TLS("http/1.1")
	front.StartTLS()
	defer front.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.ca.Cert)
	admin := s.client("spiffe://test/admin")
	call := func(config *tls.Config, change func(*http.Request)) (int, string) {
		config.RootCAs, config.MinVersion = roots, tls.VersionTLS13
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		r := must[*http.Request](t)(http.NewRequestWithContext(background(t), http.MethodGet, front.URL+"/session",
			nil))
		change(r)
		resp := must[*http.Response](t)((&http.Client{Transport: transport}).Do(r))
		defer resp.Body.Close()
		return resp.StatusCode, string(must[[]byte](t)(io.ReadAll(resp.Body)))
	}
	code, text := call(&tls.Config{Certificates: []tls.Certificate{admin}}, func(*http.Request) {})
	if code != http.StatusOK || !strings.Contains(text, `"name":"admin"`) {
		t.Errorf("with a certificate: %d %s", code, text)
	}
	code, text = call(&tls.Config{}, func(r *http.Request) { r.Header.Set("Authorization", "Bearer token-viewer") })
	if code != http.StatusOK || !strings.Contains(text, `"name":"viewer"`) {
		t.Errorf("with a token: %d %s", code, text)
	}
	code, text = call(&tls.Config{}, func(r *http.Request) {
		r.Header.Set("autosched-chain-bin", base64.StdEncoding.EncodeToString(admin.Certificate[0]))
	})
	if code != http.StatusUnauthorized {
		t.Errorf("with a certificate of another in a header: %d %s", code, text)
	}
}

// TestRequestOfALostLeader: a request by HTTP to a leader that does not answer ends when another node leads.
func TestRequestOfALostLeader(t *testing.T) {
	n := newNodes(t, func() bool { return true })
	reached := make(chan struct{})
	web := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	})}
	go func() { _ = web.Serve(n.gate.Web) }()
	defer web.Close()
	ended := make(chan int, 1)
	go func() {
		w := httptest.NewRecorder()
		n.front.ServeHTTP(w, httptest.NewRequestWithContext(background(t), http.MethodGet, "/session", nil))
		ended <- w.Code
	}()
	<-reached
	n.leader = forward.Leader{}
	n.front.Refresh()
	select {
	case code := <-ended:
		if code != http.StatusServiceUnavailable {
			t.Errorf("answered %d", code)
		}
	case <-time.After(10 * time.Second):
		t.Error("the request goes on")
	}
}
