package arch

import (
	"bytes"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxColumns is how wide a line of Go or of a .proto may be; a tab counts as four columns.
const MaxColumns = 120

// bannedNames are words that no declared identifier may contain, with the
// standard term. They are matched against the words of a camel-case name.
var bannedNames = map[string]string{
	"told":     "reported, handover",
	"nobody":   "none",
	"somebody": "any",
	"whoever":  "each",
	"ripens":   "retry",
	"meet":     "describe",
	"enrol":    "init",
	"mend":     "repair",
}

// bannedTexts are paraphrases that neither a comment, nor a text of the program,
// nor a page may contain, with replacements.
var bannedTexts = []struct {
	re   *regexp.Regexp
	want string
}{
	{regexp.MustCompile(`(?i)\b(nobody|somebody|whoever)\b`), "no job, a job, each job: the noun"},
	{regexp.MustCompile(`(?i)\bso many\b`), "the number"},
	{regexp.MustCompile(`(?i)\b(goes|go|went|gone|going) by\b`), "uses, is ordered by"},
	{regexp.MustCompile(`(?i)\b(is|are|was|were|be|been|being|not) told\b`), "receives, is reported"},
	{regexp.MustCompile(`(?i)\btells\b`), "shows, reports, says"},
	{regexp.MustCompile(`(?i)\b((came|comes) of|(become|becomes|became) of)\b`), "the outcome of, results from"},
	{regexp.MustCompile(`(?i)\bwho (pays|runs?|waits?|is|was|may|has|had|does|gets)\b`), "which jobs, which tenants: the noun"},
	{regexp.MustCompile(`(?i)\bfared\b`), "the results of"},
	{regexp.MustCompile(`(?i)\bin vain\b`), "without effect"},
	{regexp.MustCompile(`(?i)\bof its own accord\b`), "by itself"},
	{regexp.MustCompile(`(?i)\bas it stands\b`), "unchanged"},
	{regexp.MustCompile(`(?i)\bplay(s|ed)\b`), "simulates, replays, runs"},
	{regexp.MustCompile(`(?i)\b(lets?|letting) .{1,20} rest\b`), "pauses"},
	{regexp.MustCompile(`(?i)\b(used to (be|have|say)|earlier builds?)\b`),
		"the present state: history belongs into the log"},
	{regexp.MustCompile(`\b(DESIGN( section|\.md)|HOUSE\.md|SERVICE\.md|SLURM\.md)`), "a page of this repository"},
}

// words checks a Go file's line lengths, identifiers, comments and texts; of tests, the
// texts of commands only.
func (c *checker) words(p string, fset *token.FileSet, f *ast.File, data []byte) {
	names := map[string]bool{} // declared here
	declare := func(idents ...ast.Expr) {
		for _, e := range idents {
			if id, ok := e.(*ast.Ident); ok {
				names[id.Name] = true
			}
		}
	}
	verbatim := map[int]bool{} // lines of raw strings and of strings that cross the limit
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			declare(n.Name)
		case *ast.TypeSpec:
			declare(n.Name)
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.Field:
			for _, name := range n.Names {
				declare(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				declare(n.Lhs...)
			}
		case *ast.RangeStmt:
			declare(n.Key, n.Value)
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			end := fset.Position(n.End())
			if n.Value[0] == '`' || columns(data[end.Offset-end.Column+1:end.Offset]) >= MaxColumns {
				for line := fset.Position(n.Pos()).Line; line <= fset.Position(n.End()).Line; line++ {
					verbatim[line] = true
				}
			}
			if within(p, "cmd") || !strings.HasSuffix(p, "_test.go") && !within(p, "internal/arch") {
				if s, err := strconv.Unquote(n.Value); err == nil {
					c.text(p, fset.Position(n.Pos()).Line, s)
				}
			}
		}
		return true
	})
	c.lines(p, data, verbatim)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, w := range camelWords(name) {
			if want, banned := bannedNames[w]; banned {
				c.add(p, "the name %s has the word %q: the field says %s", name, w, want)
			}
		}
	}
	for _, g := range f.Comments {
		c.text(p, fset.Position(g.Pos()).Line, g.Text())
	}
}

// lines checks the width of all but verbatim lines.
func (c *checker) lines(p string, data []byte, verbatim map[int]bool) {
	for i, line := range bytes.Split(data, []byte("\n")) {
		if n := columns(line); n > MaxColumns && !verbatim[i+1] {
			c.add(p, "line %d has %d columns, at most %d", i+1, n, MaxColumns)
		}
	}
}

// text checks prose that begins on a line. Line breaks count as blanks.
func (c *checker) text(p string, line int, s string) {
	flat := strings.Join(strings.Fields(s), " ")
	flat = strings.ReplaceAll(flat, "told apart", "distinguished")
	for _, b := range bannedTexts {
		if m := b.re.FindString(flat); m != "" {
			c.add(p, "line %d: the text has %q: write %s", line, m, b.want)
		}
	}
}

// page checks the prose of a page, template or script, paragraph by paragraph. The log of
// changes is history and is left out.
func (c *checker) page(p, s string) {
	if p == "CHANGELOG.md" {
		return
	}
	line := 1
	for _, paragraph := range strings.SplitAfter(s, "\n\n") {
		c.text(p, line, paragraph)
		line += strings.Count(paragraph, "\n")
	}
}

func columns(line []byte) int {
	return utf8.RuneCount(line) + 3*bytes.Count(line, []byte("\t"))
}

// camelWords splits a name into its words, in lower case.
func camelWords(name string) []string {
	var words []string
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) || runes[i] == '_' {
			if w := strings.Trim(string(runes[start:i]), "_"); w != "" {
				words = append(words, strings.ToLower(w))
			}
			start = i
		}
	}
	return words
}
