package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func newFreezeCmd() *cobra.Command {
	var f clientFlags
	var all bool
	var reason, until string
	cmd := &cobra.Command{
		Use:   "freeze [SCHEDULER]",
		Short: "Keep the service from changing what a scheduler, or all of them, run",
		Long: `Freezes the configuration of a scheduler, or with --all of every scheduler that is
registered now, until 'autosched unfreeze' or --until, an event time. The service
changes nothing by itself: rounds are decided and their decision says that it was
frozen, in mode recommend they propose, and what did worse than promised is named in
log and status, with the way back as a proposal. 'autosched config approve' and
'config rollback' work as before, and so do acknowledgements.`,
		Example: `  autosched freeze tiresias --reason 'benchmark of the new nodes' --until 2026-11-24T08:00:00Z
  autosched freeze --all --reason 'end of the quarter'
  autosched unfreeze --all`,
		Args:              oneOrAll(&all),
		ValidArgsFunction: registered(&f),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pb.FreezeTuningRequest{Name: oneName(args), Reason: reason, Etag: f.etag,
				ValidateOnly: f.validateOnly}
			if reason == "" {
				return usageError{errors.New("--reason is required: say why, for those who find it frozen")}
			}
			if until != "" {
				t, err := time.Parse(time.RFC3339, until)
				if err != nil {
					return usageError{fmt.Errorf("--until: %q is not a time such as 2026-11-24T08:00:00Z", until)}
				}
				req.ExpireTime = timestamppb.New(t)
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.tuning.FreezeTuning(ctx, req)
				if err != nil {
					return err
				}
				return f.show(cmd, got, func(w io.Writer) error {
					return printFrozen(&f, w, "frozen", got.GetSchedulers())
				})
			})
		},
	}
	f.add(cmd)
	f.addEtag(cmd, "scheduler get")
	f.addValidateOnly(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every scheduler that is registered now")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people (required)")
	cmd.Flags().StringVar(&until, "until", "", "the event time at which it ends, such as 2026-11-24T08:00:00Z")
	return cmd
}

func newUnfreezeCmd() *cobra.Command {
	var f clientFlags
	var all bool
	cmd := &cobra.Command{
		Use:               "unfreeze [SCHEDULER]",
		Short:             "End a freeze of a scheduler, or of all of them",
		Long:              `Ends what 'autosched freeze' began. The next round may change the configuration again.`,
		Example:           "  autosched unfreeze tiresias\n  autosched unfreeze --all",
		Args:              oneOrAll(&all),
		ValidArgsFunction: registered(&f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.tuning.UnfreezeTuning(ctx, &pb.UnfreezeTuningRequest{Name: oneName(args), Etag: f.etag,
					ValidateOnly: f.validateOnly})
				if err != nil {
					return err
				}
				return f.show(cmd, got, func(w io.Writer) error {
					return printFrozen(&f, w, "not frozen", got.GetSchedulers())
				})
			})
		},
	}
	f.add(cmd)
	f.addEtag(cmd, "scheduler get")
	f.addValidateOnly(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every scheduler")
	return cmd
}

// oneOrAll takes a scheduler, or none with --all.
func oneOrAll(all *bool) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 || *all == (len(args) == 1) {
			return usageError{errors.New("want one SCHEDULER, or --all")}
		}
		return nil
	}
}

// oneName is the name of the scheduler, or of all of them if none is given.
func oneName(args []string) string {
	if len(args) == 0 {
		return "schedulers/-"
	}
	return "schedulers/" + shortName(args[0])
}

func printFrozen(f *clientFlags, w io.Writer, what string, all []*pb.Scheduler) error {
	for _, s := range all {
		if f.validateOnly {
			_, err := fmt.Fprintf(w, "%s would be %s; nothing was stored\n", shortName(s.GetName()), what)
			if err != nil {
				return err
			}
			continue
		}
		_, err := fmt.Fprintf(w, "%s is %s; it keeps revision %s\n", shortName(s.GetName()), what,
			orDash(shortName(s.GetCurrentConfiguration())))
		if err != nil {
			return err
		}
	}
	return nil
}
