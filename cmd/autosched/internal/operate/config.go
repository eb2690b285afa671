package operate

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/round"
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
		newConfigUnparkCmd(&f), newConfigForgetCmd(&f), newConfigExplainCmd(&f), newConfigValidateCmd(&f),
		newConfigPinCmd(&f), newConfigUnpinCmd(&f), newConfigRenderCmd(&f))
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
	cmd.Flags().Int64Var(&revision, "revision", 0, "this revision instead of the current one")
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
	w := cli.NewTable(out, "")
	fmt.Fprintf(w, "configuration\t%s revision %d (%s)\n", cli.ShortName(s.GetName()), c.GetRevision(),
		c.GetState())
	fmt.Fprintf(w, "because\t%s\n", cli.OrDash(c.GetReason()))
	if r := c.GetReview(); r != nil {
		verb := "rejected"
		if r.GetApproved() {
			verb = "approved"
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
			fmt.Fprintf(w, "searched\t%s: %s\n", e.GetSearch(), cli.OrDash(e.GetSearchReason()))
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
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.GetParameterId(), cli.OrDash(specialText(p, v)),
				cli.OrDash(specialText(p, p.GetDefaultValue())), cli.OrDash(p.GetUnit()))
		}
	}
	return w.Flush()
}

// byText says who did something, when and why.
func byText(actor string, at *timestamppb.Timestamp, reason string) string {
	text := fmt.Sprintf("by %s at %s", cli.OrDash(actor), cli.Instant(at))
	if reason != "" {
		text += ": " + reason
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
	w := cli.NewTable(out, "REVISION\tSTATE\tORIGIN\tCREATED\tVALUES")
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
not offered (mode recommend); rejected ones were refused by the scheduler or an
operator, and their values are parked ('autosched scheduler config parked'). Origins are
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
	cmd.Flags().Int32Var(&limit, "limit", 20, "revisions to show")
	l.Add(cmd, "state = PROPOSED", "evidence.controllable_ratio desc")
	return cmd
}
