package serve

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/testshared"
)

// TestNodesBesideOne measures ingest of a service of one process and of three nodes, on one machine, one after the
// other: four streams of batches of 100 events. All sent events are accepted. AUTOSCHED_BESIDE is the time of each in
// seconds.
func TestNodesBesideOne(t *testing.T) {
	seconds := number("AUTOSCHED_BESIDE", 0)
	if seconds == 0 {
		t.Skip("AUTOSCHED_BESIDE is not set")
	}
	serve := func(args ...string) {
		cmd := exec.Command(os.Args[0], append([]string{"serve", "--limit-events", "0", "--limit-events-per-caller", "0"},
			args...)...)
		cmd.Env = append(os.Environ(), "AUTOSCHED_TEST_MAIN=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	one := testshared.FreeAddress(t)
	serve("--dir", t.TempDir(), "--listen", one)
	var nodes, routes []string
	for range 3 {
		nodes, routes = append(nodes, testshared.FreeAddress(t)), append(routes, testshared.FreeAddress(t))
	}
	for i := range nodes {
		dir := t.TempDir()
		file := filepath.Join(dir, "cluster.yaml")
		text := fmt.Sprintf("node: n%d\ndir: %s\npeer: %s\nreplicas: 3\nembedded: {cluster: '%s', routes: ['%s']}\n",
			i, dir, testshared.FreeAddress(t), routes[i], strings.Join(routes, "', '"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		serve("--cluster", file, "--listen", nodes[i])
	}
	measure(t, "one process", one, time.Duration(seconds)*time.Second)
	measure(t, "three nodes", strings.Join(nodes, ","), time.Duration(seconds)*time.Second)
}

// measure sends events for a time and logs their rate and the latency of batches.
func measure(t *testing.T, name, address string, d time.Duration) {
	t.Helper()
	conn, err := client.Endpoint{Address: address}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tuning := pb.NewTuningServiceClient(conn)
	const streams, batch = 4, 100
	for i := range streams {
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			_, err := tuning.CreateScheduler(t.Context(), &pb.CreateSchedulerRequest{SchedulerId: fmt.Sprint("s", i),
				Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "tiresias",
					Cluster: &pb.Cluster{Nodes: 100, GpusPerNode: 8}}}})
			if code := status.Code(err); code == codes.OK || code == codes.AlreadyExists {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), d+time.Minute)
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var wait sync.WaitGroup
	began := time.Now()
	for i := range streams {
		wait.Go(func() {
			stream, err := tuning.IngestEvents(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for n := 0; time.Since(began) < d; n++ {
				req := &pb.IngestEventsRequest{Parent: fmt.Sprint("schedulers/s", i)}
				for j := range batch {
					id := strconv.Itoa(n*batch + j)
					req.Events = append(req.Events, &pb.Event{EventId: id, Kind: pb.Event_SUBMITTED,
						Job:           &pb.JobDetails{JobId: id, MilliGpus: 1000},
						SchedulerTime: timestamppb.New(began.Add(time.Duration(n)*time.Millisecond - time.Hour))})
				}
				sent := time.Now()
				if err := stream.Send(req); err != nil {
					t.Error(err)
					return
				}
				got, err := stream.Recv()
				if err != nil || got.GetAcceptedCount() != batch {
					t.Errorf("%s: %v, %v", name, got, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(sent))
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if len(took) == 0 {
		t.Fatalf("%s answered nothing", name)
	}
	slices.Sort(took)
	t.Logf("%s: %.0f events/s; a batch of %d: p50 %v, p99 %v", name,
		float64(len(took)*batch)/time.Since(began).Seconds(), batch, took[len(took)/2].Round(time.Millisecond),
		took[len(took)*99/100].Round(time.Millisecond))
}
