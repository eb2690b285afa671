// Package table writes tables and sentences in lines that fit the output.
package table

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/text/width"
)

// Unknown is the width of sentences and lists, in columns, where the output is no terminal and COLUMNS is not set.
// There a row of a table is one line, as programs such as grep need it.
const Unknown = 120

// Terminal is the number of columns of a terminal to which a writer leads, or 0.
func Terminal(w io.Writer) int {
	if l, ok := w.(*Lines); ok {
		return Terminal(l.output)
	}
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			return int(size.Col)
		}
	}
	return 0
}

// kept is a writer of a text that is no output of a terminal.
type kept struct{ io.Writer }

// Kept returns a writer of a text in a file: its width is not known, whatever COLUMNS says.
func Kept(w io.Writer) io.Writer { return kept{w} }

// known is the number of columns of a terminal. Elsewhere it is that of the environment variable COLUMNS, or 0.
func known(w io.Writer) int {
	if _, ok := w.(kept); ok {
		return 0
	}
	if n := Terminal(w); n > 0 {
		return n
	}
	n, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// Width is the number of columns of a terminal. Elsewhere it is that of the environment variable COLUMNS, or Unknown.
func Width(w io.Writer) int { return cmp.Or(known(w), Unknown) }

// Wrap breaks a text at blanks into lines of at most limit columns; longer words stand alone.
func Wrap(text string, limit int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && columns(line)+1+columns(word) > limit {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// Prose writes sentences in lines that fit the output and have at most Unknown columns, each after an indent.
func Prose(w io.Writer, indent, text string) {
	for _, line := range Wrap(text, min(Width(w), Unknown)-len(indent)) {
		fmt.Fprintln(w, indent+line)
	}
}

// Lines breaks lines that are too wide for the output at blanks. The further lines of one begin where the text behind
// its label does. Command lines and flags stay whole.
type Lines struct {
	out, output io.Writer
	one         sync.Mutex
	begun       string // of a line
}

// NewLines returns a writer to out, with lines as wide as an output to which that leads.
func NewLines(out, output io.Writer) *Lines { return &Lines{out: out, output: output} }

// Write writes the lines that end in the text.
func (l *Lines) Write(b []byte) (int, error) {
	l.one.Lock()
	defer l.one.Unlock()
	l.begun += string(b)
	k := strings.LastIndexByte(l.begun, '\n') + 1
	text := l.begun[:k]
	l.begun = l.begun[k:]
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(l.fitted(strings.TrimSuffix(line, "\n")) + "\n")
	}
	if _, err := io.WriteString(l.out, out.String()); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (l *Lines) fitted(line string) string {
	text, width := strings.TrimSpace(line), known(l)
	if width == 0 || strings.HasPrefix(text, "--") || strings.HasPrefix(text, "autosched ") {
		return line
	}
	k := label(line)
	return strings.Join(hang(line[:k], line[k:], columns(line[:k]), width), "\n")
}

// Flush writes a line that has not ended.
func (l *Lines) Flush() error {
	l.one.Lock()
	defer l.one.Unlock()
	_, err := io.WriteString(l.out, l.fitted(l.begun))
	l.begun = ""
	return err
}

// Whole returns a writer to the output of [Lines] that leaves lines whole, for texts that are copied.
func Whole(w io.Writer) io.Writer {
	if l, ok := w.(*Lines); ok {
		return Whole(l.out)
	}
	return w
}

// widestLabel is the width, in columns, up to which the words before two blanks are a label.
const widestLabel = 24

// label is the width of the blanks and labels before a line's text.
func label(line string) int {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	for k := indent; k < min(len(line), widestLabel)-1; k++ {
		if line[k] == ' ' && line[k+1] == ' ' {
			k += 2 + len(line[k+2:]) - len(strings.TrimLeft(line[k+2:], " "))
			indent = k
		}
	}
	return indent
}

// Strong writes sentences as [Prose] does, in bold on a terminal unless the environment variable NO_COLOR is set.
func Strong(w io.Writer, text string) {
	w = Whole(w)
	bold := Terminal(w) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if bold {
		io.WriteString(w, "\x1b[1m")
		defer io.WriteString(w, "\x1b[0m")
	}
	Prose(w, "", text)
}

// Writer aligns rows of cells that tabs separate, as package tabwriter does, from what is written to it until Flush. A
// table that is too wide is written by the first of these ways that fits the width:
//
//   - numbers with one blank between columns instead of two;
//   - names of columns in several lines, and texts too;
//   - numbers in groups of columns, each beside the first column;
//   - each row as a paragraph, with a line for each cell.
//
// Words are never cut: one may be wider than the output. Lines without a tab stand between tables. Where the width is
// not known (see Unknown), rows stay lines.
type Writer struct {
	out     io.Writer
	width   int  // of lines, in columns
	whole   bool // rows are lines, however wide
	numbers bool
	header  bool // the first row has names of columns
	text    strings.Builder
	items   map[int][]string // by line
}

// New begins a table of texts, with a row of the columns' names unless they are empty.
func New(out io.Writer, names string) *Writer {
	t := &Writer{out: out, width: Width(out), whole: known(out) == 0, header: names != "", items: map[int][]string{}}
	if names != "" {
		fmt.Fprintln(t, names)
	}
	return t
}

// Numbers begins a table of numbers: columns end at the right, and the first row has their names.
func Numbers(out io.Writer, names string) *Writer {
	t := New(out, names)
	t.numbers, t.header = true, true
	return t
}

// Write adds text to the table.
func (t *Writer) Write(b []byte) (int, error) { return t.text.Write(b) }

// Items adds items behind the last row, as many as there is room for, with the number of the others.
func (t *Writer) Items(items []string) { t.items[strings.Count(t.text.String(), "\n")-1] = items }

// Flush writes the table.
func (t *Writer) Flush() error {
	text := t.text.String()
	if text == "" {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	var out []string
	header := t.header
	for i := 0; i < len(lines); {
		b := block{Writer: t, header: header}
		for ; i < len(lines) && strings.Contains(lines[i], "\t"); i++ {
			b.rows = append(b.rows, strings.Split(strings.TrimSuffix(lines[i], "\t"), "\t"))
			b.items = append(b.items, t.items[i])
		}
		if b.rows != nil {
			out, header = append(out, b.layout()...), false
		}
		for ; i < len(lines) && !strings.Contains(lines[i], "\t"); i++ {
			indent := len(lines[i]) - len(strings.TrimLeft(lines[i], " "))
			if t.whole {
				out = append(out, lines[i])
				continue
			}
			out = append(out, hang(lines[i][:indent], lines[i][indent:], indent, t.width)...)
		}
	}
	t.text.Reset()
	clear(t.items)
	for _, line := range out {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// hang returns a head with its text, in lines of a width whose further ones begin with an indent.
func hang(head, text string, indent, width int) []string {
	if columns(head+text) <= width {
		return []string{head + text}
	}
	lines := Wrap(text, width-indent)
	for i := range lines {
		lines[i] = head + lines[i]
		head = strings.Repeat(" ", indent)
	}
	return lines
}

// block is a table of lines that follow each other.
type block struct {
	*Writer
	header bool
	rows   [][]string
	items  [][]string // by row
}

func (b *block) layout() []string {
	gap := 2
	widths, least := b.widths()
	if b.numbers && b.total(widths, gap) > b.width {
		gap = 1
	}
	if b.whole || b.total(widths, gap) <= b.width {
		return b.cells(widths, nil, gap)
	}
	for b.total(widths, gap) > b.width {
		widest := -1
		for k, w := range widths {
			if w > least[k] && (widest < 0 || w > widths[widest]) {
				widest = k
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	switch {
	case b.total(widths, gap) <= b.width:
		return b.cells(widths, nil, gap)
	case b.numbers && len(widths) > 1 && gap+widths[0]+gap+slices.Max(widths[1:]) <= b.width:
		return b.groups(widths, gap)
	}
	return b.paragraphs()
}

// total is the width of lines with columns of the given widths.
func (b *block) total(widths []int, gap int) int {
	n := gap * (len(widths) - 1)
	if b.numbers {
		n += gap // before the first column
	}
	for _, w := range widths {
		n += w
	}
	return n
}

// columns is the number of columns that a terminal shows a text in (Unicode Standard Annex 11).
func columns(s string) (n int) {
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			n++
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf): // over the rune before, or not shown
		case isWide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

func isWide(r rune) bool {
	kind := width.LookupRune(r).Kind()
	return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
}

// leastRoom is the room, in columns, below which items begin a line of their own.
const leastRoom = 24

// fit joins the items that there is room for, at least one.
func fit(items []string, room int) string {
	text := items[0]
	for i, item := range items[1:] {
		left, more := len(items)-2-i, ""
		if left > 0 {
			more = fmt.Sprintf(" and %d more", left)
		}
		if columns(text+" "+item+more) > room {
			return fmt.Sprintf("%s and %d more", text, left+1)
		}
		text += " " + item
	}
	return text
}

// leastText is the width, in columns, below which a text is not broken into lines.
const leastText = 20

// widths are the widths of the columns with each cell in a line, and the least ones.
func (b *block) widths() (widths, least []int) {
	for i, row := range b.rows {
		for k, cell := range row {
			if k == len(widths) {
				widths, least = append(widths, 0), append(least, 0)
			}
			n, shortest := columns(cell), columns(cell)
			if name := b.header && i == 0; name || !b.numbers && n > leastText {
				shortest = 0
				for word := range strings.FieldsSeq(cell) {
					shortest = max(shortest, columns(word))
				}
				if !name {
					shortest = max(shortest, leastText)
				}
			}
			widths[k], least[k] = max(widths[k], n), max(least[k], shortest)
		}
	}
	return widths, least
}

// cells has lines for the columns of the given widths; of the given ones only, unless they are nil.
func (b *block) cells(widths, only []int, gap int) []string {
	var out []string
	for i, row := range b.rows {
		parts, lines := make([][]string, len(widths)), 1
		for k, cell := range row {
			if only == nil || slices.Contains(only, k) {
				parts[k] = []string{cell}
				if columns(cell) > widths[k] {
					parts[k] = Wrap(cell, widths[k])
				}
				lines = max(lines, len(parts[k]))
			}
		}
		for n := range lines {
			line := ""
			for k, w := range widths {
				if only != nil && !slices.Contains(only, k) {
					continue
				}
				cell, at := "", n
				if b.numbers { // names end above the numbers
					at -= lines - len(parts[k])
				}
				if at >= 0 && at < len(parts[k]) {
					cell = parts[k][at]
				}
				pad := strings.Repeat(" ", max(0, w-columns(cell)))
				if b.numbers {
					line += strings.Repeat(" ", gap) + pad + cell
				} else {
					line += cell + pad + strings.Repeat(" ", gap)
				}
			}
			out = append(out, line)
		}
		if items := b.items[i]; len(items) > 0 {
			end := len(out) - 1
			if lines > 1 || b.width-columns(out[end]) < leastRoom {
				out, end = append(out, strings.Repeat(" ", 6)), end+1
			}
			out[end] += fit(items, b.width-columns(out[end]))
		}
	}
	return out
}

// groups has the columns in groups that fit the width, each beside the first column.
func (b *block) groups(widths []int, gap int) []string {
	var out []string
	for k := 1; k < len(widths); {
		only, total := []int{0}, gap+widths[0]
		for ; k < len(widths) && total+gap+widths[k] <= b.width; k++ {
			only, total = append(only, k), total+gap+widths[k]
		}
		if out != nil {
			out = append(out, "")
		}
		out = append(out, b.cells(widths, only, gap)...)
	}
	return out
}

// paragraphs has a paragraph for each row.
func (b *block) paragraphs() []string {
	var out []string
	if !b.header {
		for _, row := range b.rows {
			out = append(out, hang("", strings.Join(row, "  "), 6, b.width)...)
		}
		return out
	}
	names, wide := b.rows[0], 0
	for _, name := range names {
		wide = max(wide, columns(name))
	}
	field := func(name, cell string) {
		text, indent := "  "+name+strings.Repeat(" ", wide-columns(name)+2), wide+4
		if b.width-indent < leastText {
			out, text, indent = append(out, hang("  ", name, 4, b.width)...), "      ", 6
		}
		lines := []string{cell}
		if columns(cell) > b.width-indent {
			lines = Wrap(cell, b.width-indent)
		}
		for _, line := range lines {
			out, text = append(out, text+line), strings.Repeat(" ", indent)
		}
	}
	for i, row := range b.rows[1:] {
		out = append(out, hang("", row[0], 4, b.width)...)
		for k := 1; k < len(row); k++ {
			if row[k] == "" {
				continue
			}
			name := ""
			if k < len(names) {
				name = names[k]
			}
			field(name, row[k])
		}
		if items := b.items[i+1]; len(items) > 0 {
			field(strings.Join(b.items[0], " "), fit(items, b.width-wide-4))
		}
	}
	return out
}
