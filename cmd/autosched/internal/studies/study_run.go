package studies

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
)

// pollRun is how often 'study run --wait' looks.
const pollRun = 500 * time.Millisecond

func newStudyRunCmd(f *cli.ClientFlags) *cobra.Command {
	req := &pb.RunStudyRequest{}
	var wait bool
	cmd := &cobra.Command{
		Use:   "run SCHEDULER/STUDY --evaluator ID",
		Short: "Let an evaluator of the service measure the trials of a study",
		Long: `The service asks for trials itself, and has them measured by an evaluator that its own
configuration names (serve --evaluators), until the budget is used. A restart of the service
goes on with it. 'study pause' and 'study cancel' end it; to run a study again replaces the
evaluator. With --wait, progress is shown until the study is no longer active; Ctrl-C ends
the waiting alone.`,
		Example: `  autosched study run mine/first --evaluator testbed
  autosched study run mine/first --evaluator testbed --parallel 4 --workload monday --wait
  autosched study run mine/first --evaluator testbed --workload mine/july`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := studyArg(args)
			if err != nil {
				return err
			}
			if strings.Contains(req.GetWorkload(), "/") {
				if req.Workload, err = cli.WorkloadArg(req.GetWorkload()); err != nil {
					return err
				}
			}
			req.Name, req.ValidateOnly, req.Etag = name, f.ValidateOnly, f.Etag
			return f.Call(cmd.Context(), wait, func(ctx context.Context, c *cli.Client) error {
				got, err := c.Studies.RunStudy(ctx, req)
				if err != nil {
					return err
				}
				if f.ValidateOnly {
					return f.Say(cmd, got, "%s would be measured by %s; nothing was stored", cli.ShortStudy(name),
						runText(got.GetRun()))
				}
				if !wait {
					return f.Say(cmd, got, "%s is measured by %s", cli.ShortStudy(name), runText(got.GetRun()))
				}
				line := cli.NewProgressLine(cmd.ErrOrStderr())
				defer line.Clear()
				for got.GetState() == pb.Study_ACTIVE {
					line.Show("%d of %d: %s  %s", got.GetUsedBudget(), got.GetSpec().GetTrialBudget(), countsText(got),
						got.GetRun().GetProblem())
					select {
					case <-time.After(pollRun):
					case <-ctx.Done():
						return ctx.Err()
					}
					if got, err = c.Studies.GetStudy(ctx, &pb.GetStudyRequest{Name: name}); err != nil {
						return err
					}
				}
				line.Clear()
				return f.Show(cmd, got, func(w io.Writer) error { return printStudy(w, got) })
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&req.Evaluator, "evaluator", "", "what measures: an id of 'study evaluators' (required)")
	fl.StringVar(&req.Workload, "workload", "",
		"workload to measure on: SCHEDULER/WORKLOAD of 'autosched scheduler workload', or as the evaluator knows it (default: its own)")
	fl.Int32Var(&req.ParallelTrials, "parallel", 1, "trials to measure at a time, if the evaluator takes as many")
	fl.BoolVar(&wait, "wait", false, "wait until the study is no longer active")
	f.AddChange(cmd, "study get")
	cmd.MarkFlagsMutuallyExclusive("wait", "validate-only")
	return cmd
}

func runText(r *pb.StudyRun) string {
	text := fmt.Sprintf("evaluator %s, %d at a time", r.GetEvaluator(), r.GetParallelTrials())
	if r.GetWorkload() != "" {
		text += ", workload " + cli.ShortWorkload(r.GetWorkload())
	}
	if r.GetProblem() != "" {
		text += "; nothing is measured: " + r.GetProblem()
	}
	return text
}

func newStudyEvaluatorsCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "evaluators",
		Short: "List what the service can measure trials with",
		Long: `Prints the evaluators that the configuration of the service names (serve --evaluators): commands
and services. Their command lines and addresses are not shown: 'study run' names an id.`,
		Example: "  autosched study evaluators",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				got, err := c.Studies.ListEvaluators(ctx, &pb.ListEvaluatorsRequest{})
				return f.Answer(cmd, got, err, func(out io.Writer) error {
					if len(got.GetEvaluators()) == 0 {
						_, err := fmt.Fprintln(out, "the service has no evaluators: 'autosched serve --evaluators FILE' names them")
						return err
					}
					w := cli.NewTable(out, "EVALUATOR\tKIND\tTRIALS AT A TIME\tDEADLINE")
					for _, e := range got.GetEvaluators() {
						fmt.Fprintf(w, "%s\t%s\t%d\t%v\n", e.GetEvaluatorId(), e.GetKind(), e.GetParallelTrials(),
							units.Duration(e.GetDeadline().AsDuration().Seconds()))
					}
					return w.Flush()
				})
			})
		},
	}
}
