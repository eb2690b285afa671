package space

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func tiresias(t testing.TB) *Space {
	t.Helper()
	b, err := os.ReadFile("testdata/ladder.json")
	if err != nil {
		t.Fatal(err)
	}
	s := new(Space)
	if err := json.Unmarshal(b, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewListsEveryViolation(t *testing.T) {
	num := func(id string, lo, hi, def float64) Param {
		return Param{ID: id, Kind: KindFloat, Min: lo, Max: hi, Default: Num(def)}
	}
	with := func(p Param, change func(*Param)) Param { change(&p); return p }
	activation := func(id, param, when string, op Op, v Value) Rule {
		return Rule{ID: id, Activation: &Activation{Param: param, When: when, Op: op, Value: v}}
	}
	tests := []struct {
		name   string
		params []Param
		rules  []Rule
		want   []string // "field: start of description"
	}{
		{"duplicate and bad ids", []Param{num("a", 0, 1, 0), num("a", 0, 1, 0), num("b c", 0, 1, 0)}, nil,
			[]string{`parameters[1].id: "a" is already`, `parameters[2].id: "b c" is not a name`}},
		{"numbers", []Param{num("a", math.NaN(), 1, 0), num("b", 2, 1, 1), num("c", 0, math.Inf(1), 0),
			num("d", -math.MaxFloat64, math.MaxFloat64, 0)}, nil,
			[]string{"parameters[0].min_value: must be finite", "parameters[1].max_value: 1 is below",
				"parameters[2].max_value: must be finite", "parameters[3].max_value: max_value - min_value"}},
		{"log needs a positive minimum", []Param{with(num("a", 0, 1, 0), func(p *Param) { p.Log = true })}, nil,
			[]string{"parameters[0].min_value: 0 must be above 0"}},
		{"step divides", []Param{with(num("a", 0, 1, 0), func(p *Param) {
			p.Step = 0.3
		}), with(num("b", 0, 1, 0.15), func(p *Param) { p.Step = 0.1 })}, nil,
			[]string{"parameters[0].step: 0.3 does not divide", "parameters[1].default_value: 0.15 is not on a step"}},
		{"integers", []Param{{ID: "a", Kind: KindInt, Min: 0.5, Max: 3, Default: Int(1)},
			{ID: "b", Kind: KindInt, Max: 3, Default: Num(1.5)}, {ID: "c", Kind: KindInt, Max: 3},
			{ID: "d", Kind: KindInt, Max: 3, Default: Text("x")}}, nil,
			[]string{"parameters[0].min_value: 0.5 must be a whole",
				"parameters[1].default_value: 1.5 is not on a step", "parameters[2].default_value: is required",
				"parameters[3].default_value: is text"}},
		{"categories", []Param{{ID: "a", Kind: KindCategorical, Default: Text("x")},
			{ID: "b", Kind: KindCategorical, Categories: []string{"x", "", "x"}, Default: Text("x")},
			{ID: "c", Kind: KindCategorical, Categories: []string{"x"}, Default: Text("y")},
			{ID: "d", Kind: KindBool, Max: 1, Default: Bool(true)}}, nil,
			[]string{"parameters[0].categories: at least one", "parameters[1].categories[1]: must not be empty",
				"parameters[1].categories[2]: \"x\" is listed twice",
				"parameters[2].default_value: \"y\" is not one of x", "parameters[3]: a bool parameter has no range"}},
		{"special values", []Param{with(num("a", 0, 1, 0), func(p *Param) {
			p.Special = []Special{{Value: 0.5}, {Value: 2, Weight: 0.5}, {Value: 2, Weight: 1.5}}
		})}, nil,
			[]string{"parameters[0].special_values[0].value: 0.5 is inside",
				"parameters[0].special_values[2].value: 2 is listed twice",
				"parameters[0].special_values[2].weight: 1.5", "parameters[0].special_values: weights add up"}},
		{"arrays", []Param{with(num("a", 0, 1, 0), func(p *Param) {
			p.Array = &Array{Length: "nope", Max: 3}
			p.Default = Nums()
		}),
			with(num("b", 0, 1, 0), func(p *Param) { p.Array = &Array{Length: "a", Max: 3}; p.Default = Nums() }),
			with(num("c", 0, 1, 0), func(p *Param) { p.Array = &Array{Length: "n", Max: 3}; p.Default = Nums(0, 2) }),
			{ID: "n", Kind: KindInt, Max: 4, Default: Int(2)}}, nil,
			[]string{"parameters[2].default_value[1]: 2 is out of range",
				"parameters[0].array.length: there is no parameter",
				"parameters[1].array.length: \"a\" must be a single integer",
				"parameters[2].array.max_length: lengths from 0 to 4"}},
		{"rules", []Param{num("a", 0, 1, 0),
			{ID: "k", Kind: KindCategorical, Categories: []string{"x"}, Default: Text("x")}}, []Rule{
			{ID: "r"}, activation("r", "q", "w", Equal, Int(1)), activation("s", "a", "k", Less, Text("x")),
			activation("t", "a", "k", Equal, Text("z")), activation("u", "a", "k", "~", Text("x")),
			activation("v", "a", "k", In, Text("x"))},
			[]string{"rules[0]: want exactly one", "rules[1].id: \"r\" is already",
				"rules[1].activation.param: there is no", "rules[1].activation.when: there is no",
				"rules[2].activation.op: < cannot compare", "rules[3].activation.value: k \"z\" is not one of",
				"rules[4].activation.op: unknown", "rules[5].activation.values: at least one"}},
		{"orderings", []Param{num("a", 0, 1, 0), num("b", 0, 1, 0.5), num("c", 0, 1, 1)}, []Rule{
			{ID: "r", Ordering: &Ordering{Params: []string{"a", "b"}, MinGap: -1}},
			{ID: "s", Ordering: &Ordering{Params: []string{"b", "nope"}}},
			{ID: "t", Ordering: &Ordering{Params: []string{"c"}, MinRatio: 0.5}}},
			[]string{"rules[0].ordering.min_gap: must", "rules[1].ordering.params[0]: \"b\" is already ordered",
				"rules[1].ordering.params[1]: there is no", "rules[1].ordering.params: want one array",
				"rules[2].ordering.min_ratio: must", "rules[2].ordering.params: want one array"}},
		{"no room", []Param{num("a", 0, 1, 0), num("b", 0, 1, 1)},
			[]Rule{{ID: "r", Ordering: &Ordering{Params: []string{"a", "b"}, MinGap: 2}}},
			[]string{"rules[0].ordering: there is no room"}},
		{"cycle", []Param{num("a", 0, 1, 0), num("b", 0, 1, 0), num("c", 0, 1, 0)},
			[]Rule{activation("r", "a", "b", Equal, Num(0)), activation("s", "b", "a", Equal, Num(0))},
			[]string{`parameters[0]: "a" depends on itself`, `parameters[1]: "b" depends on itself`}},
		{"default breaks a rule", []Param{num("a", 0, 1, 0.5), num("b", 0, 1, 0.5)},
			[]Rule{{ID: "r", Ordering: &Ordering{Params: []string{"a", "b"}}}},
			[]string{"default: b: 0.5 must be above a = 0.5 (rule r)"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.params, test.rules)
			v, ok := err.(Violations)
			if !ok {
				t.Fatalf("New returned %v, want Violations", err)
			}
			if len(v) != len(test.want) {
				t.Errorf("got %d violations, want %d", len(v), len(test.want))
			}
			for i := range min(len(v), len(test.want)) {
				if got := v[i].Field + ": " + v[i].Description; !strings.HasPrefix(got, test.want[i]) {
					t.Errorf("violation %d is %q, want %q...", i, got, test.want[i])
				}
			}
			if t.Failed() {
				t.Log(strings.ReplaceAll(v.Error(), "; ", "\n"))
			}
		})
	}
}

func TestParse(t *testing.T) {
	s := tiresias(t)
	tests := []struct {
		sets string
		want string // a configuration, or "error: " and a part of it
	}{
		{"", "priority=service queues=3 queue_thresholds=3250,7200 starve_limit=off order=submit"},
		{"queues=1", "priority=service queues=1 queue_thresholds= starve_limit=off order=submit"},
		{"queues=2", "priority=service queues=2 queue_thresholds=3250 starve_limit=off order=submit"},
		{"queues=6",
			"priority=service queues=6 queue_thresholds=3250,7200,15950.8,35337.2,78285.6 starve_limit=off order=submit"},
		{"queues=4 queue_thresholds=3250,7200,20000",
			"priority=service queues=4 queue_thresholds=3250,7200,20000 starve_limit=off order=submit"},
		{"starve_limit=OFF", "priority=service queues=3 queue_thresholds=3250,7200 starve_limit=off order=submit"},
		{"starve_limit=10m",
			"priority=service queues=3 queue_thresholds=3250,7200 starve_limit=10m starve_ratio=8 order=submit"},
		{"starve_limit=5400 starve_ratio=2",
			"priority=service queues=3 queue_thresholds=3250,7200 starve_limit=1h30m starve_ratio=2 order=submit"},
		{"starve_ratio=2", "error: starve_ratio: is not active: it needs starve_limit > 0"},
		{"starve_limit=10", "error: starve_limit: 10 is out of range, want 60 to 86400 seconds or 0 (off)"},
		{"queue_thresholds=30,60", "error: queue_thresholds[0]: 30 is out of range, want 60 to 1000000 GPU-s"},
		{"queue_thresholds=7200,3250",
			"error: queue_thresholds[1]: 3250 must be above queue_thresholds[0] = 7200 by a factor of 1.1 (rule " +
				"thresholds_increase)"},
		{"queue_thresholds=100,200,300", "error: queue_thresholds: has 3 values, want 2 (queues is 3)"},
		{"queues=3.5", "error: queues: 3.5 is not on a step, want 1 to 6, whole numbers"},
		{"queues=many", `error: queues: cannot read "many", want 1 to 6`},
		{"order=lifo", `error: order: "lifo" is not one of submit, running_first`},
		{"colour=red", "error: colour: there is no such parameter, want one of priority, queues"},
		{"queues=2 queues=3", "error: queues: is set twice"},
		{"queues", "error: queues: want name=value"},
		{"starve_limit=NaN", "error: starve_limit: is not a finite number"},
	}
	for _, test := range tests {
		c, err := s.Parse(s.Default(), strings.Fields(test.sets))
		got := c.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != test.want && !(err != nil && strings.HasPrefix(got, test.want)) {
			t.Errorf("Parse(%q)\n got %s\nwant %s", test.sets, got, test.want)
		}
	}
}

func TestParseJSONIsStrict(t *testing.T) {
	s := tiresias(t)
	const whole = `"priority":"service","queues":1,"queue_thresholds":[],"order":"submit"`
	for in, want := range map[string]string{
		`{` + whole + `,"starve_limit":0}`:                     "",
		`{` + whole + `,"starve_limit":"off"}`:                 "",
		`{` + whole + `,"starve_limit":"2h","starve_ratio":8}`: "",
		`{` + whole + `}`:                                      "starve_limit: is missing",
		`{` + whole + `,"starve_limit":0,"queues":2}`:          "queues: is set twice",
		`{` + whole + `,"starve_limit":0,"x":2}`:               "x: there is no such parameter",
		`{` + whole + `,"starve_limit":0,"starve_ratio":2}`:    "starve_ratio: is not active",
		`{` + whole + `,"starve_limit":{}}`:                    "starve_limit: space: a value cannot be an object",
		`{` + whole + `,"starve_limit":0} {}`:                  "configuration: is followed by",
		`{` + whole:                                            "configuration: ",
		`[]`:                                                   "configuration: is not a JSON object",
	} {
		_, err := s.ParseJSON([]byte(in))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("ParseJSON(%s) = %v, want %q", in, err, want)
		}
	}
}

