package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/replay/report"
	"github.com/autosched/autosched/replay/scenario"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/space"
)

// evaluateOptions are the flags of evaluate.
type evaluateOptions struct {
	plot     cli.PlotFlag
	history  cli.HistoryFlags
	round    cli.TuneFlags
	limits   rollout.Limits
	methods  string
	tariff   cli.TariffFlags
	goal     round.Goal // after check
	scenario string
	out      string
	interval time.Duration
	seeds    int
	full     bool
	fixed    int
	jobs     int

	answer   answerFlag
	given    func(flag string) bool
	compared []string          // methods, after check; nil for all
	held     space.Config      // in force, after check; zero if not given
	of       scenario.Scenario // after check
}

func newEvaluateCmd() *cobra.Command {
	var o evaluateOptions
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Replay a trace online under several tuning methods and compare them",
		Long: `Says whether to change a scheduler's settings, to what, and what that gains: replays
a trace on a simulated cluster once for every tuning method, and compares the methods.

Every --interval a method sees only what a controller could see at that time (job
events so far) and chooses a configuration; the simulated cluster goes on with it,
without a restart. Jobs submitted between --from and --to count; they run to their end
while tuning continues. The cluster starts empty --warmup before --from. The history is
the seven days of the trace before --from.

` + methodHelp() + `
All methods that tune every round share scoring, seeds and the budget. Under autosched a
candidate replaces the incumbent (the configuration in force) once a day if it gains more
than 1 % in replays of the last 20 days, and breaks no guard (--guard); between, if it
promises 10 % of the objective in three rounds in a row. Under paper it takes a ratio of
1.1, under the others, which have no memory, any gain. Changes of autosched and paper are
limited as those of the service: --max-changes, --flap-window, --quiet-hours. Methods that
hold one configuration get the budget of all rounds at once, or --fixed-budget.

The baseline is what you run: --config, --set and --preset name it (method current).
Without them it is the scheduler's default. It is the first row, in force when
tuning begins, and what ratios and guards compare with; a ratio above 1 is better.

The answer is at the end: whether to change the settings once, to what and with which
command, what that gains and makes worse; and whether tuning every round gains more.

Methods that draw random numbers are run once for each of --seeds, and the table has
their means; spread is the largest average JCT of a seed over the least, minus 1. Guards
say what a gain makes worse: the mean wait of the jobs of each width, the average JCT of
jobs that run for less than ten minutes and the p99 of the JCT may be 10 % worse than
under the baseline, the first two and another minute.

With --out, the result of every method and seed is kept once it is finished: after
Ctrl-C or a crash the same command continues, and one with other methods or more
seeds computes only what is new. Results of other inputs are computed again.`,
		Example: `  autosched evaluate --trace sample --nodes 20 --gpus-per-node 8 --scheduler tiresias --out report
  autosched evaluate --trace jobs.csv.gz --from 2017-10-09T00:00:00Z --to 2017-10-12T00:00:00Z \
      --nodes 40 --gpus-per-node 8 --scheduler tiresias --methods default,preset,autosched --budget 20 --json
  autosched evaluate --trace sample --from 2017-10-10 --scheduler fifo --set backfill=false --out report
  autosched evaluate --trace jobs.csv.gz --nodes 40 --scheduler tiresias --config mine.yaml --out report
  autosched evaluate --trace sacct.psv --site site --out report --conf-out tuned.conf
  autosched evaluate --trace jobs.csv.gz --scenario scenarios.json:philly-quick --methods default,fixed-oracle,random-preset,autosched`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.answer.show(cmd, o.history.JSON, report.Schema, report.JSON(r),
				func() (recommendation, error) { return o.recommended(r) },
				func(w io.Writer) error {
					return errors.Join(printEvaluation(w, r, o.out), o.history.Site.PrintChange(w, r.Change))
				})
		},
	}
	o.add(cmd)
	return cmd
}

