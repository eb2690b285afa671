package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

func newConfigCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use: "config",
		Long: `Inspect the configuration a scheduler should run and why, follow it, approve a
proposal, or roll back. SCHEDULER is the name a scheduler is registered under;
'autosched scheduler list' shows them.`,
		Short: "Inspect, follow, approve and roll back configurations",
	}
	f.Add(cmd)
	cmd.AddCommand(newConfigGetCmd(&f), newConfigListCmd(&f), newConfigWatchCmd(&f), newConfigApproveCmd(&f),
		newConfigRejectCmd(&f), newConfigRollbackCmd(&f), newConfigAckCmd(&f), newConfigParkedCmd(&f),
		newConfigParkCmd(&f), newConfigUnparkCmd(&f), newConfigForgetCmd(&f), newConfigExplainCmd(&f),
		newConfigProposeCmd(&f), newConfigPinCmd(&f), newConfigUnpinCmd(&f), newConfigRenderCmd(&f))
	return cmd
}

func newConfigGetCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "get SCHEDULER",
		Short:             "Show the configuration a scheduler should run, or another revision",
		Long: `Shows a configuration with the reason for it, its simulated gain and the
scheduler's acknowledgement: by default the one the scheduler should run now.`,
		Example: `  autosched scheduler config get tiresias
  autosched scheduler config get tiresias --revision 3 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if revision < 0 {
				return cli.Usage(fmt.Errorf("--revision: %d is negative", revision))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := getConfiguration(ctx, c, name, revision)
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
					if err != nil {
						return err
					}
					return printConfiguration(w, got, s)
				})
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "")
	return cmd
}

func revisionName(scheduler string, revision int64) string {
	return fmt.Sprintf("%s/configurations/%d", scheduler, revision)
}

// getConfiguration is a revision of a scheduler, 0 for the current one.
func getConfiguration(ctx context.Context, c *cli.Client, scheduler string, revision int64) (*pb.Configuration, error) {
	if revision > 0 {
		return c.Configurations.GetConfiguration(ctx, &pb.GetConfigurationRequest{Name: revisionName(scheduler,
			revision)})
	}
	got, err := c.Configurations.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: scheduler})
	return got.GetConfiguration(), err
}

func printConfiguration(out io.Writer, c *pb.Configuration, s *pb.Scheduler) error {
	w := table.New(out, "")
	fmt.Fprintf(w, "configuration\t%s revision %d (%s)\n", cli.ShortName(s.GetName()), c.GetRevision(),
		c.GetState())
	fmt.Fprintf(w, "because\t%s\n", cmp.Or(cli.OneLine(c.GetReason()), "-"))
	if r := c.GetReview(); r != nil {
		verb := "rejected"
		switch {
		case r.GetApproved():
			verb = "approved"
		case r.GetParked():
			verb = "parked"
		}
		fmt.Fprintf(w, "%s\t%s\n", verb, byText(r.GetActor(), r.GetCreateTime(), r.GetReason()))
	} else if c.GetState() == pb.Configuration_PROPOSED {
		fmt.Fprintf(w, "waits\t%s\n", cli.WaitsText(cli.ShortName(s.GetName())))
	}
	if e := c.GetEvidence(); e.GetTrialName() != "" {
		fmt.Fprintf(w, "measured\tby trial %s ('autosched study trial list %s')\n", cli.ShortTrial(e.GetTrialName()),
			path.Dir(cli.ShortTrial(e.GetTrialName())))
	} else if e != nil {
		saves := "saves " + round.Influence(e.GetControllableRatio())
		switch low, high := e.GetRatioLow(), e.GetRatioHigh(); {
		case low == 1 && high == 1:
			saves = "no difference in the futures of this round"
		case high > 0:
			saves += fmt.Sprintf(" (this round's futures alone: %s to %s)", cli.SavedShare(low), cli.SavedShare(high))
		}
		fmt.Fprintf(w, "simulated\t%s over revision %d, for %s\n", saves, e.GetIncumbentRevision(),
			cli.Instant(e.GetSchedulerTime()))
		if e.GetEnergy() != nil {
			fmt.Fprintf(w, "energy\t%s\n\t%s with revision %d\n", energyText(e.GetEnergy()),
				energyText(e.GetIncumbentEnergy()), e.GetIncumbentRevision())
		}
		if id := cli.ShortName(e.GetRoundName()); id != "" {
			fmt.Fprintf(w, "round\t%s ('autosched scheduler rounds show %s %s')\n", id, cli.ShortName(s.GetName()), id)
		}
		if e.GetSearch() != "" {
			fmt.Fprintf(w, "searched\t%s: %s\n", e.GetSearch(), cmp.Or(e.GetSearchReason(), "-"))
		}
		if e.GetFidelity() != "" {
			fmt.Fprintf(w, "fidelity\t%s\n", e.GetFidelity())
		}
	}
	printReported(w, c.GetReportedMetrics())
	if i := c.GetIncident(); i != nil {
		fmt.Fprintf(w, "incident\t%s\n", incidentText(i))
	}
	if a := c.GetAcknowledgement(); a != nil {
		line := a.GetState().String()
		if a.GetError() != "" {
			line += ": " + a.GetError()
		}
		fmt.Fprintf(w, "acknowledged\t%s\n", line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "PARAMETER\tVALUE\tDEFAULT\tUNIT")
	for _, p := range s.GetSpec().GetParameters() {
		if v := c.GetParameters()[p.GetParameterId()]; v != nil {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.GetParameterId(), cmp.Or(specialText(p, v), "-"),
				cmp.Or(specialText(p, p.GetDefaultValue()), "-"), cmp.Or(p.GetUnit(), "-"))
		}
	}
	return w.Flush()
}

// byText says who did something, when and why.
func byText(actor string, at *timestamppb.Timestamp, reason string) string {
	text := fmt.Sprintf("by %s at %s", cmp.Or(actor, "-"), cli.Instant(at))
	if reason != "" {
		text += ": " + cli.OneLine(reason)
	}
	return text
}

// incidentText describes an incident: the worse revision, who found it and the outcome.
func incidentText(i *pb.Incident) string {
	text := fmt.Sprintf("revision %d did worse than promised (%s, %s)", i.GetWorseRevision(), i.GetActor(),
		cli.Instant(i.GetSchedulerTime()))
	if i.GetRevision() != 0 {
		text += fmt.Sprintf("; revision %d has the values of revision %d", i.GetRevision(), i.GetGoodRevision())
	} else {
		text += fmt.Sprintf(" than revision %d would have", i.GetGoodRevision())
	}
	if until := i.GetParkExpireTime(); until != nil {
		text += ", parked until " + cli.Instant(until)
	}
	return text + ": " + i.GetReason()
}

func printRevisions(out io.Writer, list *pb.ListConfigurationsResponse, s *pb.Scheduler) error {
	w := table.New(out, "REVISION\tSTATE\tORIGIN\tCREATED\tVALUES")
	for _, one := range list.GetConfigurations() {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", one.GetRevision(), one.GetState(), one.GetOrigin(),
			cli.Instant(one.GetCreateTime()), valuesLine(one.GetParameters(), s))
	}
	if list.GetNextPageToken() != "" {
		fmt.Fprintln(w, "... more (--limit)")
	}
	return w.Flush()
}

// valuesLine are values of a scheduler's parameters on one line, in the order of its space.
func valuesLine(values map[string]*structpb.Value, s *pb.Scheduler) string {
	var parts []string
	for _, p := range s.GetSpec().GetParameters() {
		if v := values[p.GetParameterId()]; v != nil {
			parts = append(parts, p.GetParameterId()+"="+specialText(p, v))
		}
	}
	return strings.Join(parts, " ")
}

func newConfigListCmd(f *cli.ClientFlags) *cobra.Command {
	var limit int32
	var l cli.ListFlags
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "list SCHEDULER",
		Short:             "List a scheduler's revisions, newest first",
		Long: `Lists the revisions of a scheduler with their state and origin. Proposed ones were
