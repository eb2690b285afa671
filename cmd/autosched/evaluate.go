package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/generation/arrivals"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/replay/report"
	"github.com/autosched/autosched/round"
)

func newEvaluateCmd() *cobra.Command {
	var f replayFlags
	var t tuneFlags
	var methods, out, search, named string
	var warmup, interval time.Duration
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Replay a trace online under several tuning methods and compare them",
		Long: `A live simulation stands for the cluster. Every interval a tuning method sees
only what a real controller could see at that time (job events so far), chooses
a configuration, and the live simulation is reconfigured; nothing is restarted
by that. Jobs submitted between --from and --to count; they are run to their
end with tuning going on. The cluster starts empty at --from, or --warmup
earlier. History is the seven days of the trace before it.

` + methodHelp() + `
All methods that tune every round share futures, scoring, seeds, the budget and
the adoption rule: a candidate replaces the incumbent if it is better in every
future (autosched: in three of four, and on average on as many fresh ones) and
gains at least --min-ratio on the part of the objective that a configuration can
change. Methods that hold one configuration get the budget of
all rounds at once. A ratio above 1 is better than the default. Another seed
moves a method that tunes by up to 2 %, one tuned on little history by up to
5 %: compare several before believing less.`,
		Example: `  autosched evaluate --trace sample --nodes 20 --gpus-per-node 8 --scheduler tiresias --out report
  autosched evaluate --trace jobs.csv.gz --from 2017-10-09T00:00:00Z --to 2017-10-12T00:00:00Z \
      --nodes 40 --gpus-per-node 8 --scheduler tiresias --methods default,preset,autosched --budget 20 --json
  autosched evaluate --trace jobs.csv.gz --scenario scenarios.json:philly-quick --methods default,fixed-oracle,random-preset,autosched`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var given scenario
			if named != "" {
				s, err := readScenario(named)
				if err != nil {
					return err
				}
				s.set(cmd, &f)
				given = *s
			}
			if err := t.check(); err != nil { // all this before a long trace is read
				return err
			}
			switch {
			case interval <= 0:
				return usageError{fmt.Errorf("--interval: %v is not positive", interval)}
			case round.CheckSearch(search) != nil:
				return usageError{fmt.Errorf("--%w", round.CheckSearch(search))}
			case warmup < 0:
				return usageError{fmt.Errorf("--warmup: %v is negative", warmup)}
			}
			var compared []string
			if cmd.Flags().Changed("methods") {
				compared = splitList(methods)
			}
			if err := checkList(cmd.Flags().Changed, "methods", compared); err != nil {
				return err
			}
			if err := replay.CheckMethods(compared); err != nil {
				return usageError{fmt.Errorf("--%w", err)}
			}
			in, err := f.load(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if note := given.of(f.trace); note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: "+note)
			}
			if out != "" { // find out now, not after minutes of work
				if err := os.MkdirAll(out, 0o777); err != nil {
					return fmt.Errorf("--out: %w", err)
				}
			}
			o := replay.Options{
				Trace: in.trace, From: in.from, To: in.to, Warmup: warmup, Cluster: f.cluster, Scheduler: in.scheduler, Objective: t.objective,
				Methods: compared, Interval: interval, Horizon: t.horizon, Futures: t.futures, Budget: t.budget, MinRatio: t.minRatio, Search: search,
				Always: t.always, Seed: f.seed, Generate: generation.Method(t.generate), Workers: t.workers, Simulate: in.options,
			}
			line := newProgressLine(cmd.ErrOrStderr())
			o.Progress = func(s replay.Step) {
				switch {
				case s.Done:
				case s.Trials > 0:
					line.show("%s: %d of %d trials", s.Method, s.Trials, s.Of)
				default:
					line.show("%s: round %d of about %d", s.Method, s.Rounds, s.Of)
				}
			}
			r, err := replay.Run(cmd.Context(), o)
			line.clear()
			if err != nil {
				return err
			}
			if out != "" {
				if err := report.Write(r, out); err != nil {
					return err
				}
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return printEvaluation(cmd.OutOrStdout(), r, out)
		},
	}
	f.add(cmd)
	f.addTo(cmd)
	t.add(cmd, replay.DefaultBudget)
	fl := cmd.Flags()
	fl.StringVar(&methods, "methods", "", "methods to compare, comma-separated (default: all)")
	fl.StringVar(&search, "search", round.SearchAuto, "what autosched searches every round: portfolio (default, incumbent, presets, past winners), full (these, then the whole space), auto (full at a cold start and on a new shape of the workload, else portfolio)")
	_ = cmd.RegisterFlagCompletionFunc("search", cobra.FixedCompletions(round.Searches, cobra.ShellCompDirectiveNoFileComp))
	fl.StringVar(&named, "scenario", "", "FILE:NAME, window and cluster as a JSON file of scenarios has them: --from, --to, --nodes and --gpus-per-node, unless given")
	fl.StringVarP(&out, "out", "o", "", "folder for the report: report.html, report.json, methods.csv, decisions.csv, jobs.csv")
	fl.DurationVar(&warmup, "warmup", 0, "start the live simulation this much before --from")
	fl.DurationVar(&interval, "interval", replay.DefaultInterval, "time between rounds")
	return cmd
}

