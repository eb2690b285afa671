package chart

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"io"
	"path/filepath"
)

// Picture is a grid of charts.
type Picture struct {
	Label string  // alternative text
	Width float64 // default 1040
	Rows  []Row
}

// Row is a row of charts of equal width; nil leaves a gap.
type Row struct {
	Height float64
	Charts []*Chart
	// Least is the width in pixels below which a page scrolls the row's figures
	// sideways; 0 if they may be as narrow as a phone.
	Least float64
}

const (
	gap       = 10 // around a chart
	titleSize = 14
	lineSize  = 18 // height of a line of text
)

// plane is the plotting area of a chart, in pixels.
type plane struct{ x, y scale }

func (p *plane) place(v Point) Point { return Point{p.x.at(v.X), p.y.at(v.Y)} }

func (p *plane) places(points []Point) []Point {
	out := make([]Point, len(points))
	for i, v := range points {
		if out[i] = v; v.X == v.X && v.Y == v.Y {
			out[i] = p.place(v)
		}
	}
	return out
}

// cell is a chart with its position.
type cell struct {
	*Chart
	plane
	left, top, right, bottom float64 // edges of the cell
	names                    []Layer // layers in the legend
}

// margins are the widths around a plane.
type margins struct{ left, right, top, bottom float64 }

func (m *margins) grow(o margins) {
	m.left, m.right, m.top, m.bottom = max(m.left, o.left), max(m.right, o.right), max(m.top, o.top),
		max(m.bottom, o.bottom)
}

func (p *Picture) size() (width, height float64) {
	for _, r := range p.Rows {
		height += r.Height
	}
	return cmp.Or(p.Width, 1040), height
}

func (p *Picture) draw(c canvas) {
	for _, x := range p.cells() {
		x.draw(c)
	}
}

// cells lays out the charts. Planes in the same column of rows with equally many
// charts share their left and right edges; charts of a row share their top and
// bottom.
func (p *Picture) cells() []*cell {
	width, _ := p.size()
	type column struct{ of, in int }
	columns, rows := map[column]*margins{}, make([]margins, len(p.Rows))
	var cells []*cell
	top := 0.0
	for r, row := range p.Rows {
		wide := width / float64(len(row.Charts))
		for i, chart := range row.Charts {
			if chart == nil {
				continue
			}
			x := newCell(chart, wide*float64(i), top, wide*float64(i+1), top+row.Height)
			cells = append(cells, x)
			k := column{i, len(row.Charts)}
			if columns[k] == nil {
				columns[k] = &margins{}
			}
			columns[k].grow(x.margins())
			rows[r].grow(x.margins())
		}
		top += row.Height
	}
	n := 0
	for r, row := range p.Rows {
		for i, chart := range row.Charts {
			if chart != nil {
				of := columns[column{i, len(row.Charts)}]
				cells[n].settle(margins{of.left, of.right, rows[r].top, rows[r].bottom})
				n++
			}
		}
	}
	return cells
}

