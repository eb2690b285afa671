package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/lab/portfolio"
	"github.com/autosched/autosched/replay/scenario"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
)

// benchPresetsOptions are the flags of presets.
type benchPresetsOptions struct {
	plot                               cli.PlotFlag
	scheduler, scenarios, data, record string
	json                               bool
	study                              portfolio.Options
}

func newBenchPresetsCmd() *cobra.Command {
	var o benchPresetsOptions
	cmd := &cobra.Command{
		Use:   "presets --scenarios FILE",
		Short: "Choose a scheduler's presets by their regret over many windows",
		Long: `Holds configurations over windows of traces: the default, the presets, a spread of
the space with round values, and neighbours of the best. The regret of a
configuration in a window is its average JCT over the least of any there, minus 1;
for the default, the presets and what is chosen it is the mean with four more whose
numbers differ by up to 3 %, so that luck is not chosen.
Chosen is first the configuration with the least worst regret over the training
windows, among those whose p99 JCT and whose average JCT of jobs below ten minutes
are on average at most 10 % above the default's; then up to seven more, each of which
lowers the worst regret of the best by 1 % or more. None has a regret above 100 % in
any training window. Test windows only measure.

--scenarios names a JSON file as that of evaluate. A scenario with "test": true is a
test window.

--record keeps every measurement as a JSON line. A run with the same file measures
only what it lacks.`,
		Example: `  autosched-lab presets --scenarios examples/windows.json --data traces --scheduler themis --record themis.jsonl`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "preset-benchmark/v1", r,
				func() (*chart.Page, error) { return portfolioPage(r) },
				func(w io.Writer) error { return printPortfolio(w, r) })
		},
	}
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.scheduler, "scheduler", "tiresias", "scheduler: "+strings.Join(schedulers.Names(), ", "))
	fl.StringVar(&o.scenarios, "scenarios", "", "JSON file of windows and clusters (required)")
	fl.StringVar(&o.data, "data", ".", "folder that holds the traces of the scenarios")
	fl.StringVar(&o.record, "record", "", "file of measurements to continue, or to write")
	fl.IntVar(&o.study.Configs, "configs", 128, "configurations to spread over the space")
	fl.IntVar(&o.study.Refine, "refine", 3, "times to measure the neighbours of the chosen configurations too")
	fl.Uint64Var(&o.study.Seed, "seed", 1, "seed of the spread")
	fl.IntVar(&o.study.Workers, "workers", 1, "simulations at a time; changes nothing but the time")
	fl.BoolVar(&o.json, "json", false, "print JSON for programs")
	_ = cmd.RegisterFlagCompletionFunc("scheduler",
		cobra.FixedCompletions(schedulers.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check checks all that needs no file.
func (o *benchPresetsOptions) check() error {
	if err := o.plot.Check(); err != nil {
		return err
	}
	s := &o.study
	if s.Configs < 0 || s.Refine < 0 || s.Workers < 1 {
		return cli.Usage(fmt.Errorf("--configs %d, --refine %d, --workers %d: want at least 0, 0 and 1",
			s.Configs, s.Refine, s.Workers))
	}
	if o.scenarios == "" {
		return cli.Usage(errors.New("--scenarios is missing: name a JSON file of windows"))
	}
	var err error
	if s.Scheduler, err = schedulers.Find(o.scheduler); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// run chooses. Notes and progress go to notes.
func (o *benchPresetsOptions) run(ctx context.Context, notes io.Writer) (p *portfolio.Portfolio, err error) {
	if o.study.Windows, err = o.windows(ctx); err != nil {
		return nil, err
	}
	if o.record != "" {
		known, out, err := openHeld(o.record)
		if err != nil {
			return nil, fmt.Errorf("--record: %w", err)
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		o.study.Known = func(key string) (portfolio.Held, bool) { h, ok := known[key]; return h, ok }
		o.study.Keep = func(h portfolio.Held) error {
			line, err := json.Marshal(h)
			if err == nil {
				_, err = out.Write(append(line, '\n'))
			}
			return err
		}
	}
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	o.study.Progress = func(done, of int) { line.Show("measurement %d of %d", done, of) }
	return portfolio.Choose(ctx, o.study)
}

// windows reads the scenarios and their traces.
func (o *benchPresetsOptions) windows(ctx context.Context) ([]portfolio.Window, error) {
	file, err := scenario.Read(o.scenarios)
	if err != nil {
		return nil, fmt.Errorf("--scenarios: %w", err)
	}
	opened := map[string]*workload.Workload{}
	var out []portfolio.Window
	for i := range file.Scenarios {
		s := &file.Scenarios[i]
		if err := s.Check(o.scenarios); err != nil {
			return nil, fmt.Errorf("--scenarios: %w", err)
		}
		w, err := loadScenario(ctx, s, o.data, opened)
		if err != nil {
			return nil, fmt.Errorf("--scenarios: %s: %s: %w", o.scenarios, s.Name, err)
		}
		out = append(out, portfolio.Window{Name: s.Name, Test: s.Test, Trace: w.Trace, From: w.From, To: w.To,
			Cluster: w.Cluster})
	}
	return out, nil
}

// openHeld reads a file of measurements and opens it to add more. A last line without
// its end, as an interrupted run leaves it, is dropped.
func openHeld(path string) (map[string]portfolio.Held, *os.File, error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (map[string]portfolio.Held, *os.File, error) {
		return nil, nil, errors.Join(err, out.Close())
	}
	text, err := io.ReadAll(out)
	if err != nil {
		return fail(err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	known := map[string]portfolio.Held{}
	for n, line := range bytes.Split(text[:max(whole-1, 0)], []byte("\n")) {
		var h portfolio.Held
		if whole == 0 {
			break
		}
		if err := json.Unmarshal(line, &h); err != nil || h.Key == "" {
			return fail(fmt.Errorf("%s:%d: not a measurement of this command; name another file", path, n+1))
		}
		known[h.Key] = h
	}
	err = out.Truncate(int64(whole))
	if err == nil {
		_, err = out.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return fail(err)
	}
	return known, out, nil
}

func printPortfolio(w io.Writer, p *portfolio.Portfolio) error {
	fmt.Fprintf(w, "%s: %d configurations measured; regrets in %%, over training and test windows\n\n", p.Scheduler,
		p.Measured)
	t := table.Numbers(w,
		"\tworst\tmean\ttest worst\tmean\twith those above: worst\tmean\ttest worst\tmean\tp99\tshort\t"+
			"test p99\tshort\t")
	row := func(name string, r *portfolio.Row) {
		a, b := &r.Alone, &r.With
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", name,
			100*a.Worst, 100*a.Mean, 100*a.WorstTest, 100*a.MeanTest, 100*b.Worst, 100*b.Mean, 100*b.WorstTest,
			100*b.MeanTest, r.P99, r.Short, r.P99Test, r.ShortTest)
	}
	for i := range p.Compared {
		row(p.Compared[i].Name, &p.Compared[i])
	}
	for i := range p.Chosen {
		row(fmt.Sprint("chosen ", i+1), &p.Chosen[i])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for i := range p.Chosen {
		fmt.Fprintf(w, "chosen %d: %s\n", i+1, p.Chosen[i].Configuration)
	}
	fmt.Fprintln(w)
	t = table.Numbers(w, "window\tjobs\tload\tleast JCT s\tdefault\tfirst\tall\t  of")
	for _, x := range p.Windows {
		kind := ""
		if x.Test {
			kind = " (test)"
		}
		fmt.Fprintf(t, "%s%s\t%d\t%.2f\t%.0f\t%.1f\t%.1f\t%.1f\t  %s\n", x.Name, kind, x.Jobs, x.Load, x.BestJCT,
			100*x.Default, 100*x.First, 100*x.Portfolio, x.Best)
	}
	return t.Flush()
}
