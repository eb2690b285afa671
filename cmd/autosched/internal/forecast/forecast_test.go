package forecast

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/internal/testshared"
)

func TestForecastEval(t *testing.T) {
	window := []string{"forecast", "eval", "--trace", "sample", "--from", "2017-10-10", "--to", "2017-10-11T12:00:00Z"}
	run := func(args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(append(window[:len(window):len(window)], args...)...)
		if code != 0 || !strings.Contains(errs, "synthetic") {
			t.Fatalf("%v: exit %d\n%s", args, code, errs)
		}
		return out
	}
	out := run("--methods", "repeat", "--json")
	var one map[string]any
	if err := json.Unmarshal([]byte(out), &one); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"wape", "wape_mean", "mae_per_bin", "bias", "coverage_80"} {
		if v, ok := one[key].(float64); !ok || v <= 0 {
			t.Errorf("%s is %v", key, one[key])
		}
	}
	if days, ok := one["rel_error_by_day"].(map[string]any); !ok || len(days) != 2 || days["2017-10-10"] == nil {
		t.Errorf("rel_error_by_day is %v", one["rel_error_by_day"])
	}
	if one["method"] != "repeat" || one["count"] != "jobs" || one["forecasts"] != 36.0 || one["synthetic"] != true {
		t.Errorf("%v", one)
	}
	if again := run("--methods", "repeat", "--json"); again != out {
		t.Error("the same command, other figures")
	}
	all := run("--methods", "all", "--futures", "10", "--unit", "batches")
	for _, want := range []string{"batches from 2017-10-10", "repeat", "paper", "ridge", "boosted", "ensemble",
		"cover 80"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

func TestForecastMisuse(t *testing.T) {
	window := " --from 2017-10-10 --to 2017-10-11"
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"forecast", 0, ""},
		{"forecast guess", 2, `"guess"`},
		{"forecast eval", 2, "--trace"},
		{"forecast eval --trace sample", 2, "--from and --to"},
		{"forecast eval --trace sample --from tomorrow --to 2017-10-11", 2, "--from"},
		{"forecast eval --trace sample --from 2017-10-11 --to 2017-10-10", 2, "not after --from"},
		{"forecast eval --trace sample --from 2017-10-11 --to 2017-12-10", 1, "last day"},
		{"forecast eval --trace sample --from 2016-10-11 --to 2017-10-10", 1, "before the history"},
		{"forecast eval --trace sample --history-from 2017-10-12" + window, 2, "--history-from"},
		{"forecast eval --trace sample --methods magic" + window, 2, "--methods: "},
		{"forecast eval --trace sample --horizon 9000h" + window, 2, "--horizon: "},
		{"forecast eval --trace sample --unit users" + window, 2, "--unit"},
		{"forecast eval --trace sample --futures 0" + window, 2, "--futures"},
		{"forecast eval --trace sample --horizon 0s" + window, 2, ""},
		{"forecast eval --trace sample --horizon 7m" + window, 1, "multiple of the bin"},
		{"forecast eval --trace sample --horizon -1h" + window, 2, "horizon"},
		{"forecast eval --trace no/such/file" + window, 1, "no/such/file"},
	} {
		code, _, errs := clitest.Run(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("autosched %s: exit %d, %q; want exit %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}

// TestForecastEvalOnRealTraces: the files as they are published, by the command
// of the documentation.
func TestForecastEvalOnRealTraces(t *testing.T) {
	testshared.Full(t)
	for _, c := range []struct {
		trace []string
		args  string
		wape  string
	}{
		{[]string{"traces", "philly", "jobs.csv.gz"},
			"--from 2017-09-22 --to 2017-10-06 --history-from 2017-09-18 --methods repeat", "0.797"},
	} {
		path := testshared.Path(t, c.trace...)
		code, out, errs := clitest.Run(append(strings.Fields("forecast eval "+c.args), "--trace", path)...)
		if code != 0 || !strings.Contains(out, c.wape) {
			t.Errorf("%s: exit %d, %s%s; want a wape of %s", path, code, out, errs, c.wape)
		}
	}
}
