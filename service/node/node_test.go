package node

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened is a directory's store as that of a leader.
type opened struct {
	*store.Store
	done chan struct{}
}

func (o opened) Acknowledged() uint64 { return 5 }

func (o opened) Done() <-chan struct{} { return o.done }

// noCopy has no entry of a log.
type noCopy struct{}

func (noCopy) View() (service.Copy, uint64)                      { return nil, 0 }
func (noCopy) Changed() (schedulers, reports []string, all bool) { return nil, nil, false }

// running is a node of a test.
type running struct {
	t        *testing.T
	api, web string
	stop     func()
	done     chan struct{} // of its store
	conn     *grpc.ClientConn
}

// begin runs a node whose leaders share a directory.
func begin(t *testing.T, name, dir string, b Bucket) *running {
	t.Helper()
	files, err := access.Open(access.Files{}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	api, web, peer := listen(), listen(), listen()
	_ = peer.Close()
	n := &running{t: t, api: api.Addr().String(), web: web.Addr().String(), done: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	o := Options{Name: name, Bucket: b, Peer: peer.Addr().String(), Lease: 2 * time.Second,
		Follow: func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		},
		Lead: func(context.Context, uint64) (Store, error) {
			s, err := store.Open(dir, store.Options{})
			return opened{s, n.done}, err
		},
		Copy: noCopy{}, Lag: func() (uint64, bool) { return 7, true },
		Service: func() (service.Options, func(), error) {
			own, err := access.Open(access.Files{}, access.Options{})
			return service.Options{Dir: t.TempDir(), Access: own, Drain: time.Second, Log: log,
				Controller: controller.Options{Decide: round.DecideOnline, Workers: 1},
				Server: server.Options{Builtins: []controller.Builtin{{Name: "test", Params: []space.Param{
					{ID: "pack", Kind: space.KindBool, Default: space.Bool(false)}}}}}}, func() {}, err
		},
		Access: files, Message: 1 << 20, Listen: func() (net.Listener, error) { return api, nil },
		Web: func() (net.Listener, error) { return web, nil }, Drain: time.Second, Log: log, NewID: rand.Text}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop)
	if n.conn, err = grpc.NewClient(n.api, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.conn.Close() })
	return n
}

// ready is the answer of /readyz.
func (n *running) ready() string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + n.web + "/readyz")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.Status + "\n" + string(text)
}

func (n *running) wait(parts ...string) {
	n.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, missing := n.ready(), ""
		for _, part := range parts {
			if !strings.Contains(text, part) {
				missing = part
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("no %q in:\n%s", missing, text)
		}
	}
}

func (n *running) list() (ids []string, err error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	got, err := pb.NewTuningServiceClient(n.conn).ListSchedulers(ctx, &pb.ListSchedulersRequest{})
	for _, s := range got.GetSchedulers() {
		ids = append(ids, s.GetName())
	}
	return ids, err
}

// TestNodes: any node answers; when the leader stops, or its store takes no more writes, another one leads with all
// that was acknowledged, at the same addresses.
func TestNodes(t *testing.T) {
	dir, b := t.TempDir(), newMemory()
	a := begin(t, "a", dir, b)
	a.wait("200 OK\nok: configurations are served\nnode: a\nrole: leader\nleader: a\nterm: ", "lag: 7\n")
	other := begin(t, "b", dir, b)
	other.wait("200 OK\nok: calls are forwarded\nnode: b\nrole: follower\nleader: a\n")
	if _, err := pb.NewTuningServiceClient(other.conn).CreateScheduler(t.Context(), &pb.CreateSchedulerRequest{
		SchedulerId: "prod", Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "test",
			Cluster: &pb.Cluster{Nodes: 1, GpusPerNode: 8}}}}); err != nil {
		t.Fatal(err)
	}
	watch, err := pb.NewConfigurationServiceClient(other.conn).WatchConfigurations(t.Context(),
		&pb.WatchConfigurationsRequest{Parent: "schedulers/prod", SendInitialEvents: true})
	if err != nil {
		t.Fatal(err)
	}
	first, err := watch.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if text := get(t, "http://"+a.web+"/metrics"); !strings.Contains(text, "autosched_node_leading 1") ||
		!strings.Contains(text, "autosched_rpc_requests_total") {
		t.Errorf("metrics of the leader:\n%s", text)
	}
	if text := get(t, "http://"+other.web+"/metrics"); !strings.Contains(text, "autosched_node_leading 0") ||
		strings.Contains(text, "autosched_rpc_requests_total") {
		t.Errorf("metrics of another node:\n%s", text)
	}
	if text := get(t, "http://"+other.web+"/v1/schedulers"); !strings.Contains(text, "schedulers/prod") {
		t.Errorf("by HTTP: %s", text)
	}

	a.stop() // it gives the lease back
	for err = nil; err == nil; {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ended with %v", err)
	}
	other.wait("200 OK\nok: configurations are served\nnode: b\nrole: leader\n")
	if ids, err := other.list(); err != nil || len(ids) != 1 || ids[0] != "schedulers/prod" {
		t.Errorf("after the change: %v, %v", ids, err)
	}
	watch, err = pb.NewConfigurationServiceClient(other.conn).WatchConfigurations(t.Context(),
		&pb.WatchConfigurationsRequest{Parent: "schedulers/prod", ResumeToken: first.GetResumeToken()})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Errorf("the watch does not go on: %v", err)
	}

	again := begin(t, "a", dir, b)
	again.wait("role: follower\nleader: b\n")
	close(other.done) // its store takes no more writes
	again.wait("200 OK\nok: ", "term: ")
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if ids, err := again.list(); err == nil && len(ids) == 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("after the store ended: %v, %v", ids, err)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNodeWithoutLease: a node that does not reach the bucket answers that nothing was done, and stops.
func TestNodeWithoutLease(t *testing.T) {
	b := newMemory()
	n := begin(t, "a", t.TempDir(), b)
	n.wait("role: leader", "200 OK")
	b.mu.Lock()
	b.fault = func(bool) (bool, bool, bool) { return true, false, false }
	b.mu.Unlock()
	n.wait("503", "not ready: no node leads", "leader: none")
	_, err := n.list()
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the call was not made") {
		t.Errorf("without a lease: %v", err)
	}
	b.mu.Lock()
	b.fault = nil
	b.mu.Unlock()
	n.wait("role: leader", "200 OK")
}
