package arch

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// link matches the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// heading matches a Markdown heading.
var heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)

// links checks a page's links into the repository: the file or directory must exist,
// and its anchor must be a heading.
func (c *checker) links(repo fs.FS, p string, data []byte) {
	for _, m := range link.FindAllStringSubmatch(string(data), -1) {
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		target, anchor, _ := strings.Cut(m[1], "#")
		to, text := p, data
		if target != "" {
			to = path.Join(path.Dir(p), target)
			if _, err := fs.Stat(repo, to); err != nil {
				c.add(p, "links to %s, which is not there", m[1])
				continue
			}
			if path.Ext(to) == ".md" && anchor != "" {
				var err error
				if text, err = fs.ReadFile(repo, to); err != nil {
					c.add(p, "links to %s: %v", m[1], err)
					continue
				}
			}
		}
		if anchor != "" && path.Ext(to) == ".md" && !hasAnchor(string(text), anchor) {
			c.add(p, "links to %s, but %s has no such heading", m[1], to)
		}
	}
}

// hasAnchor reports whether a heading has the given GitHub anchor: lower case,
// hyphens for blanks, without most punctuation.
func hasAnchor(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(strings.TrimSpace(m[1])) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
				b.WriteRune(r)
			}
		}
		if b.String() == anchor {
			return true
		}
	}
	return false
}

// MaxPages and MaxWords are the numbers of pages in docs and of their words, without docs/reference, docs/notes and
// the page of results, which is generated.
const (
	MaxPages = 25
	MaxWords = 43500
)

// index checks that docs/README.md lists every page of docs, and that there are not too many or too long ones.
func (c *checker) index(repo fs.FS) error {
	pages, err := fs.Glob(repo, "docs/*.md")
	if err != nil || len(pages) < 2 { // one page needs no index
		return err
	}
	text, err := fs.ReadFile(repo, "docs/README.md")
	if err != nil {
		return fmt.Errorf("arch: %w", err)
	}
	words, n := 0, 0
	for _, p := range pages {
		page, err := fs.ReadFile(repo, p)
		if err != nil {
			return fmt.Errorf("arch: %w", err)
		}
		if p != "docs/paper.md" {
			n++
			words += len(bytes.Fields(page))
		}
		if name := path.Base(p); name != "README.md" && !strings.Contains(string(text), "]("+name+")") {
			c.add("docs/README.md", "does not list %s", name)
		}
	}
	if n > MaxPages || words > MaxWords {
		c.add("docs", "has %d pages of %d words, at most %d of %d", n, words, MaxPages, MaxWords)
	}
	return nil
}
