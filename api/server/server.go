// Package server is the gRPC face of the controller. A handler checks, converts,
// calls and converts back; its errors become codes by the table in errors.go alone. Beside the
// services of autosched.v1 it serves health checks and reflection.
package server

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/registration"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
)

// Options of a server.
type Options struct {
	Service *controller.Service // required
	Studies *studies.Service    // its studies; StudyService is not served if nil
	Samples *samples.Store      // its telemetry; TelemetryService is not served if nil
	// Findings look for patterns; FindingService is not served if nil.
	Findings *findings.Keeper
	Reports  *reports.Keeper // of metrics; MetricService is not served if nil
	// Workloads are those that it keeps; WorkloadService is not served if nil.
	Workloads *workloads.Keeper
	// Evaluators are those of Studies, by id.
	Evaluators map[string]Evaluator
	Builtins   []controller.Builtin // what can be registered
	// Simulation is recorded for registrations that name none.
	Simulation controller.Simulation
	// PollAfter is the interval that polling schedulers are asked to keep; 30 s if 0.
	PollAfter time.Duration
	// Jitter draws what is added to PollAfter, at least 0 and below its argument,
	// so that callers spread out. Random if nil.
	Jitter func(below time.Duration) time.Duration
	Log    *slog.Logger // nothing is logged if nil
	// Access encrypts connections and identifies callers; if nil, connections are
	// plain and every caller may do anything.
	Access *access.Source
	// Store is the service's, for backups and checks; these are refused or left out if it is nil.
	Store *store.Store
	// Traces has a span of every call but health checks; there is none if it is nil.
	Traces trace.TracerProvider
	// Build are the labels of autosched_build_info, of which version is that of the program.
	Build  map[string]string
	Limits Limits
	// Now is the clock of limits per second; time.Now if nil.
	Now func() time.Time
	// NewID makes the ids of calls that bring none; crypto/rand.Text if nil.
	NewID func() string
}

// Server serves one controller.
type Server struct {
	pb.UnimplementedTuningServiceServer
	pb.UnimplementedConfigurationServiceServer
	pb.UnimplementedMaintenanceServiceServer
	pb.UnimplementedAuditServiceServer
	pb.UnimplementedRoundServiceServer
	pb.UnimplementedExplanationServiceServer
	pb.UnimplementedOperationServiceServer
	pb.UnimplementedStudyServiceServer
	pb.UnimplementedTelemetryServiceServer
	pb.UnimplementedFindingServiceServer
	pb.UnimplementedMetricServiceServer
	pb.UnimplementedWorkloadServiceServer

	service    *controller.Service
	studies    *studies.Service
	samples    *samples.Store
	findings   *findings.Keeper
	reports    *reports.Keeper
	workloads  *workloads.Keeper
	now        func() time.Time
	evaluators map[string]Evaluator
	registrar  registration.Reader
	pollAfter  time.Duration
	jitter     func(below time.Duration) time.Duration
	log        *slog.Logger
	access     *access.Source
	store      *store.Store
	version    string
	newID      func() string
	pages      pager
	backup     sync.Mutex // held by the backup under way

	grpc     *grpc.Server
	health   *health.Server
	draining chan struct{}
	drain    sync.Once
	metrics  *metrics
	guard    *guard
	quota    *quota
}

const (
	maxStreams     = 256     // calls of one connection
	defaultMessage = 4 << 20 // bytes
)