func (o *evaluateOptions) add(cmd *cobra.Command) {
	o.given = cmd.Flags().Changed
	o.history.Add(cmd)
	o.history.AddNodeEvents(cmd)
	o.history.AddConclusion(cmd)
	o.round.Add(cmd)
	o.answer.add(cmd, &o.history)
	cli.AddSubjectTo(cmd, &o.round.SubjectTo)
	o.tariff.Add(cmd)
	o.tariff.AddDeferrable(cmd)
	o.limits = rollout.DefaultLimits()
	cli.AddLimits(cmd, &o.limits)
	fl := cmd.Flags()
	fl.StringVar(&o.methods, "methods", "",
		"methods to compare, comma-separated (default: preset, and with --from fixed-history; with --full all)")
	fl.BoolVar(&o.full, "full", false, "compare all methods, tuning every round among them: it takes hours")
	fl.StringVar((*string)(&o.round.Settings.Search), "search", string(round.SearchAuto),
		"what autosched searches every round: portfolio (default, incumbent, presets, past winners), full (these, "+
			"then the whole space), auto (full at a cold start and on a new shape of the workload, else portfolio)")
	_ = cmd.RegisterFlagCompletionFunc("search", cli.OneOf(round.SearchNames()...))
	fl.StringVar(&o.scenario, "scenario", "",
		"FILE:NAME, window and cluster as a JSON file of scenarios has them: --from, --to, --nodes and "+
			"--gpus-per-node, unless given")
	fl.StringVarP(&o.out, "out", "o", "",
		"folder for the report (report.html, report.json, methods.csv, seeds.csv, decisions.csv, jobs.csv) and for the "+
			"results finished so far (cells.jsonl)")
	fl.IntVar(&o.seeds, "seeds", 3, "")
	fl.IntVar(&o.fixed, "fixed-budget", 0,
		"configurations that fixed-history and fixed-oracle measure (0: --budget for every round)")
	fl.DurationVar(&o.interval, "interval", round.DefaultInterval, "")
	addJobs(cmd, &o.jobs)
	o.plot.Add(cmd)
}

// quickBudget is the budget of a method that tunes once, without --full.
const quickBudget = 300

// check checks all that needs no trace, and reads the scenario.
func (o *evaluateOptions) check() error {
	_, held, err := o.history.Check()
	if err != nil {
		return err
	}
	if o.history.InForce.Given() {
		o.held = held
	}
	if o.scenario != "" {
		s, err := readScenario(o.scenario)
		if err != nil {
			return err
		}
		o.history.SetScenario(s, o.given)
		o.of = *s
	}
	o.round.Settings.Guard = o.history.Guard
	if o.goal, err = o.round.Goal(); err != nil {
		return err
	}
	o.round.Objective = o.goal.Objective()
	if err := o.tariff.Check(o.history.Scheduler); err != nil {
		return err
	}
	if err := round.CheckObjective(o.round.Objective, true); err != nil {
		return cli.Usage(fmt.Errorf("--%w", err))
	}
	if err := cmp.Or(o.round.CheckSettings(), o.answer.check(o.history.JSON), o.plot.Check(o.out)); err != nil {
		return err
	}
	_, badSearch := round.ParseSearch(string(o.round.Settings.Search))
	switch {
	case o.interval <= 0:
		return cli.Usage(fmt.Errorf("--interval: %v is not positive", o.interval))
	case badSearch != nil:
		return cli.Usage(fmt.Errorf("--%w", badSearch))
	case o.seeds < 1:
		return cli.Usage(fmt.Errorf("--seeds: %d, want at least 1", o.seeds))
	case o.fixed < 0:
		return cli.Usage(fmt.Errorf("--fixed-budget: %d is negative", o.fixed))
	case o.jobs < 0:
		return cli.Usage(fmt.Errorf("--parallel: %d is negative", o.jobs))
	}
	if o.given("methods") {
		o.compared = cli.SplitList(o.methods)
	}
	if !o.given("methods") && !o.full {
		o.compared = []string{"preset"}
		if o.given("from") {
			o.compared = append(o.compared, "fixed-history")
		}
		if !o.given("seeds") {
			o.seeds = 1
		}
		if !o.given("fixed-budget") {
			o.fixed = quickBudget
		}
	}
	if err := cli.CheckList(o.given, "methods", o.compared); err != nil {
		return err
	}
	if err := replay.CheckMethods(o.compared); err != nil {
		return cli.Usage(fmt.Errorf("--%w", err))
	}
	return nil
}

