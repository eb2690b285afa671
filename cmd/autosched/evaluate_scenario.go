package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
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
}

// readScenario finds what FILE:NAME names.
func readScenario(arg string) (*scenario, error) {
	colon := strings.LastIndexByte(arg, ':')
	if colon <= 0 || colon == len(arg)-1 {
		return nil, usageError{fmt.Errorf("--scenario: %q is not FILE:NAME", arg)}
	}
	path, name := arg[:colon], arg[colon+1:]
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	var file struct {
		Scenarios []scenario `json:"scenarios"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("--scenario: %s: %w", path, err)
	}
	if len(file.Scenarios) == 0 {
		return nil,
			fmt.Errorf(
				`--scenario: %s has no scenarios; want {"scenarios": [{"name": ..., "start": ..., "end": ..., "nodes": ..., "gpus_per_node": ...}]}`, path)
	}
	var names []string
	for i := range file.Scenarios {
		s := &file.Scenarios[i]
		if s.Name != name {
			names = append(names, s.Name)
			continue
		}
		if s.Start == "" || s.End == "" || s.Nodes <= 0 || s.GPUsPerNode <= 0 {
			return nil, fmt.Errorf("--scenario: %s: %s lacks one of start, end, nodes and gpus_per_node", path, name)
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
