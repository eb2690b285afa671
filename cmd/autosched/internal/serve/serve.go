// Package serve has the service and the commands of its administrator.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/autosched/autosched/adapter/evaluator"
	"github.com/autosched/autosched/adapter/push"
	"github.com/autosched/autosched/api/access"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/api/server/rpc"
	"github.com/autosched/autosched/api/server/study"
	apiclient "github.com/autosched/autosched/client"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service"
	kept "github.com/autosched/autosched/service/findings"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/web"
)

type serveOptions struct {
	settings   cli.SettingsFlags
	dir        string
	cluster    string // file of a node of several, "" for one process
	startAnew  bool
	newEpoch   bool
	listen     string
	operations string
	workers    int
	limits     rpc.Limits
	roundLimit time.Duration
	pollAfter  time.Duration
	drain      time.Duration
	log        cli.LogFlags
	traces     traceFlags
	protect    cli.ProtectFlags
	access     cli.ServeAccess
	agents     string // file of agents
	evaluators string // file of evaluators
	energy     string // file of energy.Files
	// findingsRounds is the least time between rounds that findings bring forward; 0 for none.
	findingsRounds time.Duration
	webhook        string // for notices of findings
	findingsRules  string // file of rules, the built-in ones if empty
	findingsPrice  float64
	keepRounds     int
	retain         time.Duration
	retainAudit    time.Duration
	decide         round.DecideFunc // nil for the product's
	now            func() time.Time // names segments of events; nil for time.Now
}

func newServeCmd() *cobra.Command {
	cmd, _ := serveCommand()
	return cmd
}

