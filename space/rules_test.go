package space

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func num(id string, lo, hi, def float64) Param {
	return Param{ID: id, Kind: KindFloat, Min: lo, Max: hi, Default: Num(def)}
}

func whole(id string, lo, hi, def int) Param {
	return Param{ID: id, Kind: KindInt, Min: float64(lo), Max: float64(hi), Default: Int(def)}
}

func one(id, of string, categories ...string) Param {
	return Param{ID: id, Kind: KindCategorical, Categories: categories, Default: Text(of)}
}

func linear(id string, most float64, terms ...Term) Rule {
	return Rule{ID: id, Linear: &Linear{Terms: terms, Max: most}}
}

func never(id string, all ...Condition) Rule {
	return Rule{ID: id, Forbidden: &Forbidden{All: all}}
}

func activation(id, param, when string, op Op, v Value) Rule {
	return Rule{ID: id, Activation: &Activation{Param: param, When: when, Op: op, Value: v}}
}

func must(t testing.TB, params []Param, rules ...Rule) *Space {
	t.Helper()
	s, err := New(params, rules)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestProjectionOfRules projects values that break each kind of rule.
func TestProjectionOfRules(t *testing.T) {
	off := num("limit", 1, 10, 2)
	off.Special = []Special{{Value: 0, Name: "off"}}
	level := Param{ID: "level", Kind: KindOrdinal, Categories: []string{"low", "mid", "high", "max"},
		Default: Text("low")}
	list := num("list", 0, 10, 0)
	list.Array, list.Default = &Array{Length: "n", Max: 3}, Nums(1, 2)
	tests := []struct {
		name   string
		params []Param
		rules  []Rule
		raw    Values
		want   string
		by     string // rules that changed something
	}{
		{"a sum comes down by the same share", []Param{num("a", 0, 10, 0), num("b", 0, 100, 0)},
			[]Rule{linear("r", 55, Term{"a", 1}, Term{"b", 1})},
			Values{"a": Num(10), "b": Num(100)}, "a=5 b=50", "r r"},
		{"negative coefficients rise", []Param{num("a", 0, 10, 10), num("b", 0, 10, 0)},
			[]Rule{linear("r", -2, Term{"a", -1}, Term{"b", 1})},
			Values{"a": Num(0), "b": Num(0)}, "a=2 b=0", "r"},
		{"whole numbers go on to the next", []Param{whole("a", 0, 10, 0), whole("b", 0, 10, 0)},
			[]Rule{linear("r", 7, Term{"a", 2}, Term{"b", 1})},
			Values{"a": Int(4), "b": Int(3)}, "a=2 b=1", "r r"},
		{"few digits", []Param{num("a", 0, 1, 0), num("b", 0, 1, 0), num("c", 0, 1, 0)},
			[]Rule{linear("r", 1, Term{"a", 1}, Term{"b", 1}, Term{"c", 1})},
			Values{"a": Num(1), "b": Num(1), "c": Num(1)}, "a=0.333333 b=0.333333 c=0.333333", "r r r"},
		{"special values and what is not active count as 0",
			[]Param{off, num("b", 0, 10, 0), one("k", "x", "x", "y"), num("c", 0, 10, 0)},
			[]Rule{linear("r", 10, Term{"limit", 5}, Term{"b", 1}, Term{"c", 1}),
				activation("s", "c", "k", Equal, Text("y"))},
			Values{"limit": Num(0), "b": Num(10), "k": Text("x"), "c": Num(3)}, "limit=off b=10 k=x", "s"},
		{"elements of an array are added", []Param{whole("n", 0, 3, 2), list}, []Rule{linear("r", 12, Term{"list", 1})},
			Values{"n": Int(3), "list": Nums(10, 8, 6)}, "n=3 list=5,4,3", "r"},
		{"an ordering and a sum", []Param{num("a", 0, 10, 1), num("b", 0, 10, 3)},
			[]Rule{{ID: "o", Ordering: &Ordering{Params: []string{"a", "b"}, MinGap: 2}},
				linear("r", 10, Term{"a", 1}, Term{"b", 1})},
			Values{"a": Num(10), "b": Num(10)}, "a=4 b=6", "r r"},
		{"two sums", []Param{num("a", 0, 10, 5), num("b", 0, 10, 0)},
			[]Rule{linear("r", 6, Term{"a", 1}, Term{"b", 1}), linear("s", -4, Term{"a", -1})},
			Values{"a": Num(1), "b": Num(9)}, "a=4.77273 b=1.22727", "r r"},
		{"the last of a combination moves", []Param{whole("q", 1, 6, 3), off},
			[]Rule{never("r", Condition{Param: "q", Op: GreaterEqual, Value: Int(5)},
				Condition{Param: "limit", Op: Less, Value: Num(4)})},
			Values{"q": Int(6), "limit": Num(3)}, "q=6 limit=4", "r"},
		{"a special value has no near one but the range",
			[]Param{whole("q", 1, 6, 3), off},
			[]Rule{never("r", Condition{Param: "q", Op: Equal, Value: Int(6)},
				Condition{Param: "limit", Op: Equal, Value: Text("off")})},
			Values{"q": Int(6), "limit": Num(0)}, "q=6 limit=1", "r"},
		{"a category goes to its default", []Param{whole("q", 1, 6, 3), one("k", "z", "x", "y", "z")},
			[]Rule{never("r", Condition{Param: "q", Op: Equal, Value: Int(6)},
				Condition{Param: "k", Op: In, Values: []Value{Text("x"), Text("y")}})},
			Values{"q": Int(6), "k": Text("x")}, "q=6 k=z", "r"},
		{"an ordinal to the nearest", []Param{one("k", "x", "x", "y"), level},
			[]Rule{never("r", Condition{Param: "k", Op: Equal, Value: Text("y")},
				Condition{Param: "level", Op: Greater, Value: Text("mid")})},
			Values{"k": Text("y"), "level": Text("max")}, "k=y level=mid", "r"},
		{"the one before where the last cannot",
			[]Param{whole("q", 1, 6, 3), one("k", "x", "x")},
			[]Rule{never("r", Condition{Param: "q", Op: Greater, Value: Int(4)},
				Condition{Param: "k", Op: Equal, Value: Text("x")})},
			Values{"q": Int(6), "k": Text("x")}, "q=4 k=x", "r"},
		{"an equal number moves a step", []Param{whole("q", 1, 6, 3), whole("w", 1, 6, 3)},
			[]Rule{never("r", Condition{Param: "q", Op: Equal, Value: Int(6)},
				Condition{Param: "w", Op: Equal, Value: Int(6)})},
			Values{"q": Int(6), "w": Int(6)}, "q=6 w=5", "r"},
		{"what a combination removes comes back at its default", []Param{one("k", "x", "x", "y"), num("a", 0, 10, 7)},
			[]Rule{activation("s", "a", "k", Equal, Text("x")),
				never("r", Condition{Param: "k", Op: Equal, Value: Text("y")})},
			Values{"k": Text("y"), "a": Num(1)}, "k=x a=1", "r"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := must(t, test.params, test.rules...)
			c, changes := s.Project(test.raw)
			if err := s.Check(c); err != nil {
				t.Errorf("projected to an invalid configuration: %v", err)
			}
			if got := c.String(); got != test.want {
				t.Errorf("projected to %s, want %s", got, test.want)
			}
			var by []string
			for _, ch := range changes {
				by = append(by, ch.Rule)
			}
			if got := strings.Join(by, " "); test.by != "" && got != test.by {
				t.Errorf("changed by %s, want %s", got, test.by)
			}
		})
	}
}

