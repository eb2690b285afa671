package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/workload"
)

// api is the part of an API server that lists and watches objects of one kind, and nodes.
type api struct {
	t       *testing.T
	mu      sync.Mutex
	version int
	objects map[string]map[string]any // by path and UID
	log     []logged
	oldest  int // watches from before have expired
	changed chan struct{}
	cut     chan struct{} // closed to end the watches
	down    bool
}

// logged is a change as a watch reports it.
type logged struct {
	version int
	path    string
	event   map[string]any
}

func newAPI(t *testing.T) (*api, dynamic.Interface) {
	a := &api{t: t, objects: map[string]map[string]any{}, changed: make(chan struct{}), cut: make(chan struct{})}
	s := httptest.NewServer(a)
	t.Cleanup(func() {
		a.expire()
		s.Close()
	})
	c, err := dynamic.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

// put stores an object, or removes it.
func (a *api) put(path string, object map[string]any, gone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	copied := map[string]any{}
	text, _ := json.Marshal(object)
	_ = json.Unmarshal(text, &copied)
	copied["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(a.version)
	key := path + uid(object)
	kind := "MODIFIED"
	if a.objects[key] == nil {
		kind = "ADDED"
	}
	if a.objects[key] = copied; gone {
		kind = "DELETED"
		delete(a.objects, key)
	}
	a.log = append(a.log, logged{a.version, path, map[string]any{"type": kind, "object": copied}})
	close(a.changed)
	a.changed = make(chan struct{})
}

// expire ends all watches, and forgets the changes so far.
func (a *api) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.oldest = a.version
	close(a.cut)
	a.cut = make(chan struct{})
}

// refuse has all calls fail from now on, or succeed again.
func (a *api) refuse(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}

// ServeHTTP implements [http.Handler].
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	a.mu.Lock()
	defer a.mu.Unlock()
	fail := func(code int, reason string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure",
			"reason": reason, "code": code})
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case a.down:
		fail(http.StatusServiceUnavailable, "ServiceUnavailable")
		return
	case q.Get("sendInitialEvents") != "":
		fail(http.StatusUnprocessableEntity, "Invalid")
		return
	case q.Get("watch") == "":
		items := []any{}
		for _, o := range a.objects {
			if path := paths[fmt.Sprint(o["kind"])]; path == r.URL.Path {
				items = append(items, o)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "apiVersion": "v1", "items": items,
			"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version)}})
		return
	}
	from, _ := strconv.Atoi(q.Get("resourceVersion"))
	if from < a.oldest {
		fail(http.StatusGone, "Expired")
		return
	}
	cut := a.cut
	for {
		for _, l := range a.log {
			if l.version > from && l.path == r.URL.Path {
				_ = json.NewEncoder(w).Encode(l.event)
				from = l.version
			}
		}
		w.(http.Flusher).Flush()
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-cut:
		case <-r.Context().Done():
		}
		a.mu.Lock()
		if cut != a.cut || r.Context().Err() != nil {
			return
		}
	}
}

var paths = map[string]string{"Job": "/apis/x/v1/jobs", "Node": "/api/v1/nodes"}

// stored is a service that keeps events.
type stored struct {
	pb.UnimplementedTuningServiceServer
	mu     sync.Mutex
	events []*pb.Event
}

// IngestEvents implements TuningService.
func (s *stored) IngestEvents(stream pb.TuningService_IngestEventsServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.events = append(s.events, req.GetEvents()...)
		s.mu.Unlock()
		if err := stream.Send(&pb.IngestEventsResponse{Sequence: req.GetSequence()}); err != nil {
			return err
		}
	}
}

// kinds are the events so far but snapshots and heartbeats behind the first event, each KIND of a name.
func (s *stored) kinds() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.events {
		switch e.GetKind() {
		case pb.Event_SNAPSHOT:
		case pb.Event_HEARTBEAT:
			if i == 0 {
				out = append(out, fmt.Sprint("HEARTBEAT ", e.GetSchedulerTime().GetSeconds()))
			}
		default:
			out = append(out, fmt.Sprint(e.GetKind(), " ", e.GetJob().GetJobId(), e.GetNode().GetNodeId()))
		}
	}
	return out
}

// await waits for a condition.
func await(t *testing.T, name string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", name)
		}
	}
}

