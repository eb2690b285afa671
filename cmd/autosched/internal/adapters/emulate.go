package adapters

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/autosched/autosched/api/agent"
	pb "github.com/autosched/autosched/api/autosched/v1"
	apiclient "github.com/autosched/autosched/client"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
)

// emulateOptions are the flags of emulate.
type emulateOptions struct {
	replay    cli.ReplayFlags
	connect   cli.ConnectFlags
	id        string
	mode      string
	speedup   float64
	interval  time.Duration
	adoption  string
	budget    int32
	file      string
	instances int
	faults    []string
	listen    []string

	given func(flag string) bool
	waits string // after run: the proposal that waits for an operator, and the commands for it
}

func newEmulateCmd() *cobra.Command {
	var o emulateOptions
	cmd := &cobra.Command{
		Use:   "emulate",
		Short: "Run an emulated scheduler and cluster against a service",
		Long: `Runs a scheduler on an emulated cluster that replays a trace in accelerated time:
it registers with the service, streams its job events, watches configurations,
applies and acknowledges them, until the last job has ended and the service has decided
on what it sent. Tuning rounds follow the times of the events, and the emulated cluster
waits while one is decided: a high --speedup has as many. Nothing is registered if a job
does not fit the cluster. If the service stops, the emulated cluster pauses until it
answers again, and unacknowledged events are sent again. Ctrl-C ends it; the service
keeps what it received.

With --config-file the scheduler takes its configuration from a file in its own words, as 'autosched scheduler config
render' prints it, and reads it again on SIGHUP: an adapter writes the file and acknowledges. What it says it runs
is in the file of that name with .running added, below the reason if it refuses the file. Of several instances the
second has FILE.2, the third FILE.3 and so on, with an adapter each.

--instances runs several of the scheduler: the first schedules the cluster, the
others stand by, and all apply and acknowledge configurations. --faults makes it
misbehave, drawn by --seed: each configuration is refused, applied in part, claimed
and not applied (lie), left alone for six emulated hours (hang), or followed by a
crash before it is acknowledged, with these probabilities; lag is the longest time
before it is applied, and lose the share of events that are never sent, for which a
snapshot makes up within an hour. The first configuration of an instance is applied.

With --listen the service calls the scheduler, which 'autosched serve --agents' names, at this loopback address, or
one for each instance: it registers nothing, takes configurations and sends events as a SchedulerAgent. The file names
the instances emulated, emulated-2 and so on. Register the scheduler with 'autosched scheduler register'.

Start 'autosched serve' first. Watch what it decides with
'autosched scheduler config watch --wait'.`,
		Example: `  autosched serve --dir data &
  autosched scheduler emulate --trace sample --nodes 20 --gpus-per-node 8 --id demo --speedup 7200
  autosched scheduler emulate --trace sample --nodes 20 --gpus-per-node 8 --instances 3 --faults refuse=0.1,crash=0.1,lose=0.01,lag=5m`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return cli.PlainError(o.connect.Server, err)
			}
			return cli.Show(cmd.OutOrStdout(), o.replay.JSON, "emulation/v1", r,
				func(w io.Writer) error { return printEmulation(w, r, o.waits) })
		},
	}
	o.replay.Add(cmd)
	o.replay.AddTo(cmd)
	fl := cmd.Flags()
	o.given = fl.Changed
	o.connect.Add(cmd)
	fl.StringVar(&o.mode, "mode", "auto", "")
	fl.StringVar(&o.id, "id", "emulated", "")
	fl.Float64Var(&o.speedup, "speedup", 3600,
		fmt.Sprintf("emulated time over real time, at most %d: 3600 is an hour in a second", int(agent.MaxSpeedup)))
	fl.DurationVar(&o.interval, "interval", time.Hour, "")
	fl.Int32Var(&o.budget, "budget", 40, "")
	fl.StringVar(&o.adoption, "adoption", "daily", "how configurations are adopted: daily or paper")
	fl.StringVar(&o.file, "config-file", "", "take the configuration from this file instead of the service")
	fl.IntVar(&o.instances, "instances", 1, "instances of the scheduler")
	fl.StringSliceVar(&o.listen, "listen", nil, "")
	fl.StringSliceVar(&o.faults, "faults", nil,
		"what the scheduler does wrong, such as refuse=0.1,lag=5m: refuse, partial, lie, hang, crash, lose, lag")
	return cmd
}

