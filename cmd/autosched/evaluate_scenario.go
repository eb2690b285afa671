package main

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

// scenario is an entry of a scenario file: a window of a trace and a cluster to
// replay it on.
type scenario struct {
	Name        string `json:"name"`
	Trace       string `json:"trace"`  // part of the path of its trace
	Recipe      string `json:"recipe"` // of the file's recipes, instead of a trace
	Start       string `json:"start"`
	End         string `json:"end"`
	Nodes       int    `json:"nodes"`
	GPUsPerNode int    `json:"gpus_per_node"`
	// NodeEvents is a file of what happens to nodes, as of --node-events, beside the
	// file of scenarios.
	NodeEvents string `json:"node_events"`
	// MaxDurationS leaves out jobs that run longer, such as services; 0 keeps all.
	MaxDurationS float64 `json:"max_duration_s"`
	// Cold leaves out the history before the window.
	Cold bool `json:"cold"`
	// Rank, Seeds and Schedulers are as in lab.Window.
	Rank       int      `json:"rank"`
	Seeds      int      `json:"seeds"`
	Schedulers []string `json:"schedulers"`
	// Test is as in lab.PortfolioWindow.
	Test bool `json:"test"`

	recipe *synth.Recipe // that Recipe names
}

// scenarioFile is a file of scenarios.
type scenarioFile struct {
	Scenarios []scenario               `json:"scenarios"`
	Recipes   map[string]*synth.Recipe `json:"recipes"`
	// Ablations are as in lab.Ablation, with settings that replace the defaults.
	Ablations []struct {
		Name       string          `json:"name"`
		Settings   json.RawMessage `json:"settings"`
		Windows    []string        `json:"windows"`
		Schedulers []string        `json:"schedulers"`
	} `json:"ablations"`
}

// readScenarios reads a scenario file.
func readScenarios(path string) (*scenarioFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file scenarioFile
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

// generate draws the trace of the scenario's recipe, from zeroOfRecipes on.
func (s *scenario) generate(ctx context.Context) (*workload.Workload, error) {
	return s.recipe.Generate(ctx, s.Recipe, zeroOfRecipes, workload.Uniform(s.Nodes, s.GPUsPerNode))
}

// zeroOfRecipes is the begin of what recipes draw, a Monday.
var zeroOfRecipes = time.Date(2017, 10, 9, 0, 0, 0, 0, time.UTC)

// check refuses a scenario that lacks its window or its cluster.
func (s *scenario) check(path string) error {
	if s.Start == "" || s.End == "" || s.Nodes <= 0 || s.GPUsPerNode <= 0 {
		return fmt.Errorf("%s: %s lacks one of start, end, nodes and gpus_per_node", path, s.Name)
	}
	return nil
}

// without leaves out the jobs that the scenario does: those that run longer than its
// bound, and the history before its window.
func (s *scenario) without(w *workload.Workload) (*workload.Workload, error) {
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

// splitFileName splits FILE:NAME, the value of a flag.
func splitFileName(flag, arg string) (path, name string, err error) {
	colon := strings.LastIndexByte(arg, ':')
	if colon <= 0 || colon == len(arg)-1 {
		return "", "", usageError{fmt.Errorf("--%s: %q is not FILE:NAME", flag, arg)}
	}
	return arg[:colon], arg[colon+1:], nil
}

// readRecipe finds the recipe that FILE:NAME names.
func readRecipe(arg string) (*synth.Recipe, string, error) {
	path, name, err := splitFileName("recipe", arg)
	if err != nil {
		return nil, "", err
	}
	file, err := readScenarios(path)
	if err != nil {
		return nil, "", fmt.Errorf("--recipe: %w", err)
	}
	if r := file.Recipes[name]; r != nil {
		return r, name, nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(file.Recipes)), ", ")
	return nil, "", usageError{fmt.Errorf("--recipe: %s has no %q; there are %s", path, name, names)}
}

// readScenario finds what FILE:NAME names.
func readScenario(arg string) (*scenario, error) {
	path, name, err := splitFileName("scenario", arg)
	if err != nil {
		return nil, err
	}
	file, err := readScenarios(path)
	if err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	var names []string
	for i := range file.Scenarios {
		s := &file.Scenarios[i]
		if s.Name != name {
			names = append(names, s.Name)
			continue
		}
		if err := s.check(path); err != nil {
			return nil, fmt.Errorf("--scenario: %w", err)
		}
		return s, nil
	}
	return nil, usageError{fmt.Errorf("--scenario: %s has no %q; there are %s", path, name, strings.Join(names, ", "))}
}

// differs says that the trace does not seem to be that of the scenario; it is
// empty if it does.
func (s *scenario) differs(trace string) string {
	if s.recipe != nil && trace == s.Recipe || strings.Contains(strings.ToLower(trace), strings.ToLower(s.Trace)) {
		return ""
	}
	return fmt.Sprintf("scenario %s is of the trace %s, and --trace is %s: its window and cluster may not suit it",
		s.Name, s.Trace, trace)
}

// set takes the window and the cluster from the scenario, unless a flag is given.
func (s *scenario) set(given func(flag string) bool, f *replayFlags) {
	if s.recipe != nil && !given("trace") {
		f.trace, f.generate = s.Recipe, s.generate
	}
	if !given("from") {
		f.from = s.Start
	}
	if !given("to") {
		f.to = s.End
	}
	if !given("nodes") {
		f.cluster.Groups[0].Nodes = s.Nodes
	}
	if !given("gpus-per-node") {
		f.cluster.Groups[0].GPUsPerNode = s.GPUsPerNode
	}
	if !given("node-events") {
		f.nodes = s.NodeEvents
	}
}
