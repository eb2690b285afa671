package server

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
)

// benchServer serves one scheduler "s" in mode AUTO to a number of connections.
func benchServer(b *testing.B, conns int, decide round.DecideFunc, o Options) []*grpc.ClientConn {
	b.Helper()
	repo, err := store.Open(b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	service, err := controller.NewService(controller.Options{Store: repo, Decide: decide})
	if err != nil {
		b.Fatal(err)
	}
	o.Service, o.Store, o.Builtins = service, repo, []controller.Builtin{testBuiltin}
	s := New(o)
	stop := start(o, s)
	l := bufconn.Listen(1 << 20)
	go func() { _ = s.Serve(l) }()
	out := make([]*grpc.ClientConn, conns)
	for i := range out {
		out[i], err = grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.Shutdown(ctx)
		stop()
		for _, c := range out {
			_ = c.Close()
		}
		_ = repo.Close()
	})
	if _, err := pb.NewTuningServiceClient(out[0]).CreateScheduler(context.Background(),
		request("s", pb.SchedulerSpec_AUTO)); err != nil {
		b.Fatal(err)
	}
	return out
}

func BenchmarkGetCurrentConfiguration(b *testing.B) {
	c := pb.NewConfigurationServiceClient(benchServer(b, 1, byRound, Options{})[0])
	for _, etag := range []string{"", "match"} {
		b.Run("etag="+etag, func(b *testing.B) {
			req := &pb.GetCurrentConfigurationRequest{Name: "schedulers/s"}
			if etag != "" {
				got, err := c.GetCurrentConfiguration(context.Background(), req)
				if err != nil {
					b.Fatal(err)
				}
				req.IfNoneMatch = got.GetConfiguration().GetEtag()
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.GetCurrentConfiguration(context.Background(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkIngest has one stream with up to 16 batches of 100 unanswered.
func BenchmarkIngest(b *testing.B) {
	const batch, ahead = 100, 16
	conn := benchServer(b, 1, byRound, Options{})[0]
	stream, err := pb.NewTuningServiceClient(conn).IngestEvents(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	n, unanswered := 0, 0
	answer := func() {
		if got, err := stream.Recv(); err != nil || got.GetAcceptedCount() != batch {
			b.Fatal(got, err)
		}
		unanswered--
	}
	for b.Loop() {
		req := &pb.IngestEventsRequest{Parent: "schedulers/s", Events: make([]*pb.Event, batch)}
		for i := range req.Events {
			req.Events[i] = submitted(fmt.Sprint(n), time.Duration(n)*time.Millisecond)
			n++
		}
		if err := stream.Send(req); err != nil {
			b.Fatal(err)
		}
		if unanswered++; unanswered == ahead {
			answer()
		}
	}
	for unanswered > 0 {
		answer()
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkIngestStreams has streams of one scheduler, each with one batch unanswered.
func BenchmarkIngestStreams(b *testing.B) {
	for _, c := range []struct{ streams, batch int }{{64, 1}, {8, 100}} {
		b.Run(fmt.Sprintf("streams=%d/batch=%d", c.streams, c.batch), func(b *testing.B) {
			conns := benchServer(b, min(c.streams, 8), byRound, Options{})
			var sent atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for k := range c.streams {
				stream, err := pb.NewTuningServiceClient(conns[k%len(conns)]).IngestEvents(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				wg.Go(func() {
					for sent.Add(1) <= int64(b.N) {
						req := &pb.IngestEventsRequest{Parent: "schedulers/s"}
						for range c.batch {
							n := sent.Load()
							req.Events = append(req.Events, submitted(fmt.Sprint(k, "-", n, "-", len(req.Events)),
								time.Duration(n)*time.Millisecond))
						}
						if err := stream.Send(req); err != nil {
							b.Error(err)
							return
						}
						if got, err := stream.Recv(); err != nil || int(got.GetAcceptedCount()) != c.batch {
							b.Error(got, err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N*c.batch)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkFanOut measures from an event that makes a round publish until the
// last of many watchers has the new revision.
func BenchmarkFanOut(b *testing.B) {
	for _, watchers := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("watchers=%d", watchers), func(b *testing.B) {
			conns := benchServer(b, (watchers+99)/100, byRound, Options{})
			arrived := make(chan int64, watchers)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for i := range watchers {
				stream, err := pb.NewConfigurationServiceClient(conns[i%len(conns)]).WatchConfigurations(ctx,
					&pb.WatchConfigurationsRequest{Parent: "schedulers/s"})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := stream.Recv(); err != nil { // the bookmark
					b.Fatal(err)
				}
				go func() {
					for {
						got, err := stream.Recv()
						if err != nil {
							return
						}
						if got.GetConfiguration() != nil {
							arrived <- got.GetConfiguration().GetRevision()
						}
					}
				}()
			}
			events, err := pb.NewTuningServiceClient(conns[0]).IngestEvents(ctx)
			if err != nil {
				b.Fatal(err)
			}
			hour := 0
			send := func() {
				req := &pb.IngestEventsRequest{Parent: "schedulers/s",
					Events: []*pb.Event{submitted(fmt.Sprint(hour), time.Duration(hour)*time.Hour+time.Second)}}
				hour++
				if err := events.Send(req); err != nil {
					b.Fatal(err)
				}
				if _, err := events.Recv(); err != nil {
					b.Fatal(err)
				}
			}
			for hour < 3 { // rounds 1 and 2; the second one changes nothing
				send()
				if hour == 2 {
					for range watchers {
						<-arrived
					}
				}
			}
			for b.Loop() {
				send()
				for range watchers {
					<-arrived
				}
			}
		})
	}
}

// BenchmarkIngestTelemetry stores the samples of 125 nodes of 8 GPUs at a time, durably, from request to answer, and
// looks for patterns in it: a call of each node, as collectors do, and one of all. samples/cpu-s leave out the time
// that the disk takes, and have the client's part.
func BenchmarkIngestTelemetry(b *testing.B) {
	const nodes, gpus = 125, 8
	for _, calls := range []int{nodes, 1} {
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			kept, err := samples.Open(b.TempDir(), samples.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = kept.Close() })
			found := findings.Open(findings.Options{Dir: b.TempDir()})
			conn := benchServer(b, 1, byRound, Options{Samples: kept, Findings: found})[0]
			reqs := make([]*pb.IngestTelemetryRequest, calls)
			for i := range nodes * gpus {
				k := float64(i % 100)
				r := &reqs[i*calls/(nodes*gpus)]
				if *r == nil {
					*r = &pb.IngestTelemetryRequest{Parent: "schedulers/s"}
				}
				(*r).Samples = append((*r).Samples, &pb.GpuSample{NodeId: fmt.Sprintf("n%03d", i/gpus),
					GpuIndex: int32(i % gpus), GpuUuid: fmt.Sprintf("GPU-%d", i), UtilizationPercent: new(k),
					SmActive: new(k / 200), MemoryUsedMib: new(30000 + k), MemoryTotalMib: new(81920.),
					PowerWatts: new(300 + k/8), EnergyJoules: new(1e6 + k), TemperatureCelsius: new(60.),
					SmClockMhz: new(1400 + k), ThrottleReasons: new(uint64(0)), Xid: new(int32(0)),
					Processes: new(int32(1)), JobId: fmt.Sprint("j", i/gpus)})
			}
			c := pb.NewTelemetryServiceClient(conn)
			at, began := time.Now().Add(-24*time.Hour), cputime.Process()
			b.ReportAllocs()
			for b.Loop() {
				at = at.Add(15 * time.Second)
				var wg sync.WaitGroup
				for _, req := range reqs {
					wg.Go(func() {
						for _, s := range req.Samples {
							s.SampleTime, s.EnergyJoules = timestamppb.New(at), new(s.GetEnergyJoules()+4500)
						}
						got, err := c.IngestTelemetry(context.Background(), req)
						if err != nil || int(got.GetStoredCount()) != len(req.Samples) {
							b.Error(got, err)
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.N*nodes*gpus)/(cputime.Process()-began).Seconds(), "samples/cpu-s")
		})
	}
}
