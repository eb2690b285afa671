// Package server is the gRPC face of the controller. A handler checks, converts,
// calls and converts back; its errors become codes by the table in errors.go alone. Beside the
// services of autosched.v1 it serves health checks and reflection.
package server

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/netutil"
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
	"github.com/autosched/autosched/api/server/admin"
	"github.com/autosched/autosched/api/server/config"
	"github.com/autosched/autosched/api/server/explain"
	"github.com/autosched/autosched/api/server/forward"
	"github.com/autosched/autosched/api/server/job"
	"github.com/autosched/autosched/api/server/metric"
	"github.com/autosched/autosched/api/server/operation"
	"github.com/autosched/autosched/api/server/render"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/api/server/study"
	"github.com/autosched/autosched/api/server/tuning"
	"github.com/autosched/autosched/api/server/waste"
	"github.com/autosched/autosched/api/server/workload"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
)

// Store is the part of a store that the server uses: its metrics, and the secret that signs the tokens of pages.
type Store interface {
	prometheus.Collector
	admin.Store
	Secret() []byte
}

// Options of a server.
type Options struct {
	Service *controller.Service // required
	Studies *studies.Service    // its studies; StudyService is not served if nil
	Samples waste.Samples       // its telemetry; TelemetryService is not served if nil
	// Findings look for patterns; FindingService is not served if nil.
	Findings waste.Findings
	Reports  *reports.Keeper // of metrics; MetricService is not served if nil
	// Workloads keeps the workloads; WorkloadService is not served if nil.
	Workloads *workloads.Keeper
	// Evaluators are the evaluators of Studies, by id.
	Evaluators map[string]study.Evaluator
	Builtins   []controller.Builtin // that can be registered
	// Simulation is recorded for registrations that name none.
	Simulation controller.Simulation
	// PollAfter is the interval that polling schedulers are asked to keep; 30 s if 0.
	PollAfter time.Duration
	// Jitter draws the addition to PollAfter, at least 0 and below its argument, so that callers spread out. Random if
	// nil.
	Jitter func(below time.Duration) time.Duration
	Log    *slog.Logger // nothing is logged if nil
	// Access encrypts connections and identifies callers; if nil, connections are
	// plain and every caller may do anything.
	Access *access.Source
	// Forwarded says that callers come through the fronts of nodes: the listeners are those of a gate.
	Forwarded bool
	// Copy says that the service is a copy, which is read only: other methods than those of [FromCopy] are refused.
	Copy bool
	// Pages answers by HTTP where nothing else of Web does, without asking who calls; a list of paths if nil.
	Pages http.Handler
	// Registry has the metrics of Web; one of its own if nil.
	Registry *prometheus.Registry
	// Store is the service's, for backups and checks; these are refused or left out if it is nil.
	Store Store
	// Traces has a span of every call but health checks; there is none if it is nil.
	Traces trace.TracerProvider
	// Build are the labels of autosched_build_info, of which version is that of the program.
	Build  map[string]string
	Limits rpc.Limits
	// Now is the clock of limits per second; time.Now if nil.
	Now func() time.Time
	// NewID makes the ids of calls that bring none; crypto/rand.Text if nil.
	NewID func() string
}

// Server serves one controller.
type Server struct {
	service  *controller.Service
	log      *slog.Logger
	newID    func() string
	grpc     *grpc.Server
	health   *health.Server
	draining chan struct{}
	drain    sync.Once
	metrics  *metrics
	guard    *guard
	web      *web
	quota    *rpc.Quota
	pages    rpc.Pager
	gated    bool // callers come through a gate
	copy     bool

	// The services of the API, nil if they are not served.
	tuning    *tuning.Service
	config    *config.Service
	metric    *metric.Service
	waste     *waste.Service
	study     *study.Service
	workload  *workload.Service
	operation *operation.Service
	explain   *explain.Service
	admin     *admin.Service
}

const (
	maxStreams     = 256 // calls of one connection
	maxIdle        = 15 * time.Minute
	defaultMessage = 4 << 20 // bytes
)

// New returns a server that is not listening yet.
func New(o Options) *Server {
	o.setDefaults()
	s := &Server{service: o.Service, log: o.Log, newID: o.NewID, health: health.NewServer(),
		draining: make(chan struct{}), metrics: newMetrics(&o), quota: rpc.NewQuota(o.Limits, o.Now),
		gated: o.Forwarded, copy: o.Copy}
	s.guard = newGuard(s, o.Access)
	s.metrics.registry.MustRegister(s.quota.Refusals)
	if o.Store != nil {
		s.metrics.registry.MustRegister(o.Store)
	}
	if o.Access != nil {
		s.metrics.addAccess(o.Access)
	}
	s.web = newWeb(s, &o)
	s.grpc = grpc.NewServer(s.options(&o)...)
	s.addServices(&o)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

func (o *Options) setDefaults() {
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
}

// MaxConnections bounds the connections to an address, each of which takes memory before its caller is known.
const MaxConnections = 10_000

// Transport are the options of a gRPC server for callers: encryption and limits, of a message in bytes among them.
func Transport(a *access.Source, message int) []grpc.ServerOption {
	transport := insecure.NewCredentials()
	if a != nil {
		if config := a.TLS("h2"); config != nil {
			transport = credentials.NewTLS(config)
		}
	}
	return []grpc.ServerOption{
		grpc.Creds(localCredentials{transport}),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(message),
		grpc.ConnectionTimeout(20 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second,
			PermitWithoutStream: true}),
		// Finds half-open watchers.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second,
			MaxConnectionIdle: maxIdle}),
	}
}

