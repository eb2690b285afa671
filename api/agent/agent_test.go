package agent

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// uncalled is a service that fails the test when it is called.
type uncalled struct{ t *testing.T }

func (n uncalled) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	n.t.Errorf("called %s", method)
	return errors.New("nobody")
}

func (n uncalled) NewStream(_ context.Context, _ *grpc.StreamDesc, method string,
	_ ...grpc.CallOption) (grpc.ClientStream, error) {
	n.t.Errorf("called %s", method)
	return nil, errors.New("nobody")
}

func TestRunChecksBeforeItRegisters(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.New("w", time.Unix(0, 0),
		[]workload.Job{{ID: "wide", GPUs: workload.GPUs(9), Duration: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Conn: uncalled{t}, ID: "x", Scheduler: s, Cluster: workload.Uniform(1, 8), Workload: w, Speedup: 1}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `job "wide" asks for 9 GPUs`) {
		t.Error(err)
	}
	for _, speedup := range []float64{0, -1, math.NaN(), math.Inf(1), MaxSpeedup + 1} {
		o.Speedup = speedup
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "speedup") {
			t.Errorf("%g: %v", speedup, err)
		}
	}
}

func TestStepIsBounded(t *testing.T) {
	for _, c := range []struct {
		real    time.Duration
		speedup float64
		want    time.Duration
	}{{time.Second, 60, time.Minute}, {tick, MaxSpeedup, 10_000 * time.Second}, {time.Hour, MaxSpeedup, maxStep},
		{math.MaxInt64, math.MaxFloat64, maxStep}} {
		if got := step(c.real, c.speedup); got != c.want {
			t.Errorf("%v at %g: %v, want %v", c.real, c.speedup, got, c.want)
		}
	}
}
