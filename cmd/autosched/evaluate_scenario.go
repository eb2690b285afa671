package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/autosched/autosched/workload"
)

// scenario is an entry of a scenario file: a window of a trace and a cluster to
// replay it on.
type scenario struct {
	Name        string `json:"name"`
	Trace       string `json:"trace"` // part of the path of its trace
	Start       string `json:"start"`
	End         string `json:"end"`
	Nodes       int    `json:"nodes"`
	GPUsPerNode int    `json:"gpus_per_node"`
	// MaxDurationS leaves out jobs that run longer, such as services; 0 keeps all.
	MaxDurationS float64 `json:"max_duration_s"`
	// Rank, Seeds and Schedulers are as in lab.Window.
	Rank       int      `json:"rank"`
	Seeds      int      `json:"seeds"`
	Schedulers []string `json:"schedulers"`
}

// readScenarios reads a scenario file.
func readScenarios(path string) ([]scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Scenarios []scenario `json:"scenarios"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(file.Scenarios) == 0 {
		return nil, fmt.Errorf(`%s has no scenarios; want {"scenarios": [{"name": ..., "start": ..., "end": ..., `+
			`"nodes": ..., "gpus_per_node": ...}]}`, path)
	}
	return file.Scenarios, nil
}

// check refuses a scenario that lacks its window or its cluster.
func (s *scenario) check(path string) error {
	if s.Start == "" || s.End == "" || s.Nodes <= 0 || s.GPUsPerNode <= 0 {
		return fmt.Errorf("%s: %s lacks one of start, end, nodes and gpus_per_node", path, s.Name)
	}
	return nil
}

// without leaves out the jobs that run longer than the scenario's bound.
func (s *scenario) without(w *workload.Workload) (*workload.Workload, error) {
	if s.MaxDurationS <= 0 {
		return w, nil
	}
	var jobs []workload.Job
	for _, j := range w.Jobs() {
		if j.Duration.Seconds() <= s.MaxDurationS {
			jobs = append(jobs, j)
		}
	}
	return workload.New(w.Name(), w.Zero(), jobs)
}

// readScenario finds what FILE:NAME names.
func readScenario(arg string) (*scenario, error) {
	colon := strings.LastIndexByte(arg, ':')
	if colon <= 0 || colon == len(arg)-1 {
		return nil, usageError{fmt.Errorf("--scenario: %q is not FILE:NAME", arg)}
	}
	path, name := arg[:colon], arg[colon+1:]
	scenarios, err := readScenarios(path)
	if err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	var names []string
	for i := range scenarios {
		s := &scenarios[i]
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
	if strings.Contains(strings.ToLower(trace), strings.ToLower(s.Trace)) {
		return ""
	}
	return fmt.Sprintf("scenario %s is of the trace %s, and --trace is %s: its window and cluster may not suit it",
		s.Name, s.Trace, trace)
}

// set takes the window and the cluster from the scenario, unless a flag is given.
func (s *scenario) set(given func(flag string) bool, f *replayFlags) {
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
}
