// Package service assembles the service from its parts and runs them: the access files, the controller, the keepers
// of records, the API, and the agents that are called. Run has the list of tasks.
package service

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"

	"github.com/autosched/autosched/adapter/push"
	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/api/server/study"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/reports"
	"github.com/autosched/autosched/service/samples"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/service/workloads"
)

// Options of a service. Dir, Store, Controller, Server, Access, Listen, Drain and Log are required.
type Options struct {
	Dir   string        // of all records
	Store store.Options // of Dir
	// Open opens the store of all records but telemetry and findings; if nil, that in Dir.
	Open       func(store.Options) (Store, error)
	Controller controller.Options // without Store
	Server     server.Options     // without the parts that Run makes
	Access     *access.Source
	// Listen opens the listener of the API, Web that of HTTP; nil serves none.
	Listen, Web func() (net.Listener, error)
	Agents      []push.Agent // to call
	Evaluators  map[string]study.Evaluator
	Findings    Findings
	// Drain bounds the time of calls and rounds under way after the context of Run ends.
	Drain time.Duration
	Log   *slog.Logger
	// Metrics are served beside the service's own.
	Metrics []prometheus.Collector
	// Notify receives READY=1 once all parts run and STOPPING=1 before any is stopped; not called if nil.
	Notify func(state string) error
}

// Store keeps the records of the service except telemetry and findings.
type Store interface {
	controller.Store
	studies.Store
	reports.Store
	workloads.Store
	server.Store
	// Room runs a write of other files of its file system, which must leave room for changes.
	Room(write func() error) error
	// NewEpoch returns why a new epoch began when the store was opened, "" if none did.
	NewEpoch() string
	Close() error
}

// Findings are the options of package findings and of the parts that act on findings.
type Findings struct {
	Rules *patterns.RuleSet // the built-in ones if nil
	Price func() float64    // of a GPU-hour in any currency; 0 if it is unknown
	// RoundsEvery is the least time between rounds of a scheduler that findings bring forward; 0 for no such rounds.
	RoundsEvery time.Duration
	Webhook     string // URL that receives notices; empty for none
}

// Evaluations returns the directory of the jobs that evaluators measure on, which a restart empties.
func (o *Options) Evaluations() string { return filepath.Join(o.Dir, store.EvaluationsFolder) }

// maxWeb bounds the connections by HTTP.
const maxWeb = 1000

// service is a service whose parts are made.
type service struct {
	o          Options
	log        *slog.Logger
	began      time.Time
	store      Store
	samples    *samples.Store
	controller *controller.Service
	workloads  *workloads.Keeper
	studies    *studies.Service
	reports    *reports.Keeper
	findings   *findings.Keeper
	rounds     *findings.Rounds     // nil for none
	webhook    *findings.Webhook    // nil for none
	registry   *prometheus.Registry // of all metrics
	server     *server.Server
	listener   net.Listener
	web        net.Listener // nil for none

	deadline context.Context // of calls and rounds under way at a stop
	cut      context.CancelFunc
}

// Run serves until the context ends or a part fails. The data of its directory are closed when it returns.
func Run(ctx context.Context, o Options) (err error) {
	if limit := memoryLimit(os.DirFS("/")); os.Getenv("GOMEMLIMIT") == "" && limit < math.MaxInt64 {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit / 10 * 9)) // the rest is not the collector's
	}
	s, err := open(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := run(ctx, s.tasks()); err != nil {
		return err
	}
	s.log.Info("stopped")
	return nil
}

