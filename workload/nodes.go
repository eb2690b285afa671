package workload

import (
	"maps"
	"slices"
	"strconv"
)

// nodeRange is the numbers of a group's nodes; numbers below free are taken.
type nodeRange struct{ free, end int }

// number gives the nodes on which a state's jobs run their numbers, below the
// cluster's number of nodes, and lists nodes that are down or draining. Nodes of the
// cluster that are reported come first; nodes that only placements name get the
// rest. A name that is a free number is that number; the others follow in order of name.
// at is where the jobs run. Reservations of named nodes have their numbers of the state.
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
	named := func(name string) bool { // by an event or a placement
		_, is := slices.BinarySearch(placed, name)
		return is || known[name] != nil
	}
	reserved := map[string]int{} // numbers of the registered cluster, of nodes that no event names
	for i := range s.Cluster.Site.Reservations {
		for _, n := range s.Cluster.Site.Reservations[i].Nodes {
			if name := reservedName(n, named); name != "" && known[name] == nil {
				reserved[name] = n.Number
			}
		}
	}
	if shares == 0 && closed == 0 && len(s.Cluster.Site.Reservations) == 0 {
		return
	}
	slices.Sort(listed)
	all := slices.Clone(s.Cluster.Site.Reservations)
	for i := range all {
		all[i].Nodes = slices.Clone(all[i].Nodes)
		for j := range all[i].Nodes {
			all[i].Nodes[j].Name = reservedName(all[i].Nodes[j], named)
		}
	}
	placed = slices.DeleteFunc(placed, func(name string) bool { return known[name] != nil })

	// A node takes a number of its group, any number if its group is unknown.
	ranges := make([]nodeRange, 0, len(s.Cluster.Groups)+1)
	total := 0
	for i := range s.Cluster.Groups {
		n := s.Cluster.Groups[i].Nodes
		ranges = append(ranges, nodeRange{total, total + n})
		total += n
	}
	ranges = append(ranges, nodeRange{0, total})
	rangeOf := func(name string) *nodeRange {
		if n, ok := reserved[name]; ok && l.cluster.GroupOf(n) >= 0 {
			return &ranges[l.cluster.GroupOf(n)]
		}
		if g := l.groupOf(name, known[name]); g >= 0 {
			return &ranges[g]
		}
		return &ranges[len(ranges)-1]
	}
	number := make(map[string]int, len(listed)+len(placed))
	taken := make([]bool, total)
	assign := func(names []string) {
		for _, name := range names {
			n, err := strconv.Atoi(name)
			if r := rangeOf(name); err == nil && n >= r.free && n < r.end && strconv.Itoa(n) == name && !taken[n] {
				number[name], taken[n] = n, true
			}
		}
		for _, name := range names {
			if _, ok := number[name]; ok {
				continue
			}
			r := rangeOf(name)
			for r.free < r.end && taken[r.free] {
				r.free++
			}
			if r.free < r.end {
				number[name], taken[r.free] = r.free, true
			}
		}
	}
	assign(listed)
	assign(placed)
	var rest []string
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		if _, ok := number[name]; ok {
			continue
		}
		if n := reserved[name]; n < total && !taken[n] {
			number[name], taken[n] = n, true
		} else {
			rest = append(rest, name)
		}
	}
	assign(rest)
	for _, name := range listed {
		n, ok := number[name]
		switch {
		case !ok:
		case known[name].kind == NodeDown:
			s.Down = append(s.Down, n)
			delete(number, name) // no job runs there
		case known[name].kind == NodeDrained:
			s.Draining = append(s.Draining, n)
		}
	}
	slices.Sort(s.Down)
	slices.Sort(s.Draining)
	for i := range all {
		all[i].Nodes = slices.DeleteFunc(all[i].Nodes, func(n ReservedNode) bool {
			_, ok := number[n.Name]
			return n.Name != "" && !ok
		})
		for j, n := range all[i].Nodes {
			if n.Name != "" {
				all[i].Nodes[j].Number = number[n.Name]
			}
		}
	}
	s.Cluster.Site.Reservations = all
	shared := make([]NodeGPUs, 0, shares)
	for i := range at {
		if len(at[i]) == 0 {
			continue
		}
		from := len(shared)
		for _, n := range at[i] {
			k, ok := number[n.Node]
			if !ok {
				k = -1
			}
			shared = append(shared, NodeGPUs{Node: k, GPUs: n.GPUs})
		}
		s.Jobs[i].Placement = shared[from:len(shared):len(shared)]
	}
}

// reservedName is the name by which events and placements know a reserved node: its own, or its number where only that
// is named. It is empty for a node without a name.
func reservedName(n ReservedNode, named func(string) bool) string {
	if number := strconv.Itoa(n.Number); n.Name != "" && !named(n.Name) && named(number) {
		return number
	}
	return n.Name
}