// options are the options of package grpc: transport, limits and the chains of interceptors.
func (s *Server) options(o *Options) []grpc.ServerOption {
	options := append(Transport(o.Access, o.Limits.Message),
		// A panic within the guard is logged with the caller.
		grpc.ChainUnaryInterceptor(s.identifyUnary, s.metrics.unary, rpc.ConvertUnary, s.recoverUnary, s.guard.unary,
			s.behave, s.once, s.recoverUnary),
		grpc.ChainStreamInterceptor(s.identifyStream, s.metrics.stream, rpc.ConvertStream, s.recoverStream,
			s.guard.stream, s.recoverStream))
	if o.Forwarded {
		options = append(options, grpc.MaxConcurrentStreams(math.MaxUint32)) // a connection has all callers of a node
	}
	if o.Traces != nil {
		options = append(options, grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(o.Traces),
			otelgrpc.WithMeterProvider(noop.NewMeterProvider()), otelgrpc.WithPropagators(propagation.TraceContext{}),
			otelgrpc.WithFilter(filters.Not(filters.HealthCheck())))))
	}
	return options
}

// addServices adds the services of the API for which the options have a keeper.
func (s *Server) addServices(o *Options) {
	at := render.Stamp{Epoch: o.Service.Epoch()}
	s.pages = rpc.Pager(crand.Text())
	if o.Store != nil {
		s.pages = o.Store.Secret()
	}
	live := &rpc.Streams{Draining: s.draining, Quota: s.quota, Space: o.Service.Space}
	registry := s.metrics.registry
	var reported render.Changes
	if o.Reports != nil {
		reported = o.Reports
		s.metric = metric.New(metric.Config{Controller: o.Service, Reports: o.Reports, Pages: s.pages, Quota: s.quota,
			Streams: live, Now: o.Now})
		s.metric.Register(s.grpc, registry)
	}
	var workloads explain.Workloads
	if o.Workloads != nil {
		workloads = o.Workloads
		s.workload = workload.New(workload.Config{Controller: o.Service, Workloads: o.Workloads, Stamp: at,
			Pages: s.pages,
			Quota: s.quota, Draining: s.draining})
		s.workload.Register(s.grpc)
	}
	if o.Studies != nil {
		s.study = study.New(study.Config{Controller: o.Service, Studies: o.Studies, Workloads: o.Workloads,
			Evaluators: o.Evaluators, Stamp: at, Pages: s.pages})
		s.study.Register(s.grpc)
	}
	s.tuning = tuning.New(tuning.Config{Controller: o.Service, Registrations: &registration.Reader{Builtins: o.Builtins,
		Simulation: o.Simulation, CheckEnergy: o.Service.CheckEnergy}, Reports: reported, Stamp: at, Pages: s.pages,
		Quota: s.quota, Streams: live})
	s.tuning.Register(s.grpc, registry)
	s.config = config.New(config.Config{Controller: o.Service, Reports: reported, Stamp: at, Pages: s.pages,
		Quota:    s.quota,
		Draining: s.draining, PollAfter: o.PollAfter, Jitter: o.Jitter})
	s.config.Register(s.grpc, registry)
	s.waste = waste.New(waste.Config{Controller: o.Service, Samples: o.Samples, Findings: o.Findings, Pages: s.pages,
		Quota: s.quota, Now: o.Now})
	s.waste.Register(s.grpc, registry)
	s.operation = operation.New(operation.Config{Controller: o.Service, Studies: o.Studies, Stamp: at, Pages: s.pages,
		Draining: s.draining})
	s.operation.Register(s.grpc)
	s.explain = explain.New(explain.Config{Controller: o.Service, Workloads: workloads, Pages: s.pages})
	s.explain.Register(s.grpc)
	jobs := job.Config{Controller: o.Service, Pages: s.pages}
	if o.Samples != nil {
		jobs.Samples = o.Samples
	}
	if o.Findings != nil {
		jobs.Findings = o.Findings
	}
	job.New(jobs).Register(s.grpc)
	s.admin = admin.New(admin.Config{Controller: o.Service, Store: o.Store, Access: o.Access, Log: o.Log,
		Samples: o.Samples,
		Pages:   s.pages,
		Version: o.Build["version"]})
	s.admin.Register(s.grpc)
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	if !rpc.Rebuilt(s.service) {
		s.health.SetServingStatus(pb.TuningService_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_NOT_SERVING)
	}
}

// Forget drops the metrics and quotas of a purged scheduler.
func (s *Server) Forget(id string) {
	s.tuning.Forget(id)
	s.config.Forget(id)
	s.waste.Forget(id)
	if s.metric != nil {
		s.metric.Forget(id)
	}
	s.quota.Forget(id)
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
	l = netutil.LimitListener(l, MaxConnections)
	if s.gated {
		l = localListener{l, forward.FromGate()}
	}
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
	_ = s.web.relay.close() // of a connection that the server closed
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
		*err = status.Error(codes.Internal, rpc.InternalText)
	}
}
