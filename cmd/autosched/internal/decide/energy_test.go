package decide

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/simulator"
)

// TestEnergyOfDeferral: marked jobs wait for cheap hours and cost less, at a constant price nothing waits, and
// flags that mean nothing are refused.
func TestEnergyOfDeferral(t *testing.T) {
	const prices, carbon = "--prices=../../../../examples/energy/prices.csv", "--carbon=../../../../examples/energy/carbon.csv"
	simulate := func(more ...string) (r simulateReport) {
		t.Helper()
		args := []string{"simulate", "--trace", "sample", "--to", "2017-10-10T00:00:00Z", "--nodes", "30", "--energy",
			"--json", "--seed", "1"}
		code, out, errs := clitest.Run(append(args, more...)...)
		if code != 0 {
			t.Fatal(errs)
		}
		if err := json.Unmarshal([]byte(out), &struct {
			Deferred **simulator.Deferred
			Summary  *simulator.Summary
			Energy   **energy.Report
		}{&r.Deferred, &r.Summary, &r.Energy}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	now := simulate("--scheduler=fifo", prices)
	later := simulate("--scheduler=fifo+defer", prices, "--deferrable=1", "--set=defer_limit=12h")
	if later.Deferred.Jobs == 0 || later.Deferred.MaxDelay > 12*3600 ||
		later.Energy.Jobs.Cost.Middle >= now.Energy.Jobs.Cost.Middle {
		t.Errorf("%+v: jobs cost %v, were %v", later.Deferred, later.Energy.Jobs.Cost, now.Energy.Jobs.Cost)
	}
	if flat := simulate("--scheduler=fifo+defer", "--deferrable=1"); flat.Deferred.Jobs != 0 ||
		flat.Energy.Jobs.Energy != now.Energy.Jobs.Energy {
		t.Errorf("at a constant price: %+v", flat.Deferred)
	}
	if some := simulate("--scheduler=fifo+defer", carbon, "--deferrable=tenant=vc-a"); some.Deferred.Jobs == 0 ||
		some.Deferred.Jobs >= later.Deferred.Jobs {
		t.Errorf("of a tenant: %+v", some.Deferred)
	}
	for _, c := range []struct{ scheduler, flag, want string }{
		{"fifo+defer", "--json", "--deferrable is missing"},
		{"fifo", "--deferrable=0.5", "are for schedulers that defer jobs: --scheduler fifo+defer"},
		{"fifo+defer", "--deferrable=gpu=1", "--deferrable: "},
		{"fifo+defer", "--deferrable=1 --defer-by=carbon", "--carbon is missing"},
		{"fifo+defer", "--deferrable=1 --defer-by=wind", "neither price nor carbon"},
	} {
		for _, name := range []string{"simulate", "tune", "evaluate", "energy report"} {
			args := append(strings.Fields(name), "--trace", "sample", "--scheduler", c.scheduler)
			if name == "tune" {
				args = append(args, "--at", "2017-10-10T12:00:00Z", "--objective", "cost")
			}
			if code, _, errs := clitest.Run(append(args, strings.Fields(c.flag)...)...); code != 2 ||
				!strings.Contains(errs, c.want) {
				t.Errorf("%s %s %s: exit %d: %s", name, c.scheduler, c.flag, code, errs)
			}
		}
	}
}