// TestProjectionToTheOnlyConfiguration projects onto a space whose only valid
// configuration is the default.
func TestProjectionToTheOnlyConfiguration(t *testing.T) {
	params := []Param{whole("a", 0, 3, 1), whole("b", 0, 3, 2), one("k", "x", "x", "y", "z")}
	var rules []Rule
	for a := range 4 {
		for b := range 4 {
			for _, k := range params[2].Categories {
				if a != 1 || b != 2 || k != "x" {
					rules = append(rules,
						never(fmt.Sprintf("r%d", len(rules)), Condition{Param: "a", Op: Equal, Value: Int(a)},
							Condition{Param: "b", Op: Equal, Value: Int(b)},
							Condition{Param: "k", Op: Equal, Value: Text(k)}))
				}
			}
		}
	}
	s := must(t, params, rules...)
	for a := range 4 {
		for b := range 4 {
			c, changes := s.Project(Values{"a": Int(a), "b": Int(b), "k": Text("z")})
			if !c.Equal(s.Default()) || changes[len(changes)-1].Rule == "" {
				t.Errorf("%d, %d became %v by %v", a, b, c, changes)
			}
		}
	}
	if all, complete := s.Enumerate(10); len(all) != 1 || !complete || !all[0].Equal(s.Default()) {
		t.Errorf("there are %v, %v", all, complete)
	}
}

