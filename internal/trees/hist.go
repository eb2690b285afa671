package trees

import "math"

// evaluate sums small's histogram from its rows, subtracts it from the parent's in
// large's slot, which becomes large's, and finds the best split of both leaves.
// large may be nil.
func (g *grower) evaluate(small, large *leaf) {
	for len(g.hists) <= small.slot {
		// The padding lets a byte index any column's part without a bounds check.
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

// subtractRows turns the parent's histogram in large's slot into large's by
// subtracting the rows of small, which will not be split, and finds large's best
// split.
func (g *grower) subtractRows(small, large *leaf) {
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

// parallelWork is the number of sums or bins above which goroutines are worthwhile.
const parallelWork = 1 << 15

func (g *grower) workersFor(rows []uint32) int {
	if len(rows)*len(g.cols)+2*g.b.cells < parallelWork {
		return 1
	}
	return g.workers
}

// pick returns the best split found for a side; ties go to the first column.
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

// tie is the relative improvement by which a split must exceed an earlier one to
// replace it. Splits that differ by rounding only are thus decided by order,
// independently of weights, repeated rows and the processor.
const tie = 1e-9

// scan finds the best split of a leaf by column j.
//
// With gradients a, b and regularised hessians p, q of the two sides, the children
// reduce the loss by a^2/p + b^2/q, which equals (a q - b p)^2 / (p q (p+q)) plus a
// constant. That form does not cancel for similar sides, and its fractions are
// compared without division. Sums stay in fixed point.
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
	// The threshold is the parent's loss reduction with its share of lambda, plus a
	// tolerance: relative differences of 1e-10 between the sides' means are rounding.
	own := float64(sum.g) * float64(sum.g)
	constant := own * (s.lambda / (total + s.lambda))
	s.num, s.den = constant+own*1e-20, 1

	values := hist[:len(c.upper)]
	s.run(values, cell{}, false)
	if c.missing && hist[len(c.upper)].hc != 0 {
		s.run(values, hist[len(c.upper)], true)
	} else {
		// Without missing values in training, they go to the heavier side.
		s.missLeft = float64(s.left.hc>>f.countBits) >= (0.5-tie)*total
	}
	if s.bin < 0 {
		return split{col: -1}
	}
	gain := (s.num/s.den - constant) / (total + 2*s.lambda) * f.perG * f.perG * f.h
	return split{gain, j, uint8(s.bin), s.missLeft, s.left}
}

// sweep is a search over the bins of a column's histogram.
type sweep struct {
	sum            cell // of the leaf
	n, least, minH int64
	mask           int64
	shift          int
	lambda         float64

	// The best split so far: its loss reduction as a fraction, and the split.
	num, den float64
	bin      int
	missLeft bool
	left     cell
}

// run tries every bin as the last one on the left; left holds the initial sums of
// that side.
func (s *sweep) run(values []cell, left cell, missLeft bool) {
	first, last := s.least, s.n-s.least
	mask, shift := s.mask, s.shift&63
	whole, lambda := float64(s.sum.g), s.lambda
	both := float64(s.sum.hc>>shift) + 2*lambda
	noise := 2 * float64(s.n) * both // bound of n rows' rounding to fixed point
	best, den := s.num*(1+tie), s.den
	for b := range values {
		v := &values[b]
		if v.hc == 0 {
			continue // an empty bin gives the same split
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
