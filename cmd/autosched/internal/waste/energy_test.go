package waste

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autosched/autosched/energy"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// energyArgs replay two days of the built-in trace with the prices of the example.
func energyArgs(command string, more ...string) []string {
	args := append(strings.Fields(command), "--trace", "sample", "--to", "2017-10-11T00:00:00Z", "--nodes", "16",
		"--scheduler", "fifo", "--power", "../../../../examples/energy/power.yaml", "--prices", "../../../../examples/energy/prices.csv",
		"--carbon", "../../../../examples/energy/carbon.csv")
	return append(args, more...)
}

func reported(t *testing.T, args ...string) *energy.Report {
	t.Helper()
	code, out, errs := clitest.Run(append(args, "--json")...)
	if code != 0 {
		t.Fatal(errs)
	}
	var r struct{ Energy json.RawMessage }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Energy != nil {
		out = string(r.Energy)
	}
	var report energy.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	return &report
}

// TestEnergyOfSleep: nodes that sleep earlier save more, by as much as the cluster uses less.
func TestEnergyOfSleep(t *testing.T) {
	on := reported(t, energyArgs("energy report", "--idle-until", "2017-12-01")...)
	sleeping := func(after string) *energy.Report {
		args := energyArgs("energy report", "--idle-until", "2017-12-01", "--set", "sleep_after="+after)
		for i := range args {
			if args[i] == "fifo" {
				args[i] = "fifo+sleep"
			}
		}
		return reported(t, args...)
	}
	early, late := sleeping("1m"), sleeping("6h")
	if on.Slept != nil || early.Slept.Saved.Energy.Middle <= late.Slept.Saved.Energy.Middle ||
		early.Cluster.Energy.Middle >= late.Cluster.Energy.Middle ||
		late.Cluster.Energy.Middle >= on.Cluster.Energy.Middle ||
		early.Slept.WakeUps < late.Slept.WakeUps {
		t.Errorf("always on %+v, early %+v, late %+v", on.Cluster, early.Slept, late.Slept)
	}
}

// TestEnergyReport: simulate and energy report agree, the parts add up, twice the price is
// twice the cost, and --until adds idle nodes alone. Files hold a row for each job and the
// figures.
func TestEnergyReport(t *testing.T) {
	dir := t.TempDir()
	jobs, page := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "e.html")
	r := reported(t, energyArgs("energy report", "--jobs-out", jobs, "--plot", page)...)
	if s := reported(t, energyArgs("simulate")...); s.Cluster != r.Cluster || s.EDP != r.EDP {
		t.Errorf("simulate: %+v, energy report: %+v", s.Cluster, r.Cluster)
	}
	d := r.Jobs.Energy.Middle + r.Idle.Energy.Middle - r.Cluster.Energy.Middle
	if math.Abs(d) > 1e-6 ||
		len(r.Tenants) < 2 {
		t.Errorf("jobs and idle differ from the cluster by %v kWh", d)
	}
	longer := reported(t, energyArgs("energy report", "--idle-until", "2017-12-01")...)
	if longer.Jobs != r.Jobs || longer.Idle.Energy.Middle <= r.Idle.Energy.Middle {
		t.Errorf("until later: jobs %+v, idle %+v", longer.Jobs, longer.Idle)
	}
	twice := filepath.Join(dir, "twice.csv")
	flat := "ts,price_per_mwh\n2017-10-09T00:00:00Z,"
	for _, price := range []string{"50", "100"} {
		if err := os.WriteFile(twice, []byte(flat+price+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r = reported(t, energyArgs("energy report", "--prices", twice)...)
		if want := r.Cluster.Energy.Middle / 1000 * map[string]float64{"50": 50, "100": 100}[price]; math.Abs(
			r.Cluster.Cost.Middle-want) > 1e-9*want {
			t.Errorf("price %s: cost %v, want %v", price, r.Cluster.Cost.Middle, want)
		}
	}
	rows, err := os.ReadFile(jobs)
	if err != nil || strings.Count(string(rows), "\n") < 100 {
		t.Errorf("%d rows, %v", strings.Count(string(rows), "\n"), err)
	}
	if html, err := os.ReadFile(page); err != nil || strings.Count(string(html), "<figure>") != 4 {
		t.Errorf("the page has %d figures, %v", strings.Count(string(html), "<figure>"), err)
	}
}

// TestEnergyOfARecordedTrace: jobs run when the trace says; one without starts is refused.
func TestEnergyOfARecordedTrace(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	trace := file("t.csv", "id,created,started,ended,n\na,0,1800,5400,4\nb,0,0,3600,4\n")
	if code, _, errs := clitest.Run("trace", "import", trace, "--columns",
		"id=id,submit=created,start=started,end=ended,gpus=n", "--out", trace); code != 0 {
		t.Fatal(errs)
	}
	args := []string{"energy", "report", "--trace", trace, "--nodes", "1", "--gpus-per-node", "8"}
	r := reported(t, args...)
	if r.GPUHours != 8 || r.Capacity != 12 || r.Ended != 2 || r.AvgJCT != 4500 {
		t.Errorf("%+v", r)
	}
	measured := file("m.csv", "ts,watts\n0,1000\n1800,1000\n3600,1000\n5400,1000\n")
	if r = reported(t, append(args, "--measured", measured, "--facility-meter")...); math.Abs(
		r.Cluster.Energy.High-1.5) > 1e-9 || r.MeasuredShare != 1 {
		t.Errorf("%+v, measured in %v", r.Cluster, r.MeasuredShare)
	}
	gpus := "time,node,gpu,energy_j,job\n"
	for i := range 4 { // of job b, all of its hour, at 300 W
		for at := 0; at <= 3600; at += 600 {
			gpus += fmt.Sprintf("%d,n,%d,%d,b\n", at, i, 1000+300*at)
		}
	}
	r = reported(t, append(args, "--telemetry", file("gpus.csv", gpus))...)
	if math.Abs(r.MeasuredGPUHours-4) > 1e-9 || r.Tenants[0].Jobs != 2 {
		t.Errorf("measured %v GPU-hours, %+v", r.MeasuredGPUHours, r.Tenants)
	}
	code, _, errs := clitest.Run(append(args, "--telemetry", file("none.csv",
		"time,node,gpu,power_w,job\n0,n,0,50,z\n"))...)
	if code != 1 || !strings.Contains(errs, "none of 1 samples is of a job or a node of the trace") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for text, want := range map[string]string{
		"--trace sample --scheduler fifo --telemetry nope.csv": "leave out --scheduler",
		"--trace sample":                      "no start times: name a scheduler",
		"--trace sample --power nope.yaml":    "--power: open nope.yaml",
		"--trace sample --facility-meter":     "--facility-meter",
		"--trace sample --carbon-zone DE":     "--carbon-zone",
		"--trace sample --prices " + measured: "--prices: " + measured + ": 1: want the columns ts and price_per_mwh",
	} {
		if code, _, errs := clitest.Run(append([]string{"energy", "report"}, strings.Fields(text)...)...); code == 0 ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s", text, code, errs)
		}
	}
}
