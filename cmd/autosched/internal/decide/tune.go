package decide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload/trace"
)

// tuneOptions are the flags of tune.
type tuneOptions struct {
	history cli.HistoryFlags
	round   cli.TuneFlags
	goal    goalFlags
	tariff  cli.TariffFlags
	trials  string
	answer  answerFlag
	at      string
	sampler string
	truth   bool
	within  time.Duration
	plot    cli.PlotFlag
	top     int

	given     func(flag string) bool
	scheduler *schedulers.Scheduler // after check
	incumbent space.Config          // after check
}

func newTuneCmd() *cobra.Command {
	var o tuneOptions
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Find the best configuration for the workload expected at a point in a trace",
		Long: `Runs the cluster from --from to --at under the incumbent (the default, or what
--preset and --set say), takes the state a controller would see then, draws
futures (arrivals and remaining durations, by --generate) and searches: first the
default, the incumbent and the scheduler's presets, then what --sampler suggests.

Every configuration is simulated on all futures until its last job ends. A
candidate is worth adopting if it is better on average.

Constraints (--subject-to) hold in the mean over the futures; what is adopted also
keeps to those relative to the incumbent with a probability of 0.8. If nothing
does, the incumbent stays.

--trials writes every trial to a file as it is measured: the suggestion, its
projection by the space's rules and a narrowed scope, the prediction, the
measurement, and why a suggestion was rejected. A file with content is never overwritten.
Ctrl-C ends the search with the best so far, exit code 0.

What a search found is simplified: parameters that have no effect above the noise keep
the incumbent's values, others get round ones where that measures the same on the same
futures.

Columns: step is the order of measurement, source what suggested the trial, then the
mean objective over the futures and how it differs from the incumbent's, influence the
share of what settings can influence that is saved, queue the mean queueing delay,
better in how many futures. The best trial is the one with the lowest posterior mean
of the objective, which may not be the row listed first.`,
		Example: `  autosched tune --trace sample --at 2017-10-10T12:00:00Z --nodes 20 --gpus-per-node 8 --scheduler tiresias
  autosched tune --trace jobs.csv.gz --at 2017-10-10T12:00:00Z --nodes 40 --preset ladder-7200x6 --sampler bluefin --budget 100 --json
  autosched tune --trace sacct.psv --site site --conf-out tuned.conf
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --print native > tiresias.yaml
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --plot search.html
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --subject-to 'p99_jct<=1.1*incumbent' --subject-to 'tenant_p95_queue<=1.1*incumbent+10m'
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --pareto avg_jct,p99_jct --plot front.html
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --objective cost --prices examples/energy/prices.csv \
      --subject-to 'avg_jct<=1.05*incumbent' --subject-to 'tenant_p95_queue<=1.1*incumbent+10m'
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --time 300ms
  autosched tune --trace sample --at 2017-10-10T12:00:00Z --budget 400 --trials trials.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := o.plot.Write(func() (*chart.Page, error) { return tunePage(r, o.top) }); err != nil {
				return err
			}
			return o.answer.show(cmd, o.history.JSON, "tuning/v1", r,
				func() (recommendation, error) {
					return recommendation{o.scheduler, r.Best, r.Adopt, r.Reason}, nil
				},
				func(w io.Writer) error {
					return errors.Join(r.print(w, o.top), o.history.Site.PrintChange(w, r.Change))
				})
		},
	}
	o.add(cmd)
	return cmd
}

func (o *tuneOptions) add(cmd *cobra.Command) {
	o.given = cmd.Flags().Changed
	o.history.Add(cmd)
	o.history.AddNodeEvents(cmd)
	o.history.AddConclusion(cmd)
	o.round.Add(cmd)
	cli.AddSubjectTo(cmd, &o.round.SubjectTo)
	o.goal.add(cmd)
	o.tariff.Add(cmd)
	o.tariff.AddDeferrable(cmd)
	o.answer.add(cmd, &o.history)
	fl := cmd.Flags()
	fl.StringVar(&o.trials, "trials", "",
		"write trials and rejections to this file as they are measured, as JSON lines")
	fl.StringVar(&o.at, "at", "", "(default: the last submission before --to)")
	fl.StringVar(&o.sampler, "sampler", search.DefaultSampler, "")
	fl.BoolVar(&o.truth, "truth", false, "tune on the trace's true future instead of forecast ones, as a bound")
	o.plot.Add(cmd)
	fl.DurationVar(&o.within, "time", 0,
		fmt.Sprintf("how long to search (0: only --budget counts; with it --budget is at least %d unless given); the "+
			"result then depends on the machine", timedBudget))
	fl.IntVar(&o.top, "top", 15, "")
	_ = cmd.RegisterFlagCompletionFunc("sampler", cli.OneOf(cli.SamplerNames()...))
}

// check checks all that needs no trace.
func (o *tuneOptions) check() error {
	var err error
	if o.scheduler, o.incumbent, err = o.history.Check(); err != nil {
		return err
	}
	if err := cli.CheckList(o.given, "pareto", o.goal.pareto); err != nil {
		return err
	}
	goal, err := o.round.Goal()
	if err != nil {
		return err
	}
	if err := o.goal.parse(goal); err != nil {
		return err
	}
	if o.tariff.Given() && !o.measures() {
		return cli.Usage(errors.New("--power, --prices and --carbon change nothing: no objective, constraint or --pareto " +
			"counts " + strings.Join(round.EnergyObjectives, ", ")))
	}
	if err := o.tariff.Check(o.history.Scheduler); err != nil {
		return err
	}
	if err := o.round.CheckSettings(); err != nil {
		return err
	}
	if err := o.answer.check(o.history.JSON); err != nil {
		return err
	}
	if err := o.plot.Check(); err != nil {
		return err
	}
	switch {
	case o.top < 1:
		return cli.Usage(fmt.Errorf("--top: %d is not positive", o.top))
	case o.within < 0:
		return cli.Usage(fmt.Errorf("--time: %v is negative", o.within))
	}
	if err := cli.CheckInstant("at", o.at); err != nil {
		return err
	}
	if _, err := search.NewSampler(o.sampler,
		search.Setup{Space: o.scheduler.Space, Start: o.scheduler.Space.Default()}); err != nil {
		return cli.Usage(fmt.Errorf("--sampler: %w", err))
	}
	return nil
}

// measures reports whether power, prices or sleep matter.
func (o *tuneOptions) measures() bool {
	return o.goal.metered() || schedulers.Sleeps(o.history.Scheduler) || schedulers.Defers(o.history.Scheduler)
}

// run searches. Notes and progress go to notes.
func (o *tuneOptions) run(ctx context.Context, notes io.Writer) (*tuneReport, error) {
	study, err := openTrials(o.trials)
	if err != nil {
		return nil, err
	}
	defer study.close()
	var tariff *energy.Tariff
	if o.measures() {
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
	noteReordering(notes, o.goal.metered(), o.history.Scheduler)
	at, err := o.instant(in)
	if err != nil {
		return nil, err
	}
	about := *in
	about.To = at + 1 // submissions at the instant are known
	graded, err := o.history.Grade(ctx, in, replay.Window{From: in.From, To: about.To}, in.Scheduler, o.incumbent)
	if err != nil {
		return nil, err
	}
	budget := o.budget()
	settings := o.round.Seeded(o.history.Seed)
	settings.Budget = budget
	progress := newGridProgress(notes, "", "a smaller --budget, --time, fewer --futures")
	progress.stop = "Ctrl-C answers by the trials until then"
	got, state, err := replay.Tune(ctx, replay.Options{
		Trace: in.Trace, From: in.From, Warmup: in.Warmup, Cluster: o.history.Cluster, Scheduler: in.Scheduler,
		Goal:     o.goal.goal,
		Settings: settings, Generate: o.round.Method, Simulate: in.Options,
	}, replay.TuneOptions{
		At: at, Incumbent: o.incumbent, Sampler: o.sampler, Truth: o.truth, Time: o.within,
		Progress: func(t search.Trial) {
			done := t.Step + 1
			left := time.Duration(float64(time.Since(progress.began)) / float64(done) * float64(max(0, budget-done)))
			if o.within > 0 {
				left = min(left, max(0, o.within-time.Since(progress.began)))
			}
			progress.show(round.Source(t.Origin), cells.Progress{Done: done, Of: budget, Left: left})
		},
		Front: o.goal.pareto,
		Record: search.Record{To: study.to(), About: map[string]string{
			"trace": in.Trace.Name(), "scheduler": in.Scheduler.Name, "objective": o.goal.goal.String(),
			"seed":    fmt.Sprint(o.history.Seed),
			"instant": in.Trace.Zero().Add(at).Format(time.RFC3339),
		}},
	})
	progress.line.Clear()
	if err := errors.Join(err, study.close()); err != nil {
		return nil, err
	}
	if note := round.InertNote(got.Inert); note != "" {
		fmt.Fprintln(notes, "note: "+note)
	}
	if got.NoDeadline {
		fmt.Fprintln(notes, "note: "+round.NoDeadlineNote)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(notes, "note: interrupted; this is the best of what was measured")
	}
	var found []search.Preset
	if got.Best.OK() {
		found = append(found, search.Preset{Name: "found", Config: got.Best.Config, Origin: "search"})
	}
	v, err := o.history.Ask(context.WithoutCancel(ctx), &about, replay.AskOptions{Goal: o.goal.goal,
		InForce: o.incumbent, Found: found, Workers: o.round.Settings.Workers, Fidelity: graded}, notes)
	if err != nil {
		return nil, err
	}
	r := newTuneReport(in, state, &got, o.incumbent, time.Since(progress.began))
	r.Verdict, r.Adopt, r.Reason, r.Best = v, v.Change, v.Text, v.Configuration
	r.Changes = append([]space.Difference{}, space.DiffConfigs(o.incumbent, r.Best)...)
	r.describe(&got, &o.goal)
	if r.Adopt {
		r.Change, err = o.history.Site.Change(ctx, &about, &o.history.ReplayFlags, o.incumbent, r.Best)
	}
	return r, err
}

// instant is --at on the trace.
func (o *tuneOptions) instant(in *cli.ReplayInput) (time.Duration, error) {
	if o.at == "" {
		return in.To - 1, nil
	}
	at, err := trace.ParseInstant(in.Trace, o.at)
	switch {
	case err != nil:
		return 0, cli.Usage(fmt.Errorf("--at: %w", err))
	case at > in.To-1:
		return 0, cli.Usage(fmt.Errorf("--at (%s) is after the last submission before --to: nothing is coming", o.at))
	case at < in.From:
		return 0, cli.Usage(fmt.Errorf("--at (%s) is before the first submission that counts", o.at))
	}
	return at, nil
}

// budget is --budget, or without it as many evaluations as --time has room for.
func (o *tuneOptions) budget() int {
	if o.within > 0 && !o.given("budget") {
		return timedBudget
	}
	return o.round.Settings.Budget
}

// timedBudget bounds a search that --time bounds: more trials than a model has
// anything to gain from.
const timedBudget = 1000

// front draws the configurations by the first two metrics.
func (d *tuneDrawing) front() *chart.Chart {
	r := d.report
	f := chart.Front{Title: "Configurations that no other beats", X: r.Metrics[0], Y: r.Metrics[1]}
	var best []chart.Point
	for i := range d.trials {
		t := &d.trials[i]
		f.Points = append(f.Points, chart.Point{X: t.Sides[r.Metrics[0]], Y: t.Sides[r.Metrics[1]]})
		if slices.Contains(r.Front, t.Step) {
			best = append(best, f.Points[i])
		}
	}
	return f.Chart(best, d.dots)
}

// trialsFile is the file that --trials names, for the record of a search.
type trialsFile struct {
	out  *os.File // nil without a record
	made bool     // the file did not exist
	some bool     // something was written
}

// openTrials opens a file that must be empty, or not exist; "" is no file.
func openTrials(path string) (*trialsFile, error) {
	f := &trialsFile{}
	if path == "" {
		return f, nil
	}
	info, err := os.Stat(path)
	f.made = errors.Is(err, os.ErrNotExist)
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return nil, fmt.Errorf("--trials: %s is not empty and is not overwritten: name another file", path)
	}
	if f.out, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("--trials: %w", err)
	}
	return f, nil
}

// to is the destination of the record, nil for none.
func (f *trialsFile) to() io.Writer {
	if f.out == nil {
		return nil
	}
	return f
}

func (f *trialsFile) Write(line []byte) (int, error) {
	f.some = true
	return f.out.Write(line)
}

// close may be called twice. It removes a new file that stayed empty.
func (f *trialsFile) close() error {
	if f.out == nil {
		return nil
	}
	if err := f.out.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("--trials: %w", err)
	}
	if f.made && !f.some {
		f.made = false
		return os.Remove(f.out.Name())
	}
	return nil
}