not offered (mode recommend); parked ones were set aside; rejected ones were refused by the
scheduler or an operator, and their values are parked ('autosched scheduler config parked'). Origins are
default (registered), tuned (by a round), study (by a trial), restored (by a rollback or after a
refusal) and reverted (reported metrics got worse). 'autosched scheduler config get SCHEDULER --revision
N' shows the reason for one.`,
		Example: "  autosched scheduler config list tiresias --limit 5",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.CheckLimit(limit); err != nil {
				return err
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Configurations.ListConfigurations(ctx,
					&pb.ListConfigurationsRequest{Parent: name, PageSize: limit, Filter: l.Filter, OrderBy: l.OrderBy})
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
					if err != nil {
						return err
					}
					return printRevisions(w, got, s)
				})
			})
		},
	}
	cmd.Flags().Int32Var(&limit, "limit", 20, "")
	l.Add(cmd, true)
	return cmd
}

func newConfigWatchCmd(f *cli.ClientFlags) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "watch SCHEDULER",
		Short:             "Follow the configuration a scheduler should run",
		Long: `Prints the current configuration and then every new one, a line each, until it
is interrupted. If the service goes away, the watch continues once it is back.
That tuning is paused or resumed is reported on the standard error output.
With --wait it may be started first: it waits until the service answers and the
scheduler is registered. With --json every line is an autosched.v1
Configuration.`,
		Example: "  autosched scheduler config watch tiresias\n  autosched scheduler config watch demo --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := cli.SchedulerArg(args)
			if err != nil {
				return err
			}
			return f.Call(cmd.Context(), true, func(ctx context.Context, c *cli.Client) error {
				w := watch{
					Client: c, name: name, server: f.Server, wait: wait, json: f.JSON, out: cmd.OutOrStdout(),
					notes: cmd.ErrOrStderr(),
				}
				return w.run(ctx)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "")
	return cmd
}

