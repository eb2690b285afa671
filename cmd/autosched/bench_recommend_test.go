package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestBenchRecommendDetected: the rules find waste that was added, acting on it is simulated, and a scheduler
// whose jobs samples cannot be of is refused.
func TestBenchRecommendDetected(t *testing.T) {
	args := strings.Fields("bench recommend --trace sample --windows 2 --days 1 --nodes 4 --waste 20 --detected --json")
	code, out, errs := command(args...)
	if code != 0 {
		t.Fatal(errs)
	}
	var r recommendBench
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Rows) != 1 || r.Rows[0].Detected == nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := r.Rows[0].Detected
	if idle := d.Cases["idle_allocation"]; idle.Found < 3 || idle.Found < idle.Cases*3/4 || idle.Cases < idle.Found {
		t.Errorf("idle jobs: %+v", idle)
	}
	if d.Before.Utilization != r.Rows[0].Before.Utilization || d.After.Utilization == d.Before.Utilization {
		t.Errorf("utilisation %g to %g, of the perfect detector from %g", d.Before.Utilization, d.After.Utilization,
			r.Rows[0].Before.Utilization)
	}
	if code, _, errs = command(append(args, "--scheduler", "pollux")...); code == 0 ||
		!strings.Contains(errs, "--detected: pollux: inject: jobs share GPUs or change their size") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
