package cli

import "github.com/autosched/autosched/replay/scenario"

// SetScenario takes the window and the cluster from the scenario, unless a flag is given.
func (f *ReplayFlags) SetScenario(s *scenario.Scenario, given func(flag string) bool) {
	if s.Drawn() && !given("trace") {
		f.Trace, f.generate = s.Recipe, s.Generate
	}
	if !given("from") {
		f.from = s.Start
	}
	if !given("to") {
		f.to = s.End
	}
	if !given("nodes") {
		f.Cluster.Groups[0].Nodes = s.Nodes
	}
	if !given("gpus-per-node") {
		f.Cluster.Groups[0].GPUsPerNode = s.GPUsPerNode
	}
	if !given("node-events") {
		f.nodes = s.NodeEvents
	}
}
