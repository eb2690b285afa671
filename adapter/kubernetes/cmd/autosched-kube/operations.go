package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/autosched/autosched/adapter/kubernetes/apply"
	"github.com/autosched/autosched/adapter/kubernetes/events"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/cli"
)

// operations answers probes and metrics.
type operations struct {
	registry *prometheus.Registry
	mode     *prometheus.GaugeVec
	lease    prometheus.Gauge
	outcomes *prometheus.CounterVec
	watcher  atomic.Pointer[events.Watcher] // nil before the first watch
	watched  []prometheus.Collector         // of it
	driver   atomic.Pointer[apply.Driver]   // nil while nothing is put in force
	listener net.Listener                   // nil if none is wanted
	server   http.Server
}

// listen opens the address of --operations.
func (o *runOptions) listen() (*operations, error) {
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "autosched_build_info",
		Help: "1, with the version of the program as labels.", ConstLabels: cli.Built().Labels()})
	info.Set(1)
	out := &operations{registry: prometheus.NewRegistry(), mode: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "autosched_kube_mode", Help: "1 for the mode of the adapter: observe, recommend or apply."},
		[]string{"mode"}),
		lease: prometheus.NewGauge(prometheus.GaugeOpts{Name: "autosched_kube_lease",
			Help: "1 while the adapter holds the lease of --lease-namespace."}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "autosched_kube_applied_total",
			Help: "Configurations that were to be put in force, by outcome: applied, refused or failed."},
			[]string{"outcome"})}
	out.registry.MustRegister(info, out.mode, out.lease, out.outcomes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "autosched_kube_level", Help: "How far the configuration last applied is known to have come: 1 stored by " +
			"the API server, 2 accepted by the scheduler, 3 in force; 0 if nothing is known."}, out.level))
	if o.operations == "" {
		return out, nil
	}
	l, err := net.Listen("tcp", o.operations)
	if err != nil {
		return nil, fmt.Errorf("--operations: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(out.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", out.ready)
	out.listener = l
	out.server = http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return out, nil
}

// serve answers until it is closed.
func (o *operations) serve(log *slog.Logger) {
	if o.listener == nil {
		return
	}
	log.Info("answering /metrics, /healthz and /readyz", "address", o.listener.Addr().String())
	if err := o.server.Serve(o.listener); !errors.Is(err, http.ErrServerClosed) {
		log.Error("/metrics, /healthz and /readyz are not answered", "err", err)
	}
}

// Close ends serve.
func (o *operations) Close() { _ = o.server.Close() }

// ready answers whether all objects are watched.
func (o *operations) ready(w http.ResponseWriter, _ *http.Request) {
	err := errors.New("waiting for the service and the cluster")
	if watcher := o.watcher.Load(); watcher != nil {
		err = watcher.Ready()
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok: the cluster is watched")
}

func (o *operations) level() float64 {
	if d := o.driver.Load(); d != nil {
		return float64(d.Level())
	}
	return 0
}

// applied logs and counts the outcomes of configurations.
func (o *operations) applied(log *slog.Logger) func(*pb.Configuration, error) {
	logged := cli.LogApplied(log)
	return func(c *pb.Configuration, err error) {
		outcome := "applied"
		if errors.Is(err, client.ErrRefused) {
			outcome = "refused"
		} else if err != nil {
			outcome = "failed"
		}
		o.outcomes.WithLabelValues(outcome).Inc()
		logged(c, err)
	}
}

// watch adds the metrics of a watcher and its client, in place of an earlier one's.
func (o *operations) watch(w *events.Watcher, c *client.Client) {
	o.watcher.Store(w)
	s := w.Stats()
	for _, former := range o.watched {
		o.registry.Unregister(former)
	}
	o.watched = nil
	add := func(m prometheus.Collector) {
		o.registry.MustRegister(m)
		o.watched = append(o.watched, m)
	}
	count := func(name, help string, f func() float64) {
		add(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, f))
	}
	gauge := func(name, help string, f func() float64) {
		add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	count("autosched_kube_events_total", "Events of jobs and nodes that were derived.",
		func() float64 { return float64(s.Events.Load()) })
	count("autosched_kube_events_rejected_total", "Events that the service rejected.",
		func() float64 { return float64(c.Counts().Rejected) })
	count("autosched_kube_lists_total", "Lists of objects: one of each resource at the start, then after lost watches.",
		func() float64 { return float64(s.Lists.Load()) })
	count("autosched_kube_faults_total", "Calls of the API server that failed.",
		func() float64 { return float64(s.Faults.Load()) })
	count("autosched_kube_unread_objects_total", "Objects that were not understood.",
		func() float64 { return float64(s.Unread.Load()) })
	gauge("autosched_kube_events_waiting", "Events that the service has not stored yet.",
		func() float64 { return float64(c.Counts().Waiting) })
	gauge("autosched_kube_latest_event_seconds", "When the latest event happened, Unix time.",
		func() float64 { return float64(s.Latest.Load()) })
	gauge("autosched_kube_watching", "1 if all objects are watched.", func() float64 {
		if w.Ready() != nil {
			return 0
		}
		return 1
	})
}
