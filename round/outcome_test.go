package round

import (
	"strings"
	"testing"

	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// TestOutcomes: a round says of each candidate that looked better why it was not adopted.
func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*scales)
		want   []string // of the incumbent, 1 and 2
	}{
		{"the largest gain", func(*scales) {}, []string{"in force",
			"gains 10.00 % by all evidence; the adopted one gains more", "adopted"}},
		{"less than the bar", func(s *scales) { s.bar = .3 }, []string{"in force",
			"gains 10.00 % by all evidence; a change has to gain 30.0 %",
			"gains 19.60 % by all evidence; a change has to gain 30.0 %"}},
		{"no gain but in this round", func(s *scales) {
			s.insurance.Replay = s.logs(map[int]float64{0: 0, 1: 0, 2: .2})
		},
			[]string{"in force", "adopted", "no better by all evidence: -0.04 %"}},
		{"worse in the replay of the last days", func(s *scales) {
			s.insurance.Replay, s.insurance.Weight = s.logs(map[int]float64{0: 0, 1: 0, 2: 2 * replayVeto}), .1
			s.proven = append(s.proven, s.at(2).Hash())
		}, []string{"in force", "adopted", "worse in the replay of the last days"}},
		{"parked", func(s *scales) { s.round.Refused = []space.Config{s.at(2)} },
			[]string{"in force", "adopted", "its values are parked"}},
		{"a constraint", func(s *scales) { s.out.Trials[2].Measurement = within(150) },
			[]string{"in force", "adopted", "may break a constraint; it is 50.0 % above p99_jct"}},
		{"a proposal of the sampler", func(s *scales) { s.out.Trials[2].Round = 1 },
			[]string{"in force", "adopted", "found on the futures that it was measured on"}},
	} {
		s := weigh(t)
		s.rounds(ages{0: {0: 1, 1: .9, 2: .8}})
		s.out.Trials = []search.Trial{s.trial(0, 100), s.trial(1, 90), s.trial(2, 80)}
		tt.change(s)
		s.out.Candidates = candidates(s.out.Trials, s.out.Incumbent)
		if err := s.adopt(t.Context(), &s.out); err != nil {
			t.Fatal(err)
		}
		for i, want := range tt.want {
			if got := s.out.Candidates[i].Outcome; !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s: candidate %d: %q, want %q (%s)", tt.name, i, got, want, s.out.Reason)
			}
		}
	}
}
