package arrivals

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// Arrival is a job of the past that comes again.
type Arrival struct {
	// Source is its index in History.Jobs.
	Source int
	At     time.Duration
}

// Future is one way arrivals may go on from a history's end.
type Future struct {
	// Arrivals in order of time.
	Arrivals []Arrival
	// Jobs and Batches count, for each bin of the horizon, the jobs that arrive
	// and the batches that begin.
	Jobs, Batches []int
}

// draw is a place of history that may come again.
type draw struct {
	edge   int // its first bin
	weight float64
	// span is how many bins are copied, again and again until the horizon; 0
	// means as many as the horizon has.
	span int
	// scaled says that jobs and batches are how many there should be; else the
	// place is copied as it is.
	scaled        bool
	jobs, batches float64
}

// sweep is a whole batch that can be added to a future.
type sweep struct {
	first, size int
	span        time.Duration
}

// poolDays is how far back batches are taken from, to be added or swapped in.
const poolDays = 28

// composer makes futures from draws. It is scratch: one future at a time.
type composer struct {
	horizon int     // bins
	pool    []sweep // by size

	items  []item
	groups []group
	index  map[int32]int
}

type item struct {
	Arrival
	group int
}

type group struct {
	size int
	// began: its first job is among the copied ones, and comes at first; else the
	// batch goes on from before.
	began, gone bool
	first       time.Duration
}

// gather takes the pool from the batches that began in the last poolDays whole
// days, each as far as it went within the horizon.
func (c *composer) gather(h *History, dawn time.Duration) {
	c.pool = c.pool[:0]
	length := time.Duration(c.horizon) * h.bin
	first, after := h.window(dawn-poolDays*day, dawn-length)
	for i := first; i < after; i++ {
		if h.batch[i] != int32(i) {
			continue
		}
		s := sweep{first: i, size: 1}
		for j, ok := h.after(i); ok && h.jobs[j].Submit-h.jobs[i].Submit < length; j, ok = h.after(j) {
			s.size++
			s.span = h.jobs[j].Submit - h.jobs[i].Submit
		}
		c.pool = append(c.pool, s)
	}
	slices.SortStableFunc(c.pool, func(a, b sweep) int { return cmp.Compare(a.size, b.size) })
}

// around is how many neighbours in size a sweep is drawn from.
const around = 8

// pick draws a sweep of about the given size.
func (c *composer) pick(r *rand.Rand, size int) (sweep, bool) {
	if len(c.pool) == 0 {
		return sweep{}, false
	}
	lo := sort.Search(len(c.pool), func(i int) bool { return c.pool[i].size >= size })
	hi := lo + sort.Search(len(c.pool)-lo, func(i int) bool { return c.pool[lo+i].size > size })
	if hi-lo < around { // not enough of just that size
		want := min(around, len(c.pool))
		for hi-lo < want {
			if hi == len(c.pool) || lo > 0 && size-c.pool[lo-1].size <= c.pool[hi].size-size {
				lo--
			} else {
				hi++
			}
		}
		// Of the neighbours, those within a tenth, or the nearest.
		best := math.MaxInt
		for _, s := range c.pool[lo:hi] {
			best = min(best, distance(s.size, size))
		}
		reach := max(best, size/10)
		for distance(c.pool[lo].size, size) > reach {
			lo++
		}
		for distance(c.pool[hi-1].size, size) > reach {
			hi--
		}
	}
	return c.pool[lo+r.IntN(hi-lo)], true
}

func distance(a, b int) int {
	if a < b {
		return b - a
	}
	return a - b
}

// compose makes the future of a draw.
func (c *composer) compose(h *History, d draw, r *rand.Rand) Future {
	c.copy(h, d)
	began := 0
	for _, g := range c.groups {
		if g.began {
			began++
		}
	}
	if d.scaled {
		c.fit(h, d, began, r)
	}
	f := Future{Arrivals: make([]Arrival, 0, len(c.items)), Jobs: make([]int, c.horizon),
		Batches: make([]int, c.horizon)}
	for _, it := range c.items {
		if !c.groups[it.group].gone {
			f.Arrivals = append(f.Arrivals, it.Arrival)
		}
	}
	slices.SortStableFunc(f.Arrivals, func(a, b Arrival) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Source, b.Source))
	})
	for _, a := range f.Arrivals {
		f.Jobs[int((a.At-h.end)/h.bin)]++
	}
	for _, g := range c.groups {
		if g.began && !g.gone {
			f.Batches[int((g.first-h.end)/h.bin)]++
		}
	}
	return f
}

