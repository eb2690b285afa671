package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli/clitest"
)

// energyService copies the example of the service's power model and prices.
func energyService(t *testing.T) (config, prices string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"service.yaml", "power.yaml", "prices.csv", "carbon.csv"} {
		text, err := os.ReadFile(filepath.Join("../../../../examples/energy", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "service.yaml"), filepath.Join(dir, "prices.csv")
}

// TestServeEnergy: a service with a power model tunes for energy under a constraint on cost; the adopted revision has
// its energy use, with the band; and its rounds can be decided again bit for bit though the prices were replaced.
func TestServeEnergy(t *testing.T) {
	if testing.Short() {
		t.Skip("decides rounds while emulated time goes on, too slow under the race detector")
	}
	config, prices := energyService(t)
	dir := t.TempDir()
	address, stop := clitest.StartServe(t, dir, "--energy-file", config)
	call := func(cmd *cobra.Command, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if err := clitest.RunClient(t.Context(), cmd, "", &out, append(args, "--server", address)...); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	call(clitest.Cmd("scheduler"), "register", "--builtin", "tiresias", "--id", "e", "--nodes", "14",
		"--gpus-per-node", "8",
		"--mode", "auto", "--interval", "4h", "--objective", "edp subject to cost<=1.5*incumbent")
	call(clitest.Cmd("scheduler"), "update", "e", "--adoption", "paper", "--budget", "12")
	call(clitest.Cmd("scheduler emulate"), "--id", "e", "--trace", "sample", "--to", "2017-10-10T00:00:00Z",
		"--nodes", "14",
		"--gpus-per-node", "8", "--speedup", "30000", "--interval", "4h", "--budget", "12", "--json")
	got := call(clitest.Cmd("scheduler"), "get", "e")
	if !strings.Contains(got, "objective   edp subject to cost<=1.5*incumbent") ||
		strings.Contains(got, "last error") {
		t.Errorf("scheduler get:\n%s", got)
	}
	list := call(clitest.Cmd("scheduler rounds"), "list", "e", "--limit", "100")
	published := regexp.MustCompile(`\n(\d+) .* (\d+) +\S+ +(?:published|rolled_out|superseded) as revision`).
		FindStringSubmatch(list)
	if published == nil {
		t.Fatalf("rounds list:\n%s", list)
	}
	const drawn = `[0-9.]+ kWh \([0-9.]+ to [0-9.]+\), [0-9.]+ \$ \([0-9.]+ to [0-9.]+\), [0-9.]+ kg CO2 \([0-9.]+ to [0-9.]+\)`
	matches := func(what, text, want string) {
		t.Helper()
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s:\n%s\nwant %s", what, text, want)
		}
	}
	got = call(clitest.Cmd("scheduler config"), "get", "e", "--revision", published[2])
	matches("scheduler config get", got, `because +.*energy-delay product .*with the band of the constants: kWh [0-9.]+ \([0-9.]+ to [0-9.]+\) -> `)
	matches("scheduler config get", got, `\nenergy +`+drawn+`\n +`+drawn+` with revision \d+\n`)
	matches("scheduler rounds show", call(clitest.Cmd("scheduler rounds"), "show", "e", published[1]),
		`(?s)\nfutures +energy-delay product \(kWh h\): .*\nenergy +best `+drawn+`\n +incumbent `+drawn)
	clitest.SubmitNow(t, address, "e")
	matches("what-if", call(clitest.Cmd("scheduler what-if"), "e", "--set", "queues=1", "--timeout", "2m"), `(?s)\nobjective +[0-9.]+ kWh h, .*\nenergy +`+drawn)

	// Prices by which everything would be decided otherwise.
	if err := os.WriteFile(prices, []byte("ts,price_per_mwh\n2017-10-09T00:00:00Z,1000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	matches("scheduler what-if at other prices", call(clitest.Cmd("scheduler what-if"), "e", "--set", "queues=1", "--timeout", "2m"), drawn)
	matches("scheduler config explain", call(clitest.Cmd("scheduler config"), "explain", "e", "--revision",
		published[2], "--timeout",
		"2m"),
		`(?s)\nobjective +[0-9.]+ kWh h, .*\nenergy +`+drawn+`\n +`+drawn+` before\n`)
	stop()
	for _, n := range []string{"1", published[1]} {
		if code, out, errs := clitest.Run("admin", "replay", "e", n, "--dir", dir); code != 0 ||
			!strings.Contains(out, "round "+n+" of e is the same again") {
			t.Errorf("replay %s: exit %d, %s%s", n, code, out, errs)
		}
	}
	// Without a power model the rounds of the scheduler fail, and say why.
	address, _ = clitest.StartServe(t, dir)
	err := clitest.RunClient(t.Context(), clitest.Cmd("scheduler what-if"), "", new(bytes.Buffer), "e", "--set", "queues=1", "--server", address,
		"--timeout", "2m")
	const want = "edp: the service has no power model: start it with 'autosched serve --energy-file FILE'"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("scheduler what-if without a power model: %v", err)
	}
}

// TestServeEnergyRefuses: objectives that count energy are refused in registrations and updates without a power model,
// and for GPUs whose power is not known; files that are not right are named.
func TestServeEnergyRefuses(t *testing.T) {
	config, prices := energyService(t)
	without, _ := clitest.StartServe(t, t.TempDir())
	with, _ := clitest.StartServe(t, t.TempDir(), "--energy-file", config)
	const register = "register --builtin tiresias --nodes 2 --gpus-per-node 8 --id "
	cluster := clitest.WriteFile(t, "cluster.json", `{"groups": [{"nodes": 2, "gpus_per_node": 8, "gpu_model": "nobodys"}]}`)
	for _, c := range []struct{ address, args, want string }{
		{without, register + "a --objective energy", "spec.objective: energy: the service has no power model"},
		{without, register + "a --objective avg_jct", ""},
		{without, "update a --objective cost", "cost: the service has no power model"},
		{with, register + "a --objective energy", ""},
		{with, "update a --objective co2", ""},
		{with, "update a --objective avg_jct", ""},
		{with, "register --builtin tiresias --id b --objective co2 --cluster " + cluster,
			`co2: energy: the power of GPU model "nobodys"`},
		{with, "register --builtin tiresias --id b --cluster " + cluster, ""},
		{with, "update b --objective energy", `energy: energy: the power of GPU model "nobodys"`},
	} {
		err := clitest.RunClient(t.Context(), clitest.Cmd("scheduler"), "", new(bytes.Buffer),
			append(strings.Fields(c.args), "--server", c.address)...)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string) {
		t.Helper()
		code, _, errs := clitest.Run("serve", "--dir", t.TempDir(), "--energy-file", config, "--check-settings")
		if (code == 0) != (want == "") || !strings.Contains(errs, want) {
			t.Errorf("exit %d, %s, want %q", code, errs, want)
		}
	}
	check("")
	write(prices, "ts,price_per_mwh\n2017-10-09T00:00:00Z,dear\n")
	check("--energy-file: " + config + ": prices: " + prices + `: 2: price_per_mwh: "dear"`)
	for text, want := range map[string]string{
		"":                            "is empty: name files",
		"price: prices.csv\n":         "field price not found",
		"carbon_zone: DE\n":           "carbon_zone: is a zone of carbon, which is missing",
		"timezone: Europe/Nowhere\n":  "timezone: ",
		"power: none.yaml\n":          "power: open ",
		"power: [power.yaml]\n":       "cannot unmarshal",
		"carbon: carbon.csv\n":        "",
		"{}\n":                        "",
		"timezone: Europe/Berlin\n":   "",
		"carbon: carbon.csv\nprices:": "",
	} {
		write(config, text)
		check(want)
	}
}
