// Package scenario reads files of scenarios: windows of traces, recorded or drawn from a
// recipe, with the clusters to replay them on.
package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/synth"
	"github.com/autosched/autosched/workload/trace"
)

// Scenario is a window of a trace and a cluster to replay it on.
type Scenario struct {
	Name        string `json:"name"`
	Trace       string `json:"trace"`  // part of the path of its trace
	Recipe      string `json:"recipe"` // of the file's recipes, instead of a trace
	Start       string `json:"start"`
	End         string `json:"end"`
	Nodes       int    `json:"nodes"`
	GPUsPerNode int    `json:"gpus_per_node"`
	// NodeEvents is a file of node events beside the file of scenarios.
	NodeEvents string `json:"node_events"`
	// MaxDurationS leaves out jobs that run longer, such as services; 0 keeps all.
	MaxDurationS float64 `json:"max_duration_s"`
	// Cold leaves out the history before the window.
	Cold bool `json:"cold"`
	// Rank, Seeds and Schedulers are for comparisons of methods: the importance of the
	// window, its number of seeds and the schedulers compared on it.
	Rank       int      `json:"rank"`
	Seeds      int      `json:"seeds"`
	Schedulers []string `json:"schedulers"`
	// Test marks a window that is held out when presets are chosen.
	Test bool `json:"test"`

	recipe *synth.Recipe // named by Recipe
}

// File is a file of scenarios.
type File struct {
	Scenarios []Scenario               `json:"scenarios"`
	Recipes   map[string]*synth.Recipe `json:"recipes"`
	Ablations []Ablation               `json:"ablations"`

	path string
}

// Ablation replaces settings of rounds, on some windows and schedulers or on all.
type Ablation struct {
	Name       string          `json:"name"`
	Settings   json.RawMessage `json:"settings"`
	Windows    []string        `json:"windows"`
	Schedulers []string        `json:"schedulers"`
}

// Read reads a file of scenarios.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file := File{path: path}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(file.Scenarios) == 0 {
		return nil, fmt.Errorf(`%s has no scenarios; want {"scenarios": [{"name": ..., "start": ..., "end": ..., `+
			`"nodes": ..., "gpus_per_node": ...}]}`, path)
	}
	for i := range file.Scenarios {
		s := &file.Scenarios[i]
		if s.recipe = file.Recipes[s.Recipe]; s.Recipe != "" && s.recipe == nil {
			return nil, fmt.Errorf("%s: %s: recipe: there is no %q", path, s.Name, s.Recipe)
		}
		if s.NodeEvents != "" {
			s.NodeEvents = filepath.Join(filepath.Dir(path), s.NodeEvents)
		}
	}
	return &file, nil
}

// Find returns the scenario of a name.
func (f *File) Find(name string) (*Scenario, error) {
	var names []string
	for i := range f.Scenarios {
		s := &f.Scenarios[i]
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return nil, fmt.Errorf("%s has no %q; there are %s", f.path, name, strings.Join(names, ", "))
}

// Recipe returns the recipe of a name.
func (f *File) Recipe(name string) (*synth.Recipe, error) {
	if r := f.Recipes[name]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("%s has no %q; there are %s", f.path, name,
		strings.Join(slices.Sorted(maps.Keys(f.Recipes)), ", "))
}

// Drawn reports whether the scenario's trace is drawn from a recipe.
func (s *Scenario) Drawn() bool { return s.recipe != nil }

// Generate draws the trace of the scenario's recipe. It must have one.
func (s *Scenario) Generate(ctx context.Context) (*workload.Workload, error) {
	return s.recipe.Generate(ctx, s.Recipe, recipeZero, workload.Uniform(s.Nodes, s.GPUsPerNode))
}

// recipeZero is the zero of traces that recipes draw, a Monday.
var recipeZero = time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC)

// Check refuses a scenario without its window or its cluster. path names the file in the error.
func (s *Scenario) Check(path string) error {
	if s.Start == "" || s.End == "" || s.Nodes <= 0 || s.GPUsPerNode <= 0 {
		return fmt.Errorf("%s: %s lacks one of start, end, nodes and gpus_per_node", path, s.Name)
	}
	return nil
}

// Select leaves out the jobs that run longer than the scenario's bound and, if it is cold,
// the history before its window.
func (s *Scenario) Select(w *workload.Workload) (*workload.Workload, error) {
	from := time.Duration(math.MinInt64)
	if s.Cold {
		var err error
		if from, err = trace.ParseInstant(w, s.Start); err != nil {
			return nil, err
		}
	}
	var jobs []workload.Job
	for _, j := range w.Jobs() {
		if j.Submit >= from && (s.MaxDurationS <= 0 || j.Duration.Seconds() <= s.MaxDurationS) {
			jobs = append(jobs, j)
		}
	}
	if len(jobs) == w.Len() {
		return w, nil
	}
	out, err := workload.New(w.Name(), w.Zero(), jobs)
	if err == nil && w.Synthetic() {
		out = out.AsSynthetic()
	}
	return out, err
}

// Differs returns a note if a trace does not seem to be that of the scenario, else "".
func (s *Scenario) Differs(trace string) string {
	if s.recipe != nil && trace == s.Recipe || strings.Contains(strings.ToLower(trace), strings.ToLower(s.Trace)) {
		return ""
	}
	return fmt.Sprintf("scenario %s is of the trace %s, and --trace is %s: its window and cluster may not suit it",
		s.Name, s.Trace, trace)
}
