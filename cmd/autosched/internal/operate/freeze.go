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

func newFreezeCmd() *cobra.Command {
	var f cli.ClientFlags
	var all bool
	var reason, until string
	cmd := &cobra.Command{
		Use:   "freeze [SCHEDULER]",
		Short: "Keep the service from changing what a scheduler, or all of them, run",
		Long: `Freezes the configuration of a scheduler, or with --all of every scheduler that is
registered now, until 'autosched scheduler unfreeze' or --until, an event time. The service
changes nothing by itself: rounds are decided and their decision says that it was
frozen, in mode recommend they propose, and what did worse than promised is named in
log and status, with the way back as a proposal. 'autosched scheduler config approve' and
'scheduler config rollback' work as before, and so do acknowledgements.`,
		Example: `  autosched scheduler freeze tiresias --reason 'benchmark of the new nodes' --until 2026-11-24T08:00:00Z
  autosched scheduler freeze --all --reason 'end of the quarter'
  autosched scheduler unfreeze --all`,
		Args:              oneOrAll(&all),
		ValidArgsFunction: cli.CompleteSchedulers(&f),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pb.FreezeTuningRequest{Name: oneName(args), Reason: reason, Etag: f.Etag,
				ValidateOnly: f.ValidateOnly}
			if reason == "" {
				return cli.Usage(errors.New("--reason is required: say why, for those who find it frozen"))
			}
			var err error
			if req.ExpireTime, err = cli.ParseInstant("--until", until); err != nil {
				return err
			}
			return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				got, err := c.Tuning.FreezeTuning(ctx, req)
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					return printFrozen(&f, w, "frozen", got.GetSchedulers())
				})
			})
		},
	}
	f.Add(cmd)
	f.AddEtag(cmd, "scheduler get")
	f.AddValidateOnly(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every scheduler that is registered now")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for people (required)")
	cmd.Flags().StringVar(&until, "until", "", "the event time at which it ends, such as 2026-11-24T08:00:00Z")
	return cmd
}

func newUnfreezeCmd() *cobra.Command {
	var f cli.ClientFlags
	var all bool
	cmd := &cobra.Command{
		Use:               "unfreeze [SCHEDULER]",
		Short:             "End a freeze of a scheduler, or of all of them",
		Long:              `Ends what 'autosched scheduler freeze' began. The next round may change the configuration again.`,
		Example:           "  autosched scheduler unfreeze tiresias\n  autosched scheduler unfreeze --all",
		Args:              oneOrAll(&all),
		ValidArgsFunction: cli.CompleteSchedulers(&f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				got, err := c.Tuning.UnfreezeTuning(ctx, &pb.UnfreezeTuningRequest{Name: oneName(args), Etag: f.Etag,
					ValidateOnly: f.ValidateOnly})
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					return printFrozen(&f, w, "not frozen", got.GetSchedulers())
				})
			})
		},
	}
	f.Add(cmd)
	f.AddEtag(cmd, "scheduler get")
	f.AddValidateOnly(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "every scheduler")
	return cmd
}

// oneOrAll takes a scheduler, or none with --all.
func oneOrAll(all *bool) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 || *all == (len(args) == 1) {
			return cli.Usage(errors.New("want one SCHEDULER, or --all"))
		}
		return nil
	}
}

// oneName is the name of the scheduler, or of all of them if none is given.
func oneName(args []string) string {
	if len(args) == 0 {
		return "schedulers/-"
	}
	return "schedulers/" + cli.ShortName(args[0])
}

func printFrozen(f *cli.ClientFlags, w io.Writer, what string, all []*pb.Scheduler) error {
	for _, s := range all {
		if f.ValidateOnly {
			_, err := fmt.Fprintf(w, "%s would be %s; nothing was stored\n", cli.ShortName(s.GetName()), what)
			if err != nil {
				return err
			}
			continue
		}
		_, err := fmt.Fprintf(w, "%s is %s; it keeps revision %s\n", cli.ShortName(s.GetName()), what,
			cli.OrDash(cli.ShortName(s.GetCurrentConfiguration())))
		if err != nil {
			return err
		}
	}
	return nil
}
