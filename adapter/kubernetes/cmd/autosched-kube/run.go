package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/kubernetes/apply"
	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/kubernetes/events"
	"github.com/autosched/autosched/adapter/kubernetes/lease"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/cli"
)

// modes are the values of --mode.
var modes = []string{"observe", "recommend", "apply"}

// runOptions are the flags of run.
type runOptions struct {
	settings   cli.SettingsFlags
	connect    cli.ConnectFlags
	log        cli.LogFlags
	cluster    clusterFlags
	id         string
	instance   string
	mode       string
	namespaces []string
	operations string
	interval   time.Duration
	resume     bool
	anonymous  bool
	handOver   []string
	takeOver   bool
	lease      string
	metrics    string
}

func newRunCmd() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Send a cluster's events and put its configurations in force",
		Long: `Runs in the cluster, or beside it, until it is interrupted. It watches the jobs of Kueue (Workloads) or Volcano
(PodGroups and Pods), their queues and the nodes, and sends what happens as events. It keeps nothing on disk: after a
restart or a lost watch it lists the objects again, and the events have the same ids. If the service is away it waits,
with a bounded memory; if the API server is, it waits, too.

--mode says how far it goes: observe sends events and what is in force, and changes nothing, recommend puts in force what
an operator approves, apply what rounds find. recommend and apply set the mode of the registered scheduler, and need a
service that asks who calls, as its callers set the cluster's quotas: 'autosched admin certs' makes the files.

A field that someone else owns is not set, unless --hand-over names it: spec.queueingStrategy, or one object's,
clusterqueues.kueue.x-k8s.io/research spec.queueingStrategy; '*' is all. A setting that someone else changed since is
reported and not overwritten, and nothing is changed from then on: choose, and start once with --take-over. 'autosched-kube
release' gives all fields back.

With --lease-namespace one of several adapters is active, the others wait for its lease.

--operations answers /healthz, /readyz and /metrics. --settings FILE takes flags from a YAML file, which is checked whole
before anything starts.`,
		Example: `  autosched-kube run --scheduler kueue --id prod --server autosched:7443
  autosched-kube run --settings kube.yaml`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.settings.Run(cmd, o.check, func() error { return nil },
				func() error { return o.run(cmd.Context(), cmd.ErrOrStderr()) })
		},
	}
	o.connect.Add(cmd)
	o.settings.Add(cmd)
	o.cluster.add(cmd)
	o.log.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.id, "id", "", "")
	fl.StringVar(&o.instance, "instance", "", "")
	fl.StringVar(&o.mode, "mode", "observe", "observe, recommend or apply: how far it goes")
	fl.StringSliceVar(&o.namespaces, "namespaces", nil, "namespaces whose jobs count (default: all)")
	fl.StringVar(&o.operations, "operations", "", "address to answer HTTP on: /metrics, /healthz, /readyz (default: none)")
	fl.DurationVar(&o.interval, "poll-interval", 30*time.Second, "")
	fl.BoolVar(&o.resume, "requeue-resumes", false, "evicted jobs go on where they were, as they write checkpoints")
	fl.BoolVar(&o.anonymous, "allow-anonymous", false, "")
	fl.StringSliceVar(&o.handOver, "hand-over", nil, "fields that other managers own and the adapter may set")
	fl.BoolVar(&o.takeOver, "take-over", false, "set fields that someone else changed, once")
	fl.StringVar(&o.lease, "lease-namespace", "", "namespace of the lease of the active adapter (default: none is held)")
	fl.StringVar(&o.metrics, "scheduler-metrics", "",
		"URL of the scheduler's metrics, which show values in force (default: none is read)")
	return cmd
}

func (o *runOptions) check() error {
	if _, err := o.cluster.check(); err != nil {
		return err
	}
	switch {
	case o.id == "":
		return cli.Usage(errors.New("--id: is missing"))
	case !slices.Contains(modes, o.mode):
		return cli.Usage(fmt.Errorf("--mode: %q is not %s", o.mode, strings.Join(modes, ", ")))
	case o.mode != "observe" && o.lease == "":
		return cli.Usage(fmt.Errorf("--lease-namespace: is missing, and --mode %s changes the cluster", o.mode))
	case o.metrics != "" && !strings.HasPrefix(o.metrics, "http://") && !strings.HasPrefix(o.metrics, "https://"):
		return cli.Usage(errors.New("--scheduler-metrics: is no URL of http or https"))
	case o.interval < time.Second:
		return cli.Usage(fmt.Errorf("--poll-interval: %v is less than a second", o.interval))
	}
	if err := o.log.Check(); err != nil {
		return err
	}
	return o.connect.Check()
}

