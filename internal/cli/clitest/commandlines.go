package clitest

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/testshared"
)

// VisitCommands calls f for every command of the tree.
func VisitCommands(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, sub := range cmd.Commands() {
		VisitCommands(sub, f)
	}
}

// CommandLines are the calls of a program in a text, as words: lines of code
// that begin with its name, or have it behind a pipe, && or "do". Comments and
// redirections are left out.
func CommandLines(program, text string) [][]string {
	callLine := regexp.MustCompile(`^\s*(?:bin/|"\$)?` + program + `"? ([a-z-].*)`)
	var out [][]string
	text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, " ")
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		line, _, _ = strings.Cut(line, " #")
		for _, part := range regexp.MustCompile(`\||&&|;|&$|\d?>| <\w`).Split(line, -1) {
			if m := callLine.FindStringSubmatch(part); m != nil { // not a table's cell about the method
				out = append(out, ShellWords(m[1]))
			}
		}
	}
	return out
}

// ShellWords splits at blanks outside quotes.
func ShellWords(text string) []string {
	var out []string
	for _, w := range regexp.MustCompile(`(?:"[^"]*"|'[^']*'|\S)+`).FindAllString(text, -1) {
		out = append(out, strings.NewReplacer(`"`, "", `'`, "").Replace(w))
	}
	return out
}

// Refusal says why a command line is none that autosched takes, "" if it is one. A tree of commands that
// parsed others before is much cheaper than a new one; its refusals may be due to them.
func Refusal(args []string) string {
	if refusal(usedTree(), args) == "" {
		return ""
	}
	return refusal(NewRoot(), args)
}

var usedTree = sync.OnceValue(func() *cobra.Command { return NewRoot() })

func refusal(root *cobra.Command, args []string) string {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err.Error()
	}
	if cmd.HasSubCommands() && len(cmd.Flags().Args()) == 0 && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return cmd.CommandPath() + " has no command " + rest[0]
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err.Error()
	}
	if cmd.Args != nil {
		if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil {
			return err.Error()
		}
	}
	return ""
}

// Documents are the files with command lines for people.
func Documents(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(testshared.Root(t), func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "out", "bin", "testdata", "node_modules"}, d.Name()):
			return fs.SkipDir
		case !d.IsDir() && slices.Contains([]string{".md", ".sh"}, filepath.Ext(p)) && d.Name() != "CHANGELOG.md" &&
			d.Name() != "generate.sh":
			out = append(out, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
