package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func newConfigApproveCmd(f *clientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		Use:   "approve SCHEDULER",
		Short: "Offer a proposed configuration to the scheduler",
		Long: `In mode recommend a round's better configuration is only proposed. Approving it
offers it to the scheduler, which gets it by its watch or at its next poll and
acknowledges it. Without --revision it is the proposal that stands, the newest;
'autosched config get SCHEDULER --revision N' shows why it was made.`,
		Example: `  autosched config list tiresias
  autosched config approve tiresias
  autosched config approve tiresias --revision 4`,
		ValidArgsFunction: registered(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			if revision < 0 {
				return usageError{fmt.Errorf("--revision: %d is negative", revision)}
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				if revision == 0 {
					if revision, err = c.proposal(ctx, name); err != nil {
						return err
					}
				}
				got, err := c.config.ApproveConfiguration(ctx, &pb.ApproveConfigurationRequest{Name: fmt.Sprintf("%s/configurations/%d", name, revision)})
				if err != nil {
					return err
				}
				return f.offered(cmd, got)
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "the revision (default: the newest proposal)")
	return cmd
}

// proposal is the newest revision that is proposed. There is no older one: a new
// revision takes the place of a proposal.
func (c *client) proposal(ctx context.Context, scheduler string) (int64, error) {
	list, err := c.config.ListConfigurations(ctx, &pb.ListConfigurationsRequest{Parent: scheduler, PageSize: 1})
	if err != nil {
		return 0, err
	}
	for _, one := range list.GetConfigurations() {
		if one.GetState() == pb.Configuration_PROPOSED {
			return one.GetRevision(), nil
		}
	}
	return 0, fmt.Errorf("no configuration of %s is proposed; 'autosched config list %s' shows what there is", shortName(scheduler), shortName(scheduler))
}

func newConfigRollbackCmd(f *clientFlags) *cobra.Command {
	var revision, from int64
	var park bool
	cmd := &cobra.Command{
		Use:   "rollback SCHEDULER",
		Short: "Go back to the values of an earlier revision",
		Long: `Offers the values of an earlier revision to the scheduler again, under a new
revision. Without --revision they are those of the newest other one that the
scheduler applied, or else the registered defaults. Sent again it changes
nothing: to go back further, name the --revision.

A round may put another configuration in the place of the one you looked at: name
that with --from, and nothing is changed if another is on offer by now.

In mode auto a later round may find the values gone back from again: --park
keeps them from ever being offered to this scheduler, and 'autosched scheduler
pause' stops rounds altogether.`,
		Example: `  autosched config rollback tiresias --park
  autosched config rollback tiresias --from 7
  autosched config rollback tiresias --revision 1`,
		ValidArgsFunction: registered(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			switch {
			case revision < 0:
				return usageError{fmt.Errorf("--revision: %d is negative", revision)}
			case from < 0:
				return usageError{fmt.Errorf("--from: %d is negative", from)}
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.config.RollbackConfiguration(ctx, &pb.RollbackConfigurationRequest{Parent: name, Revision: revision, FromRevision: from, Park: park})
				if err != nil {
					return err
				}
				return f.offered(cmd, got)
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "revision to go back to (default: the last other one that was applied)")
	cmd.Flags().Int64Var(&from, "from", 0, "revision to go back from; fails if another is on offer by now (default: whatever is on offer)")
	cmd.Flags().BoolVar(&park, "park", false, "never offer the values gone back from again")
	return cmd
}

func (f *clientFlags) offered(cmd *cobra.Command, c *pb.Configuration) error {
	if f.json {
		return printProto(cmd.OutOrStdout(), c, false)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "the scheduler should run revision %d: %s\n", c.GetRevision(), valuesLine(c))
	return err
}
