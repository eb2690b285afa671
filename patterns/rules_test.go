package patterns

import (
	"bytes"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
)

// TestBuiltinCases runs the cases of the built-in rules. Each rule has one that it finds.
func TestBuiltinCases(t *testing.T) {
	testshared.Full(t)
	rules := Builtin()
	found := map[string]bool{}
	for _, c := range BuiltinCases() {
		wrong, err := c.Run(rules)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range wrong {
			t.Errorf("%s: %s", c.Name, w)
		}
		for _, f := range c.Find {
			found[f.Rule] = true
		}
	}
	for _, r := range rules.Rules {
		if !found[r.ID] {
			t.Errorf("no case finds %s", r.ID)
		}
	}
	if n := len(rules.Rules); n != 15 {
		t.Errorf("there are %d rules", n)
	}
}

// A case that is not met says so.
func TestCaseFails(t *testing.T) {
	c := BuiltinCases()[0]
	c.Find = append(c.Find, Expected{Rule: "hoarding", Entity: "job/b"})
	c.Find[0].Action = "other"
	wrong, err := c.Run(Builtin())
	if err != nil || len(wrong) != 3 {
		t.Errorf("a case with two wrong expectations: %q, %v", wrong, err)
	}
}

func TestRulesRoundTrip(t *testing.T) {
	var a, b bytes.Buffer
	if err := Builtin().Write(&a); err != nil {
		t.Fatal(err)
	}
	set, err := ReadRules(bytes.NewReader(a.Bytes()), "written")
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Write(&b); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Error("rules that were written are not read as they were")
	}
}

func TestRulesRefused(t *testing.T) {
	const head = "version: 1\nrules:\n  - id: x\n    group_by: [job]\n    action: a\n    words: w\n"
	for _, c := range []struct{ text, want string }{
		{"", "r.yaml: is empty"},
		{"version: 2\nrules: []\n", "r.yaml: version: 2 is not 1"},
		{"version: 1\nrules: []\n", "r.yaml: rules: has none"},
		{head, `line 3: rule "x": has 0 of sequence, set and detect`},
		{head + "    sequenze: 1\n", "line 7: field sequenze not found"},
		{head + "    set: {match: [{event: job.ende}]}\n", `event: "job.ende" is not one of job.submitted`},
		{head + "    set: {window: 1x, match: [{event: job.ended}]}\n", `line 7: "1x" is not a duration`},
		{head + "    set: {match: [{derived: low}]}\n", `derived: "low" is not one of this rule`},
		{head + "    set: {match: [{event: message, regex: '('}]}\n", "regex: error parsing"},
		{head + "    derive: [{name: a, signal: bussy, below: 1}]\n    set: {match: [{derived: a}]}\n",
			`signal: "bussy" is not one of a job: beyond_limit_minutes, busy`},
		{head + "    derive: [{name: a, signal: busy, fn: mean, over: 1h}]\n    set: {match: [{derived: a}]}\n",
			"has 0 of below, above, at_least and at_most"},
		{head + "    detect: straggler\n", "group_by: [job] is not that of straggler, [job worker]"},
		{head + "    sequence: {order: [{event: job.ended, count: 3}]}\n", "window: 0s is not between 0 and 60d"},
		{head + "    set: {match: [{event: job.ended}], negate: [{event: job.started, anchor: 4}]}\n", "anchor: 4"},
		{head + "    set: {match: [{event: job.ended, count: 999}]}\n", "more than 64"},
	} {
		_, err := ReadRules(strings.NewReader(c.text), "r.yaml")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
	}
}

func FuzzReadRules(f *testing.F) {
	f.Add(string(builtin))
	f.Add("version: 1\nrules: [{id: x, group_by: [job], action: a, words: w, set: {match: [{event: job.ended}]}}]")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := ReadRules(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := set.Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRules(&b, "again"); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
