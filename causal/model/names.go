package model

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/causal"
)

// Row returns row r of a table as a point.
func Row(t *causal.Table, r int) Point {
	out := make(Point, t.Len())
	for i := range out {
		out[i] = t.Column(i).Values[r]
	}
	return out
}

// Value parses a value of a column: the name of a category, or a number.
func (m *Model) Value(column, text string) (float64, error) {
	i := m.table.Index(column)
	if i < 0 {
		return 0, fmt.Errorf("there is no column %q; there are %s", column, strings.Join(m.names(m.inGraph()), ", "))
	}
	if m.s.Tiers[i] == "" {
		return 0, fmt.Errorf("column %q is not in the graph, so that nothing is known of what it does; there are %s",
			column, strings.Join(m.names(m.inGraph()), ", "))
	}
	c := m.table.Column(i)
	if c.Kind == causal.Categorical {
		k, ok := slices.BinarySearch(c.Levels, text)
		if !ok {
			return 0, fmt.Errorf("%s: %q is none of the categories in the data: %s",
				column, text, strings.Join(c.Levels, ", "))
		}
		return float64(k), nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err == nil {
		err = m.checkValue(i, v)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a finite number", column, text)
	}
	return v, nil
}

// Text formats a value in the form that Value parses, numbers with five digits.
func (m *Model) Text(column string, v float64) string {
	if i := m.table.Index(column); i >= 0 {
		if c := m.table.Column(i); c.Kind == causal.Categorical && v >= 0 && int(v) < len(c.Levels) {
			return c.Levels[int(v)]
		}
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

// inGraph returns the columns that have a tier.
func (m *Model) inGraph() []int { return slices.Concat(m.roots, m.order) }

// Range returns the smallest and largest value of a numeric column in the rows kept,
// or 0, 0 for an unknown column.
func (m *Model) Range(column string) (low, high float64) {
	i := m.table.Index(column)
	if i < 0 || len(m.rows) == 0 {
		return 0, 0
	}
	low, high = m.rows[0][i], m.rows[0][i]
	for _, row := range m.rows {
		low, high = min(low, row[i]), max(high, row[i])
	}
	return low, high
}

// Typical returns the typical context, with the upper median of every numeric column
// and the most frequent category of every categorical one, and the configuration of the
// row that is nearest to the typical one: values of different rows need not go together.
func (m *Model) Typical() Point {
	out := m.middle()
	var nearest []float64
	least := math.Inf(1)
	for _, row := range m.rows {
		distance := 0.0
		for _, c := range m.config {
			switch z := &m.scales[c]; {
			case z.levels == 0:
				d := z.z(row[c]) - z.z(out[c])
				distance += d * d
			case row[c] != out[c]:
				distance++
			}
		}
		if distance < least {
			least, nearest = distance, row
		}
	}
	for _, c := range m.config {
		if nearest != nil {
			out[c] = nearest[c]
		}
	}
	return out
}

func (m *Model) middle() Point {
	out := make(Point, m.table.Len())
	values := make([]float64, len(m.rows))
	for i := range out {
		for r, row := range m.rows {
			values[r] = row[i]
		}
		slices.Sort(values)
		out[i] = values[len(values)/2]
		if m.scales[i].levels > 0 {
			most, run := 0, 0
			for r := range values {
				if r == 0 || values[r] != values[r-1] {
					run = 0
				}
				if run++; run > most {
					most, out[i] = run, values[r]
				}
			}
		}
	}
	return out
}

// Inputs returns the names of the context and configuration columns.
func (m *Model) Inputs() []string { return m.names(m.roots) }

// Metrics returns the names of the metrics, causes first.
func (m *Model) Metrics() []string {
	var out []string
	for _, n := range m.order {
		if m.s.Tiers[n] == causal.TierMetric {
			out = append(out, m.name(n))
		}
	}
	return out
}
