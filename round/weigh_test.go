package round

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// ages is what rounds measured, by age and configuration.
type ages = map[time.Duration]map[int]float64

// scales are a weigher at a round in which 0, the default, is in force, and 1, a preset, is a tenth better.
type scales struct {
	*weigher
	out Result
	at  func(int) space.Config
}

func weigh(t *testing.T) *scales {
	t.Helper()
	at := numbered(t)
	r := &Round{Problem: Problem{Goal: Minimise("avg_jct"), Space: at(0).Space(), Incumbent: at(0)},
		Settings: Settings{Dwell: 2 * time.Hour, Ablation: Ablation{NoGuards: true}}}
	s := &scales{at: at, weigher: &weigher{round: r, at: 48 * time.Hour, key: keyer(nil), evidence: evidence{},
		insurance: &insurance{Weight: 4}, proven: []string{at(0).Hash(), at(1).Hash()}, bar: .002, ratio: 1.02,
		insure: func(context.Context, []space.Config) error { return nil }}}
	s.out = Result{Decision: Decision{Config: at(0), Ratio: 1}, Trials: []search.Trial{s.trial(0, 100), s.trial(1, 90)}}
	s.out.Incumbent = s.out.Trials[0]
	s.rounds(ages{0: {0: 1, 1: .9}})
	return s
}

// trial of configuration n. The floor is 50.
func (s *scales) trial(n int, value float64) search.Trial {
	return search.Trial{Config: s.at(n), Provenance: search.Provenance{Origin: "c" + s.at(n).Get("n").String()},
		Measurement: search.Measurement{Values: []float64{value, value, value}, Floors: []float64{50, 50, 50}}}
}

// rounds is the evidence of rounds some time ago, as multiples of the default.
func (s *scales) rounds(ago ages) {
	s.evidence = evidence{}
	for _, before := range slices.Backward(slices.Sorted(maps.Keys(ago))) {
		logs := map[string]float64{}
		for n, x := range ago[before] {
			logs[s.at(n).Hash()] = math.Log(x)
		}
		s.evidence = s.evidence.add(s.weigher.at-before, logs)
	}
}

// logs of configurations by key.
func (s *scales) logs(of map[int]float64) map[string]float64 {
	out := map[string]float64{}
	for n, x := range of {
		out[s.at(n).Hash()] = x
	}
	return out
}

// within is a limit of 100 with a value.
func within(value float64) search.Measurement {
	return search.Measurement{Values: []float64{90, 90, 90}, Floors: []float64{50, 50, 50},
		Limits: []search.Limit{{Name: "p99_jct<=100s", Values: []float64{value}, Bounds: []float64{100}}}}
}

