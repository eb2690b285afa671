package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload"
)

// service keeps events, each id once, of a scheduler that is registered.
type service struct {
	pb.UnimplementedTuningServiceServer
	mu     sync.Mutex
	ids    map[string]bool
	events []workload.Event
}

// GetScheduler implements TuningService.
func (*service) GetScheduler(_ context.Context, r *pb.GetSchedulerRequest) (*pb.Scheduler, error) {
	return &pb.Scheduler{Name: r.GetName(), Spec: &pb.SchedulerSpec{SchedulerType: "kueue"}}, nil
}

// IngestEvents implements TuningService.
func (s *service) IngestEvents(stream pb.TuningService_IngestEventsServer) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		s.mu.Lock()
		for _, m := range req.GetEvents() {
			if e, fault := convert.EventFromProto(m); fault == nil && e.Validate() == nil && !s.ids[e.ID] {
				s.ids[e.ID] = true
				s.events = append(s.events, e)
			}
		}
		s.mu.Unlock()
		if err := stream.Send(&pb.IngestEventsResponse{Sequence: req.GetSequence()}); err != nil {
			return err
		}
	}
}

// count is how many events of kinds there are.
func (s *service) count(kinds ...workload.EventKind) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if slices.Contains(kinds, e.Kind) {
			n++
		}
	}
	return n
}

// TestLiveRun: the events of jobs on a real Kueue are as recorded, over a restart of the adapter and one of
// the API server, and the probes and metrics say what it does.
func TestLiveRun(t *testing.T) {
	observed(t, "kueue", "kueue.preempt.json", rig.Options{Kueue: true})
}

// TestLiveVolcano is TestLiveRun with Volcano.
func TestLiveVolcano(t *testing.T) {
	observed(t, "volcano", "volcano.equal.json", rig.Options{Volcano: true})
}

// serve runs a service, and returns its address.
func serve(t *testing.T) (*service, string) {
	s := &service{ids: map[string]bool{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterTuningServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return s, l.Addr().String()
}

// madeJob is a Workload as a controller makes it of a Job, with a pod of it and one of another scheduler.
const madeJob = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  {name: w, namespace: default, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: j, controller: true}]}
spec:
  queueName: tenant-0
  podSets: [{name: main, count: 1, template: {spec: {restartPolicy: Never, containers: [
    {name: main, image: none, resources: {requests: {nvidia.com/gpu: "8"}}}]}}}]
---
apiVersion: v1
kind: Pod
metadata:
  {name: p, namespace: default, labels: {kueue.x-k8s.io/podset: main}, annotations: {kueue.x-k8s.io/workload: w}}
