package forecast

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
)

func TestGenerate(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := filepath.Join(t.TempDir(), "futures")
	code, out, errs := clitest.Run("forecast", "futures", "--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--horizon", "2h",
		"--futures", "3", "--out", dir, "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	var r generateReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Drawn) != 3 || len(r.Files) != 3 || r.Active == 0 || r.Truth.LeftGPUHours <= 0 || !r.Synthetic {
		t.Errorf("%+v", r)
	}
	for k, f := range r.Files {
		code, out, errs := clitest.Run("trace", "stats", f, "--json")
		if code != 0 {
			t.Fatal(errs)
		}
		var s struct {
			Jobs int `json:"jobs"`
		}
		if err := json.Unmarshal([]byte(out), &s); err != nil || s.Jobs != r.Active+r.Drawn[k].Arrivals {
			t.Errorf("%s: %v, %d jobs, want %d and %d", f, err, s.Jobs, r.Active, r.Drawn[k].Arrivals)
		}
	}
	for _, bad := range [][]string{{}, {"--trace", "sample"}, {"--trace", "sample", "--at", "36h", "--out", "-"},
		{"--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--futures", "0"},
		{"--trace", "sample", "--at", "2017-10-10T12:00:00Z", "--generate", "magic"},
		{"--trace", "sample", "--at", "2000-10-10T12:00:00Z"}} {
		if code, _, _ := clitest.Run(append([]string{"forecast", "futures"}, bad...)...); code != 2 {
			t.Errorf("%v: exit code %d", bad, code)
		}
	}
}
