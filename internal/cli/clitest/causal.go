package clitest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/rng"
)

// WriteRuns writes a table of measured runs: queues moves the delay, the delay
// the JCT, and verbose nothing.
func WriteRuns(t *testing.T, dir string) (data, tiers string) {
	t.Helper()
	r := rng.Stream("causal command test", 1)
	const n = 400
	queues, verbose, delay, jct := make([]float64, n), make([]string, n), make([]float64, n), make([]float64, n)
	for i := range n {
		queues[i] = float64(1 + r.IntN(8))
		verbose[i] = []string{"no", "yes"}[r.IntN(2)]
		delay[i] = queues[i] + r.NormFloat64()
		jct[i] = 100 + 10*delay[i] + 5*r.NormFloat64()
	}
	table, err := causal.NewTable(causal.Column{Name: "queues", Kind: causal.Integer, Values: queues},
		causal.NewCategorical("verbose", verbose),
		causal.Column{Name: "delay", Values: delay}, causal.Column{Name: "jct", Values: jct})
	if err != nil {
		t.Fatal(err)
	}
	data, tiers = filepath.Join(dir, "runs.csv.gz"), filepath.Join(dir, "tiers.json")
	if err := cli.WriteFile(data, "--data", table.WriteCSV); err != nil {
		t.Fatal(err)
	}
	spec := `{"tiers": {"queues": "config", "verbose": "config", "delay": "metric", "jct": "objective"}}`
	if err := os.WriteFile(tiers, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	return data, tiers
}
