package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// AccentFile lists the packages above the caps of accent, with the counts that they may not
// exceed.
const AccentFile = "internal/arch/accent.txt"

// accent counts words of comments, tests included.
type accent struct {
	words int
	// clauses counts the predicates that begin with a form of "to be" or "to say" and a relative
	// clause; the others count their words.
	what, those, clauses int
}

// The caps of a package, per 1,000 words of comments. A package may have one of each.
const (
	maxWhat    = 3
	maxThose   = 3
	maxClauses = 1
)

var (
	word   = regexp.MustCompile(`[A-Za-z']+`)
	clause = regexp.MustCompile(`(?i)\b(is|are|was|were|says?)\s+what\b`)
)

func (a *accent) add(f *ast.File) {
	for _, g := range f.Comments {
		text := g.Text()
		for _, w := range word.FindAllString(text, -1) {
			a.words++
			switch strings.ToLower(w) {
			case "what":
				a.what++
			case "those":
				a.those++
			}
		}
		a.clauses += len(clause.FindAllString(text, -1))
	}
}

// cap returns the counts that the caps allow.
func (a *accent) cap() accent {
	most := func(per int) int { return max(1, per*a.words/1000) }
	return accent{what: most(maxWhat), those: most(maxThose), clauses: most(maxClauses)}
}

// above reports whether any count is above that of b.
func (a *accent) above(b accent) bool {
	return a.what > b.what || a.those > b.those || a.clauses > b.clauses
}

// accents checks the words of comments against the caps or, for packages that AccentFile
// lists, its counts. A repository without that file is not checked.
func (c *checker) accents(repo fs.FS) error {
	text, err := fs.ReadFile(repo, AccentFile)
	if err != nil {
		return nil
	}
	table, err := readAccents(text)
	if err != nil {
		return err
	}
	for dir, p := range c.packages {
		a, most := &p.accent, p.accent.cap()
		if t, ok := table[dir]; ok {
			most.what, most.those, most.clauses = max(most.what, t.what), max(most.those, t.those),
				max(most.clauses, t.clauses)
		}
		for _, n := range []struct {
			text      string
			got, most int
		}{{`"what"`, a.what, most.what}, {`"those"`, a.those, most.those}, {`"is what"`, a.clauses, most.clauses}} {
			if n.got > n.most {
				c.add(dir, "comments have %s %d times in %d words, at most %d: rewrite them, or move the package's row in %s along",
					n.text, n.got, a.words, n.most, AccentFile)
			}
		}
	}
	for dir, t := range table {
		a := accent{}
		if p := c.packages[dir]; p != nil {
			a = p.accent
		}
		if t.above(a) {
			c.findings = append(c.findings, Finding{Path: AccentFile, Advice: true, Text: fmt.Sprintf(
				"%s is below its row: 'go test ./internal/arch -run TestRepository -update' lowers it", dir)})
		}
	}
	return nil
}

func readAccents(text []byte) (map[string]accent, error) {
	out := map[string]accent{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		var dir string
		var a accent
		if _, err := fmt.Sscan(line, &dir, &a.what, &a.those, &a.clauses); err != nil {
			return nil, fmt.Errorf("arch: %s:%d: %w", AccentFile, i+1, err)
		}
		out[dir] = a
	}
	return out, nil
}

// lowerAccents returns the table with lower counts where packages are below their rows, and
// without the rows of packages within the caps. It raises no count and adds no row.
func (c *checker) lowerAccents(table map[string]accent) []byte {
	var b bytes.Buffer
	b.WriteString("# Packages whose comments have \"what\", \"those\" or the predicate \"is what\" more often than 3, 3 and 1\n" +
		"# times in 1,000 words, with the counts that they may not exceed. Counts only fall.\n")
	for _, dir := range slices.Sorted(maps.Keys(table)) {
		p := c.packages[dir]
		if p == nil || !p.accent.above(p.accent.cap()) {
			continue
		}
		t := table[dir]
		fmt.Fprintf(&b, "%s %d %d %d\n", dir, min(t.what, p.accent.what), min(t.those, p.accent.those),
			min(t.clauses, p.accent.clauses))
	}
	return b.Bytes()
}