// TestWeighedRule: each part of the rule decides where all others agree.
func TestWeighedRule(t *testing.T) {
	two := func(s *scales, one, two float64) { // candidates
		s.rounds(ages{0: {0: 1, 1: one, 2: two}})
		s.out.Trials = []search.Trial{s.trial(0, 100), s.trial(1, 100*one), s.trial(2, 100*two)}
	}
	for _, tt := range []struct {
		name   string
		change func(*scales)
		want   int
		reason string
	}{
		{"a tenth better", func(*scales) {}, 1, "average JCT -10.0 %"},
		{"less than the bar", func(s *scales) { s.bar = .101 }, 0, "-10.0 %"},
		{"just above it", func(s *scales) { s.bar = .099 }, 1, ""},
		{"less than the ratio", func(s *scales) { s.ratio = 1.26 }, 0, "A change has to gain 20.6 % of what settings can influence."},
		{"just above it", func(s *scales) { s.ratio = 1.249 }, 1, ""},
		{"nothing is asked, nothing to gain", func(s *scales) {
			s.bar = 0
			s.out.Incumbent.Measurement.Floors = s.out.Incumbent.Measurement.Values
			two(s, 1, 1.1)
		}, 0, "None of 3 configurations is better"},
		{"worse", func(s *scales) { two(s, 1.01, 1.02) }, 0, "None of 3 configurations is better"},
		{"just changed, and urgent", func(s *scales) { s.dwelling = true }, 1, ""},
		{"just changed, not urgent", func(s *scales) { s.dwelling = true; two(s, .96, 1) }, 0, "last change is less than 2 h"},
		{"found by a search, with days to replay", func(s *scales) { two(s, 1, .9) }, 2, ""},
		{"found by a search, at a cold start", func(s *scales) { two(s, 1, .9); s.insurance.Weight = 0 }, 0, "None of"},
		{"just changed, nothing controllable now", func(s *scales) {
			s.dwelling = true
			s.out.Incumbent.Measurement.Floors = s.out.Incumbent.Measurement.Values
			s.rounds(ages{time.Hour: {0: 1, 1: .9}, 0: {0: 1, 1: 1}})
		}, 0, "last change is less than 2 h"},
		{"not urgent", func(s *scales) { two(s, .96, 1) }, 1, ""},
		{"just changed; urgent is not what is best over all rounds", func(s *scales) {
			s.dwelling = true
			two(s, .96, .94)
			s.proven = append(s.proven, s.at(2).Hash())
			s.rounds(ages{time.Hour: {0: 1, 1: .6, 2: 1}, 0: {0: 1, 1: .96, 2: .94}})
		}, 2, ""},
		{"worse in the replay", func(s *scales) {
			s.insurance.Replay = s.logs(map[int]float64{0: 0, 1: .011})
			s.insurance.Weight = .1
		}, 0, "worse in the replay"},
		{"loses next to nothing there", func(s *scales) {
			s.insurance.Replay = s.logs(map[int]float64{0: 0, 1: .009})
			s.insurance.Weight = .1
		}, 1, ""},
		{"the best loses in the replay, the next does not", func(s *scales) {
			two(s, .9, .92)
			s.proven = append(s.proven, s.at(2).Hash())
			s.insurance.Replay, s.insurance.Weight = s.logs(map[int]float64{0: 0, 1: .011, 2: 0}), .1
		}, 2, ""},
		{"the replay outweighs the futures", func(s *scales) {
			two(s, .99, 1)
			s.insurance.Replay = s.logs(map[int]float64{0: 0, 1: .009})
		}, 0, "None of"},
		{"equal in the futures, better under stress", func(s *scales) {
			two(s, 1, 1)
			s.bar, s.ratio = .003, 1
			s.insurance.Stress = s.logs(map[int]float64{0: 0, 1: -.04, 2: 0})
		}, 1, ""},
		{"equal, and of no use under stress", func(s *scales) { two(s, 1, 1); s.bar, s.ratio = .003, 1 }, 0, ""},
		{"the best is refused", func(s *scales) {
			two(s, .8, .9)
			s.round.Refused = []space.Config{s.at(1)}
		}, 2, ""},
		{"the best used up its events", func(s *scales) {
			two(s, .8, .9)
			s.out.Trials[1].Measurement = search.Measurement{Exhausted: true}
		}, 2, ""},
		{"the best breaks a constraint", func(s *scales) { s.out.Trials[1].Measurement = within(101) }, 0, ""},
		{"it keeps to it", func(s *scales) { s.out.Trials[1].Measurement = within(99) }, 1, "it keeps to p99_jct"},
		{"the best was proposed by a sampler", func(s *scales) { s.out.Trials[1].Round = 3 }, 0, ""},
		{"the incumbent breaks a constraint", func(s *scales) {
			two(s, 1.3, 1.2)
			s.out.Incumbent.Measurement = within(150)
			s.dwelling = true
			s.insurance.Replay = s.logs(map[int]float64{0: 0, 1: .3, 2: .2})
		}, 2, "is 50.0 % above p99_jct"},
		{"the incumbent used up its events", func(s *scales) {
			two(s, 1.3, 1.2)
			s.out.Incumbent.Measurement = search.Measurement{Exhausted: true}
			s.dwelling = true
		}, 2, "The one in force does not end"},
		{"a preset and a search's, much the same", func(s *scales) { two(s, .9, .897) }, 1, ""},
		{"a search's that is better by more", func(s *scales) { two(s, .9, .89) }, 2, ""},
		{"a search's that rounds have measured", func(s *scales) {
			two(s, .9, .897)
			all := ages{}
			for ago := range time.Duration(6) {
				all[ago*time.Hour] = map[int]float64{0: 1, 1: .9, 2: .897}
			}
			s.rounds(all)
		}, 2, ""},
		{"between rounds, better by far in this one", func(s *scales) {
			s.urgent, s.ratio = true, UrgentRatio
			s.rounds(ages{time.Hour: {0: 1, 1: 2}, 0: {0: 1, 1: .9}})
		}, 1, ""},
		{"between rounds, better by far in others", func(s *scales) {
			s.urgent, s.ratio = true, UrgentRatio
			s.rounds(ages{time.Hour: {0: 1, 1: .5}, 0: {0: 1, 1: .98}})
		}, 0, "has to gain 9.1 % of what"},
		{"worse in other rounds", func(s *scales) {
			s.rounds(ages{time.Hour: {0: 1, 1: 1.2}, 0: {0: 1, 1: .9}})
		}, 0, "None of"},
		{"worse in other rounds that do not count", func(s *scales) {
			s.rounds(ages{time.Hour: {0: 1, 1: 1.2}, 0: {0: 1, 1: .9}})
			s.round.Ablation.NoPooling = true
		}, 1, ""},
	} {
		s := weigh(t)
		tt.change(s)
		if err := s.adopt(t.Context(), &s.out); err != nil {
			t.Fatal(err)
		}
		if !s.out.Config.Equal(s.at(tt.want)) || s.out.Adopt != (tt.want != 0) ||
			!strings.Contains(s.out.Reason, tt.reason) {
			t.Errorf("%s: %v, adopt %v: %s; want %d: %s", tt.name, s.out.Config, s.out.Adopt, s.out.Reason, tt.want,
				tt.reason)
		}
		if tt.name == "nothing is asked, nothing to gain" && s.out.Ratio != 1 {
			t.Errorf("%s: ratio %v, want 1", tt.name, s.out.Ratio)
		}
		if !s.out.Best.Config.Equal(s.out.Config) {
			t.Errorf("%s: the evidence is of %v, the decision for %v", tt.name, s.out.Best.Config, s.out.Config)
		}
	}
}