func serveCommand() (*cobra.Command, *serveOptions) {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service: ingest events, tune, and publish configurations",
		Long: `Serves the gRPC API (autosched.v1, with health checks and reflection). Schedulers
register, stream their job events, and poll or watch the configuration to run.
When a scheduler's event time passes its update interval, a tuning round decides:
a better configuration is proposed (mode recommend) or offered to the scheduler
(mode auto).

One directory holds all state: config.db with schedulers, configurations, acknowledgements
and audit log, rounds.db, reports.db with the metrics that schedulers report, workloads.db
with the jobs of workloads, one events-YYYYMMDD.db a day, and the telemetry of GPUs in the
folder telemetry. One process opens it at a time. With --retain it drops old event files,
and checkpoint-YYYYMMDD.db holds what is still needed of them.

How rounds simulate a scheduler belongs to its registration. --max-preemptions
and --min-run are recorded for registrations without their own.

With --operations it serves HTTP on another address, to the same callers: the
dashboard at /, the API as JSON (/v1, /openapi.json), /session for the sign-in of
browsers, /metrics for Prometheus, /healthz while the process lives, /readyz until
it stops, /readyz/tuning once the stored events are read. Configurations are
served before.

On a loopback address, connections need be neither encrypted nor authenticated.
Elsewhere they need TLS 1.3 (--tls-cert, --tls-key) and --roles, which names the
callers, by client certificate (--client-ca) or token, and what each may do.
'autosched admin certs DIR' makes these files for a start. They are read again when
they change; a bad one is logged, and the former stays in force.

--settings FILE takes flags from a YAML file, which is checked whole before anything
starts ('--check-settings' stops after that). A flag counts more than the file.

SIGINT or SIGTERM stops: health checks say NOT_SERVING, rounds are cancelled, streams
end, and calls under way get --drain to finish. A second signal ends it at once.`,
		Example: `  autosched serve --dir data
  autosched serve --dir data --listen 127.0.0.1:7443 --operations 127.0.0.1:9443
  autosched serve --settings serve.yaml --check-settings
  autosched serve --dir data --listen 0.0.0.0:7443 --tls-cert pki/server.pem --tls-key pki/server.key \
      --client-ca pki/ca.pem --roles pki/roles.yaml
  autosched scheduler register --builtin tiresias --nodes 20 --gpus-per-node 8 --mode auto
  autosched scheduler config watch tiresias`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.settings.Run(cmd, func() error { return o.named(o.check()) },
				func() error { return o.named(o.read()) },
				func() error { return o.run(cmd.Context(), o.log.Logger(cmd.ErrOrStderr())) })
		},
	}
	fl := cmd.Flags()
	o.settings.Add(cmd)
	fl.StringVar(&o.dir, "dir", "", "")
	fl.StringVar(&o.cluster, "cluster", "",
		"YAML file of a node of a service of several, beside which --dir has its telemetry and findings (docs/nodes.md)")
	fl.BoolVar(&o.startAnew, "start-anew", false,
		"if config.db is lost, empty or cannot be read, set it and the event files aside and start with no schedulers")
	fl.BoolVar(&o.newEpoch, "new-epoch", false,
		"begin a new epoch of the store, after a snapshot of its volume was brought back: schedulers read again what to run")
	fl.StringVar(&o.listen, "listen", cli.DefaultAddress, "")
	fl.StringVar(&o.operations, "operations", "",
		"address to answer HTTP on: the dashboard, the API as JSON, /metrics for Prometheus, /healthz, /readyz (default: none)")
	fl.IntVar(&o.workers, "workers", 0, "")
	fl.DurationVar(&o.roundLimit, "round-limit", controller.DefaultRoundLimit,
		"time after which a round ends and what runs is kept; waiting for others does not count")
	fl.IntVar(&o.keepRounds, "keep-rounds", controller.DefaultKeepRounds,
		"rounds to keep of each scheduler, for 'autosched scheduler rounds' and 'autosched admin replay'; 0 keeps none")
	fl.DurationVar(&o.retain, "retain", 0, fmt.Sprintf(
		"time after which events are dropped, at least %v, such as 1440h, but for what is needed of them; 0 keeps all",
		controller.MinRetain))
	fl.DurationVar(&o.retainAudit, "retain-audit", 0, "time after which records of the audit log are dropped; 0 keeps all")
	fl.DurationVar(&o.pollAfter, "poll-after", 30*time.Second, "delay between polls that schedulers are asked for")
	fl.DurationVar(&o.drain, "drain", 10*time.Second, "how long calls under way may take when the service stops")
	o.log.Add(cmd)
	fl.StringVar(&o.agents, "agents", "",
		"YAML file of schedulers to call, which implement SchedulerAgent: their addresses (docs/clients.md)")
	fl.StringVar(&o.evaluators, "evaluators", "",
		"YAML file of what measures the trials of studies: commands and services (docs/studies.md)")
	fl.StringVar(&o.energy, "energy-file", "",
		"YAML file that names the power model, prices and carbon intensities, for objectives that count energy (docs/energy.md)")
	fl.DurationVar(&o.findingsRounds, "findings-rounds", kept.DefaultRoundsEvery,
		"least time of events between rounds of a scheduler that findings bring forward (docs/patterns.md); 0: none are")
	fl.StringVar(&o.findingsRules, "findings-rules", "",
		"YAML file of rules to look for patterns by, in place of the built-in ones (docs/patterns.md)")
	fl.Float64Var(&o.findingsPrice, "findings-price", 0,
		"price of a GPU-hour for the cost of findings, in any currency (0: gpu_hour_price of the power model of --energy-file)")
	fl.StringVar(&o.webhook, "findings-webhook", "",
		"URL to post findings to as JSON when they open and close (docs/patterns.md)")
	o.traces.add(cmd)
	o.protect.Add(cmd)
	o.access.Add(cmd)
	o.limits = rpc.DefaultLimits()
	for _, l := range limitFlags {
		fl.IntVar(l.of(&o.limits), l.name, *l.of(&o.limits), l.usage+"; 0: no limit")
	}
	return cmd, &o
}

type limitFlag struct {
	name  string
	of    func(*rpc.Limits) *int
	usage string
}

