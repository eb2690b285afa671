package autoschedv1_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fieldLine = regexp.MustCompile(`^(repeated |optional )?(map<.*>|[\w.]+) \w+ = \d+`)
	otherLine = regexp.MustCompile(`^(service|rpc|enum) \w+`)
)

// TestDocumented: every service, method, enum and field of the protos has a comment. Fields in a row, and the fields
// of a oneof, may share one.
func TestDocumented(t *testing.T) {
	files, err := filepath.Glob("*.proto")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		for i, line := range lines {
			field := fieldLine.MatchString(line) && !strings.HasPrefix(line, "option ")
			if !field && !otherLine.MatchString(line) {
				continue
			}
			at := i - 1
			for field && (fieldLine.MatchString(lines[at]) || strings.HasPrefix(lines[at], "oneof ")) {
				at--
			}
			if !strings.HasPrefix(lines[at], "//") {
				t.Errorf("%s:%d: %s has no comment: say what it means, and its unit", file, i+1, line)
			}
		}
	}
}
