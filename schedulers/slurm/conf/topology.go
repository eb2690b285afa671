package conf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// TopologyCommand prints the switches, where slurm.conf has a TopologyPlugin.
var TopologyCommand = Command{"topology.txt", []string{"scontrol", "show", "topology"}}

// topology reads the switches.
func (s *Site) topology(shown []byte, number map[string]int) error {
	plugin, param := s.Config.Get("TopologyPlugin"), strings.ToLower(s.Config.Get("TopologyParam"))
	switch {
	case plugin == "" || slices.Contains([]string{"topology/none", "topology/default", "topology/flat"}, plugin):
		return nil
	case plugin != "topology/tree" || strings.Contains(param, "dragonfly"):
		s.note("TopologyPlugin=%s TopologyParam=%s is not simulated", plugin, cmp.Or(param, "(null)"))
		return nil
	case strings.Contains(param, "topooptional"):
		s.note("TopologyParam=TopoOptional: switches that jobs ask for are not simulated")
		return nil
	case len(strings.TrimSpace(string(shown))) == 0:
		s.note("TopologyPlugin=topology/tree is not simulated, as %s is missing: write the output of %s into it",
			TopologyCommand.File, strings.Join(TopologyCommand.Args, " "))
		return nil
	}
	hosts := slurmtext.NewHosts(number)
	parents, levels := map[string]string{}, map[string]string{}
	var switches []workload.Switch
	for _, r := range slurmtext.Records(string(shown), "switchname") {
		name := r["switchname"]
		children, err := slurmtext.HostList(r["switches"])
		names, failed := slurmtext.HostList(r["nodes"])
		if err := cmp.Or(err, failed); err != nil {
			return fmt.Errorf("%s: switch %s: %w", TopologyCommand.File, name, err)
		}
		of := workload.Switch{Name: name}
		levels[name] = r["level"]
		for _, child := range children {
			parents[child] = name
		}
		if len(children) == 0 {
			of.Nodes = numbered(hosts, names)
		}
		switches = append(switches, of)
	}
	for i := range switches {
		switches[i].Parent = parents[switches[i].Name]
	}
	slices.SortStableFunc(switches, func(a, b workload.Switch) int {
		x, y := levels[a.Name], levels[b.Name]
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
	s.Cluster.Site.Switches = switches
	return nil
}
