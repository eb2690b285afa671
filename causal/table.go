package causal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// MaxVariables is the largest number of columns of a graph: a conditioning set is a
// 64-bit word.
const MaxVariables = 64

// A Kind is the type of a column's values.
type Kind uint8

const (
	// Continuous values are real numbers.
	Continuous Kind = iota
	// Integer values are whole numbers, treated as real numbers.
	Integer
	// Categorical values are unordered categories.
	Categorical
)

var kindNames = []string{"cont", "int", "cat"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

// ParseKind parses cont, int or cat.
func ParseKind(s string) (Kind, error) {
	if i := slices.Index(kindNames, s); i >= 0 {
		return Kind(i), nil
	}
	return 0, fmt.Errorf("%q is not a type; use one of %s", s, strings.Join(kindNames, ", "))
}

// MarshalText returns the name that [ParseKind] parses.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses as [ParseKind] does.
func (k *Kind) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKind(string(text))
	return err
}

// A Column is one variable, with a value per row.
type Column struct {
	Name string
	Kind Kind
	// Values holds the values; those of a categorical column are indices into Levels.
	Values []float64
	// Levels holds the categories, sorted.
	Levels []string
}

// A Table holds columns of equal length. It is immutable.
type Table struct {
	columns []Column
	rows    int
}

// NewTable returns a table of the columns. It returns an error for missing or
// duplicate names, unequal lengths, values that are not finite, or invalid levels.
// It keeps the slices without copying them.
func NewTable(columns ...Column) (*Table, error) {
	if len(columns) == 0 {
		return nil, errors.New("causal: a table without columns")
	}
	t := &Table{columns: columns, rows: len(columns[0].Values)}
	seen := make(map[string]bool, len(columns))
	for i := range columns {
		c := &columns[i]
		switch {
		case c.Name == "":
			return nil, fmt.Errorf("causal: column %d has no name", i+1)
		case seen[c.Name]:
			return nil, fmt.Errorf("causal: there are two columns %q", c.Name)
		case len(c.Values) != t.rows:
			return nil, fmt.Errorf("causal: column %q has %d values, %q has %d",
				c.Name, len(c.Values), columns[0].Name, t.rows)
		}
		seen[c.Name] = true
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("causal: column %q, %w", c.Name, err)
		}
	}
	return t, nil
}

func (c *Column) check() error {
	for r, v := range c.Values {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return fmt.Errorf("row %d: %v is not a finite number", r+1, v)
		case c.Kind == Categorical && (v != math.Trunc(v) || v < 0 || int(v) >= len(c.Levels)):
			return fmt.Errorf("row %d: %v is not the index of one of the %d levels", r+1, v, len(c.Levels))
		}
	}
	if c.Kind == Categorical && !slices.IsSorted(c.Levels) {
		return errors.New("the levels are not sorted")
	}
	return nil
}

// NewCategorical returns a categorical column of the given values.
func NewCategorical(name string, values []string) Column {
	levels := slices.Compact(slices.Sorted(slices.Values(values)))
	c := Column{Name: name, Kind: Categorical, Levels: levels, Values: make([]float64, len(values))}
	for r, v := range values {
		i, _ := slices.BinarySearch(levels, v)
		c.Values[r] = float64(i)
	}
	return c
}

// Rows returns the number of rows.
func (t *Table) Rows() int { return t.rows }

// Len returns the number of columns.
func (t *Table) Len() int { return len(t.columns) }

// Column returns column i, which must not be modified.
func (t *Table) Column(i int) *Column { return &t.columns[i] }

// Names returns the names of the columns, in order.
func (t *Table) Names() []string {
	names := make([]string, len(t.columns))
	for i := range t.columns {
		names[i] = t.columns[i].Name
	}
	return names
}

// Index returns the index of the named column, or -1.
func (t *Table) Index(name string) int {
	return slices.IndexFunc(t.columns, func(c Column) bool { return c.Name == name })
}

// Select returns a table of the given rows, in that order; rows may repeat.
func (t *Table) Select(rows []int) *Table {
	out := &Table{columns: make([]Column, len(t.columns)), rows: len(rows)}
	for i := range t.columns {
		c := t.columns[i]
		values := make([]float64, len(rows))
		for k, r := range rows {
			values[k] = c.Values[r]
		}
		c.Values = values
		out.columns[i] = c
	}
	return out
}

// Columns returns a table of the given columns, in that order. It shares their
// values.
func (t *Table) Columns(columns []int) *Table {
	out := &Table{columns: make([]Column, len(columns)), rows: t.rows}
	for k, i := range columns {
		out.columns[k] = t.columns[i]
	}
	return out
}

// Hash returns "sha256:" and the SHA-256 of names, kinds, levels and values, in order.
func (t *Table) Hash() string {
	h := sha256.New()
	var b [8]byte
	number := func(v uint64) {
		binary.LittleEndian.PutUint64(b[:], v)
		h.Write(b[:])
	}
	text := func(s string) {
		number(uint64(len(s)))
		h.Write([]byte(s))
	}
	number(uint64(t.rows))
	for i := range t.columns {
		c := &t.columns[i]
		text(c.Name)
		text(c.Kind.String())
		number(uint64(len(c.Levels)))
		for _, l := range c.Levels {
			text(l)
		}
		for _, v := range c.Values {
			if v == 0 {
				v = 0 // 0 and -0 are equal
			}
			number(math.Float64bits(v))
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
