package round

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/autosched/autosched/space"
)

func fuzzSpace(f *testing.F) *space.Space {
	f.Helper()
	sp, err := space.New([]space.Param{{ID: "n", Kind: space.KindInt, Min: 0, Max: 9, Default: space.Int(0)}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	return sp
}

// FuzzGoal: a goal that is read is written as one that reads the same.
func FuzzGoal(f *testing.F) {
	f.Add("avg_jct")
	f.Add("0.7*avg_jct + 0.3*p99_jct subject to p99_jct<=1.1*incumbent")
	f.Add("avg_jct within 2% then p99_jct")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = ParseConstraint(text)
		g, err := ParseGoal(text)
		if err != nil {
			return
		}
		again, err := ParseGoal(g.String())
		if err != nil || again.String() != g.String() {
			t.Fatalf("%q is written %q, which reads as %q, %v", text, g, again, err)
		}
	})
}

// FuzzPrediction: a prediction that is read gives its marks at every age.
func FuzzPrediction(f *testing.F) {
	sp := fuzzSpace(f)
	good, err := json.Marshal(&Prediction{Applied: sp.Default(), LastGood: sp.Default(), Step: time.Hour,
		Futures: [][]Mark{{{}, {}}, {{}, {}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadPrediction(text, sp)
		if err != nil {
			return
		}
		if p.Until() < 0 {
			t.Fatalf("it ends %v before it begins", -p.Until())
		}
		if len(p.Futures) > 0 {
			p.at(0)
			p.at(p.Until())
		}
	})
}

// FuzzHistory: the winners read from a history are in the space.
func FuzzHistory(f *testing.F) {
	sp := fuzzSpace(f)
	f.Add([]byte(`{"version":2,"winners":[{"config":{"n":1},"round":1}],"changes":[1],"band":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := loadHistory(text, sp)
		for _, w := range h.Winners {
			if err := sp.Check(w.config); err != nil {
				t.Fatal(err)
			}
		}
		h.pursue("avg_jct")
		h.observe(time.Hour)
		if _, err := json.Marshal(h); err != nil {
			t.Fatal(err)
		}
	})
}
