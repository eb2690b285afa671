package studies

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
)

func newStudyOptimalCmd(f *cli.ClientFlags) *cobra.Command {
	var metrics []string
	cmd := &cobra.Command{
		Use:   "optimal SCHEDULER/STUDY",
		Short: "Show the trials that no other beats in several metrics",
		Long: `Shows the trials that succeeded and to which no other is better in one metric and no worse in the
others (the Pareto front). --metrics names metrics that clients reported, such as p95_wait, or
goodput:max for one that is to be large; by default the metric of the study alone.`,
		Example: "  autosched study optimal mine/first --metrics p95_wait,goodput:max",
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pb.ListOptimalTrialsRequest{}
			for _, text := range metrics {
				o := &pb.ListOptimalTrialsRequest_Objective{Goal: pb.StudySpec_MINIMIZE}
				name, goal, _ := strings.Cut(text, ":")
				switch o.MetricId = name; goal {
				case "", "min":
				case "max":
					o.Goal = pb.StudySpec_MAXIMIZE
				default:
					return cli.Usage(fmt.Errorf("--metrics: %q is not METRIC, METRIC:min or METRIC:max", text))
				}
				req.Objectives = append(req.Objectives, o)
			}
			return f.Named(cmd, args, studyArg, func(ctx context.Context, c *cli.Client, name string) error {
				req.Parent = name
				got, err := c.Studies.ListOptimalTrials(ctx, req)
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					for _, t := range got.GetOptimalTrials() {
						fmt.Fprintln(w, trialLine(t))
					}
					if len(got.GetOptimalTrials()) == 0 {
						fmt.Fprintln(w, "no trial with these metrics has succeeded yet")
					}
					return nil
				})
			})
		},
	}
	cmd.Flags().StringSliceVar(&metrics, "metrics", nil, "metrics, comma-separated (default: that of the study)")
	_ = cmd.RegisterFlagCompletionFunc("metrics", cobra.NoFileCompletions)
	return cmd
}

func newStudyEstimateCmd(f *cli.ClientFlags) *cobra.Command {
	var each time.Duration
	var parallel int32
	cmd := &cobra.Command{
		Use:   "estimate SCHEDULER/STUDY",
		Short: "Estimate how many trials a study has left, and how long they take",
		Long: `Prints the trials that are left of the budget, or of the space if it has fewer configurations, and
how long they take: by the mean of the trials that clients or evaluators measured, or --trial-time before there are any.`,
		Example: "  autosched study estimate mine/first --trial-time 10m --parallel 4",
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pb.EstimateStudyRequest{ParallelTrials: parallel}
			if cmd.Flags().Changed("trial-time") {
				req.TrialDuration = durationpb.New(each)
			}
			return f.Named(cmd, args, studyArg, func(ctx context.Context, c *cli.Client, name string) error {
				req.Name = name
				got, err := c.Studies.EstimateStudy(ctx, req)
				if err != nil {
					return err
				}
				left := cli.Plural(int(got.GetRemainingTrials()), "trial") + " left"
				if got.GetTrialDuration() == nil {
					return f.Say(cmd, got, "%s; no trial was timed yet: --trial-time says how long one takes", left)
				}
				return f.Say(cmd, got, "%s of %s: %s, or %s of measuring in all", left,
					units.Duration(got.GetTrialDuration().AsDuration().Seconds()),
					units.Duration(got.GetRemainingDuration().AsDuration().Seconds()),
					units.Duration(got.GetTotalTrialDuration().AsDuration().Seconds()))
			})
		},
	}
	cmd.Flags().DurationVar(&each, "trial-time", 0, "how long a trial takes (default: the mean of those that were measured)")
	cmd.Flags().Int32Var(&parallel, "parallel", 1, "trials that are measured at a time")
	return cmd
}
