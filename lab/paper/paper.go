// Package paper measures the figures and tables of the AutoSched paper (Gao et al., ICS 2024) on public and synthetic
// traces, keeps the results as files, and writes a page that compares them with the paper's numbers.
package paper

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/autosched/autosched/internal/cells"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/simulator"
)

// Unit is a measurement whose result is kept.
type Unit struct {
	// Experiment names the file of results, Name the unit in it.
	Experiment, Name string
	// Core units are the ones of the core set; a lower Rank is measured first.
	Core bool
	Rank int
	// Seconds of processor time that it is expected to take.
	Seconds float64
	// Data names the file of a trace that it needs, relative to the folder of traces; empty if it needs none.
	Data string
	// Peer names the folder of another simulator in that of the peers, or autosched; empty if it needs none.
	Peer    string
	Seed    uint64
	measure func(ctx context.Context, d *Data) (values any, times map[string]float64, err error)
}

// Result is the outcome of a unit, a line of a file of results.
type Result struct {
	Unit string `json:"unit"`
	// Command measures the unit again, Commit names the code measured, Simulator is its version.
	Command   string          `json:"command"`
	Commit    string          `json:"commit"`
	Simulator string          `json:"simulator"`
	Seed      uint64          `json:"seed"`
	Values    json.RawMessage `json:"values"`
	// Times are ratios of times of one run, kept where units run one at a time. They depend on the
	// machine, the values do not.
	Times map[string]float64 `json:"times,omitempty"`

	took time.Duration // of processor time
}

// Run measures units and keeps their results.
type Run struct {
	// Results is the folder of the files of results, Traces that of recorded traces, Peers that of other simulators.
	Results, Traces, Peers string
	// Commit names the code measured.
	Commit string
	// Jobs is the number of units measured at a time, 0 for one per processor.
	Jobs int
	// Show gets the progress, a line per unit.
	Show func(format string, values ...any)
}

// Units selects units: those of a figure, all if it is empty, and of the core set if asked for it.
func Units(figure string, core bool) ([]Unit, error) {
	var names []string
	if figure != "" {
		f := findFigure(figure)
		if f == nil {
			return nil, fmt.Errorf("there is no figure %q; there are %v", figure, FigureIDs())
		}
		names = f.Experiments
	}
	var out []Unit
	for _, u := range allUnits() {
		if (figure == "" || slices.Contains(names, u.Experiment)) && (u.Core || !core) {
			out = append(out, u)
		}
	}
	slices.SortStableFunc(out, func(a, b Unit) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Seconds, b.Seconds))
	})
	return out, nil
}

func allUnits() []Unit {
	return slices.Concat(methodUnits(), windowUnits(), rejectionUnits(), liveUnits(), aggregatorUnits(),
		predictorUnits(), arrivalUnits(), twinUnits(), similarityUnits(), causalUnits(), leaseUnits(), overheadUnits(),
		describedUnits(), speedUnits())
}

// Read returns the results of all units by experiment and name.
func Read(folder string) (map[string]*Result, error) {
	out := map[string]*Result{}
	paths, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		file := resultFile(path)
		known, bad, err := file.Read()
		if err != nil {
			return nil, err
		}
		if bad > 0 {
			return nil, fmt.Errorf("%s: %d lines are no results", path, bad)
		}
		for name, x := range known {
			out[name] = x
		}
	}
	return out, nil
}

func resultFile(path string) *cells.File[string, Result] {
	return &cells.File[string, Result]{Path: path, Key: func(r *Result) string { return r.Unit }}
}

// ID is the experiment and the name.
func (u *Unit) ID() string { return u.Experiment + "/" + u.Name }

// Left are the units without a result of this version of the simulator.
func (r *Run) Left(units []Unit) (out []Unit, err error) {
	known, err := Read(r.Results)
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		if x := known[u.ID()]; x == nil || x.Simulator != simulator.Version {
			out = append(out, u)
		}
	}
	return out, nil
}

