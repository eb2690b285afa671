package simulator

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/workload"
)

// beginNodes checks the node events and closes the nodes that are down or draining when
// the run begins.
func (s *Sim) beginNodes() error {
	nodes := s.cluster.Nodes()
	for i, e := range s.opts.Nodes {
		switch {
		case s.place.mode == Count:
			return fmt.Errorf("simulate: node events: placement by counts knows no nodes: use another placement")
		case !e.Kind.OfNode():
			return fmt.Errorf("simulate: node events: %v is not an event of a node", e.Kind)
		case e.Node < 0 || e.Node >= nodes:
			return fmt.Errorf("simulate: node events: node %d is not one of the cluster's %d, which count from 0",
				e.Node, nodes)
		case i > 0 && e.At < s.opts.Nodes[i-1].At:
			return fmt.Errorf("simulate: node events: that of node %d at %v comes after one at %v",
				e.Node, e.At, s.opts.Nodes[i-1].At)
		}
	}
	s.changed = 0
	for s.changed < len(s.opts.Nodes) && s.opts.Nodes[s.changed].At <= s.now {
		if s.state == nil {
			s.changeNode(&s.opts.Nodes[s.changed])
		}
		s.changed++
	}
	if s.state != nil {
		s.closeAll(s.state.Draining, draining)
		s.closeAll(s.state.Down, down)
	}
	s.nodesChanged()
	return nil
}

// closeAll closes nodes of a state. Where GPUs are only counted, nodes that drain are
// up, as the jobs on them are not known.
func (s *Sim) closeAll(nodes []int, as status) {
	for _, n := range nodes {
		g := s.cluster.GroupOf(n)
		switch {
		case g < 0:
		case s.place.mode != Count:
			s.place.close(n, as)
		case as == down:
			gpus := s.place.groups[g].perNode
			s.place.count(gpus)
			s.place.usable -= gpus
			s.place.groups[g].open--
			s.place.closed++
		}
	}
}

// changeNodes applies the node events of the present instant. To the policy it is as if
// the run resumed on the changed cluster.
func (s *Sim) changeNodes() {
	s.reach.forget()
	for s.changes == s.now {
		s.changeNode(&s.opts.Nodes[s.changed])
		s.changed++
		s.nextChange()
	}
	s.nodesChanged()
	s.readmit(s.policy)
}

// nextChange sets the instant of the next node event.
func (s *Sim) nextChange() {
	s.changes = never
	if s.changed < len(s.opts.Nodes) {
		s.changes = s.opts.Nodes[s.changed].At
	}
}

// changeNode applies a node event. One without news changes nothing.
func (s *Sim) changeNode(e *workload.NodeEvent) {
	switch e.Kind {
	case workload.NodeUp:
		s.place.open(e.Node)
	case workload.NodeDrained:
		if s.place.status[e.Node] != down {
			s.place.close(e.Node, draining)
		}
	case workload.NodeDown:
		s.place.close(e.Node, down)
		for i := range s.jobs {
			if s.jobs[i].phase == running && s.runsOn(&s.jobs[i], func(n int) bool { return n == e.Node }) {
				s.vacate(ID(i))
				s.evict(ID(i))
			}
		}
	}
	if s.sleeps() {
		s.sleepChanged(e.Node)
	}
	if s.opts.Observer != nil {
		s.opts.Observer(Event{Kind: e.Kind, Time: s.now, Job: -1, Node: e.Node})
	}
}

// nodesChanged updates everything derived from the set of closed nodes.
func (s *Sim) nodesChanged() {
	s.nextChange()
	if s.changed == 0 && s.place.closed == 0 {
		return
	}
	if len(s.place.could) > 0 {
		s.place.offerNone()
	}
	s.cluster.Groups = slices.Clone(s.cluster.Groups) // forks share it
	for i := range s.cluster.Groups {
		s.cluster.Groups[i].Nodes = s.place.groups[i].open
	}
}

// drains reports whether a running job has GPUs on a node that drains.
func (v *View) drains(j *job) bool {
	return v.place.mode != Count && v.runsOn(j, func(n int) bool { return v.place.status[n] != up })
}

// runsOn reports whether one of a running job's nodes is of a kind.
func (v *View) runsOn(j *job, is func(node int) bool) bool {
	if j.multi < 0 {
		return is(int(j.node))
	}
	return slices.ContainsFunc(v.multi[j.multi], func(n workload.NodeGPUs) bool { return is(n.Node) })
}

// NodeGPUs is the number of GPUs of a node, free or not.
func (v *View) NodeGPUs(node int) int { return v.place.gpus(node) }

// closedNodes is for errors: how many nodes take no jobs, if there are any.
func (s *Sim) closedNodes() string {
	if s.place.closed == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of %d nodes are down or draining", s.place.closed, s.place.closed+s.cluster.Nodes())
}
