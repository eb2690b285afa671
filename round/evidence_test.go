package round

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// numbered returns the configurations of a space of one number, whose default is 0.
func numbered(t *testing.T) func(n int) space.Config {
	t.Helper()
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(0)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(n int) space.Config { return sp.Default().With("n", space.Int(n)) }
}

func TestEvidenceIsBounded(t *testing.T) {
	day := 24 * time.Hour
	e := evidence{}.add(day, map[string]float64{"old": -.1, "both": .2})
	e = e.add(2*day, map[string]float64{"both": 1e-7, "new": math.Pi})
	want := evidence{"old": {{day, -.1}}, "both": {{day, .2}, {2 * day, 0}}, "new": {{2 * day, 3.141593}}}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("two rounds:\n%s", diff)
	}
	for _, tt := range []struct {
		name string
		at   time.Duration
		want evidence
	}{
		{"an instant decided again", 2 * day, evidence{"old": {{day, -.1}}, "both": {{day, .2}}, "x": {{2 * day, 1}}}},
		{"at the bound of age", day + evidenceKept, evidence{"old": {{day, -.1}}, "both": {{day, .2}, {2 * day, 0}},
			"new": {{2 * day, 3.141593}}, "x": {{day + evidenceKept, 1}}}},
		{"beyond it", day + evidenceKept + 1, evidence{"both": {{2 * day, 0}}, "new": {{2 * day, 3.141593}},
			"x": {{day + evidenceKept + 1, 1}}}},
	} {
		before := fmt.Sprint(e)
		if diff := cmp.Diff(tt.want, e.add(tt.at, map[string]float64{"x": 1})); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
		if fmt.Sprint(e) != before {
			t.Errorf("%s: add changed what it was given", tt.name)
		}
	}
	// The configurations measured least recently are dropped, of these the first by hash.
	e = evidence{}
	for i := 0; i < evidenceOf; i += 2 {
		e = e.add(time.Duration(i+1)*time.Minute, map[string]float64{fmt.Sprintf("c%02d", i): 0,
			fmt.Sprintf("c%02d", i+1): 0, "often": 0})
	}
	_, first := e["c00"]
	_, second := e["c01"]
	if _, often := e["often"]; len(e) != evidenceOf || first || !second || !often {
		t.Errorf("%d configurations; the first is kept: %v, the second: %v, the one always measured: %v",
			len(e), first, second, often)
	}
}

func TestSamplesAreBounded(t *testing.T) {
	e, last := evidence{}, time.Duration(0)
	for last < 2*samplesOf*time.Minute {
		last += time.Minute
		e = e.add(last, map[string]float64{"x": 0})
	}
	if n := len(e["x"]); n != samplesOf || e["x"][n-1].At != last {
		t.Errorf("%d samples are kept, the last of %v; want %d to %v", n, e["x"][n-1].At, samplesOf, last)
	}
}

// TestGainOfEvidence: rounds count that measured both, the latest with weight 1 and one a
// day earlier with 1/e.
func TestGainOfEvidence(t *testing.T) {
	day, w := 24*time.Hour, math.Exp(-1)
	e := evidence{
		"a": {{0, 5}, {day, .3}, {day + time.Hour, 9}, {2 * day, .1}},
		"b": {{time.Hour, 7}, {day, 0}, {2 * day, .2}, {2*day + time.Hour, 8}},
		"c": {{day + time.Hour, 8.5}},
	}
	for _, tt := range []struct {
		incumbent, candidate string
		at                   time.Duration
		mean, weight         float64
	}{
		{"a", "b", 2 * day, (w*.3 - .1) / (w + 1), w + 1},
		{"b", "a", 2 * day, -(w*.3 - .1) / (w + 1), w + 1},
		{"a", "b", 3 * day, (w*.3 - .1) / (w + 1), w * (w + 1)},
		{"a", "c", day + time.Hour, .5, 1},
		{"b", "c", 2 * day, 0, 0},
		{"a", "none", 2 * day, 0, 0},
	} {
		mean, weight := e.gain(tt.incumbent, tt.candidate, tt.at)
		if math.Abs(mean-tt.mean) > 1e-12 || math.Abs(weight-tt.weight) > 1e-12 {
			t.Errorf("%s against %s at %v: %v with weight %v, want %v, %v", tt.candidate, tt.incumbent, tt.at, mean,
				weight, tt.mean, tt.weight)
		}
	}
}