// Others are the units that have a result of another commit than the run's, those that take least first.
func (r *Run) Others(units []Unit) (out []Unit, err error) {
	known, err := Read(r.Results)
	if err != nil {
		return nil, err
	}
	for _, u := range units {
		if x := known[u.ID()]; x != nil && x.Commit != r.Commit {
			out = append(out, u)
		}
	}
	slices.SortStableFunc(out, func(a, b Unit) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return out, nil
}

// Measure measures units that are not measured yet and appends each to its file of results once it is measured. Units
// whose trace is not at hand are left out; it returns them.
func (r *Run) Measure(ctx context.Context, units []Unit) (missing []Unit, err error) {
	return r.measure(ctx, units, func(_ int, x *Result) (*Result, string) { return x, "" })
}

// Check measures units again. A result with the same values is then of the run's commit, and keeps its times; another
// is replaced, and its name returned. No other run may write into the folder of results.
func (r *Run) Check(ctx context.Context, units []Unit) (differ []string, missing []Unit, err error) {
	known, err := Read(r.Results)
	if err != nil {
		return nil, nil, err
	}
	missing, err = r.measure(ctx, units, func(_ int, x *Result) (*Result, string) {
		was := known[x.Unit]
		if !sameValues(x.Values, was.Values) || x.Simulator != was.Simulator {
			differ = append(differ, x.Unit)
			return x, "  differs from that of " + was.Commit
		}
		if was.Times != nil {
			x.Times = was.Times
		}
		return x, ""
	})
	slices.Sort(differ)
	return differ, missing, errors.Join(err, r.tidy(units))
}

// sameValues compares two texts of JSON without their blanks.
func sameValues(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// tidy writes the files of units' results anew, sorted by unit and without results that later ones replace.
func (r *Run) tidy(units []Unit) error {
	done := map[string]bool{}
	for i := range units {
		path := r.file(&units[i])
		if done[path] {
			continue
		}
		done[path] = true
		known, _, err := resultFile(path).Read()
		if err != nil {
			return err
		}
		if len(known) == 0 {
			continue
		}
		var text bytes.Buffer
		out := json.NewEncoder(&text)
		out.SetEscapeHTML(false)
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if err := out.Encode(known[name]); err != nil {
				return err
			}
		}
		if err := os.WriteFile(path+".new", text.Bytes(), 0o666); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) file(u *Unit) string { return filepath.Join(r.Results, u.Experiment+".jsonl") }

// measure measures units and appends of each the result that keep returns, which may add a remark to its progress.
func (r *Run) measure(ctx context.Context, units []Unit, keep func(int, *Result) (*Result, string)) (missing []Unit,
	err error) {
	if err := os.MkdirAll(r.Results, 0o777); err != nil {
		return nil, err
	}
	data := &Data{Folder: r.Traces, Peers: r.Peers}
	units = slices.DeleteFunc(slices.Clone(units), func(u Unit) bool {
		gone := u.Data != "" && data.path(u.Data) == "" || u.Peer != "" && !data.has(u.Peer)
		if gone {
			missing = append(missing, u)
		}
		return gone
	})
	files := map[string]*cells.File[string, Result]{}
	grid := cells.Grid[string, Result]{Jobs: r.Jobs, Known: map[string]*Result{}}
	for i := range units {
		u := &units[i]
		grid.Keys = append(grid.Keys, u.ID())
		if files[u.Experiment] == nil {
			files[u.Experiment] = resultFile(r.file(u))
		}
	}
	grid.Cost = func(i int) cells.Cost { // in the order given
		return cells.Cost{Units: float64(i), Kinds: []string{units[i].Experiment}}
	}
	grid.Compute = func(ctx context.Context, i int, _ func(float64)) (*Result, error) {
		x, err := units[i].Measure(ctx, data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", units[i].ID(), err)
		}
		x.Commit = r.Commit
		if r.Jobs != 1 {
			x.Times = nil // of several units
		}
		return x, nil
	}
	var mu sync.Mutex
	done := 0
	grid.Keep = func(i int, x *Result) error {
		mu.Lock()
		defer mu.Unlock()
		done++
		took := x.took
		x, remark := keep(i, x)
		if r.Show != nil {
			r.Show("%d of %d  %s  CPU %v%s", done, len(units), x.Unit, took, remark)
		}
		return files[units[i].Experiment].Append(x)
	}
	_, err = grid.Run(ctx)
	return missing, err
}

// Measure measures a unit.
func (u *Unit) Measure(ctx context.Context, d *Data) (*Result, error) {
	began := cputime.Process()
	values, times, err := u.measure(ctx, d)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	return &Result{Unit: u.ID(), Command: "autosched-lab paper --only '^" + u.ID() + "$'",
		Simulator: simulator.Version, Seed: u.Seed, Values: text, Times: times,
		took: (cputime.Process() - began).Round(100 * time.Millisecond)}, nil
}

// values reads the values of a result; an absent one is false.
func values[T any](all map[string]*Result, id string) (out T, ok bool, err error) {
	x := all[id]
	if x == nil {
		return out, false, nil
	}
	if err := json.Unmarshal(x.Values, &out); err != nil {
		return out, false, errors.Join(fmt.Errorf("result %s", id), err)
	}
	return out, true, nil
}
