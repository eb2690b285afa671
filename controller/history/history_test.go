package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// cluster of the histories here.
var cluster = workload.Uniform(2, 8)

func submitted(id string, at time.Duration) workload.Event {
	return workload.Event{ID: "submit-" + id, Kind: workload.Submitted, Time: at,
		Job: workload.Job{ID: id, GPUs: workload.GPUs(1)}}
}

func finished(id string, at time.Duration) workload.Event {
	return workload.Event{ID: "finish-" + id, Kind: workload.Finished, Time: at, Job: workload.Job{ID: id}}
}

func passes(*workload.Event) error { return nil }

// kinds are the outcomes of a batch.
func (b *Batch) kinds() (out []Kind) {
	for _, o := range b.Outcomes {
		out = append(out, o.Kind)
	}
	return out
}

// with returns a history of submissions at hours, all applied.
func with(hours ...int) *History {
	h := New(cluster)
	for i, at := range hours {
		h.Append([]workload.Event{submitted(fmt.Sprint(i), time.Duration(at)*time.Hour)}, fmt.Sprint("c", i))
	}
	h.Apply()
	return h
}

// TestClassify: an id with the same content is a duplicate, in the history and in the batch, and one with other content
// is rejected; invalid and refused events are rejected; events outside the window of the clock are stray.
func TestClassify(t *testing.T) {
	h := with(0, 1)
	other := submitted("0", 0)
	other.Job.GPUs = workload.GPUs(2)
	refused := errors.New("epoch: of another store")
	events := []workload.Event{
		submitted("0", 0), other, submitted("new", 2*time.Hour), submitted("new", 2*time.Hour),
		{ID: "invalid", Kind: workload.Submitted, Time: time.Hour},
		submitted("refused", time.Hour), submitted("early", -time.Hour), submitted("horizon", 0),
		submitted("far", 2*time.Hour+MaxAhead+1), submitted("edge", 2*time.Hour+MaxAhead-time.Hour),
	}
	zero := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	b := h.Classify(events, zero, 0, func(e *workload.Event) error {
		if e.Job.ID == "refused" {
			return refused
		}
		return nil
	})
	want := []Kind{Duplicate, Rejected, Accepted, Duplicate, Rejected, Rejected, Late, Accepted, Accepted, Accepted}
	if got := b.kinds(); !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	for i, text := range map[int]string{1: "event_id: ", 4: "job", 5: "epoch: of another store"} {
		if err := b.Outcomes[i].Err; err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("event %d: %v, want %q", i, err, text)
		}
	}
	var fresh, stray []string
	for _, e := range b.Fresh {
		fresh = append(fresh, e.Job.ID)
	}
	for _, e := range b.Stray {
		stray = append(stray, e.Job.ID)
	}
	if !slices.Equal(fresh, []string{"new", "horizon", "far", "edge"}) || !slices.Equal(stray, []string{"early"}) {
		t.Errorf("fresh %v, stray %v", fresh, stray)
	}
	b = h.Classify([]workload.Event{submitted("wrong", time.Hour+MaxAhead+1)}, zero, 0, passes)
	if b.Outcomes[0].Kind != Rejected || len(b.Stray) != 1 || len(b.Fresh) != 0 ||
		!strings.Contains(b.Outcomes[0].Err.Error(), "7 days after the latest event, 2024-01-01T01:00:00Z") {
		t.Errorf("%+v", b)
	}
	if got := h.Remembered(); got != 2 {
		t.Errorf("classifying changed the history: %d ids", got)
	}
}

// TestAppendAndApply: events count at once and enter the ledger with Apply, whose cursor follows; a repeated one counts
// once.
func TestAppendAndApply(t *testing.T) {
	h := with(1)
	h.Append([]workload.Event{submitted("0", time.Hour), submitted("x", 30*time.Minute)}, "c1")
	if h.Events() != 2 || h.Applied() != 1 || h.Cursor() != "c0" || h.Last() != time.Hour || h.Now() != time.Hour {
		t.Errorf("before Apply: %d events, %d applied, cursor %s, last %v, now %v", h.Events(), h.Applied(), h.Cursor(),
			h.Last(), h.Now())
	}
	if n := len(h.Ledger().State(2 * time.Hour).Jobs); n != 1 {
		t.Errorf("%d jobs before Apply", n)
	}
	h.Apply()
	if h.Applied() != 2 || h.Cursor() != "c1" || len(h.Ledger().State(2*time.Hour).Jobs) != 2 {
		t.Errorf("after Apply: %d applied, cursor %s", h.Applied(), h.Cursor())
	}
	h.Apply()
	if len(h.Ledger().State(2*time.Hour).Jobs) != 2 || h.Cursor() != "c1" {
		t.Error("Apply applies again")
	}
	if early := with(-3); early.Last() != -3*time.Hour || !early.Running() || New(cluster).Running() {
		t.Errorf("the first event sets the last time: %v", early.Last())
	}
}

