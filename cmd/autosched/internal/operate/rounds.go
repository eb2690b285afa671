package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
)

func newRoundsCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "rounds",
		Short: "Show the rounds of a scheduler: what was measured, and why it was adopted or not",
		Long: `The service keeps the newest rounds of each scheduler (serve --keep-rounds), those that
changed nothing included: what they were decided on, what they measured and what they
decided. 'autosched admin replay' decides one again.`,
	}
	f.Add(cmd)
	cmd.AddCommand(newRoundsListCmd(&f), newRoundsShowCmd(&f), newRoundsTriggerCmd(&f))
	return cmd
}

func newRoundsListCmd(f *cli.ClientFlags) *cobra.Command {
	var limit int32
	var l cli.ListFlags
	cmd := &cobra.Command{
		Use:   "list SCHEDULER",
		Short: "List a scheduler's rounds, newest first",
		Long: `Prints the newest rounds: the event time that each decided for, the revision it published, if
any, what it searched and what it decided.`,
		Example:           "  autosched scheduler rounds list tiresias --limit 5",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.CheckLimit(limit); err != nil {
				return err
			}
			return cli.Ask(f, cmd, args, cli.SchedulerArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.ListRoundsResponse, error) {
					return c.Rounds.ListRounds(ctx, &pb.ListRoundsRequest{Parent: name, PageSize: limit,
						Filter: l.Filter, OrderBy: l.OrderBy})
				}, printRounds)
		},
	}
	cmd.Flags().Int32Var(&limit, "limit", 20, "")
	l.Add(cmd, true)
	return cmd
}

func printRounds(out io.Writer, list *pb.ListRoundsResponse) error {
	w := table.New(out, "ROUND\tFOR\tREVISION\tSEARCH\tOUTCOME")
	for _, r := range list.GetRounds() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cli.ShortName(r.GetName()), schedulerTime(r),
			cmp.Or(revisionText(r.GetRevision()), "-"), cmp.Or(r.GetSearch(), "-"), outcomeText(r))
	}
	if list.GetNextPageToken() != "" {
		fmt.Fprintln(w, "... more (--limit)")
	}
	return w.Flush()
}

func schedulerTime(r *pb.Round) string {
	if r.GetSchedulerTime() == nil {
		return "-"
	}
	return cli.Instant(r.GetSchedulerTime())
}

func revisionText(revision int64) string {
	if revision == 0 {
		return ""
	}
	return strconv.FormatInt(revision, 10)
}

func outcomeText(r *pb.Round) string {
	return cmp.Or(r.GetOutcome(), r.GetError(), "none: the service ended before")
}

func newRoundsShowCmd(f *cli.ClientFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show SCHEDULER [ROUND]",
		Short: "Show what a round measured and why it adopted a configuration or not",
		Long: `Shows a round: by default the newest. Of each candidate it shows the ratio, the
incumbent's controllable objective over the candidate's (above 1 is better), the mean
objective over the futures of this round, and what the adoption rule made of it. That
weighs the rounds of two days and a replay of the last week, too, so that the best
ratio of one round need not win. * marks what the adoption rule chose.`,
		Example: `  autosched scheduler rounds show tiresias
  autosched scheduler rounds show tiresias 17 --json`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			number := ""
			if len(args) == 2 {
				args, number = args[:1], args[1]
				if n, err := strconv.ParseInt(number, 10, 64); err != nil || n < 1 {
					return cli.Usage(fmt.Errorf("%q is not the number of a round, from 1; "+
						"'autosched scheduler rounds list %s' shows them", number, cli.ShortName(args[0])))
				}
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				full := name + "/rounds/" + number
				if number == "" {
					list, err := c.Rounds.ListRounds(ctx, &pb.ListRoundsRequest{Parent: name, PageSize: 1})
					if err != nil {
						return err
					}
					if len(list.GetRounds()) == 0 {
						return fmt.Errorf("no round of %s is kept: the first is due once its event time passes its "+
							"interval; 'autosched scheduler get %s' shows both", cli.ShortName(name),
							cli.ShortName(name))
					}
					full = list.GetRounds()[0].GetName()
				}
				got, err := c.Rounds.GetRound(ctx, &pb.GetRoundRequest{Name: full})
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
					if err != nil {
						return err
					}
					return printRound(w, got, s)
				})
			})
		},
	}
	return cmd
}