// TestPooling: what is a little better in round after round is adopted after some of them,
// though each alone says too little; one lucky round does not outweigh a long record.
func TestPooling(t *testing.T) {
	adopted := func(all ages) bool {
		s := weigh(t)
		s.bar, s.ratio = .004, 1
		s.proven = s.proven[:1] // 1 was found by a search
		s.rounds(all)
		if err := s.adopt(t.Context(), &s.out); err != nil {
			t.Fatal(err)
		}
		return s.out.Adopt
	}
	rounds := func(n int, first, others float64) ages {
		all := ages{0: {0: 1, 1: first}}
		for ago := 1; ago < n; ago++ {
			all[time.Duration(ago)*time.Hour] = map[int]float64{0: 1, 1: others}
		}
		return all
	}
	better := .994 // by .006, as a logarithm
	for n := 1; n <= 12; n++ {
		// It is handicapped by .01/(1+weight): .0021 after 4 rounds of weight 3.8 in all.
		if got := adopted(rounds(n, better, better)); got != (n >= 5) {
			t.Errorf("a little better in %d rounds: adopted %v", n, got)
		}
	}
	for _, tt := range []struct {
		before int
		want   bool
	}{{0, true}, {1, true}, {10, false}, {40, false}} {
		if got := adopted(rounds(1+tt.before, .93, 1.02)); got != tt.want {
			t.Errorf("much better once after %d rounds a little worse: adopted %v", tt.before, got)
		}
	}
}

