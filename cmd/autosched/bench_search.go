package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/search/benchmark"
	"github.com/autosched/autosched/search/objectives"
)

// publishedObjectives are those with published figures.
var publishedObjectives = []string{"quad2", "quad5", "cat4", "jctnoisy"}

func newBenchSearchCmd() *cobra.Command {
	var names, samplers []string
	var budget, seeds, workers int
	var asJSON bool
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
		Example: `  autosched bench search
  autosched bench search --objectives cat4 --samplers auto,random,bluefin --seeds 50
  autosched bench search --objectives all --samplers all --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if budget < 1 || seeds < 1 || workers < 0 {
				return usageError{fmt.Errorf("--budget %d, --seeds %d, --workers %d: want at least 1, 1 and 0", budget, seeds, workers)}
			}
			if err := cmp.Or(checkList(cmd.Flags().Changed, "objectives", names), checkList(cmd.Flags().Changed, "samplers", samplers)); err != nil {
				return err
			}
			if slices.Equal(names, []string{"all"}) {
				names = objectives.Names()
			}
			if slices.Equal(samplers, []string{"all"}) {
				samplers = samplerNames()
			}
			var chosen []*objectives.Objective
			for _, n := range names {
				o, err := objectives.Find(n)
				if err != nil {
					return usageError{fmt.Errorf("--objectives: %w", err)}
				}
				chosen = append(chosen, o)
			}
			for _, s := range samplers {
				if !slices.Contains(samplerNames(), s) {
					return usageError{fmt.Errorf("--samplers: %q is not known; there are %s", s, strings.Join(samplerNames(), ", "))}
				}
			}
			if workers == 0 {
				workers = runtime.GOMAXPROCS(0)
			}
			var r searchBench
			line := newProgressLine(cmd.ErrOrStderr())
			for _, o := range chosen {
				for _, s := range samplers {
					line.show("%s on %s, %d of %d", s, o.Name, len(r.Results)+1, len(chosen)*len(samplers))
					f, err := benchmark.Run(cmd.Context(), o, s, budget, seeds, workers)
					if err != nil {
						line.clear()
						return err
					}
					f.Regrets = nil
					r.Results = append(r.Results, f)
				}
				for _, f := range benchmark.Published() {
					if f.Objective == o.Name && f.Budget == budget {
						r.Published = append(r.Published, f)
					}
				}
			}
			line.clear()
			if asJSON {
				if len(r.Results) == 1 {
					r.Figures = &r.Results[0]
				}
				return printJSON(cmd.OutOrStdout(), r)
			}
			return r.print(cmd.OutOrStdout(), names)
		},
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&names, "objectives", publishedObjectives, "functions, comma-separated, or all")
	fl.StringSliceVar(&samplers, "samplers", []string{search.DefaultSampler, "random"}, "samplers, comma-separated, or all")
	fl.IntVar(&budget, "budget", 40, "evaluations of a study")
	fl.IntVar(&seeds, "seeds", 20, "studies per function and sampler")
	fl.IntVar(&workers, "workers", 0, "studies at a time (0: one per processor); changes nothing but the time")
	fl.BoolVar(&asJSON, "json", false, "print JSON for programs")
	return cmd
}

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

// searchBench is what bench search prints; a single result stands at the top too.
type searchBench struct {
	*benchmark.Figures
	Results   []benchmark.Figures `json:"results"`
	Published []benchmark.Figures `json:"published,omitempty"`
}

func (r *searchBench) print(w io.Writer, names []string) error {
	for i, name := range names {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s, regret after %d evaluations\n", name, r.Results[0].Budget)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "sampler\tmean\tstd error\tmedian\tseeds\t\t")
		row := func(f *benchmark.Figures, note string) {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t\n", f.Sampler, figure(f.Mean), figure(f.StandardError()), figure(f.Median), f.Seeds, note)
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

// figure writes a regret with three digits, and what is nothing as 0.
func figure(v float64) string {
	if math.Abs(v) < 1e-12 {
		return "0"
	}
	return fmt.Sprintf("%.3g", v)
}
