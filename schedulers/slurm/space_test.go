package slurm

import (
	"testing"

	"github.com/autosched/autosched/space"
)

// TestUsual: the default ranges are those of sites, a value in force widens them, and a half-life keeps its value.
func TestUsual(t *testing.T) {
	find := func(params []space.Param, id string) space.Param {
		for _, p := range params {
			if p.ID == id {
				return p
			}
		}
		t.Fatalf("no parameter %s", id)
		return space.Param{}
	}
	now := func(values map[string]float64) []space.Param {
		return Usual(func(id string) float64 { return values[id] })
	}
	short := map[string]float64{maxAge: 1800, bfResolution: 10, bfMinAgeReserve: day, decayHalfLife: 14 * day}
	for _, c := range []struct {
		params   []space.Param
		id       string
		min, max float64
	}{
		{Space(), maxAge, 3600, 30 * day}, {now(short), maxAge, 1800, 30 * day},
		{Space(), bfResolution, 30, 600}, {now(short), bfResolution, 10, 600},
		{Space(), bfMinAgeReserve, 60, day / 4}, {now(short), bfMinAgeReserve, 60, day},
		{now(map[string]float64{bfMinAgeReserve: 0}), bfMinAgeReserve, 60, day / 4},
		{Space(), decayHalfLife, 7 * day, 7 * day}, {now(short), decayHalfLife, 14 * day, 14 * day},
		{Domain(), maxAge, 60, 30 * day}, {Domain(), decayHalfLife, 60, 60 * day},
	} {
		if p := find(c.params, c.id); p.Min != c.min || p.Max != c.max {
			t.Errorf("%s: %v to %v, want %v to %v", c.id, p.Min, p.Max, c.min, c.max)
		}
		if outer, may := SiteParam(c.id); !may || outer.Min > c.min || outer.Max < c.max {
			t.Errorf("%s: a registration may not open it to %v to %v", c.id, c.min, c.max)
		}
	}
}
