package space

import (
	"fmt"
	"math"
	"strings"

	"pgregory.net/rapid"
)

// spaces draws random valid spaces: single parameters of every kind, an array
// with its length, orderings of both forms, chains of activations, sums and
// forbidden combinations over any of them.
func spaces() *rapid.Generator[*Space] {
	return rapid.Custom(func(t *rapid.T) *Space {
		for {
			params, rules := drawSpec(t)
			s, err := New(params, rules)
			if err == nil {
				return s
			}
			for _, v := range err.(Violations) {
				// Drawn without regard to whether there is room and whether the
				// default obeys linear and forbidden rules.
				if !strings.HasPrefix(v.Description, "there is no room") && v.Field != "default" && v.Field != "rules" {
					t.Fatalf("drawn specification refused: %v", err)
				}
			}
		}
	})
}

func drawSpec(t *rapid.T) (params []Param, rules []Rule) {
	n := rapid.IntRange(1, 5).Draw(t, "params")
	for i := range n {
		params = append(params, drawParam(t, fmt.Sprintf("p%d", i)))
	}
	for i := 1; i < n; i++ {
		if rapid.Bool().Draw(t, "activated") {
			on := params[rapid.IntRange(0, i-1).Draw(t, "on")]
			a := &Activation{Param: params[i].ID, When: on.ID,
				Op: rapid.SampledFrom([]Op{Equal, NotEqual}).Draw(t, "op"), Value: on.Default}
			if on.Kind.numeric() || on.Kind == KindOrdinal {
				a.Op = rapid.SampledFrom([]Op{Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual}).Draw(t, "op")
			}
			rules = append(rules, Rule{ID: fmt.Sprintf("a%d", i), Activation: a})
		}
	}
	if rapid.Bool().Draw(t, "array") {
		length := rapid.IntRange(1, 4).Draw(t, "length")
		p := drawRange(t, "list")
		p.Array = &Array{Length: "len", Offset: -1, Max: 4}
		o := &Ordering{Params: []string{"list"}, MinGap: rapid.SampledFrom([]float64{0, 0.5, 3}).Draw(t, "gap")}
		if p.Min > 0 {
			o.MinRatio = rapid.SampledFrom([]float64{0, 1.1, 2}).Draw(t, "ratio")
		}
		nums := make([]float64, length-1)
		for k := range nums {
			nums[k] = p.Min
		}
		chain := make([]*Param, len(nums))
		for k := range chain {
			chain[k] = &p
		}
		ceiling := make([]float64, len(nums))
		if o.ceilings(ceiling, chain, false) {
			o.arrange(nums, chain)
		}
		p.Default = Nums(nums...)
		params = append(params, p, Param{ID: "len", Kind: KindInt, Min: 1, Max: 5, Default: Int(length)})
		rules = append(rules, Rule{ID: "list_increases", Ordering: o})
	}
	if rapid.Bool().Draw(t, "ordered") {
		var ids []string
		for k := range rapid.IntRange(2, 4).Draw(t, "ordered params") {
			p := Param{ID: fmt.Sprintf("o%d", k), Kind: KindInt, Min: 1 + float64(k), Max: 20, Default: Int(1 + 3*k)}
			if rapid.Bool().Draw(t, "float") {
				p.Kind = KindFloat
			}
			params, ids = append(params, p), append(ids, p.ID)
		}
		rules = append(rules, Rule{ID: "o_increase",
			Ordering: &Ordering{Params: ids, MinGap: rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "o gap")}})
		if rapid.Bool().Draw(t, "optional") {
			rules = append(rules, Rule{ID: "o1_when",
				Activation: &Activation{Param: "o1", When: "p0", Op: Equal, Value: params[0].Default}})
		}
	}
	for k := range rapid.IntRange(0, 2).Draw(t, "linear") {
		if l := drawLinear(t, params); l != nil {
			rules = append(rules, Rule{ID: fmt.Sprintf("l%d", k), Linear: l})
		}
	}
	for k := range rapid.IntRange(0, 2).Draw(t, "forbidden") {
		rules = append(rules, Rule{ID: fmt.Sprintf("f%d", k), Forbidden: drawForbidden(t, params)})
	}
	return params, rules
}

// drawLinear draws a sum over some of the numbers, with a bound that the
// defaults mostly obey.
func drawLinear(t *rapid.T, params []Param) *Linear {
	l := &Linear{}
	for i := range params {
		p := &params[i]
		if !p.Kind.numeric() || !rapid.Bool().Draw(t, "summed") {
			continue
		}
		c := rapid.SampledFrom([]float64{1, 2, 0.1, -1, -0.5}).Draw(t, "coefficient")
		l.Terms = append(l.Terms, Term{p.ID, c})
		if p.special(p.Default.num) == nil {
			l.Max += c * p.Default.num
		}
		for _, x := range p.Default.nums {
			l.Max += c * x
		}
	}
	if l.Terms == nil {
		return nil
	}
	l.Max += rapid.SampledFrom([]float64{0, 0.5, 3, 20}).Draw(t, "room")
	return l
}