// limitFlags bound the use of the service by callers and schedulers.
var limitFlags = []limitFlag{
	{"limit-schedulers", func(l *rpc.Limits) *int { return &l.Schedulers }, "most registered schedulers"},
	{"limit-schedulers-per-caller", func(l *rpc.Limits) *int { return &l.SchedulersPerCaller },
		"most schedulers registered by one caller"},
	{"limit-events", func(l *rpc.Limits) *int { return &l.Events }, "most events per second of one scheduler"},
	{"limit-events-per-caller", func(l *rpc.Limits) *int { return &l.EventsPerCaller },
		"most events per second of one caller"},
	{"limit-samples", func(l *rpc.Limits) *int { return &l.Samples },
		"most samples of GPUs and training steps per second of one scheduler"},
	{"limit-acknowledgements", func(l *rpc.Limits) *int { return &l.Acknowledgements },
		"most acknowledgements per second of one scheduler"},
	{"limit-streams", func(l *rpc.Limits) *int { return &l.Streams }, "most open event streams of one scheduler"},
	{"limit-streams-per-caller", func(l *rpc.Limits) *int { return &l.StreamsPerCaller },
		"most open event streams of one caller"},
	{"limit-watches", func(l *rpc.Limits) *int { return &l.Watches }, "most open watches of one scheduler"},
	{"limit-watches-per-caller", func(l *rpc.Limits) *int { return &l.WatchesPerCaller },
		"most open watches of one caller"},
	{"limit-requests", func(l *rpc.Limits) *int { return &l.Requests }, "most requests per second of one caller"},
	{"limit-message", func(l *rpc.Limits) *int { return &l.Message }, "largest request in bytes"},
}

// read reads the files that the settings name.
func (o *serveOptions) read() error {
	_, agents := o.readAgents()
	_, _, evaluators := o.openEvaluators("")
	_, tariff := o.openEnergy(slog.New(slog.DiscardHandler))
	_, rules := cli.ReadRules("--findings-rules", o.findingsRules, nil)
	return cmp.Or(o.access.Readable(), agents, evaluators, tariff, rules)
}

// named adds the name of the file of settings to an error in them.
func (o *serveOptions) named(err error) error {
	if err == nil || o.settings.Path == "" {
		return err
	}
	return cli.Usage(fmt.Errorf("with --settings %s: %w", o.settings.Path, err))
}

func (o *serveOptions) check() error {
	switch {
	case o.dir == "" && o.cluster == "":
		return cli.Usage(errors.New("--dir is missing: name the directory of the service's data"))
	case o.limits.Message == 0:
		return cli.Usage(errors.New("--limit-message: 0 is no limit of a message: name one in bytes"))
	case slices.ContainsFunc(limitFlags, func(l limitFlag) bool { return *l.of(&o.limits) < 0 }):
		return cli.Usage(errors.New("--limit-...: a limit is negative: 0 is no limit"))
	case o.workers < 0:
		return cli.Usage(fmt.Errorf("--workers: %d is negative", o.workers))
	case o.roundLimit < time.Second:
		return cli.Usage(fmt.Errorf("--round-limit: %v is less than 1s", o.roundLimit))
	case o.keepRounds < 0:
		return cli.Usage(fmt.Errorf("--keep-rounds: %d is negative", o.keepRounds))
	case o.retain != 0 && o.retain < controller.MinRetain:
		return cli.Usage(fmt.Errorf("--retain: %v is less than %v, which rounds need; 0 keeps all events", o.retain,
			controller.MinRetain))
	case o.retainAudit != 0 && o.retainAudit < 24*time.Hour:
		return cli.Usage(fmt.Errorf("--retain-audit: %v is less than a day; 0 keeps all records", o.retainAudit))
	case o.pollAfter < time.Second:
		return cli.Usage(fmt.Errorf("--poll-after: %v is less than 1s", o.pollAfter))
	case o.findingsRounds < 0:
		return cli.Usage(fmt.Errorf("--findings-rounds: %v is negative; 0 is none", o.findingsRounds))
	case !(o.findingsPrice >= 0 && o.findingsPrice < 1e9):
		return cli.Usage(fmt.Errorf("--findings-price: %g is not from 0 to 1e9", o.findingsPrice))
	case o.drain <= 0:
		return cli.Usage(fmt.Errorf("--drain: %v is not positive", o.drain))
	}
	if o.cluster != "" {
		if err := o.checkCluster(); err != nil {
			return err
		}
	}
	if err := kept.CheckURL(o.webhook); o.webhook != "" && err != nil {
		return cli.Usage(fmt.Errorf("--findings-webhook: %w", err))
	}
	if _, err := o.protect.Protection(); err != nil {
		return err
	}
	if err := o.log.Check(); err != nil {
		return err
	}
	if err := o.traces.check(); err != nil {
		return err
	}
	if err := o.access.Check(); err != nil {
		return err
	}
	if err := o.access.PermitsAddress("--listen", o.listen); err != nil || o.operations == "" {
		return err
	}
	return o.access.PermitsAddress("--operations", o.operations)
}

