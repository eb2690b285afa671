package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func newConfigPinCmd(f *clientFlags) *cobra.Command {
	var sets []string
	var until string
	cmd := &cobra.Command{
		Use:   "pin SCHEDULER --reason WHY",
		Short: "Offer values of your choice and keep tuning from replacing them",
		Long: `Offers values to all instances of a scheduler, as a new revision, and keeps them on
offer until --until, an event time, or 'autosched config unpin'. Values that are not
named are the ones in force, changes by hand among them; where values are pinned
already, or none were acknowledged, those on offer. Without --set, what is on offer is
pinned. Meanwhile rounds are decided, and tuning changes nothing, as in a freeze. An
approval, a rollback or a refusal by the scheduler ends the pin.`,
		Example: `  autosched config pin tiresias --set queues=4 --reason 'end of the quarter'
  autosched config pin tiresias --until 2026-11-24T08:00:00Z --reason 'benchmark of the new nodes'
  autosched config unpin tiresias`,
		ValidArgsFunction: registered(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pb.PinConfigurationRequest{Reason: f.reason, ValidateOnly: f.validateOnly}
			if f.reason == "" {
				return usageError{errors.New("--reason is required: say why, for those who find it pinned")}
			}
			if until != "" {
				t, err := time.Parse(time.RFC3339, until)
				if err != nil {
					return usageError{fmt.Errorf("--until: %q is not a time such as 2026-11-24T08:00:00Z", until)}
				}
				req.ExpireTime = timestamppb.New(t)
			}
			return f.about(cmd, args, func(ctx context.Context, c *client, name string) (err error) {
				req.Parent, req.Etag = name, f.etag
				if len(sets) > 0 {
					if req.Parameters, err = parseSets(ctx, c, name, sets); err != nil {
						return err
					}
				}
				got, err := c.config.PinConfiguration(ctx, req)
				if err != nil {
					return err
				}
				if f.validateOnly {
					return f.say(cmd, got, "the values are valid; nothing was stored")
				}
				return f.say(cmd, got, "revision %d of %s is pinned", got.GetRevision(), shortName(name))
			})
		},
	}
	addSets(cmd, &sets)
	cmd.Flags().StringVar(&until, "until", "", "the event time at which it ends, such as 2026-11-24T08:00:00Z")
	f.addValidateOnly(cmd)
	f.addEtag(cmd, "config get")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for people and for 'autosched audit list' (required)")
	return cmd
}

func newConfigUnpinCmd(f *clientFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "unpin SCHEDULER",
		Short:             "End a pin, so that tuning may replace what is on offer",
		Long:              `Ends what 'autosched config pin' began. What is on offer stays until tuning finds better.`,
		Example:           "  autosched config unpin tiresias",
		ValidArgsFunction: registered(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.about(cmd, args, func(ctx context.Context, c *client, name string) error {
				got, err := c.config.UnpinConfiguration(ctx, &pb.UnpinConfigurationRequest{Parent: name,
					ValidateOnly: f.validateOnly})
				if err != nil {
					return err
				}
				if f.validateOnly {
					return f.say(cmd, got, "%s would be not pinned; nothing was stored", shortName(name))
				}
				return f.say(cmd, got, "%s is not pinned", shortName(name))
			})
		},
	}
	f.addReason(cmd)
	f.addValidateOnly(cmd)
	return cmd
}