func newCell(chart *Chart, left, top, right, bottom float64) *cell {
	x := &cell{Chart: chart, left: left + gap, top: top + gap/2, right: right - gap, bottom: bottom - gap/2}
	var xs, ys []float64
	for _, l := range chart.Layers {
		for _, p := range l.points() {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
		if l.mark().Name != "" {
			x.names = append(x.names, l)
		}
	}
	x.x, x.y = chart.X.fit(xs), chart.Y.fit(ys)
	x.settle(margins{})
	return x
}

// settle places the plane within its margins.
func (x *cell) settle(m margins) {
	x.x.start, x.x.end = x.left+m.left, x.right-m.right
	x.y.start, x.y.end = x.bottom-m.bottom, x.top+m.top
}

func (x *cell) xTicks() []Tick {
	label, widest := style{size: labelSize}, 20.0
	for _, t := range x.X.Ticks {
		widest = max(widest, label.width(t.Label))
	}
	if x.X.Ticks == nil {
		widest = 50
	}
	return x.X.ticks(&x.x, widest+6)
}

func (x *cell) yTicks() []Tick {
	apart := 1.4 * labelSize
	if x.Y.Ticks == nil && !x.y.log { // fewer ticks than fit are easier to read
		apart = 34
	}
	return x.Y.ticks(&x.y, apart)
}

func (x *cell) margins() margins {
	label := style{size: labelSize}
	m := margins{left: 2, right: 2, top: 4, bottom: 4}
	for _, t := range x.yTicks() {
		f := style{size: labelSize, bold: x.Y.Labels}
		m.left = max(m.left, 1.06*f.width(t.Label)+8) // the reader's font may be wider
	}
	if x.Y.Name != "" {
		m.left += lineSize
	}
	if ticks := x.xTicks(); len(ticks) > 0 {
		m.bottom += lineSize
		// Half of the last label may extend beyond the plane.
		m.right = max(m.right, x.x.at(ticks[len(ticks)-1].Value)+label.width(ticks[len(ticks)-1].Label)/2-x.x.end)
		m.left = max(m.left, x.x.start-x.x.at(ticks[0].Value)+label.width(ticks[0].Label)/2)
	}
	if x.X.Name != "" {
		m.bottom += lineSize
	}
	if x.Title != "" {
		m.top += lineSize + 2
	}
	if n := len(x.legend()); n > 0 {
		m.top += float64(n)*lineSize + 4
	}
	return m
}

func (x *cell) draw(c canvas) {
	x.head(c)
	grid, soft := &Mark{Color: Grid}, &Mark{Color: Soft}
	for _, t := range x.yTicks() {
		y := x.y.at(t.Value)
		f, m := style{size: labelSize, align: Right}, soft
		if x.Y.Labels {
			f.bold, m = true, &Mark{Color: Ink}
		} else {
			c.line(grid, []Point{{x.x.start, y}, {x.x.end, y}}, 1, nil)
		}
		c.text(m, Point{x.x.start - 6, y + 4}, t.Label, f)
	}
	for _, t := range x.xTicks() {
		at := x.x.at(t.Value)
		if !x.X.Labels {
			c.line(grid, []Point{{at, x.y.start}, {at, x.y.end}}, 1, nil)
		}
		c.text(soft, Point{at, x.y.start + 16}, t.Label, style{size: labelSize, align: Center})
	}
	for _, l := range x.Layers {
		l.draw(c, &x.plane)
	}
	if f := (style{size: labelSize, align: Center}); x.X.Name != "" {
		const wider = 1.08 // the reader's font may be
		name := f.fit(x.X.Name, (x.right-x.left)/wider)
		half := wider * f.width(name) / 2
		middle := max(min((x.x.start+x.x.end)/2, x.right-half), x.left+half)
		c.text(soft, Point{middle, x.bottom - 4}, name, f)
	}
	if f := (style{size: labelSize, align: Center, up: true}); x.Y.Name != "" {
		c.text(soft, Point{x.left + 10, (x.y.start + x.y.end) / 2}, f.fit(x.Y.Name, x.bottom-x.top), f)
	}
}

// fit shortens a text to a width.
func (f style) fit(text string, width float64) string {
	if f.width(text) <= width {
		return text
	}
	r := []rune(text)
	for len(r) > 0 && f.width(string(r)+"…") > width {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// head draws the title and the legend above the plane.
func (x *cell) head(c canvas) {
	y := x.top
	if x.Title != "" {
		y += lineSize
		c.text(&Mark{Color: Ink}, Point{x.left, y - 4},
			style{size: titleSize, bold: true}.fit(x.Title, x.right-x.left), style{size: titleSize, bold: true})
		y += 2
	}
	for _, line := range x.legend() {
		at := x.left
		for _, l := range line {
			l.sample(c, at, y+lineSize/2-1)
			c.text(&Mark{Color: Soft}, Point{at + sampleWidth + 5, y + lineSize/2 + 3}, l.mark().Name,
				style{size: labelSize})
			at += legendWidth(l)
		}
		y += lineSize
	}
}

// legendWidth is the room of a name with its sample. The reader's font may be wider.
func legendWidth(l Layer) float64 {
	return sampleWidth + 5 + 1.1*style{size: labelSize}.width(l.mark().Name) + 16
}

// legend has the named layers in lines that fit the cell.
func (x *cell) legend() (lines [][]Layer) {
	at := 0.0
	for _, l := range x.names {
		if len(lines) == 0 || at+legendWidth(l)-16 > x.right {
			lines, at = append(lines, nil), x.left
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], l)
		at += legendWidth(l)
	}
	return lines
}

// Write writes the picture in the format of the file name's extension: .png,
// otherwise SVG.
func (p *Picture) Write(w io.Writer, name string) error {
	width, height := p.size()
	if filepath.Ext(name) == ".png" {
		r := newRaster(width, height)
		r.area(&Mark{Color: Paper}, Box(0, 0, width, height))
		p.draw(r)
		return r.writeTo(w)
	}
	s := &svg{}
	fmt.Fprintf(s, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img" aria-label="%s" font-family="Liberation Sans, Arial, Helvetica, sans-serif" font-size="%d">
`, pixel(width), pixel(height), html.EscapeString(p.Label), labelSize)
	s.area(&Mark{Color: Paper}, Box(0, 0, width, height))
	p.draw(s)
	s.WriteString("\n</svg>\n")
	_, err := io.WriteString(w, s.String())
	return err
}

// HTML returns an SVG element of the given class, in the colours of [CSS] and the
// page's font.
func (p *Picture) HTML(class string) template.HTML {
	width, height := p.size()
	s := &svg{themed: true}
	fmt.Fprintf(s, `<svg class="%s" viewBox="0 0 %s %s" role="img" aria-label="%s" font-size="%d">`,
		html.EscapeString(class), pixel(width), pixel(height), html.EscapeString(p.Label), labelSize)
	p.draw(s)
	s.WriteString("</svg>")
	return template.HTML(s.String()) // all text in it is escaped
}
