package workload

import (
	"slices"
	"sort"
	"strconv"
)

// name turns the names of a placement's nodes into their places in l.names.
func (l *Ledger) name(p []NodeShare) []NodeGPUs {
	if len(p) == 0 {
		return nil
	}
	out := make([]NodeGPUs, len(p))
	for i, n := range p {
		k, ok := l.named[n.Node]
		if !ok {
			k = len(l.names)
			l.names, l.named[n.Node] = append(l.names, n.Node), k
		}
		out[i] = NodeGPUs{Node: k, GPUs: n.GPUs}
	}
	return out
}

// number gives the nodes on which a state's jobs run their numbers, below the
// cluster's number of nodes. Nodes told to be up come first; those that only
// placements name get what is left, unless they are told to be down. A name that
// is a free number is that number; the others follow in order of name.
func (l *Ledger) number(s *State) {
	var placed []string
	shares := 0
	for i := range s.Jobs {
		for _, n := range s.Jobs[i].Placement {
			placed = append(placed, l.names[n.Node])
			shares++
		}
	}
	if shares == 0 {
		return
	}
	slices.Sort(placed)
	placed = slices.Compact(placed)
	var up []string
	told := map[string]bool{}
	for name, events := range l.nodes {
		if i := sort.Search(len(events), func(i int) bool { return events[i].time > s.At }); i > 0 {
			told[name] = true
			if events[i-1].up {
				up = append(up, name)
			}
		}
	}
	slices.Sort(up)
	placed = slices.DeleteFunc(placed, func(name string) bool { return told[name] })

	number := make(map[string]int, len(up)+len(placed))
	taken := make([]bool, s.Cluster.Nodes)
	free := 0 // none below it
	for _, names := range [][]string{up, placed} {
		for _, name := range names {
			if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < len(taken) && strconv.Itoa(n) == name && !taken[n] {
				number[name], taken[n] = n, true
			}
		}
		for _, name := range names {
			if _, ok := number[name]; ok {
				continue
			}
			for free < len(taken) && taken[free] {
				free++
			}
			if free == len(taken) {
				break
			}
			number[name], taken[free] = free, true
		}
	}
	all := make([]NodeGPUs, 0, shares)
	for i := range s.Jobs {
		a := &s.Jobs[i]
		if len(a.Placement) == 0 {
			continue
		}
		from := len(all)
		for _, n := range a.Placement {
			k, ok := number[l.names[n.Node]]
			if !ok {
				k = -1
			}
			all = append(all, NodeGPUs{Node: k, GPUs: n.GPUs})
		}
		a.Placement = all[from:len(all):len(all)]
	}
}
