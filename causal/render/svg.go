package render

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/causal"
)

// tierColours are the fill colours of the boxes; tiers are labelled too.
var tierColours = map[string]string{
	causal.TierContext: "#e8e8e8", causal.TierConfig: "#cfe2ff", causal.TierMetric: "#fff3cd",
	causal.TierObjective: "#f8d7da", "": "#ffffff",
}

// width returns the line width of an edge, 1 to 4, by strength.
func width(e causal.Edge) float64 {
	if e.Strength == nil {
		return 1.5
	}
	return 1 + 3**e.Strength
}

// Limits of a readable drawing, which also bound the time of its layout.
const (
	maxDrawnNodes = 200
	maxDrawnEdges = 1500
)

// svgStyle is the style of the drawing.
const svgStyle = `
svg { background: #fff; font: 12px "DejaVu Sans", Verdana, Helvetica, sans-serif }
.line { fill: none; stroke: #444 }
.mark { fill: #444; stroke: none }
.mark.open { fill: #fff; stroke: #444; stroke-width: 1.5 }
.hidden-cause .line { stroke-dasharray: 6 4 }
.hit { fill: none; stroke: transparent; stroke-width: 14 }
.box { stroke: #555; rx: 6 }
.lonely .box { stroke: #aaa; stroke-dasharray: 3 3 }
.lonely text { fill: #777 }
.band { fill: #f7f7f7 }
.band-name { fill: #666; font-style: italic }
.freq { fill: #333; font-size: 10px; paint-order: stroke; stroke: #fff; stroke-width: 3px }
`

// picture is the layout of a document's graph. Edges of its DAG join the same pairs,
// so both share the layout.
type picture struct {
	d      *causal.Document
	index  map[string]int
	layout *layout
	route  map[[2]int][]int // by pair: places from the upper node down
	ports  map[port]float64 // offset of a line's end from the centre of its box
	label  map[[2]int]point // position of a line's label
}

type point struct{ x, y float64 }

type port struct {
	node  int
	pair  [2]int
	above bool // on the upper side of the box
}

func newPicture(d *causal.Document) (*picture, error) {
	if len(d.Nodes) > maxDrawnNodes || len(d.Edges) > maxDrawnEdges {
		return nil,
			fmt.Errorf(
				"a picture of %d variables and %d edges is unreadable: the limits are %d and %d; choose another format",
				len(d.Nodes), len(d.Edges), maxDrawnNodes, maxDrawnEdges)
	}
	p := &picture{d: d, index: indexOf(d), route: map[[2]int][]int{}, ports: map[port]float64{},
		label: map[[2]int]point{}}
	var pairs [][2]int
	for _, e := range sortedEdges(d) {
		pairs = append(pairs, p.pair(e))
	}
	p.layout = arrange(d, pairs)
	for k, pair := range pairs {
		p.route[pair] = p.layout.routes[k]
	}
	p.findPorts(pairs)
	p.placeLabels(pairs)
	return p, nil
}

func (p *picture) pair(e causal.Edge) [2]int {
	a, b := p.index[e.Source], p.index[e.Target]
	return [2]int{min(a, b), max(a, b)}
}

// level reports whether a route joins two boxes of the same row.
func (p *picture) level(route []int) bool {
	return p.layout.places[route[0]].row == p.layout.places[route[len(route)-1]].row
}

// findPorts distributes the lines at each side of a box, sorted by where they come
// from.
func (p *picture) findPorts(pairs [][2]int) {
	type side struct {
		node  int
		above bool
	}
	type end struct {
		pair [2]int
		from float64
	}
	ends := map[side][]end{}
	for _, pair := range pairs {
		r := p.route[pair]
		last := len(r) - 1
		upper := side{r[0], p.level(r)} // lines within a row leave upwards
		ends[upper] = append(ends[upper], end{pair, p.layout.places[r[1]].x})
		lower := side{r[last], true}
		ends[lower] = append(ends[lower], end{pair, p.layout.places[r[last-1]].x})
	}
	for s, list := range ends {
		slices.SortStableFunc(list, func(a, b end) int { return cmp.Compare(a.from, b.from) })
		room := p.layout.places[s.node].w - 2*boxPadding
		for k, e := range list {
			p.ports[port{s.node, e.pair, s.above}] = room * (float64(k+1)/float64(len(list)+1) - 0.5)
		}
	}
}

