package cells

import (
	"slices"
	"sync"
	"time"
)

// Cost is an estimate of a cell's time.
type Cost struct {
	Units float64 // in proportion to other cells of its kinds
	// Kinds of cell, from special to general: the time of a unit is that of the first kind
	// of which anything was computed.
	Kinds []string
}

// Progress of a grid, after a part of a cell is done.
type Progress struct {
	Cell  int     // index of the cell
	Share float64 // of it that is done
	// Done are the cells of the grid that are known, Of is all of them.
	Done, Of int
	// Left estimates the time left. It is known once something of every kind was computed.
	Left  time.Duration
	Known bool
}

// meter measures progress.
type meter struct {
	mu     sync.Mutex
	jobs   int
	unit   map[string]float64 // Grid.Unit
	report func(Progress)
	cells  []metered
}

type metered struct {
	Cost
	share, seconds float64
	began          time.Time
}

func (g *Grid[K, V]) meter() *meter {
	m := &meter{jobs: Jobs(g.Jobs, len(g.Keys)), unit: g.Unit, report: g.Progress, cells: make([]metered, len(g.Keys))}
	for i := range m.cells {
		if m.cells[i].Cost = (Cost{Units: 1}); g.Cost != nil {
			m.cells[i].Cost = g.Cost(i)
		}
		m.cells[i].Kinds = append(m.cells[i].Kinds, "") // of all cells
		if c := g.Known[g.Keys[i]]; c != nil && g.Seconds != nil {
			m.known(i, g.Seconds(c))
		} else if c != nil {
			m.known(i, 0)
		}
	}
	return m
}

// known takes in a cell that was computed before.
func (m *meter) known(i int, seconds float64) { m.cells[i].share, m.cells[i].seconds = 1, seconds }

func (m *meter) begin(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cells[i].began = time.Now()
}

// at takes in the share of a cell that is done, and reports.
func (m *meter) at(i int, share float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.cells[i]
	c.share, c.seconds = share, time.Since(c.began).Seconds()
	if m.report == nil {
		return
	}
	p := Progress{Cell: i, Share: share, Of: len(m.cells)}
	for i := range m.cells {
		if m.cells[i].share == 1 {
			p.Done++
		}
	}
	p.Left, p.Known = m.left()
	m.report(p)
}

// left estimates the time until all cells are done.
func (m *meter) left() (time.Duration, bool) {
	units, seconds := map[string]float64{}, map[string]float64{}
	for i := range m.cells {
		c := &m.cells[i]
		if c.seconds > 0 {
			for _, k := range c.Kinds {
				units[k] += c.share * c.Units
				seconds[k] += c.seconds
			}
		}
	}
	total, longest, open, known := 0., 0., 0, true
	for i := range m.cells {
		c := &m.cells[i]
		if c.share == 1 {
			continue
		}
		open++
		n := slices.IndexFunc(c.Kinds, func(k string) bool { return units[k] > 0 || m.unit[k] > 0 })
		if n < 0 {
			return 0, false
		}
		unit := m.unit[c.Kinds[n]]
		if k := c.Kinds[n]; units[k] > 0 {
			unit = seconds[k] / units[k]
		}
		rest := (1 - c.share) * c.Units * unit
		total, longest = total+rest, max(longest, rest)
		known = known && (n == 0 || n < len(c.Kinds)-1)
	}
	if open > 0 {
		longest = max(longest, total/float64(min(m.jobs, open)))
	}
	return time.Duration(longest * float64(time.Second)), known
}
