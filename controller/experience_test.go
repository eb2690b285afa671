package controller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
)

// TestServiceHandsOnExperience: a round gets the experience of the one before it, across
// a restart too.
func TestServiceHandsOnExperience(t *testing.T) {
	var got []string
	h := start(t, func(_ context.Context, in round.Input) (round.Decision, error) {
		got = append(got, string(in.History))
		d := round.Decision{Config: in.Incumbent, Reason: "test",
			Ratio: 1, History: json.RawMessage(fmt.Sprintf(`{"round":%d}`, in.Round))}
		if in.Round == 13 {
			d.History = json.RawMessage("{")
		}
		return d, nil
	})
	h.register("s", controller.Auto)
	for i := range 2 {
		h.submit("s", time.Duration(11+i)*time.Hour)
		h.submit("s", time.Duration(11+i)*time.Hour+time.Second)
		h.rounds("s", int64(i+1))
	}
	h.close()
	h.open()
	for i := range 2 {
		h.submit("s", time.Duration(13+i)*time.Hour+time.Second)
		h.rounds("s", int64(i+1))
	}
	h.close()
	if want := []string{"", `{"round":11}`, `{"round":12}`, `{"round":12}`}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("rounds got %q, want %q", got, want)
	}
}
