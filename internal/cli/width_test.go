package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFitted: a line has as many items as its width has room for, and says how many it leaves out; a line without room
// has them below it.
func TestFitted(t *testing.T) {
	items := strings.Fields(strings.Repeat("parameter=value ", 9))
	var b strings.Builder
	if err := Fitted(&b,
		"short  \n"+strings.Repeat("x", 90)+"  \nnone  \n", [][]string{items, items, nil}); err != nil {
		t.Fatal(err)
	}
	want := "short  " + strings.Repeat("parameter=value ", 5) + "and 4 more\n" + strings.Repeat("x", 90) + "\n      " +
		strings.Repeat("parameter=value ", 5) + "and 4 more\nnone\n"
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", &b, want)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > unknownWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if text := fit(items[:2], 31); text != "parameter=value parameter=value" {
		t.Error(text)
	}
	if text := fit(items[:2], 30); text != "parameter=value and 1 more" {
		t.Error(text)
	}
}

// TestProse: lines are no wider than the output, and words stay whole.
func TestProse(t *testing.T) {
	var b strings.Builder
	text := strings.Repeat("word ", 50) + "end."
	Prose(&b, "   ", text)
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > unknownWidth || !strings.HasPrefix(line, "   word") &&
			!strings.HasPrefix(line, "   end") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if got := strings.Join(strings.Fields(b.String()), " "); got != text {
		t.Error(got)
	}
}

// TestFigures: columns stand two apart, or one where the table is too wide.
func TestFigures(t *testing.T) {
	for _, tt := range []struct{ rows, want string }{
		{"a\tbb\t\n10\t2\t\n", "   a  bb\n  10   2\n"},
		{strings.Repeat("12345678\t", 13) + "\n", strings.Repeat(" 12345678", 13) + "\n"},
	} {
		var b strings.Builder
		if err := Figures(&b, tt.rows); err != nil || b.String() != tt.want {
			t.Errorf("%v: %q, want %q", err, &b, tt.want)
		}
	}
}