// TestInsured: what a search found counts as no better in a replay than the best of the
// default and the presets, and no difference for more than mostInsured.
func TestInsured(t *testing.T) {
	s := weigh(t)
	logs := s.logs(map[int]float64{0: 0, 1: -.03, 2: -.2, 3: .01, 4: .3})
	for _, tt := range []struct {
		incumbent, candidate int
		want                 float64
		ok                   bool
	}{
		{0, 1, .03, true}, {1, 0, -.03, true},
		{0, 2, .03, true}, {1, 2, 0, true}, {2, 1, 0, true}, {2, 0, -.03, true},
		{0, 3, -.01, true}, {3, 1, .04, true},
		{0, 4, -mostInsured, true}, {4, 0, mostInsured, true},
		{0, 5, 0, false}, {5, 0, 0, false},
	} {
		got, ok := s.insured(logs, s.at(tt.incumbent).Hash(), s.at(tt.candidate).Hash())
		if ok != tt.ok || math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%d against %d: %v, %v; want %v, %v", tt.candidate, tt.incumbent, got, ok, tt.want, tt.ok)
		}
	}
}

// TestWeighedGain: the mean of rounds and replay by their weights, and a part of stress.
func TestWeighedGain(t *testing.T) {
	s := weigh(t)
	s.rounds(ages{24 * time.Hour: {0: 1, 1: .8}, 0: {0: 1, 1: .9}})
	s.insurance.Replay = s.logs(map[int]float64{0: 0, 1: -.02})
	s.insurance.Stress = s.logs(map[int]float64{0: 0, 1: .04})
	w, a, b := math.Exp(-1), -math.Log(.9), -math.Log(.8)
	zero, one := s.at(0).Hash(), s.at(1).Hash()
	if got, want := s.gain(zero, one), (a+w*b+4*.02)/(1+w+4)-.1*.04; math.Abs(got-want) > 1e-6 {
		t.Errorf("%v, want %v", got, want)
	}
	if got := s.gain(one, zero); math.Abs(got+s.gain(zero, one)) > 1e-12 {
		t.Errorf("back: %v", got)
	}
	s.round.Ablation.NoPooling = true
	if got, want := s.gain(zero, one), (a+4*.02)/(1+4)-.1*.04; math.Abs(got-want) > 1e-6 {
		t.Errorf("without pooling: %v, want %v", got, want)
	}
	s.insurance = &insurance{}
	if got := s.gain(zero, one); math.Abs(got-a) > 1e-6 {
		t.Errorf("without a replay: %v, want %v", got, a)
	}
}

// TestRacedCandidates: what was measured on held-out futures is judged there, by the
// incumbent's measurement there.
func TestRacedCandidates(t *testing.T) {
	s := weigh(t)
	s.out.fresh = []search.Trial{s.trial(1, 180), s.trial(0, 200), s.trial(2, 170)}
	s.rounds(ages{0: {0: 1, 1: .9, 2: .85}})
	if err := s.adopt(t.Context(), &s.out); err != nil {
		t.Fatal(err)
	}
	if want := interval(s.trial(0, 200).Measurement, s.trial(2, 170).Measurement); !s.out.Config.Equal(s.at(2)) ||
		s.out.Interval != want {
		t.Errorf("%v with interval %+v, want 2 with %+v", s.out.Config, s.out.Interval, want)
	}
	s = weigh(t)
	s.out.fresh = []search.Trial{s.trial(1, 180), s.trial(0, 200)}
	s.out.fresh[0].Measurement = within(101)
	s.out.Trials[1].Measurement = within(99)
	if err := s.adopt(t.Context(), &s.out); err != nil {
		t.Fatal(err)
	}
	if s.out.Adopt {
		t.Error("adopted what breaks a constraint on held-out futures")
	}
}
