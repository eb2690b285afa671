package trees

import "math"

// evaluate makes the histogram of small from its rows, turns the one in large's
// slot, so far their parent's, into large's, and finds the best split of each.
// large may be nil.
func (g *grower) evaluate(small, large *leaf) {
	for len(g.hists) <= small.slot {
		// The room behind lets a byte index any column's part without a check.
		g.hists = append(g.hists, make([]cell, g.b.cells+256))
	}
	rows := g.rows[small.from:small.to]
	near := g.near[:len(rows)]
	for i, r := range rows {
		near[i] = g.cells[r]
	}
	hist := g.hists[small.slot]
	parallel(g.workersFor(rows), len(g.b.quads), func(_, i int) {
		q := &g.b.quads[i]
		for _, j := range q.cols[:q.n] {
			if c := &g.b.cols[j]; g.active[j] {
				clear(hist[c.off : c.off+c.size()])
			}
		}
		g.fill(hist, q, rows, near)
		for k, j := range q.cols[:q.n] {
			if !g.active[j] {
				continue
			}
			c := &g.b.cols[j]
			part := hist[c.off : c.off+c.size()]
			g.found[4*i+k][0] = g.scan(part, c, j, small.sum)
			if large != nil {
				rest := g.hists[large.slot][c.off : c.off+c.size()]
				subtract(rest, part)
				g.found[4*i+k][1] = g.scan(rest, c, j, large.sum)
			}
		}
	})
	small.best = g.pick(0)
	if large != nil {
		large.best = g.pick(1)
	}
}

// without turns the parent's histogram in large's slot into large's by taking
// out the few rows of small, which is not to be split, and finds large's best
// split.
func (g *grower) without(small, large *leaf) {
	rows := g.rows[small.from:small.to]
	near := g.near[:len(rows)]
	for i, r := range rows {
		near[i] = cell{-g.cells[r].g, -g.cells[r].hc}
	}
	hist := g.hists[large.slot]
	parallel(g.workersFor(rows), len(g.b.quads), func(_, i int) {
		q := &g.b.quads[i]
		g.fill(hist, q, rows, near)
		for k, j := range q.cols[:q.n] {
			if c := &g.b.cols[j]; g.active[j] {
				g.found[4*i+k][0] = g.scan(hist[c.off:c.off+c.size()], c, j, large.sum)
			}
		}
	})
	large.best = g.pick(0)
}

// parallelWork is how many sums or bins are worth a goroutine's start.
const parallelWork = 1 << 15

func (g *grower) workersFor(rows []uint32) int {
	if len(rows)*len(g.cols)+2*g.b.cells < parallelWork {
		return 1
	}
	return g.workers
}

// pick is the best of the splits found on one side, the first column's among
// equals.
func (g *grower) pick(side int) split {
	best := split{col: -1}
	for i := range g.b.quads {
		q := &g.b.quads[i]
		for k, j := range q.cols[:q.n] {
			if s := &g.found[4*i+k][side]; g.active[j] && s.col >= 0 && s.gain > best.gain*(1+tie) {
				best = *s
			}
		}
	}
	return best
}

// fill adds the rows' cells to their bins, for the active columns of a quad.
func (g *grower) fill(hist []cell, q *quad, rows []uint32, near []cell) {
	var part [4]*[256]cell
	active := 0
	for k, j := range q.cols[:q.n] {
		part[k] = (*[256]cell)(hist[g.b.cols[j].off:])
		active += int(bit(g.active[j]))
	}
	if active == 4 {
		fill4(part, q.words, rows, near)
		return
	}
	for k, j := range q.cols[:q.n] {
		if g.active[j] {
			fill1(part[k], q.words, 8*k, rows, near)
		}
	}
}

func fill4(part [4]*[256]cell, words, rows []uint32, near []cell) {
	h0, h1, h2, h3 := part[0], part[1], part[2], part[3]
	near = near[:len(rows)]
	for i, r := range rows {
		w, c := words[r], near[i]
		p0 := &h0[uint8(w)]
		p0.g += c.g
		p0.hc += c.hc
		p1 := &h1[uint8(w>>8)]
		p1.g += c.g
		p1.hc += c.hc
		p2 := &h2[uint8(w>>16)]
		p2.g += c.g
		p2.hc += c.hc
		p3 := &h3[uint8(w>>24)]
		p3.g += c.g
		p3.hc += c.hc
	}
}