// ends returns the ends of a pair's line at its boxes; level is true if both are at
// upper sides.
func (p *picture) ends(pair [2]int) (from, to point, level bool) {
	r := p.route[pair]
	first, last := r[0], r[len(r)-1]
	a, b := p.layout.places[first], p.layout.places[last]
	level = p.level(r)
	from = point{a.x + p.ports[port{first, pair, level}], top(a.row) + boxHeight}
	if level {
		from.y = top(a.row)
	}
	return from, point{b.x + p.ports[port{last, pair, true}], top(b.row)}, level
}

// curve returns the path of a pair's line from the upper node down, shortened at
// both ends by the room for marks. Lines meet boxes vertically.
func (p *picture) curve(pair [2]int, roomFrom, roomTo float64) string {
	from, to, level := p.ends(pair)
	if level {
		lift := arcLift(from, to)
		return fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f",
			from.x, from.y-roomFrom, from.x, from.y-lift, to.x,
			to.y-lift, to.x, to.y-roomTo)
	}
	var s strings.Builder
	at := from
	at.y += roomFrom
	fmt.Fprintf(&s, "M%.1f %.1f", at.x, at.y)
	bend := func(next point) {
		half := (next.y - at.y) / 2
		fmt.Fprintf(&s, "C%.1f %.1f %.1f %.1f %.1f %.1f", at.x, at.y+half, next.x, next.y-half, next.x, next.y)
		at = next
	}
	r := p.route[pair]
	for _, q := range r[1 : len(r)-1] {
		passed := p.layout.places[q]
		bend(point{passed.x, top(passed.row)})
		at.y += boxHeight
		fmt.Fprintf(&s, "V%.1f", at.y)
	}
	to.y -= roomTo
	bend(to)
	return s.String()
}

// arcLift returns the height of a line between boxes of the same row.
func arcLift(from, to point) float64 { return 18 + math.Min(26, math.Abs(to.x-from.x)*0.08) }

// placeLabels positions the labels on their lines, away from each other where
// possible.
func (p *picture) placeLabels(pairs [][2]int) {
	var taken []point
	for _, pair := range pairs {
		from, to, level := p.ends(pair)
		r := p.route[pair]
		if len(r) > 2 { // on the last segment
			q := p.layout.places[r[len(r)-2]]
			from = point{q.x, top(q.row) + boxHeight}
		}
		best, clear := point{}, -1.0
		for _, t := range []float64{0.5, 0.35, 0.65, 0.25, 0.75} {
			s := t * t * (3 - 2*t) // x of a curve with vertical ends
			at := point{from.x + s*(to.x-from.x), from.y + t*(to.y-from.y) + 3}
			if level {
				at = point{from.x + s*(to.x-from.x), from.y - 3*t*(1-t)*arcLift(from, to)}
			}
			nearest := math.Inf(1)
			for _, q := range taken {
				nearest = math.Min(nearest, math.Max(math.Abs(q.x-at.x)/26, math.Abs(q.y-at.y)/11))
			}
			if nearest > clear {
				best, clear = at, nearest
			}
			if clear >= 1 {
				break
			}
		}
		p.label[pair] = best
		taken = append(taken, best)
	}
}

