package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

func TestBenchSearch(t *testing.T) {
	testshared.Full(t)
	code, stdout, stderr := clitest.Run("search", "--objectives", "quad2,ladder", "--samplers", "auto,random",
		"--budget", "20", "--seeds", "3")
	if code != 0 || !strings.Contains(stdout, "quad2, regret after 20 evaluations") ||
		!strings.Contains(stdout, "random") || strings.Contains(stdout, "published") ||
		!strings.Contains(stdout, "auto is gp: ") {
		t.Errorf("exit %d:\n%s%s", code, stdout, stderr)
	}
	_, again, _ := clitest.Run("search", "--objectives", "quad2,ladder", "--samplers", "auto,random", "--budget",
		"20", "--seeds", "3", "--workers", "3")
	if again != stdout {
		t.Errorf("three workers print\n%s\nnot\n%s", again, stdout)
	}
	code, stdout, stderr = clitest.Run("search", "--objectives", "quad2", "--samplers", "auto", "--seeds", "2",
		"--json")
	var r struct {
		Mean      *float64 `json:"regret_mean"`
		Std       *float64 `json:"regret_std"`
		Median    *float64 `json:"regret_median"`
		Results   []struct{ Sampler string }
		Published []struct{ Sampler string }
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 || r.Mean == nil || r.Std == nil ||
		r.Median == nil || len(r.Results) != 1 || len(r.Published) < 10 {
		t.Errorf("exit %d, %v:\n%s%s", code, err, stdout, stderr)
	}
	for _, args := range [][]string{{"--objectives", "psychic"}, {"--samplers", "psychic"}, {"--budget", "0"},
		{"--seeds", "0"}, {"extra"}} {
		if code, _, stderr := clitest.Run(append([]string{"search"}, args...)...); code != 2 || stderr == "" {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
}