// tasks lists all that runs in the service, in the order of the start. A part is stopped after the parts below it,
// which use it, have ended.
func (s *service) tasks() []task {
	all := []task{
		{"access files", s.o.Access.Run},
		{"controller", s.runController},
		{"workloads", until(s.workloads.Close)},
		{"reports", until(s.reports.Close)},
		{"studies", s.studies.Run},
	}
	if s.webhook != nil {
		all = append(all, task{"webhook", s.webhook.Run})
	}
	if s.rounds != nil {
		all = append(all, task{"rounds on findings", s.rounds.Run})
	}
	all = append(all, task{"findings", s.runFindings})
	if s.web != nil {
		all = append(all, task{"web", s.serveWeb})
	}
	all = append(all,
		task{"api", s.serveAPI},
		task{"rounds", until(s.controller.StopRounds)}, // cancelled first: the controller waits for them
	)
	if len(s.o.Agents) > 0 {
		all = append(all, task{"agents", s.callAgents})
	}
	return append(all, task{"notices", s.announce})
}

// hooks connects the controller with the keepers.
func (s *service) hooks() controller.Hooks {
	return controller.Hooks{Events: s.findings.Events, Look: s.findings.Look, Trials: s.studies.Trials,
		Purged: func(id string) {
			s.studies.Forget(id)
			s.workloads.Forget(id)
			s.reports.Forget(id)
			if err := s.samples.Forget(id); err != nil {
				s.log.Error("the telemetry of a purged scheduler is left", "scheduler", id, "err", err)
			}
			if err := s.findings.Forget(id); err != nil {
				s.log.Error("the findings of a purged scheduler are left", "scheduler", id, "err", err)
			}
			s.server.Forget(id)
		}}
}

// leaveAfter is the time that the controller has to end once it is stopped, whatever the API took of the deadline.
const leaveAfter = time.Second

// runController leaves rounds that do not end before the deadline.
func (s *service) runController(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- s.controller.Run(ctx, s.hooks()) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-s.deadline.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(leaveAfter):
		s.log.Warn("leaving rounds that did not end in time")
		return nil
	}
}

func (s *service) runFindings(ctx context.Context) error {
	return s.findings.Run(ctx, &findings.Stored{Service: s.controller, Log: s.store, Kept: s.samples})
}

// serveAPI lets calls under way end until the deadline.
func (s *service) serveAPI(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.server.Serve(s.listener) }()
	select {
	case err := <-served:
		now, cancel := context.WithCancel(ctx)
		cancel()
		s.server.Shutdown(now)
		return err
	case <-ctx.Done():
	}
	s.server.Shutdown(s.deadline)
	return <-served
}

// NewWebServer returns a server of HTTP for callers.
func NewWebServer(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 64},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	if follower, ok := h.(interface {
		ConnState(c net.Conn, state http.ConnState)
	}); ok {
		s.ConnState = follower.ConnState
	}
	return s
}

// WebListener bounds the connections of callers by HTTP, and encrypts them if the access files say so.
func WebListener(l net.Listener, a *access.Source) net.Listener {
	l = netutil.LimitListener(l, maxWeb)
	if config := a.TLS("h2", "http/1.1"); config != nil {
		l = tls.NewListener(l, config)
	}
	return l
}

// serveWeb lets answers under way end until the deadline: the API, which the calls of HTTP go to, ended before.
func (s *service) serveWeb(ctx context.Context) error {
	web := NewWebServer(s.server.Web(), s.log)
	served := make(chan error, 1)
	go func() { served <- web.Serve(s.web) }()
	s.log.Info("answering HTTP: pages, /v1, /metrics, /healthz and /readyz", "address", s.web.Addr().String())
	select {
	case err := <-served: // of the listener: the API goes on
		s.log.Error("HTTP is not served", "err", err)
		<-ctx.Done()
	case <-ctx.Done():
	}
	_ = web.Shutdown(s.deadline) // of answers that take longer
	return web.Close()
}

// callAgents calls the agents as clients of the API.
func (s *service) callAgents(ctx context.Context) error {
	pusher, err := push.New(s.o.Agents, func(id string) (*grpc.ClientConn, error) {
		return s.server.Connect("push", id)
	}, s.log)
	if err != nil {
		return err
	}
	s.registry.MustRegister(pusher)
	pusher.Run(ctx)
	_ = pusher.Close()
	return nil
}

