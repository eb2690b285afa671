package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/store"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

const day = 24 * time.Hour

// wrong is far in the future of origin.
var wrong = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Sub(origin)

func keep(_ context.Context, in round.Input) (round.Decision, error) {
	return round.Decision{Config: in.Incumbent,
		Reason: fmt.Sprintf("round %d of %d jobs", in.Round, len(in.State.Jobs)), Ratio: 1}, nil
}

// send ingests one submission an hour and returns the outcome.
func (h *harness) send(id string, from time.Duration, n int) (sum controller.IngestResult) {
	h.t.Helper()
	for i := range n {
		h.events++
		r, err := h.service.Ingest(context.Background(), controller.Call{}, id,
			[]workload.Event{submission(fmt.Sprint("e", h.events), from+time.Duration(i)*time.Hour)})
		if err != nil {
			h.t.Fatal(err)
		}
		sum.Accepted += r.Accepted
		sum.Late += r.Late
		sum.Rejected = append(sum.Rejected, r.Rejected...)
	}
	return sum
}

// decided waits until the last decision speaks of a round.
func (h *harness) decided(id string, round int) {
	h.t.Helper()
	want := fmt.Sprintf("round %d of", round)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, st, err := h.service.Scheduler(id)
		if err != nil {
			h.t.Fatal(err)
		}
		if strings.Contains(st.LastDecision, want) {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("status %+v, want %s", st, want)
		}
	}
}

func (h *harness) eventTime(id string) time.Duration {
	h.t.Helper()
	_, st, err := h.service.Scheduler(id)
	if err != nil {
		h.t.Fatal(err)
	}
	return st.EventTime.Sub(origin)
}

