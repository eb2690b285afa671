package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func newConfigCmd() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: "config",
		Long: `See what a scheduler should run and why, follow it, approve what was proposed, or
go back to what ran before. SCHEDULER is the name a scheduler is registered
under; 'autosched scheduler list' shows them.`,
		Short: "See what a scheduler should run and why, approve it, or go back",
	}
	f.add(cmd)
	cmd.AddCommand(newConfigGetCmd(&f), newConfigListCmd(&f), newConfigWatchCmd(&f), newConfigApproveCmd(&f), newConfigRollbackCmd(&f), newConfigAckCmd(&f))
	return cmd
}

func newConfigGetCmd(f *clientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		ValidArgsFunction: registered(f),
		Use:               "get SCHEDULER",
		Short:             "Show the configuration a scheduler should run, or another revision",
		Long: `Shows a configuration with the reason it was chosen, what was simulated for it,
and what the scheduler said of it: by default the one the scheduler should run
now.`,
		Example: `  autosched config get tiresias
  autosched config get tiresias --revision 3 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			if revision < 0 {
				return usageError{fmt.Errorf("--revision: %d is negative", revision)}
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				var got *pb.Configuration
				if revision > 0 {
					got, err = c.config.GetConfiguration(ctx, &pb.GetConfigurationRequest{Name: fmt.Sprintf("%s/configurations/%d", name, revision)})
				} else {
					var answer *pb.GetCurrentConfigurationResponse
					answer, err = c.config.GetCurrentConfiguration(ctx, &pb.GetCurrentConfigurationRequest{Name: name})
					got = answer.GetConfiguration()
				}
				if err != nil {
					return err
				}
				if f.json {
					return printProto(cmd.OutOrStdout(), got, false)
				}
				s, err := c.tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
				if err != nil {
					return err
				}
				return printConfiguration(cmd.OutOrStdout(), got, s)
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "this revision instead of the current one")
	return cmd
}

func printConfiguration(out io.Writer, c *pb.Configuration, s *pb.Scheduler) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "configuration\t%s revision %d (%s)\n", shortName(s.GetName()), c.GetRevision(), enumWord(c.GetState()))
	fmt.Fprintf(w, "because\t%s\n", orDash(c.GetReason()))
	if e := c.GetEvidence(); e != nil {
		interval := ""
		if e.GetRatioHigh() > 0 {
			interval = fmt.Sprintf(" (%.3f to %.3f)", e.GetRatioLow(), e.GetRatioHigh())
		}
		fmt.Fprintf(w, "simulated\tcontrollable ratio %.3f%s over revision %d, for %s\n", e.GetControllableRatio(), interval, e.GetIncumbentRevision(), e.GetSchedulerTime().AsTime().Format(time.RFC3339))
		if e.GetSearch() != "" {
			fmt.Fprintf(w, "searched\t%s: %s\n", e.GetSearch(), orDash(e.GetSearchReason()))
		}
	}
	if a := c.GetAcknowledgement(); a != nil {
		line := enumWord(a.GetState())
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
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.GetParameterId(), valueText(v), valueText(p.GetDefaultValue()), orDash(p.GetUnit()))
		}
	}
	return w.Flush()
}

// valuesLine is a configuration on one line.
func valuesLine(c *pb.Configuration) string {
	var parts []string
	for _, id := range sortedKeys(c.GetParameters()) {
		parts = append(parts, id+"="+valueText(c.GetParameters()[id]))
	}
	return strings.Join(parts, " ")
}

func newConfigListCmd(f *clientFlags) *cobra.Command {
	var limit int32
	cmd := &cobra.Command{
		ValidArgsFunction: registered(f),
		Use:               "list SCHEDULER",
		Short:             "List a scheduler's revisions, newest first",
		Long: `Lists the revisions the service has made for a scheduler: what became of each and
where it came from. Proposed ones were not offered (mode recommend); rejected ones
were refused by the scheduler, or parked by an operator, and are never offered
again. Origins are default (registered), tuned (a round's) and restored (earlier
values, gone back to). 'autosched config get SCHEDULER --revision N' shows why one
was made.`,
		Example: "  autosched config list tiresias --limit 5",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			if limit < 1 || limit > 1000 {
				return usageError{fmt.Errorf("--limit: %d is not from 1 to 1000", limit)}
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.config.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: name, PageSize: limit})
				if err != nil {
					return err
				}
				if f.json {
					return printProto(cmd.OutOrStdout(), got, false)
				}
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "REVISION\tSTATE\tORIGIN\tCREATED\tVALUES")
				for _, one := range got.GetConfigurations() {
					fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", one.GetRevision(), enumWord(one.GetState()), enumWord(one.GetOrigin()), one.GetCreateTime().AsTime().Format(time.RFC3339), valuesLine(one))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().Int32Var(&limit, "limit", 20, "revisions to show")
	return cmd
}

func newConfigWatchCmd(f *clientFlags) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		ValidArgsFunction: registered(f),
		Use:               "watch SCHEDULER",
		Short:             "Follow what a scheduler should run",
		Long: `Prints the current configuration and then every new one, a line each, until it
is interrupted. If the service goes away, the watch goes on where it was once
the service is back. With --wait it may be started first: it waits until the
service is there and the scheduler is registered with it. With --json every line
is an autosched.v1 Configuration.`,
		Example: "  autosched config watch tiresias\n  autosched config watch demo --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			return f.call(cmd.Context(), true, func(ctx context.Context, c *client) error {
				w := watch{client: c, name: name, out: cmd.OutOrStdout(), json: f.json}
				for told := false; ; {
					err := w.follow(ctx)
					if ctx.Err() != nil {
						return nil // interrupted: that is how a watch ends
					}
					code := status.Code(err)
					switch {
					case w.token == "" && wait && (code == codes.NotFound || code == codes.Unavailable):
						if !told {
							fmt.Fprintf(cmd.ErrOrStderr(), "waiting until %s is registered with the service at %s\n", shortName(name), f.server)
						}
						told = true
					case w.token == "" || code != codes.Unavailable:
						return err
					default:
						fmt.Fprintln(cmd.ErrOrStderr(), "the service went away; trying again")
					}
					select {
					case <-ctx.Done():
						return nil
					case <-time.After(time.Second):
					}
				}
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the scheduler is registered")
	return cmd
}

// watch follows one scheduler over any number of streams.
type watch struct {
	*client
	name  string
	out   io.Writer
	json  bool
	token string // where to go on; empty before the first event
}

func (w *watch) follow(ctx context.Context) error {
	stream, err := w.config.WatchConfigurations(ctx, &pb.WatchConfigurationsRequest{Parent: w.name, ResumeToken: w.token, SendInitialEvents: w.token == ""})
	if err != nil {
		return err
	}
	for {
		got, err := stream.Recv()
		if err != nil {
			return err
		}
		w.token = got.GetResumeToken()
		c := got.GetConfiguration()
		switch {
		case c == nil:
		case w.json:
			err = printProto(w.out, c, true)
		default:
			_, err = fmt.Fprintf(w.out, "%s  revision %d  %s  %s  %s\n", c.GetCreateTime().AsTime().Format(time.RFC3339), c.GetRevision(), enumWord(c.GetState()), valuesLine(c), c.GetReason())
		}
		if err != nil {
			return err
		}
	}
}

func newConfigAckCmd(f *clientFlags) *cobra.Command {
	var revision int64
	var state, why string
	cmd := &cobra.Command{
		ValidArgsFunction: registered(f),
		Use:               "ack SCHEDULER --revision N --state applied|rejected|failed",
		Short:             "Tell the service what became of a revision, where the scheduler does not",
		Long: `Schedulers acknowledge by themselves over the API. By hand it is for those that
do not, and for proposals (mode recommend) that you have applied by hand:
acknowledged as applied, tuning compares with them from then on. To have the
scheduler apply a proposal, approve it.

  applied   it is in force
  rejected  it is refused: its values are never offered to this scheduler again
  failed    it could not be applied this time`,
		Example: "  autosched config ack tiresias --revision 4 --state applied",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			if revision < 1 {
				return usageError{errors.New("--revision is missing: name the revision")}
			}
			ack := &pb.Acknowledgement{Error: why, InstanceId: "autosched config ack"}
			switch state {
			case "applied", "rejected", "failed":
				ack.State = pb.Acknowledgement_State(pb.Acknowledgement_State_value[strings.ToUpper(state)])
			default:
				return usageError{fmt.Errorf("--state: %q is not applied, rejected or failed", state)}
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.config.AcknowledgeConfiguration(ctx, &pb.AcknowledgeConfigurationRequest{Name: fmt.Sprintf("%s/configurations/%d", name, revision), Acknowledgement: ack})
				if err != nil {
					return err
				}
				if f.json {
					return printProto(cmd.OutOrStdout(), got, false)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "revision %d is %s; the scheduler should run revision %s\n", revision, enumWord(got.GetConfiguration().GetState()), orDash(shortName(got.GetCurrentConfiguration())))
				return err
			})
		},
	}
	fl := cmd.Flags()
	fl.Int64Var(&revision, "revision", 0, "the revision (required)")
	fl.StringVar(&state, "state", "", "applied, rejected or failed (required)")
	fl.StringVar(&why, "error", "", "why, if not applied")
	return cmd
}
