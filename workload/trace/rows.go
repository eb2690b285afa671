package trace

import (
	"bytes"
	"io"
	"slices"
	"strings"
)

// Bounds of a row that text of users continues over several lines, and of the ways to cut it that are tried.
const (
	maxRowLines = 64
	maxCuts     = 10_000
)

const (
	otherWidth = "has another number of fields than the header"
	manyCuts   = "has text with the separator in it that can be cut in several ways"
)

// rows joins lines to rows and cuts these into fields. Programs such as sacct write text of users as it is: it may
// hold the separator and line breaks. Columns of a fixed form show where such text begins and ends.
type rows struct {
	in     *input
	t      *table
	header []byte // the line with the names, to know it again
	width  int
	free   []bool              // columns of text
	forms  []func([]byte) bool // of the others; nil fits all
	buf    []byte
	cuts   int
	found  []int // the part with which each column of the last cut begins
}

// newRows is for a table whose header was read, nil names if it has none.
func newRows(in *input, t *table, header []byte, names [][]byte, width int) *rows {
	x := &rows{in: in, t: t, header: bytes.Clone(header), width: width, free: make([]bool, width),
		forms: make([]func([]byte) bool, width)}
	for c, name := range names {
		column := strings.ToLower(string(bytes.TrimSpace(name)))
		if x.free[c] = t.sep != 0 && slices.Contains(freeText, column); !x.free[c] && t.sep != 0 {
			x.forms[c] = formOf(column)
		}
	}
	return x
}

// next returns the fields of the row that begins with a line, which may go on over the lines that follow.
func (x *rows) next(line []byte, dst [][]byte) (row []byte, fields [][]byte, reason string, err error) {
	if x.t.sep == 0 {
		if x.t.quoted != blank && bytes.IndexByte(line, '"') >= 0 && bytes.Count(line, quote)%2 == 1 {
			if line, err = x.closed(line); err != nil {
				return nil, nil, "", err
			}
		}
		if fields, reason = x.t.split(line, dst); reason == "" && len(fields) != x.width {
			reason = otherWidth
		}
		return line, fields, reason, nil
	}
	fields, _ = x.t.split(line, dst)
	if !slices.Contains(x.free, true) {
		if len(fields) != x.width {
			reason = otherWidth
		}
		return line, fields, reason, nil
	}
	ahead, held, err := x.in.ahead(line, &x.buf)
	if err != nil {
		return nil, nil, "", err
	}
	if &held[:1][0] != &line[:1][0] { // the line moved
		line = held
		fields, _ = x.t.split(line, dst)
	}
	if len(fields) == x.width && x.begins(ahead) {
		return line, fields, "", nil
	}
	return x.joined(line, dst)
}

var quote = []byte{'"'}

// begins reports whether a line begins a row: its first field has the form of the first column. So do the header,
// which appended files repeat, and the end.
func (x *rows) begins(ahead []byte) bool {
	if ahead == nil || x.forms[0] == nil {
		return true
	}
	first, _, _ := bytes.Cut(ahead, []byte{x.t.sep})
	return x.forms[0](first) || len(ahead) > 32 && bytes.HasPrefix(x.header, ahead[:min(len(ahead), len(x.header))])
}

// joined is a row of several lines, or one with separators in its text. Lines that begin no row continue the one
// before; where it lacks fields, so do others, as far as the line that completes it, unless that is nearer to the
// beginning of another row. If no way fits, the row is its first line.
func (x *rows) joined(line []byte, dst [][]byte) ([]byte, [][]byte, string, error) {
	buf := bytes.Clone(line)
	var more []pushedLine
	whole := false // a line that is a row by itself was added
	for {
		ahead, _, err := x.in.ahead(nil, nil)
		if err != nil {
			return nil, nil, "", err
		}
		var fields [][]byte
		reason := otherWidth
		last := line
		if len(more) > 0 {
			last = more[len(more)-1].text
		}
		lastIsRow := len(more) > 0 && x.begins(last) && x.fits(last)
		if whole = whole || lastIsRow; !lastIsRow && x.begins(ahead) {
			fields, reason = x.cut(buf, dst)
			if (reason == "" || reason == manyCuts) && (!whole || reason == "" && x.around(line, last, buf)) {
				return buf, fields, reason, nil
			}
		}
		begun := len(more) > 0 && x.begins(last) && !lastIsRow
		if ahead == nil || begun || len(more) == maxRowLines || len(buf) > x.in.opts.MaxLine {
			break
		}
		next, err := x.in.next()
		if err != nil {
			return nil, nil, "", err
		}
		if next == nil {
			break
		}
		more = append(more, pushedLine{bytes.Clone(next), x.in.line})
		buf = append(append(buf, '\n'), next...)
	}
	x.in.push(more)
	buf = buf[:len(line)]
	fields, reason := x.cut(buf, dst)
	return buf, fields, reason, nil
}

// fits reports whether a line is a row by itself.
func (x *rows) fits(line []byte) bool {
	fields, reason := x.cut(line, nil)
	for c := range fields {
		if reason == "" && x.forms[c] != nil && !x.forms[c](fields[c]) {
			return false
		}
	}
	return reason == ""
}

// around reports whether the last cut of a row of several lines took the columns of fixed form from its first and its
// last line, and so none from rows between them.
func (x *rows) around(first, last, row []byte) bool {
	sep := []byte{x.t.sep}
	head := bytes.Count(first, sep)
	tail := bytes.Count(row, sep) - bytes.Count(last, sep)
	for c, part := range x.found {
		if !x.free[c] && part >= head && part <= tail {
			return false
		}
	}
	return true
}

