package node

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/rest"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/service"
)

// webServer answers probes and metrics of the node, and passes all else on to the leader.
func (n *node) webServer() *http.Server {
	own := prometheus.NewRegistry()
	own.MustRegister(n.metrics, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	alone := promhttp.HandlerFor(own, promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", n.ready)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		switch err := n.mayRead(r); {
		case n.lease.valid() && n.serving.Load():
			n.front.ServeHTTP(w, r) // the service has the metrics of its node, too
		case err != nil:
			rest.Error(w, 0, rpc.Status(err))
		default:
			alone.ServeHTTP(w, r)
		}
	})
	mux.Handle("/", n.front)
	return service.NewWebServer(mux, n.o.Log.With(slog.String("node", n.o.Name)))
}

// mayRead refuses a request of a caller whose role does not read.
func (n *node) mayRead(r *http.Request) error {
	by, err := access.NewCredential(r.TLS, strings.Join(r.Header.Values("Authorization"), ","))
	if err != nil {
		return err
	}
	c, err := n.o.Access.Identify(by)
	if err == nil && !slices.Contains([]access.Role{access.Viewer, access.Operator, access.Admin}, c.Role) {
		err = fmt.Errorf("%w: %s has role %s, which may not read metrics", access.ErrRole, c.Name, c.Role)
	}
	return err
}

// ready answers whether calls are answered, by which node, and how far the copy of this one is behind.
func (n *node) ready(w http.ResponseWriter, _ *http.Request) {
	r, _, ok := n.lease.leader()
	role, name, first, code := "follower", r.Node, "ok: calls are forwarded", http.StatusOK
	switch {
	case n.lease.valid() && n.serving.Load():
		role, first = "leader", "ok: configurations are served"
	case n.lease.valid():
		role, first, code = "leader", "not ready: the service starts", http.StatusServiceUnavailable
	case !ok:
		name, first, code = "none", "not ready: no node leads", http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	lag := "unknown"
	if writes, known := n.o.Lag(); known && name != "none" {
		lag = fmt.Sprint(writes)
	}
	fmt.Fprintf(w, "%s\nnode: %s\nrole: %s\nleader: %s\nterm: %d\nlag: %s\n", first, n.o.Name, role, name, r.Term, lag)
}

// metrics are those of a node, beside those of the service that it leads.
type metrics struct{ all []prometheus.Collector }

func newMetrics(n *node) *metrics {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "autosched_node_" + name, Help: help}, value)
	}
	return &metrics{[]prometheus.Collector{
		gauge("leading", "1 while this node leads the service.", func() float64 {
			if n.lease.valid() {
				return 1
			}
			return 0
		}),
		gauge("term", "Term of the newest lease that this node has seen.", func() float64 {
			r, _, _ := n.lease.leader()
			return float64(r.Term)
		}),
		gauge("lease_seconds", "Time since this node saw the lease renewed.", func() float64 {
			_, age, _ := n.lease.leader()
			return age.Seconds()
		}),
		gauge("lag", "Writes that the copy of the store of this node lacks; NaN while that is not known.",
			func() float64 {
				if writes, known := n.o.Lag(); known {
					return float64(writes)
				}
				return math.NaN()
			}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "autosched_node_takeovers_total",
			Help: "Terms that this node has led."}, func() float64 { return float64(n.led.Load()) }),
	}}
}

// Describe and Collect implement [prometheus.Collector].
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(out)
	}
}

func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(out)
	}
}
