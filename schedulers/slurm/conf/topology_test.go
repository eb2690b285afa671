package conf_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestTopology: switches are read with the numbers of their nodes, parents behind children; what is not simulated is
// noted.
func TestTopology(t *testing.T) {
	const tree = "SwitchName=top Level=1 LinkSpeed=1 Nodes=g[1-4] Switches=s[1-2]\n" +
		"SwitchName=s1 Level=0 LinkSpeed=1 Nodes=g[1,3]\nSwitchName=s2 Level=0 LinkSpeed=1 Nodes=g[2,99]\n"
	for _, tt := range []struct{ config, topology, want, note string }{
		{"topology/none", "", "[]", ""},
		{"topology/tree", tree, "[{s1 top [{0 g1} {2 g3}]} {s2 top [{1 g2}]} {top  []}]", ""},
		{"topology/tree", "", "[]", "topology.txt is missing"},
		{"topology/block", tree, "[]", "TopologyPlugin=topology/block TopologyParam=(null) is not simulated"},
		{"topology/tree\nTopologyParam = Dragonfly", tree, "[]", "TopologyParam=dragonfly is not simulated"},
		{"topology/tree\nTopologyParam = TopoOptional", tree, "[]", "TopoOptional"},
	} {
		s := shown(t)
		s.Config = append([]byte("TopologyPlugin = "+tt.config+"\n"),
			strings.ReplaceAll(strings.ReplaceAll(string(s.Config), "TopologyP", "#"), "TopologyParam", "#")...)
		s.Topology = []byte(tt.topology)
		site, err := s.Site()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(site.Cluster.Site.Switches); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.config, got, tt.want)
		}
		notes := strings.Join(site.Notes, "\n")
		if has := strings.Contains(strings.ToLower(notes), "topology"); has != (tt.note != "") ||
			!strings.Contains(notes, tt.note) {
			t.Errorf("%s: %s", tt.config, notes)
		}
	}
}

// TestMixedTypes: where nodes have GPUs of several types, which nodes a type is on is left open, and noted.
func TestMixedTypes(t *testing.T) {
	for gres, want := range map[string]string{"gpu:a100:8": "a100", "gpu:a100:4,gpu:v100:4": ""} {
		s := shown(t)
		s.Nodes = []byte(strings.Replace(string(s.Nodes), "Gres=gpu:8", "Gres="+gres, 1))
		site, err := s.Site()
		if err != nil {
			t.Fatal(err)
		}
		if got := site.Cluster.Groups[0].GPUModel; got != want ||
			strings.Contains(strings.Join(site.Notes, " "), "several types") != (want == "") {
			t.Errorf("%s: %q, %q", gres, got, site.Notes)
		}
	}
}
