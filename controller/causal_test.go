package controller_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/search/effects"
	"github.com/autosched/autosched/space"
)

// measured is a decision that measured configurations of a world in which queues shorten the delay.
func measured(in round.Input) (round.Decision, error) {
	d := round.Decision{Config: in.Incumbent, Ratio: 1}
	r := rand.New(rand.NewPCG(uint64(in.Round), 0))
	for i := range 8 {
		c := in.Space.Default()
		if i > 0 {
			c, _ = in.Space.Project(c.With("queues", space.Num(float64(1+r.IntN(6)))))
		}
		delay := 100 / float64(c.Get("queues").Int()) * math.Exp(.02*r.NormFloat64())
		d.Candidates = append(d.Candidates, round.Candidate{Origin: "test"})
		restarts := 9 * r.Float64()
		sum := delay + restarts
		d.Measured = append(d.Measured, round.Measured{Config: c, Objective: []float64{90 + sum, 110 + sum},
			Metrics: map[string]float64{"avg_queue_s": delay, "restart_s_per_job": restarts}})
	}
	d.Measured = append(d.Measured, round.Measured{Config: in.Space.Default(), Objective: []float64{1, 1}, Cut: 1})
	d.Candidates = append(d.Candidates, round.Candidate{Origin: "cut"})
	return d, nil
}

// The model of a scheduler is learnt from the rounds until midnight, without being asked for; after a
// restart it is the same again.
func TestCausalModel(t *testing.T) {
	ctx := context.Background()
	c := simulate(t, controller.Recommend, func(_ context.Context, in round.Input) (round.Decision, error) {
		return measured(in)
	})
	c.until(10*time.Hour, nil)
	early, err := c.service.CausalModel(ctx, simulatedID)
	if err != nil || !strings.Contains(early.Fault, "0 trials") || !early.Until.IsZero() {
		t.Fatalf("before midnight: %+v, %v", early, err)
	}
	c.until(26*time.Hour, nil)
	m, err := c.service.CausalModel(ctx, simulatedID)
	if err != nil || m.Fault != "" {
		t.Fatalf("%+v, %v", m, err)
	}
	sched, _, err := c.service.Scheduler(simulatedID)
	if want := sched.Zero.Add(24 * time.Hour); err != nil || !m.Until.Equal(want) || m.Groups < 15 ||
		m.Trials != 8*m.Groups {
		t.Errorf("%d trials of %d rounds until %s, want %s", m.Trials, m.Groups, m.Until, want)
	}
	if again, err := c.service.CausalModel(ctx, simulatedID); err != nil || again != m {
		t.Errorf("it is learnt again on the same day: %v", err)
	}
	if e := m.Effect("queues"); e == nil || e.Low <= 0 || len(e.Paths) == 0 ||
		!slices.Equal(e.Paths[0].Metrics, []string{"avg_queue_s"}) {
		t.Errorf("queues: %+v", e)
	}
	w, err := c.service.WhatIf(ctx, simulatedID, same(with(t, "queues=6")))
	if err != nil || w.Model.CausalModel != m || w.Model.Ratio <= 1 || w.Futures == 0 {
		t.Errorf("what-if: %+v, %v", w, err)
	}
	c.close()
	c.open()
	again, err := c.service.CausalModel(ctx, simulatedID)
	if err != nil || again == m || !again.Until.Equal(m.Until) || again.Rank != m.Rank || again.Trials != m.Trials ||
		!reflect.DeepEqual(again.Edges, m.Edges) || !reflect.DeepEqual(again.Effects, m.Effects) {
		t.Errorf("after a restart:\n%+v, %v, want\n%+v", again, err, m)
	}
	if _, err := c.service.CausalModel(ctx, "none"); !errors.Is(err, controller.ErrNotFound) {
		t.Errorf("unknown scheduler: %v", err)
	}
}

// The model of an external scheduler is that of its studies, learnt again once a tenth more trials ended.
func TestCausalModelOfStudies(t *testing.T) {
	n := 0
	h := &harness{t: t, dir: t.TempDir(), decide: func(context.Context, round.Input) (round.Decision, error) {
		panic("an external scheduler has no rounds")
	}, trials: func(scheduler, metric string, sp *space.Space) []effects.Group {
		if scheduler != "s" || metric != "wait" {
			t.Errorf("asked for %s of %s", metric, scheduler)
		}
		g := effects.Group{}
		r := rand.New(rand.NewPCG(1, 0))
		for range n {
			c := sp.Default().With("x", space.Num(r.Float64()))
			g.Trials = append(g.Trials, effects.Trial{Config: c,
				Objective: 1 + c.Get("x").Float() + .01*r.NormFloat64()})
		}
		return []effects.Group{g}
	}}
	h.open()
	t.Cleanup(h.close)
	sp, err := space.New([]space.Param{{ID: "x", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.5)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.service.Register(t.Context(), controller.Call{}, controller.Registration{ID: "s",
		Type:   controller.External,
		Params: sp.Params(), Objective: "wait", Policy: promptly()}); err != nil {
		t.Fatal(err)
	}
	half := func(sp *space.Space, now space.Config) (space.Config, error) {
		return now.With("x", space.Num(.25)), nil
	}
	if _, err := h.service.WhatIf(t.Context(), "s", half); err == nil || !strings.Contains(err.Error(), "0 trials") {
		t.Errorf("a model without trials answers: %v", err)
	}
	var last *controller.CausalModel
	for _, c := range []struct{ trials, learnt int }{{30, 30}, {100, 100}, {110, 100}, {111, 111}, {90, 90}} {
		n = c.trials
		m, err := h.service.CausalModel(t.Context(), "s")
		if err != nil || m.Trials != c.learnt || (m.Fault == "") != (c.learnt >= effects.MinTrials) {
			t.Fatalf("%+v: %+v, %v", c, m, err)
		}
		last = m
	}
	w, err := h.service.WhatIf(t.Context(), "s", half)
	if err != nil || w.Model.CausalModel != last || math.Abs(w.Model.Ratio-1.5/1.25) > .02 ||
		w.Model.Extrapolation != "" || w.Candidate.Objective != nil || !w.At.IsZero() {
		t.Errorf("what-if: %+v, %v", w, err)
	}
}

// A model that takes longer than a round may is not tried again before it is due.
func TestCausalModelLimit(t *testing.T) {
	h := &harness{t: t, dir: t.TempDir(), roundLimit: time.Nanosecond}
	h.trials = func(_, _ string, sp *space.Space) []effects.Group {
		g := effects.Group{}
		r := rand.New(rand.NewPCG(1, 0))
		for range 2 * effects.MinTrials {
			x := r.Float64()
			g.Trials = append(g.Trials, effects.Trial{Config: sp.Default().With("x", space.Num(x)),
				Objective: 1 + x + .1*r.NormFloat64()})
		}
		return []effects.Group{g}
	}
	h.open()
	t.Cleanup(h.close)
	sp, err := space.New([]space.Param{{ID: "x", Kind: space.KindFloat, Min: 0, Max: 1, Default: space.Num(.5)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.service.Register(t.Context(), controller.Call{}, controller.Registration{ID: "s",
		Type:   controller.External,
		Params: sp.Params(), Objective: "wait", Policy: promptly()}); err != nil {
		t.Fatal(err)
	}
	m, err := h.service.CausalModel(t.Context(), "s")
	if err != nil || !strings.Contains(m.Fault, "cannot be learnt") {
		t.Fatalf("%+v, %v", m, err)
	}
	if again, err := h.service.CausalModel(t.Context(), "s"); err != nil || again != m {
		t.Errorf("it is learnt again: %v", err)
	}
}
