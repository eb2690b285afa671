package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLedgerCountsLostProgress: run time, starts and hold-offs of jobs that begin anew after a preemption,
// before and after they are packed.
func TestLedgerCountsLostProgress(t *testing.T) {
	submit := ev(Submitted, "a", 0)
	submit.Job.Requested = Request{QOS: "high", Account: "lab", NodeCount: 2, Nice: -3, Priority: 7,
		HoldOff: time.Minute, TimeLimit: time.Hour}.Shared()
	submit.HoldUntil = 5 * time.Second
	kept, lost := ev(Preempted, "a", 20), ev(Preempted, "a", 60)
	lost.Lost, lost.HoldUntil = true, 90*time.Second
	restarts := ev(Submitted, "b", 0)
	restarts.Job.Requested = Request{Requeue: RequeueRestarts}.Shared()
	l := NewLedger(testCluster)
	apply(t, l, submit, ev(Started, "a", 10), kept, ev(Resumed, "a", 40), lost, ev(Resumed, "a", 100),
		restarts, ev(Started, "b", 1), ev(Preempted, "b", 11), ev(Resumed, "b", 21))
	s := func(n int) time.Duration { return time.Duration(n) * time.Second }
	type known struct {
		Hold, Ran, Lost time.Duration
		Starts, Lost1   int
	}
	of := func(at int, id string) known {
		for _, a := range l.State(s(at)).Jobs {
			if a.ID == id {
				if id == "a" && a.Requested != submit.Job.Requested {
					t.Errorf("at %d, a asks for %+v", at, a.Request())
				}
				return known{a.HoldUntil, a.RunTime, a.Lost, a.Starts, a.LostStarts}
			}
		}
		return known{}
	}
	for _, tt := range []struct {
		at   int
		id   string
		want known
	}{
		{4, "a", known{Hold: s(5)}},
		{15, "a", known{Ran: s(5), Starts: 1}},
		{30, "a", known{Ran: s(10), Starts: 1}},
		{50, "a", known{Ran: s(20), Starts: 2}},
		{70, "a", known{Hold: s(90), Lost: s(30), Starts: 2, Lost1: 2}},
		{110, "a", known{Ran: s(10), Lost: s(30), Starts: 3, Lost1: 2}},
		{31, "b", known{Ran: s(10), Lost: s(10), Starts: 2, Lost1: 1}},
	} {
		if d := cmp.Diff(tt.want, of(tt.at, tt.id)); d != "" {
			t.Errorf("at %d, %s: %s", tt.at, tt.id, d)
		}
	}
	end := ev(Finished, "a", 130)
	end.Job.Status = TimedOut
	apply(t, l, end)
	f := l.Finishes(0, s(200))[0]
	if f.RunTime != s(30) || f.Lost != s(30) || f.Starts != 3 || f.LostStarts != 2 || f.Status != TimedOut ||
		f.Requested != submit.Job.Requested {
		t.Errorf("%+v", f)
	}
	if got, want := of(70, "a"), (known{Hold: s(90), Lost: s(30), Starts: 2, Lost1: 2}); got != want {
		t.Errorf("packed: %+v, want %+v", got, want)
	}
	var lostAt []time.Duration
	for _, x := range l.Spells(0, s(200)) {
		if x.ID == "a" {
			lostAt = append(lostAt, x.Lost)
		}
	}
	if d := cmp.Diff([]time.Duration{0, s(30), 0}, lostAt); d != "" {
		t.Error(d)
	}
}
