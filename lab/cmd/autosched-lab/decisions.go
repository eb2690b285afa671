package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/lab/decisions"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/replay/scenario"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// benchDecisionsOptions are the flags of decisions.
type benchDecisionsOptions struct {
	plot                 cli.PlotFlag
	scenarios, data, out string
	only                 string
	ablate               []string
	tables, json         bool
	workers              int
	matrix               decisions.Matrix

	given func(flag string) bool
	read  []scenario.Scenario // after check
}

func newBenchDecisionsCmd() *cobra.Command {
	var o benchDecisionsOptions
	cmd := &cobra.Command{
		Use:   "decisions --scenarios FILE --out FILE",
		Short: "Compare tuning methods over windows, schedulers and seeds",
		Long: `Evaluates every method with every scheduler on every window of a file of
scenarios, for several seeds where the method draws, and prints
tables. Each cell is appended to --out as a line of JSON once it is measured; a
cell that the file has is not measured again, so that a run that was ended
resumes. A cell is measured again when its inputs change, and one of a method that
decides every round when --build does, too.

Methods that can be run online come first, then fixed-oracle, then oracle, windows
of a low rank before others. --only selects cells by window/scheduler/method/seed.
--ablate, and "ablations" of the file of scenarios, measure autosched with other
settings: a JSON object with the names that report.json and the API give them,
times in nanoseconds.`,
		Example: `  autosched-lab decisions --scenarios examples/scenarios.json --data traces --out decisions.jsonl
  autosched-lab decisions --scenarios examples/scenarios.json --data traces --out decisions.jsonl \
      --only 'quick/(lucid|gandiva)/(default|autosched)' --ablate 'two-futures={"futures": 2}'
  autosched-lab decisions --scenarios examples/scenarios.json --data traces --out decisions.jsonl --tables`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			cells, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return o.plot.Show(cmd, o.json, "decision-benchmark/v1", map[string]any{"cells": cells},
				func() (*chart.Page, error) { return decisionsPage(&o.matrix, cells) },
				func(w io.Writer) error { return printDecisions(w, &o.matrix, cells) })
		},
	}
	o.given = cmd.Flags().Changed
	m := &o.matrix
	o.plot.Add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&o.scenarios, "scenarios", "", "JSON file of windows and clusters (required)")
	fl.StringVar(&o.data, "data", ".", "folder that holds the traces of the scenarios")
	fl.StringVarP(&o.out, "out", "o", "", "file of results, appended to (required)")
	fl.StringSliceVar(&m.Schedulers, "schedulers",
		[]string{"tiresias", "themis", "lucid", "gandiva", "gavel", "chronus", "pollux"}, "schedulers, comma-separated")
	fl.StringSliceVar(&m.Methods, "methods",
		[]string{"default", "preset", "random-preset", "autosched", "fixed-oracle", "oracle"},
		"methods, comma-separated")
	fl.IntVar(&m.Seeds, "seeds", 3, "seeds of methods that draw")
	fl.IntVar(&m.FixedBudget, "fixed-budget", 120, "configurations that fixed-oracle and fixed-history measure")
	fl.StringVar(&m.Build, "build", "", "name of the code measured, such as a commit")
	fl.StringVar(&o.only, "only", "", "regular expression of the cells to measure and show")
	fl.StringArrayVar(&o.ablate, "ablate", nil, `NAME={"setting": value, ...}: also measure autosched so, repeatable`)
	fl.BoolVar(&o.tables, "tables", false, "measure nothing, print the tables of what --out has")
	fl.IntVar(&o.workers, "workers", 0, "parallel evaluations (0: one per processor); results do not depend on it")
	fl.BoolVar(&o.json, "json", false, "print the cells as JSON for programs")
	_ = cmd.RegisterFlagCompletionFunc("schedulers", cli.ListOf(schedulers.Names()...))
	_ = cmd.RegisterFlagCompletionFunc("methods", cli.ListOf(replay.MethodNames()...))
	return cmd
}

