package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/stores"
	"github.com/autosched/autosched/workload"
)

// A service that drops old events has fewer to read at a start, and its next round is decided on
// the same input as that of one that keeps all: a job that is open since the first day has its
// history. An event that is sent again is a duplicate or late by the same rule. Rounds whose events are
// there are repeated, earlier ones are refused by name.
func TestOldEventsAreDropped(t *testing.T) {
	testshared.Full(t)
	const days, day = 70, 24 * time.Hour
	ctx := context.Background()
	keep := func(_ context.Context, in round.Input) (round.Decision, error) {
		return round.Decision{Config: in.Incumbent, Reason: "kept"}, nil
	}
	at, clock := time.Minute, atomic.Int64{}
	live := func(drop bool) (digest string, stored int, h *harness) {
		at = time.Minute
		clock.Store(int64(at))
		h = &harness{t: t, dir: t.TempDir(), decide: keep, retain: controller.MinRetain,
			now: func() time.Time { return origin.Add(time.Duration(clock.Load())) }}
		if !drop {
			h.retain = 0
		}
		h.open()
		t.Cleanup(h.close)
		h.register("s", controller.Auto)
		send := func(kind workload.EventKind, job string) controller.IngestResult {
			e := submission(fmt.Sprint(job, kind), at)
			e.Kind, e.Job.ID = kind, job
			got, err := h.service.Ingest(ctx, controller.Call{}, "s", []workload.Event{e})
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		for n := range days {
			at = time.Duration(n)*day + time.Minute
			clock.Store(int64(at))
			if n == 0 {
				send(workload.Submitted, "long")
				send(workload.Started, "long")
			} else {
				send(workload.Finished, fmt.Sprint("job", n-1))
			}
			send(workload.Submitted, fmt.Sprint("job", n))
			send(workload.Started, fmt.Sprint("job", n))
			h.rounds("s", int64(n))
		}
		files, err := h.service.DropEvents(ctx)
		if err != nil || drop != (len(files) > days/2) {
			t.Errorf("dropped %v, %v", files, err)
		}
		h.close()
		h.open()
		if _, err := h.repo.ReplayEvents("s", func(string, workload.Event) error { stored++; return nil }); err != nil {
			t.Fatal(err)
		}
		now := at
		if got := send(workload.Started, fmt.Sprint("job", days-1)); got.Duplicates != 1 {
			t.Errorf("sent again: %+v", got)
		}
		for at = range slices.Values([]time.Duration{time.Minute, 20*day + time.Minute}) {
			if got := send(workload.Submitted, fmt.Sprint("job", int(at/day))); got.Late != 1 {
				t.Errorf("%v, sent again: %+v", at, got)
			}
		}
		at = now + day
		clock.Store(int64(at))
		send(workload.Resized, "long")
		h.rounds("s", 1)
		rounds, err := h.service.Rounds("s", 0, 1)
		if err != nil || len(rounds) != 1 {
			t.Fatal(rounds, err)
		}
		return rounds[0].Digest, stored, h
	}
	want, all, _ := live(false)
	got, left, h := live(true)
	if got != want {
		t.Errorf("a round is decided on %s, want %s", got, want)
	}
	if left*2 > all {
		t.Errorf("%d of %d events are left", left, all)
	}
	h.service.Close()
	if err := h.repo.Close(); err != nil {
		t.Fatal(err)
	}
	defer h.open() // for the harness
	log, saved, rounds := stored(t, stores.Records(h.dir))
	defer log.Close()
	last := rounds[len(rounds)-1]
	if again, err := controller.RepeatRound(ctx, log, saved, last, keep, 1); err != nil || again.Difference != "" {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := controller.RepeatRound(ctx, log, saved, rounds[0], keep, 1); !errors.Is(err, controller.ErrDropped) {
		t.Error(err)
	}
}
