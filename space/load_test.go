package space

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func serving(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/serving.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLoad checks that YAML and JSON documents give equal spaces.
func TestLoad(t *testing.T) {
	s, err := Load(serving(t))
	if err != nil {
		t.Fatal(err)
	}
	want := "policy=las queues=3 thresholds=3250,7200 starve_limit=off lease=10m effort=mid batch=8 reserve=0.1 " +
		"lend=0.5 preempt=true"
	if got := s.Default().String(); got != want {
		t.Errorf("default %s, want %s", got, want)
	}
	if got := s.Rules()[4].String(); got != "never lease < 120 and effort > mid" {
		t.Errorf("rule %s", got)
	}
	doc, err := json.MarshalIndent(s, "", "\t") // tabs: not YAML
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load(doc)
	if err != nil || again.Digest() != s.Digest() {
		t.Errorf("its JSON reads back as another: %v", err)
	}
	c, changes := s.Project(Values{"policy": Text("fifo"), "reserve": Num(0.9), "lend": Num(0.9), "lease": Num(60),
		"effort": Text("high"), "queues": Int(1)})
	if got, want := c.String(),
		"policy=fifo queues=1 thresholds= lease=1m effort=mid batch=8 reserve=0.5 lend=0.5 preempt=false"; got != want {
		t.Errorf("projected to %s\nwant %s\nby %v", got, want, changes)
	}
}

func TestLoadedLadderEqualsItsJSON(t *testing.T) {
	b, err := os.ReadFile("testdata/ladder.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(b)
	if err != nil {
		t.Fatal(err)
	}
	if want := tiresias(t); s.Digest() != want.Digest() {
		t.Error(cmp.Diff(want.Params(), s.Params()))
	}
}

// TestLoadErrors checks the field and line of every error.
func TestLoadErrors(t *testing.T) {
	const param = "parameters:\n  - {id: a, kind: int, min_value: 0, max_value: 5, default_value: 1}\n"
	tests := []struct{ name, text, want string }{
		{"empty", "", "document: the document is empty"},
		{"only a comment", "# nothing\n", "document: the document is empty"},
		{"not a table", "- a\n- b\n", "document: is a list, want the fields parameters and rules"},
		{"bad YAML", "parameters: [\n", "document: line 1: did not find expected node content"},
		{"several documents", param + "---\n" + param, "document: want one document, not several"},
		{"aliases", "parameters:\n  - &x {id: a}\n  - *x\n", "document: line 3: anchors and aliases are not supported"},
		{"deep", strings.Repeat("[", 40) + strings.Repeat("]", 40),
			"document: line 1: nested more than 32 levels deep"},
		{"no parameters", "rules: []\n", "parameters: at least one is needed"},
		{"unknown fields", param + "rule: []\n", "line 3: rule: there is no such field, want one of parameters, rules"},
		{"twice", "parameters:\n  - {id: a, id: b, kind: bool, default_value: true}\n",
			"line 2: parameters[0].id: is set twice"},
		{"kind", "parameters:\n  - id: a\n    kind: integer\n    default_value: 1\n",
			`line 3: parameters[0].kind: unknown parameter kind "integer", want one of float, int, bool, categorical, duration, ordinal`},
		{"no kind", "parameters:\n  - id: a\n    default_value: 1\n",
			"line 2: parameters[0].kind: is required: float, int"},
		{"not a number",
			"parameters:\n  - id: a\n    kind: int\n    min_value: few\n    max_value: 3\n    default_value: 1\n",
			"line 4: parameters[0].min_value: want a number"},
		{"not a list", "parameters:\n  - id: a\n    kind: categorical\n    categories: x\n    default_value: x\n",
			"line 4: parameters[0].categories: is a single value, want a list"},
		{"a value's range",
			"parameters:\n  - id: a\n    kind: int\n    min_value: 0\n    max_value: 3\n    default_value: 7\n",
			"line 6: parameters[0].default_value: 7 is out of range"},
		{"no id", param + "rules:\n  - {ordering: {params: [a]}}\n", "line 4: rules[0].id: is missing"},
		{"a rule's parameter",
			param +
				"rules:\n  - id: r\n    activation:\n      param: b\n      when: a\n      op: \">\"\n      value: 1\n",
			"line 6: rules[0].activation.param: there is no parameter \"b\""},
		{"an unquoted operator",
			param + "rules:\n  - id: r\n    activation:\n      param: a\n      when: a\n      op: >\n      value: 1\n",
			`rules[0].activation.op: unknown comparison ""`},
		{"two kinds of rule",
			param +
				"rules:\n  - {id: r, linear: {terms: [{param: a, coefficient: 1}], max_value: 3}, ordering: " +
				"{params: [a]}}\n", "line 4: rules[0]: want exactly one of activation, ordering, linear and forbidden"},
		{"bad terms",
			param +
				"rules:\n  - id: r\n    linear:\n      terms:\n        - {param: a, coefficient: 0}\n        - " +
				"{param: x, coefficient: 1}\n        - {param: a, coefficient: 1}\n      max_value: 3\n",
			"line 7: rules[0].linear.terms[0].coefficient: must be finite and not 0; line 8: " +
				"rules[0].linear.terms[1].param: there is no parameter \"x\"; line 9: " +
				"rules[0].linear.terms[2].param: \"a\" is already in terms[0]"},
		{"forbidden nothing", param + "rules:\n  - {id: r, forbidden: {all: []}}\n",
			"line 4: rules[0].forbidden.all: at least one condition is needed"},
		{"forbidden unknown", param + "rules:\n  - {id: r, forbidden: {all: [{param: a, op: \"==\", value: 9}]}}\n",
			"line 4: rules[0].forbidden.all[0].value: a 9 is out of range"},
		{"everything at once",
			"parameters:\n  - {id: a, kind: int, min_value: 5, max_value: 1}\n  - {id: b, kind: size}\n  - {id: " +
				"c, kind: bool}\n",
			"line 3: parameters[1].kind: unknown parameter kind \"size\", want one of float, int, bool, " +
				"categorical, duration, ordinal; line 2: parameters[0].max_value: 1 is below min_value 5; line " +
				"4: parameters[2].default_value: is required"},
		{"JSON",
			"{\"parameters\": [\n\t{\"id\": \"a\", \"kind\": \"int\",\n\t \"min_value\": true, \"default_value\": 1}]}",
			"line 3: parameters[0].min_value: want a number"},
		{"JSON number", `{"parameters": [{"id": "a", "kind": "int", "min_value": 1e999, "default_value": 1}]}`,
			"document: line 1: 1e999 is too large a number"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Load([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
	if _, err := Load(make([]byte, MaxDocument+1)); err == nil || !strings.Contains(err.Error(), "larger than 4 MiB") {
		t.Errorf("a large document: %v", err)
	}
}

func TestDiff(t *testing.T) {
	s, err := Load(serving(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Parse(s.Default(), []string{"queues=1", "lease=20m", "effort=high"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Difference{{"queues", "3", "1"}, {"thresholds", "3250,7200", "none"}, {"starve_limit", "off", ""},
		{"lease", "10m", "20m"}, {"effort", "mid", "high"}}
	if diff := cmp.Diff(want, DiffConfigs(s.Default(), c)); diff != "" {
		t.Error(diff)
	}
	if d := DiffConfigs(c, c); d != nil {
		t.Errorf("differs from itself: %v", d)
	}
}

// FuzzLoad checks the invariants of accepted documents and their JSON round trip.
func FuzzLoad(f *testing.F) {
	f.Add(serving(f))
	b, err := os.ReadFile("testdata/ladder.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		// As a store reads it.
		if stored := new(Space); json.Unmarshal(b, stored) == nil {
			if err := stored.Check(stored.Default()); err != nil {
				t.Fatalf("accepted a space whose default is invalid: %v", err)
			}
		}
		s, err := Load(b)
		if err != nil {
			if v, ok := err.(Violations); !ok || len(v) == 0 || v[0].Field == "" {
				t.Fatalf("an error without a field: %v", err)
			}
			return
		}
		doc, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Load(doc); err != nil || again.Digest() != s.Digest() {
			t.Fatalf("reads back as another: %v\n%s", err, doc)
		}
		if s.Dims() > 100 {
			return
		}
		x := make([]float64, s.Dims())
		for _, v := range []float64{0, 0.3, 1} {
			for d := range x {
				x[d] = v
			}
			c := s.Decode(x)
			if err := s.Check(c); err != nil {
				t.Fatalf("decoded an invalid configuration: %v", err)
			}
			if _, changes := s.Project(c); len(changes) > 0 {
				t.Fatalf("a valid configuration was changed: %v", changes)
			}
		}
	})
}

// FuzzLoadConfig: a configuration that is read is valid, and its text reads the same.
func FuzzLoadConfig(f *testing.F) {
	s := tiresias(f)
	f.Add([]byte("parameters: {queues: 4, queue_thresholds: [3250, 7200]}"))
	f.Add([]byte("best: queues=4 starve_limit=10m"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := s.LoadConfig(text)
		if err != nil {
			return
		}
		if err := s.Check(c); err != nil {
			t.Fatal(err)
		}
		again, changes, err := s.LoadConfig([]byte(c.Canonical()))
		if err != nil || len(changes) > 0 || !again.Equal(c) {
			t.Fatalf("%s reads back as %v, %v, %v", c.Canonical(), again, changes, err)
		}
	})
}

// FuzzUnmarshalSpace: a stored space that is read has valid defaults and is stored the same.
func FuzzUnmarshalSpace(f *testing.F) {
	good, err := tiresias(f).MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		var s, again Space
		if s.UnmarshalJSON(text) != nil {
			return
		}
		if err := s.Check(s.Default()); err != nil {
			t.Fatal(err)
		}
		stored, err := s.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalJSON(stored); err != nil || again.Digest() != s.Digest() {
			t.Fatalf("%s does not read back: %v", stored, err)
		}
	})
}
