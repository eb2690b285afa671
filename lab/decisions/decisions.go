// Package decisions measures tuning methods over windows, schedulers and seeds (Matrix).
package decisions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
)

// Window is a part of a trace on a cluster, on which methods are compared.
type Window struct {
	Name string
	// Rank orders windows: lower ones are measured first.
	Rank int
	// Schedulers to tune, nil for the schedulers of the matrix; Seeds bounds its seeds, 0 does not.
	Schedulers []string
	Seeds      int
	// Load returns the trace, the window and the cluster.
	Load func(context.Context) (replay.Options, error)
}

// Ablation is the method autosched with other settings, on some windows with some
// schedulers; nil is all.
type Ablation struct {
	Name                string
	Settings            round.Settings
	Windows, Schedulers []string
}

func (a *Ablation) of(window, scheduler string) bool {
	has := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	return has(a.Windows, window) && has(a.Schedulers, scheduler)
}

// Matrix compares every method with every scheduler on every window, for
// several seeds where the method draws. Method "autosched/NAME" is an ablation.
type Matrix struct {
	Windows    []Window
	Schedulers []string
	Methods    []string
	Ablations  []Ablation
	// Seeds is the number of seeds, from 1.
	Seeds int
	// Settings of rounds; FixedBudget is the number of configurations measured by a
	// method that tunes once.
	Settings    round.Settings
	FixedBudget int
	// Simulator is its version, Build names the code measured. Methods that decide every
	// round are measured again when either changes, the others not for the build.
	Simulator, Build string
	// Only selects the cells measured by "window/scheduler/method/seed"; nil is all.
	Only *regexp.Regexp
	// Progress is called with every cell, once it is measured.
	Progress func(c *Cell, done, of int)
}

// CellKey identifies a cell of a Matrix.
type CellKey struct {
	Window    string `json:"window"`
	Scheduler string `json:"scheduler"`
	Method    string `json:"method"`
	Seed      uint64 `json:"seed"`
	// Version is the simulator's, with a digest of the inputs and the build.
	Version string `json:"version"`
}

// Cell is a method's outcome for a window, a scheduler and a seed.
type Cell struct {
	CellKey
	Jobs    int            `json:"jobs"`
	Outcome replay.Outcome `json:"outcome"` // without decisions
	// CPUSeconds is the CPU time of the replay, decisions included.
	CPUSeconds float64 `json:"cpu_s"`
}

// String is the text that Matrix.Only matches.
func (k *CellKey) String() string {
	return fmt.Sprintf("%s/%s/%s/%d", k.Window, k.Scheduler, k.Method, k.Seed)
}

// planned is a cell to measure.
type planned struct {
	key     CellKey
	options replay.Options
	rank    [6]int
}

// cellFormat is part of the version of a cell: another one means other contents.
const cellFormat = 2

// decides reports whether a method runs rounds, which change from build to build.
func decides(method string) bool {
	return !slices.Contains([]string{"default", "preset", "random-preset", "fixed-history", "fixed-oracle"}, method)
}

