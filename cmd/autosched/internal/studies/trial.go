package studies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
)

func newTrialCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "trial",
		Short: "Ask a study for trials and report what they measured",
		Long: `A trial is one configuration to measure. Trials are named SCHEDULER/STUDY/TRIAL, where TRIAL
is a number.`,
	}
	f.Add(cmd)
	cmd.AddCommand(newTrialAskCmd(&f), newTrialTellCmd(&f), newTrialFailCmd(&f), newTrialListCmd(&f),
		newTrialAddCmd(&f),
		newTrialStopCmd(&f))
	return cmd
}

// trialArg reads SCHEDULER/STUDY/TRIAL, or the full name of a trial, from the first argument.
func trialArg(args []string) (string, error) {
	if len(args) == 0 {
		return "", cli.Usage(errors.New("want a trial, as SCHEDULER/STUDY/TRIAL"))
	}
	parts := strings.Split(strings.TrimPrefix(args[0], "schedulers/"), "/")
	if len(parts) == 5 && parts[1] == "studies" && parts[3] == "trials" {
		parts = []string{parts[0], parts[2], parts[4]}
	}
	if len(parts) != 3 {
		return "", cli.Usage(fmt.Errorf("%q is no trial, as SCHEDULER/STUDY/TRIAL", args[0]))
	}
	return fmt.Sprintf("schedulers/%s/studies/%s/trials/%s", parts[0], parts[1], parts[2]), nil
}

func newTrialAskCmd(f *cli.ClientFlags) *cobra.Command {
	var who string
	var count int32
	cmd := &cobra.Command{
		Use:   "ask SCHEDULER/STUDY",
		Short: "Ask for trials to measure",
		Long: `Prints the trials that a client holds: those that it has not completed yet, then others. Who asks
again, after a crash for example, gets the same. Fails once the budget is used or there is
nothing new.`,
		Example: "  autosched study trial ask mine/first\n  autosched study trial ask mine/first --client host-1 --count 4 --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Named(cmd, args, studyArg, func(ctx context.Context, c *cli.Client, name string) (err error) {
				if who == "" {
					if who, err = os.Hostname(); err != nil {
						return cli.Usage(fmt.Errorf("--client: is missing, and the host has no name: %w", err))
					}
				}
				got, err := c.Studies.SuggestTrials(ctx, &pb.SuggestTrialsRequest{Parent: name, ClientId: who,
					SuggestionCount: count})
				return f.Answer(cmd, got, err, func(w io.Writer) error {
					for _, t := range got.GetTrials() {
						fmt.Fprintf(w, "%s%s\n", cli.ShortTrial(t.GetName()), cli.ParametersLine(t))
					}
					if len(got.GetTrials()) == 0 {
						fmt.Fprintf(w, "nothing to measure until other trials end; ask again in %v\n",
							got.GetPollAfter().AsDuration())
					}
					return nil
				})
			})
		},
	}
	cmd.Flags().StringVar(&who, "client", "", "name of the client, the same each time it asks (default: the host's)")
	cmd.Flags().Int32Var(&count, "count", 1, "trials that the client wants to hold")
	return cmd
}

// measured reads NAME=VALUE.
func measured(args []string) (*pb.Measurement, error) {
	m := &pb.Measurement{Metrics: map[string]float64{}}
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		v, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil {
			return nil, cli.Usage(fmt.Errorf("%q is not METRIC=NUMBER", arg))
		}
		m.Metrics[name] = v
	}
	return m, nil
}

