// Package studies has the commands about studies and their trials.
package studies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
)

func newStudyCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "study",
		Short: "Tune any scheduler by ask and tell: create studies, see and propose what they find",
		Long: `A study searches the parameters of a scheduler, simulated or not. Clients ask for trials
('autosched study trial ask'), measure each configuration on what they have, and report the
metric ('autosched study trial tell'); or the service does, by an evaluator ('autosched study run').
Studies are named SCHEDULER/STUDY.`,
	}
	f.Add(cmd)
	cmd.AddCommand(newTrialCmd(), newStudyCreateCmd(&f), newStudyListCmd(&f), newStudyGetCmd(&f),
		newStudyRunCmd(&f), newStudyEvaluatorsCmd(&f),
		newStudyOptimalCmd(&f), newStudyEstimateCmd(&f),
		newStudyVerbCmd(&f, "pause", "Suggest nothing new until 'study resume'",
			"Trials that clients hold go on and can be completed; clients that ask get only those.",
			func(ctx context.Context, c *cli.Client, name string) (proto.Message, error) {
				return c.Studies.PauseStudy(ctx, &pb.PauseStudyRequest{Name: name, Etag: f.Etag,
					ValidateOnly: f.ValidateOnly})
			}),
		newStudyVerbCmd(&f, "resume", "End a pause of a study",
			"Trials are suggested again, as if there had been no pause. To resume what is active changes nothing.",
			func(ctx context.Context, c *cli.Client, name string) (proto.Message, error) {
				return c.Studies.ResumeStudy(ctx, &pb.ResumeStudyRequest{Name: name, Etag: f.Etag,
					ValidateOnly: f.ValidateOnly})
			}),
		newStudyVerbCmd(&f, "cancel", "End a study for good",
			"Trials that wait are skipped; those that clients hold should end, and can be completed.",
			func(ctx context.Context, c *cli.Client, name string) (proto.Message, error) {
				return c.Studies.CancelStudy(ctx, &pb.CancelStudyRequest{Name: name, Etag: f.Etag,
					ValidateOnly: f.ValidateOnly})
			}),
		newStudyVerbCmd(&f, "delete", "Remove a study with its trials",
			"There is no way back: 'autosched study export' writes the trials into a file before.",
			func(ctx context.Context, c *cli.Client, name string) (proto.Message, error) {
				return c.Studies.DeleteStudy(ctx, &pb.DeleteStudyRequest{Name: name, Etag: f.Etag})
			}),
		newStudyProposeCmd(&f), newStudyExportCmd(&f), newStudyImportCmd(&f))
	return cmd
}

// studyArg reads SCHEDULER/STUDY, or the full name of a study.
func studyArg(args []string) (string, error) {
	if len(args) == 1 {
		text := strings.TrimPrefix(args[0], "schedulers/")
		if parts := strings.Split(text, "/"); len(parts) == 2 {
			return "schedulers/" + parts[0] + "/studies/" + parts[1], nil
		} else if len(parts) == 3 && parts[1] == "studies" {
			return "schedulers/" + text, nil
		}
	}
	return "", cli.Usage(errors.New("want one study, as SCHEDULER/STUDY; 'autosched study list SCHEDULER' shows them"))
}

