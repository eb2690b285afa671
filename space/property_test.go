package space

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestProjectAnythingIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spaces().Draw(t, "space")
		c, changes := s.Project(anything(s).Draw(t, "raw"))
		if err := s.Check(c); err != nil {
			t.Fatalf("projected configuration is invalid: %v\n%v", err, c)
		}
		for _, ch := range changes {
			if ch.Rule == "" {
				t.Fatalf("change of %s from %v to %v has no reason", ch.Param, ch.From, ch.To)
			}
		}
		again, changes := s.Project(c)
		if len(changes) > 0 || !again.Equal(c) {
			t.Fatalf("a valid configuration was changed: %v to %v", c, again)
		}
	})
}

func TestDecodeIsValidAndEncodeInvertsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spaces().Draw(t, "space")
		c := s.Decode(points(s).Draw(t, "x"))
		if err := s.Check(c); err != nil {
			t.Fatalf("decoded configuration is invalid: %v\n%v", err, c)
		}
		x := s.Encode(c)
		for _, v := range x {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("encoded outside the unit cube: %v", x)
			}
		}
		if back := s.Decode(x); !back.Equal(c) {
			t.Fatalf("Decode(Encode(c)) = %v, want %v", back, c)
		}
		if back := s.Decode(s.Encode(s.Default())); !back.Equal(s.Default()) {
			t.Fatalf("Decode(Encode(default)) = %v, want %v", back, s.Default())
		}
	})
}

func TestTextAndJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spaces().Draw(t, "space")
		c := s.Decode(points(s).Draw(t, "x"))

		read, err := s.ParseJSON([]byte(c.Canonical()))
		if err != nil || !read.Equal(c) || read.Hash() != c.Hash() {
			t.Fatalf("ParseJSON(%s) = %v, %v", c.Canonical(), read, err)
		}
		var sets []string
		for _, id := range c.IDs() {
			p, _ := s.Param(id)
			sets = append(sets, id+"="+p.Format(c.Get(id)))
		}
		parsed, err := s.Parse(s.Default(), sets)
		if err != nil || !parsed.Equal(c) {
			t.Fatalf("Parse(%q) = %v, %v", sets, parsed, err)
		}

		doc, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var other Space
		if err := json.Unmarshal(doc, &other); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Params(), other.Params()) + cmp.Diff(s.Rules(), other.Rules()); diff != "" {
			t.Fatalf("specification changed in JSON:\n%s", diff)
		}
		if other.Digest() != s.Digest() {
			t.Fatal("the digest changed in JSON")
		}
		moved, err := other.ParseJSON([]byte(c.Canonical()))
		if err != nil || moved.Hash() != c.Hash() || !moved.Equal(c) {
			t.Fatalf("the space read from JSON reads %v, %v", moved, err)
		}
	})
}

// TestOrderingIsMonotone checks the monotonicity that projection relies on.
func TestOrderingIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		num := rapid.Float64Range(-1e6, 1e6)
		o := &Ordering{MinGap: rapid.Float64Range(0, 100).Draw(t, "gap")}
		a, b, next := num.Draw(t, "a"), num.Draw(t, "b"), num.Draw(t, "next")
		if a > b {
			a, b = b, a
		}
		if o.allows(b, next) && !o.allows(a, next) {
			t.Fatalf("%v may follow %v but not %v", next, b, a)
		}
	})
}

// TestExtremeSpecifications checks that New refuses a specification with extreme
// numbers or returns a space that keeps its invariants.
func TestExtremeSpecifications(t *testing.T) {
	extreme := rapid.OneOf(rapid.Float64(),
		rapid.SampledFrom([]float64{0, 1, -1, 3, 0.1, 1e-300, 5e-324, 1e15, 1 << 53, 1e300, math.MaxFloat64,
			-math.MaxFloat64, math.Inf(1), math.NaN()}))
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		params, rules := drawSpec(t)
		for i := range params {
			p := &params[i]
			for _, f := range []*float64{&p.Min, &p.Max, &p.Step} {
				if p.Kind.numeric() && rapid.IntRange(0, 3*len(params)).Draw(t, "change") == 1 {
					*f = extreme.Draw(t, "value")
				}
			}
			if p.Array == nil && p.Kind.numeric() && rapid.Bool().Draw(t, "follow") {
				p.Default = Num(rapid.SampledFrom([]float64{p.Min, p.Max}).Draw(t, "default"))
			}
		}
		for i := range rules {
			if o := rules[i].Ordering; o != nil && rapid.IntRange(0, 3).Draw(t, "ordering") == 3 {
				o.MinRatio, o.MinGap = extreme.Draw(t, "ratio"), extreme.Draw(t, "gap")
			}
		}
		s, err := New(params, rules)
		if err != nil {
			return
		}
		accepted++
		for range 3 {
			c := s.Decode(points(s).Draw(t, "x"))
			if err := s.Check(c); err != nil {
				t.Fatalf("decoded configuration is invalid: %v\n%v", err, c)
			}
			if again, changes := s.Project(c); len(changes) > 0 {
				t.Fatalf("a valid configuration was changed: %v to %v", c, again)
			}
			for _, x := range s.Encode(c) {
				if !(x >= 0 && x <= 1) {
					t.Fatalf("encoded outside the unit cube: %v", s.Encode(c))
				}
			}
		}
	})
	if accepted == 0 && !testing.Short() { // with few checks, all may be
		t.Error("every specification was refused")
	}
}
