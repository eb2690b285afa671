package operate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

func newConfigRejectCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "reject SCHEDULER",
		Short:             "Reject a proposed configuration and park its values",
		Long: `Parks the values of a proposal (mode recommend), so that no round proposes them
again, until 'autosched scheduler config unpark'. Without --revision the newest proposal
is rejected.`,
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
	cmd.Flags().Int64Var(&revision, "revision", 0, "the revision (default: the newest proposal)")
	f.AddChange(cmd, "config get")
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
--revision N' goes back to them.`,
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
				return f.Outcome(cmd, got, err,
					fmt.Sprintf("the values of revision %d can be unparked", revision),
					fmt.Sprintf("the values of revision %d are no longer parked", revision))
			})
		},
	}
	f.AddChange(cmd, "config get")
	cmd.Flags().Int64Var(&revision, "revision", 0, "the revision (required)")
	return cmd
}

func newConfigParkedCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "parked SCHEDULER",
		Short:             "List the values that are not offered to a scheduler",
		Long: `Lists parked values by a revision that has them, who parked them, since when, until
when and why. 'autosched scheduler config get SCHEDULER --revision N' shows the values.`,
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
	w := cli.NewTable(out, "REVISION\tBY\tSINCE\tUNTIL\tREASON")
	for _, p := range all.GetParkedConfigurations() {
		by, until := p.GetActor(), "unparked"
		if id := p.GetInstanceId(); id != "" {
			by += " (" + id + ")"
		}
		if t := p.GetExpireTime(); t != nil {
			until = cli.Instant(t)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cli.ShortName(p.GetConfiguration()), by,
			cli.Instant(p.GetCreateTime()), until, cli.OrDash(p.GetReason()))
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
	f.AddChange(cmd, "")
	cmd.Flags().StringVar(&instance, "instance", "", "the id of the instance (required)")
	return cmd
}
