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

func TestSchedulerValidateMisuse(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"validate", 2, "want one FILE"},
		{"validate no-such-file", 1, "no-such-file"},
	} {
		if code, _, errs := clitest.Run(append([]string{"scheduler"}, strings.Fields(c.args)...)...); code != c.code ||
			!strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %s", c.args, code, errs)
		}
	}
}
