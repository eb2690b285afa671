package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/lab/horizons"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/replay/scenario"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// benchHorizonsOptions are the flags of horizons.
type benchHorizonsOptions struct {
	scenarios, data, only string
	schedulers            []string
	futures               int
	seed                  uint64
	json                  bool
	study                 horizons.Options
	plot                  cli.PlotFlag
	given                 func(flag string) bool

	selected *regexp.Regexp // after check
}

func newBenchHorizonsCmd() *cobra.Command {
	var o benchHorizonsOptions
	cmd := &cobra.Command{
		Use:   "horizons --scenarios FILE",
		Short: "Compare how well rounds of several horizons rank configurations",
		Long: `Holds configurations (the default, the presets, a spread of the space) over windows
of traces, and scores each at instants of the run under the default as a round does:
on futures whose arrivals are forecast as far as --horizons say. Rank is Spearman's
correlation of the scores, mean over instants, with the average JCT over the window;
"once" is that of a single round on average, "truth" that on the true future.
Regret is how much longer the average JCT over the window is under the configuration
that scores best than under the best of all.

--scenarios names a JSON file as that of evaluate. --only selects by window/scheduler.`,
		Example: `  autosched-lab horizons --scenarios examples/scenarios.json --data traces --only 'quick/(lucid|gandiva)'`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			rows, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "horizon-benchmark/v1", map[string]any{"rankings": rows},
				func() (*chart.Page, error) { return horizonsPage(rows) },
				func(w io.Writer) error { return printHorizons(w, rows) })
		},
	}
	o.given = cmd.Flags().Changed
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.scenarios, "scenarios", "", "JSON file of windows and clusters (required)")
	fl.StringVar(&o.data, "data", ".", "folder that holds the traces of the scenarios")
	fl.StringVar(&o.only, "only", "", "regular expression of window/scheduler")
	fl.StringSliceVar(&o.schedulers, "schedulers",
		[]string{"tiresias", "themis", "lucid", "gandiva", "gavel", "chronus", "pollux"}, "schedulers, comma-separated")
	fl.DurationSliceVar(&o.study.Horizons, "horizons",
		[]time.Duration{4 * time.Hour, 12 * time.Hour, 24 * time.Hour}, "times to forecast arrivals for, comma-separated `durations`")
	fl.IntVar(&o.study.Configs, "configs", 20, "configurations to spread over the space")
	fl.IntVar(&o.study.Hours, "hours", 10, "instants to score at")
	fl.IntVar(&o.futures, "futures", round.DefaultSettings().Futures, "futures of a score")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of the spread and of the futures")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	_ = cmd.RegisterFlagCompletionFunc("schedulers", cli.ListOf(schedulers.Names()...))
	return cmd
}

// check checks all that needs no file.
func (o *benchHorizonsOptions) check() error {
	if err := o.plot.Check(); err != nil {
		return err
	}
	s := &o.study
	if s.Configs < 0 || s.Hours < 1 || o.futures < 1 || len(s.Horizons) == 0 {
		return cli.Usage(fmt.Errorf("--configs %d, --hours %d, --futures %d, %d --horizons: want at least 0, 1, 1 and 1",
			s.Configs, s.Hours, o.futures, len(s.Horizons)))
	}
	for _, h := range s.Horizons {
		if h <= 0 {
			return cli.Usage(fmt.Errorf("--horizons: %v is not above 0", h))
		}
	}
	if o.scenarios == "" {
		return cli.Usage(errors.New("--scenarios is missing: name a JSON file of windows"))
	}
	if err := cli.CheckList(o.given, "schedulers", o.schedulers); err != nil {
		return cli.Usage(err)
	}
	for _, name := range o.schedulers {
		if _, err := schedulers.Find(name); err != nil {
			return cli.Usage(fmt.Errorf("--schedulers: %w", err))
		}
	}
	var err error
	if o.selected, err = regexp.Compile(o.only); err != nil {
		return cli.Usage(fmt.Errorf("--only: %w", err))
	}
	return nil
}

// run ranks. Notes and progress go to notes.
func (o *benchHorizonsOptions) run(ctx context.Context, notes io.Writer) ([]*horizons.Ranking, error) {
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	return eachWindow(ctx, o.scenarios, o.data, o.selected, o.schedulers, func(window, cell string, in replay.Options) (
		*horizons.Ranking, error) {
		in.Settings = round.Settings{Futures: o.futures, Seed: o.seed}
		o.study.Progress = func(done, of int) { line.Show("%s: score %d of %d", cell, done, of) }
		r, err := horizons.Rank(ctx, in, o.study)
		if err == nil {
			r.Window = window
		}
		return r, err
	})
}

// eachWindow calls measure for each window of a file and each scheduler that are selected, and lists the results.
func eachWindow[T any](ctx context.Context, scenarios, data string, selected *regexp.Regexp, names []string,
	measure func(window, cell string, in replay.Options) (T, error)) ([]T, error) {
	file, err := scenario.Read(scenarios)
	if err != nil {
		return nil, fmt.Errorf("--scenarios: %w", err)
	}
	traces := map[string]*workload.Workload{}
	var out []T
	for i := range file.Scenarios {
		s := &file.Scenarios[i]
		if err := s.Check(scenarios); err != nil {
			return nil, fmt.Errorf("--scenarios: %w", err)
		}
		for _, name := range names {
			cell := s.Name + "/" + name
			if !selected.MatchString(cell) {
				continue
			}
			in, err := loadScenario(ctx, s, data, traces)
			if err != nil {
				return nil, fmt.Errorf("--scenarios: %s: %s: %w", scenarios, s.Name, err)
			}
			if in.Scheduler, err = schedulers.Find(name); err != nil {
				return nil, err
			}
			r, err := measure(s.Name, cell, in)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", cell, err)
			}
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		return nil, cli.Usage(fmt.Errorf("--only: %q selects no window and scheduler of %s", selected, scenarios))
	}
	return out, nil
}

func printHorizons(w io.Writer, rankings []*horizons.Ranking) error {
	t := table.Numbers(w,
		"window\tscheduler\tconfigurations\tdefault s\tbest s\thorizon\trank\tonce\ttruth\tregret %\ttruth\tCPU ms\t")
	for _, r := range rankings {
		name, scheduler := r.Window, r.Scheduler
		head := fmt.Sprintf("%d\t%.0f\t%.0f", r.Configurations, r.DefaultJCT, r.BestJCT)
		for _, h := range r.Horizons {
			span := time.Duration(h.HorizonS * float64(time.Second)).String()
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f\t\n", name, scheduler, head,
				strings.TrimSuffix(strings.TrimSuffix(span, "0s"), "0m"), h.Rank, h.Once, h.OnTruth, 100*h.Regret,
				100*h.RegretOnTruth, 1000*h.Seconds)
			name, scheduler, head = "", "", "\t\t"
		}
	}
	return t.Flush()
}