spec: {restartPolicy: Never, nodeName: %[1]s, containers: [{name: main, image: none}]}
---
apiVersion: v1
kind: Pod
metadata: {name: other, namespace: default, annotations: {kueue.x-k8s.io/workload: w}}
spec: {restartPolicy: Never, nodeName: %[1]s, containers: [{name: main, image: none}]}
`

// TestLiveStart: a job that a real Kueue admits waits until its pod runs, which is watched by its label; another
// adapter lists the same events.
func TestLiveStart(t *testing.T) {
	r := rig.Start(t, rig.Options{Kueue: true})
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", "kueue.preempt.json"))
	if err != nil {
		t.Fatal(err)
	}
	nodes := r.Client("admin").Resource(cluster.Nodes.WithVersion("v1"))
	all, err := nodes.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) == 0 {
		t.Fatal(err)
	}
	objects := append(queues, fmt.Sprintf("\n---"+madeJob, all.Items[0].GetName())...)
	if err := r.Create(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	adapt := func() (s *service, stop func()) {
		s, server := serve(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		var log clitest.LockedBuffer
		go func() {
			ended <- cli.Run(ctx, newRoot(), []string{"run", "--scheduler", "kueue", "--id", "prod", "--server", server,
				"--kubeconfig", r.Kubeconfig("admin")}, io.Discard, &log)
		}()
		return s, func() {
			cancel()
			if code := <-ended; code != 0 {
				t.Errorf("exit %d: %s", code, log.String())
			}
		}
	}
	workloads := r.Client("admin").Resource(schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2",
		Resource: "workloads"}).Namespace("default")
	await(t, "admission", func() bool {
		w, err := workloads.Get(t.Context(), "w", metav1.GetOptions{})
		return err == nil && strings.Contains(fmt.Sprint(w.Object["status"]), "type:Admitted")
	})
	s, stop := adapt()
	await(t, "the job", func() bool { return s.count(workload.Submitted) == 1 })
	pods := r.Client("admin").Resource(cluster.Schedulers[0].Pods.WithVersion("v1")).Namespace("default")
	run := func(pod string) {
		status := fmt.Appendf(nil, `{"status":{"phase":"Running","startTime":%q}}`,
			time.Now().UTC().Format(time.RFC3339))
		_, err := pods.Patch(t.Context(), pod, types.MergePatchType, status, metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
	run("other")
	if err := r.Create(t.Context(), []byte(strings.ReplaceAll(madeJob[:strings.Index(madeJob, "---")], "name: w",
		"name: later"))); err != nil {
		t.Fatal(err)
	}
	await(t, "a later job", func() bool { return s.count(workload.Submitted) == 2 })
	if s.count(workload.Started) > 0 {
		t.Error("a job started without its pod")
	}
	run("p")
	await(t, "the start", func() bool { return s.count(workload.Started) == 1 })
	stop()
	again, stop := adapt()
	await(t, "the start again", func() bool { return again.count(workload.Started) == 1 })
	stop()
	started := func(s *service) (out []string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range s.events {
			if e.Kind.OfJob() {
				out = append(out, fmt.Sprint(e.ID, e.Time, e.StartUp, e.Placement))
			}
		}
		slices.Sort(out)
		return out
	}
	if a, b := started(s), started(again); !slices.Equal(a, b) {
		t.Errorf("%v, listed %v", a, b)
	}
}

func observed(t *testing.T, scheduler, name string, o rig.Options) {
	r := rig.Start(t, o)
	queues, err := os.ReadFile(testshared.Path(t, "golden", "kubernetes", "queues", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Create(t.Context(), queues); err != nil {
		t.Fatal(err)
	}
	s, server := serve(t)
	run := func() (stop func() string, address string) {
		ctx, cancel := context.WithCancel(t.Context())
		var log clitest.LockedBuffer
		ended := make(chan int)
		go func() {
			ended <- cli.Run(ctx, newRoot(), []string{"run", "--scheduler", scheduler, "--id", "prod", "--server",
				server, "--kubeconfig", r.Kubeconfig("admin"), "--lease-namespace", "default", "--operations",
				"127.0.0.1:0"}, io.Discard, &log)
		}()
		await(t, "an address", func() bool {
			m := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(log.String())
			if m != nil {
				address = m[1]
			}
			return m != nil
		})
		return func() string {
			cancel()
			if code := <-ended; code != 0 {
				t.Errorf("exit %d: %s", code, log.String())
			}
			return log.String()
		}, address
	}
	get := func(address, path string) (int, string) {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	stop, address := run()
	ready := func() bool {
		code, _ := get(address, "/readyz")
		return code == http.StatusOK
	}
	await(t, "readiness", ready)
	jobs := []rig.Job{{Name: "a", Queue: "tenant-0", Pods: 4, GPUs: 8, Run: 6 * time.Second},
		{Name: "b", Queue: "tenant-1", Pods: 4, GPUs: 8, Run: 4 * time.Second, At: time.Second},
		{Name: "c", Queue: "tenant-0", Pods: 1, GPUs: 8, Run: 2 * time.Second, At: time.Second, Priority: 10},
		{Name: "d", Queue: "tenant-2", Pods: 2, GPUs: 8, Run: time.Second, At: 2 * time.Second}}
	var rows []rig.Row
	var running sync.WaitGroup
	running.Go(func() {
		rows, err = rig.Driver{Client: r.Client("admin"), Kueue: o.Kueue}.Run(t.Context(), jobs)
	})
	await(t, "a start", func() bool { return s.count(workload.Started) > 0 })
	stop()
	stop, address = run()
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the ends", func() bool { return s.count(workload.Finished) >= len(jobs) })
	r.StopAPI()
	await(t, "a fault", func() bool { return !ready() })
	if err := r.StartAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "readiness", ready)
	code, text := get(address, "/metrics")
	for _, want := range []string{`autosched_kube_mode{mode="observe"} 1`, "autosched_kube_watching 1",
		"autosched_kube_lease 1",
		"autosched_kube_events_rejected_total 0", "autosched_kube_unread_objects_total 0"} {
		if code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d: no %q in %s", code, want, text)
		}
	}
	if code, text := get(address, "/healthz"); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	log := stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	ledger := workload.NewLedger(workload.Cluster{Groups: []workload.NodeGroup{{Nodes: 8, GPUsPerNode: 8}}})
	for _, e := range s.events {
		ledger.Apply(e)
	}
	end := time.Duration(time.Now().UnixNano())
	finishes := ledger.Finishes(0, end)
	if len(finishes) != len(jobs) || len(ledger.State(end).Jobs) != 0 {
		t.Fatalf("%d jobs ended and %d are active: %s", len(finishes), len(ledger.State(end).Jobs), log)
	}
	evictions, starts := 0, 0
	for _, row := range rows {
		evictions, starts = evictions+len(row.Stays)-1, starts+len(row.Stays)
	}
	counted := map[workload.EventKind]int{}
	for _, e := range s.events {
		counted[e.Kind]++
	}
	if got := counted[workload.Started] + counted[workload.Resumed]; got != starts ||
		counted[workload.Preempted] < evictions {
		t.Errorf("%v are of %d starts and %d evictions: %+v", counted, starts, evictions, rows)
	}
	for _, f := range finishes {
		if f.Tenant == "" || f.GPUs == 0 || f.Status != workload.Completed {
			t.Errorf("%+v", f.Job)
		}
	}
}

func await(t *testing.T, name string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(fmt.Sprint(name, " did not come"))
		}
	}
}
