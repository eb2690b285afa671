package space

import (
	"fmt"
	"math"

	"pgregory.net/rapid"
)

// spaces draws random valid spaces: single parameters of every kind, an array
// with its length, orderings of both forms, and chains of activations.
func spaces() *rapid.Generator[*Space] {
	return rapid.Custom(func(t *rapid.T) *Space {
		for {
			params, rules := drawSpec(t)
			s, err := New(params, rules)
			if err == nil {
				return s
			}
			for _, v := range err.(Violations) {
				// The only thing drawn blindly is whether there is room.
				if v.Description[:min(16, len(v.Description))] != "there is no room" {
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
			a := &Activation{Param: params[i].ID, When: on.ID, Op: rapid.SampledFrom([]Op{Equal, NotEqual}).Draw(t, "op"), Value: on.Default}
			if on.Kind.numeric() {
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
		o.ceilings(ceiling, chain)
		if len(ceiling) > 0 && ceiling[0] >= p.Min {
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
		rules = append(rules, Rule{ID: "o_increase", Ordering: &Ordering{Params: ids, MinGap: rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "o gap")}})
		if rapid.Bool().Draw(t, "optional") {
			rules = append(rules, Rule{ID: "o1_when", Activation: &Activation{Param: "o1", When: "p0", Op: Equal, Value: params[0].Default}})
		}
	}
	return params, rules
}

func drawParam(t *rapid.T, id string) Param {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return Param{ID: id, Kind: KindBool, Default: Bool(rapid.Bool().Draw(t, "default"))}
	case 1:
		categories := []string{"a", "b", "c d", "é\"x"}[:rapid.IntRange(1, 4).Draw(t, "categories")]
		return Param{ID: id, Kind: KindCategorical, Categories: categories, Default: Text(categories[len(categories)-1])}
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

// anything draws values no scheduler would send.
func anything(s *Space) *rapid.Generator[Values] {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e308, -1e308, 5e-324, 0.3, 1, 2, 3}
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
