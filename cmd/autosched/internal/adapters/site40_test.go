package adapters

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// TestSite40: an independent program simulated the shared site under two configurations, and gave
// figures of the last two weeks. After the two weeks before them, means, p95 and p99 of the JCT are
// within 10 % of these, mean waits of jobs of 64 GPUs within 15 %.
func TestSite40(t *testing.T) {
	testshared.Full(t)
	dir := t.TempDir()
	history, folder := filepath.Join(dir, "sacct.psv"), filepath.Join(dir, "site")
	unpack(t, testshared.Path(t, "traces", "site40", "sacct.psv.gz"), history)
	saved := filepath.Join(dir, "listings")
	if err := os.CopyFS(saved, os.DirFS(testshared.Path(t, "traces", "site40", "listings"))); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := clitest.Run("slurm", "init", "--saved", saved, "--out", folder); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := clitest.Run("compare", "--trace", history, "--site", folder, "--from", "2026-06-15", "--row",
		"small=slurm:PriorityFavorSmall=true,PriorityWeightJobSize=10000", "--out", filepath.Join(dir, "out"), "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var got replay.Comparison
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	waits := waitsOf64(t, history, filepath.Join(dir, "out", "jobs.csv"))
	near := func(what string, got, want, share float64) {
		if math.Abs(got/want-1) > share {
			t.Errorf("%s %.0f s, want %.0f within %.0f %%", what, got, want, 100*share)
		}
	}
	for i, want := range []struct{ mean, p95, p99, wait float64 }{
		{19_679, 115_650, 211_712, 8.5 * 3600}, {16_546, 65_897, 310_234, 100 * 3600}} {
		r := &got.Windows[0].Results[i]
		near(r.Row+": mean JCT", r.AvgJCT, want.mean, .1)
		near(r.Row+": p95 JCT", r.P95JCT, want.p95, .1)
		near(r.Row+": p99 JCT", r.P99JCT, want.p99, .1)
		near(r.Row+": mean wait of 64 GPUs", waits[i], want.wait, .15)
	}
}

// waitsOf64 are the mean waits of jobs of 64 GPUs under the rows of a file of jobs.
func waitsOf64(t *testing.T, history, path string) []float64 {
	t.Helper()
	w, _, err := trace.Open(t.Context(), history, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]*workload.Job{}
	for i := range w.Jobs() {
		byID[w.Jobs()[i].ID] = &w.Jobs()[i]
	}
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	sums, n := make([]float64, len(rows[0])-2), 0.
	for _, row := range rows[1:] {
		j := byID[row[1]]
		if j == nil || j.GPUs != workload.GPUs(64) || row[2] == "" {
			continue
		}
		n++
		for k := range sums {
			jct, err := strconv.ParseFloat(row[2+k], 64)
			if err != nil {
				t.Fatal(err)
			}
			sums[k] += jct - j.Duration.Seconds()
		}
	}
	for k := range sums {
		sums[k] /= n
	}
	return sums
}

// unpack writes a file without its compression.
func unpack(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, z); err != nil {
		t.Fatal(err)
	}
}
