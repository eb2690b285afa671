package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/lab/studies"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
)

// benchStudiesOptions are the flags of studies.
type benchStudiesOptions struct {
	scenarios, data, only string
	schedulers            []string
	seed                  uint64
	json                  bool
	study                 studies.Options
	plot                  cli.PlotFlag
	given                 func(flag string) bool

	selected *regexp.Regexp // after check
}

func newBenchStudiesCmd() *cobra.Command {
	var o benchStudiesOptions
	cmd := &cobra.Command{
		Use:   "studies --scenarios FILE",
		Short: "Compare studies with and without the causal model",
		Long: `Tunes schedulers by studies (ask and tell) with one client, whose trials hold a
configuration over a window of a trace and measure the average JCT. A trial takes
one second on the clock of the study, however long the simulation takes.

Trials and time are those until one is at most 1 % worse than the best of a study of
--reference trials without the causal model. Time adds the CPU time of proposing. A
study that finds none counts with its whole length.

--scenarios names a JSON file as that of evaluate. --only selects by window/scheduler.`,
		Example: `  autosched-lab studies --scenarios examples/scenarios.json --data traces --only 'quick/lucid'`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			rows, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "study-benchmark/v1", map[string]any{"comparisons": rows},
				func() (*chart.Page, error) { return studiesPage(rows) },
				func(w io.Writer) error { return printStudies(w, rows) })
		},
	}
	o.given = cmd.Flags().Changed
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.scenarios, "scenarios", "", "JSON file of windows and clusters (required)")
	fl.StringVar(&o.data, "data", ".", "folder that holds the traces of the scenarios")
	fl.StringVar(&o.only, "only", "", "regular expression of window/scheduler")
	fl.StringSliceVar(&o.schedulers, "schedulers", []string{"tiresias", "lucid", "gandiva"},
		"schedulers, comma-separated")
	fl.StringSliceVar(&o.study.Algorithms, "samplers", []string{search.DefaultSampler}, "samplers, comma-separated")
	fl.IntVar(&o.study.Trials, "budget", 100, "trials of a study")
	fl.IntVar(&o.study.Reference, "reference", 400, "trials of the study whose best is to be found")
	fl.IntVar(&o.study.Seeds, "seeds", 5, "studies of each kind")
	fl.Uint64Var(&o.seed, "seed", 1, "seed of the reference; studies have those after it")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	_ = cmd.RegisterFlagCompletionFunc("schedulers", cli.ListOf(schedulers.Names()...))
	_ = cmd.RegisterFlagCompletionFunc("samplers", cli.ListOf(cli.SamplerNames()...))
	return cmd
}

// check checks all that needs no file.
func (o *benchStudiesOptions) check() error {
	if err := o.plot.Check(); err != nil {
		return err
	}
	s := &o.study
	s.Took = time.Second
	if s.Trials < 1 || s.Reference < 1 || s.Seeds < 1 {
		return cli.Usage(fmt.Errorf("--budget %d, --reference %d, --seeds %d: want at least 1", s.Trials, s.Reference,
			s.Seeds))
	}
	if o.scenarios == "" {
		return cli.Usage(errors.New("--scenarios is missing: name a JSON file of windows"))
	}
	for _, list := range []struct {
		flag string
		all  []string
	}{{"schedulers", o.schedulers}, {"samplers", s.Algorithms}} {
		if err := cli.CheckList(o.given, list.flag, list.all); err != nil {
			return cli.Usage(err)
		}
	}
	for _, name := range o.schedulers {
		if _, err := schedulers.Find(name); err != nil {
			return cli.Usage(fmt.Errorf("--schedulers: %w", err))
		}
	}
	for _, name := range s.Algorithms {
		if !slices.Contains(cli.SamplerNames(), name) {
			return cli.Usage(fmt.Errorf("--samplers: %q is not known: want some of %v", name, cli.SamplerNames()))
		}
	}
	var err error
	if o.selected, err = regexp.Compile(o.only); err != nil {
		return cli.Usage(fmt.Errorf("--only: %w", err))
	}
	return nil
}

// run compares. Progress goes to notes.
func (o *benchStudiesOptions) run(ctx context.Context, notes io.Writer) ([]*studies.Comparison, error) {
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	return eachWindow(ctx, o.scenarios, o.data, o.selected, o.schedulers, func(window, cell string, in replay.Options) (
		*studies.Comparison, error) {
		in.Settings = round.Settings{Futures: 1, Seed: o.seed}
		o.study.Progress = func(done, of int) { line.Show("%s: study %d of %d", cell, done, of) }
		r, err := studies.Compare(ctx, in, o.study)
		if err == nil {
			r.Window = window
		}
		return r, err
	})
}

func printStudies(w io.Writer, all []*studies.Comparison) error {
	t := table.Numbers(w, "window\tscheduler\tdefault s\tbest s\tsampler\tcausal\tfound\ttrials\ttime s\tskipped\t"+
		"narrowed\ttuner s\tbest\t")
	for _, r := range all {
		name, scheduler, head := r.Window, r.Scheduler, fmt.Sprintf("%.0f\t%.0f", r.DefaultJCT, r.ReferenceJCT)
		for from := 0; from < len(r.Studies); {
			of := r.Studies[from:]
			n := slices.IndexFunc(of, func(x studies.Run) bool {
				return x.Algorithm != of[0].Algorithm || x.Causal != of[0].Causal
			})
			if n > 0 {
				of = of[:n]
			}
			from += len(of)
			found := 0
			for _, x := range of {
				if x.Trials > 0 {
					found++
				}
			}
			// Medians over the seeds.
			mid := func(value func(x studies.Run) float64) float64 {
				sorted := slices.SortedFunc(slices.Values(of), func(a, b studies.Run) int {
					return cmp.Compare(value(a), value(b))
				})
				return value(sorted[len(sorted)/2])
			}
			causal := "off"
			if of[0].Causal {
				causal = "on"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d of %d\t%.0f\t%.1f\t%.0f\t%.0f\t%.2f\t%.3f\t\n", name, scheduler,
				head, of[0].Algorithm, causal, found, len(of),
				mid(func(x studies.Run) float64 { return float64(cmp.Or(x.Trials, x.Measured)) }),
				mid(func(x studies.Run) float64 { return x.Seconds }),
				mid(func(x studies.Run) float64 { return float64(x.Skipped) }),
				mid(func(x studies.Run) float64 { return float64(x.Narrowed) }),
				mid(func(x studies.Run) float64 { return x.Tuner }),
				mid(func(x studies.Run) float64 { return x.Best }))
			name, scheduler, head = "", "", "\t"
		}
	}
	return t.Flush()
}
