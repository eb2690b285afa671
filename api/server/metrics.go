package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server/rpc"
)

// metrics are the metrics of the API, beside the service's own, in a registry of the server. Labels are methods, codes
// and registered schedulers, so requests cannot create new series.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec   // by method and code
	latency  *prometheus.HistogramVec // of unary requests, by method
}

func newMetrics(o *Options) *metrics {
	m := &metrics{
		registry: cmp.Or(o.Registry, prometheus.NewRegistry()),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "autosched_rpc_requests_total",
			Help: "Requests that ended, by method and gRPC code; a stream is one request.",
		}, []string{"method", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "autosched_rpc_duration_seconds", Help: "Latency of unary requests.", Buckets: rpc.Buckets,
		}, []string{"method"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "autosched_build_info",
		Help: "1, with the version of the program as labels.", ConstLabels: o.Build})
	info.Set(1)
	m.registry.MustRegister(
		m.requests, m.latency, info, o.Service,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// addAccess adds whether the access files are as they should be.
func (m *metrics) addAccess(a *access.Source) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "autosched_access_files_stale",
		Help: "1 if a file of certificates or roles is wrong, so that its former content is in force.",
	}, func() float64 {
		if a.Stale() {
			return 1
		}
		return 0
	}))
}

// unary counts and times a request.
func (m *metrics) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	start, method := time.Now(), path.Base(info.FullMethod)
	resp, err := handle(ctx, req)
	m.requests.WithLabelValues(method, status.Code(err).String()).Inc()
	m.latency.WithLabelValues(method).Observe(time.Since(start).Seconds())
	return resp, err
}

// stream counts a stream when it ends. How long it was open is the client's choice.
func (m *metrics) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
	handle grpc.StreamHandler) error {
	err := handle(srv, stream)
	m.requests.WithLabelValues(path.Base(info.FullMethod), status.Code(err).String()).Inc()
	return err
}

// addOperations adds the pages for operators: /metrics and the probes.
func (h *web) addOperations(mux *http.ServeMux) {
	s := h.server
	mux.Handle("GET /metrics", h.readers(promhttp.HandlerFor(s.metrics.registry,
		promhttp.HandlerOpts{Registry: s.metrics.registry})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { s.ready(w, nil) })
	tuning := []string{"start", "changes", "ingest"}
	mux.HandleFunc("GET /readyz/tuning", func(w http.ResponseWriter, _ *http.Request) { s.ready(w, tuning) })
}

// ready answers whether the service does its work: it fails if one of the checks named is not OK. Anybody may ask, so
// the findings are not part of the answer.
func (s *Server) ready(w http.ResponseWriter, needed []string) {
	select {
	case <-s.draining:
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
		return
	default:
	}
	code, lines := http.StatusOK, []string{"ok: configurations are served"}
	for _, c := range s.admin.Checks(time.Now()) {
		if c.GetStatus() == pb.Check_OK {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %s", strings.ToLower(c.GetStatus().String()), readyText[c.GetCheck()]))
		if slices.Contains(needed, c.GetCheck()) {
			code, lines[0] = http.StatusServiceUnavailable, "not ready"
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, strings.Join(lines, "\n"))
}

// readyText describes a check that is not OK.
var readyText = map[string]string{
	"start":      "the stored events are being read",
	"changes":    "changes of configurations cannot be stored",
	"ingest":     "events cannot be stored",
	"files":      "files of events or telemetry are damaged",
	"disk":       "the disk is nearly full",
	"schedulers": "schedulers are quarantined",
	"rounds":     "rounds fail",
	"access":     "a file of certificates or roles is wrong, or a certificate expires",
}
