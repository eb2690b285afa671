package explain

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search/prune"
)

// TestCausalFromTrace goes from a trace to a graph and a page.
func TestCausalFromTrace(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	data, tiers := filepath.Join(dir, "runs.csv.zst"), filepath.Join(dir, "tiers.json.gz")
	trace := []string{"--trace", "sample", "--nodes", "10", "--to", "2017-10-10T12:00:00Z", "--segment", "6h",
		"--stride", "3h", "--configs", "10", "--json"}
	code, out, errs := clitest.Run(append([]string{"explain", "dataset", "--out", data, "--tiers-out", tiers},
		trace...)...)
	if code != 0 {
		t.Fatal(errs)
	}
	var made struct {
		Rows, Exhausted int
		Columns         []string
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Rows < 40 || len(made.Columns) < 15 {
		t.Fatalf("%v: %s", err, out)
	}
	if code, out, errs := clitest.Run("explain", "learn", "--data", data, "--tiers", tiers, "--json"); code != 0 ||
		!strings.Contains(out, "queue_change") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	pageStartsInForce(t, data, tiers)
	for _, bad := range [][]string{{"dataset", "--trace", "sample"},
		{"dataset", "--out", "x", "--tiers-out", "y", "--trace", "sample", "--configs", "0"}} {
		if code, _, _ := clitest.Run(append([]string{"explain"}, bad...)...); code != 2 {
			t.Errorf("%v: exit code %d, want 2", bad, code)
		}
	}
}

// pageStartsInForce checks that the sliders of the page begin at the configuration that
// the data were measured under, and that intervals of ratios are positive.
func pageStartsInForce(t *testing.T, data, tiers string) {
	t.Helper()
	code, out, errs := clitest.Run("explain", "page", "--data", data, "--tiers", tiers, "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var page struct {
		At    string
		Panel struct {
			Formula model.Formula
			Base    model.Point
		}
	}
	if err := json.Unmarshal([]byte(out), &page); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(page.At, "the configuration in force") {
		t.Errorf("the page starts at %s", page.At)
	}
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	columns := prune.NewColumns(s.Space)
	row := columns.Append(nil, s.Space.Default())
	checked := 0
	for i, c := range page.Panel.Formula.Columns {
		k := slices.Index(columns.Names(), c.Name)
		if k < 0 {
			continue
		}
		want := row[k]
		if c.Levels != nil {
			want = float64(slices.Index(c.Levels, columns.Column(k, nil).Levels[int(row[k])]))
		}
		if checked++; page.Panel.Base[i] != want {
			t.Errorf("%s starts at %v, want %v", c.Name, page.Panel.Base[i], want)
		}
	}
	if checked < 5 {
		t.Errorf("%d parameters have a slider", checked)
	}
	if code, out, errs = clitest.Run("explain", "whatif", "--data", data, "--tiers", tiers, "--set", "queues=1",
		"--json"); code != 0 {
		t.Fatal(errs)
	}
	var w struct{ Answers []model.Answer }
	if err := json.Unmarshal([]byte(out), &w); err != nil || len(w.Answers) != 1 || !(w.Answers[0].Low > 0) {
		t.Errorf("%v: %+v", err, w.Answers)
	}
}