func TestKeysIgnoreInertParameters(t *testing.T) {
	chronus, err := schedulers.Find("chronus")
	if err != nil {
		t.Fatal(err)
	}
	a := chronus.Space.Default()
	b, err := chronus.Space.Parse(a, []string{"slo_gpus=0.75", "slo_factor=3"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := chronus.Space.Parse(b, []string{"lease_term=7200"})
	if err != nil {
		t.Fatal(err)
	}
	inert := keyer([]string{"slo_gpus", "slo_share", "slo_factor"})
	if inert(a) != inert(b) || inert(b) == inert(c) || keyer(nil)(a) == keyer(nil)(b) || keyer(nil)(a) != a.Hash() {
		t.Errorf("keys %s, %s, %s; of all parameters %s, %s", inert(a), inert(b), inert(c), keyer(nil)(a),
			keyer(nil)(b))
	}
	// Trials have the incumbent's inert values, the default among them: it is still the default.
	at := func(c space.Config, v float64) search.Trial {
		return search.Trial{Config: c, Measurement: search.Measurement{Values: []float64{v}}}
	}
	logs := logRatios([]search.Trial{at(b, 100), at(c, 90)}, inert)
	if want := map[string]float64{inert(a): 0, inert(c): math.Log(.9)}; cmp.Diff(want, logs) != "" {
		t.Errorf("%v, want %v", logs, want)
	}
}

// TestLogRatios: what a round measured whatever the futures is compared with the default.
func TestLogRatios(t *testing.T) {
	at := numbered(t)
	key := keyer(nil)
	trial := func(n, round int, values ...float64) search.Trial {
		return search.Trial{Config: at(n), Round: round, Measurement: search.Measurement{Values: values}}
	}
	exhausted := func(n int) search.Trial {
		x := trial(n, 0)
		x.Measurement.Exhausted = true
		return x
	}
	broken := trial(5, 0, 10)
	broken.Err = "no"
	portfolio := []search.Trial{trial(1, 0, 60, 120), trial(0, 0, 100, 100), trial(2, 0, 110, 110)}
	for _, tt := range []struct {
		name   string
		trials []search.Trial
		want   map[int]float64
	}{
		{"a portfolio", portfolio, map[int]float64{0: 0, 1: math.Log(.9), 2: math.Log(1.1)}},
		{"a proposal of a sampler", append(portfolio, trial(3, 1, 10, 10)),
			map[int]float64{0: 0, 1: math.Log(.9), 2: math.Log(1.1)}},
		{"one that used up its events, one that failed", append(portfolio, exhausted(4), broken),
			map[int]float64{0: 0, 1: math.Log(.9), 2: math.Log(1.1), 4: failed}},
		{"the default used up its events", []search.Trial{exhausted(0), trial(1, 0, 1)}, nil},
		{"no default", []search.Trial{trial(1, 0, 1)}, nil},
		{"nothing", nil, nil},
	} {
		var want map[string]float64
		for n, x := range tt.want {
			if want == nil {
				want = map[string]float64{}
			}
			want[key(at(n))] = x
		}
		if diff := cmp.Diff(want, logRatios(tt.trials, key)); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}

func TestLogRatio(t *testing.T) {
	for _, tt := range []struct{ a, b, want float64 }{
		{2, 1, math.Ln2}, {1, 2, -math.Ln2}, {3, 3, 0},
		{0, 0, 0}, {0, 1, -failed}, {1, 0, failed}, {-1, 1, -failed}, {1, -1, failed}, {-1, -2, 0},
		{1e9, 1, failed}, {1, 1e9, -failed},
	} {
		if got := logRatio(tt.a, tt.b); got != tt.want {
			t.Errorf("of %v and %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// TestHistoryOfEvidence: what rounds measured survives storage; measurements of another
// objective do not count.
func TestHistoryOfEvidence(t *testing.T) {
	at := numbered(t)
	h := loadHistory(nil, at(0).Space())
	h.pursue("avg_jct")
	h.observe(at(0), time.Hour)
	h.observe(at(1), 2*time.Hour)
	h.Evidence = h.Evidence.add(2*time.Hour, map[string]float64{at(0).Hash(): 0, at(1).Hash(): failed})
	h.Insurance = insurance{At: time.Hour, Weight: 2, Replay: map[string]float64{at(1).Hash(): -.1},
		Stress: map[string]float64{at(1).Hash(): failed}, Known: map[string]bool{at(1).Hash(): true}}
	h.Full, h.Searched = 1, time.Hour
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	again := loadHistory(text, at(0).Space())
	if diff := cmp.Diff(h, again, cmp.AllowUnexported(history{}, insurance{})); diff != "" {
		t.Errorf("stored and read back:\n%s", diff)
	}
	again.pursue("avg_jct")
	if len(again.Evidence) != 2 || len(again.Insurance.Known) != 1 {
		t.Errorf("the same goal: %+v", again)
	}
	again.pursue("p99_jct")
	if len(again.Evidence) != 0 || again.Insurance.At != 0 || len(again.Changes) != 1 || again.Full != 1 {
		t.Errorf("another goal: %+v", again)
	}
}

// TestClockSetBack: what a history knows of instants to come binds no round.
func TestClockSetBack(t *testing.T) {
	at := numbered(t)
	h := loadHistory(nil, at(0).Space())
	year := 365 * 24 * time.Hour
	h.observe(at(0), year)
	h.observe(at(1), year+time.Hour)
	h.Full, h.Searched, h.Insurance = 1, year, insurance{At: year, Known: map[string]bool{at(0).Hash(): true}}
	h.observe(at(1), 48*time.Hour)
	if h.dwells(48*time.Hour, 2*time.Hour) || len(h.Changes) != 0 || h.Insurance.At != 0 || h.Insurance.Known != nil {
		t.Errorf("a year earlier: %+v", h)
	}
	if what, why := h.search(SearchAuto, &situation{}, 48*time.Hour, true); what != SearchFull {
		t.Errorf("a year earlier at the default: %s, %s", what, why)
	}
}