// check checks all that needs no trace.
func (o *emulateOptions) check() error {
	switch {
	case !(o.speedup > 0 && o.speedup <= agent.MaxSpeedup):
		return cli.Usage(fmt.Errorf("--speedup: %g is not above 0 and at most %d", o.speedup, int(agent.MaxSpeedup)))
	case o.interval <= 0: // the service would take 0 for its default
		return cli.Usage(fmt.Errorf("--interval: %v is not positive", o.interval))
	case o.budget <= 0:
		return cli.Usage(fmt.Errorf("--budget: %d is not positive", o.budget))
	}
	if o.instances < 1 || o.instances > agent.MaxInstances {
		return cli.Usage(fmt.Errorf("--instances: %d is not from 1 to %d", o.instances, agent.MaxInstances))
	}
	if err := o.checkListen(); err != nil {
		return cli.Usage(err)
	}
	_, err := parseFaults(o.faults)
	if err != nil {
		return cli.Usage(fmt.Errorf("--faults: %w", err))
	}
	if _, err := round.ParseRule(o.adoption); err != nil {
		return cli.Usage(fmt.Errorf("--adoption: %w", err))
	}
	_, err = cli.ParseMode(o.mode)
	return cmp.Or(err, cli.CheckID(o.id), o.connect.Check())
}

// checkListen checks the addresses of a scheduler that is called, one for each instance.
func (o *emulateOptions) checkListen() error {
	if len(o.listen) == 0 {
		return nil
	}
	for _, flag := range []string{"server", "tls-ca", "tls-cert", "tls-key", "token-file", "id", "mode", "interval",
		"budget", "adoption", "config-file"} {
		if o.given(flag) {
			return fmt.Errorf("--listen and --%s exclude each other: the service calls the scheduler, and 'autosched "+
				"scheduler register' registers it", flag)
		}
	}
	if !o.given("instances") {
		o.instances = len(o.listen)
	}
	if len(o.listen) != o.instances {
		return fmt.Errorf("--listen: %s for %s", units.Plural(len(o.listen), "address"), units.Plural(o.instances, "instance"))
	}
	for i, address := range o.listen {
		host, port, err := net.SplitHostPort(address)
		switch {
		case err != nil || port == "0" || !apiclient.Loopback(host):
			return fmt.Errorf("--listen: %q is not host:port of this machine: no caller is identified", address)
		case slices.Contains(o.listen[:i], address):
			return fmt.Errorf("--listen: %s is there twice", address)
		}
	}
	return nil
}

// parseFaults reads fault=value pairs.
func parseFaults(pairs []string) (f agent.Faults, err error) {
	chances := map[string]*float64{"refuse": &f.Refuse, "partial": &f.Partial, "lie": &f.Lie, "hang": &f.Hang,
		"crash": &f.Crash, "lose": &f.Lose}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		p := chances[name]
		switch {
		case !ok:
			return f, fmt.Errorf("%q is not fault=value, such as refuse=0.1", pair)
		case name == "lag":
			f.Lag, err = time.ParseDuration(value)
		case p != nil:
			*p, err = strconv.ParseFloat(value, 64)
		default:
			return f, fmt.Errorf("%q is not one of refuse, partial, lie, hang, crash, lose, lag", name)
		}
		if err != nil {
			return f, fmt.Errorf("%s: %q: want a probability, such as 0.1, and for lag a time, such as 5m", name, value)
		}
	}
	return f, f.Check()
}