// run adapts until the context ends.
func (o *runOptions) run(ctx context.Context, notes io.Writer) error {
	log := o.log.Logger(notes)
	warn := func(err error) { log.Warn(err.Error()) }
	scheduler, err := o.cluster.check()
	if err != nil {
		return err
	}
	config, api, objects, err := o.cluster.open()
	if err != nil {
		return err
	}
	ops, err := o.listen()
	if err != nil {
		return err
	}
	defer ops.Close()
	ops.mode.WithLabelValues(o.mode).Set(1)
	go ops.serve(log)
	conn, err := o.connect.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	registered, err := cli.AwaitScheduler(ctx, pb.NewTuningServiceClient(conn), o.id, log)
	if err != nil {
		return ended(ctx, cli.PlainError(o.connect.Server, err))
	}
	if err := o.permitted(ctx, conn, registered); err != nil {
		return ended(ctx, err)
	}
	resources, err := awaitResources(ctx, api, scheduler, o.namespaces, log)
	if err != nil {
		return ended(ctx, err)
	}
	pods := slices.ContainsFunc(resources, func(r events.Resource) bool { return r.GroupResource() == scheduler.Pods })
	if !pods {
		log.Warn("the account may not read pods: the start of a job is its admission")
	}
	lead := func(ctx context.Context, until func() time.Time) error {
		w := events.New(events.Options{Client: objects, Resources: resources, Namespaces: o.namespaces,
			Tracker: &events.Tracker{Mapper: mappers[scheduler.Name](pods), KeepProgress: o.resume}, Notify: warn})
		session := adapter.Session{Conn: conn, Scheduler: o.id, Instance: o.instance, Interval: o.interval,
			Notify: warn, Snapshot: func() *pb.Event { return w.Snapshot(ctx) }, Applied: ops.applied(log),
			Events: func(ctx context.Context, c *client.Client) {
				ops.watch(w, c)
				w.Run(ctx, c)
			}}
		var tuned []string
		for _, p := range registered.GetSpec().GetParameters() {
			tuned = append(tuned, p.GetParameterId())
		}
		options := apply.Options{Client: objects, Config: config, Scheduler: appliers[scheduler.Name](), Tuned: tuned,
			HandOver: o.handOver, TakeOver: o.takeOver, Until: until, Evidence: o.evidence(warn)}
		if o.mode == "observe" {
			if session.InForce, err = apply.Observe(options); err != nil {
				return err
			}
			return session.Run(ctx)
		}
		d, err := apply.Open(ctx, options)
		if err != nil {
			return err
		}
		defer func() { o.takeOver = d.TakesOver() }() // not again once the lease is held again
		ops.driver.Store(d)
		defer ops.driver.Store(nil)
		session.Driver = d
		return session.Run(ctx)
	}
	if o.lease == "" {
		return ended(ctx, cli.PlainError(o.connect.Server, lead(ctx, nil)))
	}
	err = lease.Run(ctx, lease.Options{Client: objects, Namespace: o.lease, Name: cluster.LeaseName, Notify: warn},
		func(ctx context.Context, l *lease.Lease) error {
			ops.lease.Set(1)
			defer ops.lease.Set(0)
			return lead(ctx, l.Until)
		})
	return ended(ctx, cli.PlainError(o.connect.Server, err))
}

// evidence reads the scheduler's metrics, at most once a second; without them there is no evidence.
func (o *runOptions) evidence(warn func(error)) func(context.Context, apply.Field, any) (bool, error) {
	if o.metrics == "" {
		return nil
	}
	var text []byte
	var read time.Time
	said := ""
	return apply.Metrics(func(ctx context.Context) ([]byte, error) {
		if time.Since(read) < time.Second {
			return text, nil
		}
		var err error
		text, err = fetch(ctx, o.metrics)
		fault := ""
		if read = time.Now(); err != nil {
			fault = err.Error()
		}
		if fault != "" && fault != said {
			warn(fmt.Errorf("--scheduler-metrics: %w", err))
		}
		said = fault
		return text, nil
	})
}

// fetch reads a text of at most 64 MiB.
func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, 64<<20))
}

// permitted has the service treat the scheduler as --mode says, and refuses one that anyone commands.
func (o *runOptions) permitted(ctx context.Context, conn *grpc.ClientConn, registered *pb.Scheduler) error {
	if o.mode == "observe" {
		return nil
	}
	if !o.anonymous {
		if err := o.connect.RefuseOpen(ctx, o.id); err != nil {
			return err
		}
	}
	as := o.mode
	if as == "apply" {
		as = "auto"
	}
	return cli.PlainError(o.connect.Server, cli.SetMode(ctx, pb.NewTuningServiceClient(conn), registered, as))
}

// ended is nil for an error of an interrupted run: that is how it ends.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// awaitResources waits until the scheduler's resources are served, and returns them in their versions.
func awaitResources(ctx context.Context, api *cluster.API, s cluster.Scheduler, namespaces []string,
	log *slog.Logger) (out []events.Resource, err error) {
	said := ""
	for {
		if out, err = resourcesOf(ctx, api, s, namespaces); err == nil {
			return out, nil
		}
		if err.Error() != said {
			said = err.Error()
			log.Info("waiting for the cluster", "reason", said)
		}
		if !client.Sleep(ctx, time.Second) {
			return nil, ctx.Err()
		}
	}
}

// resourcesOf are the scheduler's resources, without pods where jobs are known without them and they are not readable.
func resourcesOf(ctx context.Context, api *cluster.API, s cluster.Scheduler, namespaces []string) (
	out []events.Resource, err error) {
	for _, r := range s.Watched() {
		if r == s.Pods && s.MayLackPods {
			if readable, err := podsReadable(ctx, api, s, namespaces); err != nil {
				return nil, err
			} else if !readable {
				continue
			}
		}
		version, err := api.Version(ctx, r)
		if err != nil {
			return nil, err
		}
		one := events.Resource{GroupVersionResource: r.WithVersion(version), Namespaced: r != cluster.Nodes}
		if r == s.Pods {
			one.Fields, one.Labels = s.PodFields, s.PodLabels
		}
		out = append(out, one)
	}
	return out, nil
}

// podsReadable reports whether the account may read pods in the namespaces; in all if none is named.
func podsReadable(ctx context.Context, api *cluster.API, s cluster.Scheduler, namespaces []string) (bool, error) {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		for _, r := range cluster.ReadsOf(s.Pods) {
			r.Namespace = namespace
			if allowed, err := api.Allowed(ctx, r); err != nil || !allowed {
				return false, err
			}
		}
	}
	return true, nil
}
