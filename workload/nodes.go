package workload

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// number gives the nodes on which a state's jobs run their numbers, below the
// cluster's number of nodes, and lists nodes that are down or draining. Nodes of the
// cluster that are reported come first; nodes that only placements name get the
// rest. at is where the jobs run. Reservations and switches have the numbers of their named nodes in the state.
func (l *Ledger) number(s *State, at [][]NodeShare) {
	var placed []string
	shares := 0
	for i := range at {
		for _, n := range at[i] {
			placed = append(placed, n.Node)
		}
		shares += len(at[i])
	}
	slices.Sort(placed)
	placed = slices.Compact(placed)
	var listed []string
	known, closed := map[string]*nodeEvent{}, 0
	for name := range l.nodes {
		if e := l.nodeAt(name, s.At); e != nil {
			known[name] = e
			if e.kind != NodeDown || l.numbered(name) {
				listed = append(listed, name)
			}
			if e.kind != NodeUp {
				closed++
			}
		}
	}
	if shares == 0 && closed == 0 && len(s.Cluster.Site.Reservations) == 0 &&
		len(s.Cluster.Site.Switches) == 0 {
		return
	}
	slices.Sort(listed)
	placed = slices.DeleteFunc(placed, func(name string) bool { return known[name] != nil })
	numbers := newNumbering(&s.Cluster)
	for _, names := range [][]string{listed, placed} {
		numbers.add(names, func(name string) int { return l.groupOf(name, known[name]) })
	}
	for _, name := range listed {
		n, ok := numbers.of[name]
		switch {
		case !ok:
		case known[name].kind == NodeDown:
			s.Down = append(s.Down, n)
			delete(numbers.of, name) // no job runs there
		case known[name].kind == NodeDrained:
			s.Draining = append(s.Draining, n)
		}
	}
	slices.Sort(s.Down)
	slices.Sort(s.Draining)
	numbers.renumber(&s.Cluster.Site, l.cluster, func(name string) bool { return known[name] != nil })
	all := make([]NodeGPUs, 0, shares)
	for i := range at {
		if len(at[i]) == 0 {
			continue
		}
		from := len(all)
		for _, n := range at[i] {
			k, ok := numbers.of[n.Node]
			if !ok {
				k = -1
			}
			all = append(all, NodeGPUs{Node: k, GPUs: n.GPUs})
		}
		s.Jobs[i].Placement = all[from:len(all):len(all)]
	}
}

// numbering gives names of nodes numbers below a cluster's number of nodes.
type numbering struct {
	ranges []nodeRange // of the groups, and of all of them
	of     map[string]int
	taken  []bool
}

// nodeRange is the numbers of a group's nodes; numbers below free are taken.
type nodeRange struct{ free, end int }

func newNumbering(c *Cluster) *numbering {
	n := &numbering{of: map[string]int{}, taken: make([]bool, c.Nodes())}
	total := 0
	for i := range c.Groups {
		n.ranges = append(n.ranges, nodeRange{total, total + c.Groups[i].Nodes})
		total += c.Groups[i].Nodes
	}
	n.ranges = append(n.ranges, nodeRange{0, total})
	return n
}

// add gives names free numbers of their groups, any if the group is -1, as long as there are some: a name that is a
// number that one, then the others in order.
func (n *numbering) add(names []string, groupOf func(name string) int) {
	rangeOf := func(name string) *nodeRange {
		if g := groupOf(name); g >= 0 {
			return &n.ranges[g]
		}
		return &n.ranges[len(n.ranges)-1]
	}
	for _, name := range names {
		k, err := strconv.Atoi(name)
		if r := rangeOf(name); err == nil && k >= r.free && k < r.end && strconv.Itoa(k) == name && !n.taken[k] {
			n.of[name], n.taken[k] = k, true
		}
	}
	for _, name := range names {
		if _, ok := n.of[name]; ok {
			continue
		}
		r := rangeOf(name)
		for r.free < r.end && n.taken[r.free] {
			r.free++
		}
		if r.free < r.end {
			n.of[name], n.taken[r.free] = r.free, true
		}
	}
}

