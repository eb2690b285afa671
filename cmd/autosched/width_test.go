package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// once are the commands that a second run after the first refuses.
var once = map[string]bool{"scheduler register": true, "admin backup": true, "admin restore": true,
	"admin migrate":           true,
	"scheduler config forget": true, "study create": true, "study trial add": true, "study trial stop": true,
	"study run": true, "study propose": true, "study delete": true, "scheduler workload upload": true,
	"scheduler workload delete": true}

// checkWidth runs a command for people in 80 columns. No line is wider, but for commands and names of files.
func checkWidth(t *testing.T, command string, args []string, dir string) {
	t.Helper()
	if once[command] {
		return
	}
	t.Setenv("COLUMNS", "80")
	code, out, errs := clitest.Run(args...)
	if code != 0 {
		t.Errorf("%s: exit %d: %s", command, code, errs)
	}
	for line := range strings.Lines(out) {
		n, text := utf8.RuneCountInString(line)-1, strings.TrimSpace(line)
		whole := strings.HasPrefix(text, "--") || strings.HasPrefix(text, "autosched ") || strings.Contains(text, dir)
		if n > 80 && !whole {
			t.Errorf("%s: %d columns: %s", command, n, line)
		}
	}
}
