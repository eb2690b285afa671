package render

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/causal"
)

// Sizes in pixels.
const (
	charWidth  = 7.3 // average width of a character
	boxPadding = 12.0
	boxHeight  = 28.0
	boxGap     = 22.0
	rowGap     = 84.0
	bendWidth  = 8.0 // room for an edge that passes through a row
	marginX    = 96.0
	marginY    = 24.0
	maxPerRow  = 12
)

// place is the place of a node, or of a long edge where it passes through a row.
type place struct {
	node int // -1 for a passing edge
	row  int
	w    float64
	x    float64 // centre
}

// layout is a layered drawing with few crossings: tiers from top to bottom, and
// causes above effects within a tier.
type layout struct {
	places []place // nodes first, by index
	rows   [][]int // places from left to right
	routes [][]int // by edge: places from the upper node to the lower one
	width  float64
	height float64
	bands  []band
}

// band is the vertical range of a tier.
type band struct {
	tier   string
	top    float64
	bottom float64
}

// arrange lays out the nodes of a document for a set of edges, such as those of its
// graph and of its DAG together.
func arrange(d *causal.Document, edges [][2]int) *layout {
	l := &layout{}
	l.assignRows(d, edges)
	for _, e := range edges {
		a, b := e[0], e[1]
		if l.places[a].row > l.places[b].row {
			a, b = b, a
		}
		route := []int{a}
		for row := l.places[a].row + 1; row < l.places[b].row; row++ {
			l.places = append(l.places, place{node: -1, row: row, w: bendWidth})
			l.rows[row] = append(l.rows[row], len(l.places)-1)
			route = append(route, len(l.places)-1)
		}
		l.routes = append(l.routes, append(route, b))
	}
	near := l.neighbours()
	l.order(near)
	l.position(near)
	return l
}

// assignRows gives each tier a row per level of its longest chain of causes, and
// splits rows of more than maxPerRow nodes.
func (l *layout) assignRows(d *causal.Document, edges [][2]int) {
	for i := range d.Nodes {
		w := float64(len([]rune(printable(d.Nodes[i].ID))))*charWidth + 2*boxPadding
		l.places = append(l.places, place{node: i, w: max(w, 48)})
	}
	names, nodes := tiers(d)
	depth := chains(d, edges)
	for _, tier := range names {
		from := len(l.rows)
		byDepth := map[int][]int{}
		deepest := 0
		for _, i := range nodes[tier] {
			byDepth[depth[i]] = append(byDepth[depth[i]], i)
			deepest = max(deepest, depth[i])
		}
		for level := 0; level <= deepest; level++ {
			list := byDepth[level]
			parts := (len(list) + maxPerRow - 1) / maxPerRow
			for part := range parts {
				row := slices.Clone(list[part*len(list)/parts : (part+1)*len(list)/parts])
				for _, i := range row {
					l.places[i].row = len(l.rows)
				}
				l.rows = append(l.rows, row)
			}
		}
		y := func(row int) float64 { return marginY + float64(row)*rowGap }
		l.bands = append(l.bands, band{tier, y(from), y(len(l.rows)-1) + boxHeight})
	}
	l.height = marginY + float64(len(l.rows)-1)*rowGap + boxHeight + marginY
}

// chains returns the length, up to 8, of the longest chain of causes of the same
// tier above each node: along the DAG or, without one, along directed edges.
func chains(d *causal.Document, edges [][2]int) []int {
	depth := make([]int, len(d.Nodes))
	index := indexOf(d)
	var arcs [][2]int
	if d.DAG != nil {
		for _, e := range d.DAG.Edges {
			arcs = append(arcs, [2]int{index[e.Source], index[e.Target]})
		}
	} else {
		for _, e := range d.Edges {
			if e = downwards(e); e.MarkTarget == causal.Arrow && e.MarkSource != causal.Arrow {
				arcs = append(arcs, [2]int{index[e.Source], index[e.Target]})
			}
		}
	}
	// Longest paths by relaxation; the bound ends it for cyclic hand-made graphs.
	for range min(len(depth), 8) {
		for _, a := range arcs {
			if d.Nodes[a[0]].Tier == d.Nodes[a[1]].Tier {
				depth[a[1]] = min(max(depth[a[1]], depth[a[0]]+1), 8)
			}
		}
	}
	return depth
}

func (l *layout) neighbours() [][]int {
	near := make([][]int, len(l.places))
	for _, route := range l.routes {
		for k := range route[1:] {
			near[route[k]] = append(near[route[k]], route[k+1])
			near[route[k+1]] = append(near[route[k+1]], route[k])
		}
	}
	return near
}

