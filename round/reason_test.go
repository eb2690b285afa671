package round

import (
	"testing"
	"time"

	"github.com/autosched/autosched/search"
)

func TestSources(t *testing.T) {
	h := history{Winners: []winner{{Round: 21, At: 61 * time.Hour}, {Round: 7}}}
	r := Round{origins: h.origins(time.Date(2017, 10, 10, 1, 0, 0, 0, time.UTC))}
	for origin, want := range map[string]string{
		"default": "the default", "incumbent": "the incumbent", "preset:packing": "preset packing",
		"past:round-21": "the configuration of 12 Oct 14:00", "like:round-21": "the configuration of 12 Oct 14:00",
		"past:round-7": "an earlier configuration", "gp": "search", "sobol": "search",
	} {
		if got := r.source(origin); got != want {
			t.Errorf("%s: %q, want %q", origin, got, want)
		}
	}
}

func TestReasonOfAChange(t *testing.T) {
	r := Round{Problem: Problem{Goal: Minimise("avg_jct")}}
	was := search.Measurement{Values: []float64{116280, 116280}, Floors: []float64{114000, 114000}}
	now := search.Measurement{Values: []float64{115800, 115920}, Floors: was.Floors}
	got := r.change(0, was.Mean(), now.Mean(), 2280./1860, &was, &now)
	want := "average JCT -0.4 % (32 h 18 min -> 32 h 11 min), 18 % of what settings can influence; " +
		"better in 2 of 2 futures"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r.Goal = Minimise("max_rho") // nothing is known to be out of reach
	was = search.Measurement{Values: []float64{2}, Floors: []float64{0}}
	now = search.Measurement{Values: []float64{1.5}}
	if got, want := r.change(0, 2, 1.5, 1.333, &was, &now),
		"largest rho -25.0 % (2.000 -> 1.500); better in 1 of 1 futures"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
