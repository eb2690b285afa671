package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

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
	cmd.Flags().StringVar(&until, "until", "", "the event time at which it ends, such as 2026-11-24T08:00:00Z")
	f.AddValidateOnly(cmd)
	f.AddEtag(cmd, "config get")
	cmd.Flags().StringVar(&f.Reason, "reason", "", "why, for people and for 'autosched admin audit list' (required)")
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
	f.AddChange(cmd, "")
	return cmd
}
