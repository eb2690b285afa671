package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/autosched/autosched/api/agent"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
)

func newEmulateCmd() *cobra.Command {
	var f replayFlags
	var server, id, mode string
	var speedup float64
	var interval time.Duration
	var budget int32
	cmd := &cobra.Command{
		Use:   "emulate",
		Short: "Run an emulated scheduler and cluster against a service",
		Long: `Plays a scheduler on an emulated cluster that a trace feeds, in accelerated
time: it registers with the service, streams its job events, watches
for configurations, puts them into force and acknowledges them, until the last
job has ended. Tuning rounds run on the scheduler's own time, so a fast cluster
needs no second clock. Nothing is registered if a job does not fit the cluster.
If the service goes away the emulated cluster stands still until it is back, and
what was not acknowledged is sent again. Ctrl-C ends it; what the service has
taken in stays.

Start 'autosched serve' first. Watch what it decides with
'autosched config watch --wait'.`,
		Example: `  autosched serve --dir data &
  autosched emulate --trace sample --nodes 20 --gpus-per-node 8 --id demo --speedup 7200`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !(speedup > 0 && speedup <= agent.MaxSpeedup) {
				return usageError{fmt.Errorf("--speedup: %g is not above 0 and at most %d", speedup, int(agent.MaxSpeedup))}
			}
			switch { // what the service would take for its own default, too
			case interval <= 0:
				return usageError{fmt.Errorf("--interval: %v is not positive", interval)}
			case budget <= 0:
				return usageError{fmt.Errorf("--budget: %d is not positive", budget)}
			}
			registeredMode, err := modeOf(mode)
			if err != nil {
				return err
			}
			if err := checkID(id); err != nil {
				return err
			}
			conn, err := dial(server)
			if err != nil {
				return err
			}
			defer conn.Close()
			in, err := f.load(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			w := in.trace.Window(in.from, in.to)
			if w.Len() == 0 {
				return fmt.Errorf("no job of %s is submitted between --from and --to", in.trace.Name())
			}
			line := newProgressLine(cmd.ErrOrStderr())
			r, err := agent.Run(cmd.Context(), agent.Options{
				Conn: conn, ID: id, Mode: registeredMode, Scheduler: in.scheduler, Cluster: f.cluster, Workload: w, Simulate: in.options, Speedup: speedup,
				Rollout: &pb.RolloutPolicy{UpdateInterval: durationpb.New(interval), TrialBudget: budget, Seed: f.seed},
				Progress: func(p agent.Progress) {
					line.show("%s: %d jobs active, %d of them waiting, %d events acknowledged", p.At.Format(time.DateTime), p.Active, p.Waiting, p.Events)
				},
				Lost: func(err error) {
					line.clear()
					fmt.Fprintf(cmd.ErrOrStderr(), "the service at %s went away (%s); waiting for it\n", server, reason(err))
				},
				Applied: func(a agent.Applied) {
					line.clear()
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: revision %d in force: %s\n", a.At.Format(time.RFC3339), a.Revision, a.Config)
				},
			})
			line.clear()
			if err != nil {
				return plainError(server, err)
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return printEmulation(cmd.OutOrStdout(), r)
		},
	}
	f.add(cmd)
	f.addTo(cmd)
	fl := cmd.Flags()
	fl.StringVar(&server, "server", defaultAddress, "address of the service, host:port")
	fl.StringVar(&mode, "mode", "auto", "what the service does with better configurations: auto (offers them), recommend (proposes them to an operator)")
	fl.StringVar(&id, "id", "emulated", "id to register the scheduler under")
	fl.Float64Var(&speedup, "speedup", 3600, fmt.Sprintf("emulated time over real time, at most %d: 3600 plays an hour in a second", int(agent.MaxSpeedup)))
	fl.DurationVar(&interval, "interval", time.Hour, "time between tuning rounds, on the emulated clock")
	fl.Int32Var(&budget, "budget", 40, "evaluations per tuning round")
	return cmd
}

func checkID(id string) error {
	if err := server.CheckID(id); err != nil {
		return usageError{fmt.Errorf("--id: %w", err)}
	}
	return nil
}

func printEmulation(w io.Writer, r *agent.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "scheduler\t%s\n", r.Scheduler)
	fmt.Fprintf(t, "jobs\t%d\n", r.Jobs)
	fmt.Fprintf(t, "JCT mean, p95\t%.0f, %.0f s\n", r.AvgJCT, r.P95JCT)
	fmt.Fprintf(t, "queueing delay mean\t%.0f s\n", r.AvgQueue)
	fmt.Fprintf(t, "events acknowledged\t%d\n", r.Events)
	fmt.Fprintf(t, "configurations applied\t%d\n", len(r.Applied))
	if err := t.Flush(); err != nil {
		return err
	}
	for _, a := range r.Applied {
		fmt.Fprintf(w, "\n%s revision %d: %s\n  %s\n", a.At.Format(time.RFC3339), a.Revision, a.Reason, a.Config)
	}
	return nil
}
