package controller

import (
	"flag"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

func TestDueRound(t *testing.T) {
	for _, c := range []struct {
		at   time.Duration
		want int64
	}{{0, -1}, {1, 0}, {time.Hour, 0}, {time.Hour + 1, 1}, {2 * time.Hour, 1}, {-1, -1}, {-time.Hour, -2},
		{1 - time.Hour, -1}} {
		if got := dueRound(c.at, time.Hour); got != c.want {
			t.Errorf("at %v round %d is due, want %d", c.at, got, c.want)
		}
	}
}

// Whatever a decision holds, values that pass the exit are in the space, as a second
// and separate look at the values finds.
func TestTheExitLetsOnlyTheSpacePass(t *testing.T) {
	sp, err := space.New([]space.Param{
		{ID: "n", Kind: space.KindInt, Min: 1, Max: 4, Default: space.Int(2)},
		{ID: "t", Kind: space.KindFloat, Min: 10, Max: 1000, Log: true,
			Array: &space.Array{Length: "n", Offset: -1, Max: 3}, Default: space.Nums(100)},
		{ID: "o", Kind: space.KindCategorical, Categories: []string{"a", "b"}, Default: space.Text("a")},
		{ID: "x", Kind: space.KindFloat, Min: 0.5, Max: 1, Special: []space.Special{{Value: 0, Name: "off"}},
			Default: space.Num(1)},
	}, []space.Rule{
		{ID: "up", Ordering: &space.Ordering{Params: []string{"t"}}},
		{ID: "x_if_b", Activation: &space.Activation{Param: "x", When: "o", Op: space.Equal, Value: space.Text("b")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	valid := func(c space.Config) bool {
		n, x, o := c.Get("n").Float(), c.Get("x"), c.Get("o").Text()
		ts := c.Get("t").Floats()
		kinds := c.Get("n").Equal(space.Num(n)) && c.Get("t").Equal(space.Nums(ts...)) &&
			c.Get("o").Equal(space.Text(o)) && (x.IsZero() || x.Equal(space.Num(x.Float())))
		ok := kinds && n == math.Trunc(n) && n >= 1 && n <= 4 && float64(len(ts)) == n-1 && (o == "a" || o == "b") &&
			x.IsZero() == (o == "a")
		for i, v := range ts {
			ok = ok && v >= 10 && v <= 1000 && (i == 0 || v > ts[i-1])
		}
		return ok && (x.IsZero() || x.Float() == 0 || x.Float() >= 0.5 && x.Float() <= 1)
	}
	number := rapid.OneOf(rapid.Float64(),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Copysign(0, -1), 0, 1, 2, 3, 4, 10, 50, 1000, 0.5,
			5e-324}))
	value := rapid.Custom(func(t *rapid.T) space.Value {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return space.Value{}
		case 1:
			return space.Bool(true)
		case 2, 3:
			return space.Text(rapid.SampledFrom([]string{"a", "b", "c", "", `"`}).Draw(t, "text"))
		case 4, 5, 6:
			nums := rapid.SliceOfN(number, 0, 4).Draw(t, "nums")
			if rapid.Bool().Draw(t, "sorted") {
				slices.Sort(nums)
			}
			return space.Nums(nums...)
		}
		return space.Num(number.Draw(t, "num"))
	})
	if d := (round.Decision{Config: sp.Default(), Adopt: true, Ratio: 1.1}); checkDecision(sp, &d) != nil {
		t.Fatal("the default does not pass: the test would show nothing")
	}
	proposals, given := "20000", flag.Lookup("rapid.checks").Value.String()
	if os.Getenv("AUTOSCHED_LONG") == "1" {
		proposals = "1000000"
	}
	if err := flag.Set("rapid.checks", proposals); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = flag.Set("rapid.checks", given) }()
	rapid.Check(t, func(t *rapid.T) {
		c := sp.Default()
		for _, id := range []string{"n", "t", "o", "x"} {
			if rapid.Bool().Draw(t, "set "+id) {
				c = c.With(id, value.Draw(t, id))
			}
		}
		d := round.Decision{Config: c, Adopt: true, Ratio: 1.1}
		err := checkDecision(sp, &d)
		if (err == nil) != valid(c) {
			t.Fatalf("%s: valid is %v, the exit says %v", c, valid(c), err)
		}
		if err == nil && (!d.Config.Equal(c) || d.Config.Space() != sp) {
			t.Fatalf("%s left as %s", c, d.Config)
		}
	})
}

func TestNarrowKeepsWhatIsBuiltIn(t *testing.T) {
	b := Builtin{Name: "b", Params: []space.Param{
		{ID: "n", Module: "scheduling", Unit: "queues", Description: "d",
			Kind: space.KindInt, Min: 1, Max: 9, Step: 2, Default: space.Int(3)},
		{ID: "o", Kind: space.KindCategorical, Categories: []string{"a", "b"}, Default: space.Text("a")},
	}}
	params, rules, v := b.Narrow([]space.Param{{ID: "n", Kind: space.KindInt, Min: 3, Max: 5, Default: space.Int(5)}},
		[]space.Rule{{ID: "r"}})
	if len(v) > 0 || len(params) != 2 || len(rules) != 1 {
		t.Fatal(params, rules, v)
	}
	if n := params[0]; n.Max != 5 || n.Step != 2 || n.Module != "scheduling" || n.Unit != "queues" ||
		n.Description != "d" || !n.Default.Equal(space.Int(5)) {
		t.Errorf("narrowed to %+v", n)
	}
	b.Site = func(id string) (space.Param, bool) {
		return space.Param{ID: id, Kind: space.KindInt, Max: 5, Unit: "u"}, id == "site.s"
	}
	params, _, v = b.Narrow([]space.Param{{ID: "site.s", Kind: space.KindInt, Max: 4},
		{ID: "site.s", Kind: space.KindInt}, {ID: "other"}}, nil)
	if len(params) != 3 || params[2].Max != 4 || params[2].Unit != "u" || len(v) != 2 ||
		v[0].Field != "parameters[1].id" {
		t.Error(params, v)
	}
	if _, _, v = b.Narrow([]space.Param{{ID: "site.s", Kind: space.KindInt, Max: 6}}, nil); len(v) != 1 {
		t.Error("a site's parameter is beyond its range:", v)
	}
	b.Site = nil
	if b.Params[0].Max != 9 {
		t.Error("the built-in changed")
	}
	_, _, v = b.Narrow([]space.Param{{ID: "o", Kind: space.KindCategorical, Categories: []string{"a", "z"}},
		{ID: "n", Kind: space.KindFloat}, {ID: "q"}, {ID: "o", Kind: space.KindCategorical}}, nil)
	var fields []string
	for _, one := range v {
		fields = append(fields, one.Field)
	}
	if want := []string{"parameters[0].categories[1]", "parameters[1].kind", "parameters[2].id",
		"parameters[3].id"}; !slices.Equal(fields, want) {
		t.Errorf("fields %v, want %v", fields, want)
	}
}
