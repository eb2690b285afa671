package feed

import (
	"fmt"
	"maps"
	"slices"

	"github.com/autosched/autosched/internal/slurmtext"
	"github.com/autosched/autosched/workload"
)

// NodeNames returns the names of the nodes that events name and jobs ran on, in order.
func NodeNames(w *workload.Workload, events []workload.Event) []string {
	seen := map[string]bool{}
	var note func(list []workload.Event)
	note = func(list []workload.Event) {
		for i := range list {
			if e := &list[i]; e.Node != "" {
				seen[e.Node] = true
			}
			for _, n := range list[i].Placement {
				seen[n.Node] = true
			}
			note(list[i].Active)
		}
	}
	note(events)
	lists := map[string]bool{}
	for i := range w.Jobs() {
		text := w.Jobs()[i].Nodes
		if text == "" || lists[text] {
			continue
		}
		lists[text] = true
		names, err := slurmtext.HostList(text)
		if err != nil {
			continue
		}
		for _, n := range names {
			seen[n] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Places reports whether names can be the names of a cluster's nodes, by number; if not, it says why. Then it removes
// the placements of events, as it is not known where jobs ran.
func Places(c workload.Cluster, names []string, events []workload.Event) (why string) {
	for i := range c.Groups {
		if c.Groups[i].GPUsPerNode != c.Groups[0].GPUsPerNode {
			why = "the nodes of the cluster have different sizes"
		}
	}
	if n := c.Nodes(); n > 0 && len(names) > n {
		why = fmt.Sprintf("the trace names %d nodes, and the cluster has %d", len(names), n)
	}
	if len(names) == 0 || why == "" {
		return ""
	}
	for i := range events {
		events[i].Placement = nil
	}
	return why
}