// run emulates until the last job has ended. Notes and progress go to notes.
func (o *emulateOptions) run(ctx context.Context, notes io.Writer) (*agent.Report, error) {
	var conn *grpc.ClientConn // nil for a scheduler that is called
	if len(o.listen) == 0 {
		var err error
		if conn, err = o.connect.Dial(); err != nil {
			return nil, err
		}
		defer conn.Close()
	}
	in, err := o.replay.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	w := in.Trace.Window(in.From, in.To)
	if w.Len() == 0 {
		return nil, fmt.Errorf("no job of %s is submitted between --from and --to", in.Trace.Name())
	}
	mode, _ := cli.ParseMode(o.mode) // checked
	var file *agent.File
	if o.file != "" {
		reload := make(chan os.Signal, 1)
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
		file = &agent.File{Path: o.file, Reload: reload}
	}
	faults, _ := parseFaults(o.faults)
	faults.Seed = o.replay.Seed
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	var mu sync.Mutex // instances speak at the same time
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		line.Clear()
		fmt.Fprintf(notes, format+"\n", args...)
	}
	r, err := agent.Run(ctx, agent.Options{
		Conn: conn, ID: o.id, Mode: mode, Scheduler: in.Scheduler, Cluster: o.replay.Cluster, Workload: w,
		Simulate: in.Options, Speedup: o.speedup, File: file,
		Addresses: o.listen,
		Rollout: &pb.RolloutPolicy{UpdateInterval: durationpb.New(o.interval), TrialBudget: o.budget,
			Adoption: o.adoption,
			Seed:     o.replay.Seed},
		Progress: func(p agent.Progress) {
			mu.Lock()
			defer mu.Unlock()
			line.Show("%s: %d jobs active, %d of them waiting, %d events acknowledged", p.At.Format(time.DateTime),
				p.Active, p.Waiting, p.Events)
		},
		Instances: o.instances, Faults: faults,
		Notify: func(err error) {
			if _, answered := status.FromError(err); answered {
				err = fmt.Errorf("no connection to the service at %s (%s): trying again", o.connect.Server,
					cli.TransportReason(err))
			}
			say("%v", err)
		},
		Applied: func(a agent.Applied) {
			say("%s: revision %d in force: %s", a.At.Format(time.RFC3339), a.Revision, a.Config)
		},
	})
	if err != nil || conn == nil {
		return r, err
	}
	got, err := pb.NewTuningServiceClient(conn).GetScheduler(ctx, &pb.GetSchedulerRequest{Name: "schedulers/" + o.id})
	if next := got.GetStatus().GetProposedConfiguration(); err == nil && next != "" {
		o.waits = fmt.Sprintf("revision %s waits %s", cli.ShortName(next), cli.WaitsText(o.id))
	}
	return r, nil
}

func printEmulation(w io.Writer, r *agent.Report, waits string) error {
	t := table.New(w, "")
	fmt.Fprintf(t, "scheduler\t%s\n", r.Scheduler)
	fmt.Fprintf(t, "jobs\t%d\n", r.Jobs)
	fmt.Fprintf(t, "JCT mean, p95\t%.0f, %.0f s\n", r.AvgJCT, r.P95JCT)
	fmt.Fprintf(t, "queueing delay mean\t%.0f s\n", r.AvgQueue)
	fmt.Fprintf(t, "events acknowledged\t%d\n", r.Events)
	if r.Lost > 0 {
		fmt.Fprintf(t, "events lost\t%d\n", r.Lost)
	}
	fmt.Fprintf(t, "configurations applied\t%d\n", len(r.Applied))
	for _, i := range r.Instances {
		if n := i.Partial + i.Refused + i.Lies + i.Hangs + i.Crashes; n > 0 || len(r.Instances) > 1 {
			fmt.Fprintf(t, "%s\tapplied %d, %d in part; refused %d; lies %d, hangs %d, crashes %d\n", i.ID, i.Applied,
				i.Partial, i.Refused, i.Lies, i.Hangs, i.Crashes)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, a := range r.Applied {
		fmt.Fprintf(w, "\n%s revision %d: %s\n  %s\n", a.At.Format(time.RFC3339), a.Revision, a.Reason, a.Config)
	}
	if waits != "" {
		fmt.Fprintf(w, "\n%s\n", waits)
	}
	return nil
}
