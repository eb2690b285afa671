package explain

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search/prune"
)

// TestCausalFromTrace goes from a trace to a graph and an answer.
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
	whatIfStartsInForce(t, data, tiers)
	for _, bad := range [][]string{{"dataset", "--trace", "sample"},
		{"dataset", "--out", "x", "--tiers-out", "y", "--trace", "sample", "--configs", "0"}} {
		if code, _, _ := clitest.Run(append([]string{"explain"}, bad...)...); code != 2 {
			t.Errorf("%v: exit code %d, want 2", bad, code)
		}
	}
}

// whatIfStartsInForce checks that questions begin at the configuration that
// the data were measured under, and that intervals of ratios are positive.
func whatIfStartsInForce(t *testing.T, data, tiers string) {
	t.Helper()
	code, out, errs := clitest.Run("explain", "whatif", "--data", data, "--tiers", tiers, "--set", "queues=1", "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var w struct {
		At      string
		Base    map[string]string
		Answers []model.Answer
	}
	if err := json.Unmarshal([]byte(out), &w); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(w.At, "the configuration in force") {
		t.Errorf("the question starts at %s", w.At)
	}
	if len(w.Answers) != 1 || !(w.Answers[0].Low > 0) {
		t.Errorf("%+v", w.Answers)
	}
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	columns := prune.NewColumns(s.Space)
	row := columns.Append(nil, s.Space.Default())
	checked := 0
	for k, name := range columns.Names() {
		at, ok := w.Base[name]
		if !ok {
			continue
		}
		want := strconv.FormatFloat(row[k], 'g', 5, 64)
		if levels := columns.Column(k, nil).Levels; levels != nil {
			want = levels[int(row[k])]
		}
		if checked++; at != want {
			t.Errorf("%s starts at %s, want %s", name, at, want)
		}
	}
	if checked < 5 {
		t.Errorf("%d parameters have a value", checked)
	}
}