func newTrialTellCmd(f *cli.ClientFlags) *cobra.Command {
	var step int64
	var more bool
	cmd := &cobra.Command{
		Use:   "tell SCHEDULER/STUDY/TRIAL METRIC=NUMBER...",
		Short: "Report what a trial measured",
		Long: `Completes a trial with its final measurement, which has the metric of the study and any others.
With --more it reports what was measured so far, renews the lease, and says whether the
trial should stop: its best value is worse than the median of the others at that step.

To repeat a command changes nothing. A result that comes after the lease expired counts.`,
		Example: "  autosched study trial tell mine/first/3 p95_wait=12.5 goodput=0.8\n" +
			"  autosched study trial tell mine/first/3 p95_wait=14 --step 200 --more",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Named(cmd, args, trialArg, func(ctx context.Context, c *cli.Client, name string) error {
				m, err := measured(args[1:])
				if err != nil {
					return err
				}
				if m.StepCount = step; more {
					return addMeasurement(ctx, f, cmd, c, name, m)
				}
				req := &pb.CompleteTrialRequest{Name: name, ValidateOnly: f.ValidateOnly}
				if len(args) > 1 {
					req.Result = &pb.CompleteTrialRequest_FinalMeasurement{FinalMeasurement: m}
				}
				got, err := c.Studies.CompleteTrial(ctx, req)
				id := cli.ShortTrial(name)
				how := fmt.Sprintf(" %s: %s", got.GetState(), metricsLine(got.GetFinalMeasurement()))
				return f.Outcome(cmd, got, err, id+" would be"+how, id+how)
			})
		},
	}
	cmd.Flags().Int64Var(&step, "step", 0, "how far the measured system was, such as the jobs that had ended")
	cmd.Flags().BoolVar(&more, "more", false, "the trial goes on")
	f.AddValidateOnly(cmd)
	cmd.MarkFlagsMutuallyExclusive("more", "validate-only")
	return cmd
}

// addMeasurement reports a measurement before the last one.
func addMeasurement(ctx context.Context, f *cli.ClientFlags, cmd *cobra.Command, c *cli.Client, name string,
	m *pb.Measurement) error {
	_, err := c.Studies.AddTrialMeasurement(ctx, &pb.AddTrialMeasurementRequest{Name: name, Measurement: m})
	if err != nil {
		return err
	}
	_, err = c.Studies.CheckTrialEarlyStoppingState(ctx, &pb.CheckTrialEarlyStoppingStateRequest{Name: name})
	if err != nil {
		return err
	}
	got, err := c.Studies.GetTrial(ctx, &pb.GetTrialRequest{Name: name})
	if err != nil {
		return err
	}
	next := "goes on"
	if got.GetState() == pb.Trial_STOPPING {
		next = "should stop"
	}
	return f.Say(cmd, got, "%s %s", cli.ShortTrial(name), next)
}

func newTrialFailCmd(f *cli.ClientFlags) *cobra.Command {
	var why string
	var infeasible bool
	cmd := &cobra.Command{
		Use:   "fail SCHEDULER/STUDY/TRIAL",
		Short: "Report that a trial could not be measured",
		Long: `Completes a trial as failed, or with --infeasible as one whose configuration cannot be measured. The
sampler avoids both.`,
		Example: "  autosched study trial fail mine/first/3 --reason 'out of memory'\n" +
			"  autosched study trial fail mine/first/3 --infeasible --reason 'does not start'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if why == "" {
				return cli.Usage(errors.New("--reason is missing: say why the trial failed"))
			}
			return f.Named(cmd, args, trialArg, func(ctx context.Context, c *cli.Client, name string) error {
				req := &pb.CompleteTrialRequest{Name: name, Result: &pb.CompleteTrialRequest_Failure{Failure: why}}
				if infeasible {
					req.Result = &pb.CompleteTrialRequest_InfeasibleReason{InfeasibleReason: why}
				}
				got, err := c.Studies.CompleteTrial(ctx, req)
				return f.Reply(cmd, got, err, "%s %s: %s", cli.ShortTrial(name), got.GetState(), got.GetReason())
			})
		},
	}
	cmd.Flags().StringVar(&why, "reason", "", "")
	cmd.Flags().BoolVar(&infeasible, "infeasible", false, "the configuration cannot be measured")
	return cmd
}