// order sorts each row by its neighbours' mean position in the adjacent row, in
// alternating downward and upward sweeps, and keeps the order with the fewest
// crossings (Sugiyama et al., "Methods for visual understanding of hierarchical
// system structures", 1981).
func (l *layout) order(near [][]int) {
	const sweeps = 16
	for _, row := range l.rows {
		slices.SortStableFunc(row, func(a, b int) int {
			return cmp.Compare(min(1, len(near[b])), min(1, len(near[a])))
		})
	}
	best, fewest := cloneRows(l.rows), math.MaxInt
	for sweep := 0; sweep <= sweeps; sweep++ {
		at := l.positions()
		if n := l.crossings(at); n < fewest {
			best, fewest = cloneRows(l.rows), n
		}
		if fewest == 0 || sweep == sweeps {
			break
		}
		for k := range l.rows {
			row := k
			if sweep%2 == 1 {
				row = len(l.rows) - 1 - k
			}
			middle := make(map[int]float64, len(l.rows[row]))
			for position, p := range l.rows[row] {
				sum, n := 0.0, 0
				for _, q := range near[p] {
					if above := l.places[q].row < row; above == (sweep%2 == 0) && l.places[q].row != row {
						sum += float64(at[q]) / float64(max(1, len(l.rows[l.places[q].row])-1))
						n++
					}
				}
				middle[p] = float64(position) / float64(max(1, len(l.rows[row])-1))
				if n > 0 {
					middle[p] = sum / float64(n)
				}
				if len(near[p]) == 0 { // to the right end
					middle[p] = math.Inf(1)
				}
			}
			slices.SortStableFunc(l.rows[row], func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
			for position, p := range l.rows[row] {
				at[p] = position
			}
		}
	}
	l.rows = best
}

func cloneRows(rows [][]int) [][]int {
	out := make([][]int, len(rows))
	for k := range rows {
		out[k] = slices.Clone(rows[k])
	}
	return out
}

func (l *layout) positions() []int {
	at := make([]int, len(l.places))
	for _, row := range l.rows {
		for position, p := range row {
			at[p] = position
		}
	}
	return at
}

// crossings returns the number of crossings of lines between adjacent rows.
func (l *layout) crossings(at []int) int {
	lines := make([][][2]int, len(l.rows))
	for _, route := range l.routes {
		for k := range route[1:] {
			if row := l.places[route[k]].row; row != l.places[route[k+1]].row {
				lines[row] = append(lines[row], [2]int{at[route[k]], at[route[k+1]]})
			}
		}
	}
	n := 0
	for _, list := range lines {
		for k, a := range list {
			for _, b := range list[k+1:] {
				if (a[0]-b[0])*(a[1]-b[1]) < 0 {
					n++
				}
			}
		}
	}
	return n
}

// position moves every place towards its neighbours' mean x without overlaps.
func (l *layout) position(near [][]int) {
	for _, row := range l.rows {
		x := 0.0
		for _, p := range row {
			l.places[p].x = x + l.places[p].w/2
			x += l.places[p].w + boxGap
		}
		for _, p := range row { // centre the row
			l.places[p].x -= x / 2
		}
	}
	const rounds = 12
	for round := range rounds {
		for k := range l.rows {
			row := l.rows[k]
			if round%2 == 1 {
				row = l.rows[len(l.rows)-1-k]
			}
			wish := make([]float64, len(row))
			for i, p := range row {
				wish[i] = l.places[p].x
				if len(near[p]) == 0 && i > 0 { // next to its predecessor
					q := l.places[row[i-1]]
					wish[i] = q.x + (q.w+l.places[p].w)/2 + boxGap
				}
				if len(near[p]) > 0 {
					sum := 0.0
					for _, q := range near[p] {
						sum += l.places[q].x
					}
					wish[i] = sum / float64(len(near[p]))
				}
			}
			l.settle(row, wish)
		}
	}
	left, right := math.Inf(1), math.Inf(-1)
	for _, p := range l.places {
		left, right = min(left, p.x-p.w/2), max(right, p.x+p.w/2)
	}
	for k := range l.places {
		l.places[k].x += marginX - left
	}
	l.width = right - left + marginX + boxGap
}

// settle places a row as near to its desired positions as possible in least squares,
// without overlaps, by isotonic regression (pool adjacent violators).
func (l *layout) settle(row []int, wish []float64) {
	type run struct {
		from, n int
		sum     float64 // of desired positions minus offsets
	}
	offset := make([]float64, len(row))
	for i := 1; i < len(row); i++ {
		a, b := l.places[row[i-1]], l.places[row[i]]
		offset[i] = offset[i-1] + (a.w+b.w)/2 + boxGap
	}
	var runs []run
	for i := range row {
		runs = append(runs, run{i, 1, wish[i] - offset[i]})
		for len(runs) > 1 {
			a, b := runs[len(runs)-2], runs[len(runs)-1]
			if a.sum/float64(a.n) <= b.sum/float64(b.n) {
				break
			}
			runs = append(runs[:len(runs)-2], run{a.from, a.n + b.n, a.sum + b.sum})
		}
	}
	for _, r := range runs {
		for i := r.from; i < r.from+r.n; i++ {
			l.places[row[i]].x = r.sum/float64(r.n) + offset[i]
		}
	}
}

// top returns the upper edge of a row's boxes.
func top(row int) float64 { return marginY + float64(row)*rowGap }
