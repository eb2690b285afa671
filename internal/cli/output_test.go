package cli

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/table"
)

// TestPageText: the text in a page does not depend on COLUMNS.
func TestPageText(t *testing.T) {
	words := strings.Repeat("some words ", 20)
	text := func(columns string) string {
		t.Setenv("COLUMNS", columns)
		p, err := NewPage("test", false, "A message.", func(w io.Writer) error {
			table.Strong(w, words)
			rows := table.New(w, "NAME\tWORDS")
			fmt.Fprintf(rows, "a\t%s\n", words)
			return rows.Flush()
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Text
	}
	if narrow, none := text("40"), text(""); narrow != none {
		t.Errorf("with 40 columns:\n%s\nwithout:\n%s", narrow, none)
	}
}
