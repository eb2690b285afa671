package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/chart"
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

// TestResultIsShownThatIsNotDrawn: a result is not lost with the file of its figures.
func TestResultIsShownThatIsNotDrawn(t *testing.T) {
	print := func(w io.Writer) error {
		_, err := io.WriteString(w, "the result\n")
		return err
	}
	page := func() (*chart.Page, error) { return NewPage("test", false, "It is so.", print) }
	for _, path := range []string{"", filepath.Join(t.TempDir(), "missing", "x.html"),
		filepath.Join(t.TempDir(), "x.svg")} { // without figures
		var out strings.Builder
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		plot := PlotFlag{Path: path}
		if err := plot.Show(cmd, false, "test/v1", nil, page, print); (err == nil) != (path == "") {
			t.Errorf("--plot %q: %v", path, err)
		}
		if want := "It is so.\n\nthe result\n"; out.String() != want {
			t.Errorf("--plot %q: %q", path, &out)
		}
	}
}