// watch follows one scheduler over any number of streams.
type watch struct {
	*cli.Client
	name, server string
	wait, json   bool
	out, notes   io.Writer
	token        string // of the last event; empty before the first
}

// run follows until the context ends, also if the service goes away and comes
// back.
func (w *watch) run(ctx context.Context) error {
	for waiting := false; ; {
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return nil // interrupted: that is how a watch ends
		}
		code := status.Code(err)
		switch {
		case w.token == "" && w.wait && !cli.TlsFailed(err) && (code == codes.NotFound || code == codes.Unavailable):
			if !waiting {
				fmt.Fprintf(w.notes, "waiting until %s is registered with the service at %s\n", cli.ShortName(w.name),
					w.server)
			}
			waiting = true
		case w.token != "" && code == codes.OutOfRange:
			fmt.Fprintln(w.notes, "the service's store was restored: reading the configuration again")
			w.token = ""
			continue
		case w.token == "" || code != codes.Unavailable:
			return err
		default:
			fmt.Fprintln(w.notes, "no connection to the service: trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// follow prints the events of one stream.
func (w *watch) follow(ctx context.Context) error {
	stream, err := w.Configurations.WatchConfigurations(ctx,
		&pb.WatchConfigurationsRequest{Parent: w.name, ResumeToken: w.token, SendInitialEvents: w.token == ""})
	if err != nil {
		return err
	}
	var s *pb.Scheduler // once there is something to print
	for {
		got, err := stream.Recv()
		if err != nil {
			return err
		}
		if s == nil && !w.json && got.GetConfiguration() != nil {
			if s, err = w.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: w.name}); err != nil {
				return err
			}
		}
		w.token = got.GetResumeToken()
		c := got.GetConfiguration()
		switch p := got.GetPaused(); {
		case p != nil:
			fmt.Fprintf(w.notes, "tuning of %s is paused%s\n", cli.ShortName(w.name), pauseText(p))
		case got.GetResumed() != nil:
			fmt.Fprintf(w.notes, "tuning of %s is resumed\n", cli.ShortName(w.name))
		case c == nil:
		case w.json:
			err = cli.PrintProto(w.out, c, true)
		default:
			_, err = fmt.Fprintf(w.out, "%s  revision %d  %s  %s  %s\n",
				cli.Instant(c.GetCreateTime()), c.GetRevision(), c.GetState(),
				valuesLine(c.GetParameters(), s), cli.OneLine(c.GetReason()))
		}
		if err != nil {
			return err
		}
	}
}

// pauseText says since when, by whom and why tuning is paused, as far as that is known.
func pauseText(p *pb.WatchConfigurationsResponse_Paused) (text string) {
	if t := p.GetCreateTime(); t != nil {
		text += " since " + cli.Instant(t)
	}
	if p.GetActor() != "" {
		text += " by " + p.GetActor()
	}
	if p.GetReason() != "" {
		text += ": " + cli.OneLine(p.GetReason())
	}
	return text
}

func newConfigRenderCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "render SCHEDULER",
		Short:             "Print a configuration as the scheduler's own configuration file",
		Long: `Prints the configuration that a scheduler should run, or another revision, as its
configuration file: in the options of the scheduler's published release where there is one,
otherwise by parameter. 'autosched scheduler adapter file' writes the same.`,
		Example: `  autosched scheduler config render tiresias
  autosched scheduler config render tiresias --revision 3 >tiresias.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if revision < 0 {
				return cli.Usage(fmt.Errorf("--revision: %d is negative", revision))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				form, got, values, err := getNative(ctx, c, name, revision)
				if err != nil {
					return err
				}
				text, err := form.Render(values)
				if err != nil {
					return fmt.Errorf("%s: %w", got.GetName(), err)
				}
				w := cmd.OutOrStdout()
				if f.JSON {
					return schema.Write(w, "rendered-configuration/v1",
						map[string]any{"configuration": got.GetName(), "text": string(text)})
				}
				_, err = w.Write(text)
				return err
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "")
	return cmd
}

// getNative is a revision of a scheduler, 0 for the current one, with its values, and the form of the scheduler's
// configuration file.
func getNative(ctx context.Context, c *cli.Client, name string, revision int64) (native.Form, *pb.Configuration,
	space.Values, error) {
	s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
	if err != nil {
		return nil, nil, nil, err
	}
	got, err := getConfiguration(ctx, c, name, revision)
	if err != nil {
		return nil, nil, nil, err
	}
	values, err := adapter.FromProto(got.GetParameters())
	return schedulers.FormOf(s.GetSpec().GetSchedulerType()), got, values, err
}