// TestReplay: a history that is read from the store equals the one that was appended, but for ids before the horizon.
func TestReplay(t *testing.T) {
	var events []workload.Event
	for i := range 6 {
		id := fmt.Sprint(i)
		events = append(events, submitted(id, time.Duration(i)*time.Hour))
		if i < 3 {
			events = append(events, finished(id, time.Duration(i)*time.Hour+time.Minute))
		}
	}
	h := New(cluster)
	for i := range events {
		h.Replay(&events[i])
		h.Replay(&events[i]) // a store may hold an event twice
	}
	h.Replayed("c9", 9*time.Hour, 2*time.Hour)
	if h.Events() != int64(len(events)) || h.Applied() != h.Events() || h.Cursor() != "c9" || h.Now() != 9*time.Hour ||
		h.Last() != 5*time.Hour {
		t.Errorf("%d events, %d applied, cursor %s, now %v, last %v", h.Events(), h.Applied(), h.Cursor(), h.Now(),
			h.Last())
	}
	if n := h.Remembered(); n != 5 { // two events of job 2, and three submissions
		t.Errorf("%d ids beyond the horizon", n)
	}
	if n := len(h.Ledger().State(9 * time.Hour).Jobs); n != 3 {
		t.Errorf("%d active jobs", n)
	}
	if got := h.Classify(events[len(events)-1:], time.Time{}, 2*time.Hour, passes).kinds(); got[0] != Duplicate {
		t.Errorf("an event that was replayed is %v", got)
	}
	h.Append([]workload.Event{submitted("late", 8*time.Hour)}, "c10")
	if h.Now() != 9*time.Hour {
		t.Errorf("the clock went back to %v", h.Now())
	}
	empty := New(cluster)
	empty.Replayed("", 9*time.Hour, 0)
	if empty.Running() || empty.Now() != 0 {
		t.Errorf("a clock without events shows %v", empty.Now())
	}
}

// TestForget: ids at the horizon's minute stay.
func TestForget(t *testing.T) {
	h := with(0, 1, 2)
	h.Forget(time.Hour)
	if n := h.Remembered(); n != 2 {
		t.Errorf("%d ids", n)
	}
	b := h.Classify([]workload.Event{submitted("1", time.Hour)}, time.Time{}, time.Hour, passes)
	if b.Outcomes[0].Kind != Duplicate {
		t.Errorf("the event at the horizon is %v", b.kinds())
	}
}

// TestAgreed: ten stray batches in a row set the clock, unless a fresh event comes between.
func TestAgreed(t *testing.T) {
	stray := func(h *History, i int) *Batch {
		e := submitted(fmt.Sprint("s", i), time.Duration(1000+i)*time.Hour)
		return h.Classify([]workload.Event{e}, time.Time{}, 0, passes)
	}
	for _, between := range []bool{false, true} {
		h := with(0)
		for i := range agreeing {
			if between && i == agreeing/2 {
				fresh := h.Classify([]workload.Event{submitted("fresh", time.Hour)}, time.Time{}, 0, passes)
				if _, enough := h.Agreed(fresh); enough {
					t.Error("a fresh event sets the clock")
				}
			}
			to, enough := h.Agreed(stray(h, i))
			if last := i == agreeing-1 && !between; enough != last {
				t.Fatalf("between %v: after %d strays %v", between, i+1, enough)
			} else if last && to != time.Duration(1000+i)*time.Hour {
				t.Errorf("the clock is set to %v", to)
			}
		}
	}
	h := with(0)
	duplicate := h.Classify([]workload.Event{submitted("0", 0)}, time.Time{}, 0, passes)
	if _, enough := h.Agreed(duplicate); enough {
		t.Error("a duplicate sets the clock")
	}
}

// TestSetClock: a clock is set to the time agreed on or to an event beyond it, is held by nothing, and another history
// takes it over.
func TestSetClock(t *testing.T) {
	for _, c := range []struct{ event, to, want int }{{5, 100, 100}, {5, 3, 5}} {
		h := with(c.event)
		h.SetClock(time.Duration(c.to) * time.Hour)
		if h.Now() != time.Duration(c.want)*time.Hour || !h.Running() || h.clock.held != 0 {
			t.Errorf("%+v: at %v, held by %d", c, h.Now(), h.clock.held)
		}
		next := New(cluster)
		next.TakeClock(h)
		if next.Now() != h.Now() || !next.Running() {
			t.Errorf("%+v: taken over at %v", c, next.Now())
		}
	}
	h := New(cluster)
	h.SetClock(-time.Hour)
	if h.Now() != -time.Hour || h.Running() {
		t.Errorf("without events: %v", h.Now())
	}
}

