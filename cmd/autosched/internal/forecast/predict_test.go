package forecast

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

// predict runs a command line and returns its output.
func predict(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := clitest.Run(append([]string{"forecast", "durations"}, args...)...)
	if code != want {
		t.Fatalf("predict %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, stderr)
	}
	return stdout, stderr
}

func TestPredictTrainExplain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	file := filepath.Join(t.TempDir(), "durations.model")
	out, _ := predict(t, 0, "train", "--trace", "sample", "--out", file, "--json")
	var trained struct {
		Replaced bool           `json:"replaced"`
		Version  string         `json:"version"`
		Scores   map[string]any `json:"scores"`
	}
	if err := json.Unmarshal([]byte(out), &trained); err != nil || !trained.Replaced || len(trained.Scores) != 3 {
		t.Fatalf("%v, %+v", err, trained)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out, errs := predict(t, 0, "train", "--trace", "sample", "--out", "-"); out != string(before) ||
		!strings.Contains(errs, "-: written") {
		t.Errorf("standard output has %d bytes, the file %d; %s", len(out), len(before), errs)
	}
	// The same training is no worse: it replaces, with the same bytes.
	predict(t, 0, "train", "--trace", "sample", "--out", file)
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("trained again, the file differs (%v)", err)
	}
	if out, _ = predict(t, 0, "eval", "--trace", "sample", "--model",
		file, "--json"); !strings.Contains(out, `"model `+trained.Version) {
		t.Errorf("eval of the model says\n%s", out)
	}
	if err := os.WriteFile(file, before[:len(before)-2000], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := predict(t, 1, "eval", "--trace", "sample", "--model", file); !strings.Contains(errs, file) {
		t.Errorf("a cut model: %s", errs)
	}
	if _, errs := predict(t, 1, "train", "--trace", "sample", "--out", file); !strings.Contains(errs, "--replace") {
		t.Errorf("a cut model to be replaced: %s", errs)
	}
}

func TestPredictEval(t *testing.T) {
	testshared.Full(t)
	out, _ := predict(t, 0, "eval", "--trace", "sample", "--json")
	var r struct {
		Queries []struct {
			Query    string   `json:"query"`
			N        int      `json:"n"`
			Accuracy *float64 `json:"accuracy"`
			LogLoss  *float64 `json:"log_loss"`
			ECE      *float64 `json:"ece"`
			Majority *float64 `json:"majority"`
			Elapsed  *float64 `json:"elapsed_rule"`
		} `json:"queries"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Queries) != 4 || r.Queries[0].Query != "arrival" || r.Queries[0].N == 0 {
		t.Errorf("%+v", r)
	}
	for _, q := range r.Queries {
		if q.Accuracy == nil || q.LogLoss == nil || q.ECE == nil || q.Majority == nil || q.Elapsed == nil {
			t.Errorf("%s lacks a number:\n%s", q.Query, out)
		}
	}
	if table, _ := predict(t, 0, "eval", "--trace", "sample"); !strings.Contains(table, "hourly-4h") {
		t.Errorf("table\n%s", table)
	}
}

func TestPredictMisuse(t *testing.T) {
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"--trace is missing", []string{"eval"}},
		{"--train-share: 2", []string{"eval", "--trace", "sample", "--train-share", "2"}},
		{"no submission", []string{"eval", "--trace", "sample", "--from", "2030-01-01"}},
		{"learns another", []string{"eval", "--trace", "sample", "--model", "x", "--train-share", ".5"}},
		{"--out is missing", []string{"train", "--trace", "sample"}},
		{"--workers", []string{"train", "--trace", "sample", "--out", "x", "--workers", "-1"}},
	} {
		if _, errs := predict(t, 2, tt.args...); !strings.Contains(errs, tt.want) {
			t.Errorf("%v says %s, want %q", tt.args, errs, tt.want)
		}
	}
}
