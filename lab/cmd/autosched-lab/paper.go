package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/lab/paper"
)

func newPaperCmd() *cobra.Command {
	var r paper.Run
	var figure, only, page, readme string
	var core, render, estimate, asJSON bool
	cmd := &cobra.Command{
		Use:   "paper",
		Short: "Measure the figures and tables of the AutoSched paper, and write the page that compares them",
		Long: `Measures the units that the files of results lack, and appends each to its file once it
is measured, so that a run that was ended resumes. With --render it writes the page of
what the files have, and its plots; with no other flag it measures everything first.

Units on synthetic traces need no file. Those on Philly and PAI need traces in the folder
--data: philly/jobs.csv.gz and pai2023/pods.csv.gz. Units whose trace is not there are
left out, and it says where to get the trace. What 'autosched trace fetch philly' writes can
take Philly's place under that name; it has more jobs, and gives other numbers.`,
		Example: `  autosched-lab paper --core --estimate
  autosched-lab paper --figure 9 --jobs 2
  autosched-lab paper --render`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			notes := cmd.ErrOrStderr()
			r.Show = func(format string, values ...any) { fmt.Fprintf(notes, format+"\n", values...) }
			if r.Jobs < 0 {
				return cli.Usage(fmt.Errorf("--jobs: %d is negative", r.Jobs))
			}
			show := func() error {
				err := paper.Write(r.Results, page, readme)
				if err != nil || !asJSON {
					return err
				}
				rows, err := paper.Rows(r.Results)
				if err != nil {
					return err
				}
				return schema.Write(cmd.OutOrStdout(), "paper-figures/v1", map[string]any{"figures": rows})
			}
			if render {
				return show()
			}
			r.Commit = cmp.Or(r.Commit, built())
			selected, err := paper.Units(figure, core)
			if err != nil {
				return cli.Usage(fmt.Errorf("--figure: %w", err))
			}
			if only != "" {
				name, err := regexp.Compile(only)
				if err != nil {
					return cli.Usage(fmt.Errorf("--only: %w", err))
				}
				selected = slices.DeleteFunc(selected, func(u paper.Unit) bool { return !name.MatchString(u.ID()) })
				if len(selected) == 0 {
					return cli.Usage(errors.New("--only selects no unit: units are named experiment/name"))
				}
			}
			left, err := r.Left(selected)
			if err != nil {
				return err
			}
			seconds := 0.
			for _, u := range left {
				seconds += u.Seconds
			}
			fmt.Fprintf(notes, "%d of %d units are left, about %v of processor time, %d at a time\n", len(left),
				len(selected), time.Duration(seconds*float64(time.Second)).Round(time.Second),
				cells.Jobs(r.Jobs, len(left)))
			if estimate {
				return nil
			}
			missing, err := r.Measure(cmd.Context(), left)
			counts := map[string]int{}
			for _, u := range missing {
				if u.Peer != "" {
					fmt.Fprintf(notes, "%s is not measured: there is no folder %s in --peers\n", u.ID(), u.Peer)
				} else {
					counts[u.Data]++
				}
			}
			for _, file := range slices.Sorted(maps.Keys(counts)) {
				fmt.Fprintf(notes, "%s is not in %s: %s not measured. Get %s\n", file, r.Traces,
					units.Plural(counts[file], "unit"), paper.Source(file, r.Traces))
			}
			if err != nil {
				return err
			}
			return show()
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&figure, "figure", "", "only this figure or table, such as 9 or table-3")
	fl.BoolVar(&core, "core", false, "only the core set, without the fortnights: two hours on one processor")
	fl.StringVar(&only, "only", "", "regular expression of units, named experiment/name")
	fl.BoolVar(&estimate, "estimate", false, "say how long it takes, and measure nothing")
	fl.BoolVar(&render, "render", false, "measure nothing, write the page of what the files of results have")
	fl.IntVar(&r.Jobs, "jobs", 1, "units measured at a time, 0 for one per processor; results do not depend on it")
	fl.StringVarP(&r.Results, "out", "o", "lab/paper/results", "folder of the files of results")
	fl.StringVar(&page, "page", "docs/paper.md", "page to write; its plots go into a folder of its name beside it")
	fl.StringVar(&readme, "readme", "README.md", "page whose table of results is written, between its marks; empty: none")
	fl.StringVar(&r.Traces, "data", "../shared/traces", "folder that holds the recorded traces")
	fl.StringVar(&r.Peers, "peers", "", "folder with the repositories of Tiresias and Lucid under these names, for speed")
	fl.StringVar(&r.Commit, "build", "", "commit of the code measured; default: that of this program")
	fl.BoolVar(&asJSON, "json", false, "print the table of figures as JSON for programs")
	_ = cmd.RegisterFlagCompletionFunc("figure", cli.ListOf(paper.FigureIDs()...))
	return cmd
}

// built is the commit of this program in eight digits, with a + where its source was changed since.
func built() string {
	b := cli.Built()
	if b.Commit == "" {
		return "unknown"
	}
	if b.Modified {
		return b.Commit[:8] + "+"
	}
	return b.Commit[:8]
}