// TestUntil: events at the instant count, and none before the first of the history.
func TestUntil(t *testing.T) {
	events := []workload.Event{submitted("a", time.Hour), submitted("b", 2*time.Hour), submitted("c", 3*time.Hour)}
	if n := with(0).Until(events, 2*time.Hour); n != 2 {
		t.Errorf("%d", n)
	}
	if n := New(cluster).Until(events, 2*time.Hour); n != 0 {
		t.Errorf("%d before the first event", n)
	}
}

// TestZero: Zero is the midnight before the first events that agree, and all instants of an event are since it.
func TestZero(t *testing.T) {
	at := time.Date(2024, 3, 5, 14, 30, 0, 0, time.UTC)
	midnight := at.Truncate(24 * time.Hour)
	unix := time.Duration(at.UnixNano())
	active := submitted("old", unix)
	active.Job.Submit, active.LeaseUntil = unix-time.Hour, unix+time.Hour
	active.Job.Deadline, active.HoldUntil = workload.DeadlineAt(unix+2*time.Hour), unix+3*time.Hour
	snapshot := workload.Event{ID: "s", Kind: workload.TakenSnapshot, Time: unix, Active: []workload.Event{active}}
	lost := submitted("lost", time.Duration(at.AddDate(-20, 0, 0).UnixNano())) // of a wrong clock
	events := []workload.Event{snapshot, submitted("b", unix+time.Minute), lost}
	zero := FirstZero(events)
	if !zero.Equal(midnight) {
		t.Fatalf("zero %v, want %v", zero, midnight)
	}
	SinceZero(events, zero)
	since := 14*time.Hour + 30*time.Minute
	got := events[0].Active[0]
	if events[0].Time != since || got.Job.Submit != since-time.Hour || got.LeaseUntil != since+time.Hour ||
		got.Job.Deadline != workload.DeadlineAt(since+2*time.Hour) || got.HoldUntil != since+3*time.Hour {
		t.Errorf("%+v", events[0])
	}
	if snapshot.Active[0].LeaseUntil != unix+time.Hour {
		t.Error("the caller's snapshot is changed")
	}
	if e := events[1]; e.LeaseUntil != 0 || e.Job.Deadline != 0 || e.HoldUntil != 0 {
		t.Errorf("an event without instants gets %v, %v and %v", e.LeaseUntil, e.Job.Deadline, e.HoldUntil)
	}
}

// TestIdentity: events differ in their identity if they differ in anything that is stored.
func TestIdentity(t *testing.T) {
	base := submitted("a", time.Hour)
	base.Node = "x"
	for name, change := range map[string]func(*workload.Event){
		"time":      func(e *workload.Event) { e.Time += time.Minute },
		"kind":      func(e *workload.Event) { e.Kind = workload.Started },
		"tenant":    func(e *workload.Event) { e.Job.Tenant = "t" },
		"key":       func(e *workload.Event) { e.Job.Key = "k" },
		"lease":     func(e *workload.Event) { e.LeaseUntil = time.Hour },
		"labels":    func(e *workload.Event) { e.Labels = "l" },
		"placement": func(e *workload.Event) { e.Placement = append(e.Placement, workload.NodeShare{}) },
		"active":    func(e *workload.Event) { e.Active = []workload.Event{{}} },
		"instance":  func(e *workload.Event) { e.Instance = "i" },
		"request": func(e *workload.Event) {
			e.Job.Requested = workload.Request{GPUModel: "m"}.Shared()
		},
		"other placement": func(e *workload.Event) {
			e.Placement = append(e.Placement, workload.NodeShare{Node: "n"})
		},
		"moved text": func(e *workload.Event) { e.Node, e.Revision = "", "x" },
	} {
		other := base
		change(&other)
		if identify(&other) == identify(&base) {
			t.Errorf("%s: the identity is the same", name)
		}
	}
	again := base
	if identify(&again) != identify(&base) || hashID("a") == hashID("b") {
		t.Error("equal events differ, or two ids do not")
	}
}

// BenchmarkRegister registers new events.
func BenchmarkRegister(b *testing.B) {
	job := workload.Job{ID: "job-1", User: "u", Tenant: "vc", Key: "k", GPUs: workload.GPUs(1)}
	events := make([]workload.Event, 10_000)
	for i := range events {
		events[i] = workload.Event{ID: fmt.Sprint(i), Kind: workload.Submitted, Job: job,
			Time: time.Duration(i) * time.Second}
	}
	b.ReportAllocs()
	for b.Loop() {
		h := New(workload.Uniform(1, 8))
		for i := range events {
			h.register(&events[i])
		}
	}
}
