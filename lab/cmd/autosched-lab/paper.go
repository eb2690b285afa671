package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/lab/paper"
)

// resultsFolder has the results of this repository, which its pages show.
const resultsFolder = "lab/paper/results"

type paperOptions struct {
	paper.Run
	figure, only, page, readme   string
	check                        int
	core, render, estimate, json bool
	given                        func(flag string) bool
}

func newPaperCmd() *cobra.Command {
	var o paperOptions
	cmd := &cobra.Command{
		Use:   "paper",
		Short: "Measure the figures and tables of the AutoSched paper, and write the page that compares them",
		Long: `Measures the units that the files of results lack, and appends each to its file once it
is measured, so that a run that was ended resumes. With --render it writes the page of
what the files have, and its plots; with no other flag it measures everything first.
With --check it measures results of other commits again, those that take least first: equal
ones are then of this commit, others are replaced, and it names them and exits with 1.

Units on synthetic traces need no file. Those on Philly and PAI need traces in the folder
--data: philly/jobs.csv.gz and pai2023/pods.csv.gz. Units whose trace is not there are
left out, and it says where to get the trace. What 'autosched trace fetch philly' writes can
take Philly's place under that name; it has more jobs, and gives other numbers.`,
		Example: `  autosched-lab paper --core --estimate
  autosched-lab paper --figure 9 --jobs 2
  autosched-lab paper --render`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			if !o.render {
				if done, err := o.measure(cmd.Context(), cmd.ErrOrStderr()); err != nil || !done {
					return err
				}
			}
			return o.show(cmd.OutOrStdout())
		},
	}
	o.given = cmd.Flags().Changed
	fl := cmd.Flags()
	fl.StringVar(&o.figure, "figure", "", "only this figure or table, such as 9 or table-3")
	fl.BoolVar(&o.core, "core", false, "only the core set: without the fortnights and the speed of other simulators")
	fl.StringVar(&o.only, "only", "", "regular expression of units, named experiment/name")
	fl.BoolVar(&o.estimate, "estimate", false, "say how long it takes, and measure nothing")
	fl.IntVar(&o.check, "check", 0, "number of results of other commits to measure again and compare")
	fl.BoolVar(&o.render, "render", false, "measure nothing, write the page of what the files of results have")
	fl.IntVar(&o.Jobs, "jobs", 1, "units measured at a time, 0 for one per processor; results do not depend on it")
	fl.StringVarP(&o.Results, "out", "o", resultsFolder, "folder of the files of results")
	fl.StringVar(&o.page, "page", "docs/paper.md",
		"page to write; its plots go into a folder of its name beside it; of another --out: paper.md in it")
	fl.StringVar(&o.readme, "readme", "README.md",
		"page whose table of results is written, between its marks; empty, or of another --out: none")
	fl.StringVar(&o.Traces, "data", "../shared/traces", "folder that holds the recorded traces")
	fl.StringVar(&o.Peers, "peers", "", "folder with the repositories of Tiresias, Lucid and TitanSched under these names, for speed")
	fl.StringVar(&o.Commit, "build", "", "commit of the code measured; default: that of this program")
	fl.BoolVar(&o.json, "json", false, "print the table of figures as JSON for programs")
	_ = cmd.RegisterFlagCompletionFunc("figure", cli.ListOf(paper.FigureIDs()...))
	return cmd
}

// complete completes the options: results of another folder leave the pages of this repository alone.
func (o *paperOptions) complete() error {
	if o.Jobs < 0 {
		return cli.Usage(fmt.Errorf("--jobs: %d is negative", o.Jobs))
	}
	if o.check < 0 {
		return cli.Usage(fmt.Errorf("--check: %d is negative", o.check))
	}
	if o.check > 0 && o.render {
		return cli.Usage(errors.New("--check measures, --render does not: leave out one of both"))
	}
	if filepath.Clean(o.Results) != filepath.FromSlash(resultsFolder) {
		if !o.given("page") {
			o.page = filepath.Join(o.Results, "paper.md")
		}
		if !o.given("readme") {
			o.readme = ""
		}
	}
	o.Commit = cmp.Or(o.Commit, built())
	return nil
}

// units are the selected ones.
func (o *paperOptions) units() ([]paper.Unit, error) {
	out, err := paper.Units(o.figure, o.core)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--figure: %w", err))
	}
	if o.only == "" {
		return out, nil
	}
	name, err := regexp.Compile(o.only)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--only: %w", err))
	}
	out = slices.DeleteFunc(out, func(u paper.Unit) bool { return !name.MatchString(u.ID()) })
	if len(out) == 0 {
		return nil, cli.Usage(errors.New("--only selects no unit: units are named experiment/name"))
	}
	return out, nil
}

// measure measures the units that are left, or again those to check; it returns false where it says only how long that
// takes.
func (o *paperOptions) measure(ctx context.Context, notes io.Writer) (done bool, err error) {
	selected, err := o.units()
	if err != nil {
		return false, err
	}
	list, which := o.Left, "are left"
	if o.check > 0 {
		list, which = o.Others, "are of other commits"
	}
	left, err := list(selected)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(notes, "%d of %d units %s, ", len(left), len(selected), which)
	if o.check > 0 && len(left) > o.check {
		left = left[:o.check]
		fmt.Fprintf(notes, "%d of them are checked, ", o.check)
	}
	seconds := 0.
	for _, u := range left {
		seconds += u.Seconds
	}
	fmt.Fprintf(notes, "about %v of processor time, %d at a time\n",
		time.Duration(seconds*float64(time.Second)).Round(time.Second), cells.Jobs(o.Jobs, len(left)))
	if o.estimate {
		return false, nil
	}
	o.Show = func(format string, values ...any) { fmt.Fprintf(notes, format+"\n", values...) }
	var differ []string
	var missing []paper.Unit
	if o.check > 0 {
		differ, missing, err = o.Check(ctx, left)
	} else {
		missing, err = o.Measure(ctx, left)
	}
	o.sources(notes, missing)
	if err == nil && len(differ) > 0 {
		err = fmt.Errorf("%s of other commits did not come out the same, now replaced: %s; write the page anew with --render, and read its "+
			"sentences", units.Plural(len(differ), "result"), strings.Join(differ, ", "))
	}
	return o.check == 0, err
}

// sources says where to get the traces and programs of the units that are not measured without them.
func (o *paperOptions) sources(notes io.Writer, missing []paper.Unit) {
	counts := map[string]int{}
	for _, u := range missing {
		if u.Peer == "autosched" {
			fmt.Fprintf(notes, "%s is not measured: there is no autosched beside this program: make build lab\n",
				u.ID())
		} else if u.Peer != "" {
			fmt.Fprintf(notes, "%s is not measured: there is no folder %s in --peers\n", u.ID(), u.Peer)
		} else {
			counts[u.Data]++
		}
	}
	for _, file := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(notes, "%s is not in %s: %s not measured. Get %s%s\n", file, o.Traces,
			units.Plural(counts[file], "unit"), paper.Source(file, o.Traces), paper.Instead(file))
	}
}

// show writes the pages of the results, and the figures as JSON where that is asked for.
func (o *paperOptions) show(out io.Writer) error {
	err := paper.Write(o.Results, o.page, o.readme)
	if err != nil || !o.json {
		return err
	}
	rows, err := paper.Rows(o.Results)
	if err != nil {
		return err
	}
	return schema.Write(out, "paper-figures/v1", map[string]any{"figures": rows})
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
