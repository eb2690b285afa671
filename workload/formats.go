package workload

import (
	"bytes"
	"fmt"
	"strings"
)

// Format is a way to write a trace down. To add one, write a file that holds
// its reader and add its entry to Formats.
type Format struct {
	Name   string // as in ReadOptions.Format
	About  string // one sentence
	Header string // what it begins with, to show
	// detect recognises the format by the beginning of the text. At most one
	// format may recognise a text.
	detect func(head []byte) bool
	// read gives every row to input.add or input.reject.
	read func(*input) error
}

// Formats are the known formats, in order of name.
var Formats = []Format{
	autoschedFormat,
	phillyFormat,
	secondsFormat,
}

func formatNamed(name string) *Format {
	for i := range Formats {
		if Formats[i].Name == name {
			return &Formats[i]
		}
	}
	return nil
}

func formatNames() string {
	names := make([]string, len(Formats))
	for i := range Formats {
		names[i] = Formats[i].Name
	}
	return strings.Join(names, ", ")
}

// table describes a CSV format: columns are found by name, in any order, and
// columns it does not know are left out.
type table struct {
	required []string
	optional []string
	// begin is told what the header holds; it may be nil.
	begin func(in *input, has func(column string) bool)
	// row makes a job of a row. Columns count through required, then optional.
	// It uses the checks of csvRow, which note the first fault.
	row func(r *csvRow) Job
}

func (t *table) format(name, about string) Format {
	return Format{
		Name: name, About: about,
		Header: strings.Join(append(t.required[:len(t.required):len(t.required)], t.optional...), ","),
		detect: func(head []byte) bool {
			fields, reason := splitCSV(bytes.Clone(headerLine(head)), nil)
			if reason != "" {
				return false
			}
			for _, name := range t.required {
				if !hasColumn(fields, name) {
					return false
				}
			}
			return true
		},
		read: t.read,
	}
}

func hasColumn(fields [][]byte, name string) bool {
	for _, f := range fields {
		if string(bytes.TrimSpace(f)) == name {
			return true
		}
	}
	return false
}

func (t *table) read(in *input) error {
	r := &csvRow{in: in, names: append(t.required[:len(t.required):len(t.required)], t.optional...)}
	width, err := t.header(in, r)
	if err != nil {
		return err
	}
	for {
		line, err := in.next()
		if err != nil || line == nil {
			return err
		}
		if len(line) == 0 {
			continue
		}
		if err := in.row(); err != nil {
			return err
		}
		var reason string
		if r.fields, reason = splitCSV(line, r.fields[:0]); reason != "" {
			in.reject("line", reason, line)
			continue
		}
		if len(r.fields) != width {
			in.reject("line", "has another number of fields than the header", line)
			continue
		}
		r.badReason = ""
		j := t.row(r)
		if r.badReason != "" {
			in.reject(r.names[r.bad], r.badReason, r.value(r.bad))
			continue
		}
		in.add(j, r.names[0])
	}
}

// header reads comments and the header and finds the columns.
func (t *table) header(in *input, r *csvRow) (width int, err error) {
	for {
		line, err := in.next()
		if err != nil {
			return 0, err
		}
		if line == nil {
			return 0, fmt.Errorf("%w: there is no header", ErrFormat)
		}
		if len(line) == 0 {
			continue
		}
		if line[0] == '#' {
			if err := in.comment(string(line)); err != nil {
				return 0, fmt.Errorf("line %d: %w", in.line, err)
			}
			continue
		}
		fields, reason := splitCSV(line, nil)
		if reason != "" {
			return 0, fmt.Errorf("%w: line %d: the header %s", ErrFormat, in.line, reason)
		}
		r.column = make([]int, len(r.names))
		for i, name := range r.names {
			r.column[i] = -1
			for c, f := range fields {
				if string(bytes.TrimSpace(f)) != name {
					continue
				}
				if r.column[i] >= 0 {
					return 0, fmt.Errorf("%w: line %d: the header names %s twice", ErrFormat, in.line, name)
				}
				r.column[i] = c
			}
			if r.column[i] < 0 && i < len(t.required) {
				return 0, fmt.Errorf("%w: line %d: the header lacks %s", ErrFormat, in.line, name)
			}
		}
		if t.begin != nil {
			t.begin(in, func(column string) bool { return hasColumn(fields, column) })
		}
		return len(fields), nil
	}
}

// splitCSV cuts a line at its commas, as RFC 4180 has it but for line breaks in
// quotes. It changes the line where quotes are doubled. The fields are parts of
// the line, appended to dst; reason is not empty if the quotes make no sense.
func splitCSV(line []byte, dst [][]byte) (fields [][]byte, reason string) {
	for {
		if len(line) == 0 || line[0] != '"' {
			i := bytes.IndexByte(line, ',')
			if i < 0 {
				return append(dst, line), ""
			}
			dst, line = append(dst, line[:i]), line[i+1:]
			continue
		}
		field, i, n := line[1:], 0, 0
		for {
			if i >= len(field) {
				return dst, "has a quote that is not closed"
			}
			if field[i] == '"' {
				if i+1 >= len(field) || field[i+1] != '"' {
					break
				}
				i++
			}
			field[n] = field[i]
			n++
			i++
		}
		dst, line = append(dst, field[:n]), field[i+1:]
		if len(line) == 0 {
			return dst, ""
		}
		if line[0] != ',' {
			return dst, "has text after a closing quote"
		}
		line = line[1:]
	}
}