func printRound(out io.Writer, r *pb.Round, s *pb.Scheduler) error {
	w := table.New(out, "")
	fmt.Fprintf(w, "round\t%s for %s\n", cli.ShortName(r.GetName()), schedulerTime(r))
	fmt.Fprintf(w, "outcome\t%s\n", outcomeText(r))
	if r.GetSchedulerTime() == nil {
		return w.Flush()
	}
	if !strings.HasSuffix(outcomeText(r), r.GetReason()) {
		fmt.Fprintf(w, "decision\t%s\n", r.GetReason())
	}
	if r.GetSearch() != "" {
		fmt.Fprintf(w, "searched\t%s: %s\n", r.GetSearch(), cmp.Or(r.GetSearchReason(), "-"))
	}
	objective := "objective"
	if goal, err := round.ParseGoal(r.GetSettings().GetFields()["objective"].GetStringValue()); err == nil {
		objective = goal.Title()
	}
	fmt.Fprintf(w, "futures\t%s: best %s, incumbent %s\n", objective, meanText(r.GetPredictedObjectives()),
		meanText(r.GetIncumbentObjectives()))
	if r.GetEnergy() != nil {
		fmt.Fprintf(w, "energy\tbest %s\n\tincumbent %s\n", energyText(r.GetEnergy()),
			energyText(r.GetIncumbentEnergy()))
	}
	if best := valuesLine(r.GetParameters(), s); r.GetAdopt() {
		fmt.Fprintf(w, "adopted\t%s\n", best)
	}
	fmt.Fprintf(w, "input\t%d events, SHA-256 %.16s\n", r.GetEventCount(), r.GetInputDigest())
	if err := w.Flush(); err != nil || len(r.GetCandidates()) == 0 {
		return err
	}
	fmt.Fprintln(out)
	fmt.Fprintf(w, "  CANDIDATE\tRATIO\t%s\tOUTCOME\tVALUES\n",
		strings.Replace(strings.ToUpper(objective), "(S)", "(s)", 1))
	incumbent := r.GetIncumbentObjectives()
	for _, c := range r.GetCandidates() {
		if c.GetOutcome() == "in force" {
			incumbent = c.GetObjectives() // without the measurements of a race
		}
	}
	for _, c := range r.GetCandidates() {
		mark := " "
		if strings.HasPrefix(c.GetOutcome(), "adopted") || !r.GetAdopt() && c.GetOutcome() == "in force" {
			mark = "*"
		}
		fmt.Fprintf(w, "%s %s\t%s\t%s\t%s\t%s\n", mark, c.GetOrigin(), ratioText(c, incumbent),
			meanText(c.GetObjectives()), cmp.Or(c.GetError(), c.GetOutcome(), "-"),
			valuesLine(c.GetParameters(), s))
	}
	return w.Flush()
}

// ratioText is a candidate's ratio, in words where the number says little.
func ratioText(c *pb.Round_Candidate, incumbent []float64) string {
	switch ratio := c.GetControllableRatio(); {
	case len(c.GetObjectives()) == 0:
		return "-"
	case slices.Equal(c.GetObjectives(), incumbent) && c.GetOutcome() != "in force":
		return "no difference"
	case ratio >= search.MaxRatio:
		return "nothing left to gain"
	default:
		return fmt.Sprintf("%.4g", ratio)
	}
}

// meanText is the mean of values over futures.
func meanText(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return fmt.Sprintf("%.6g", sum/float64(len(values)))
}

func newRoundsTriggerCmd(f *cli.ClientFlags) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "trigger SCHEDULER",
		Short: "Decide a round of a scheduler now",
		Long: `Asks for a round at the scheduler's latest event time, beside those that are due. What it
finds is published or proposed under the same limits. It waits for the round up to
--wait-time; 'autosched scheduler operations' shows and cancels one that takes longer.`,
		Example:           "  autosched scheduler rounds trigger tiresias\n  autosched scheduler rounds trigger tiresias --wait-time 0",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait < 0 || wait > 10*time.Minute {
				return cli.Usage(fmt.Errorf("--wait-time: %v is not from 0 to 10m", wait))
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
	cmd.Flags().DurationVar(&wait, "wait-time", time.Minute, "how long to wait for the round: at most 10m")
	f.AddChange(cmd, false)
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
		Example: "  autosched scheduler operations list\n  autosched scheduler operations list --id tiresias",
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
	list.Flags().StringVar(&scheduler, "id", "", "")
	l.Add(list, true)
	cmd.AddCommand(list,
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
	w := table.New(out, "OPERATION\tSCHEDULER\tBY\tSINCE\tSTATE\tOUTCOME")
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
