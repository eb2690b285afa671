package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/workload"
)

// table describes a format of lines and fields: columns are found by name, in
// any order, and columns it does not know are left out.
type table struct {
	// sep separates fields, which have no quotes. Default: quoted does.
	sep byte
	// quoted separates fields that may be in quotes. Default: a comma.
	quoted byte
	// exact says that the names of columns hold no alternatives, anyCase that they are in upper or lower case.
	exact, anyCase bool
	// required and optional columns. A column with several names has
	// slashes between them: the first one found counts.
	required []string
	optional []string
	// given is the header of a table that has none.
	given string
	// bare recognises the first row of a table without header, whose columns are
	// then the required ones, in their order. Default: there is a header.
	bare func(fields [][]byte) bool
	// begin gets the columns that the header has; it may be nil.
	begin func(in *input, has func(column string) bool)
	// row makes a job of a row. Columns count through required, then optional.
	// It uses the checks of csvRow, which note the first fault.
	row func(r *csvRow) workload.Job
	// fold, instead of row, adds a row to input.state, unless the row
	// has a fault.
	fold func(r *csvRow)
}

func (t *table) names() []string {
	return append(t.required[:len(t.required):len(t.required)], t.optional...)
}

const (
	noColumn  = -1
	twoColumn = -2
)

// columnOf finds a column by its names.
func (t *table) columnOf(fields [][]byte, names string) int {
	sep := "/"
	if t.exact {
		sep = "\n" // in no header
	}
	for name := range strings.SplitSeq(names, sep) {
		at := noColumn
		for c, f := range fields {
			if f = bytes.TrimSpace(f); string(f) == name || t.anyCase && strings.EqualFold(string(f), name) {
				if at >= 0 {
					return twoColumn
				}
				at = c
			}
		}
		if at >= 0 {
			return at
		}
	}
	return noColumn
}

func (t *table) read(in *input) error {
	r := &csvRow{in: in, names: t.names()}
	line, rows, err := t.header(in, r)
	for ; err == nil && line != nil; line, err = in.next() {
		if len(line) == 0 || bytes.Equal(line, rows.header) || isRuler(line) {
			continue
		}
		at, reason := in.line, ""
		if line, r.fields, reason, err = rows.next(line, r.fields[:0]); err != nil {
			return err
		}
		in.line = at
		if err := in.row(); err != nil {
			return err
		}
		if reason != "" {
			in.reject("line", reason, line)
			continue
		}
		t.take(r)
	}
	return err
}

// take makes a job of the row's fields.
func (t *table) take(r *csvRow) {
	in := r.in
	r.badReason, r.out = "", ""
	var j workload.Job
	if t.fold != nil {
		t.fold(r)
	} else {
		j = t.row(r)
	}
	switch {
	case r.badReason != "":
		in.reject(r.name(r.bad), r.badReason, r.value(r.bad))
	case r.out != "":
		in.report.leaveOut(r.out)
	case t.fold == nil:
		in.add(&j, r.name(0))
	}
}

// header reads comments and the header, finds the columns, and returns the first line below, nil if there is none.
func (t *table) header(in *input, r *csvRow) (first []byte, x *rows, err error) {
	for {
		line, err := in.next()
		if err != nil {
			return nil, nil, err
		}
		if line == nil {
			return nil, nil, fmt.Errorf("%w: there is no header", ErrFormat)
		}
		if len(line) == 0 {
			continue
		}
		if line[0] == '#' {
			if err := in.comment(string(line)); err != nil {
				return nil, nil, fmt.Errorf("line %d: %w", in.line, err)
			}
			continue
		}
		named := cmp.Or(t.given, string(line))
		fields, reason := t.split([]byte(named), nil)
		if reason != "" {
			return nil, nil, fmt.Errorf("%w: line %d: the header %s", ErrFormat, in.line, reason)
		}
		r.column = make([]int, len(r.names))
		if t.bare != nil && t.bare(fields) {
			for i := range r.column {
				r.column[i] = i
			}
			r.bare = true
			return line, newRows(in, t, nil, nil, len(fields)), nil
		}
		x := newRows(in, t, []byte(named), fields, len(fields))
		for i, name := range r.names {
			r.column[i] = t.columnOf(fields, name)
			if r.column[i] == twoColumn {
				return nil, nil, fmt.Errorf("%w: line %d: the header names %s twice", ErrFormat, in.line, name)
			}
			if r.column[i] < 0 && i < len(t.required) {
				return nil, nil, fmt.Errorf("%w: line %d: the header lacks %s; it is %s",
					ErrFormat, in.line, strings.ReplaceAll(name, "/", " or "), lines.Excerpt(line))
			}
			if c := r.column[i]; c >= 0 {
				r.names[i] = string(bytes.TrimSpace(fields[c])) // as this file has it
			}
		}
		if t.begin != nil {
			t.begin(in, func(column string) bool { return t.columnOf(fields, column) >= 0 })
		}
		if t.given != "" {
			in.note("there is no header: the columns are taken to be " + strings.ReplaceAll("|"+t.given+"|", "||", "|?|"))
			return line, x, nil
		}
		if line, err = in.next(); err == nil && isRuler(line) {
			line, err = in.next()
		}
		return line, x, err
	}
}

// isRuler reports whether a line is one of dashes, as programs draw it below a header.
func isRuler(line []byte) bool {
	return len(bytes.Trim(line, "-=+|:,; \t")) == 0 && bytes.Contains(line, []byte("--"))
}

func (t *table) split(line []byte, dst [][]byte) (fields [][]byte, reason string) {
	if t.sep == 0 {
		return splitAt(line, cmp.Or(t.quoted, ','), dst)
	}
	for {
		i := bytes.IndexByte(line, t.sep)
		if i < 0 {
			return append(dst, line), ""
		}
		dst, line = append(dst, line[:i]), line[i+1:]
	}
}

// tables make a format of several tables: a file is of the first that matches.
type tables []*table

func (ts tables) matches(head []byte) bool { return ts.of(head) != nil }

func (ts tables) of(head []byte) *table {
	for _, t := range ts {
		if t.matches(head) {
			return t
		}
	}
	return nil
}

func (ts tables) read(in *input) error {
	head, err := in.source.Peek()
	if err != nil {
		return err
	}
	t := ts.of(head)
	if t == nil {
		var want strings.Builder
		for _, t := range ts {
			want.WriteString("\n  " + t.title())
		}
		return fmt.Errorf("%w: it begins with %s; its tables are:%s",
			ErrFormat, lines.Excerpt(lines.Header(head)), want.String())
	}
	return t.read(in)
}
