package main

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

func newTuneCmd() *cobra.Command {
	var f replayFlags
	var t tuneFlags
	var c configFlag
	var at, sampler, drawing string
	var truth bool
	var top int
	var within time.Duration
	var study studyFlags
	var goal goalFlags
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Search the best configuration for what is coming at an instant of a trace",
		Long: `Runs the cluster from --from to --at under the incumbent (the default, or what
--preset and --set say), takes the state a controller would see then, makes
futures (arrivals and remaining durations, as --generate says) and searches: the
default, the incumbent and the scheduler's presets first, then what --sampler
suggests.

Every configuration is played on all futures until its last job ends. A
candidate is worth adopting if it is better in every future and gains at least
--min-ratio on the controllable part: the objective minus what no configuration
can change (elapsed time and remaining run time).

Constraints (--subject-to) hold in the mean over the futures; what is adopted also
keeps to those relative to the incumbent with a probability of 0.8. If nothing
does, the incumbent stays.

With --trials every trial goes to a file as it comes, with what was suggested,
what the space's rules and a narrowed scope made of it, what was predicted and
measured, and why a proposal was turned down. --resume goes on from such a file.
A file that holds something is never overwritten.
Ctrl-C ends the search with the best so far, exit code 0.

Columns: step is when it was measured, origin who proposed it, objective the
mean over the futures, controllable what is above the floor (and how many times
smaller than the incumbent's), queue the mean queueing delay.`,
		Example: `  autosched tune --trace sample --at 2017-10-10T12:00:00Z --nodes 20 --gpus-per-node 8 --scheduler tiresias
  autosched tune --trace jobs.csv.gz --at 2017-10-10T12:00:00Z --nodes 40 --preset ladder-7200x6 --sampler bluefin --budget 100 --json
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --plot search.html
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --subject-to 'p99_jct<=1.1*incumbent' --subject-to 'tenant_p95_queue<=1.1*incumbent+10m'
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --pareto avg_jct,p99_jct --plot front.html
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --time 300ms
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --budget 400 --trials trials.jsonl
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --budget 400 --resume trials.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkList(cmd.Flags().Changed, "pareto", goal.pareto); err != nil {
				return err
			}
			if err := goal.parse(&t.objective); err != nil {
				return err
			}
			if err := t.check(); err != nil { // all this before a long trace is read
				return err
			}
			if f.trace != "" && at == "" {
				return usageError{fmt.Errorf("--at is missing: the instant to tune at, RFC 3339 or seconds")}
			}
			if err := checkPlot(drawing, ".png", ".svg", ".html"); err != nil {
				return err
			}
			if top < 1 {
				return usageError{fmt.Errorf("--top: %d is not positive", top)}
			}
			if within < 0 {
				return usageError{fmt.Errorf("--time: %v is negative", within)}
			}
			if err := checkInstant("at", at); err != nil {
				return err
			}
			scheduler, incumbent, err := f.configured(&c)
			if err != nil {
				return err
			}
			if _, err := search.NewSampler(sampler, search.Setup{Space: scheduler.Space, Start: scheduler.Space.Default()}); err != nil {
				return usageError{fmt.Errorf("--sampler: %w", err)}
			}
			record, err := study.open(scheduler.Space)
			if err != nil {
				return err
			}
			defer record.close()
			in, err := f.load(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			instant, err := trace.ParseInstant(in.trace, at)
			if err != nil {
				return usageError{fmt.Errorf("--at: %w", err)}
			}
			if last := in.to - 1; instant > last {
				return usageError{fmt.Errorf("--at (%s) is after the last submission: nothing is coming", at)}
			}
			if instant < in.from {
				return usageError{fmt.Errorf("--at (%s) is before the first submission that counts", at)}
			}
			if within > 0 && !cmd.Flags().Changed("budget") {
				t.budget = timedBudget
			}
			if record.from != nil {
				if !cmd.Flags().Changed("budget") {
					t.budget = record.budget(t.budget, within > 0)
				}
				record.accepted = func() {
					fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", record.used(sampler, t.budget))
				}
			}
			line := newProgressLine(cmd.ErrOrStderr())
			o := replay.Options{
				Trace: in.trace, From: in.from, Cluster: f.cluster, Scheduler: in.scheduler, Objective: t.objective, Horizon: t.horizon, Futures: t.futures,
				Budget: t.budget, MinRatio: t.minRatio, Always: t.always, Seed: f.seed, Generate: generation.Method(t.generate), Workers: t.workers, Simulate: in.options,
			}
			began := time.Now()
			got, state, err := replay.Tune(cmd.Context(), o, replay.TuneOptions{
				At: instant, Incumbent: incumbent, Sampler: sampler, Truth: truth, Time: within,
				Progress: func(tr search.Trial) { line.show("trial %d of %d: %s", tr.Step+1, t.budget, tr.Origin) },
				Goal:     goal.text, Front: goal.pareto,
				Record: search.Record{To: record.to(), Resume: record.from, About: map[string]string{
					"trace": in.trace.Name(), "scheduler": in.scheduler.Name, "objective": goal.text, "seed": fmt.Sprint(f.seed),
					"instant": in.trace.Zero().Add(instant).Format(time.RFC3339),
				}},
			})
			line.clear()
			if err := errors.Join(err, record.close()); err != nil {
				return err
			}
			if note := round.InertNote(got.Inert); note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: "+note)
			}
			if got.NoDeadline {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: "+round.NoDeadlineNote)
			}
			r := newTuneReport(in, &f, state, &got, incumbent, time.Since(began))
			r.describe(&got, &goal)
			if cmd.Context().Err() != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: interrupted; this is the best of what was measured"+record.hint(t.budget, within))
			}
			if drawing != "" {
				if err := plotTune(drawing, r, top); err != nil {
					return err
				}
			}
			if f.json {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout(), top)
		},
	}
	f.add(cmd)
	t.add(cmd, replay.DefaultBudget)
	study.add(cmd)
	c.add(cmd)
	goal.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&at, "at", "", "instant to tune at, RFC 3339, a date, seconds since the trace's zero, or a span since it such as 36h (required)")
	fl.StringVar(&sampler, "sampler", search.DefaultSampler, "what suggests configurations after the portfolio: "+strings.Join(samplerNames(), ", "))
	fl.BoolVar(&truth, "truth", false, "tune on the trace's true future instead of forecast ones, as a bound")
	fl.StringVar(&drawing, "plot", "", "draw the search into this .png, .svg or .html file: best so far, parallel coordinates, and the objective by parameter")
	fl.DurationVar(&within, "time", 0, fmt.Sprintf("how long to search (0: only --budget counts; with it --budget is at least %d unless given); the result then depends on the machine", timedBudget))
	fl.IntVar(&top, "top", 15, "trials to print, best first")
	_ = cmd.RegisterFlagCompletionFunc("sampler", cobra.FixedCompletions(samplerNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// timedBudget bounds a search that --time bounds: more trials than a model has
// anything to gain from.
const timedBudget = 1000

func samplerNames() []string {
	var out []string
	for _, e := range search.Samplers {
		out = append(out, e.Name)
	}
	return out
}

// tuneReport is what a round found, the trials best first.
type tuneReport struct {
	Trace     string `json:"trace"`
	Synthetic bool   `json:"synthetic"`
	At        string `json:"at"`
	Scheduler string `json:"scheduler"`
	Objective string `json:"objective"`
	// Unit of the trials' objective, floor and values (round.Unit).
	Unit        string  `json:"unit"`
	ActiveJobs  int     `json:"active_jobs"`
	WaitingJobs int     `json:"waiting_jobs"`
	Adopt       bool    `json:"adopt"`
	Reason      string  `json:"reason"`
	Ratio       float64 `json:"controllable_ratio"`
	// Interval of Ratio at 95 %, absent where there are too few futures.
	Interval *round.Interval `json:"interval,omitempty"`
	// Stopped is why the search ended, Choice which sampler auto took and why.
	Stopped   string       `json:"stopped"`
	Sampler   string       `json:"sampler"`
	Choice    string       `json:"choice,omitempty"`
	Incumbent space.Config `json:"incumbent"`
	Best      space.Config `json:"best"`
	// Inert are parameters that make no difference here: all trials have them as the
	// incumbent has.
	Inert  []string    `json:"inert,omitempty"`
	Wall   float64     `json:"wall_s"`
	Trials []tuneTrial `json:"trials"`
	// Metrics are those that --pareto names, Front the steps of the trials that no
	// other beats in all of them.
	Metrics []string `json:"pareto,omitempty"`
	Front   []int    `json:"front,omitempty"`
}

type tuneTrial struct {
	Step      int          `json:"step"`
	Origin    string       `json:"origin"`
	Objective float64      `json:"objective"`
	Floor     float64      `json:"floor"`
	Ratio     float64      `json:"controllable_ratio"`
	Every     bool         `json:"better_in_every_future"`
	Values    []float64    `json:"values"`
	Queue     float64      `json:"avg_queue_s"`
	Exhausted bool         `json:"exhausted,omitempty"`
	Error     string       `json:"error,omitempty"`
	Config    space.Config `json:"config"`
	// Limits are the constraints, Sides the further metrics of the goal.
	Limits []tuneLimit        `json:"constraints,omitempty"`
	Sides  map[string]float64 `json:"metrics,omitempty"`
	kept   float64            // the least probability of a constraint relative to the incumbent
}

func newTuneReport(in *replayInput, f *replayFlags, state *workload.State, got *round.Result, incumbent space.Config, wall time.Duration) *tuneReport {
	r := &tuneReport{
		Trace: in.trace.Name(), Synthetic: in.trace.Synthetic(), At: in.trace.Zero().Add(state.At).Format(time.RFC3339), Scheduler: in.scheduler.Name,
		ActiveJobs: len(state.Jobs), Adopt: got.Adopt, Reason: got.Reason, Ratio: got.Ratio, Incumbent: incumbent, Best: got.Config, Wall: wall.Seconds(),
	}
	r.Stopped, r.Sampler, r.Choice, r.Inert = got.Stopped, got.Sampler, got.Choice, got.Inert
	if !got.Interval.IsZero() {
		r.Interval = &got.Interval
	}
	for i := range state.Jobs {
		if !state.Jobs[i].Running {
			r.WaitingJobs++
		}
	}
	for _, t := range got.Trials {
		g := search.Gain(t, got.Incumbent)
		x := tuneTrial{Step: t.Step, Origin: t.Origin, Objective: t.Measurement.Mean(), Ratio: g.Ratio, Every: g.BetterInEvery, Values: t.Measurement.Values,
			Queue: t.Measurement.Metrics["avg_queue_s"], Exhausted: t.Measurement.Exhausted, Error: t.Err, Config: t.Config}
		for _, v := range t.Measurement.Floors {
			x.Floor += v / float64(len(t.Measurement.Floors))
		}
		x.addGoal(&t.Measurement)
		r.Trials = append(r.Trials, x)
	}
	rank := func(t *tuneTrial) int { // what keeps to the constraints, what does not, what has no objective
		switch {
		case t.Exhausted || t.Error != "":
			return 2
		case t.breaks() != nil:
			return 1
		}
		return 0
	}
	sort.SliceStable(r.Trials, func(a, b int) bool {
		x, y := &r.Trials[a], &r.Trials[b]
		if rank(x) != rank(y) {
			return rank(x) < rank(y)
		}
		return x.Objective < y.Objective
	})
	return r
}

func (r *tuneReport) print(w io.Writer, top int) error {
	fmt.Fprintf(w, "%s%s at %s: %d active jobs, %d of them waiting\n\n", r.Trace, label(r.Synthetic), r.At, r.ActiveJobs, r.WaitingJobs)
	fmt.Fprintf(w, "%s\n\n", goalLine(r.Objective))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "step\torigin\tobjective\tcontrollable\tqueue s\tin every future"+r.columns()+"\tconfiguration")
	for i := range r.Trials {
		if i == top {
			fmt.Fprintf(t, "... %d more\n", len(r.Trials)-top)
			break
		}
		x := &r.Trials[i]
		every := ""
		if x.Every {
			every = "better"
		}
		switch {
		case x.Exhausted:
			fmt.Fprintf(t, "%d\t%s\tevent budget exhausted\t\t\t%s\t%s\n", x.Step, x.Origin, r.empty(), x.Config)
		case x.Error != "":
			fmt.Fprintf(t, "%d\t%s\tfailed: %s\t\t\t%s\t%s\n", x.Step, x.Origin, x.Error, r.empty(), x.Config)
		default:
			fmt.Fprintf(t, "%d\t%s\t%s\t%s (%s)\t%.0f\t%s%s\t%s\n", x.Step, x.Origin, round.Figure(r.Objective, x.Objective), round.Figure(r.Objective, x.Objective-x.Floor), round.Factor(x.Ratio), x.Queue, every, r.cells(x), x.Config)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "keep the incumbent"
	if r.Adopt {
		verdict = "adopt"
	}
	fmt.Fprintf(w, "\n%s: %s (in %.2f s)\n", verdict, r.Reason, r.Wall)
	if r.Adopt {
		fmt.Fprintf(w, "  %s\n", r.Best)
	}
	if r.Interval != nil {
		fmt.Fprintf(w, "The ratio on the controllable part is %s, with 95 %% confidence between %s and %s as far as the futures tell.\n", round.Factor(r.Ratio), round.Factor(r.Interval.Low), round.Factor(r.Interval.High))
	}
	if err := r.printFront(w, top); err != nil {
		return err
	}
	if r.Choice != "" {
		fmt.Fprintf(w, "Sampler: %s.\n", r.Choice)
	}
	return nil
}
