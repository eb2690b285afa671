package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

func newConfigApproveCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	var applied bool
	cmd := &cobra.Command{
		Use:   "approve SCHEDULER",
		Short: "Offer a proposed configuration to the scheduler",
		Long: `In mode recommend a round only proposes a better configuration. Approving it
offers it to the scheduler, which receives it by its watch or at its next poll and
acknowledges it. Without --revision the newest proposal is approved; 'autosched
scheduler config get SCHEDULER --revision N' shows the reason for it. If you have put it in
force by hand, --applied acknowledges it, too.`,
		Example: `  autosched scheduler config list tiresias
  autosched scheduler config approve tiresias
  autosched scheduler config approve tiresias --revision 4`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if revision < 0 {
				return cli.Usage(fmt.Errorf("--revision: %d is negative", revision))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) (err error) {
				if revision == 0 {
					if revision, err = getProposal(ctx, c, name); err != nil {
						return err
					}
				}
				got, err := c.Configurations.ApproveConfiguration(ctx,
					&pb.ApproveConfigurationRequest{Name: revisionName(name, revision), Applied: applied,
						ValidateOnly: f.ValidateOnly, Etag: f.Etag})
				if err != nil {
					return err
				}
				return printOffer(ctx, f, cmd, c, name, got)
			})
		},
	}
	f.AddChange(cmd, "config get")
	cmd.Flags().Int64Var(&revision, "revision", 0, "the revision (default: the newest proposal)")
	cmd.Flags().BoolVar(&applied, "applied", false, "it has been put in force by hand")
	return cmd
}

// getProposal is the newest revision that is proposed. There is no older one: a new
// revision takes the place of a proposal.
func getProposal(ctx context.Context, c *cli.Client, scheduler string) (int64, error) {
	list, err := c.Configurations.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: scheduler, PageSize: 1})
	if err != nil {
		return 0, err
	}
	for _, one := range list.GetConfigurations() {
		if one.GetState() == pb.Configuration_PROPOSED {
			return one.GetRevision(), nil
		}
	}
	return 0, fmt.Errorf("no configuration of %s is proposed; 'autosched scheduler config list %s' shows what there is",
		cli.ShortName(scheduler), cli.ShortName(scheduler))
}

func newConfigRollbackCmd(f *cli.ClientFlags) *cobra.Command {
	var revision, from int64
	var park bool
	cmd := &cobra.Command{
		Use:   "rollback SCHEDULER",
		Short: "Go back to the values of an earlier revision",
		Long: `Offers the values of an earlier revision to the scheduler again, as a new revision.
Without --revision they are those of the newest other revision that the scheduler
applied, or else the registered defaults. A second rollback changes nothing: to go
back further, name the --revision.

A round may have replaced the configuration you looked at: name that one with
--from, and nothing changes if another is on offer.

In mode auto a later round may find the discarded values again: --park does not
offer them to this scheduler until 'autosched scheduler config unpark', and 'autosched
scheduler pause' stops rounds.`,
		Example: `  autosched scheduler config rollback tiresias --park
  autosched scheduler config rollback tiresias --from 7
  autosched scheduler config rollback tiresias --revision 1 --validate-only`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case revision < 0:
				return cli.Usage(fmt.Errorf("--revision: %d is negative", revision))
			case from < 0:
				return cli.Usage(fmt.Errorf("--from: %d is negative", from))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Configurations.RollbackConfiguration(ctx, &pb.RollbackConfigurationRequest{
					Parent: name, Revision: revision, FromRevision: from, Park: park, ValidateOnly: f.ValidateOnly,
				})
				if err != nil {
					return err
				}
				return printOffer(ctx, f, cmd, c, name, got)
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0,
		"revision to go back to (default: the last other one that was applied)")
	cmd.Flags().Int64Var(&from, "from", 0,
		"revision to go back from; fails if another is on offer (default: the one on offer)")
	f.AddChange(cmd, "")
	cmd.Flags().BoolVar(&park, "park", false, "do not offer the discarded values again")
	return cmd
}

// printOffer prints the configuration that a scheduler should run, or would.
func printOffer(ctx context.Context, f *cli.ClientFlags, cmd *cobra.Command, c *cli.Client, scheduler string,
	offer *pb.Configuration) error {
	return f.Show(cmd, offer, func(w io.Writer) error {
		s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: scheduler})
		if err != nil {
			return err
		}
		form := "the scheduler should run revision %d: %s\n"
		if f.ValidateOnly {
			form = "the scheduler would be offered revision %d: %s\nnothing was stored\n"
		}
		_, err = fmt.Fprintf(w, form, offer.GetRevision(), valuesLine(offer.GetParameters(), s))
		return err
	})
}

func newConfigAckCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	var state, why, instance string
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "ack SCHEDULER --revision N --state applied|rejected|failed",
		Short:             "Acknowledge a revision on a scheduler's behalf",
		Long: `Schedulers acknowledge revisions over the API. Use this command for schedulers
that do not: tuning compares with an applied revision from then on. A proposal
(mode recommend) is not approved by that: 'autosched scheduler config approve --applied'
is for one that you have put in force by hand.

  applied   it is in force
  rejected  it is refused: its values are parked ('autosched scheduler config parked')
  failed    it could not be applied this time`,
		Example: "  autosched scheduler config ack tiresias --revision 4 --state applied",
		RunE: func(cmd *cobra.Command, args []string) error {
			if revision < 1 {
				return cli.Usage(errors.New("--revision is missing: name the revision"))
			}
			if !slices.Contains([]string{"applied", "rejected", "failed"}, state) {
				return cli.Usage(fmt.Errorf("--state: %q is not applied, rejected or failed", state))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Configurations.AcknowledgeConfiguration(ctx, &pb.AcknowledgeConfigurationRequest{
					Name: revisionName(name, revision),
					Acknowledgement: &pb.Acknowledgement{
						State: pb.Acknowledgement_State(pb.Acknowledgement_State_value[strings.ToUpper(state)]),
						Error: why, InstanceId: instance,
					},
				})
				if err != nil {
					return err
				}
				return f.Say(cmd, got, "revision %d is %s; the scheduler should run revision %s", revision,
					got.GetConfiguration().GetState(), cli.OrDash(cli.ShortName(got.GetCurrentConfiguration())))
			})
		},
	}
	f.AddReason(cmd)
	fl := cmd.Flags()
	fl.Int64Var(&revision, "revision", 0, "the revision (required)")
	fl.StringVar(&state, "state", "", "applied, rejected or failed (required)")
	fl.StringVar(&why, "error", "", "why, if not applied")
	fl.StringVar(&instance, "instance", "", "the instance of the scheduler (default: the only one)")
	return cmd
}
