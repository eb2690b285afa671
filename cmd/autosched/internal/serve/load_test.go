package serve

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// loaded is a service as a process and a client of it.
type loaded struct {
	t          *testing.T
	how        cli.ConnectFlags
	operations string
	conn       *grpc.ClientConn
	tuning     pb.TuningServiceClient
	config     pb.ConfigurationServiceClient
	events     int
}

// number reads a count from the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// startLoaded starts a service with TLS and the product's rounds, or one in the clear whose rounds
// decide at once.
func startLoaded(t *testing.T, quick bool) *loaded {
	t.Helper()
	if testing.Short() {
		t.Skip("load reaches no code that other tests do not")
	}
	l := &loaded{t: t}
	var serve *exec.Cmd
	if quick {
		serve = exec.Command(os.Args[0])
		serve.Env = append(os.Environ(), killDir+"="+t.TempDir())
	} else {
		pki := filepath.Join(t.TempDir(), "pki")
		if err := clitest.RunClient(t.Context(), newCertsCmd(), "", io.Discard, pki); err != nil {
			t.Fatal(err)
		}
		in := func(name string) string { return filepath.Join(pki, name) }
		serve = exec.Command(os.Args[0], "serve", "--dir", t.TempDir(), "--listen", "127.0.0.1:0", "--operations",
			"127.0.0.1:0", "--tls-cert", in("server.pem"), "--tls-key", in("server.key"), "--client-ca", in("ca.pem"),
			"--roles", in("roles.yaml"))
		serve.Env = append(os.Environ(), "AUTOSCHED_TEST_MAIN=1")
		l.how = cli.ConnectFlags{CA: in("ca.pem"), Cert: in("admin.pem"), Key: in("admin.key")}
	}
	var log clitest.LockedBuffer
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	})
	l.how.Server = clitest.Eventually(t, log.String, `msg=serving address=(\S+)`)
	l.operations = clitest.Eventually(t, log.String, `readyz" address=(\S+)`)
	l.conn = l.dial()
	l.tuning, l.config = pb.NewTuningServiceClient(l.conn), pb.NewConfigurationServiceClient(l.conn)
	_, err := l.tuning.CreateScheduler(t.Context(), &pb.CreateSchedulerRequest{SchedulerId: "s",
		Scheduler: &pb.Scheduler{Spec: &pb.SchedulerSpec{SchedulerType: "tiresias", Mode: pb.SchedulerSpec_AUTO,
			Cluster: &pb.Cluster{Nodes: 4, GpusPerNode: 8}}}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// secondRevision sends events until a round offers a second revision.
func (l *loaded) secondRevision(ctx context.Context) {
	l.t.Helper()
	stream, err := l.tuning.IngestEvents(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if err := stream.Send(l.batch(1, time.Hour)); err != nil {
			l.t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			l.t.Fatal(err)
		}
		got, err := l.config.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: "schedulers/s"})
		if err != nil || time.Now().After(deadline) {
			l.t.Fatal("there is no second revision: ", err)
		}
		if len(got.GetConfigurations()) > 1 {
			return
		}
	}
}

// change goes back and forth between the first two revisions.
func (l *loaded) change(ctx context.Context, i int) int64 {
	l.t.Helper()
	c, err := l.config.RollbackConfiguration(ctx, &pb.RollbackConfigurationRequest{Parent: "schedulers/s",
		Revision: int64(1 + i%2)})
	if err != nil {
		l.t.Fatal(err)
	}
	return c.GetRevision()
}

func (l *loaded) dial() *grpc.ClientConn {
	l.t.Helper()
	conn, err := l.how.Dial()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// batch is events of which each is a while after the one before.
func (l *loaded) batch(n int, apart time.Duration) *pb.IngestEventsRequest {
	req := &pb.IngestEventsRequest{Parent: "schedulers/s", Events: make([]*pb.Event, n)}
	for i := range req.Events {
		l.events++
		id := strconv.Itoa(l.events)
		req.Events[i] = &pb.Event{EventId: id, Kind: pb.Event_SUBMITTED,
			Job: &pb.JobDetails{JobId: id, Tenant: "vc", MilliGpus: 1000 * int64(1+l.events%8)},
			SchedulerTime: timestamppb.New(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).
				Add(time.Duration(l.events) * apart))}
	}
	return req
}