// serve runs a service, and returns a connection to it.
func serve(t *testing.T) (*stored, *grpc.ClientConn) {
	service := &stored{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTuningServiceServer(server, service)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return service, conn
}

// TestOrder: events of one job that two watches derive come in the order of their derivation, however the service lags.
func TestOrder(t *testing.T) {
	service, conn := serve(t)
	w := New(Options{Tracker: &Tracker{Mapper: plain{}}})
	w.released = true
	c, err := client.New(client.Options{Conn: conn, Scheduler: "s", Buffer: 1})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	batch := func(from, to int) (out []workload.Event) {
		for i := from; i < to; i++ {
			id := fmt.Sprint("j", i)
			out = append(out, workload.Event{ID: id, Kind: workload.Submitted, Time: time.Duration(begin0.UnixNano()),
				Job: workload.Job{ID: id, GPUs: workload.GPUs(1)}})
			want = append(want, "SUBMITTED "+id)
		}
		return out
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	send := func(events []workload.Event) {
		w.mu.Lock()
		running.Go(func() { w.send(ctx, c, events) })
	}
	send(batch(0, 50))
	await(t, "a full buffer", func() bool { return c.Counts().Waiting == 1 })
	for i := 50; i < 100; i++ {
		send(batch(i, i+1))
	}
	running.Go(func() { _ = c.Run(ctx) })
	await(t, "all events", func() bool { return len(service.kinds()) == len(want) })
	if got := service.kinds(); !slices.Equal(got, want) {
		t.Error(got)
	}
}

// TestWatch: events come in order from lists and watches, over an expired watch and an API server that is away, and the
// first of all is a heartbeat of their first instant.
func TestWatch(t *testing.T) {
	a, objects := newAPI(t)
	service, conn := serve(t)

	at := func(s int) string { return begin0.Add(time.Duration(s) * time.Second).Format(time.RFC3339) }
	job := func(id string, gone bool, status map[string]any) {
		status["evictions"] = 0
		a.put(paths["Job"], map[string]any{"apiVersion": "x/v1", "kind": "Job", "metadata": map[string]any{"uid": id,
			"name": id, "namespace": "ns"}, "status": status}, gone)
	}
	a.put(paths["Node"], nodeObject("n", begin0.Add(time.Second), true, false, 8), false)
	job("a", false, map[string]any{"created": at(2), "admitted": at(3)})
	job("b", false, map[string]any{"created": at(1)})

	var mu sync.Mutex
	var notes []string
	w := New(Options{Client: objects, Tracker: &Tracker{Mapper: integers{}}, Interval: time.Millisecond,
		Resources: []Resource{{GroupVersionResource: schema.GroupVersionResource{Group: "x", Version: "v1",
			Resource: "jobs"}, Namespaced: true}, {GroupVersionResource: cluster.Nodes.WithVersion("v1")}},
		Notify: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			notes = append(notes, err.Error())
		}})
	c, err := client.New(client.Options{Conn: conn, Scheduler: "s", Notify: func(error) {},
		Snapshot: func() *pb.Event { return w.Snapshot(t.Context()) }})
	if err != nil {
		t.Fatal(err)
	}
	if w.Ready() == nil {
		t.Error("ready before the first list")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	running.Go(func() { w.Run(ctx, c) })
	defer running.Wait()
	defer cancel()

	want := []string{"HEARTBEAT " + strconv.FormatInt(begin0.Unix()+1, 10), "NODE_UP n", "SUBMITTED b", "SUBMITTED a",
		"STARTED a"}
	is := func(more ...string) func() bool {
		want = append(want, more...)
		return func() bool {
			got := service.kinds()
			slices.Sort(got[min(1, len(got)):])
			sorted := slices.Clone(want)
			slices.Sort(sorted[1:])
			return slices.Equal(got, sorted)
		}
	}
	await(t, "the list", is())
	await(t, "readiness", func() bool { return w.Ready() == nil })
	job("b", false, map[string]any{"created": at(1), "admitted": at(4)})
	await(t, "a start", is("STARTED b"))
	a.refuse(true)
	a.expire()
	await(t, "a fault", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(notes) >= 2
	})
	if err := w.Ready(); err == nil {
		t.Error("ready without its watches")
	}
	job("b", false, map[string]any{"created": at(1), "admitted": at(4), "finished": at(9)})
	job("a", true, map[string]any{"created": at(2), "admitted": at(3)})
	a.refuse(false)
	await(t, "changes meanwhile", is("FINISHED b", "FINISHED a"))
	a.expire()
	job("c", false, map[string]any{"created": at(20)})
	await(t, "a job after an expired watch", is("SUBMITTED c"))
	await(t, "heartbeats", func() bool {
		service.mu.Lock()
		defer service.mu.Unlock()
		return service.events[len(service.events)-1].GetKind() == pb.Event_HEARTBEAT
	})
	if s := w.Stats(); s.Lists.Load() < 5 || s.Faults.Load() < 2 || s.Events.Load() != 8 ||
		s.Latest.Load() < begin0.Unix()+20 {
		t.Errorf("%d lists, %d faults, %d events", s.Lists.Load(), s.Faults.Load(), s.Events.Load())
	}
	service.mu.Lock()
	defer service.mu.Unlock()
	snapshot := slices.IndexFunc(service.events, func(e *pb.Event) bool { return e.GetKind() == pb.Event_SNAPSHOT })
	if s := service.events[snapshot].GetSnapshot(); len(s.GetJobs()) != 2 || len(s.GetNodes()) != 1 || snapshot == 0 {
		t.Errorf("snapshot %d: %+v", snapshot, s)
	}
}

// integers is plain for objects that were read from JSON.
type integers struct{ plain }

// Put implements [Mapper].
func (m integers) Put(o map[string]any) ([]workload.Event, error) {
	status, ok := o["status"].(map[string]any)
	if !ok {
		return nil, errors.New("status: is missing")
	}
	n, _ := status["evictions"].(int64)
	status["evictions"] = int(n)
	return m.plain.Put(o)
}