// TestCanonicalIsPinned pins the canonical text and hash, which are stored and
// compared across versions.
func TestCanonicalIsPinned(t *testing.T) {
	s := tiresias(t)
	c := s.Default()
	if got, want := c.Canonical(),
		`{"priority":"service","queues":3,"queue_thresholds":[3250,7200],"starve_limit":0,"order":"submit"}`; got != want {
		t.Errorf("canonical\n got %s\nwant %s", got, want)
	}
	if got, want := c.Hash(), "9f3e7abca10980ea1b687b0d5bcfb6f97792ff34e42be4f545d995800114671f"; got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
	if c.With("starve_limit", Num(math.Copysign(0, -1))).Hash() != c.Hash() {
		t.Error("-0 and 0 hash differently")
	}
}

func TestCheckIsIndependent(t *testing.T) {
	s := tiresias(t)
	c := s.Default().With("queues", Int(4)).With("order", Text("lifo")).With("starve_limit",
		Num(math.NaN())).With("priority", Value{})
	want := Violations{
		{Field: "priority", Description: "is missing, want one of service, time"},
		{Field: "queue_thresholds", Description: "has 2 values, want 3 (queues is 4)"},
		{Field: "starve_limit", Description: "is not a finite number, want 60 to 86400 seconds or 0 (off)"},
		{Field: "order", Description: `"lifo" is not one of submit, running_first`},
	}
	if diff := cmp.Diff(error(want), s.Check(c)); diff != "" {
		t.Error(diff)
	}
	if s.Check(Config{}) == nil {
		t.Error("an empty configuration passed")
	}
}

