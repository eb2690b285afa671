package serve

import (
	"fmt"
	"os"
	"testing"

	"github.com/autosched/autosched/service/nodetest"
)

// TestPowerCut: a service of one process and one of three nodes lose nothing that they acknowledged when the power of
// all fails at once. AUTOSCHED_NODES_CUTS is the number of cuts of each.
func TestPowerCut(t *testing.T) {
	if os.Getenv("AUTOSCHED_NODES") != "1" {
		t.Skip("of make nodes")
	}
	nodetest.RequireFUSE(t)
	cuts, rate := number("AUTOSCHED_NODES_CUTS", 2), number("AUTOSCHED_NODES_RATE", 1000)
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			c := clusterOf{nodes: nodes, rate: rate, seed: uint64(cuts), cuts: true}.start(t)
			var all []nodetest.Fault
			for i := range cuts {
				all = append(all, nodetest.PowerCut([]int{0, 50, 25, 100, 75}[i%5]))
			}
			runRounds(t, c, all, func(int) bool { return true }, "")
		})
	}
}

// TestPowerCutFindsUnsyncedServers: the checks of TestPowerCut see that servers acknowledge before they sync.
func TestPowerCutFindsUnsyncedServers(t *testing.T) {
	if os.Getenv("AUTOSCHED_NODES") != "1" || number("AUTOSCHED_NODES_CUTS", 0) == 0 {
		t.Skip("of make nodes with AUTOSCHED_NODES_CUTS")
	}
	nodetest.RequireFUSE(t)
	program := mutated(t, map[string][]string{"service/jet/engine.go": {"SyncAlways: true", "SyncAlways: false",
		"c == nil || !c.SyncAlways", "c == nil"}})
	c := clusterOf{nodes: 3, rate: 1000, cuts: true, program: func(int) string { return program }}.start(t)
	for i := range 3 {
		r, err := c.Round(t.Context(), nodetest.PowerCut(0), true)
		if err != nil {
			t.Logf("after %d cuts: %v", i+1, err)
			return
		}
		t.Logf("cut %d: %s: %d violations %q", i+1, r.Note, r.Violations, r.Texts[:min(3, len(r.Texts))])
		if r.Violations > 0 {
			return
		}
	}
	t.Error("servers acknowledge before they sync, and no violation is found")
}
