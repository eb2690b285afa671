package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestHelpFits: no line of a help text is wider than the output, but for command lines, which are copied.
func TestHelpFits(t *testing.T) {
	seen := 0
	for columns, width := range map[string]int{"80": 80, "120": 120} {
		t.Setenv("COLUMNS", columns)
		clitest.VisitCommands(clitest.NewRoot(), func(cmd *cobra.Command) {
			for _, flag := range []string{"help", "help-all"} {
				if cmd.Flags().Lookup(flag) == nil {
					continue
				}
				var out bytes.Buffer
				cmd.SetOut(&out)
				if err := cmd.Flags().Set(flag, "true"); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Help(); err != nil {
					t.Fatal(err)
				}
				seen++
				if !strings.Contains(out.String(), "Usage:") {
					t.Errorf("%s --%s: %s", cmd.CommandPath(), flag, &out)
				}
				continued := false
				for line := range strings.Lines(out.String()) {
					text := strings.TrimSpace(line)
					command := continued || strings.HasPrefix(text, "autosched ")
					continued = command && strings.HasSuffix(text, "\\")
					if utf8.RuneCountInString(line)-1 > width && !command && strings.Contains(text, " ") {
						t.Errorf("%d columns, %s --%s: %s", width, cmd.CommandPath(), flag, text)
					}
				}
			}
		})
	}
	if seen < 240 {
		t.Errorf("%d help texts only", seen)
	}
}

// TestErrorsFit: an error is in lines that fit the output, and whole where its width is not known.
func TestErrorsFit(t *testing.T) {
	for _, columns := range []string{"80", ""} {
		t.Setenv("COLUMNS", columns)
		code, _, errs := clitest.Run("simulate", "--trace", "sample", "--scheduler", "psychic")
		lines, widest := strings.Split(strings.TrimSpace(errs), "\n"), 0
		for _, line := range lines {
			widest = max(widest, utf8.RuneCountInString(line))
		}
		if code != 2 || (widest > 80) != (columns == "") || (len(lines) > 2) != (columns == "80") {
			t.Errorf("COLUMNS=%s: exit %d, %d columns:\n%s", columns, code, widest, errs)
		}
	}
}
