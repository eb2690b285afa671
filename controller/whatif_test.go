package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/service/stores"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// same asks about a configuration, whatever runs.
func same(c space.Config) func(*space.Space, space.Config) (space.Config, error) {
	return func(sp *space.Space, _ space.Config) (space.Config, error) {
		out, _ := sp.Project(c)
		return out, nil
	}
}

// A question has the figures of a round on the same state, and changes nothing that rounds decide.
func TestWhatIf(t *testing.T) {
	ctx := context.Background()
	asked := with(t, "queues=1")
	run := func(questions bool) (rounds []string, found controller.WhatIf) {
		c := simulate(t, controller.Recommend, round.DecideOnline)
		for at := time.Hour; at <= 5*time.Hour; at += time.Hour {
			c.until(at+30*time.Minute, nil)
			for range 2 {
				if !questions {
					break
				}
				w, err := c.service.WhatIf(ctx, simulatedID, same(asked))
				if err != nil {
					t.Fatal(err)
				}
				if found.At.Equal(w.At) && !slices.Equal(found.Candidate.Objective, w.Candidate.Objective) {
					t.Errorf("asked twice: %v, %v", found.Candidate.Objective, w.Candidate.Objective)
				}
				found = w
			}
		}
		all, err := c.service.Rounds(simulatedID, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			rounds = append(rounds, fmt.Sprint(r.Digest, " ", r.Outcome, " ", r.Error))
		}
		if !questions {
			return rounds, found
		}
		w, err := c.service.WhatIf(ctx, simulatedID, func(_ *space.Space, now space.Config) (space.Config, error) {
			return now, nil
		})
		if err != nil || w.Candidate.Ratio != 1 || len(w.Candidate.Limits) > 0 ||
			!slices.Equal(w.Candidate.Objective, w.Incumbent.Objective) {
			t.Errorf("what runs instead of itself: %+v, %v", w, err)
		}
		return rounds, found
	}
	alone, _ := run(false)
	beside, found := run(true)
	if !slices.Equal(alone, beside) || len(alone) < 4 {
		t.Errorf("rounds with questions between them:\n%s\nwithout:\n%s", strings.Join(beside, "\n"),
			strings.Join(alone, "\n"))
	}
	if len(found.Candidate.Objective) != found.Futures || found.Futures == 0 || found.Candidate.Ratio <= 0 ||
		found.Candidate.Config.Get("queues").Int() != 1 || found.At.IsZero() || found.SchedulerRevision != 1 ||
		found.Candidate.Metrics["avg_queue_s"] <= 0 {
		t.Errorf("answer: %+v", found)
	}
}

func TestWhatIfIsRefused(t *testing.T) {
	ctx := context.Background()
	release := make(chan struct{})
	h := start(t, func(_ context.Context, in round.Input) (round.Decision, error) {
		<-release
		return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
	})
	h.register("s", controller.Auto)
	if _, err := h.service.WhatIf(ctx, "s", same(with(t))); !errors.Is(err, rollout.ErrState) {
		t.Errorf("without events: %v", err)
	}
	if _, err := h.service.WhatIf(ctx, "none", same(with(t))); !errors.Is(err, controller.ErrNotFound) {
		t.Errorf("of no scheduler: %v", err)
	}
	h.submit("s", 30*time.Minute)
	h.submit("s", 61*time.Minute) // a round, which does not end
	soon, cancel := context.WithCancel(ctx)
	answers := make(chan error, 20)
	for range 20 {
		go func() { _, err := h.service.WhatIf(soon, "s", same(with(t))); answers <- err }()
	}
	for range 4 { // 16 wait
		if err := <-answers; !errors.Is(err, controller.ErrBusy) {
			t.Errorf("beyond those that wait: %v", err)
		}
	}
	cancel()
	for range 16 {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("whose caller went away: %v", err)
		}
	}
	close(release)
	h.rounds("s", 1)
}

// BenchmarkWhatIf asks about Tiresias with 1,000 active jobs and the history of a day.
func BenchmarkWhatIf(b *testing.B) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		b.Fatal(err)
	}
	h := &harness{dir: b.TempDir(), decide: func(_ context.Context, in round.Input) (round.Decision, error) {
		return round.Decision{Config: in.Incumbent, Ratio: 1}, nil
	}}
	if h.repo, err = stores.Open(h.dir, store.Options{}); err != nil {
		b.Fatal(err)
	}
	if h.service, err = controller.NewService(controller.Options{Store: h.repo, Decide: h.decide,
		Workers: 1}); err != nil {
		b.Fatal(err)
	}
	run(h.service, controller.Hooks{})
	defer h.service.Close()
	<-h.service.Rebuilt()
	ctx := context.Background()
	if _, err := h.service.Register(ctx, controller.Call{}, controller.Registration{ID: "s", Type: s.Name,
		Params: s.Space.Params(),
		Rules:  s.Space.Rules(), Objective: "avg_jct", Cluster: workload.Uniform(50, 8), Policy: promptly(),
		Mode: controller.Auto}); err != nil {
		b.Fatal(err)
	}
	var events []workload.Event
	add := func(kind workload.EventKind, job int, at time.Duration) {
		events = append(events, workload.Event{ID: fmt.Sprint(job, "-", kind), Kind: kind,
			Time: time.Duration(origin.UnixNano()) + at,
			Job: workload.Job{ID: fmt.Sprint("job-", job), GPUs: workload.GPUs(1 << (job % 4)),
				Tenant: fmt.Sprint("t", job%7)}})
	}
	for i := range 4000 { // the last 1,000 have not ended
		at := time.Duration(i) * 20 * time.Second
		add(workload.Submitted, i, at)
		if i < 3000 {
			add(workload.Started, i, at+time.Minute)
			add(workload.Finished, i, at+time.Duration(10+i%300)*time.Minute)
		}
	}
	slices.SortStableFunc(events, func(x, y workload.Event) int { return int(x.Time - y.Time) })
	for part := range slices.Chunk(events, 5000) {
		if _, err := h.service.Ingest(ctx, controller.Call{}, "s", part); err != nil {
			b.Fatal(err)
		}
	}
	ask := func() {
		if _, err := h.service.WhatIf(ctx, "s", same(s.Space.Default().With("queues", space.Int(2)))); err != nil {
			b.Fatal(err)
		}
	}
	ask() // learns from the history
	began := cpu()
	for b.Loop() {
		ask()
	}
	b.ReportMetric((cpu()-began).Seconds()/float64(b.N), "cpu-s/op")
}
