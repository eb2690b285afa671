package search

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/autosched/autosched/internal/testshared"
	"pgregory.net/rapid"
)

// TestBlueFinTraces replays runs of the original with its random directions:
// every centre, step, radius and proposed value must agree.
func TestBlueFinTraces(t *testing.T) {
	rows := readTraces(t)
	runs := map[string]int{}
	worst := 0.0
	var b *BlueFin
	var o objective
	var run string
	var plus float64
	for n, row := range rows {
		if row["config"] != "2pt_default" { // the others are of options of the original
			continue
		}
		if id := row["objective"] + " " + row["config"] + " " + row["seed"]; id != run {
			run = id
			i := slices.IndexFunc(published, func(o objective) bool { return o.Name == row["objective"] })
			if i < 0 {
				t.Fatalf("unknown objective %q", row["objective"])
			}
			o = published[i]
			var err error
			if b, err = NewBlueFin(o.axes(), 0); err != nil {
				t.Fatal(err)
			}
		}
		runs[run]++
		compare := func(what string, got, want float64) {
			worst = max(worst, math.Abs(got-want)/max(1, math.Abs(want)))
			if !(math.Abs(got-want) <= 1e-9*max(1, math.Abs(want))) {
				t.Fatalf("%s, row %d: %s is %v, want %v", run, n+2, what, got, want)
			}
		}
		decode := func(field string) (v []float64) {
			if err := json.Unmarshal([]byte(row[field]), &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
		b.state.Direction = decode("u_json")
		compare("eta", blueFinEta, number(t, row["eta"]))
		compare("delta", blueFinRadius, number(t, row["delta"]))
		for i, want := range decode("center_json") {
			compare("centre", b.state.Center[i], want)
		}
		x := b.Plus()
		if row["sign"] == "-1" {
			x = b.Minus()
		}
		var predicted map[string]float64
		if err := json.Unmarshal([]byte(row["predicted_json"]), &predicted); err != nil {
			t.Fatal(err)
		}
		for i, p := range o.Params {
			compare(p.ID, x[i], predicted[p.ID])
		}
		reward := number(t, row["reward"])
		compare("reward", o.reward(x), reward)
		if row["sign"] == "1" {
			plus = reward
		} else {
			b.Update(plus, reward)
		}
		for i, want := range decode("center_after_json") {
			compare("centre after", b.state.Center[i], want)
		}
	}
	if len(runs) < 12 {
		t.Fatalf("only %d runs in the file", len(runs))
	}
	t.Logf("%d runs, %d rows, largest relative deviation %.2g", len(runs), len(rows), worst)
}

func number(t *testing.T, s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func readTraces(t *testing.T) (rows []map[string]string) {
	f, err := os.Open(testshared.Path(t, "golden", "bluefin", "traces.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(z)
	header, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	for {
		record, err := r.Read()
		if err == io.EOF {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		row := map[string]string{}
		for i, name := range header {
			row[name] = record[i]
		}
		rows = append(rows, row)
	}
}

func seedsMean(n int, f func(seed uint64) float64) (mean, std float64) {
	var sum, squares float64
	for seed := range n {
		v := f(uint64(seed) + 1)
		sum += v
		squares += v * v
	}
	mean = sum / float64(n)
	return mean, math.Sqrt(max(squares/float64(n)-mean*mean, 0))
}

func TestRegretAgreesWithThePublished(t *testing.T) {
	testshared.Full(t)
	f, err := os.Open(testshared.Path(t, "golden", "bluefin", "regret_summary.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	const seeds = 60
	checked := 0
	for _, r := range records[1:] {
		i := slices.IndexFunc(published, func(o objective) bool { return o.Name == r[0] })
		if i < 0 || r[2] != "40" {
			continue
		}
		o := published[i]
		regret := map[string]func(uint64) float64{
			"bluefin_2pt": func(seed uint64) float64 { return o.blueFinRegret(40, seed) },
			"random":      func(seed uint64) float64 { return o.samplerRegret("random", 40, seed) },
			"sobol":       func(seed uint64) float64 { return o.samplerRegret("sobol", 40, seed) },
		}[r[1]]
		if regret == nil {
			continue
		}
		checked++
		want, std, n := number(t, r[4]), number(t, r[5]), number(t, r[3])
		got, gotStd := seedsMean(seeds, regret)
		tolerance := 3 * math.Sqrt(std*std/n+gotStd*gotStd/seeds)
		t.Logf("%-9s %-20s %.4g (published %.4g, 3 standard errors %.2g)", o.Name, r[1], got, want, tolerance)
		if math.Abs(got-want) > tolerance {
			t.Errorf("%s %s: mean regret %.4g, published %.4g, more than %.2g apart",
				o.Name, r[1], got, want, tolerance)
		}
	}
	if checked < 8 {
		t.Errorf("only %d figures in the file", checked)
	}
}

// On a space with two categories, as in the paper, the local method must be worse, and
// evenly spread points must not be worse than random ones.
func TestSpreadingBeatsBlueFinOnCategories(t *testing.T) {
	testshared.Full(t)
	o := published[2]
	const seeds = 200
	sobol, std := seedsMean(seeds, func(s uint64) float64 { return o.samplerRegret("sobol", 40, s) })
	random, _ := seedsMean(seeds, func(s uint64) float64 { return o.samplerRegret("random", 40, s) })
	bluefin, _ := seedsMean(seeds, func(s uint64) float64 { return o.blueFinRegret(40, s) })
	t.Logf("sobol %.4f, random %.4f, bluefin %.4f", sobol, random, bluefin)
	if sobol > random+std/math.Sqrt(seeds) {
		t.Errorf("sobol %.4f is worse than random %.4f", sobol, random)
	}
	if bluefin < 2*sobol {
		t.Errorf("bluefin %.4f does not show its weakness beside sobol %.4f", bluefin, sobol)
	}
}

func TestBlueFinSurvivesBadRewards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom(published).Draw(t, "objective")
		b, err := NewBlueFin(o.axes(), rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		reward := rapid.OneOf(rapid.Float64(),
			rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.MaxFloat64, -math.MaxFloat64,
				5e-324}))
		for range 5 {
			b.Update(reward.Draw(t, "plus"), reward.Draw(t, "minus"))
			for _, x := range [][]float64{b.Plus(), b.Minus(), b.Center()} {
				for i, a := range o.axes() {
					if !(x[i] >= a.Low && x[i] <= a.High) {
						t.Fatalf("point %v leaves axis %d", x, i)
					}
				}
			}
		}
	})
}

// A study continued from the stored state proposes the same points.
func TestBlueFinStateContinues(t *testing.T) {
	o := published[2]
	setup := Setup{Space: o.Space(), Seed: 7}
	run := func(s *BlueFinSampler, rounds int) (out []string) {
		for range rounds {
			var trials []Trial
			for _, g := range s.Suggest(Request{N: 2}) {
				c := g.Config
				out = append(out, c.Canonical())
				trials = append(trials, Trial{Config: c, Reward: 2 + o.reward(o.numbers(c))})
			}
			s.Observe(trials)
		}
		return out
	}
	whole, err := NewBlueFinSampler(setup)
	if err != nil {
		t.Fatal(err)
	}
	want := run(whole, 10)
	first, _ := NewBlueFinSampler(setup)
	got := run(first, 4)
	setup.State = first.State()
	second, err := NewBlueFinSampler(setup)
	if err != nil {
		t.Fatal(err)
	}
	if got = append(got, run(second, 6)...); !slices.Equal(got, want) {
		t.Errorf("continued\n%v\nwant\n%v", got, want)
	}
	setup.Space = published[0].Space()
	if _, err := NewBlueFinSampler(setup); err == nil {
		t.Error("a state of another space was accepted")
	}
}

func TestBlueFinDiscardRedrawsAndKeepsTheCentre(t *testing.T) {
	b, err := NewBlueFin(published[0].axes(), 1)
	if err != nil {
		t.Fatal(err)
	}
	plus, center := b.Plus(), b.Center()
	b.Discard()
	if slices.Equal(plus, b.Plus()) || !slices.Equal(center, b.Center()) {
		t.Errorf("plus %v then %v, centre %v then %v", plus, b.Plus(), center, b.Center())
	}
}

// The sampler must reach special values, arrays and inactive parameters.
func TestBlueFinSamplerCoversAWholeSpace(t *testing.T) {
	s := ladder(t)
	b, err := NewBlueFinSampler(Setup{Space: s, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Center(); !s.Default().Equal(got) {
		t.Errorf("the first centre is %v, want the default %v", got, s.Default())
	}
	values := map[string]map[string]bool{}
	for range 50 {
		var trials []Trial
		for i, g := range b.Suggest(Request{N: 2}) {
			c := g.Config
			if err := s.Check(c); err != nil {
				t.Fatal(err)
			}
			trials = append(trials, Trial{Config: c, Reward: float64(i)})
			for _, p := range s.Params() {
				if values[p.ID] == nil {
					values[p.ID] = map[string]bool{}
				}
				values[p.ID][c.Get(p.ID).String()] = true
			}
		}
		b.Observe(trials)
	}
	for id, seen := range values {
		if len(seen) < 2 {
			t.Errorf("%s never moved in 100 suggestions", id)
		}
	}
}
