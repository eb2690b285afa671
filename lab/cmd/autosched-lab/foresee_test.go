package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/autosched/autosched/causal/dataset"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// A table of two days of the sample trace, as 'autosched explain dataset' writes it, has all that foresee reads.
func TestForesee(t *testing.T) {
	testshared.Full(t)
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := trace.Open(t.Context(), trace.SampleName, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	from, _ := w.Span()
	set, err := dataset.Train(context.Background(), replay.Options{Trace: w, From: from, To: from + 48*time.Hour,
		Cluster: workload.Uniform(10, 8), Scheduler: s, Settings: round.Settings{Seed: 7}},
		dataset.Options{Segment: 6 * time.Hour, Stride: 3 * time.Hour, Configs: 10})
	if err != nil {
		t.Fatal(err)
	}
	data, tiers := filepath.Join(t.TempDir(), "runs.csv"), filepath.Join(t.TempDir(), "tiers.json")
	text, err := json.Marshal(set.Spec)
	if err == nil {
		err = os.WriteFile(tiers, text, 0o600)
	}
	if err == nil {
		err = atomicfile.Write(data, set.Table.WriteCSV)
	}
	if err != nil {
		t.Fatal(err)
	}
	plot := filepath.Join(t.TempDir(), "foresee.html")
	code, out, errs := clitest.Run("foresee", "--boosted=false", "--data", data, "--tiers", tiers, "--plot", plot,
		"--json")
	if code != 0 {
		t.Fatal(errs)
	}
	checkPage(t, plot, "The model predicts ", "Error on configurations of later days",
		"mean error, % of the measured value")
	var judged struct {
		Error float64 `json:"error"`
		Mean  float64 `json:"error_mean"`
		Train int     `json:"train_rows"`
		Test  int     `json:"test_rows"`
	}
	if err := json.Unmarshal([]byte(out), &judged); err != nil || judged.Train+judged.Test != set.Table.Rows() ||
		!(judged.Error > 0) || judged.Error >= judged.Mean {
		t.Errorf("%v: %s", err, out)
	}
	for _, bad := range [][]string{{"--data", data}, {"--data", data, "--tiers", tiers, "--train", "1"}} {
		if code, _, _ := clitest.Run(append([]string{"foresee"}, bad...)...); code != 2 {
			t.Errorf("%v: exit code %d, want 2", bad, code)
		}
	}
}
