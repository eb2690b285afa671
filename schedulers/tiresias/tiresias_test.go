package tiresias_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/schedulers/tiresias"
	"github.com/autosched/autosched/space"
)

var update = flag.Bool("update", false, "write the results into testdata")

// TestExamples plays the worked examples in testdata. Each says what it shows.
func TestExamples(t *testing.T) {
	s, err := space.New(tiresias.Space(), tiresias.Rules())
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			tryout.Check(t, file, s, tiresias.New, *update)
		})
	}
}
