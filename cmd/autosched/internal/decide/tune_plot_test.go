package decide

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestTunePlot: each file has its format, draws the varied parameters, and the same
// search gives the same bytes.
func TestTunePlot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	args := func(path string) []string {
		return []string{"tune", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--nodes", "20", "--set",
			"queues=1", "--budget", "14", "--futures", "3", "--sampler", "auto", "--plot", path}
	}
	draw := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if code, _, errs := clitest.Run(args(path)...); code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	svg, page := draw("a.svg"), draw("a.html")
	if !strings.HasPrefix(svg, "<?xml") || !strings.HasPrefix(page, "<!DOCTYPE html>") ||
		!strings.HasPrefix(draw("a.png"), "\x89PNG") {
		t.Error("a file is not of the format it is named for")
	}
	for _, want := range []string{"best so far", "queue_thresholds 1", "starve_limit", "incumbent"} {
		if !strings.Contains(svg, want) || !strings.Contains(page, want) {
			t.Errorf("%q is not drawn", want)
		}
	}
	if !strings.Contains(page, "synthetic") || strings.Contains(page, "<?xml") || strings.Contains(page, "src=") ||
		strings.Contains(page, "href=\"http") {
		t.Error("the page is not one that stands alone, or does not say that the trace is synthetic")
	}
	if svg != draw("b.svg") {
		t.Error("the same search is drawn otherwise")
	}
	if code, _, errs := clitest.Run(args(filepath.Join(dir, "a.gif"))...); code != 2 || !strings.Contains(errs, "--plot") {
		t.Errorf("exit %d for a .gif: %s", code, errs)
	}

	code, out, errs := clitest.Run(append(args(filepath.Join(dir, "c.svg")), "--json")...)
	if code != 0 {
		t.Fatal(errs)
	}
	var got struct {
		Ratio            float64 `json:"controllable_ratio"`
		Interval         *struct{ Low, High float64 }
		Stopped, Sampler string
		Choice           string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Interval == nil || got.Interval.Low > got.Ratio || got.Interval.High < got.Ratio ||
		got.Stopped != "budget" || got.Sampler != "auto" || got.Choice == "" {
		t.Errorf("%+v", got)
	}
}
