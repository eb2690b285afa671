package waste

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/samples"
)

// Controller is the part of controller.Service that the service calls.
type Controller interface {
	Note(ctx context.Context, call controller.Call, scheduler, reason, prefix string, before, after any) error
	Scheduler(id string) (controller.Scheduler, controller.Status, error)
}

// Config configures the service of telemetry and findings.
type Config struct {
	Controller Controller
	Samples    *samples.Store   // TelemetryService is not served if nil
	Findings   *findings.Keeper // FindingService is not served if nil
	Pages      rpc.Pager
	Quota      *rpc.Quota
	Now        func() time.Time
}

// Service serves telemetry, and findings of waste in a cluster.
type Service struct {
	pb.UnimplementedTelemetryServiceServer
	pb.UnimplementedFindingServiceServer

	o                   Config
	samples, iterations *prometheus.CounterVec // by scheduler and result
}

// New returns the services of telemetry and findings.
func New(o Config) *Service {
	return &Service{o: o,
		samples: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_telemetry_samples_total",
			Help: "Samples of GPUs received, by result: stored, those sent before among them, or rejected.",
		}, []string{"scheduler", "result"}),
		iterations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_telemetry_iterations_total",
			Help: "Training iterations received, by result: stored, those sent before among them, or rejected.",
		}, []string{"scheduler", "result"})}
}