// closed adds lines to one with an open quote until it is closed. If it is not, the row is the line.
func (x *rows) closed(line []byte) ([]byte, error) {
	buf, n := bytes.Clone(line), len(line)
	var more []pushedLine
	for len(more) < maxRowLines && len(buf) <= x.in.opts.MaxLine {
		next, err := x.in.next()
		if err != nil {
			return nil, err
		}
		if next == nil {
			break
		}
		more = append(more, pushedLine{bytes.Clone(next), x.in.line})
		if buf = append(append(buf, '\n'), next...); bytes.Count(next, quote)%2 == 1 {
			return buf, nil
		}
	}
	x.in.push(more)
	return buf[:n], nil
}

// cut assigns the fields of a row to the columns: separators and line breaks that are too many belong to text. Several
// ways to do so must agree on all other columns.
func (x *rows) cut(row []byte, dst [][]byte) (fields [][]byte, reason string) {
	parts, _ := x.t.split(row, nil)
	surplus := len(parts) - x.width
	if surplus < 0 {
		return append(dst, parts...), otherWidth
	}
	var at, found []int // the part with which each column begins
	x.cuts = 0
	agree := true
	var try func(column, part int)
	try = func(column, part int) {
		if x.cuts++; x.cuts > maxCuts || !agree {
			return
		}
		if column == x.width {
			switch {
			case part != len(parts):
			case found == nil:
				found = slices.Clone(at)
			default:
				for c := range at {
					agree = agree && (x.free[c] || at[c] == found[c])
				}
			}
			return
		}
		left := x.width - column - 1
		if part+1+left > len(parts) {
			return
		}
		at = append(at, part)
		defer func() { at = at[:column] }()
		if !x.free[column] {
			if p := parts[part]; bytes.IndexByte(p, '\n') < 0 && (surplus == 0 || x.forms[column] == nil ||
				x.forms[column](p)) {
				try(column+1, part+1)
			}
			return
		}
		for end := part + 1; end+left <= len(parts); end++ {
			try(column+1, end)
		}
	}
	try(0, 0)
	switch {
	case found == nil:
		return append(dst, parts...), otherWidth
	case !agree || x.cuts > maxCuts:
		return append(dst, parts...), manyCuts
	}
	x.found = found
	for c, from := range found {
		to := len(parts)
		if c+1 < x.width {
			to = found[c+1]
		}
		field := parts[from]
		if to > from+1 {
			field = bytes.Join(parts[from:to], []byte{x.t.sep})
		}
		dst = append(dst, field)
	}
	return dst, ""
}

// freeText are the columns of Slurm's accounting that users and administrators write as they like.
var freeText = []string{"jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "extra",
	"constraints", "container", "reason", "stdout", "stderr", "stdin", "stdoutexpanded", "stderrexpanded",
	"stdinexpanded", "licenses", "wckey"}

// formOf is the form of a column of Slurm's accounting, nil if any text may stand there.
func formOf(column string) func([]byte) bool {
	switch column {
	case "jobid", "jobidraw", "id_job":
		return isJobID
	case "submit", "eligible", "start", "end":
		return func(b []byte) bool {
			_, ok := parseWallClock(b)
			return ok || absent(b) || isDigits(b)
		}
	case "state":
		return func(b []byte) bool { return len(b) > 0 && (b[0] >= 'A' && b[0] <= 'Z' || isDigits(b)) }
	case "alloctres", "reqtres":
		return func(b []byte) bool { return len(b) == 0 || bytes.IndexByte(b, '=') > 0 }
	case "elapsedraw", "nnodes", "ncpus", "allocnodes", "alloccpus", "cputimeraw", "uid", "gid", "priority":
		return func(b []byte) bool { return len(b) == 0 || isDigits(b) }
	case "elapsed":
		return func(b []byte) bool { return bytes.Count(b, []byte{':'}) == 2 || absent(b) || string(b) == "INVALID" }
	case "exitcode", "derivedexitcode":
		return func(b []byte) bool { return len(b) == 0 || bytes.Count(b, []byte{':'}) == 1 }
	}
	return nil
}

// isJobID recognises the id of a job or a step.
func isJobID(b []byte) bool {
	n := len(b) - len(bytes.TrimLeft(b, "0123456789"))
	return n > 0 && (n == len(b) || strings.IndexByte("_+.", b[n]) >= 0) && bytes.IndexByte(b, ' ') < 0
}

func isDigits(b []byte) bool { return len(b) > 0 && len(bytes.TrimLeft(b, "0123456789")) == 0 }

// pushedLine is a line that was read ahead.
type pushedLine struct {
	text   []byte
	number int
}

// push gives lines back, which next returns again.
func (in *input) push(lines []pushedLine) { in.pushed = append(slices.Clone(lines), in.pushed...) }

// ahead returns the beginning of the next line without reading it, nil at the end. It may move the present line, if
// one is given, to the buffer.
func (in *input) ahead(line []byte, buf *[]byte) (next, held []byte, err error) {
	const enough = 64
	if len(in.pushed) > 0 {
		return in.pushed[0].text, line, nil
	}
	if line != nil && in.source.Text.Buffered() < enough {
		*buf = append((*buf)[:0], line...)
		line = *buf
	}
	next, err = in.source.Text.Peek(enough)
	if len(next) == 0 {
		if err == io.EOF {
			err = nil
		}
		return nil, line, err
	}
	if end := bytes.IndexByte(next, '\n'); end >= 0 {
		next = bytes.TrimSuffix(next[:end], []byte{'\r'})
	}
	return next, line, nil
}