func TestCheckNamesTheRule(t *testing.T) {
	s := must(t, []Param{num("a", 0, 10, 0), num("b", 0, 10, 0), one("k", "x", "x", "y")},
		linear("budget", 10, Term{"a", 2}, Term{"b", -0.5}),
		never("clash", Condition{Param: "k", Op: Equal, Value: Text("y")},
			Condition{Param: "a", Op: Greater, Value: Num(1)}))
	for want, c := range map[string]Config{
		"a: 2 a - 0.5 b <= 10 is broken: the sum is 16 (rule budget)": s.Default().With("a", Num(8)),
		"a: k == y and a > 1 is forbidden (rule clash)": s.Default().With("a", Num(2)).With("k",
			Text("y")),
	} {
		if err := s.Check(c); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestRuleTexts checks the descriptions of rules and of their projections.
func TestRuleTexts(t *testing.T) {
	for want, r := range map[string]Rule{
		"b exists while a > 1": activation("r", "b", "a", Greater, Num(1)),
		"a < b increase, each at least 1.5 times the one before, by at least 2": {Ordering: &Ordering{Params: []string{"a", "b"}, MinRatio: 1.5, MinGap: 2}},
		"-a + 2 b - 3 c <= -4": linear("r", -4, Term{"a", -1}, Term{"b", 2}, Term{"c", -3}),
		"never a == 1 and k in x, y": never("r", Condition{Param: "a", Op: Equal, Value: Int(1)},
			Condition{Param: "k", Op: In, Values: []Value{Text("x"), Text("y")}}),
		"values of thresholds increase": {Ordering: &Ordering{Params: []string{"thresholds"}}},
	} {
		if r.String() != want || r.Projection() == "" {
			t.Errorf("got %q, %q, want %q", r.String(), r.Projection(), want)
		}
	}
}

// TestUnsatisfiable checks that an unsatisfiable space is refused with the reason, and
// that the error about a bad default suggests a valid one.
func TestUnsatisfiable(t *testing.T) {
	three := []Param{num("a", 0, 10, 0), num("b", 0, 10, 0), num("c", 0, 10, 0)}
	tests := []struct {
		name   string
		params []Param
		rules  []Rule
		want   string
	}{
		{"a sum", three, []Rule{linear("r", -1, Term{"a", 1}, Term{"b", 2})},
			"default: a: a + 2 b <= -1 is broken: the sum is 0 (rule r)"},
		{"always forbidden", three,
			[]Rule{never("r", Condition{Param: "a", Op: GreaterEqual, Value: Num(0)},
				Condition{Param: "b", Op: Less, Value: Num(11)})},
			"default: b: a >= 0 and b < 11 is forbidden (rule r)"},
		{"another default", three, []Rule{linear("r", -3, Term{"a", -1}, Term{"b", -1})},
			"default: a: -a - b <= -3 is broken: the sum is 0 (rule r); these defaults would do: a=1.5 b=1.5"},
		{"another default in a small space", []Param{one("k", "x", "x", "y"), whole("q", 1, 3, 1)},
			[]Rule{never("r", Condition{Param: "k", Op: Equal, Value: Text("x")},
				Condition{Param: "q", Op: Less, Value: Int(3)})},
			"default: q: k == x and q < 3 is forbidden (rule r); these defaults would do: q=3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.params, test.rules)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestCyclesAreReported(t *testing.T) {
	list := num("list", 0, 10, 0)
	list.Array, list.Default = &Array{Length: "n", Max: 3}, Nums(1)
	tests := []struct {
		params []Param
		rules  []Rule
		want   string
	}{
		{[]Param{num("a", 0, 1, 0), num("b", 0, 1, 0), num("c", 0, 1, 0)},
			[]Rule{activation("r", "a", "b", Equal, Num(0)), activation("s", "b", "c", Equal, Num(0)),
				activation("t", "c", "a", Equal, Num(0))},
			`parameters[0]: "a" depends on itself`},
		{[]Param{num("a", 0, 1, 0), num("b", 0, 1, 1), num("c", 0, 1, 0), num("d", 0, 1, 0)},
			[]Rule{{ID: "o", Ordering: &Ordering{Params: []string{"a", "b"}}}, activation("r", "a", "c", Equal, Num(0)),
				activation("s", "c", "b", Equal, Num(1)), activation("u", "d", "a", Equal, Num(0))},
			`parameters[0]: "a" depends on itself`},
		{[]Param{num("a", 0, 1, 0)}, []Rule{activation("r", "a", "a", Equal, Num(0))},
			`parameters[0]: "a" depends on itself`},
		{[]Param{list, whole("n", 0, 3, 1), one("k", "x", "x")},
			[]Rule{activation("r", "n", "k", Equal, Text("x")), activation("s", "k", "n", Equal, Int(1))},
			`parameters[1]: "n" depends on itself`},
	}
	for _, test := range tests {
		_, err := New(test.params, test.rules)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("got %v\nwant %s", err, test.want)
		}
		if err != nil && (strings.Contains(err.Error(), `"d"`) || strings.Contains(err.Error(), `"list"`)) {
			t.Errorf("what only depends on a cycle is reported: %v", err)
		}
	}
}

// TestLinearRulesEnd checks that conflicting linear rules alone are resolved by
// moving values, without the final fallback to the defaults: the last margin reaches
// the defaults. No value moves beyond them.
func TestLinearRulesEnd(t *testing.T) {
	tried := 0
	rapid.Check(t, func(t *rapid.T) {
		params := make([]Param, rapid.IntRange(2, 5).Draw(t, "params"))
		for i := range params {
			params[i] = Param{ID: fmt.Sprintf("p%d", i), Kind: KindFloat, Min: -10, Max: 10,
				Default: Num(rapid.Float64Range(-9, 9).Draw(t, "default"))}
			if rapid.Bool().Draw(t, "integer") {
				params[i].Kind, params[i].Default = KindInt, Num(math.Round(params[i].Default.num))
			}
		}
		var rules []Rule
		for k := range rapid.IntRange(1, 4).Draw(t, "rules") {
			l := &Linear{Max: rapid.SampledFrom([]float64{0, .1, 2}).Draw(t, "room")}
			for i := range params {
				c := rapid.SampledFrom([]float64{-2, -1, -.1, .1, 1, 2}).Draw(t, "coefficient")
				l.Terms = append(l.Terms, Term{params[i].ID, c})
				l.Max += c * params[i].Default.num
			}
			rules = append(rules, Rule{ID: fmt.Sprintf("l%d", k), Linear: l})
		}
		s, err := New(params, rules)
		if err != nil {
			t.Skip(err)
		}
		raw := make([]Value, len(params))
		for i := range raw {
			raw[i] = Num(params[i].decodeNumber(rapid.Float64Range(0, 1).Draw(t, "raw")))
		}
		values, why := s.settle(raw)
		broken := s.firstBroken(values)
		if broken < 0 {
			return
		}
		tried++
		if _, _, ok := s.applyBroken(raw, values, why, broken); !ok {
			t.Fatalf("the rules %v are not resolved from %v", rules, values)
		}
	})
	if tried < 10 && !testing.Short() {
		t.Errorf("rules were broken %d times only", tried)
	}
}

// TestLinearMovesNoFurtherThanNeeded checks that a single rule is met to six digits.
func TestLinearMovesNoFurtherThanNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.Float64Range(.1, 5).Draw(t, "coefficient")
		s, err := New([]Param{
			{ID: "x", Kind: KindFloat, Min: 1, Max: 10, Default: Num(1)},
			{ID: "y", Kind: KindFloat, Min: 1, Max: 10, Default: Num(1)},
		}, []Rule{{ID: "sum", Linear: &Linear{Terms: []Term{{"x", 1}, {"y", c}}, Max: 1.2 * (1 + c)}}})
		if err != nil {
			t.Fatal(err)
		}
		x, y := rapid.Float64Range(2, 10).Draw(t, "x"), rapid.Float64Range(2, 10).Draw(t, "y")
		got, changes := s.Project(Values{"x": Num(x), "y": Num(y)})
		sum := got.Get("x").Float() + c*got.Get("y").Float()
		if bound := 1.2 * (1 + c); sum > bound*(1+1e-9) || sum < bound*(1-1e-4) || len(changes) == 0 {
			t.Fatalf("(%g, %g) became %v: the sum is %g, the bound %g", x, y, got, sum, bound)
		}
	})
}
