package forecast

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	out := run("--methods", "knn", "--json")
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
	if one["method"] != "knn" || one["count"] != "jobs" || one["forecasts"] != 36.0 || one["synthetic"] != true {
		t.Errorf("%v", one)
	}
	if again := run("--methods", "knn", "--json"); again != out {
		t.Error("the same command, other figures")
	}
	all := run("--methods", "all", "--futures", "10", "--count", "batches")
	for _, want := range []string{"batches from 2017-10-10", "last-hour", "paper", "knn", "ridge", "boosted",
		"ensemble", "cover 80"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

// counted writes three days of counts per half hour.
func counted(t *testing.T) string {
	var b strings.Builder
	b.WriteString("time,arrivals\n")
	at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 3 * 48 {
		fmt.Fprintf(&b, "%s,%d\n", at.Add(time.Duration(i)*30*time.Minute).Format(time.RFC3339), i%48/8)
	}
	path := filepath.Join(t.TempDir(), "counts.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestForecastEvalOfCounts(t *testing.T) {
	code, out, errs := clitest.Run("forecast", "eval", "--trace", counted(t), "--from", "2020-01-03", "--to", "2020-01-04",
		"--methods", "last-hour", "--history-from", "2020-01-02")
	if code != 0 || !strings.Contains(out, "24 forecasts") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func TestForecastMisuse(t *testing.T) {
	counts := counted(t)
	broken := filepath.Join(t.TempDir(), "broken.csv")
	if err := os.WriteFile(broken, []byte("unix,count\n0,1\n600,2\n1800,3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		{"forecast eval --trace sample --methods paper:loud" + window, 2, "manhattan"},
		{"forecast eval --trace sample --count users" + window, 2, "--count"},
		{"forecast eval --trace sample --futures 0" + window, 2, "--futures"},
		{"forecast eval --trace sample --horizon 0s" + window, 2, ""},
		{"forecast eval --trace sample --horizon 7m" + window, 1, "multiple of the bin"},
		{"forecast eval --trace sample --horizon -1h" + window, 2, "horizon"},
		{"forecast eval --trace no/such/file" + window, 1, "no/such/file"},
		{"forecast eval --trace " + counts + " --count batches --from 2020-01-02 --to 2020-01-03", 2, "batches"},
		{"forecast eval --trace " + broken + " --from 0 --to 600", 1, "line 4"},
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
			"--from 2017-09-22 --to 2017-10-06 --history-from 2017-09-18 --methods last-hour", "0.797"},
		{[]string{"traces", "helios-venus", "throughput.csv.gz"},
			"--from 2020-07-26 --to 2020-08-09 --methods last-hour", "0.474"},
	} {
		path := testshared.Path(t, c.trace...)
		code, out, errs := clitest.Run(append(strings.Fields("forecast eval "+c.args), "--trace", path)...)
		if code != 0 || !strings.Contains(out, c.wape) {
			t.Errorf("%s: exit %d, %s%s; want a wape of %s", path, code, out, errs, c.wape)
		}
	}
}
