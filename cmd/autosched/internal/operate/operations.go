package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

func newRoundsTriggerCmd(f *cli.ClientFlags) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "trigger SCHEDULER",
		Short: "Decide a round of a scheduler now",
		Long: `Asks for a round at the scheduler's latest event time, beside those that are due. What it
finds is published or proposed under the same limits. It waits for the round up to
--wait; 'autosched scheduler operations' shows and cancels one that takes longer.`,
		Example:           "  autosched scheduler rounds trigger tiresias\n  autosched scheduler rounds trigger tiresias --wait 0",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait < 0 || wait > 10*time.Minute {
				return cli.Usage(fmt.Errorf("--wait: %v is not from 0 to 10m", wait))
			}
			f.Timeout += wait
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Operations.TriggerRound(ctx, &pb.TriggerRoundRequest{Parent: name,
					ValidateOnly: f.ValidateOnly})
				if err == nil && f.ValidateOnly {
					return f.Say(cmd, got, "a round of %s can be decided; nothing was asked for", cli.ShortName(name))
				}
				if err == nil && wait > 0 {
					got, err = c.Operations.WaitOperation(ctx, &pb.WaitOperationRequest{Name: got.GetName(),
						Timeout: durationpb.New(wait)})
				}
				if err != nil {
					return err
				}
				return f.Show(cmd, got, func(w io.Writer) error { return printOperation(w, got) })
			})
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait for the round: at most 10m")
	f.AddChange(cmd, "")
	return cmd
}

func newOperationsCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "operations",
		Short: "Show and cancel what goes on in the service after its answer: triggered rounds, studies that run",
		Long: `Operations are what callers asked for and takes longer than an answer: rounds ('autosched scheduler rounds
trigger') and studies that evaluators measure ('autosched study run'). The service keeps the newest 1000 rounds,
and through a restart the newest 20 of each scheduler. A study is an operation for as long as it is kept.`,
	}
	f.Add(cmd)
	one := func(use, short, long string, call func(context.Context, *cli.Client, string) (*pb.Operation,
		error)) *cobra.Command {
		return &cobra.Command{
			Use: use + " OPERATION", Short: short, Long: long,
			Example: "  autosched scheduler operations list\n  autosched scheduler operations " + use + " OPERATION",
			Args: func(_ *cobra.Command, args []string) error {
				if len(args) != 1 {
					return cli.Usage(
						fmt.Errorf("want one operation, not %d: 'autosched scheduler operations list' has them",
							len(args)))
				}
				return nil
			},
			RunE: func(cmd *cobra.Command, args []string) error {
				return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
					got, err := call(ctx, c, "operations/"+strings.TrimPrefix(args[0], "operations/"))
					return f.Answer(cmd, got, err, func(w io.Writer) error { return printOperation(w, got) })
				})
			},
		}
	}
	var scheduler string
	var l cli.ListFlags
	list := &cobra.Command{
		Use:     "list",
		Short:   "List operations, newest first",
		Long:    `Lists operations by name, with what they are about, how they stand and what they led to.`,
		Example: "  autosched scheduler operations list\n  autosched scheduler operations list --scheduler tiresias",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := &pb.ListOperationsRequest{PageSize: 1000, Filter: l.Filter, OrderBy: l.OrderBy}
			if scheduler != "" {
				req.Scheduler = "schedulers/" + strings.TrimPrefix(scheduler, "schedulers/")
			}
			return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				got, err := c.Operations.ListOperations(ctx, req)
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					return printOperation(w,
						got.GetOperations()...)
				})
			})
		},
	}
	list.Flags().StringVar(&scheduler, "scheduler", "", "only those about this scheduler")
	l.Add(list, "done = false", "end_time desc")
	cmd.AddCommand(list,
		one("get", "Show an operation", "Shows whether an operation waits, is under way, failed or is done, and how far it is or what it led\n"+
			"to: the trials of a study that ended, or the outcome of the round that was decided.",
			func(ctx context.Context, c *cli.Client, name string) (*pb.Operation, error) {
				return c.Operations.GetOperation(ctx, &pb.GetOperationRequest{Name: name})
			}),
		one("wait", "Wait for the end of an operation",
			"Waits until an operation is done, for as long as --timeout (10 seconds unless set), and shows it\n"+
				"then. It may still be under way.",
			func(ctx context.Context, c *cli.Client, name string) (*pb.Operation, error) {
				wait := min(10*time.Minute, max(0, f.Timeout-time.Second))
				return c.Operations.WaitOperation(ctx, &pb.WaitOperationRequest{Name: name,
					Timeout: durationpb.New(wait)})
			}),
		one("cancel", "Cancel an operation", "Ends an operation: a round that waits is not decided, one under way ends without an outcome. What\n"+
			"was published stays. A study is cancelled for good, as by 'autosched study cancel'. To cancel an operation that is\n"+
			"done changes nothing.",
			func(ctx context.Context, c *cli.Client, name string) (*pb.Operation, error) {
				return c.Operations.CancelOperation(ctx, &pb.CancelOperationRequest{Name: name})
			}))
	return cmd
}

func printOperation(out io.Writer, all ...*pb.Operation) error {
	w := cli.NewTable(out, "OPERATION\tSCHEDULER\tBY\tSINCE\tSTATE\tOUTCOME")
	for _, o := range all {
		state, outcome := "under way", "-"
		switch o.GetProgress().GetPhase() {
		case pb.OperationProgress_WAITING:
			state = "waiting"
		case pb.OperationProgress_PAUSED:
			state = "paused"
		}
		if n := o.GetProgress(); n.GetTotalCount() > 0 {
			outcome = fmt.Sprintf("%s: %d of %d trials", cli.ShortStudy(o.GetTarget()), n.GetDoneCount(),
				n.GetTotalCount())
		}
		switch {
		case o.GetError() != nil:
			state, outcome = strings.ToLower(codes.Code(o.GetError().GetCode()).String()), o.GetError().GetMessage()
		case o.GetDone():
			state, outcome = "done", cmp.Or(o.GetRound().GetOutcome(), outcome)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cli.ShortName(o.GetName()), cli.ShortName(o.GetScheduler()),
			o.GetActor(),
			cli.Instant(o.GetCreateTime()), state, outcome)
	}
	return w.Flush()
}