// copy lists the jobs of a place and their batches.
func (c *composer) copy(h *History, d draw) {
	c.items, c.groups = c.items[:0], c.groups[:0]
	if c.index == nil {
		c.index = map[int32]int{}
	}
	length := time.Duration(c.horizon) * h.bin
	span := length
	if d.span > 0 {
		span = time.Duration(d.span) * h.bin
	}
	// The end need not be an edge: the place is as far from its own.
	from := h.edge(d.edge) + h.end - h.edge(h.bins())
	first, after := h.window(from, from+span)
	for shift := h.end - from; shift-(h.end-from) < length; shift += span {
		clear(c.index)
		for i := first; i < after; i++ {
			at := h.jobs[i].Submit + shift
			if at >= h.end+length {
				break
			}
			g, ok := c.index[h.batch[i]]
			if !ok {
				g = len(c.groups)
				c.index[h.batch[i]] = g
				c.groups = append(c.groups, group{began: h.batch[i] == int32(i), first: at})
			}
			c.groups[g].size++
			c.items = append(c.items, item{Arrival{i, at}, g})
		}
	}
}

// fit adds, drops and swaps whole batches until there are about as many batches
// and jobs as the draw says. began is how many batches begin so far.
func (c *composer) fit(h *History, d draw, began int, r *rand.Rand) {
	jobs := int(math.Round(d.jobs))
	batches := min(int(d.batches+r.Float64()), jobs)
	have := 0
	for _, g := range c.groups {
		have += g.size
	}
	if jobs > 0 && began == len(c.groups) { // nothing goes on from before
		batches = max(batches, 1)
	}
	for began > batches {
		size := max(1, (have-jobs)/(began-batches))
		g := c.nearest(size, r)
		c.groups[g].gone = true
		have -= c.groups[g].size
		began--
	}
	for began < batches {
		n, ok := c.add(h, max(1, (jobs-have)/(batches-began)), r)
		if !ok {
			break
		}
		have += n
		began++
	}
	// Swapping batches corrects the remaining difference. A
	// fiftieth is near enough: forecasts are off by much more.
	for range 8 {
		missing := jobs - have
		if distance(jobs, have) <= jobs/50 {
			break
		}
		g := c.swappable(missing, r)
		if g < 0 {
			break
		}
		old := &c.groups[g]
		if !old.began { // it just ends earlier
			if missing > 0 {
				break
			}
			cut := min(old.size, -missing)
			c.shorten(g, cut)
			have -= cut
			continue
		}
		size := old.size
		n, ok := c.add(h, max(1, size+missing), r)
		if !ok {
			break
		}
		c.groups[g].gone = true
		have += n - size
	}
}

// nearest is the batch that begins and whose size is nearest; of equals, any.
func (c *composer) nearest(size int, r *rand.Rand) int {
	best, from := -1, r.IntN(len(c.groups))
	for k := range c.groups {
		i := (from + k) % len(c.groups)
		g := &c.groups[i]
		if g.began && !g.gone && (best < 0 || distance(g.size, size) < distance(c.groups[best].size, size)) {
			best = i
		}
	}
	return best
}

// swappable is the batch to swap for a larger one (a smallest) or a smaller one
// (the smallest that is large enough, or the largest); -1 if there is none.
func (c *composer) swappable(missing int, r *rand.Rand) int {
	if len(c.groups) == 0 {
		return -1
	}
	best, from := -1, r.IntN(len(c.groups))
	for k := range c.groups {
		i := (from + k) % len(c.groups)
		g := &c.groups[i]
		if g.gone || g.size == 0 || missing > 0 && !g.began {
			continue
		}
		if best < 0 {
			best = i
			continue
		}
		b := c.groups[best].size
		if missing > 0 && g.size < b || missing < 0 &&
			(b+missing < 1 && g.size > b || b+missing >= 1 && g.size < b && g.size+missing >= 1) {
			best = i
		}
	}
	return best
}

// add puts a whole batch of about the given size somewhere into the horizon and
// returns its size.
func (c *composer) add(h *History, size int, r *rand.Rand) (int, bool) {
	s, ok := c.pick(r, size)
	if !ok {
		return 0, false
	}
	length := time.Duration(c.horizon) * h.bin
	at := h.end + time.Duration(r.Int64N(int64(length-s.span)))
	g := len(c.groups)
	c.groups = append(c.groups, group{size: s.size, began: true, first: at})
	for i, n := s.first, 0; n < s.size; n++ {
		c.items = append(c.items, item{Arrival{i, at + h.jobs[i].Submit - h.jobs[s.first].Submit}, g})
		i, _ = h.after(i)
	}
	return s.size, true
}

// shorten drops the last n jobs of a batch.
func (c *composer) shorten(g, n int) {
	for i := len(c.items) - 1; i >= 0 && n > 0; i-- {
		if c.items[i].group == g {
			c.items = slices.Delete(c.items, i, i+1)
			c.groups[g].size--
			n--
		}
	}
}