// renumber sets a site's reservations and switches to the ones of a registered cluster with the numbers of their named
// nodes.
func (n *numbering) renumber(s *Site, c Cluster, named func(name string) bool) {
	s.Reservations, s.Switches = slices.Clone(c.Site.Reservations), slices.Clone(c.Site.Switches)
	for i := range s.Reservations {
		s.Reservations[i].Nodes = n.nodes(s.Reservations[i].Nodes, c, named)
	}
	for i := range s.Switches {
		s.Switches[i].Nodes = n.nodes(s.Switches[i].Nodes, c, named)
	}
}

// nodes returns nodes with their numbers, without those that have none: one that an event names is down. A node that
// nothing names has its registered number if that is free, else another one of its group.
func (n *numbering) nodes(nodes []ReservedNode, c Cluster, named func(name string) bool) []ReservedNode {
	out := make([]ReservedNode, 0, len(nodes))
	for _, x := range nodes {
		if x.Name != "" {
			number := strconv.Itoa(x.Number)
			_, of := n.of[x.Name]
			if _, is := n.of[number]; !of && !named(x.Name) && (is || named(number)) {
				x.Name = number // as nodes of a simulated cluster are named
			}
			if _, of = n.of[x.Name]; !of && !named(x.Name) {
				if x.Number < len(n.taken) && !n.taken[x.Number] {
					n.of[x.Name], n.taken[x.Number] = x.Number, true
				} else {
					n.add([]string{x.Name}, func(string) int { return c.GroupOf(x.Number) })
				}
			}
			at, ok := n.of[x.Name]
			if !ok {
				continue
			}
			x.Number = at
		}
		out = append(out, x)
	}
	return out
}

// NodesOn returns a cluster of the nodes that are on at some time from one instant to another, draining ones included,
// and the events that say when each is.
func (l *Ledger) NodesOn(from, to time.Duration) (Cluster, []NodeEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	instants := []time.Duration{from}
	in := func(at time.Duration) {
		if at > from && at < to {
			instants = append(instants, at)
		}
	}
	for _, all := range l.nodes {
		for _, e := range all.all(nodeEvent.compare) {
			in(e.time)
		}
	}
	for _, at := range l.listings.all(cmp.Compare) {
		in(at)
	}
	slices.Sort(instants)
	instants = slices.Compact(instants)
	var on [][]int // by instant and group
	var whole Cluster
	for k, at := range instants {
		c := l.clusterAt(at)
		now := make([]int, len(c.Groups))
		for i := range c.Groups {
			now[i] = c.Groups[i].Nodes
		}
		for name := range l.nodes { // clusterAt keeps the numbers of these
			if e := l.nodeAt(name, at); e != nil && e.kind == NodeDown && l.numbered(name) {
				now[max(0, l.groupOf(name, e))]--
			}
		}
		if k == 0 {
			whole = c
			whole.Groups = slices.Clone(c.Groups)
		}
		for i := range now {
			whole.Groups[i].Nodes = max(whole.Groups[i].Nodes, now[i])
			whole.Groups[i].GPUsPerNode = max(whole.Groups[i].GPUsPerNode, c.Groups[i].GPUsPerNode)
		}
		on = append(on, now)
	}
	var events []NodeEvent
	first := 0
	for i := range whole.Groups {
		up := whole.Groups[i].Nodes
		for k, at := range instants {
			for ; up > on[k][i]; up-- {
				events = append(events, NodeEvent{At: at, Node: first + up - 1, Kind: NodeDown})
			}
			for ; up < on[k][i]; up++ {
				events = append(events, NodeEvent{At: at, Node: first + up, Kind: NodeUp})
			}
		}
		first += whole.Groups[i].Nodes
	}
	slices.SortStableFunc(events, func(a, b NodeEvent) int { return cmp.Compare(a.At, b.At) })
	return whole, events
}

// GroupOf is the group of a node by its name at an instant, -1 where it is not known.
func (l *Ledger) GroupOf(node string, at time.Duration) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var e *nodeEvent
	if l.nodes[node] != nil {
		e = l.nodeAt(node, at)
	}
	return l.groupOf(node, e)
}
