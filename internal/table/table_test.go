package table

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func flushed(t *testing.T, w *Writer, b *bytes.Buffer, rows string) string {
	t.Helper()
	fmt.Fprint(w, rows)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestWays: a table is written in the first way that fits its width.
func TestWays(t *testing.T) {
	const text = "a\tb b\tsome words that are long enough to break into lines\n"
	const numbers = "row\ttwo words\tratio\tspread\none\t12\t1.000\t5 %\nthree\t4\t.5\t\n"
	for _, tt := range []struct {
		name    string
		numbers bool
		width   int
		rows    string
		want    string
	}{
		{"text", false, 80, "NAME\tKIND\tWORDS\n" + text,
			"NAME  KIND  WORDS\na     b b   some words that are long enough to break into lines\n"},
		{"runes of two columns and of none", false, 80, "NAME\tKIND\tWORDS\n研究组\tb b\tｆull\ne\u0301tude\tb\tc\n",
			"NAME    KIND  WORDS\n研究组  b b   ｆull\ne\u0301tude   b     c\n"},
		{"a paragraph of such", false, 30, "NAME\t研究\tWORDS\n" + text + text,
			strings.Repeat("a\n  研究   b b\n  WORDS  some words that are\n         long enough to break\n"+
				"         into lines\n", 2)},
		{"text in lines", false, 40, "NAME\tKIND\tWORDS\n" + text,
			"NAME  KIND  WORDS\na     b b   some words that are long\n            enough to break into lines\n"},
		{"a paragraph", false, 30, "NAME\tKIND\tWORDS\n" + text + text,
			strings.Repeat("a\n  KIND   b b\n  WORDS  some words that are\n         long enough to break\n"+
				"         into lines\n", 2)},
		{"numbers", true, 80, numbers, "    row  two words  ratio  spread\n    one         12  1.000     5 %\n" +
			"  three          4     .5\n"},
		{"numbers, closer", true, 30, numbers, "   row two words ratio spread\n   one        12 1.000    5 %\n" +
			" three         4    .5\n"},
		{"names in lines", true, 25, numbers, "         two\n   row words ratio spread\n   one    12 1.000    5 %\n" +
			" three     4    .5\n"},
		{"groups", true, 15, numbers, "         two\n   row words\n   one    12\n three     4\n\n" +
			"   row ratio\n   one 1.000\n three    .5\n\n   row spread\n   one    5 %\n three\n"},
		{"paragraphs of numbers", true, 10, numbers,
			"one\n  two\n    words\n      12\n  ratio\n      1.000\n  spread\n      5 %\n" +
				"three\n  two\n    words\n      4\n  ratio\n      .5\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			w := New(&b, "")
			w.header, w.numbers, w.width, w.whole = true, tt.numbers, tt.width, false
			if got := flushed(t, w, &b, tt.rows); got != tt.want {
				t.Errorf("\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestItems: a row has as many items as its width has room for, and says how many it leaves out; a row without room has
// them below it.
func TestItems(t *testing.T) {
	items := strings.Fields(strings.Repeat("parameter=value ", 9))
	var b bytes.Buffer
	w := New(&b, "")
	w.width = 100
	for _, cell := range []string{"short", strings.Repeat("x", 90)} {
		b.Reset()
		fmt.Fprintf(w, "%s\t\n", cell)
		w.Items(items)
		between := "  "
		if len(cell) > 5 {
			between = "\n      "
		}
		want := cell + between + strings.Repeat("parameter=value ", 5) + "and 4 more\n"
		if got := flushed(t, w, &b, ""); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	if text := fit(items[:2], 31); text != "parameter=value parameter=value" {
		t.Error(text)
	}
	if text := fit(items[:2], 30); text != "parameter=value and 1 more" {
		t.Error(text)
	}
}

// TestProse: lines are no wider than COLUMNS, and words stay whole.
func TestProse(t *testing.T) {
	t.Setenv("COLUMNS", "40")
	var b bytes.Buffer
	text := strings.Repeat("wörd ", 50) + "end."
	Prose(&b, "   ", text)
	for line := range strings.Lines(b.String()) {
		if n := columns(line) - 1; n > 40 || !strings.HasPrefix(line, "   ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if got := strings.Join(strings.Fields(b.String()), " "); got != text {
		t.Error(got)
	}
	for value, want := range map[string]int{"": Unknown, "wide": Unknown, "-1": Unknown, "77": 77} {
		t.Setenv("COLUMNS", value)
		if n := Width(&b); n != want {
			t.Errorf("COLUMNS=%s: %d columns, want %d", value, n, want)
		}
	}
}

// TestLines: further lines of a line begin where its text does, and commands stay whole.
func TestLines(t *testing.T) {
	t.Setenv("COLUMNS", "30")
	var b bytes.Buffer
	command := "  autosched tune --trace sample --at 2017-10-10T12:00:00Z"
	l := NewLines(&b, &b)
	fmt.Fprintf(l, "ok    include     a file of settings %s\n\na sentence that is too long for a line\n  note: %s\n%s\nend",
		"is in another", "of the words of a note, all of them", command)
	want := "ok    include     a file of\n" + strings.Repeat(" ", 18) + "settings is\n" + strings.Repeat(" ", 18) +
		"in another\n\na sentence that is too long\nfor a line\n  note: of the words of a\n  note, all of them\n" +
		command + "\nend"
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("\n%s\nwant\n%s", &b, want)
	}
}

// TestUnknownWidth: where nothing says how wide lines may be, each row is a line.
func TestUnknownWidth(t *testing.T) {
	t.Setenv("COLUMNS", "")
	var b bytes.Buffer
	row := strings.Repeat("some words\t", 20) + "\n"
	if got := flushed(t, New(&b, "NAME\tWORDS"), &b, row); strings.Count(got, "\n") != 2 {
		t.Errorf("%s", got)
	}
	l := NewLines(&b, &b)
	b.Reset()
	if fmt.Fprint(l, row); b.String() != row {
		t.Errorf("%s", &b)
	}
}

// TestTerminal: an answer is in bold on a terminal, in lines of its width, unless NO_COLOR is set.
func TestTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	end, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer end.Close()
	if err := unix.IoctlSetWinsize(int(end.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 20}); err != nil {
		t.Fatal(err)
	}
	for color, want := range map[string]string{"": "\x1b[1mit is better, and\r\nhow\r\n\x1b[0m",
		"1": "it is better, and\r\nhow\r\n"} {
		t.Setenv("NO_COLOR", color)
		Strong(NewLines(end, end), "it is better, and how")
		got := make([]byte, len(want))
		if _, err := io.ReadFull(master, got); err != nil || string(got) != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestAnyTable: every word of a table is in its lines, and no line is wider than its width but for a word alone.
func TestAnyTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := New(&b, "")
		w.header, w.numbers = rapid.Bool().Draw(t, "header"), rapid.Bool().Draw(t, "numbers")
		w.width, w.whole = rapid.IntRange(24, 90).Draw(t, "width"), false
		cell := rapid.StringMatching(`([a-zß]{1,12}( [a-zß]{1,12}){0,9})?`)
		rows := rapid.SliceOfN(rapid.SliceOfN(cell, 1, 9), 1, 5).Draw(t, "rows")
		for i, row := range rows {
			row[0] = fmt.Sprintf("r%d", i) // a row has a name
			fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, word := range strings.Fields(b.String()) {
			have[word] = true
		}
		for i, row := range rows {
			for _, word := range strings.Fields(strings.Join(row, " ")) {
				if !have[word] && !(w.header && i == 0) { // names of columns without a value are left out
					t.Fatalf("%q is not in\n%s", word, &b)
				}
			}
		}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			if columns(line) > w.width && !regexp.MustCompile(`^ *\S+$`).MatchString(line) {
				t.Fatalf("%d columns of %d: %q in\n%s", columns(line), w.width, line, &b)
			}
		}
	})
}

// TestOneColumn: a table of numbers with one column is written where it is too wide.
func TestOneColumn(t *testing.T) {
	t.Setenv("COLUMNS", "5")
	var out strings.Builder
	w := Numbers(&out, "seconds\t")
	fmt.Fprintln(w, "123456789\t")
	if err := w.Flush(); err != nil || !strings.Contains(out.String(), "123456789") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
