package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/lab/objectives"
	"github.com/autosched/autosched/lab/samplers"
	"github.com/autosched/autosched/search"
)

// publishedObjectives lists the objectives with published figures.
var publishedObjectives = []string{"quad2", "quad5", "cat4", "jctnoisy"}

// benchSearchOptions are the flags of search.
type benchSearchOptions struct {
	objectives, samplers   []string
	budget, seeds, workers int
	json                   bool

	plot      cli.PlotFlag
	given     func(flag string) bool
	functions []*objectives.Objective // after check
}

func newBenchSearchCmd() *cobra.Command {
	var o benchSearchOptions
	cmd := &cobra.Command{
		Use:   "search",
		Short: "Measure samplers on functions with a known optimum, beside published figures",
		Long: `Runs studies of --budget evaluations on functions whose optimum is known, once
per seed, and prints the simple regret: how much worse the configuration a study
returns truly is than the best one. 0 is perfect; the unit is the function's.

For the four functions with published figures, those for the same budget (40, 60
or 100) stand below; theirs is the regret of the configuration that measured
best.

Functions:
` + objectiveList() + `

Samplers:
` + samplerList(),
		Example: `  autosched-lab search
  autosched-lab search --objectives cat4 --samplers auto,random,bluefin --seeds 50
  autosched-lab search --objectives all --samplers all --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "search-benchmark/v1", r,
				func() (*chart.Page, error) { return r.page(o.objectives) },
				func(w io.Writer) error { return r.print(w, o.objectives) })
		},
	}
	o.given = cmd.Flags().Changed
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringSliceVar(&o.objectives, "objectives", publishedObjectives, "functions, comma-separated, or all")
	fl.StringSliceVar(&o.samplers, "samplers", []string{search.DefaultSampler, "random"},
		"samplers, comma-separated, or all")
	fl.IntVar(&o.budget, "budget", 40, "evaluations of a study")
	fl.IntVar(&o.seeds, "seeds", 20, "studies per function and sampler")
	fl.IntVar(&o.workers, "workers", 0, "parallel studies (0: one per processor); changes nothing but the time")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	return cmd
}

func (o *benchSearchOptions) check() error {
	if err := o.plot.Check(); err != nil {
		return err
	}
	if o.budget < 1 || o.seeds < 1 || o.workers < 0 {
		return cli.Usage(fmt.Errorf("--budget %d, --seeds %d, --workers %d: want at least 1, 1 and 0",
			o.budget, o.seeds, o.workers))
	}
	if err := cmp.Or(cli.CheckList(o.given, "objectives", o.objectives),
		cli.CheckList(o.given, "samplers", o.samplers)); err != nil {
		return err
	}
	if slices.Equal(o.objectives, []string{"all"}) {
		o.objectives = objectives.Names()
	}
	if slices.Equal(o.samplers, []string{"all"}) {
		o.samplers = cli.SamplerNames()
	}
	for _, n := range o.objectives {
		f, err := objectives.Find(n)
		if err != nil {
			return cli.Usage(fmt.Errorf("--objectives: %w", err))
		}
		o.functions = append(o.functions, f)
	}
	for _, s := range o.samplers {
		if !slices.Contains(cli.SamplerNames(), s) {
			return cli.Usage(fmt.Errorf("--samplers: %q is not known; there are %s",
				s, strings.Join(cli.SamplerNames(), ", ")))
		}
	}
	if o.workers == 0 {
		o.workers = runtime.GOMAXPROCS(0)
	}
	return nil
}

// run measures every sampler on every function. Progress goes to notes.
func (o *benchSearchOptions) run(ctx context.Context, notes io.Writer) (*searchBench, error) {
	r := &searchBench{}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	for _, f := range o.functions {
		for _, s := range o.samplers {
			line.Show("%s on %s, %d of %d", s, f.Name, len(r.Results)+1, len(o.functions)*len(o.samplers))
			figures, err := samplers.Run(ctx, f, s, o.budget, o.seeds, o.workers)
			if err != nil {
				return nil, err
			}
			figures.Regrets = nil
			r.Results = append(r.Results, figures)
		}
		for _, p := range samplers.Published() {
			if p.Objective == f.Name && p.Budget == o.budget {
				r.Published = append(r.Published, p)
			}
		}
	}
	if len(r.Results) == 1 {
		r.Figures = &r.Results[0]
	}
	return r, nil
}

func objectiveNames() []string { return append(objectives.Names(), "all") }

func objectiveList() string {
	var b strings.Builder
	for _, o := range objectives.All {
		fmt.Fprintf(&b, "  %-10s %s\n", o.Name, o.Description)
	}
	return strings.TrimRight(b.String(), "\n")
}

func samplerList() string {
	var b strings.Builder
	for _, s := range search.Samplers {
		fmt.Fprintf(&b, "  %-10s %s\n", s.Name, s.Description)
	}
	return strings.TrimRight(b.String(), "\n")
}

// searchBench is the result of search; a single result stands at the top too.
type searchBench struct {
	*samplers.Figures
	Results   []samplers.Figures `json:"results"`
	Published []samplers.Figures `json:"published,omitempty"`
}

func (r *searchBench) print(w io.Writer, names []string) error {
	for i, name := range names {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s, regret after %d evaluations\n", name, r.Results[0].Budget)
		t := table.Numbers(w, "sampler\tmean\tstd error\tmedian\tseeds\t\t")
		row := func(f *samplers.Figures, note string) {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t\n",
				f.Sampler, figure(f.Mean), figure(f.StandardError()), figure(f.Median), f.Seeds, note)
		}
		for k := range r.Results {
			if r.Results[k].Objective == name {
				row(&r.Results[k], "")
			}
		}
		for k := range r.Published {
			if r.Published[k].Objective == name {
				row(&r.Published[k], "published")
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for k := range r.Results {
			if f := &r.Results[k]; f.Objective == name && f.Choice != "" {
				fmt.Fprintf(w, "%s is %s.\n", f.Sampler, f.Choice)
			}
		}
	}
	return nil
}

// figure writes a regret with three digits, and a negligible one as 0.
func figure(v float64) string {
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return fmt.Sprintf("%.3g", v)
}
