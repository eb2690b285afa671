package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
)

func newSchedulerUpdateCmd(f *clientFlags) *cobra.Command {
	var displayName, mode, objective string
	var interval, horizon time.Duration
	var minRatio float64
	var futures, budget int32
	var validateOnly bool
	cmd := &cobra.Command{
		Use:   "update NAME",
		Short: "Change how a scheduler is tuned: its mode, objective, or rounds",
		Long: `Changes what is named by a flag and leaves the rest as it is; it counts from the
next round on. What may be tuned and the cluster stay as registered: for others,
register the scheduler under another id.`,
		Example: `  autosched scheduler update tiresias --mode auto
  autosched scheduler update tiresias --interval 30m --min-ratio 1.1
  autosched scheduler update tiresias --objective p95_jct --validate-only
  autosched scheduler update tiresias --objective 'avg_jct subject to p99_jct<=1.1*incumbent'`,
		ValidArgsFunction: registered(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			policy := &pb.RolloutPolicy{UpdateInterval: durationpb.New(interval), Horizon: durationpb.New(horizon), MinControllableRatio: minRatio, Futures: futures, TrialBudget: budget}
			spec := &pb.SchedulerSpec{Rollout: policy, Objective: objectiveSpec(objective)}
			if spec.Mode, err = modeOf(mode); err != nil {
				return err
			}
			mask := &fieldmaskpb.FieldMask{}
			for _, one := range []struct{ flag, path string }{
				{"display-name", "display_name"}, {"mode", "spec.mode"}, {"objective", "spec.objective"}, {"interval", "spec.rollout.update_interval"},
				{"min-ratio", "spec.rollout.min_controllable_ratio"}, {"horizon", "spec.rollout.horizon"}, {"futures", "spec.rollout.futures"}, {"budget", "spec.rollout.trial_budget"},
			} {
				if cmd.Flags().Changed(one.flag) {
					mask.Paths = append(mask.Paths, one.path)
				}
			}
			if len(mask.Paths) == 0 {
				return usageError{errors.New("nothing to change: name it by a flag, such as --mode auto")}
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.tuning.UpdateScheduler(ctx, &pb.UpdateSchedulerRequest{
					Scheduler: &pb.Scheduler{Name: name, DisplayName: displayName, Spec: spec}, UpdateMask: mask, ValidateOnly: validateOnly,
				})
				if err != nil {
					return err
				}
				if validateOnly && !f.json {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s would be updated; nothing was stored\n", got.GetName())
					return err
				}
				return f.showScheduler(cmd, got)
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&displayName, "display-name", "", "name for people")
	fl.StringVar(&mode, "mode", "", "recommend or auto")
	fl.StringVar(&objective, "objective", "", "metric to improve, such as avg_jct, or a goal, such as 'avg_jct subject to p99_jct<=1.1*incumbent' (docs/tune.md)")
	fl.DurationVar(&interval, "interval", 0, "event time between tuning rounds, such as 1h")
	fl.Float64Var(&minRatio, "min-ratio", 0, "least gain on the controllable part that replaces the incumbent")
	fl.DurationVar(&horizon, "horizon", 0, "arrivals forecast for this long belong to a future")
	fl.Int32Var(&futures, "futures", 0, "futures that every candidate is played on")
	fl.Int32Var(&budget, "budget", 0, "evaluations per round")
	fl.BoolVar(&validateOnly, "validate-only", false, "check only, store nothing")
	return cmd
}

// modeOf reads --mode; nothing is no mode.
func modeOf(text string) (pb.SchedulerSpec_Mode, error) {
	switch text {
	case "":
		return pb.SchedulerSpec_MODE_UNSPECIFIED, nil
	case "recommend", "auto":
		return pb.SchedulerSpec_Mode(pb.SchedulerSpec_Mode_value[strings.ToUpper(text)]), nil
	}
	return 0, usageError{fmt.Errorf("--mode: %q is not recommend or auto", text)}
}

func (f *clientFlags) showScheduler(cmd *cobra.Command, s *pb.Scheduler) error {
	if f.json {
		return printProto(cmd.OutOrStdout(), s, false)
	}
	return printScheduler(cmd.OutOrStdout(), s)
}

func newSchedulerPauseCmd(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "pause NAME",
		Short: "Stop tuning rounds of a scheduler, until it is resumed",
		Long: `Keeps tuning rounds from being decided. Events are taken in and configurations
are served as before, and may be approved and rolled back. A round under way is
dropped.`,
		Example:           "  autosched scheduler pause tiresias",
		ValidArgsFunction: registered(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.tuning.PauseTuning(ctx, &pb.PauseTuningRequest{Name: name})
				if err != nil {
					return err
				}
				if f.json {
					return printProto(cmd.OutOrStdout(), got, false)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "tuning of %s is paused; it keeps revision %s\n", shortName(name), orDash(shortName(got.GetCurrentConfiguration())))
				return err
			})
		},
	}
}

func newSchedulerResumeCmd(f *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME",
		Short: "Let tuning rounds of a paused scheduler go on",
		Long: `Ends a pause. If rounds have passed meanwhile, one is decided at once: the latest
that is due.`,
		Example:           "  autosched scheduler resume tiresias",
		ValidArgsFunction: registered(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := schedulerArg(args)
			if err != nil {
				return err
			}
			return f.call(cmd.Context(), false, func(ctx context.Context, c *client) error {
				got, err := c.tuning.ResumeTuning(ctx, &pb.ResumeTuningRequest{Name: name})
				if err != nil {
					return err
				}
				if f.json {
					return printProto(cmd.OutOrStdout(), got, false)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "tuning of %s goes on\n", shortName(name))
				return err
			})
		},
	}
}
