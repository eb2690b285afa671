package round

import (
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers"
)

// TestProbationEnds: a trial lasts as long as arrivals were forecast, and says why there is none.
func TestProbationEnds(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		horizon, age time.Duration
		same         bool
		want         string
	}{
		{2 * time.Hour, time.Hour, false, ""},
		{2 * time.Hour, 2*time.Hour + 1, false, "No loss within 2 h"},
		{30 * time.Minute, 20 * time.Minute, false, ""},
		{10 * time.Minute, 0, false, "horizon of 10 min is too short"},
		{2 * time.Hour, 0, true, "has the values"},
	} {
		in := behind(t, 4*time.Hour+time.Minute)
		settings := DefaultSettings()
		settings.Horizon = x.horizon
		good := in.Prediction.LastGood
		if x.same {
			good = in.Prediction.Applied
		}
		p, err := Predict(t.Context(), Input{Snapshot: in.Snapshot, Settings: settings, Scheduler: s.Name,
			Space: s.Space, Goal: in.Goal}, in.Prediction.Applied, good)
		if err != nil {
			t.Fatal(err)
		}
		trial := NewProbation(p)
		got := trial.Over(p.At + x.age)
		if (got == "") != (x.want == "") || !strings.Contains(got, x.want) || trial.Next <= p.At {
			t.Errorf("horizon %v, %v later: %q, want %q", x.horizon, x.age, got, x.want)
		}
	}
}
