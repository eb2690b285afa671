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
	reserved := map[string]int{} // groups of nodes that neither events nor placements name
	for i := range s.Cluster.Site.Reservations {
		for _, n := range s.Cluster.Site.Reservations[i].Nodes {
			if n.Name != "" && known[n.Name] == nil {
				reserved[n.Name] = l.cluster.GroupOf(n.Number)
			}
		}
	}
	if shares == 0 && closed == 0 && len(s.Cluster.Site.Reservations) == 0 {
		return
	}
	slices.Sort(listed)
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
		if g, ok := reserved[name]; ok && g >= 0 {
			return &ranges[g]
		}
		if g := l.groupOf(name, known[name]); g >= 0 {
			return &ranges[g]
		}
		return &ranges[len(ranges)-1]
	}
	number := make(map[string]int, len(listed)+len(placed))
	taken := make([]bool, total)
	for _, names := range [][]string{listed, placed, slices.Sorted(maps.Keys(reserved))} {
		for _, name := range names {
			n, err := strconv.Atoi(name)
			if r := rangeOf(name); err == nil && n >= r.free && n < r.end && strconv.Itoa(n) == name && !taken[n] {
				number[name], taken[n] = n, true
			}
		}
		for _, name := range names {
			if _, ok := number[name]; ok {
				continue // a reserved one may be placed, too
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
	s.Cluster.Site.Reservations = renumbered(s.Cluster.Site.Reservations, number)
	all := make([]NodeGPUs, 0, shares)
	for i := range at {
		if len(at[i]) == 0 {
			continue
		}
		from := len(all)
		for _, n := range at[i] {
			k, ok := number[n.Node]
			if !ok {
				k = -1
			}
			all = append(all, NodeGPUs{Node: k, GPUs: n.GPUs})
		}
		s.Jobs[i].Placement = all[from:len(all):len(all)]
	}
}

// renumbered returns reservations with the numbers of their named nodes, without those that have none.
func renumbered(all []Reservation, number map[string]int) []Reservation {
	all = slices.Clone(all)
	for i := range all {
		nodes := all[i].Nodes
		all[i].Nodes = make([]ReservedNode, 0, len(nodes))
		for _, n := range nodes {
			if at, ok := number[n.Name]; ok || n.Name == "" {
				if ok {
					n.Number = at
				}
				all[i].Nodes = append(all[i].Nodes, n)
			}
		}
	}
	return all
}