// New returns a server that is not listening yet.
func New(o Options) *Server {
	if o.PollAfter <= 0 {
		o.PollAfter = 30 * time.Second
	}
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	if o.NewID == nil {
		o.NewID = crand.Text
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Limits.Message <= 0 {
		o.Limits.Message = defaultMessage
	}
	s := &Server{
		service: o.Service, studies: o.Studies, samples: o.Samples, findings: o.Findings, reports: o.Reports,
		workloads:  o.Workloads,
		evaluators: o.Evaluators, now: o.Now,
		registrar: registration.Reader{Builtins: o.Builtins, Simulation: o.Simulation,
			CheckEnergy: o.Service.CheckEnergy},
		pollAfter: o.PollAfter, jitter: o.Jitter,
		log: o.Log, access: o.Access, store: o.Store, version: o.Build["version"], newID: o.NewID,
		health: health.NewServer(), draining: make(chan struct{}), metrics: newMetrics(o.Service, o.Build),
		quota: newQuota(o.Limits, o.Now),
	}
	s.guard = newGuard(s, o.Access)
	s.pages = pager(crand.Text())
	if o.Store != nil {
		s.pages = o.Store.Secret()
		s.metrics.registry.MustRegister(o.Store)
	}
	transport := insecure.NewCredentials()
	if o.Access != nil {
		s.metrics.addAccess(o.Access)
		if config := o.Access.TLS("h2"); config != nil {
			transport = credentials.NewTLS(config)
		}
	}
	options := []grpc.ServerOption{
		grpc.Creds(localCredentials{transport}),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(o.Limits.Message),
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second,
			PermitWithoutStream: true}),
		// Finds half-open watchers.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		// A panic within the guard is logged with the caller.
		grpc.ChainUnaryInterceptor(s.identifyUnary, s.metrics.unary, convertUnary, s.recoverUnary, s.guard.unary,
			s.behave, s.once, s.recoverUnary),
		grpc.ChainStreamInterceptor(s.identifyStream, s.metrics.stream, convertStream, s.recoverStream,
			s.guard.stream, s.recoverStream),
	}
	if o.Traces != nil {
		options = append(options, grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(o.Traces),
			otelgrpc.WithMeterProvider(noop.NewMeterProvider()), otelgrpc.WithPropagators(propagation.TraceContext{}),
			otelgrpc.WithFilter(filters.Not(filters.HealthCheck())))))
	}
	s.grpc = grpc.NewServer(options...)
	s.metrics.registry.MustRegister(s.quota.refusals)
	pb.RegisterTuningServiceServer(s.grpc, s)
	pb.RegisterConfigurationServiceServer(s.grpc, s)
	pb.RegisterMaintenanceServiceServer(s.grpc, s)
	pb.RegisterAuditServiceServer(s.grpc, s)
	pb.RegisterRoundServiceServer(s.grpc, s)
	pb.RegisterExplanationServiceServer(s.grpc, s)
	pb.RegisterOperationServiceServer(s.grpc, s)
	if s.studies != nil {
		pb.RegisterStudyServiceServer(s.grpc, s)
		s.health.SetServingStatus(pb.StudyService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	}
	if s.samples != nil {
		pb.RegisterTelemetryServiceServer(s.grpc, s)
		s.health.SetServingStatus(pb.TelemetryService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	}
	if s.findings != nil {
		pb.RegisterFindingServiceServer(s.grpc, s)
		s.health.SetServingStatus(pb.FindingService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
		s.metrics.registry.MustRegister(s.findings)
	}
	if s.reports != nil {
		pb.RegisterMetricServiceServer(s.grpc, s)
		s.health.SetServingStatus(pb.MetricService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
		s.metrics.registry.MustRegister(s.reports)
	}
	if s.workloads != nil {
		pb.RegisterWorkloadServiceServer(s.grpc, s)
		s.health.SetServingStatus(pb.WorkloadService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	for _, name := range []string{"", pb.TuningService_ServiceDesc.ServiceName,
		pb.ConfigurationService_ServiceDesc.ServiceName, pb.MaintenanceService_ServiceDesc.ServiceName,
		pb.AuditService_ServiceDesc.ServiceName, pb.RoundService_ServiceDesc.ServiceName,
		pb.ExplanationService_ServiceDesc.ServiceName, pb.OperationService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	if !s.tuning() {
		s.health.SetServingStatus(pb.TuningService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_NOT_SERVING)
	}
	return s
}

// Forget drops the metrics and quotas of a purged scheduler.
func (s *Server) Forget(id string) {
	for _, v := range []*prometheus.MetricVec{s.metrics.events.MetricVec, s.metrics.acks.MetricVec,
		s.metrics.restored.MetricVec, s.metrics.samples.MetricVec, s.metrics.iterations.MetricVec,
		s.metrics.reports.MetricVec} {
		v.DeletePartialMatch(prometheus.Labels{"scheduler": id})
	}
	s.quota.forget(id)
}

// tuning reports whether events are taken in and rounds run. Configurations are served before.
func (s *Server) tuning() bool {
	select {
	case <-s.service.Rebuilt():
		return true
	default:
		return false
	}
}

// Serve answers on a listener until Shutdown. It returns nil after one.
func (s *Server) Serve(l net.Listener) error {
	go func() {
		select {
		case <-s.service.Rebuilt():
			s.health.SetServingStatus(pb.TuningService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
		case <-s.draining:
		}
	}()
	err := s.grpc.Serve(l)
	select {
	case <-s.draining:
		return nil
	default:
	}
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// Shutdown reports NOT_SERVING, ends watches and event streams with
// Unavailable, and waits for calls under way; when the context ends, they are
// cut.
func (s *Server) Shutdown(ctx context.Context) {
	s.health.Shutdown()
	s.drain.Do(func() { close(s.draining) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.log.Warn("cutting calls that did not end in time")
		s.grpc.Stop()
		<-done
	}
}

// recoverUnary keeps a handler's panic from ending the process.
func (s *Server) recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (resp any, err error) {
	defer s.recovered(ctx, info.FullMethod, &err)
	return handle(ctx, req)
}

func (s *Server) recoverStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) (err error) {
	defer s.recovered(stream.Context(), info.FullMethod, &err)
	return handle(srv, stream)
}

func (s *Server) recovered(ctx context.Context, method string, err *error) {
	if p := recover(); p != nil {
		s.log.ErrorContext(ctx, "handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, internalText)
	}
}