// check checks all that needs no trace, and reads the scenarios.
func (o *benchDecisionsOptions) check() error {
	if err := o.plot.Check(); err != nil {
		return err
	}
	m := &o.matrix
	if o.scenarios == "" || o.out == "" {
		return cli.Usage(fmt.Errorf("--scenarios and --out are required"))
	}
	if m.Seeds < 1 || m.FixedBudget < 1 || o.workers < 0 {
		return cli.Usage(fmt.Errorf("--seeds %d, --fixed-budget %d, --workers %d: want at least 1, 1 and 0",
			m.Seeds, m.FixedBudget, o.workers))
	}
	if err := cmp.Or(cli.CheckList(o.given, "schedulers", m.Schedulers), cli.CheckList(o.given, "methods", m.Methods),
		replay.CheckMethods(m.Methods)); err != nil {
		return cli.Usage(err)
	}
	for _, s := range m.Schedulers {
		if _, err := schedulers.Find(s); err != nil {
			return cli.Usage(fmt.Errorf("--schedulers: %w", err))
		}
	}
	var err error
	if o.only != "" {
		if m.Only, err = regexp.Compile(o.only); err != nil {
			return cli.Usage(fmt.Errorf("--only: %w", err))
		}
	}
	m.Simulator = simulator.Version
	m.Settings = round.DefaultSettings()
	m.Settings.Workers = o.workers
	file, err := scenario.Read(o.scenarios)
	if err != nil {
		return fmt.Errorf("--scenarios: %w", err)
	}
	o.read = file.Scenarios
	for _, x := range file.Ablations {
		a := decisions.Ablation{Name: x.Name, Settings: m.Settings, Windows: x.Windows, Schedulers: x.Schedulers}
		if err := override(&a.Settings, x.Settings); err != nil {
			return fmt.Errorf("--scenarios: %s: ablation %s: %w", o.scenarios, x.Name, err)
		}
		m.Ablations = append(m.Ablations, a)
	}
	for _, text := range o.ablate {
		name, values, ok := strings.Cut(text, "=")
		a := decisions.Ablation{Name: name, Settings: m.Settings}
		if !ok || name == "" {
			return cli.Usage(fmt.Errorf("--ablate: %q is not NAME={...}", text))
		}
		if err := override(&a.Settings, []byte(values)); err != nil {
			return cli.Usage(fmt.Errorf("--ablate: %s: %w", name, err))
		}
		m.Ablations = append(m.Ablations, a)
	}
	for i := range o.read {
		if err := o.read[i].Check(o.scenarios); err != nil {
			return fmt.Errorf("--scenarios: %w", err)
		}
	}
	return nil
}

// override replaces settings by the values of a JSON object.
func override(s *round.Settings, values []byte) error {
	d := json.NewDecoder(bytes.NewReader(values))
	d.DisallowUnknownFields()
	return d.Decode(s)
}

// run measures the missing cells. Notes and progress go to notes.
func (o *benchDecisionsOptions) run(ctx context.Context, notes io.Writer) ([]decisions.Cell, error) {
	traces := map[string]*workload.Workload{}
	for i := range o.read {
		s := &o.read[i]
		o.matrix.Windows = append(o.matrix.Windows, decisions.Window{Name: s.Name, Rank: s.Rank, Seeds: s.Seeds,
			Schedulers: s.Schedulers,
			Load: func(ctx context.Context) (replay.Options, error) {
				return loadScenario(ctx, s, o.data, traces)
			}})
	}
	began := time.Now()
	o.matrix.Progress = func(c *decisions.Cell, done, of int) {
		fmt.Fprintf(notes, "%d of %d  %s  %.0f s  CPU %.0f s  after %s\n", done, of, &c.CellKey, c.Outcome.AvgJCT,
			c.CPUSeconds, time.Since(began).Round(time.Second))
	}
	return o.matrix.Run(ctx, o.out, !o.tables)
}

// loadScenario returns a scenario with its trace, which is drawn or lies in the folder data.
// opened caches traces by path.
func loadScenario(ctx context.Context, s *scenario.Scenario, data string,
	opened map[string]*workload.Workload) (replay.Options, error) {
	if s.Drawn() {
		w, err := s.Generate(ctx)
		if err != nil {
			return replay.Options{}, err
		}
		return scenarioOptions(s, w)
	}
	path := filepath.Join(data, s.Trace)
	w := opened[path]
	if w == nil {
		if _, err := os.Stat(path); err != nil {
			return replay.Options{}, fmt.Errorf("--data: the trace is missing: %w", err)
		}
		var err error
		if w, _, err = cli.OpenTrace(ctx, io.Discard, path, cli.ReadFlags{}); err != nil {
			return replay.Options{}, err
		}
		opened[path] = w
	}
	return scenarioOptions(s, w)
}

// scenarioOptions returns the trace, the window and the cluster of a scenario.
func scenarioOptions(s *scenario.Scenario, w *workload.Workload) (replay.Options, error) {
	var o replay.Options
	var err error
	if o.Trace, err = s.Select(w); err != nil {
		return o, err
	}
	o.Cluster = workload.Uniform(s.Nodes, s.GPUsPerNode)
	if o.Trace, err = cli.WithoutWider(io.Discard, o.Trace, o.Cluster); err != nil {
		return o, err
	}
	if s.NodeEvents != "" {
		events, err := trace.OpenNodeEvents(s.NodeEvents)
		if err == nil {
			_, o.Simulate.Nodes, err = events.On(o.Cluster, o.Trace.Zero())
		}
		if err != nil {
			return o, fmt.Errorf("%s: node_events: %w", s.Name, err)
		}
	}
	o.From, o.To, err = cli.ParseWindow(o.Trace, s.Start, s.End)
	return o, err
}