func methodHelp() string {
	var b strings.Builder
	b.WriteString("Methods:\n")
	for _, m := range replay.Methods() {
		fmt.Fprintf(&b, "  %-16s %s\n", m[0], m[1])
	}
	return b.String()
}

// tuneFlags say what a tuning round may cost and asks for.
type tuneFlags struct {
	objective string
	horizon   time.Duration
	futures   int
	budget    int
	workers   int
	minRatio  float64
	always    bool
	generate  string
}

func (t *tuneFlags) add(cmd *cobra.Command, budget int) {
	t.addSearch(cmd, budget)
	fl := cmd.Flags()
	fl.Float64Var(&t.minRatio, "min-ratio", replay.DefaultMinRatio, "least gain on the controllable part that replaces the incumbent")
	fl.BoolVar(&t.always, "always", false, "replace the incumbent by the best on average whatever it gains, as the paper does")
}

// addSearch adds what a search needs, without the rule by which its result is
// adopted.
func (t *tuneFlags) addSearch(cmd *cobra.Command, budget int) {
	t.minRatio = replay.DefaultMinRatio
	fl := cmd.Flags()
	addObjective(cmd, &t.objective)
	fl.DurationVar(&t.horizon, "horizon", replay.DefaultHorizon, "arrivals forecast for this long belong to a future")
	fl.IntVar(&t.futures, "futures", replay.DefaultFutures, "futures that every candidate is played on")
	addGenerate(cmd, &t.generate)
	fl.IntVar(&t.budget, "budget", budget, "evaluations per round; one is a configuration on all futures")
	fl.IntVar(&t.workers, "workers", 0, "evaluations at a time (0: one per processor); results do not depend on it")
}

func addObjective(cmd *cobra.Command, objective *string) {
	cmd.Flags().StringVar(objective, "objective", round.Objectives[0], "what to minimise: "+strings.Join(round.Objectives, ", "))
	_ = cmd.RegisterFlagCompletionFunc("objective", cobra.FixedCompletions(round.Objectives, cobra.ShellCompDirectiveNoFileComp))
}

func addGenerate(cmd *cobra.Command, method *string) {
	cmd.Flags().StringVar(method, "generate", string(generation.DefaultMethod), "how futures are made, ARRIVALS/DURATIONS: "+
		strings.Join(generateMethods(), ", ")+"; "+generation.HistoryDurations+" or "+generation.PredictedDurations)
	_ = cmd.RegisterFlagCompletionFunc("generate", cobra.FixedCompletions(generateMethods(), cobra.ShellCompDirectiveNoFileComp))
}

// generateMethods are the ways to forecast arrivals.
func generateMethods() []string {
	out := []string{generation.RepeatArrivals}
	for _, m := range arrivals.Methods {
		out = append(out, m.Name)
	}
	return out
}

// mostFutures bounds what is drawn and kept in memory; some ten are enough.
const mostFutures = 1000

func (t *tuneFlags) check() error {
	if err := generation.Method(t.generate).Check(); err != nil {
		return usageError{fmt.Errorf("--generate: %w", err)}
	}
	switch {
	case round.CheckObjective(t.objective) != nil:
		return usageError{fmt.Errorf("--%w", round.CheckObjective(t.objective))}
	case t.horizon <= 0:
		return usageError{fmt.Errorf("--horizon: %v is not positive", t.horizon)}
	case t.futures < 1 || t.futures > mostFutures:
		return usageError{fmt.Errorf("--futures: %d is not from 1 to %d", t.futures, mostFutures)}
	case t.budget <= 0:
		return usageError{fmt.Errorf("--budget: %d is not positive", t.budget)}
	case t.workers < 0:
		return usageError{fmt.Errorf("--workers: %d is negative", t.workers)}
	case !(t.minRatio >= 1):
		return usageError{fmt.Errorf("--min-ratio: %g is below 1: it would adopt configurations that are worse", t.minRatio)}
	}
	return nil
}

func printEvaluation(w io.Writer, r *replay.Report, out string) error {
	fmt.Fprintf(w, "%s%s, %s .. %s\n%d jobs (%d in history) on %s, load %.2f, scheduler %s\n", r.Trace, label(r.Synthetic), r.From, r.To,
		r.Jobs, r.HistoryJobs, r.Cluster, r.Load, r.Scheduler)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "Note: %s\n", n)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "method\tavg JCT s\tp50\tp95\tp99\tqueue s\tratio\tpreempt\trounds\tchanges\tevals\ts/round\t")
	for _, m := range r.Methods {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.3f\t%d\t%d\t%d\t%d\t%.3f\t\n", m.Method, m.AvgJCT, m.P50JCT, m.P95JCT, m.P99JCT, m.AvgQueue,
			m.RatioToDefault, m.Preemptions, m.Rounds, m.Changes, m.Evaluations, m.TuningPerRound)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nratio = default's average JCT / this method's; above 1 is better; another seed moves what is tuned by up to 0.02.")
	fmt.Fprintf(w, "%s.\n", report.Headline(r))
	if out != "" {
		fmt.Fprintf(w, "The report is %s/report.html.\n", strings.TrimRight(out, "/"))
	}
	return nil
}
