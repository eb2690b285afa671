package prune

import (
	"fmt"
	"slices"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/space"
)

// Columns encodes configurations of a space as rows of a causal table: a column
// per number, one per element of an array, and one per choice. A parameter with
// special values has a second column that names the one set, if any. A number
// that is inactive or special is encoded as the middle of its range, so that it
// has no leverage on a slope.
type Columns struct {
	space   *space.Space
	columns []configColumn
}

type configColumn struct {
	name   string
	param  space.Param
	index  int      // of an array
	levels []string // of a choice, sorted
	state  bool     // which special value is set
	middle float64
}

const (
	stateSet = "set"      // a number of the range
	stateOut = "inactive" // the parameter does not exist in this configuration
)

// NewColumns returns the columns of a space.
func NewColumns(s *space.Space) *Columns {
	c := &Columns{space: s}
	for _, p := range s.Params() {
		switch {
		case p.Kind == space.KindBool:
			c.columns = append(c.columns,
				configColumn{name: p.ID, param: p, levels: []string{"false", stateOut, "true"}})
			continue
		case p.Kind == space.KindCategorical:
			levels := append(slices.Clone(p.Categories), stateOut)
			slices.Sort(levels)
			c.columns = append(c.columns, configColumn{name: p.ID, param: p, levels: slices.Compact(levels)})
			continue
		}
		middle := (p.Min + p.Max) / 2
		if p.Log {
			middle = space.LogMiddle(p.Min, p.Max)
		}
		n := 1
		if p.Array != nil {
			n = p.Array.Max
		}
		for i := range n {
			name := p.ID
			if p.Array != nil {
				name = fmt.Sprintf("%s_%d", p.ID, i+1)
			}
			c.columns = append(c.columns, configColumn{name: name, param: p, index: i, middle: middle})
		}
		if len(p.Special) > 0 {
			levels := []string{stateOut, stateSet}
			for _, v := range p.Special {
				levels = append(levels, specialName(v))
			}
			slices.Sort(levels)
			c.columns = append(c.columns, configColumn{name: p.ID + "_state", param: p, state: true,
				levels: slices.Compact(levels)})
		}
	}
	return c
}

func specialName(v space.Special) string {
	if v.Name != "" {
		return v.Name
	}
	return fmt.Sprint(v.Value)
}

// Len returns the number of columns.
func (c *Columns) Len() int { return len(c.columns) }

// Names returns the names of the columns.
func (c *Columns) Names() []string {
	out := make([]string, len(c.columns))
	for i := range c.columns {
		out[i] = c.columns[i].name
	}
	return out
}

// Param returns the id of the parameter that column i belongs to.
func (c *Columns) Param(i int) string { return c.columns[i].param.ID }

// Append appends a configuration's values to a row.
func (c *Columns) Append(row []float64, config space.Config) []float64 {
	for i := range c.columns {
		row = append(row, c.columns[i].value(config))
	}
	return row
}

// value returns a parameter's value as encoded in a named column.
func (c *Columns) value(column string, v space.Value) float64 {
	return c.columns[slices.Index(c.Names(), column)].of(v)
}

func (c *configColumn) value(config space.Config) float64 { return c.of(config.Get(c.param.ID)) }

func (c *configColumn) of(v space.Value) float64 {
	switch {
	case c.state:
		return c.level(c.stateOf(v))
	case len(c.levels) > 0 && v.IsZero():
		return c.level(stateOut)
	case c.param.Kind == space.KindBool:
		return c.level(fmt.Sprint(v.Bool()))
	case len(c.levels) > 0:
		return c.level(v.Text())
	case c.param.Array != nil && c.index < v.Len():
		return v.At(c.index)
	case c.param.Array != nil || v.IsZero() || c.stateOf(v) != stateSet:
		return c.middle
	}
	return v.Float()
}

func (c *configColumn) stateOf(v space.Value) string {
	if v.IsZero() {
		return stateOut
	}
	for _, s := range c.param.Special {
		if s.Value == v.Float() {
			return specialName(s)
		}
	}
	return stateSet
}

func (c *configColumn) level(name string) float64 {
	i, _ := slices.BinarySearch(c.levels, name)
	return float64(i)
}

// Column returns causal column i with the given values.
func (c *Columns) Column(i int, values []float64) causal.Column {
	out := causal.Column{Name: c.columns[i].name, Values: values}
	switch {
	case len(c.columns[i].levels) > 0:
		out.Kind, out.Levels = causal.Categorical, c.columns[i].levels
	case c.columns[i].param.Kind == space.KindInt:
		out.Kind = causal.Integer
	}
	return out
}