// TestDecodeShares checks that every level of a small range has the same share of the
// cube, and special values have their weight.
func TestDecodeShares(t *testing.T) {
	s := tiresias(t)
	const n = 6000
	queues, off := map[int]int{}, 0
	for i := range n {
		x := make([]float64, s.Dims())
		for d := range x {
			x[d] = (float64(i) + 0.5) / n
		}
		c := s.Decode(x)
		queues[c.Get("queues").Int()]++
		if c.Get("starve_limit").Float() == 0 {
			off++
		}
	}
	for q := 1; q <= 6; q++ {
		if queues[q] != n/6 {
			t.Errorf("queues=%d got %d of %d", q, queues[q], n)
		}
	}
	if off != n/4 {
		t.Errorf("off got %d of %d, want a quarter", off, n)
	}
}

func FuzzParse(f *testing.F) {
	s := tiresias(f)
	for _, seed := range []string{"queues=4", "queue_thresholds=[3250, 7200]", "starve_limit=10m starve_ratio=2",
		"queues=1e300", "=", "queue_thresholds=,", "starve_limit=-0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := s.Parse(s.Default(), strings.Split(text, " "))
		if err != nil {
			return
		}
		if err := s.Check(c); err != nil {
			t.Fatalf("Parse(%q) accepted an invalid configuration: %v", text, err)
		}
		if again, err := s.Parse(s.Default(), strings.Split(c.String(), " ")); err != nil || !again.Equal(c) {
			t.Fatalf("Parse(%q) = %v, %v", c.String(), again, err)
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	s := tiresias(f)
	f.Add([]byte(s.Default().Canonical()))
	f.Add([]byte(`{"queues":null,"queue_thresholds":[1e999]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := s.ParseJSON(b)
		if err != nil {
			return
		}
		if again, err := s.ParseJSON([]byte(c.Canonical())); err != nil || again.Hash() != c.Hash() {
			t.Fatalf("%s reads back as %v, %v", c.Canonical(), again, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	s := tiresias(b)
	x := s.Encode(s.Default())
	b.ReportAllocs()
	for b.Loop() {
		s.Decode(x)
	}
}

func BenchmarkHash(b *testing.B) {
	c := tiresias(b).Default()
	b.ReportAllocs()
	for b.Loop() {
		_ = c.Hash()
	}
}
