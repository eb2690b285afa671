// Command evaluator measures configurations for studies that AutoSched runs: it implements EvaluatorService.
// It measures on a queue of jobs on one server, in place of a test cluster. Name it in the file of
// serve --evaluators:
//
//	evaluators:
//	  - id: queue
//	    address: 127.0.0.1:7600
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os/signal"
	"sort"
	"syscall"

	"google.golang.org/grpc"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:7600", "address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterEvaluatorServiceServer(server, &evaluator{})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, server.Stop)
	log.Println("listening on", listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}

type evaluator struct {
	pb.UnimplementedEvaluatorServiceServer
}

const (
	jobs  = 2000
	parts = 4 // reports the measurement so far after each
)

// Evaluate runs jobs in batches of a size, in one of two orders, and measures the 95th percentile of the wait.
func (*evaluator) Evaluate(req *pb.EvaluateRequest, stream grpc.ServerStreamingServer[pb.EvaluateResponse]) error {
	batch := int(req.GetParameters()["batch"].GetNumberValue())
	shortest := req.GetParameters()["order"].GetStringValue() == "las"
	if batch < 1 {
		return stream.Send(&pb.EvaluateResponse{Step: &pb.EvaluateResponse_InfeasibleReason{
			InfeasibleReason: fmt.Sprintf("batch is %d: want 1 or more", batch)}})
	}
	draw := rand.New(rand.NewPCG(req.GetSeed(), 1)) // the same jobs for every trial
	arrived, free := 0.0, 0.0
	var waits []float64
	var waiting []float64
	for n := 1; n <= jobs; n++ {
		arrived += draw.ExpFloat64()
		waiting = append(waiting, .8*draw.ExpFloat64())
		if n%batch != 0 && n != jobs {
			continue
		}
		if shortest {
			sort.Float64s(waiting)
		}
		free = max(free, arrived) + .5 // the cost of a batch
		for _, length := range waiting {
			waits = append(waits, free-arrived)
			free += length
		}
		waiting = waiting[:0]
		if done := n * parts / jobs; done > (n-batch)*parts/jobs && n < jobs {
			so := &pb.Measurement{StepCount: int64(n), Metrics: map[string]float64{req.GetMetricId(): p95(waits)}}
			err := stream.Send(&pb.EvaluateResponse{Step: &pb.EvaluateResponse_Measurement{Measurement: so}})
			if err != nil {
				return err // the trial is to stop
			}
		}
	}
	final := &pb.Measurement{StepCount: jobs, Metrics: map[string]float64{req.GetMetricId(): p95(waits)}}
	return stream.Send(&pb.EvaluateResponse{Step: &pb.EvaluateResponse_FinalMeasurement{FinalMeasurement: final}})
}

func p95(v []float64) float64 {
	sorted := append([]float64(nil), v...)
	sort.Float64s(sorted)
	return sorted[len(sorted)*95/100]
}
