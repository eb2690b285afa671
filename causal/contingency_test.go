package causal

import (
	"fmt"
	"math"
	"slices"
)

// contingency is Pearson's chi-squared test or the G-test (G^2) on contingency
// tables, summed over the observed strata of the conditioning variables. Numeric
// columns are cut into quantile bins.
type contingency struct {
	pearson bool
	codes   [][]int32
	levels  []int
}

func newContingency(t *Table, pearson bool, bins int) (*contingency, error) {
	c := &contingency{pearson: pearson}
	for i := range t.Len() {
		column := t.Column(i)
		codes := make([]int32, t.Rows())
		levels := len(column.Levels)
		if column.Kind == Categorical {
			for r, v := range column.Values {
				codes[r] = int32(v)
			}
		} else {
			levels = discretise(codes, column.Values, bins)
		}
		if levels < 2 {
			return nil, fmt.Errorf("column %q is constant", column.Name)
		}
		c.codes = append(c.codes, codes)
		c.levels = append(c.levels, levels)
	}
	return c, nil
}

// discretise fills codes with the quantile bins of values and returns the number of
// bins. With no more distinct values than bins, each value is a category.
func discretise(codes []int32, values []float64, bins int) int {
	sorted := slices.Sorted(slices.Values(values))
	distinct := slices.Compact(slices.Clone(sorted))
	if len(distinct) <= bins {
		for r, v := range values {
			k, _ := slices.BinarySearch(distinct, v)
			codes[r] = int32(k)
		}
		return len(distinct)
	}
	edges := make([]float64, bins-1)
	for k := range edges {
		// Quantiles interpolate linearly; a value at an edge belongs to the bin above.
		at := float64(k+1) / float64(bins) * float64(len(sorted)-1)
		lo := int(at)
		hi := min(lo+1, len(sorted)-1)
		edges[k] = sorted[lo] + (at-float64(lo))*(sorted[hi]-sorted[lo])
	}
	for r, v := range values {
		k := 0
		for k < len(edges) && edges[k] <= v {
			k++
		}
		codes[r] = int32(k)
	}
	return bins
}

// Worker implements [Independence].
func (c *contingency) Worker() func(x, y int, given []int) Outcome {
	w := &contingencyWorker{contingency: c}
	return w.test
}

type contingencyWorker struct {
	*contingency
	stratum []int32
	relabel map[int64]int32
	// Rows ordered by stratum, and the start of each stratum.
	order, start, next []int32
	// Counts of the current stratum.
	counts, row, column []int32
}

func (w *contingencyWorker) test(x, y int, given []int) Outcome {
	strata := w.strata(given)
	nx, ny := w.levels[x], w.levels[y]
	cells := nx * ny
	rows := len(w.codes[x])
	// There can be as many strata as rows: sort rows by stratum instead of keeping a
	// table per stratum.
	start := growInt(&w.start, strata+1)
	clear(start)
	for _, s := range w.stratum {
		start[s+1]++
	}
	for s := range strata {
		start[s+1] += start[s]
	}
	order, next := growInt(&w.order, rows), growInt(&w.next, strata+1)
	copy(next, start)
	for r, s := range w.stratum {
		order[next[s]] = int32(r)
		next[s]++
	}
	counts, row, column := growInt(&w.counts, cells), growInt(&w.row, nx), growInt(&w.column, ny)
	stat, df := 0.0, 0
	cx, cy := w.codes[x], w.codes[y]
	for s := range strata {
		members := order[start[s]:start[s+1]]
		clear(counts)
		clear(row)
		clear(column)
		for _, r := range members {
			counts[int(cx[r])*ny+int(cy[r])]++
			row[cx[r]]++
			column[cy[r]]++
		}
		usedRows, usedColumns := 0, 0
		for _, n := range row {
			if n > 0 {
				usedRows++
			}
		}
		for _, n := range column {
			if n > 0 {
				usedColumns++
			}
		}
		if usedRows < 2 || usedColumns < 2 {
			continue // no degrees of freedom; observed counts equal expected ones
		}
		df += (usedRows - 1) * (usedColumns - 1)
		total := float64(len(members))
		for i, inRow := range row {
			for j, inColumn := range column {
				if inRow == 0 || inColumn == 0 {
					continue
				}
				expected := float64(inRow) * float64(inColumn) / total
				observed := float64(counts[i*ny+j])
				if w.pearson {
					stat += (observed - expected) * (observed - expected) / expected
				} else if observed > 0 {
					stat += 2 * observed * math.Log(observed/expected)
				}
			}
		}
	}
	if df == 0 {
		return Outcome{P: 1}
	}
	stat = max(stat, 0)
	return Outcome{P: chi2Survival(stat, df), Stat: stat, DF: df,
		Strength: math.Sqrt(-math.Expm1(-stat / float64(rows)))}
}

// strata numbers the combinations of values of the given variables, row by row, in
// order of appearance, and returns their number.
func (w *contingencyWorker) strata(given []int) int {
	rows := len(w.codes[0])
	stratum := growInt(&w.stratum, rows)
	clear(stratum)
	n := 1
	for _, v := range given {
		levels := int64(w.levels[v])
		if w.relabel == nil {
			w.relabel = map[int64]int32{}
		}
		clear(w.relabel)
		for r, code := range w.codes[v] {
			key := int64(stratum[r])*levels + int64(code)
			label, ok := w.relabel[key]
			if !ok {
				label = int32(len(w.relabel))
				w.relabel[key] = label
			}
			stratum[r] = label
		}
		n = len(w.relabel)
	}
	return n
}

func growInt(s *[]int32, n int) []int32 {
	if cap(*s) < n {
		*s = make([]int32, n)
	}
	*s = (*s)[:n]
	return *s
}