// run evaluates, and writes the report if a folder is named. Notes and progress
// go to notes.
func (o *evaluateOptions) run(ctx context.Context, notes io.Writer) (*replay.Report, error) {
	var tariff *energy.Tariff
	var err error
	if o.goal.Metered() != "" || o.tariff.Given() || schedulers.Sleeps(o.history.Scheduler) ||
		schedulers.Defers(o.history.Scheduler) {
		if tariff, err = o.tariff.Read(); err != nil {
			return nil, err
		}
	}
	in, err := o.history.Load(ctx, notes)
	if err != nil {
		return nil, err
	}
	if err := o.tariff.Measure(tariff, in, o.history.Cluster, notes); err != nil {
		return nil, err
	}
	noteReordering(notes, o.goal.Metered() != "", o.history.Scheduler)
	if note := o.of.Differs(o.history.Trace); note != "" {
		fmt.Fprintln(notes, "note: "+note)
	}
	if in.Trace, err = o.of.Select(in.Trace); err != nil {
		return nil, err
	}
	if o.out != "" { // fails now rather than after minutes of work
		if err := os.MkdirAll(o.out, 0o777); err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
	}
	config := o.held
	if config.IsZero() {
		config = in.Scheduler.Space.Default()
	}
	progress := newGridProgress(notes, o.out, o.shortWay())
	options := replay.Options{
		Trace: in.Trace, From: in.From, To: in.To, Warmup: in.Warmup, Cluster: o.history.Cluster,
		Scheduler: in.Scheduler,
		Current:   o.held,
		Goal:      o.goal, Methods: o.compared, Interval: o.interval,
		Seeds: o.seeds, FixedBudget: o.fixed, Settings: o.round.Seeded(o.history.Seed), Limits: &o.limits,
		Generate: o.round.Method, Simulate: in.Options, Jobs: o.jobs, Keep: progress.keep(),
		Progress: func(s replay.Step) { progress.show(stepText(s), s.Grid) },
	}
	if options.Estimated, err = replay.Estimate(ctx, options); err != nil {
		return nil, err
	}
	if e := options.Estimated; e.Left >= slow {
		progress.note(e.Left, e.Results)
	}
	graded, err := o.history.Grade(ctx, in, in.Window(), in.Scheduler, config)
	if err != nil {
		return nil, err
	}
	verdict, err := o.history.Ask(ctx, in, replay.AskOptions{Goal: o.goal, InForce: config, Fidelity: graded,
		Workers: o.round.Settings.Workers}, notes)
	if err != nil {
		return nil, err
	}
	progress.began = time.Now()
	r, err := replay.Run(ctx, options)
	progress.end(err)
	if err == nil {
		r.Fidelity, r.Verdict = graded, verdict
	}
	if err == nil && r.Verdict.Change {
		r.Change, err = o.history.Site.Change(ctx, in, &o.history.ReplayFlags, config, r.Verdict.Configuration)
	}
	if err == nil && o.out != "" {
		err = report.Write(r, o.out)
	}
	if err == nil {
		err = o.plot.Write(func() (*chart.Page, error) { return report.Figures(r), nil })
	}
	return r, err
}

// recommended is the configuration to change to once, or the one that runs.
func (o *evaluateOptions) recommended(r *replay.Report) (recommendation, error) {
	scheduler, err := o.history.Find()
	return recommendation{scheduler, r.Verdict.Configuration, r.Verdict.Change, r.Verdict.Text}, err
}

// shortWay names flags that make an evaluation shorter.
func (o *evaluateOptions) shortWay() string {
	if o.full || o.given("methods") {
		return "the answer alone, without --full and --methods; --seeds 1, a longer --interval, a shorter window (--from, --to)"
	}
	return "--methods preset, a smaller --fixed-budget, a shorter window (--from, --to)"
}

// stepText describes the step of a method.
func stepText(s replay.Step) string {
	text := fmt.Sprintf("%s (method %d of %d), seed %d", s.Method, s.Nth, s.Methods, s.Seed)
	switch {
	case s.Done:
	case s.Trials > 0:
		text += fmt.Sprintf(": %d of %d trials", s.Trials, s.Of)
	case s.Rounds > 0:
		text += fmt.Sprintf(": round %d of about %d", s.Rounds, s.Of)
	}
	return text
}

