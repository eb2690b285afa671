package study

import (
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/space"
)

// Trials that no other beats are optimal, whatever the direction; trials without a metric are no candidates.
func TestOptimal(t *testing.T) {
	c := newClient(t, nil)
	for _, m := range []map[string]float64{{"wait": 5, "use": 5}, {"wait": 3, "use": 4}, {"wait": 4, "use": 4},
		{"wait": 3, "use": 4}, {"wait": 1}} {
		c.do(Create{Config: c.s.Space.Default(), Final: &Measurement{Metrics: m}})
	}
	for _, want := range []struct {
		objectives []Objective
		ids        []int64
	}{
		{[]Objective{{"wait", false}}, []int64{5}},
		{[]Objective{{"use", true}}, []int64{1}},
		{[]Objective{{"wait", false}, {"use", true}}, []int64{1, 2, 4}},
		{[]Objective{{"wait", false}, {"use", false}}, []int64{2, 4}},
		{[]Objective{{"none", false}}, nil},
	} {
		var ids []int64
		for _, one := range c.s.Optimal(want.objectives) {
			ids = append(ids, one.ID)
		}
		if !slices.Equal(ids, want.ids) {
			t.Errorf("%+v: %v, want %v", want.objectives, ids, want.ids)
		}
	}
}

// The remainder is the rest of the budget with the trials under way, by the mean duration, or a given one.
func TestEstimate(t *testing.T) {
	c := newClient(t, nil)
	if e := c.s.Estimate(0, 1); e != (Estimate{Trials: 20}) {
		t.Errorf("at the start: %+v", e)
	}
	if e := c.s.Estimate(time.Hour, 8); e.Wall != 3*time.Hour || e.Total != 20*time.Hour || e.Measured != 0 {
		t.Errorf("an hour each: %+v", e)
	}
	for _, took := range []time.Duration{time.Second, 3 * time.Second} {
		held := c.one("a")
		c.at = c.at.Add(took)
		c.do(Complete{Trial: held.ID, Final: waited(1)})
	}
	c.one("a")
	if e := c.s.Estimate(0, 4); e != (Estimate{18, 2 * time.Second, 2, 36 * time.Second, 10 * time.Second}) {
		t.Errorf("after two: %+v", e)
	}
	c.do(Cancel{})
	if e := c.s.Estimate(0, 1); e.Trials != 1 {
		t.Errorf("cancelled: %+v", e)
	}
	small := start(t, nil)
	small.Space, _ = space.New([]space.Param{
		{ID: "x", Kind: space.KindInt, Min: 1, Max: 9, Default: space.Int(2)}}, nil)
	if e := small.Estimate(1<<62, 1); e.Trials != 9 || e.Total <= 0 {
		t.Errorf("nine configurations: %+v", e)
	}
}