func newStudyCreateCmd(f *cli.ClientFlags) *cobra.Command {
	var spec pb.StudySpec
	var maximize bool
	var lease time.Duration
	var causal, display string
	cmd := &cobra.Command{
		Use:   "create SCHEDULER/STUDY",
		Short: "Begin a study of a scheduler's parameters",
		Long: `Begins a search of the scheduler's space, as it is now, from what the scheduler runs. The
metric is that of an external scheduler, or --metric; it is a number from 0, minimised
unless --maximize. A client that is silent about a trial for longer than --lease loses
it: the configuration is suggested again, at most twice.

With --causal auto, a causal model of the trials rejects and narrows what the sampler
proposes where half of the trials take a second or more.`,
		Example: `  autosched study create mine/first --trial-budget 50
  autosched study create mine/goodput --metric goodput --maximize --sampler gp --lease 1h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			model, ok := pb.StudySpec_CausalModel_value[strings.ToUpper(causal)]
			if !ok || model == 0 {
				return cli.Usage(fmt.Errorf("--causal: %q is not auto, on or off", causal))
			}
			spec.CausalModel = pb.StudySpec_CausalModel(model)
			if spec.LeaseDuration = durationpb.New(lease); maximize {
				spec.Goal = pb.StudySpec_MAXIMIZE
			}
			return f.Named(cmd, args, studyArg, func(ctx context.Context, c *cli.Client, name string) error {
				parent, id, _ := strings.Cut(name, "/studies/")
				got, err := c.Studies.CreateStudy(ctx, &pb.CreateStudyRequest{Parent: parent, StudyId: id,
					ValidateOnly: f.ValidateOnly, Study: &pb.Study{DisplayName: display, Spec: &spec}})
				if err != nil {
					return err
				}
				if f.ValidateOnly {
					return f.Say(cmd, got, "%s is valid; nothing was stored", cli.ShortStudy(got.GetName()))
				}
				return f.Show(cmd, got, func(w io.Writer) error { return printStudy(w, got) })
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&spec.Algorithm, "sampler", "", "")
	fl.Int32Var(&spec.TrialBudget, "trial-budget", 0, "configurations to measure (default 100)")
	fl.Uint64Var(&spec.Seed, "seed", 0, "")
	fl.StringVar(&spec.MetricId, "metric", "", "")
	fl.BoolVar(&maximize, "maximize", false, "the metric is to be large")
	fl.DurationVar(&lease, "lease", 10*time.Minute, "how long a client may be silent about a trial")
	fl.BoolVar(&spec.AllowRepeats, "allow-repeats", false, "'study trial add' measures again what was measured")
	fl.StringVar(&causal, "causal", "auto", "causal model of the trials: auto, on or off")
	fl.StringVar(&display, "display-name", "", "name for people")
	f.AddValidateOnly(cmd)
	_ = cmd.RegisterFlagCompletionFunc("sampler", cli.OneOf(cli.SamplerNames()...))
	_ = cmd.RegisterFlagCompletionFunc("causal", cli.OneOf("auto", "on", "off"))
	f.AddReason(cmd)
	return cmd
}

func newStudyListCmd(f *cli.ClientFlags) *cobra.Command {
	var l cli.ListFlags
	cmd := &cobra.Command{
		Use:               "list SCHEDULER",
		Short:             "List the studies of a scheduler",
		Long:              "Prints the studies of a scheduler: their states, how much of the budget is used, and the trials by state.",
		Example:           "  autosched study list mine",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: cli.Asks(f, cli.SchedulerArg,
			func(ctx context.Context, c *cli.Client, name string) (*pb.ListStudiesResponse, error) {
				return cli.Pages(func(page string) (*pb.ListStudiesResponse, error) {
					return c.Studies.ListStudies(ctx, &pb.ListStudiesRequest{Parent: name, PageSize: 1000,
						PageToken: page, Filter: l.Filter, OrderBy: l.OrderBy})
				})
			}, printStudies),
	}
	l.Add(cmd, true)
	return cmd
}

func printStudies(out io.Writer, all *pb.ListStudiesResponse) error {
	w := table.New(out, "STUDY\tSTATE\tMETRIC\tSAMPLER\tUSED\tTRIALS")
	for _, s := range all.GetStudies() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d of %d\t%s\n", cli.ShortStudy(s.GetName()), s.GetState(),
			metricText(s.GetSpec()), s.GetSpec().GetAlgorithm(), s.GetUsedBudget(), s.GetSpec().GetTrialBudget(),
			countsText(s))
	}
	return w.Flush()
}

func metricText(s *pb.StudySpec) string {
	return s.GetMetricId() + ", " + cli.EnumWord(s.GetGoal()) + "d"
}

func countsText(s *pb.Study) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(s.GetTrialCounts())) {
		parts = append(parts, fmt.Sprintf("%d %s", s.GetTrialCounts()[state], state))
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

func newStudyGetCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get SCHEDULER/STUDY",
		Short: "Show a study: its state, its trials by state, and the best one",
		Long: `Shows a study with the trial that has the best expected value of the metric: the lowest
of noisy measurements is biased, so it need not be the best one.`,
		Example: "  autosched study get mine/first\n  autosched study get mine/first --json",
		RunE: cli.Asks(f, studyArg,
			func(ctx context.Context, c *cli.Client, name string) (*pb.Study, error) {
				return c.Studies.GetStudy(ctx, &pb.GetStudyRequest{Name: name})
			}, printStudy),
	}
}

func printStudy(out io.Writer, s *pb.Study) error {
	w := table.New(out, "")
	spec := s.GetSpec()
	fmt.Fprintf(w, "study\t%s (%s)\n", cli.ShortStudy(s.GetName()), s.GetState())
	fmt.Fprintf(w, "metric\t%s\n", metricText(spec))
	sampler := spec.GetAlgorithm()
	if s.GetSamplerChoice() != "" {
		sampler += ": " + s.GetSamplerChoice()
	}
	fmt.Fprintf(w, "sampler\t%s, causal model %s\n", sampler, cli.EnumWord(spec.GetCausalModel()))
	fmt.Fprintf(w, "budget\t%d of %d used\n", s.GetUsedBudget(), spec.GetTrialBudget())
	fmt.Fprintf(w, "trials\t%s\n", countsText(s))
	if r := s.GetRun(); r != nil {
		fmt.Fprintf(w, "measured by\t%s\n", runText(r))
	}
	if s.GetBestTrial() != nil {
		fmt.Fprintf(w, "best\t%s\n", trialLine(s.GetBestTrial()))
	}
	return w.Flush()
}

// trialLine is a trial on a line.
func trialLine(t *pb.Trial) string {
	text := "trial " + cli.ShortName(t.GetName()) + ":" + cli.ParametersLine(t)
	if m := metricsLine(t.GetFinalMeasurement()); m != "" {
		text += " -> " + m
	}
	return text
}

func metricsLine(m *pb.Measurement) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m.GetMetrics())) {
		parts = append(parts, fmt.Sprintf("%s=%.6g", name, m.GetMetrics()[name]))
	}
	return strings.Join(parts, " ")
}

// getBest is the best trial of a study.
func getBest(ctx context.Context, c *cli.Client, name string) (*pb.Trial, error) {
	got, err := c.Studies.GetStudy(ctx, &pb.GetStudyRequest{Name: name})
	if err == nil && got.GetBestTrial() == nil {
		err = fmt.Errorf("no trial of %s has succeeded yet", cli.ShortStudy(name))
	}
	return got.GetBestTrial(), err
}

// newStudyVerbCmd is a command that changes a study.
func newStudyVerbCmd(f *cli.ClientFlags, verb, short, long string,
	do func(ctx context.Context, c *cli.Client, name string) (proto.Message, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " SCHEDULER/STUDY", Short: short, Long: short + ". " + long,
		Example: "  autosched study " + verb + " mine/first",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Named(cmd, args, studyArg, func(ctx context.Context, c *cli.Client, name string) error {
				got, err := do(ctx, c, name)
				if err != nil {
					return err
				}
				if s, ok := got.(*pb.Study); ok && f.ValidateOnly {
					return f.Say(cmd, got, "%s would be %s; nothing was stored", cli.ShortStudy(name), s.GetState())
				} else if ok {
					return f.Say(cmd, got, "%s is %s", cli.ShortStudy(name), s.GetState())
				}
				return f.Say(cmd, got, "%s is deleted", cli.ShortStudy(name))
			})
		},
	}
	f.AddReason(cmd)
	f.AddEtag(cmd)
	if verb != "delete" {
		f.AddValidateOnly(cmd)
	}
	return cmd
}

func newStudyProposeCmd(f *cli.ClientFlags) *cobra.Command {
	var trial int64
	cmd := &cobra.Command{
		Use:   "propose SCHEDULER/STUDY",
		Short: "Propose the configuration of a trial to its scheduler",
		Long: `Proposes the best trial, or --trial, as what a round found would be: it waits as PROPOSED until
'autosched scheduler config approve', and reaches the scheduler by poll and watch, in waves if the
scheduler has any.`,
		Example: "  autosched study propose mine/first\n  autosched study propose mine/first --trial 17",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.Named(cmd, args, studyArg, func(ctx context.Context, c *cli.Client, name string) error {
				of := fmt.Sprintf("%s/trials/%d", name, trial)
				if trial == 0 {
					best, err := getBest(ctx, c, name)
					if err != nil {
						return err
					}
					of = best.GetName()
				}
				got, err := c.Studies.ProposeTrial(ctx, &pb.ProposeTrialRequest{Name: of, ValidateOnly: f.ValidateOnly})
				if err != nil {
					return err
				}
				if f.ValidateOnly {
					return f.Say(cmd, got, "%s can be proposed: %s; nothing was stored", cli.ShortTrial(of),
						got.GetReason())
				}
				note, err := noiseNote(ctx, c, name)
				if err != nil {
					return err
				}
				fmt.Fprint(cmd.ErrOrStderr(), note)
				scheduler, _, _ := strings.Cut(cli.ShortStudy(name), "/")
				return f.Say(cmd, got, "revision %d is proposed: %s\n%s", got.GetRevision(), got.GetReason(),
					cli.WaitsText(scheduler))
			})
		},
	}
	cmd.Flags().Int64Var(&trial, "trial", 0, "number of the trial (default: the best one)")
	f.AddChange(cmd, false)
	return cmd
}

// noiseNote is a warning if no configuration of a study was measured twice.
func noiseNote(ctx context.Context, c *cli.Client, name string) (string, error) {
	all, err := cli.ListTrials(ctx, c, name, cli.ListFlags{Filter: "state = SUCCEEDED"})
	measured := map[string]bool{}
	for _, t := range all.GetTrials() {
		if key := cli.ParametersLine(t); measured[key] {
			return "", nil
		} else {
			measured[key] = true
		}
	}
	return "note: each configuration was measured once: the noise of the metric is not known, and may be all of the " +
		"gain; a study with --allow-repeats measures one again\n", err
}

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
evaluator. With --wait, progress is shown until the study is paused or over; Ctrl-C ends
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
	fl.StringVar(&req.Workload, "workload", "", "")
	fl.Int32Var(&req.ParallelTrials, "parallel", 1, "")
	fl.BoolVar(&wait, "wait", false, "")
	f.AddChange(cmd, true)
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
					w := table.New(out, "EVALUATOR\tKIND\tTRIALS AT A TIME\tDEADLINE")
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

func newStudyOptimalCmd(f *cli.ClientFlags) *cobra.Command {
	var metrics []string
	var plot cli.PlotFlag
	cmd := &cobra.Command{
		Use:   "optimal SCHEDULER/STUDY",
		Short: "Show the trials that no other beats in several metrics",
		Long: `Shows the trials that succeeded and to which no other is better in one metric and no worse in the
others (the Pareto front). --objectives names metrics that clients reported, such as p95_wait, or
goodput:max for one that is to be large; by default the metric of the study alone. --plot draws all
trials with the front.`,
		Example: `  autosched study optimal mine/first --objectives p95_wait,goodput:max
  autosched study optimal mine/first --objectives p95_wait,goodput:max --plot front.html`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := plot.Check(); err != nil {
				return err
			}
			req := &pb.ListOptimalTrialsRequest{}
			for _, text := range metrics {
				o := &pb.ListOptimalTrialsRequest_Objective{Goal: pb.StudySpec_MINIMIZE}
				name, goal, _ := strings.Cut(text, ":")
				switch o.MetricId = name; goal {
				case "", "min":
				case "max":
					o.Goal = pb.StudySpec_MAXIMIZE
				default:
					return cli.Usage(fmt.Errorf("--objectives: %q is not METRIC, METRIC:min or METRIC:max", text))
				}
				req.Objectives = append(req.Objectives, o)
			}
			return f.Named(cmd, args, studyArg, func(ctx context.Context, c *cli.Client, name string) error {
				req.Parent = name
				got, err := c.Studies.ListOptimalTrials(ctx, req)
				if err != nil {
					return err
				}
				err = plot.Write(func() (*chart.Page, error) {
					all, err := cli.ListTrials(ctx, c, name, cli.ListFlags{})
					if err != nil {
						return nil, err
					}
					return frontPage(req, got, all)
				})
				return f.Answer(cmd, got, err, func(w io.Writer) error { return printOptimal(w, got) })
			})
		},
	}
	plot.Add(cmd)
	cmd.Flags().StringSliceVar(&metrics, "objectives", nil, "metrics, comma-separated (default: that of the study)")
	_ = cmd.RegisterFlagCompletionFunc("objectives", cobra.NoFileCompletions)
	return cmd
}

func printOptimal(w io.Writer, best *pb.ListOptimalTrialsResponse) error {
	for _, t := range best.GetOptimalTrials() {
		fmt.Fprintln(w, trialLine(t))
	}
	if len(best.GetOptimalTrials()) == 0 {
		fmt.Fprintln(w, "no trial with these metrics has succeeded yet")
	}
	return nil
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
				left := units.Plural(int(got.GetRemainingTrials()), "trial") + " left"
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
	cmd.Flags().Int32Var(&parallel, "parallel", 1, "")
	return cmd
}

// Commands returns the commands of the top.
func Commands() []*cobra.Command {
	return []*cobra.Command{newStudyCmd()}
}