func fill1(part *[256]cell, words []uint32, shift int, rows []uint32, near []cell) {
	near = near[:len(rows)]
	for i, r := range rows {
		p := &part[uint8(words[r]>>(shift&31))]
		p.g += near[i].g
		p.hc += near[i].hc
	}
}

func subtract(whole, part []cell) {
	part = part[:len(whole)]
	for i := range whole {
		whole[i].g -= part[i].g
		whole[i].hc -= part[i].hc
	}
}

// tie is how much better a split must be, relatively, to replace one found
// before: equal splits that differ by rounding alone are decided by their
// order, so that weights, repeated rows and processors do not matter.
const tie = 1e-9

// scan finds the best split of a leaf by column number j.
//
// With gradients a, b and regularised hessians p, q of the two sides, children
// save a^2/p + b^2/q, which is (a q - b p)^2 / (p q (p+q)) and a constant. That
// form loses no digits where the sides are alike, and fractions are compared
// without dividing. Sums stay in fixed point.
func (g *grower) scan(hist []cell, c *column, j int, sum cell) split {
	f := &g.fixed
	s := sweep{
		sum: sum, n: f.count(sum.hc), least: int64(g.o.MinLeaf),
		mask: f.countMask, shift: f.countBits,
		lambda: f.lambda * f.h, minH: int64(math.Ceil(f.minH * f.h)),
		bin: -1,
	}
	if s.n < 2*s.least {
		return split{col: -1}
	}
	total := float64(sum.hc >> f.countBits)
	// What the parent saves beyond a share of lambda; differences of 1e-10
	// between the sides' means are rounding.
	own := float64(sum.g) * float64(sum.g)
	constant := own * (s.lambda / (total + s.lambda))
	s.num, s.den = constant+own*1e-20, 1

	values := hist[:len(c.upper)]
	s.run(values, cell{}, false)
	if c.missing && hist[len(c.upper)].hc != 0 {
		s.run(values, hist[len(c.upper)], true)
	} else {
		// Nothing to learn from: a missing value goes with the weightier side.
		s.missLeft = float64(s.left.hc>>f.countBits) >= (0.5-tie)*total
	}
	if s.bin < 0 {
		return split{col: -1}
	}
	gain := (s.num/s.den - constant) / (total + 2*s.lambda) * f.perG * f.perG * f.h
	return split{gain, j, uint8(s.bin), s.missLeft, s.left}
}

// sweep is a search through a column's histogram.
type sweep struct {
	sum            cell // of the leaf
	n, least, minH int64
	mask           int64
	shift          int
	lambda         float64

	// The best so far: what it saves as a fraction, and how.
	num, den float64
	bin      int
	missLeft bool
	left     cell
}

// run tries every bin as the last one on the left, where left is what lies there
// already.
func (s *sweep) run(values []cell, left cell, missLeft bool) {
	first, last := s.least, s.n-s.least
	mask, shift := s.mask, s.shift&63
	whole, lambda := float64(s.sum.g), s.lambda
	both := float64(s.sum.hc>>shift) + 2*lambda
	noise := 2 * float64(s.n) * both // of n rows' rounding to fixed point
	best, den := s.num*(1+tie), s.den
	for b := range values {
		v := &values[b]
		if v.hc == 0 {
			continue // no rows: the same division as before
		}
		left.g += v.g
		left.hc += v.hc
		count := left.hc & mask
		if count < first {
			continue
		}
		if count > last {
			return
		}
		h := left.hc >> shift
		p := float64(h) + lambda
		d := float64(left.g)*both - whole*p // a q - b p
		area := p * (both - p)
		if d*d*den <= best*area {
			continue
		}
		if h < s.minH || s.sum.hc>>shift-h < s.minH || math.Abs(d) <= noise {
			continue
		}
		best, den = d*d*(1+tie), area
		s.num, s.den = d*d, area
		s.bin, s.missLeft, s.left = b, missLeft, left
	}
}