// readAgents reads the agents to call; none without a file.
func (o *serveOptions) readAgents() ([]push.Agent, error) {
	if o.agents == "" {
		return nil, nil
	}
	agents, err := push.ReadAgents(o.agents)
	if err != nil {
		return nil, fmt.Errorf("--agents: %w", err)
	}
	return agents, nil
}

// openEvaluators reads the evaluators and makes them ready, with a directory for the jobs that they measure on; none
// without a file. Close closes them.
func (o *serveOptions) openEvaluators(jobs string) (all map[string]study.Evaluator, close func(), err error) {
	close = func() {}
	if o.evaluators == "" {
		return nil, close, nil
	}
	list, err := evaluator.Read(o.evaluators)
	if err != nil {
		return nil, close, fmt.Errorf("--evaluators: %w", err)
	}
	close = func() {
		for _, e := range list {
			_ = e.Close()
		}
	}
	all = map[string]study.Evaluator{}
	for _, e := range list {
		e.Jobs = jobs
		if err := e.Open(); err != nil {
			close()
			return nil, func() {}, fmt.Errorf("--evaluators: %s: %s: %w", o.evaluators, e.ID, err)
		}
		all[e.ID] = e
	}
	return all, close, nil
}

// openEnergy reads the power model, prices and carbon intensities; nil without a file.
func (o *serveOptions) openEnergy(log *slog.Logger) (func() *energy.Tariff, error) {
	if o.energy == "" {
		return nil, nil
	}
	source, err := energy.OpenSource(o.energy, log)
	if err != nil {
		return nil, fmt.Errorf("--energy-file: %w", err)
	}
	return source.Tariff, nil
}

// gpuHourPrice is the price of a GPU-hour in findings.
func (o *serveOptions) gpuHourPrice(tariff func() *energy.Tariff) func() float64 {
	return func() float64 {
		if o.findingsPrice > 0 || tariff == nil {
			return o.findingsPrice
		}
		return tariff().Assumptions.GPUHourPrice()
	}
}

// run serves until the context ends or serving fails.
func (o *serveOptions) run(ctx context.Context, log *slog.Logger) error {
	if o.cluster != "" {
		return o.runNode(ctx, log)
	}
	so, err := o.service(log)
	if err != nil {
		return err
	}
	var closeEvaluators func()
	if so.Evaluators, closeEvaluators, err = o.openEvaluators(so.Evaluations()); err != nil {
		return err
	}
	defer closeEvaluators()
	spans, end, err := o.spans(ctx, log)
	if err != nil {
		return err
	}
	defer end()
	spans(&so)
	return service.Run(ctx, so)
}

// spans returns a function that has a service send its spans, and one that sends the last ones.
func (o *serveOptions) spans(ctx context.Context, log *slog.Logger) (set func(*service.Options), end func(),
	err error) {
	traces, err := o.traces.provider(ctx, log)
	if err != nil || traces == nil {
		return func(*service.Options) {}, func() {}, err
	}
	return func(so *service.Options) { so.Controller.Tracer, so.Server.Traces = traces.Tracer("autosched"), traces },
		func() {
			deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceFlush)
			defer cancel()
			_ = traces.Shutdown(deadline) // logged by its error handler
		}, nil
}