// announce notifies operators and systemd of the start and of the stop, with which the deadline begins.
func (s *service) announce(ctx context.Context) error {
	s.log.Info("serving", "address", s.listener.Addr().String(), "dir", s.o.Dir, "schedulers",
		len(s.controller.Schedulers("", 1<<30)), "took", time.Since(s.began).Round(time.Millisecond))
	if err := s.o.Notify("READY=1"); err != nil {
		s.log.Warn("systemd does not learn that the service is ready", "err", err)
	}
	<-ctx.Done()
	s.log.Info("stopping")
	_ = s.o.Notify("STOPPING=1") // it follows from the exit, too
	time.AfterFunc(s.o.Drain, s.cut)
	return nil
}

// open makes the parts of a service, and starts none.
func open(o Options) (s *service, err error) {
	if o.Notify == nil {
		o.Notify = func(string) error { return nil }
	}
	if o.Open == nil {
		o.Open = func(so store.Options) (Store, error) {
			dir, err := store.Open(o.Dir, so)
			if err != nil {
				return nil, err // not a Store of nil
			}
			return dir, nil
		}
	}
	s = &service{o: o, log: o.Log, began: time.Now()}
	s.deadline, s.cut = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.samples, err = samples.Open(filepath.Join(o.Dir, samples.Folder), samples.Options{Log: o.Log,
		Room:    func(write func() error) error { return s.store.Room(write) },
		Damaged: func(files int) { s.controller.NoteDamage(samples.Folder, files) }}); err != nil {
		return s, err
	}
	o.Store.Shed, o.Store.Log = s.samples.Shed, o.Log
	if s.store, err = o.Open(o.Store); err != nil {
		return s, err
	}
	if why := s.store.NewEpoch(); why != "" {
		s.log.Info("new epoch of the store", "why", why, "epoch", s.store.Epoch().Counter)
	}
	if err := os.RemoveAll(o.Evaluations()); err != nil { // a kill may have left jobs there
		return s, err
	}
	co := o.Controller
	co.Store = s.store
	if s.controller, err = controller.NewService(co); err != nil {
		return s, err
	}
	if s.workloads, err = workloads.New(workloads.Options{Store: s.store, Schedulers: s.controller,
		Log: o.Log}); err != nil {
		return s, err
	}
	if s.studies, err = studies.New(studies.Options{Store: s.store, Schedulers: s.controller, Log: o.Log,
		Evaluators: study.Measurers(o.Evaluators, s.workloads)}); err != nil {
		return s, err
	}
	if err = s.openFindings(); err != nil {
		return s, err
	}
	s.reports = reports.New(reports.Options{Store: s.store, Schedulers: s.controller, Log: o.Log})
	if s.listener, err = o.Listen(); err != nil {
		return s, err
	}
	if o.Web != nil {
		if s.web, err = o.Web(); err != nil {
			return s, err
		}
		if !o.Server.Forwarded {
			s.web = WebListener(s.web, o.Access)
		}
	}
	so := o.Server
	s.registry = prometheus.NewRegistry()
	s.registry.MustRegister(o.Metrics...)
	if s.webhook != nil {
		s.registry.MustRegister(s.webhook)
	}
	so.Registry, so.Service, so.Store, so.Evaluators = s.registry, s.controller, s.store, o.Evaluators
	so.Access, so.Log = o.Access, o.Log
	so.Studies, so.Samples, so.Findings, so.Reports, so.Workloads = s.studies, s.samples, s.findings, s.reports,
		s.workloads
	s.server = server.New(so)
	return s, nil
}

// close releases the files and listeners of open.
func (s *service) close() (err error) {
	s.cut()
	for _, l := range []net.Listener{s.listener, s.web} {
		if l != nil {
			_ = l.Close()
		}
	}
	if s.samples != nil {
		err = s.samples.Close()
	}
	if s.store != nil {
		err = errors.Join(err, s.store.Close())
	}
	return err
}
