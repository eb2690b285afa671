package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/lab/held"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload/trace"
)

func newBenchHeldCmd() *cobra.Command {
	var path, from, to string
	var names []string
	var nodes []int
	var every time.Duration
	var text bool
	var plot cli.PlotFlag
	cmd := &cobra.Command{
		Use:   "held --trace FILE",
		Short: "Judge the daily rule on windows of five days that it did not see",
		Long: `Asks the daily rule at the beginning of every window, once with guards that refuse and
once with guards that are only reported, holds its pick for five days and compares it with
the default and the presets. Prints the numbers of the rules, and with --json every window
as a line.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := plot.Check(); err != nil {
				return err
			}
			w, _, err := trace.Open(cmd.Context(), path, trace.Options{})
			if err != nil {
				return err
			}
			s := held.Study{Trace: w, Nodes: nodes, Workers: held.Processors()}
			for _, name := range names {
				one, err := schedulers.Find(name)
				if err != nil {
					return err
				}
				s.Schedulers = append(s.Schedulers, one)
			}
			first, err := trace.ParseInstant(w, from)
			if err != nil {
				return err
			}
			last, err := trace.ParseInstant(w, to)
			if err != nil {
				return err
			}
			for at := first; at+held.Length <= last; at += every {
				s.From = append(s.From, at)
			}
			began := time.Now()
			s.Progress = func(c held.Cell) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s %d %s, %s\n", c.Scheduler, c.Nodes, c.From,
					time.Since(began).Truncate(time.Second))
			}
			cells, err := s.Run(cmd.Context())
			if err != nil {
				return err
			}
			if text {
				if err := plot.Write(func() (*chart.Page, error) { return heldPage(cells) }); err != nil {
					return err
				}
				e := json.NewEncoder(cmd.OutOrStdout())
				for i := range cells {
					if err := e.Encode(&cells[i]); err != nil {
						return err
					}
				}
				return nil
			}
			return plot.Show(cmd, false, "", nil, func() (*chart.Page, error) { return heldPage(cells) },
				func(w io.Writer) error { return printHeld(w, cells) })
		},
	}
	plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&path, "trace", "", "trace of jobs")
	fl.StringVar(&from, "from", "2017-10-01T00:00:00Z", "beginning of the first window")
	fl.StringVar(&to, "to", "2017-11-05T00:00:00Z", "end of the last window at the latest")
	fl.DurationVar(&every, "every", held.Length, "time between the beginnings of windows")
	fl.StringSliceVar(&names, "schedulers", []string{"tiresias", "themis", "lucid", "gandiva"}, "schedulers to tune")
	fl.IntSliceVar(&nodes, "nodes", []int{36, 48, 64}, "sizes of the cluster, in nodes of 8 GPUs")
	fl.BoolVar(&text, "json", false, "print every window as a line of JSON")
	return cmd
}

// bySchedulers are the cells of each scheduler, and the schedulers in order.
func bySchedulers(cells []held.Cell) (by map[string][]held.Cell, names []string) {
	by = map[string][]held.Cell{}
	for _, c := range cells {
		if by[c.Scheduler] == nil {
			names = append(names, c.Scheduler)
		}
		by[c.Scheduler] = append(by[c.Scheduler], c)
	}
	return by, names
}

// printHeld prints the numbers of each rule, over all cells and by scheduler.
func printHeld(w io.Writer, cells []held.Cell) error {
	t := table.Numbers(w, "rule\twindows, weeks\tgain\trandom\tshare of best\t< -1 %\t< -3 %\tworst\tahead of random\t"+
		"changes per 100\tpromised, came\tcovered\tguards kept\tall kept")
	row := func(name string, s held.Summary) {
		percent := func(e held.Estimate) string {
			if math.IsNaN(e.Value) {
				return "-"
			}
			return fmt.Sprintf("%.0f [%.0f, %.0f] %%", 100*e.Value, 100*e.Low, 100*e.High)
		}
		fmt.Fprintf(t, "%s\t%d, %d\t%.1f %%\t%.1f %%\t%s\t%s\t%s\t%.1f %%\t%.0f %%\t%.0f\t%.1f, %.1f %%\t%.0f %%\t%.0f %%\t"+
			"%.0f %%\n",
			name, s.Windows, s.Weeks, 100*s.Gain, 100*s.Random, percent(s.Share), percent(s.Below1), percent(s.Below3),
			100*s.Worst, 100*s.AheadOfRandom, 100*float64(s.Changes)/float64(s.Windows), 100*s.Promised, 100*s.Came,
			100*s.Covered, 100*s.Kept, 100*s.KeptAll)
	}
	by, names := bySchedulers(cells)
	for _, rule := range held.Names() {
		row(rule, held.Summarise(cells, rule))
		for _, name := range names {
			row(name+", "+rule, held.Summarise(by[name], rule))
		}
	}
	return t.Flush()
}
