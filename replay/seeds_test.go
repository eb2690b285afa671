package replay

import "testing"

func TestMeanOfSeeds(t *testing.T) {
	a, b := &Method{Method: "m"}, &Method{Method: "m"}
	a.Outcome = Outcome{AvgJCT: 10, Rounds: 8, Urgent: 2, Changes: 4}
	b.Outcome = Outcome{AvgJCT: 20, Rounds: 6, Changes: 2}
	m := meanOf([]*Method{a, b}, &Outcome{AvgJCT: 30}, defaultMethod, nil)
	if m.AvgJCT != 15 || m.Ratio != 2 || m.Spread != 1 || m.Rounds != 7 || m.Urgent != 1 || m.Changes != 3 {
		t.Errorf("means %+v, spread %v", m.Outcome, m.Spread)
	}
}
