package arch

import (
	"strings"
	"testing"
	"testing/fstest"
)

// accented is a package with 1,000 words of comments, among them the given ones.
func accented(words ...string) *fstest.MapFile {
	text := "Package space is made up.\n" + strings.Join(words, "\n") + "\n"
	n := len(word.FindAllString(text, -1))
	text += strings.Repeat("more\n", n%10) + strings.Repeat(strings.Repeat("more ", 10)+"\n", (1000-n-n%10)/10)
	for len(word.FindAllString(text, -1)) < 1000 {
		text += "more\n"
	}
	return &fstest.MapFile{Data: []byte("/*\n" + text + "*/\npackage space\n")}
}

func TestAccent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		table string
		words []string
		want  string // part of the one finding; empty for none
	}{
		{"at the cap", "", []string{"what", "What", "what", "those"}, ""},
		{"above the cap", "", []string{"what", "what", "what", "what"}, `"what" 4 times in 1000 words, at most 3`},
		{"too many of those", "", []string{"those", "those", "those", "those"}, `"those" 4 times`},
		{"a clause", "", []string{"is what", "x says what"}, `"is what" 2 times in 1000 words, at most 1`},
		{"at its row", "space 4 0 0\n", []string{"what", "what", "what", "what"}, ""},
		{"above its row", "# counts\n\nspace 4 0 0\n", []string{"what", "what", "what", "what", "what"}, "at most 4"},
		{"a row below the caps", "space 1 0 0\n", []string{"what", "what", "what"}, ""},
		{"below its row", "space 5 0 0\n", []string{"what", "what", "what", "what"}, "space is below its row"},
		{"a row of no package", "space/none 9 9 9\n", nil, "space/none is below its row"},
		{"another package's row", "other 4 0 0\n", []string{"what", "what", "what", "what"}, "at most 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			findings, err := Check(fstest.MapFS{
				"space/a.go": accented(tt.words...), AccentFile: {Data: []byte(tt.table)}})
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, f := range findings {
				if f.Path != AccentFile || !strings.Contains(f.Text, "other is below") {
					texts = append(texts, f.String())
				}
			}
			got := strings.Join(texts, "; ")
			if tt.want == "" && got != "" || len(texts) > 1 || !strings.Contains(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
	if _, err := Check(fstest.MapFS{"space/a.go": accented(), AccentFile: {Data: []byte("space 4\n")}}); err == nil ||
		!strings.Contains(err.Error(), AccentFile+":1: ") {
		t.Errorf("a short row: %v", err)
	}
}

// TestLowerAccents: the table only falls.
func TestLowerAccents(t *testing.T) {
	c, err := check(fstest.MapFS{
		"space/a.go":  accented("what", "what", "what", "what", "those"),
		"search/a.go": accented("what"),
		"round/a.go":  accented("those", "those", "those", "those"),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := string(c.lowerAccents(map[string]accent{"space": {what: 9}, "search": {what: 4}, "gone": {what: 4}}))
	if _, rows, _ := strings.Cut(got, "fall.\n"); rows != "space 4 0 0\n" {
		t.Errorf("the table is\n%s", got)
	}
}
