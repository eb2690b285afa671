package operate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/space"
)

const smallSpace = `parameters:
  - {id: queues, kind: int, min_value: 1, max_value: 4, default_value: 2}
  - {id: effort, kind: ordinal, categories: [low, mid, high], default_value: mid}
rules:
  - id: costly
    forbidden: {all: [{param: queues, op: ">", value: 3}, {param: effort, op: "==", value: high}]}
`

func TestSchedulerValidate(t *testing.T) {
	path := clitest.WriteFile(t, "space.yaml", smallSpace)
	code, out, errs := clitest.Run("scheduler", "validate", path)
	if code != 0 {
		t.Fatal(errs)
	}
	for _, want := range []string{"is valid: 2 parameters, 1 rule, 2 dimensions, 11 configurations",
		"one of low < mid < high",
		"never queues > 3 and effort == high; if broken, the parameter named last moves"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}

	code, out, errs = clitest.Run("scheduler", "validate", path, "--json")
	var got struct {
		Valid          bool
		Configurations float64
		Exact          bool
		Space          space.Space
		Digest         string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatal(err, errs)
	}
	if !got.Valid || got.Configurations != 11 || !got.Exact || got.Space.Digest() != got.Digest {
		t.Errorf("%+v", got)
	}
}

func TestSchedulerValidateNamesEverything(t *testing.T) {
	bad := clitest.WriteFile(t, "bad.yaml", strings.NewReplacer("max_value: 4", "max_value: 0", "ordinal", "size", "value: high",
		"value: 3").Replace(smallSpace))
	code, _, errs := clitest.Run("scheduler", "validate", bad)
	for _, want := range []string{"line 2: parameters[0].max_value: 0 is below min_value 1",
		`line 3: parameters[1].kind: unknown parameter kind "size"`} {
		if code != 1 || !strings.Contains(errs, want) {
			t.Errorf("exit %d, %q is missing in\n%s", code, want, errs)
		}
	}
	code, out, _ := clitest.Run("scheduler", "validate", bad, "--json")
	var got struct {
		Valid      bool
		Violations space.Violations
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 || got.Valid || len(got.Violations) < 2 ||
		got.Violations[0].Line == 0 {
		t.Errorf("exit %d, %v, %+v", code, err, got)
	}

	registration := "name: schedulers/x\nspec:\n  scheduler_type: tiresias\n  cluster: {nodes: 2, gpus_per_node: " +
		"8}\n  parameters:\n" +
		"    - {parameter_id: queues, integer_value_spec: {min_value: 1, max_value: 9}, default_value: 3}\n"
	if code, _, errs := clitest.Run("scheduler", "validate", clitest.WriteFile(t, "reg.yaml",
		registration)); code != 1 ||
		!strings.Contains(errs,
			"scheduler.spec.parameters[0].integer_value_spec.max_value: 9 is above the built-in range") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if code, out, errs := clitest.Run("scheduler", "validate",
		clitest.WriteFile(t, "reg.yaml", strings.ReplaceAll(registration, "9}", "4}"))); code != 0 ||
		!strings.Contains(out, "1 to 4") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, c := range []struct{ old, new, want string }{
		{"min_value: 1", "minimum: 1", `: scheduler.spec.parameters[0].integer_value_spec.minimum: unknown field`},
		{"max_value: 9", "max_value: many", `: scheduler.spec.parameters[0].integer_value_spec.max_value: invalid value`},
		{"name: schedulers/x", "display_name: äöü\nnam: x", ": scheduler.nam: unknown field"},
		{"{nodes: 2, gpus_per_node: 8}", "[2, 8]", ": scheduler.spec.cluster: unexpected token ["},
	} {
		bad := clitest.WriteFile(t, "reg.yaml", strings.Replace(registration, c.old, c.new, 1))
		if code, _, errs := clitest.Run("scheduler", "validate", bad); code != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("exit %d, %q is missing in\n%s", code, c.want, errs)
		}
	}
}

func TestSchedulerDiff(t *testing.T) {
	a := clitest.WriteFile(t, "a.yaml", smallSpace)
	b := clitest.WriteFile(t, "b.json",
		`{"parameters": [{"id": "queues", "kind": "int", "min_value": 1, "max_value": 5, "default_value": 2}]}`)
	for _, c := range []struct {
		args string
		want []string
	}{
		{a + " " + b, []string{"queues.max_value  4", "effort", "rules.costly"}},
		{"fifo fifo", []string{"no difference"}},
		{"default ladder-7200x6 --scheduler tiresias", []string{"queues            3", "7200,43200,259200,1555200"}},
		{"default " + clitest.WriteFile(t, "c.yaml", "queues: 9\neffort: high\n") + " --space " + a,
			[]string{"queues     2        4", "queues=9 is in effect 4 (range)",
				"effort=high is in effect mid (costly)"}},
		{"default " + clitest.WriteFile(t, "c.json", `{"name": "x", "parameters": {"queues": 3}}`) + " --space " + a,
			[]string{"queues     2        3"}},
	} {
		code, out, errs := clitest.Run(append([]string{"scheduler", "diff"}, strings.Fields(c.args)...)...)
		for _, want := range c.want {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("diff %s: exit %d %s, %q is missing in\n%s", c.args, code, errs, want, out)
			}
		}
	}
	code, out, _ := clitest.Run("scheduler", "diff", "default", clitest.WriteFile(t, "c.yaml", "queues: 3"),
		"--space", a, "--json")
	var got struct {
		B           struct{ Effective map[string]any }
		Differences []space.Difference
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got.Differences) != 1 ||
		got.B.Effective["effort"] != "mid" {
		t.Errorf("exit %d, %v, %s", code, err, out)
	}
}

func TestSchedulerDiffMisuse(t *testing.T) {
	a := clitest.WriteFile(t, "a.yaml", smallSpace)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"diff " + a, 2, "want two things"},
		{"diff - -", 2, "only one"},
		{"diff default default --scheduler x", 2, "x"},
		{"diff nothing nothing --scheduler tiresias", 1, "names no preset"},
		{"diff default " + clitest.WriteFile(t, "c.yaml", "colour: red") + " --space " + a, 1,
			"line 1: colour: there is no such field, want one of queues, effort"},
		{"validate", 2, "want one FILE"},
		{"validate no-such-file", 1, "no-such-file"},
	} {
		if code, _, errs := clitest.Run(append([]string{"scheduler"}, strings.Fields(c.args)...)...); code != c.code ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs)
		}
	}
}