// plan lists the cells of the matrix, the most telling first: online methods,
// then hindsight, windows of low rank and first seeds before others.
func (m *Matrix) plan(ctx context.Context) ([]planned, error) {
	var out []planned
	for wi, w := range m.Windows {
		var base *replay.Options // loaded for the first cell selected
		names := m.Schedulers
		if len(w.Schedulers) > 0 {
			names = slices.DeleteFunc(slices.Clone(names),
				func(s string) bool { return !slices.Contains(w.Schedulers, s) })
		}
		for si, name := range names {
			s, err := schedulers.Find(name)
			if err != nil {
				return nil, err
			}
			methods := slices.Clone(m.Methods)
			for i := range m.Ablations {
				if a := &m.Ablations[i]; a.of(w.Name, name) {
					methods = append(methods, "autosched/"+a.Name)
				}
			}
			for mi, method := range methods {
				seeds := m.Seeds
				if w.Seeds > 0 {
					seeds = min(seeds, w.Seeds)
				}
				if !replay.Draws(strings.Split(method, "/")[0]) {
					seeds = 1
				}
				for seed := range seeds {
					key := CellKey{Window: w.Name, Scheduler: name, Method: method, Seed: uint64(seed + 1)}
					if m.Only != nil && !m.Only.MatchString(key.String()) {
						continue
					}
					if base == nil {
						loaded, err := w.Load(ctx)
						if err != nil {
							return nil, fmt.Errorf("window %s: %w", w.Name, err)
						}
						base = &loaded
					}
					p := planned{key: key, options: *base}
					o := &p.options
					o.Scheduler, o.Settings, o.FixedBudget = s, m.settings(method), m.FixedBudget
					o.Seed = key.Seed
					if p.key.Version, err = m.version(method, o); err != nil {
						return nil, err
					}
					stage := slices.Index([]string{"fixed-oracle", "oracle"}, method) + 1
					if strings.Contains(method, "/") {
						stage = 2
					}
					p.rank = [...]int{w.Rank + stage, w.Rank, seed, wi, si, mi}
					out = append(out, p)
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no cell matches: cells are named window/scheduler/method/seed")
	}
	slices.SortStableFunc(out, func(a, b planned) int { return slices.Compare(a.rank[:], b.rank[:]) })
	return out, nil
}

func (m *Matrix) settings(method string) round.Settings {
	for _, a := range m.Ablations {
		if method == "autosched/"+a.Name {
			return a.Settings
		}
	}
	return m.Settings
}

// version is that of the simulator with a digest of the method's inputs, and the
// build if it decides every round.
func (m *Matrix) version(method string, o *replay.Options) (string, error) {
	inputs := []any{cellFormat, o.Trace.Digest(), o.From, o.To, o.Warmup, o.Cluster, o.Interval,
		o.Scheduler.Space.Default().Hash()}
	if len(o.Simulate.Nodes) > 0 {
		inputs = append(inputs, o.Simulate.Nodes)
	}
	if method != "default" {
		for _, p := range o.Scheduler.Presets {
			inputs = append(inputs, p.Config.Hash())
		}
	}
	out := m.Simulator
	switch {
	case decides(method):
		inputs = append(inputs, o.Settings)
		out += "+" + m.Build
	case method == "fixed-oracle":
		inputs = append(inputs, m.FixedBudget)
	}
	text, err := json.Marshal(inputs)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return out + "+" + hex.EncodeToString(sum[:6]), nil
}

// Run measures the cells that a file of results lacks and appends each, as a line of
// JSON, once it is measured. It returns all cells of the matrix that the file then has;
// with measure false it measures none.
func (m *Matrix) Run(ctx context.Context, path string, measure bool) ([]Cell, error) {
	plan, err := m.plan(ctx)
	if err != nil {
		return nil, err
	}
	file := cells.File[CellKey, Cell]{Path: path, Key: func(c *Cell) CellKey { return c.CellKey }}
	known, _, err := file.Read()
	if err != nil {
		return nil, err
	}
	grid := cells.Grid[CellKey, Cell]{Known: known, Jobs: 1}
	for i := range plan {
		if known[plan[i].key] != nil || measure {
			grid.Keys = append(grid.Keys, plan[i].key)
		}
	}
	grid.Compute = func(ctx context.Context, i int, _ func(float64)) (*Cell, error) {
		c, err := plan[i].measure(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", &plan[i].key, err)
		}
		return c, nil
	}
	grid.Keep = func(i int, c *Cell) error {
		if err := file.Append(c); err != nil {
			return err
		}
		if m.Progress != nil {
			m.Progress(c, i+1, len(plan))
		}
		return nil
	}
	got, err := grid.Run(ctx)
	var out []Cell
	for _, c := range got {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out, err
}

func (p *planned) measure(ctx context.Context) (*Cell, error) {
	e, err := replay.Prepare(p.options)
	if err != nil {
		return nil, err
	}
	began := cputime.Process()
	got, err := e.Measure(ctx, strings.Split(p.key.Method, "/")[0])
	if err != nil {
		return nil, err
	}
	got.Decisions = nil
	return &Cell{CellKey: p.key, Jobs: len(got.Rows.JCTs()), Outcome: got.Outcome,
		CPUSeconds: (cputime.Process() - began).Seconds()}, nil
}
