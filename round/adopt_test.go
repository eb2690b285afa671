package round

import (
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// TestAdoptionRule: an adopted configuration is better in every future, by at least
// MinRatio on the controllable part.
func TestAdoptionRule(t *testing.T) {
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(n int) space.Config { return sp.Default().With("n", space.Int(n)) }
	// measured is the trial of configuration n; 0 is the incumbent.
	measured := func(n int, values ...float64) search.Trial {
		floors := make([]float64, len(values))
		for i := range floors {
			floors[i] = 90
		}
		return search.Trial{Step: n, Config: at(n), Provenance: search.Provenance{Origin: "test"},
			Measurement: search.Measurement{Values: values, Floors: floors}}
	}
	exhausted := func(t search.Trial) search.Trial { t.Measurement.Exhausted = true; return t }
	failed := func(t search.Trial) search.Trial { t.Err = "no"; return t }

	tests := []struct {
		name    string
		trials  []search.Trial // the first is the incumbent's
		refused []space.Config
		want    int    // configuration decided for
		reason  string // part of it
		always  int    // configuration decided for with Always
	}{
		{"nothing else", []search.Trial{measured(0, 100, 100)}, nil, 0, "None of 1", 0},
		{"better in every future", []search.Trial{measured(0, 100, 110), measured(1, 98, 105)}, nil, 1, "23 % of what settings can influence; better in 2 of 2 futures", 1},
		{"by a hundredth of the whole, but a fifth of what can be changed",
			[]search.Trial{measured(0, 100, 100), measured(1, 98, 98)}, nil, 1, "20 % of what settings can", 1},
		{"better in every future, but by too little",
			[]search.Trial{measured(0, 100, 100), measured(1, 99.6, 99.6)}, nil, 0, "A change has to gain 4.8 % of what settings can influence", 1},
		{"just enough", []search.Trial{measured(0, 111, 111), measured(1, 110, 110)}, nil, 1, "5 % of what settings can influence", 1},
		{"much better on average, worse in one future",
			[]search.Trial{measured(0, 100, 200), measured(1, 100.1, 95)}, nil, 0, "not better in enough futures", 1},
		{"much better on average, equal in one future",
			[]search.Trial{measured(0, 100, 200), measured(1, 100, 95)}, nil, 0, "not better in enough futures", 1},
		{"the best on average is not the best that is better everywhere",
			[]search.Trial{measured(0, 100, 200), measured(1, 101, 92), measured(2, 98, 150), measured(3, 99, 140)},
			nil, 3, "51 % of what settings can influence", 1},
		{"worse", []search.Trial{measured(0, 100, 100), measured(1, 101, 101)}, nil, 0, "None of 2", 0},
		{"equal", []search.Trial{measured(0, 100, 100), measured(1, 100, 100)}, nil, 0, "None of 2", 0},
		{"the best is refused, the next is taken",
			[]search.Trial{measured(0, 100, 100), measured(1, 92, 92), measured(2, 95, 95)},
			[]space.Config{at(7), at(1)}, 2, "50 % of what settings can influence", 2},
		{"all that is better is refused", []search.Trial{measured(0, 100, 100), measured(1, 92, 92),
			measured(2, 95, 95)}, []space.Config{at(1), at(2)}, 0, "None of 3", 0},
		{"the best used up its events", []search.Trial{measured(0, 100, 100), exhausted(measured(1, 91, 91)),
			measured(2, 95, 95)}, nil, 2, "50 % of what settings can influence", 2},
		{"the best could not be measured", []search.Trial{measured(0, 100, 100), failed(measured(1, 91, 91))}, nil, 0,
			"None of 2", 0},
		{"the incumbent used up its events",
			[]search.Trial{exhausted(measured(0, 1, 1)), measured(1, 5000, 6000), measured(2, 5000, 5999)}, nil, 2,
			"The one in force does not end", 2},
		{"none could be measured", []search.Trial{exhausted(measured(0, 1, 1)), failed(measured(1, 1, 1)),
			exhausted(measured(2, 1, 1))}, nil, 0, "No candidate could be measured", 0},
		{"the one that could is refused", []search.Trial{exhausted(measured(0, 1, 1)), measured(1, 1, 1)},
			[]space.Config{at(1)}, 0, "No candidate could be measured", 0},
	}
	for _, tt := range tests {
		for _, always := range []bool{false, true} {
			want := tt.want
			if always {
				want = tt.always
			}
			r := Round{Problem: Problem{Goal: Minimise("avg_jct"), Incumbent: at(0), Refused: tt.refused},
				Settings: Settings{MinRatio: 1.05, Always: always}}
			out := Result{Decision: Decision{Config: at(0), Ratio: 1}, Trials: tt.trials, Incumbent: tt.trials[0]}
			r.adopt(&out, r.better(&out, false), false, -1)
			if !out.Config.Equal(at(want)) || out.Adopt != (want != 0) {
				t.Errorf("%s, always %v: %v, adopt %v (%s); want %v",
					tt.name, always, out.Config, out.Adopt, out.Reason, at(want))
			}
			if !out.Best.Config.Equal(out.Config) {
				t.Errorf("%s, always %v: the evidence is of %v, the decision for %v",
					tt.name, always, out.Best.Config, out.Config)
			}
			if !always && !strings.Contains(out.Reason, tt.reason) {
				t.Errorf("%s: %q does not say %q", tt.name, out.Reason, tt.reason)
			}
		}
	}
}

// TestNoIntervalOverExhaustedIncumbent: an incumbent that exhausted its event budget was
// simulated in part only, so the gain over it has no interval.
func TestNoIntervalOverExhaustedIncumbent(t *testing.T) {
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	trial := func(n int, values ...float64) search.Trial {
		return search.Trial{Step: n, Config: sp.Default().With("n", space.Int(n)),
			Provenance:  search.Provenance{Origin: "test"},
			Measurement: search.Measurement{Values: values, Floors: make([]float64, len(values))}}
	}
	for _, exhausted := range []bool{false, true} {
		incumbent, candidate := trial(0, 10, 10, 11, 10), trial(1, 8, 8, 9, 8)
		incumbent.Measurement.Exhausted = exhausted
		r := Round{Problem: Problem{Goal: Minimise("avg_jct"), Incumbent: incumbent.Config},
			Settings: Settings{MinRatio: 1.05}}
		out := Result{Decision: Decision{Config: incumbent.Config, Ratio: 1},
			Trials: []search.Trial{incumbent, candidate}, Incumbent: incumbent}
		r.adopt(&out, []search.Trial{candidate}, true, -1)
		if !out.Adopt || out.Interval.IsZero() != exhausted {
			t.Errorf("exhausted %v: adopt %v, interval %+v, %s", exhausted, out.Adopt, out.Interval, out.Reason)
		}
	}
}

// TestRaceEntry: a candidate enters the race if it is better in three of four futures
// and by MinRatio; without a race it must be better in all.
func TestRaceEntry(t *testing.T) {
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	trial := func(n int, values ...float64) search.Trial {
		return search.Trial{Step: n, Config: sp.Default().With("n", space.Int(n)),
			Measurement: search.Measurement{Values: values, Floors: make([]float64, len(values))}}
	}
	for _, tt := range []struct {
		name         string
		values       []float64 // the incumbent has 10 in each future
		races, alone bool
	}{
		{"better in all", []float64{9, 9, 9, 9}, true, true},
		{"in all, by little", []float64{9.99, 9.99, 9.99, 9.99}, true, true},
		{"in three of four", []float64{8, 8, 8, 11}, true, false},
		{"in three of four, by too little", []float64{9.9, 9.9, 9.9, 10.2}, false, false},
		{"in half, by much", []float64{5, 5, 11, 11}, false, false},
		{"equal in one", []float64{9, 9, 9, 10}, true, false},
		{"in one of two", []float64{5, 11}, false, false},
		{"in two of three", []float64{5, 5, 11}, false, false},
	} {
		incumbent := trial(0, slices.Repeat([]float64{10}, len(tt.values))...)
		r := Round{Problem: Problem{Goal: Minimise("avg_jct"), Incumbent: incumbent.Config},
			Settings: Settings{MinRatio: 1.05}}
		out := Result{Trials: []search.Trial{incumbent, trial(1, tt.values...)}, Incumbent: incumbent}
		if races, alone := len(r.better(&out, true)) == 1, len(r.better(&out, false)) == 1; races != tt.races ||
			alone != tt.alone {
			t.Errorf("%s: races %v, is adopted without %v", tt.name, races, alone)
		}
	}
}
