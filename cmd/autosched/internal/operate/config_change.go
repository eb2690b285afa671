package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
)

func newConfigApproveCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	var applied bool
	cmd := &cobra.Command{
		Use:   "approve SCHEDULER",
		Short: "Offer a proposed configuration to the scheduler",
		Long: `In mode recommend a round only proposes a better configuration. Approving it
offers it to the scheduler, which receives it by its watch or at its next poll and
acknowledges it. Without --revision the proposal that waits is approved; 'autosched
scheduler config get SCHEDULER --revision N' shows the reason for it. A parked one is named. If you have put it in
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
	f.AddChange(cmd, true)
	cmd.Flags().Int64Var(&revision, "revision", 0, "")
	cmd.Flags().BoolVar(&applied, "applied", false, "it has been put in force by hand")
	return cmd
}

// getProposal is the revision that is proposed: one at most waits.
func getProposal(ctx context.Context, c *cli.Client, scheduler string) (int64, error) {
	list, err := c.Configurations.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: scheduler, PageSize: 1,
		Filter: "state = PROPOSED"})
	if err != nil {
		return 0, err
	}
	for _, one := range list.GetConfigurations() {
		return one.GetRevision(), nil
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
--from-revision, and nothing changes if another is on offer.

In mode auto a later round may find the discarded values again: --park does not
offer them to this scheduler until 'autosched scheduler config unpark', and 'autosched
scheduler pause' stops rounds.`,
		Example: `  autosched scheduler config rollback tiresias --park
  autosched scheduler config rollback tiresias --from-revision 7
  autosched scheduler config rollback tiresias --revision 1 --validate-only`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case revision < 0:
				return cli.Usage(fmt.Errorf("--revision: %d is negative", revision))
			case from < 0:
				return cli.Usage(fmt.Errorf("--from-revision: %d is negative", from))
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
	cmd.Flags().Int64Var(&revision, "revision", 0, "(default: the last other one that was applied)")
	cmd.Flags().Int64Var(&from, "from-revision", 0,
		"revision to go back from; fails if another is on offer (default: the one on offer)")
	f.AddChange(cmd, false)
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
		Use:               "ack SCHEDULER --revision N --outcome applied|rejected|failed",
		Short:             "Acknowledge a revision on a scheduler's behalf",
		Long: `Schedulers acknowledge revisions over the API. Use this command for schedulers
that do not: tuning compares with an applied revision from then on. A proposal
(mode recommend) is not approved by that: 'autosched scheduler config approve --applied'
is for one that you have put in force by hand.

  applied   it is in force
  rejected  it is refused: its values are parked ('autosched scheduler config parked')
  failed    it could not be applied this time`,
		Example: "  autosched scheduler config ack tiresias --revision 4 --outcome applied",
		RunE: func(cmd *cobra.Command, args []string) error {
			if revision < 1 {
				return cli.Usage(errors.New("--revision is missing: name the revision"))
			}
			if !slices.Contains([]string{"applied", "rejected", "failed"}, state) {
				return cli.Usage(fmt.Errorf("--outcome: %q is not applied, rejected or failed", state))
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
					got.GetConfiguration().GetState(), cmp.Or(cli.ShortName(got.GetCurrentConfiguration()), "-"))
			})
		},
	}
	f.AddReason(cmd)
	fl := cmd.Flags()
	fl.Int64Var(&revision, "revision", 0, "")
	fl.StringVar(&state, "outcome", "", "applied, rejected or failed (required)")
	fl.StringVar(&why, "error", "", "why, if not applied")
	fl.StringVar(&instance, "instance", "", "")
	return cmd
}

func newConfigRejectCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "reject SCHEDULER",
		Short:             "Reject a proposed configuration and park its values",
		Long: `Parks the values of a proposal (mode recommend), so that no round proposes them
again, until 'autosched scheduler config unpark'. Without --revision the proposal that
waits is rejected.`,
		Example: `  autosched scheduler config reject tiresias
  autosched scheduler config reject tiresias --revision 4 --reason "starves short jobs"`,
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
				got, err := c.Configurations.RejectConfiguration(ctx,
					&pb.RejectConfigurationRequest{Name: revisionName(name, revision), Reason: f.Reason,
						ValidateOnly: f.ValidateOnly, Etag: f.Etag})
				if err != nil {
					return err
				}
				if got.GetState() != pb.Configuration_REJECTED {
					return f.Say(cmd, got, "revision %d is %s; it has the registered defaults, which are never parked",
						revision, got.GetState())
				}
				if f.ValidateOnly {
					return f.Say(cmd, got, "revision %d can be rejected; nothing was stored", revision)
				}
				return f.Say(cmd, got, "revision %d is rejected and its values are parked until "+
					"'autosched scheduler config unpark %s --revision %[1]d'", revision, cli.ShortName(name))
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "")
	f.AddChange(cmd, true)
	return cmd
}

func newConfigParkCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "park SCHEDULER",
		Short:             "Set a proposed configuration aside, to decide about it later",
		Long: `A parked proposal waits for no decision, and no round proposes its values again. 'autosched
scheduler config approve' and 'reject' with its --revision decide about it later, and 'autosched
scheduler config unpark' lets it wait again. Further proposals leave it as it is; another
offer to the scheduler supersedes it. Without --revision the proposal that waits is parked.`,
		Example: `  autosched scheduler config park tiresias --reason "after the release"
  autosched scheduler config parked tiresias
  autosched scheduler config approve tiresias --revision 4`,
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
				got, err := c.Configurations.ParkConfiguration(ctx,
					&pb.ParkConfigurationRequest{Name: revisionName(name, revision), Reason: f.Reason,
						ValidateOnly: f.ValidateOnly, Etag: f.Etag})
				return f.Outcome(cmd, got, err, fmt.Sprintf("revision %d can be parked", revision),
					fmt.Sprintf("revision %d is parked; 'autosched scheduler config approve %s --revision %[1]d' still offers it",
						revision, cli.ShortName(name)))
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "")
	f.AddChange(cmd, true)
	return cmd
}

func newConfigUnparkCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "unpark SCHEDULER --revision N",
		Short:             "Let the values of a parked revision be offered again",
		Long: `Values that the scheduler refused, or that an operator parked, are not offered until
they are unparked; those that did worse than promised, not for a day. Unparking
does not offer them: a later round may find them, and 'autosched scheduler config rollback
--revision N' goes back to them. A parked proposal waits for a decision again.`,
		Example: `  autosched scheduler config parked tiresias
  autosched scheduler config unpark tiresias --revision 4`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if revision < 1 {
				return cli.Usage(errors.New("--revision is missing: name the revision"))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Configurations.UnparkConfiguration(ctx,
					&pb.UnparkConfigurationRequest{Name: revisionName(name, revision), ValidateOnly: f.ValidateOnly,
						Etag: f.Etag})
				done := fmt.Sprintf("the values of revision %d are unparked", revision)
				can := fmt.Sprintf("the values of revision %d can be unparked", revision)
				if waits := got.GetRevision(); got.GetState() == pb.Configuration_PROPOSED {
					done = fmt.Sprintf("revision %d waits %s", waits, cli.WaitsText(cli.ShortName(name)))
					if waits != revision {
						can += fmt.Sprintf("; revision %d, which has them, waits again then", waits)
					}
				}
				return f.Outcome(cmd, got, err, can, done)
			})
		},
	}
	f.AddChange(cmd, true)
	cmd.Flags().Int64Var(&revision, "revision", 0, "")
	return cmd
}

func newConfigParkedCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "parked SCHEDULER",
		Short:             "List the values that are not offered to a scheduler, and parked proposals",
		Long: `Lists parked values by a revision that has them, who parked them, since when, until
when and why. "decided" stands with proposals that were set aside. 'autosched
scheduler config get SCHEDULER --revision N' shows the values.`,
		Example: "  autosched scheduler config parked tiresias",
		RunE: cli.Asks(f, cli.SchedulerArg,
			func(ctx context.Context, c *cli.Client, name string) (*pb.ListParkedConfigurationsResponse, error) {
				return cli.Pages(func(page string) (*pb.ListParkedConfigurationsResponse, error) {
					return c.Configurations.ListParkedConfigurations(ctx,
						&pb.ListParkedConfigurationsRequest{Parent: name, PageSize: 1000, PageToken: page})
				})
			}, printParked),
	}
}

func printParked(out io.Writer, all *pb.ListParkedConfigurationsResponse) error {
	w := table.New(out, "REVISION\tBY\tSINCE\tUNTIL\tREASON")
	for _, p := range all.GetParkedConfigurations() {
		by, until := p.GetActor(), "unparked"
		if p.GetProposal() {
			until = "decided"
		}
		if id := p.GetInstanceId(); id != "" {
			by += " (" + id + ")"
		}
		if t := p.GetExpireTime(); t != nil {
			until = cli.Instant(t)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cli.ShortName(p.GetConfiguration()), by,
			cli.Instant(p.GetCreateTime()), until, cmp.Or(cli.OneLine(p.GetReason()), "-"))
	}
	return w.Flush()
}