func TestOneWrongClockStopsNothing(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	h.send("s", time.Minute, 5)
	h.decided("s", 4)
	// Alone and among others, and sent again until either side gives up.
	for range 20 {
		r, err := h.service.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{submission("far",
			wrong)})
		if err != nil || r.Accepted != 0 || len(r.Rejected) != 1 ||
			!strings.HasPrefix(r.Rejected[0].Err.Error(),
				"time: is more than 7 days after the latest event, 2017-10-01T04:01:00Z") {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	r, err := h.service.Ingest(context.Background(), controller.Call{}, "s",
		[]workload.Event{submission("a", 5*time.Hour), submission("far too", wrong), submission("b", 5*time.Hour)})
	if err != nil || r.Accepted != 2 || len(r.Rejected) != 1 || r.Rejected[0].Index != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r := h.send("s", 5*time.Hour+time.Minute, 5); r.Accepted != 5 {
		t.Errorf("%+v", r)
	}
	h.decided("s", 9)
	h.close()
	h.open()
	h.send("s", 10*time.Hour+time.Minute, 1)
	h.decided("s", 10)
}

func TestFirstBatchWithAWrongClock(t *testing.T) {
	for _, off := range []time.Duration{wrong, -30 * 365 * day} {
		h := start(t, keep)
		h.register("s", controller.Auto)
		batch := []workload.Event{submission("off", off)}
		for i := range 50 { // of a backfill, a day apart
			batch = append(batch, submission(fmt.Sprint("b", i), time.Duration(i)*day))
		}
		r, err := h.service.Ingest(context.Background(), controller.Call{}, "s", batch)
		if err != nil || r.Accepted != 50 || h.eventTime("s") != 49*day {
			t.Errorf("%+v, %v, event time %v", r, err, h.eventTime("s"))
		}
		h.decided("s", 49*24-1)
	}
}

func TestClockComesBack(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	h.send("s", wrong, 2) // the first events of all
	if r := h.send("s", time.Minute, 9); r.Accepted != 0 || r.Late != 9 {
		t.Fatalf("%+v", r)
	}
	if r := h.send("s", 9*time.Hour, 1); r.Accepted != 1 {
		t.Fatalf("%+v", r)
	}
	if at := h.eventTime("s"); at != 9*time.Hour {
		t.Errorf("event time %v", at)
	}
	if r := h.send("s", 10*time.Hour+time.Minute, 3); r.Accepted != 3 {
		t.Errorf("%+v", r)
	}
	zero := 24 * int(wrong/day) // rounds count from the day of the first event
	h.decided("s", 12-zero)
	h.close()
	h.open()
	if at := h.eventTime("s"); at != 12*time.Hour+time.Minute {
		t.Errorf("event time %v after the restart", at)
	}
	h.send("s", 13*time.Hour+time.Minute, 1)
	h.decided("s", 13-zero)
}

func TestClockFollowsAnAbsentScheduler(t *testing.T) {
	h := start(t, keep)
	h.register("s", controller.Auto)
	h.send("s", time.Minute, 5)
	h.decided("s", 4)
	if r := h.send("s", 30*day+time.Minute, 9); r.Accepted != 0 || len(r.Rejected) != 9 {
		t.Fatalf("%+v", r)
	}
	if r := h.send("s", 30*day+9*time.Hour, 3); r.Accepted != 3 {
		t.Errorf("%+v", r)
	}
	h.decided("s", 30*24+10)
	// Jobs from before are still there.
	if _, st, _ := h.service.Scheduler("s"); !strings.Contains(st.LastDecision, "of 7 jobs") {
		t.Errorf("%+v", st)
	}
	// A backfill from before, smaller than the events that hold the clock, changes nothing.
	h.send("s", 31*day, 100)
	if r := h.send("s", day, 20); r.Late != 20 {
		t.Errorf("%+v", r)
	}
	if r := h.send("s", 35*day+4*time.Hour, 1); r.Accepted != 1 {
		t.Errorf("%+v", r)
	}
	h.close()
	h.open()
	if at := h.eventTime("s"); at != 35*day+4*time.Hour {
		t.Errorf("event time %v after the restart", at)
	}
}

// Events that an earlier version stored, with the round of the wrong event decided.
func TestStoredWrongClockRecovers(t *testing.T) {
	for _, round := range []int64{4, int64(wrong / time.Hour)} {
		dir := t.TempDir()
		repo, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sp, err := space.New(serviceParams, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = repo.Commit(context.Background(), controller.Change{
			Scheduler: controller.Scheduler{UID: "u", Version: 1,
				Zero: origin, Records: rollout.Records{
					Revisions: rollout.Revisions{LastRevision: 1, OfferedRevision: 1}}, Round: round,
				Registration: controller.Registration{
					ID: "s", Type: "test", Params: sp.Params(), Objective: "avg_jct",
					Cluster: workload.Uniform(4, 8), Policy: promptly(), Mode: controller.Auto}},
			Configurations: []*rollout.Configuration{{Scheduler: "s", UID: "c", Revision: 1, State: rollout.Published,
				Origin: rollout.FromDefault, Config: sp.Default(), Hash: sp.Default().Hash()}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var stored []workload.Event
		for i := range 5 {
			e := submission(fmt.Sprint("old", i), 0)
			e.Time = time.Duration(i)*time.Hour + 1
			stored = append(stored, e)
		}
		far := submission("far", 0)
		far.Time = wrong + time.Hour
		if err := repo.AppendEvents(context.Background(), "s", append(stored, far)); err != nil {
			t.Fatal(err)
		}
		if err := repo.Close(); err != nil {
			t.Fatal(err)
		}
		h := &harness{t: t, dir: dir, decide: keep}
		h.open()
		r := h.send("s", 5*time.Hour+1, 12)
		want := 12
		if round > 4 {
			want = 3
		}
		if r.Accepted != want {
			t.Errorf("round %d: %+v, want %d accepted", round, r, want)
		}
		h.decided("s", 16)
		if _, st, _ := h.service.Scheduler("s"); !strings.Contains(st.LastDecision, fmt.Sprintf("of %d jobs", 4+want)) {
			t.Errorf("round %d: %+v", round, st)
		}
		h.close()
	}
}

func TestRememberedEventsAreBounded(t *testing.T) {
	testshared.Full(t)
	h := start(t, keep)
	h.register("s", controller.Auto)
	for i := range 60 {
		h.send("s", time.Duration(i)*day+time.Minute, 24)
		h.decided("s", 24*(i+1)-1)
	}
	if n := h.service.Remembered("s"); n < 30*24 || n > 32*24 {
		t.Errorf("%d ids are remembered", n)
	}
	sendAgain := func() {
		t.Helper()
		r, err := h.service.Ingest(context.Background(), controller.Call{}, "s",
			[]workload.Event{submission("e1", time.Minute), submission("never seen", time.Hour),
				submission("e1420", 59*day+3*time.Hour+time.Minute)})
		if err != nil || r.Accepted != 0 || r.Late != 2 || r.Duplicates != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	sendAgain()
	h.close()
	h.open()
	sendAgain()
	if n := h.service.Remembered("s"); n > 32*24 {
		t.Errorf("%d ids are remembered after a restart", n)
	}
}

func TestIngestSortsOut(t *testing.T) {
	h := start(t, adopt(byRound))
	h.register("s", controller.Auto)
	bad := submission("bad", 0)
	bad.Job.GPUs = 0
	res, err := h.service.Ingest(context.Background(), controller.Call{}, "s",
		[]workload.Event{submission("1", 0), bad, submission("1", 0), submission("2", 0)})
	if err != nil || res.Accepted != 2 || res.Duplicates != 1 || len(res.Rejected) != 1 || res.Rejected[0].Index != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	bad.ID = "2" // known, so that it is another event under its id
	if res, err := h.service.Ingest(context.Background(), controller.Call{}, "s", []workload.Event{bad}); err != nil ||
		res.Duplicates != 0 || len(res.Rejected) != 1 {
		t.Errorf("a known id with an invalid event: %+v, %v", res, err)
	}
	if _, err := h.service.Ingest(context.Background(), controller.Call{}, "nobody", nil); !errors.Is(err,
		controller.ErrNotFound) {
		t.Error(err)
	}
}
