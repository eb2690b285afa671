package arch

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestLinks(t *testing.T) {
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got, err := Check(fstest.MapFS{
		"space/a.go": page(file("space")),
		"README.md": page(
			"# A page\n\n[x](docs/a.md) [y](docs/none.md) [z](#a-page) [w](#no-page) " +
				"[v](https://example.org/none) [u](space)\n"),
		"docs/README.md": page("[a](a.md)"),
		"docs/a.md":      page("## What, `this`?\n[up](../README.md#a-page) [q](a.md#what-this) [no](../README.md#b)"),
		"docs/b.md":      page("text"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, f := range got {
		texts = append(texts, f.String())
	}
	want := []string{
		"README.md: links to docs/none.md, which is not there",
		"README.md: links to #no-page, but README.md has no such heading",
		"docs/README.md: does not list b.md",
		"docs/a.md: links to ../README.md#b, but README.md has no such heading",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("%q\nwant\n%q", texts, want)
	}
}