// service is the service that the flags describe, without its evaluators and traces.
func (o *serveOptions) service(log *slog.Logger) (so service.Options, err error) {
	so = service.Options{Dir: o.dir, Drain: o.drain, Log: log, Notify: notify,
		Store: store.Options{StartAnew: o.startAnew, NewEpoch: o.newEpoch, Now: o.now},
		Controller: controller.Options{Decide: o.decide, Workers: o.workers, KeepRounds: o.keepRounds, Retain: o.retain,
			RetainAudit: o.retainAudit, RoundLimit: o.roundLimit, Log: log},
		Server: server.Options{Builtins: cli.Builtins(), PollAfter: o.pollAfter, Build: cli.Built().Labels(),
			Limits:     o.limits,
			Simulation: controller.Simulation{MaxPreemptions: o.protect.MaxPreemptions, MinRun: o.protect.MinRun}},
		Findings: service.Findings{RoundsEvery: o.findingsRounds, Webhook: o.webhook},
		Listen:   func() (net.Listener, error) { return o.access.Listen("--listen", o.listen) }}
	if o.operations != "" {
		so.Server.Pages = web.Handler()
		so.Web = func() (net.Listener, error) { return o.access.Listen("--operations", o.operations) }
	}
	if o.decide == nil {
		so.Controller.Decide = round.DecideOnline
	}
	if o.keepRounds == 0 {
		so.Controller.KeepRounds = -1
	}
	if so.Agents, err = o.readAgents(); err != nil {
		return so, err
	}
	if so.Controller.Energy, err = o.openEnergy(log); err != nil {
		return so, err
	}
	so.Findings.Price = o.gpuHourPrice(so.Controller.Energy)
	if so.Findings.Rules, err = cli.ReadRules("--findings-rules", o.findingsRules, nil); err != nil {
		return so, err
	}
	so.Access, err = access.Open(o.access.Files, access.Options{Log: log})
	return so, err
}

// traceFlush is how long the last spans may take when the service stops.
const traceFlush = 2 * time.Second

// traceFlags say where traces go.
type traceFlags struct {
	endpoint string
	ratio    float64
}

func (f *traceFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.endpoint, "otlp-endpoint", "",
		"URL of an OpenTelemetry collector of traces, OTLP over gRPC; https, or http to loopback (default: none)")
	fl.Float64Var(&f.ratio, "otlp-ratio", 1, "share of traces that are sent, unless the caller says")
}

func (f *traceFlags) check() error {
	if !(f.ratio >= 0 && f.ratio <= 1) {
		return cli.Usage(fmt.Errorf("--otlp-ratio: %v is not from 0 to 1", f.ratio))
	}
	if f.endpoint == "" {
		return nil
	}
	at, err := url.Parse(f.endpoint)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || at.User != nil:
		return cli.Usage(fmt.Errorf("--otlp-endpoint: want a URL such as https://collector.example.org:4317"))
	case at.Scheme == "http" && !apiclient.Loopback(at.Hostname()):
		return cli.Usage(fmt.Errorf("--otlp-endpoint: %s is not a loopback address: use https", at.Hostname()))
	}
	return nil
}

// provider sends spans until it is shut down, nil without an endpoint. A collector that does not
// answer is logged and costs spans only.
func (f *traceFlags) provider(ctx context.Context, log *slog.Logger) (*trace.TracerProvider, error) {
	if f.endpoint == "" {
		return nil, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "err", err) }))
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(f.endpoint))
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint: %w", err)
	}
	return trace.NewTracerProvider(trace.WithBatcher(exporter, trace.WithExportTimeout(5*time.Second)),
		trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(f.ratio))),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "autosched"),
			attribute.String("service.version", cli.Built().Version)))), nil
}

// notify reports to systemd a state of the service, such as READY=1 (sd_notify(3)). It does nothing
// where no unit of Type=notify started the process.
func notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	if strings.HasPrefix(name, "@") { // an abstract socket
		name = "\x00" + name[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		_, err = c.Write([]byte(state))
		_ = c.Close()
	}
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newServeCmd(), newAdminCmd()}
}

// newAdminCmd is the parent of the commands of an administrator of the service.
func newAdminCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Secure, back up, check and audit the service",
	}
	cmd.AddCommand(newCertsCmd(), newBackupCmd(), newRestoreCmd(), newMigrateCmd(), newCompactCmd(), newDoctorCmd(),
		newAuditCmd(), newReplayCmd())
	return cmd
}