func newConfigForgetCmd(f *cli.ClientFlags) *cobra.Command {
	var instance string
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "forget SCHEDULER --instance ID",
		Short:             "Forget an instance of a scheduler that is gone",
		Long: `An instance that is gone acknowledges nothing more, and is degraded once it should
have. Forget it, and nothing waits for it. 'autosched scheduler get' lists the
instances. One that acknowledges something is known again.`,
		Example: "  autosched scheduler config forget tiresias --instance replica-2",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("instance") {
				return cli.Usage(errors.New("--instance is missing: name the instance"))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Configurations.ForgetInstance(ctx,
					&pb.ForgetInstanceRequest{Parent: name, InstanceId: instance, ValidateOnly: f.ValidateOnly})
				what := fmt.Sprintf("instance %q of %s", instance, cli.ShortName(name))
				return f.Outcome(cmd, got, err, what+" would be forgotten", what+" is forgotten")
			})
		},
	}
	f.AddChange(cmd, false)
	cmd.Flags().StringVar(&instance, "instance", "", "")
	return cmd
}

func newConfigProposeCmd(f *cli.ClientFlags) *cobra.Command {
	var sets []string
	cmd := &cobra.Command{
		Use:   "propose SCHEDULER --set NAME=VALUE --reason WHY",
		Short: "Propose values of your choice, for an operator to approve",
		Long: `Proposes values, as a new revision that takes the place of an earlier proposal. Values that
are not named are the ones in force. Nothing is offered before 'autosched scheduler config
approve'; 'autosched scheduler what-if' simulates the same values.`,
		Example:           "  autosched scheduler config propose tiresias --set queues=4 --reason 'end of the quarter'",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.Reason == "" || len(sets) == 0 {
				return cli.Usage(errors.New("--set and --reason are required: name values, and say why"))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				values, err := parseSets(ctx, c, name, sets)
				if err != nil {
					return err
				}
				got, err := c.Configurations.ProposeConfiguration(ctx, &pb.ProposeConfigurationRequest{Parent: name,
					Parameters: values, Reason: f.Reason, Etag: f.Etag, ValidateOnly: f.ValidateOnly})
				return f.Outcome(cmd, got, err, "the values are valid",
					fmt.Sprintf("revision %d of %s is proposed", got.GetRevision(), cli.ShortName(name)))
			})
		},
	}
	addSets(cmd, &sets)
	f.AddValidateOnly(cmd)
	f.AddEtag(cmd)
	cmd.Flags().StringVar(&f.Reason, "reason", "", "")
	return cmd
}

func newConfigPinCmd(f *cli.ClientFlags) *cobra.Command {
	var sets []string
	var until string
	cmd := &cobra.Command{
		Use:   "pin SCHEDULER --reason WHY",
		Short: "Offer values of your choice and keep tuning from replacing them",
		Long: `Offers values to all instances of a scheduler, as a new revision, and keeps them on
offer until --until, an event time, or 'autosched scheduler config unpin'. Values that are not
named are the ones in force, changes by hand among them; where values are pinned
already, or none were acknowledged, those on offer. Without --set, what is on offer is
pinned. Meanwhile rounds are decided, and tuning changes nothing, as in a freeze. An
approval, a rollback or a refusal by the scheduler ends the pin.`,
		Example: `  autosched scheduler config pin tiresias --set queues=4 --reason 'end of the quarter'
  autosched scheduler config pin tiresias --until 2026-11-24T08:00:00Z --reason 'benchmark of the new nodes'
  autosched scheduler config unpin tiresias`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pb.PinConfigurationRequest{Reason: f.Reason, ValidateOnly: f.ValidateOnly}
			if f.Reason == "" {
				return cli.Usage(errors.New("--reason is required: say why, for those who find it pinned"))
			}
			var err error
			if req.ExpireTime, err = cli.ParseInstant("--until", until); err != nil {
				return err
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) (err error) {
				req.Parent, req.Etag = name, f.Etag
				if len(sets) > 0 {
					if req.Parameters, err = parseSets(ctx, c, name, sets); err != nil {
						return err
					}
				}
				got, err := c.Configurations.PinConfiguration(ctx, req)
				return f.Outcome(cmd, got, err, "the values are valid",
					fmt.Sprintf("revision %d of %s is pinned", got.GetRevision(), cli.ShortName(name)))
			})
		},
	}
	addSets(cmd, &sets)
	cmd.Flags().StringVar(&until, "until", "", "")
	f.AddValidateOnly(cmd)
	f.AddEtag(cmd)
	cmd.Flags().StringVar(&f.Reason, "reason", "", "")
	return cmd
}

func newConfigUnpinCmd(f *cli.ClientFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "unpin SCHEDULER",
		Short:             "End a pin, so that tuning may replace what is on offer",
		Long:              `Ends what 'autosched scheduler config pin' began. What is on offer stays until tuning finds better.`,
		Example:           "  autosched scheduler config unpin tiresias",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Configurations.UnpinConfiguration(ctx, &pb.UnpinConfigurationRequest{Parent: name,
					ValidateOnly: f.ValidateOnly})
				id := cli.ShortName(name)
				return f.Outcome(cmd, got, err, id+" would be not pinned", id+" is not pinned")
			})
		},
	}
	f.AddChange(cmd, false)
	return cmd
}