// metrics reads a process metric of a service.
func (l *loaded) metrics(name string) float64 {
	l.t.Helper()
	client, scheme := &http.Client{Transport: &http.Transport{}}, "http"
	if l.how.CA != "" {
		config, err := l.how.Endpoint().TLS()
		if err != nil {
			l.t.Fatal(err)
		}
		client, scheme = &http.Client{Transport: &http.Transport{TLSClientConfig: config}}, "https"
	}
	defer client.CloseIdleConnections()
	got, err := client.Get(scheme + "://" + l.operations + "/metrics")
	if err != nil {
		l.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	if err != nil || m == nil {
		l.t.Fatalf("%v: no %s in\n%s", err, name, bytes.TrimSpace(text))
	}
	value, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		l.t.Fatal(err)
	}
	return value
}

// TestWatchersUnderLoad: many watchers, a tenth of which read nothing, and changes in a row. All others get the last
// one, and the stalled ones too once they read; none gets a change twice or an older one. AUTOSCHED_WATCHERS is their
// number.
func TestWatchersUnderLoad(t *testing.T) {
	const changes = 60
	watchers := number("AUTOSCHED_WATCHERS", 1000)
	l := startLoaded(t, true)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	l.secondRevision(ctx)
	var last atomic.Int64 // the revision that all are to get
	var conns []*grpc.ClientConn
	for range (watchers + 49) / 50 {
		conns = append(conns, l.dial())
	}
	before := l.metrics("go_memstats_heap_inuse_bytes") + l.metrics("go_memstats_stack_inuse_bytes")
	begin := make(chan struct{}) // closed when stalled watchers may read
	var ready, live, stalled sync.WaitGroup
	for i := range watchers {
		ready.Add(1)
		group := &live
		if i%10 == 0 {
			group = &stalled
		}
		group.Go(func() {
			stream, err := pb.NewConfigurationServiceClient(conns[i%len(conns)]).WatchConfigurations(ctx,
				&pb.WatchConfigurationsRequest{Parent: "schedulers/s", SendInitialEvents: true})
			if err == nil {
				_, err = stream.Recv()
			}
			ready.Done()
			if group == &stalled {
				<-begin
			}
			for seen := int64(1); err == nil && (last.Load() == 0 || seen < last.Load()); {
				var got *pb.WatchConfigurationsResponse
				if got, err = stream.Recv(); got.GetConfiguration() != nil {
					if now := got.GetConfiguration().GetRevision(); now <= seen {
						t.Errorf("watcher %d got revision %d after %d", i, now, seen)
					} else {
						seen = now
					}
				}
			}
			if err != nil {
				t.Errorf("watcher %d: %v", i, err)
			}
		})
	}
	ready.Wait()
	each := (l.metrics("go_memstats_heap_inuse_bytes") + l.metrics("go_memstats_stack_inuse_bytes") - before) /
		float64(watchers)
	began := time.Now()
	for i := range changes {
		if to := l.change(ctx, i); i == changes-1 {
			last.Store(to)
		}
	}
	l.change(ctx, changes) // wakes watchers that had the last before it was known to be
	live.Wait()
	took := time.Since(began)
	close(begin)
	stalled.Wait()
	t.Logf("%d watchers, %.0f KiB each in the service; %d changes reached all that read in %v", watchers, each/1024,
		changes, took)
	if each > 128<<10 {
		t.Errorf("a watcher takes %.0f KiB", each/1024)
	}
}

// timed skips a test whose result depends on what else the machine does, unless `make reliability` runs it.
func timed(t *testing.T) {
	t.Helper()
	if os.Getenv("AUTOSCHED_SOAK") == "" {
		t.Skip("compares times; AUTOSCHED_SOAK=1 runs it")
	}
}

