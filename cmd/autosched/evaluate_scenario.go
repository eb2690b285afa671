package main

import (
	"fmt"
	"strings"

	"github.com/autosched/autosched/replay/scenario"
	"github.com/autosched/autosched/workload/synth"
)

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
	file, err := scenario.Read(path)
	if err != nil {
		return nil, "", fmt.Errorf("--recipe: %w", err)
	}
	r, err := file.Recipe(name)
	if err != nil {
		return nil, "", usageError{fmt.Errorf("--recipe: %w", err)}
	}
	return r, name, nil
}

// readScenario finds the scenario that FILE:NAME names.
func readScenario(arg string) (*scenario.Scenario, error) {
	path, name, err := splitFileName("scenario", arg)
	if err != nil {
		return nil, err
	}
	file, err := scenario.Read(path)
	if err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	s, err := file.Find(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("--scenario: %w", err)}
	}
	if err := s.Check(path); err != nil {
		return nil, fmt.Errorf("--scenario: %w", err)
	}
	return s, nil
}

// setScenario takes the window and the cluster from the scenario, unless a flag is given.
func (f *replayFlags) setScenario(s *scenario.Scenario, given func(flag string) bool) {
	if s.Drawn() && !given("trace") {
		f.trace, f.generate = s.Recipe, s.Generate
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