func (p *picture) open(w *strings.Builder) {
	fmt.Fprintf(w,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="causal graph">`+"\n",
		p.layout.width, p.layout.height, p.layout.width, p.layout.height)
}

func (p *picture) bands(w *strings.Builder) {
	for _, b := range p.layout.bands {
		if b.tier == "" {
			continue
		}
		fmt.Fprintf(w,
			`<rect class="band" x="4" y="%.1f" width="%.1f" height="%.1f" rx="8"/><text class="band-name" x="12" y="%.1f">%s</text>`+"\n",
			b.top-10, p.layout.width-8, b.bottom-b.top+20, b.top+18, b.tier)
	}
}

// edges draws the lines of edges in a group of the given class.
func (p *picture) edges(w *strings.Builder, class string, edges []causal.Edge) {
	fmt.Fprintf(w, `<g class="edges %s">`+"\n", class)
	for k, e := range edges {
		pair := p.pair(e)
		first, last := e.MarkSource, e.MarkTarget
		if p.index[e.Source] != p.route[pair][0] {
			first, last = last, first
		}
		style := "edge"
		if first == causal.Arrow && last == causal.Arrow {
			style += " hidden-cause"
		}
		fmt.Fprintf(w,
			`<g class="%s" data-edge="%d"><title>%s</title><path class="hit" d="%s"/><path class="line" d="%s" stroke-width="%.2f"/>`,
			style, k, escape(title(e)), p.curve(pair, 0, 0), p.curve(pair, markRoom[first], markRoom[last]), width(e))
		from, to, level := p.ends(pair)
		drawMark(w, first, from, level)
		drawMark(w, last, to, true)
		if e.BootFreq != nil && *e.BootFreq < 1 {
			at := p.label[pair]
			fmt.Fprintf(w, `<text class="freq" x="%.1f" y="%.1f" text-anchor="middle">%.2f</text>`,
				at.x, at.y, *e.BootFreq)
		}
		w.WriteString("</g>\n")
	}
	w.WriteString("</g>\n")
}

// markRoom is the length of a mark.
var markRoom = map[causal.Mark]float64{causal.Circle: 8, causal.Arrow: 9}

// drawMark draws the mark at a box's upper or lower side. A tail is the bare line.
func drawMark(w *strings.Builder, m causal.Mark, at point, upper bool) {
	away := 1.0 // direction away from the box
	if upper {
		away = -1
	}
	switch m {
	case causal.Arrow:
		y := at.y + away*10
		fmt.Fprintf(w, `<path class="mark" d="M%.1f %.1fL%.1f %.1fL%.1f %.1fz"/>`, at.x, at.y, at.x-4.5, y, at.x+4.5, y)
	case causal.Circle:
		fmt.Fprintf(w, `<circle class="mark open" cx="%.1f" cy="%.1f" r="3.8"/>`, at.x, at.y+away*4.2)
	}
}

func (p *picture) nodes(w *strings.Builder) {
	joined := map[int]bool{}
	for pair := range p.route {
		joined[pair[0]], joined[pair[1]] = true, true
	}
	for i := range p.d.Nodes {
		n := &p.d.Nodes[i]
		at := p.layout.places[i]
		class := strings.TrimSpace("node " + n.Tier)
		if !joined[i] {
			class += " lonely"
		}
		fmt.Fprintf(w,
			`<g class="%s" data-node="%d"><rect class="box" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="6" fill="%s"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text></g>`+"\n",
			class, i, at.x-at.w/2, top(at.row), at.w, boxHeight, tierColours[n.Tier], at.x, top(at.row)+boxHeight/2+4,
			escape(printable(n.ID)))
	}
}

// title returns the tooltip of an edge.
func title(e causal.Edge) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n%s", e.Source, causal.Arrows(e.MarkSource, e.MarkTarget), e.Target, meaning(e))
	for _, line := range evidence(e) {
		b.WriteString("\n" + line)
	}
	return b.String()
}

// evidence returns the evidence for an edge in words.
func evidence(e causal.Edge) []string {
	var out []string
	if e.Strength != nil {
		out = append(out, fmt.Sprintf("strength %.2f (0 none, 1 exact), the least that any of %d sets left",
			*e.Strength,
			e.Tests))
	}
	if e.P != nil {
		given := "nothing"
		if len(e.Given) > 0 {
			given = strings.Join(e.Given, ", ")
		}
		out = append(out, fmt.Sprintf("largest p %.2g, given %s", *e.P, given))
	}
	if e.BootFreq != nil {
		out = append(out, fmt.Sprintf("found in %.0f %% of the bootstrap samples", 100**e.BootFreq))
		if e.BootMarks != nil {
			out = append(out, fmt.Sprintf("with the same marks in %.0f %%", 100**e.BootMarks))
		}
	}
	return out
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder does not fail
	return b.String()
}