func newTrialListCmd(f *cli.ClientFlags) *cobra.Command {
	var l cli.ListFlags
	var plot cli.PlotFlag
	cmd := &cobra.Command{
		Use:   "list SCHEDULER/STUDY",
		Short: "List the trials of a study",
		Long: `Prints all trials of a study: their states, who measured them, their configurations and what was
measured. --plot draws the metric by trial, and the best so far.`,
		Example: "  autosched study trial list mine/first\n  autosched study trial list mine/first --plot history.html",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := plot.Check(); err != nil {
				return err
			}
			return cli.Ask(f, cmd, args, studyArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.ListTrialsResponse, error) {
					all, err := cli.ListTrials(ctx, c, name, l)
					if err != nil {
						return nil, err
					}
					return all, plot.Write(func() (*chart.Page, error) {
						study, err := c.Studies.GetStudy(ctx, &pb.GetStudyRequest{Name: name})
						if err != nil {
							return nil, err
						}
						return historyPage(study, all)
					})
				}, printTrials)
		},
	}
	l.Add(cmd, true)
	plot.Add(cmd)
	return cmd
}

func printTrials(out io.Writer, all *pb.ListTrialsResponse) error {
	w := table.New(out, "TRIAL\tSTATE\tORIGIN\tCLIENT\tMEASURED\tPARAMETERS")
	for _, t := range all.GetTrials() {
		result := metricsLine(t.GetFinalMeasurement())
		if result == "" {
			result = t.GetReason()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cli.ShortName(t.GetName()), t.GetState(), t.GetOrigin(),
			cmp.Or(t.GetClientId(), "-"), cmp.Or(result, "-"), strings.TrimSpace(cli.ParametersLine(t)))
	}
	return w.Flush()
}

func newTrialAddCmd(f *cli.ClientFlags) *cobra.Command {
	var sets []string
	cmd := &cobra.Command{
		Use:   "add SCHEDULER/STUDY [METRIC=NUMBER...]",
		Short: "Add a trial of your own to a study",
		Long: `Adds a configuration to measure, which the next client gets; with metrics, one that was measured
before. Parameters that --set does not name are at their defaults. It is not part of the
budget. What was measured already is not measured again, unless the study allows repeats.`,
		Example: "  autosched study trial add mine/first --set batch=16\n  autosched study trial add mine/first --set batch=16 p95_wait=20",
		RunE: func(cmd *cobra.Command, args []string) error {
			trial := &pb.Trial{Parameters: map[string]*structpb.Value{}}
			for _, set := range sets {
				id, text, ok := strings.Cut(set, "=")
				v := &structpb.Value{}
				if !ok {
					return cli.Usage(fmt.Errorf("--set: %q is not PARAMETER=VALUE", set))
				}
				if protojson.Unmarshal([]byte(text), v) != nil {
					v = structpb.NewStringValue(text)
				}
				trial.Parameters[id] = v
			}
			if len(args) > 1 {
				m, err := measured(args[1:])
				if err != nil {
					return err
				}
				trial.FinalMeasurement, args = m, args[:1]
			}
			return f.Named(cmd, args, studyArg, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Studies.CreateTrial(ctx, &pb.CreateTrialRequest{Parent: name, Trial: trial,
					ValidateOnly: f.ValidateOnly})
				return f.Outcome(cmd, got, err,
					fmt.Sprintf("a trial of%s would be added", cli.ParametersLine(got)),
					fmt.Sprintf("%s (%s)", trialLine(got), got.GetState()))
			})
		},
	}
	cmd.Flags().StringArrayVar(&sets, "set", nil, "")
	_ = cmd.RegisterFlagCompletionFunc("set", cobra.NoFileCompletions)
	f.AddValidateOnly(cmd)
	return cmd
}

func newTrialStopCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "stop SCHEDULER/STUDY/TRIAL",
		Short: "Ask the client of a trial to end it",
		Long: `Marks a trial as stopping: its client sees it with its next report, and completes it. A trial that
waits for a client is skipped.`,
		Example: "  autosched study trial stop mine/first/3",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Named(cmd, args, trialArg, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := c.Studies.StopTrial(ctx, &pb.StopTrialRequest{Name: name})
				return f.Reply(cmd, got, err, "%s is %s", cli.ShortTrial(name), got.GetState())
			})
		},
	}
}