// TestReadsWhileTuning: GetCurrentConfiguration at a fixed rate over TLS, first with an idle service,
// then while it tunes. Other load on the machine makes a try worse, never better, so the best counts.
func TestReadsWhileTuning(t *testing.T) {
	timed(t)
	const tries = 5
	l := startLoaded(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := l.tuning.IngestEvents(ctx)
	if err != nil {
		t.Fatal(err)
	}
	send := func(req *pb.IngestEventsRequest) {
		if err := stream.Send(req); err != nil {
			t.Error(err)
		} else if _, err := stream.Recv(); err != nil {
			t.Error(err)
		}
	}
	idle, busy, best := time.Duration(0), time.Duration(0), 1e9
	for i := 0; i < tries && best > 3; i++ {
		a := l.p99()
		var tuning sync.WaitGroup
		stop := make(chan struct{})
		tuning.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					send(l.batch(50, 5*time.Minute))
				}
			}
		})
		b := l.p99()
		close(stop)
		tuning.Wait()
		if ratio := float64(b) / float64(a); ratio < best {
			idle, busy, best = a, b, ratio
		}
	}
	cancel()
	got, err := l.tuning.GetScheduler(t.Context(), &pb.GetSchedulerRequest{Name: "schedulers/s"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("p99 idle %v, while tuning %v, %d rounds", idle, busy, got.GetStatus().GetRoundCount())
	if best > 3 && busy > 5*time.Millisecond {
		t.Errorf("while the service tunes, the 99th percentile is %.1f times the idle one", best)
	}
}

// p99 reads the configuration 1000 times a second for two seconds, at instants fixed before, and
// returns the 99th percentile of the time from then to the answer.
func (l *loaded) p99() time.Duration {
	const n = 2000
	took := make([]time.Duration, n)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range n {
		at := began.Add(time.Duration(i) * time.Millisecond)
		time.Sleep(time.Until(at))
		wg.Go(func() {
			_, err := l.config.GetCurrentConfiguration(l.t.Context(),
				&pb.GetCurrentConfigurationRequest{Name: "schedulers/s"})
			if err != nil {
				l.t.Error(err)
			}
			took[i] = time.Since(at)
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took[n*99/100]
}

// TestIngestInBatches: events that come a hundred at a time are acknowledged several times as fast
// as one at a time on one stream.
func TestIngestInBatches(t *testing.T) {
	timed(t)
	l := startLoaded(t, false)
	stream, err := l.tuning.IngestEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rate := func(batch int) float64 {
		began, n := time.Now(), 0
		for time.Since(began) < time.Second {
			if err := stream.Send(l.batch(batch, time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			got, err := stream.Recv()
			if err != nil || int(got.GetAcceptedCount()) != batch {
				t.Fatal(got, err)
			}
			n += batch
		}
		return float64(n) / time.Since(began).Seconds()
	}
	best := 0.0
	for range 3 {
		single, batched := rate(1), rate(100)
		t.Logf("%.0f events/s one at a time, %.0f in batches of 100", single, batched)
		if best = max(best, batched/single); best > 5 {
			return
		}
	}
	t.Errorf("batches are %.1f times as fast as single events", best)
}

// TestSoak uses a service for a while: its goroutines, descriptors and memory stay as they are. AUTOSCHED_SOAK is how
// many seconds it takes.
func TestSoak(t *testing.T) {
	seconds := number("AUTOSCHED_SOAK", 6)
	l := startLoaded(t, false)
	type holding struct{ goroutines, descriptors, heap float64 }
	use := func(span time.Duration) holding {
		heap := math.Inf(1) // the least in use: garbage does not count
		for n, end := 0, time.Now().Add(span); time.Now().Before(end); n++ {
			if n%8 == 0 {
				heap = min(heap, l.metrics("go_memstats_heap_inuse_bytes"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			conn := l.dial()
			stream, err := pb.NewTuningServiceClient(conn).IngestEvents(ctx)
			if err != nil {
				t.Fatal(err)
			}
			req := l.batch(20, 10*time.Second)
			for _, e := range req.GetEvents() { // the jobs end, or the ledger would grow by right
				req.Events = append(req.Events, &pb.Event{EventId: e.GetEventId() + "-", Kind: pb.Event_FINISHED,
					SchedulerTime: e.GetSchedulerTime(), Job: &pb.JobDetails{JobId: e.GetJob().GetJobId(),
						EndStatus: pb.JobDetails_CANCELLED}})
			}
			if err := stream.Send(req); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			watch, err := pb.NewConfigurationServiceClient(conn).WatchConfigurations(ctx,
				&pb.WatchConfigurationsRequest{Parent: "schedulers/s", SendInitialEvents: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := watch.Recv(); err != nil {
				t.Fatal(err)
			}
			cancel()
			_ = conn.Close()
		}
		return holding{l.metrics("go_goroutines"), l.metrics("process_open_fds"), heap}
	}
	third := time.Duration(seconds) * time.Second / 3
	use(third)
	before := use(third)
	after := use(third)
	// Closed connections are noticed soon.
	for until := time.Now().Add(2 * time.Minute); (after.goroutines > before.goroutines+20 ||
		after.descriptors > before.descriptors+10) && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		after.goroutines, after.descriptors = l.metrics("go_goroutines"), l.metrics("process_open_fds")
	}
	t.Logf("before %+v, after %+v, %d events", before, after, l.events)
	if after.goroutines > before.goroutines+20 || after.descriptors > before.descriptors+10 ||
		after.heap > 1.5*before.heap+(16<<20) {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
