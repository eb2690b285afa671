package causal

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Limits of [ReadCSV], which bound memory.
const (
	maxColumns = 1024
	maxCells   = 1 << 26 // 512 MiB of numbers
	maxLevels  = 4096
)

// ReadCSV reads a table with a header line. A column whose values are all numbers is
// numeric; a column without numbers is categorical; a column with both is an error
// unless kinds names its type. Empty cells, NaN and infinities are errors with line
// and column.
func ReadCSV(r io.Reader, kinds map[string]Kind) (*Table, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty: it needs a header and rows of comma-separated values")
	}
	if err != nil {
		return nil, err
	}
	if len(header) > maxColumns {
		return nil, fmt.Errorf("line 1 has %d columns, more than %d", len(header), maxColumns)
	}
	columns := make([]columnReader, len(header))
	for i, name := range header {
		if i == 0 {
			name = strings.TrimLeftFunc(name, func(r rune) bool { return r == '\ufeff' || unicode.IsSpace(r) })
		}
		name = strings.Clone(strings.TrimSpace(name))
		kind, declared := kinds[name]
		columns[i] = columnReader{name: name, kind: kind, declared: declared}
	}
	rows := 0
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if rows++; rows*len(columns) > maxCells {
			return nil, fmt.Errorf("more than %d values: leave out columns or rows", maxCells)
		}
		for i := range columns {
			if err := columns[i].add(strings.TrimSpace(record[i])); err != nil {
				line, _ := in.FieldPos(i)
				return nil, fmt.Errorf("line %d, column %q: %w", line, columns[i].name, err)
			}
		}
	}
	if rows == 0 {
		return nil, errors.New("the file has a header but no rows")
	}
	out := make([]Column, len(columns))
	for i := range columns {
		out[i] = columns[i].column()
	}
	return NewTable(out...)
}

// columnReader collects the values of one column.
type columnReader struct {
	name     string
	kind     Kind
	declared bool
	values   []float64 // numbers, or codes in order of appearance
	code     map[string]int
	words    []string
	fraction bool // some value is not an integer
}

func (c *columnReader) add(cell string) error {
	if cell == "" {
		return errors.New("the value is missing: fill it in or leave the row out")
	}
	v, err := strconv.ParseFloat(cell, 64)
	number := err == nil || errors.Is(err, strconv.ErrRange)
	if !c.declared && len(c.values) == 0 && !number {
		c.kind = Categorical
	}
	if c.kind == Categorical {
		if !c.declared && number {
			return fmt.Errorf("%q is a number, the values above are not: declare the column's type (cat)", cell)
		}
		return c.addWord(cell)
	}
	switch {
	case !number && c.declared:
		return fmt.Errorf("%q is not a number, but the column is declared %v", cell, c.kind)
	case !number:
		return fmt.Errorf("%q is not a number, the values above are: repair it, or declare the column's type (cat)",
			cell)
	case math.IsNaN(v) || math.IsInf(v, 0):
		return fmt.Errorf("%s is not a finite number: leave the row out or repair it", cell)
	case v != math.Trunc(v):
		if c.declared && c.kind == Integer {
			return fmt.Errorf("%s is not a whole number, but the column is declared int", cell)
		}
		c.fraction = true
	}
	c.values = append(c.values, v)
	return nil
}

func (c *columnReader) addWord(word string) error {
	k, ok := c.code[word]
	if !ok {
		if len(c.words) == maxLevels {
			return fmt.Errorf("more than %d different values: a name or identifier does not belong in the data",
				maxLevels)
		}
		if c.code == nil {
			c.code = map[string]int{}
		}
		k = len(c.words)
		word = strings.Clone(word)
		c.code[word] = k
		c.words = append(c.words, word)
	}
	c.values = append(c.values, float64(k))
	return nil
}

func (c *columnReader) column() Column {
	if c.kind != Categorical {
		kind := c.kind
		if !c.declared && !c.fraction {
			kind = Integer
		}
		return Column{Name: c.name, Kind: kind, Values: c.values}
	}
	out := NewCategorical(c.name, c.words) // sorts the words; below, codes are renumbered
	for r, v := range c.values {
		c.values[r] = out.Values[int(v)]
	}
	out.Values = c.values
	return out
}

// WriteCSV writes the table in the form that [ReadCSV] reads.
func (t *Table) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if err := out.Write(t.Names()); err != nil {
		return err
	}
	record := make([]string, t.Len())
	for r := range t.rows {
		for i := range t.columns {
			c := &t.columns[i]
			if c.Kind == Categorical {
				record[i] = c.Levels[int(c.Values[r])]
			} else {
				record[i] = strconv.FormatFloat(c.Values[r], 'g', -1, 64)
			}
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
