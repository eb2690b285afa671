package model

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/causal"
)

// Follow returns the structure of a learned graph for a table with its columns.
// Columns that are not in the graph get no tier. A graph without a DAG is an error.
func Follow(t *causal.Table, d *causal.Document) (Structure, error) {
	if d.DAG == nil {
		return Structure{}, fmt.Errorf("causal/model: the graph has no directed form; learn it again from its data")
	}
	s := Structure{Tiers: make([]string, t.Len()), Parents: make([][]int, t.Len())}
	for _, n := range d.Nodes {
		i := t.Index(n.ID)
		if i < 0 {
			return Structure{}, fmt.Errorf("causal/model: the graph has %q, the table has not", n.ID)
		}
		s.Tiers[i] = n.Tier
	}
	hidden := map[[2]int]bool{}
	for _, e := range d.DAG.Edges {
		from, to := t.Index(e.Source), t.Index(e.Target)
		if from < 0 || to < 0 {
			return Structure{}, fmt.Errorf("causal/model: the table lacks %q or %q", e.Source, e.Target)
		}
		s.Parents[to] = append(s.Parents[to], from)
		hidden[[2]int{from, to}] = e.ConfoundingPossible
	}
	for _, e := range d.Edges {
		for _, way := range []struct {
			from, to   string
			tail, head causal.Mark
		}{{e.Source, e.Target, e.MarkSource, e.MarkTarget}, {e.Target, e.Source, e.MarkTarget, e.MarkSource}} {
			from, to := t.Index(way.from), t.Index(way.to)
			if way.tail != causal.Arrow && way.head != causal.Tail && !slices.Contains(s.Parents[to], from) {
				s.MayCause = append(s.MayCause, [2]int{from, to})
			}
		}
	}
	s.Confounded = func(cause, effect int) bool { return hidden[[2]int{cause, effect}] }
	return s, nil
}