func drawForbidden(t *rapid.T, params []Param) *Forbidden {
	f := &Forbidden{}
	for range rapid.IntRange(1, 3).Draw(t, "conditions") {
		p := params[rapid.IntRange(0, len(params)-1).Draw(t, "on")]
		if p.Array != nil {
			continue
		}
		c := Condition{Param: p.ID}
		one := func() Value {
			switch {
			case p.Kind == KindBool:
				return Bool(rapid.Bool().Draw(t, "value"))
			case p.Kind.named():
				return Text(rapid.SampledFrom(p.Categories).Draw(t, "value"))
			case len(p.Special) > 0 && rapid.Bool().Draw(t, "special"):
				return Num(p.Special[0].Value)
			}
			return Num(p.decodeNumber(rapid.SampledFrom([]float64{0, 0.3, 0.5, 1}).Draw(t, "value")))
		}
		ops := []Op{Equal, NotEqual, In}
		if p.Kind.numeric() || p.Kind == KindOrdinal {
			ops = append(ops, Less, LessEqual, Greater, GreaterEqual)
		}
		if c.Op = rapid.SampledFrom(ops).Draw(t, "op"); c.Op == In {
			c.Values = []Value{one(), one()}
		} else {
			c.Value = one()
		}
		f.All = append(f.All, c)
	}
	if len(f.All) == 0 {
		p := &params[0]
		f.All = []Condition{{Param: p.ID, Op: NotEqual, Value: p.Default}}
	}
	return f
}

func drawParam(t *rapid.T, id string) Param {
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 2:
		levels := []string{"low", "mid", "high", "max"}[:rapid.IntRange(1, 4).Draw(t, "levels")]
		return Param{ID: id, Kind: KindOrdinal, Categories: levels,
			Default: Text(rapid.SampledFrom(levels).Draw(t, "default"))}
	case 0:
		return Param{ID: id, Kind: KindBool, Default: Bool(rapid.Bool().Draw(t, "default"))}
	case 1:
		categories := []string{"a", "b", "c d", "é\"x"}[:rapid.IntRange(1, 4).Draw(t, "categories")]
		return Param{ID: id, Kind: KindCategorical, Categories: categories,
			Default: Text(categories[len(categories)-1])}
	}
	p := drawRange(t, id)
	if rapid.Bool().Draw(t, "special") {
		p.Special = []Special{{Value: p.Min - 1, Name: "off"}, {Value: p.Max + 1, Weight: 0.3}}
	}
	p.Default = Num(p.Min)
	return p
}

func drawRange(t *rapid.T, id string) Param {
	p := Param{ID: id, Kind: rapid.SampledFrom([]Kind{KindFloat, KindInt, KindDuration}).Draw(t, "number kind")}
	p.Log = rapid.Bool().Draw(t, "log")
	if p.Log {
		p.Min = float64(rapid.IntRange(1, 100).Draw(t, "min"))
	} else {
		p.Min = float64(rapid.IntRange(-100, 100).Draw(t, "min"))
	}
	step := 0.0
	if rapid.Bool().Draw(t, "stepped") {
		step = rapid.SampledFrom([]float64{1, 2, 5}).Draw(t, "step")
		if p.Kind != KindInt && rapid.Bool().Draw(t, "tenths") {
			step = 0.1
		}
	}
	p.Step = step
	p.Max = p.Min + max(step, 1)*float64(rapid.IntRange(0, 60).Draw(t, "span"))
	if step == 0.1 {
		p.Max = p.Min + float64(rapid.IntRange(0, 60).Draw(t, "span"))
	}
	return p
}

// anything draws arbitrary values, valid or not.
func anything(s *Space) *rapid.Generator[Values] {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e308, -1e308, 5e-324, 0.3, 1, 2,
		3}
	num := rapid.OneOf(rapid.SampledFrom(odd), rapid.Float64Range(-150, 150), rapid.Float64())
	return rapid.Custom(func(t *rapid.T) Values {
		raw := Values{}
		for _, p := range s.params {
			switch rapid.IntRange(0, 6).Draw(t, "shape") {
			case 0:
				raw[p.ID] = Text(rapid.SampledFrom([]string{"", "a", "off", "c d", "12"}).Draw(t, "text"))
			case 1:
				raw[p.ID] = Bool(rapid.Bool().Draw(t, "bool"))
			case 2:
				raw[p.ID] = Nums(rapid.SliceOfN(num, 0, 7).Draw(t, "list")...)
			case 3: // missing
			case 4:
				raw[p.ID] = p.Default
			default:
				if p.Array != nil {
					raw[p.ID] = Nums(rapid.SliceOfN(num, 0, 7).Draw(t, "list")...)
				} else {
					raw[p.ID] = Num(num.Draw(t, "num"))
				}
			}
		}
		return raw
	})
}

func points(s *Space) *rapid.Generator[[]float64] {
	edge := rapid.SampledFrom([]float64{0, 1, 0.5, math.NaN(), -3, 2, 1 - 1e-16})
	return rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1), edge), s.Dims(), s.Dims())
}