func methodHelp() string {
	var b strings.Builder
	b.WriteString("Methods:\n")
	for _, m := range replay.Methods() {
		fmt.Fprintf(&b, "  %-16s %s\n", m[0], m[1])
	}
	return b.String()
}

func printEvaluation(w io.Writer, r *replay.Report, out string) error {
	fmt.Fprintf(w, "%s%s, %s .. %s\n%d jobs (%d in history) on %s, load %.2f, scheduler %s\n", r.Trace,
		cli.SyntheticLabel(r.Synthetic), r.From, r.To,
		r.Jobs, r.HistoryJobs, r.Cluster, r.Load, r.Scheduler)
	fmt.Fprintln(w, report.BaselineText(r))
	for _, n := range r.Notes {
		table.Prose(w, "", "Note: "+n)
	}
	fmt.Fprintln(w)
	t := table.Numbers(w,
		"method\tavg JCT s\tp50\tp95\tp99\tqueue s\tratio\tspread\tguards\tpreempt\trounds\tchanges\tevals\ts/round\t")
	for _, m := range r.Methods {
		spread, guards := "", ""
		if len(m.Seeds) > 0 {
			spread = units.Percent(m.Spread)
		}
		if m.Guards != nil {
			guards = "kept"
			if n := len(m.Guards.Broken); n > 0 {
				guards = fmt.Sprintf("%d broken", n)
			}
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.3f\t%s\t%s\t%d\t%d\t%d\t%d\t%.3f\t\n", m.Method, m.AvgJCT,
			m.P50JCT, m.P95JCT, m.P99JCT, m.AvgQueue,
			m.Ratio, spread, guards, m.Preemptions, m.Rounds, m.Changes, m.Evaluations, m.TuningPerRound)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nratio = %s of %s / this method's; above 1 is better. Methods that draw: %s.\n",
		round.Label(r.Objective), r.Baseline.Method, units.Plural(len(r.Seeds), "seed"))
	if err := printDrawn(w, r); err != nil {
		return err
	}
	for _, m := range r.Methods {
		if m.Guards != nil && len(m.Guards.Broken) > 0 {
			table.Prose(w, "", fmt.Sprintf("Worse under %s: %s.", m.Method, report.PriceText(m.Guards)))
		}
	}
	if text := report.InHindsight(r); text != "" {
		table.Prose(w, "", text)
	}
	if err := printAnswer(w, r); err != nil {
		return err
	}
	if out != "" {
		fmt.Fprintf(w, "The report is %s/report.html.\n", strings.TrimRight(out, "/"))
	}
	return nil
}

// printDrawn prints the energy of the jobs, if it was measured.
func printDrawn(w io.Writer, r *replay.Report) error {
	if len(r.Methods) == 0 || r.Methods[0].Energy == 0 {
		return nil
	}
	above := "jobs draw above idle nodes, which are on whatever the configuration"
	if schedulers.Sleeps(r.Scheduler) {
		above = "jobs and nodes draw above sleeping nodes"
	}
	fmt.Fprintf(w, "\nWhat %s:\n", above)
	t := table.Numbers(w, "method\tenergy kWh\tcost $\tCO2 kg\tEDP kWh h\t")
	for _, m := range r.Methods {
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t\n", m.Method, m.Energy, m.Cost, m.CO2, m.EDP)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// printAnswer prints whether and how to change the settings, the new ones, and the gain of tuning on.
func printAnswer(w io.Writer, r *replay.Report) error {
	a := report.AnswerOf(r)
	fmt.Fprintln(w)
	if err := cli.PrintVerdict(w, r.Verdict); err != nil {
		return err
	}
	table.Prose(w, "", a.Tuning.Text)
	if a.Register != "" && r.Change == nil {
		fmt.Fprintf(w, "To have the service propose changes from then on:\n  %s\n", a.Register)
	}
	return nil
}

// readScenario finds the scenario that FILE:NAME names.
func readScenario(arg string) (*scenario.Scenario, error) {
	path, name, err := cli.SplitFileName("scenario", arg)
	if err != nil {
		return nil, err
	}
	file, err := scenario.Read(path)
	if err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	s, err := file.Find(name)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--scenario: %w", err))
	}
	if err := s.Check(path); err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	return s, nil
}
