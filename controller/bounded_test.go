package controller_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// jobsOf are the submissions and ends of an hour's jobs.
func jobsOf(hour, jobs int) (out []workload.Event) {
	for i := range jobs {
		id := fmt.Sprint("j", hour, "-", i)
		e := submission(id, time.Duration(hour)*time.Hour+time.Duration(i)*time.Second)
		out = append(out, e)
		e.ID, e.Kind, e.Time = e.ID+"end", workload.Finished, e.Time+time.Minute
		out = append(out, e)
	}
	return out
}

// states are those of schedulers, which are named by them.
var states = map[string]func(*controller.Scheduler) error{
	"tuned":  func(*controller.Scheduler) error { return nil },
	"paused": func(s *controller.Scheduler) error { s.Paused = true; return nil },
	"frozen": func(s *controller.Scheduler) error { s.Freeze = &rollout.Freeze{Reason: "test"}; return nil },
	"held": func(s *controller.Scheduler) error {
		s.Policy.Waves.Canary, s.Policy.AckDeadline = true, -1
		return nil
	},
	"degraded": func(*controller.Scheduler) error { return nil },
	"silent":   func(*controller.Scheduler) error { return nil }, // for long
	"external": nil,
}

// inState registers a scheduler and brings it into a state.
func (h *harness) inState(state string) {
	h.t.Helper()
	change := states[state]
	reg := controller.Registration{ID: state, Type: "test", Params: serviceParams, Objective: "avg_jct",
		Cluster: workload.Uniform(4, 8), Policy: promptly(), Mode: controller.Auto}
	reg.Policy.UpdateInterval = 24 * time.Hour
	if change == nil {
		reg.Type = controller.External
	}
	if _, err := h.service.Register(context.Background(), controller.Call{}, reg); err != nil {
		h.t.Fatal(err)
	}
	if change != nil {
		h.modify(state, change)
	}
	for _, instance := range map[string][]string{"held": {"a", "b"}, "degraded": {"a"}}[state] {
		outcome := rollout.AckApplied // "a" never acknowledges what follows
		if state == "degraded" {
			outcome = rollout.AckFailed
		}
		if _, _, err := h.service.Acknowledge(context.Background(), controller.Call{}, state, 1,
			rollout.Ack{State: outcome, Instance: instance}); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestRetentionInEveryState: old events are dropped and forgotten (N2), and so are superseded proposals (N8), whatever
// keeps the rounds of a scheduler from moving.
func TestRetentionInEveryState(t *testing.T) {
	testshared.Full(t)
	const days, proposals = 120, 5
	clock := atomic.Int64{}
	h := &harness{t: t, dir: t.TempDir(), retain: controller.MinRetain, keep: proposals,
		decide: adopt(func(round.Input) int { return 5 }),
		now:    func() time.Time { return origin.Add(time.Duration(clock.Load())) }}
	h.open()
	defer func() { h.close() }()
	for id := range states {
		h.inState(id)
	}
	propose := func(id string, n int) {
		c, _, err := h.service.Scheduler(id)
		if err != nil {
			t.Fatal(err)
		}
		sp, err := space.New(c.Params, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.service.Propose(context.Background(), controller.Call{}, id,
			sp.Default().With("queues", space.Int(1+n%9)), "test", rollout.Evidence{})
		if err != nil && !errors.Is(err, rollout.ErrState) { // a round changed what is on offer
			t.Fatal(id, err)
		}
	}
	for day := range days {
		clock.Store(int64(day+1) * int64(24*time.Hour))
		for id := range states {
			if day%4 == 0 {
				propose(id, day/4)
			}
			for _, hour := range []int{24 * day, 24*day + 23} {
				if id == "silent" && day > days/2 {
					break
				}
				_, err := h.service.Ingest(context.Background(), controller.Call{}, id, jobsOf(hour, 12))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	check := func(when string) {
		t.Helper()
		for id := range states {
			all, err := h.service.Configurations(id, 0, 1000)
			waits, last := 0, all[0].Revision
			for _, c := range all {
				if c.State == rollout.Proposed {
					waits++
				} else if c.State == rollout.Lost {
					t.Errorf("%s: %s: revision %d is lost: %s", when, id, c.Revision, c.Reason)
				}
			}
			if most := proposals + 4; err != nil || waits == 0 && id != "tuned" || len(all) > most || last < 20 {
				t.Errorf("%s: %s: %d of %d revisions, %d wait, %v", when, id, len(all), last, waits, err)
			}
			stored := 0
			_, err = h.repo.ReplayEvents(id, func(string, workload.Event) error { stored++; return nil })
			if err != nil {
				t.Fatal(err)
			}
			if _, st, err := h.service.Scheduler(id); err != nil || int(st.Events) < min(stored, 48*30) {
				t.Errorf("%s: %s: %d events count, %d are stored, %v", when, id, st.Events, stored, err)
			}
			if most := 48 * 40; stored > most || h.service.Remembered(id) > most {
				t.Errorf("%s: %s: %d of %d events left, %d ids, want at most %d", when, id, stored, 48*days,
					h.service.Remembered(id), most)
			}
		}
	}
	for id := range states {
		for !h.service.Idle(id) {
			time.Sleep(time.Millisecond)
		}
	}
	if _, err := h.service.DropEvents(context.Background()); err != nil {
		t.Fatal(err)
	}
	check("running")
	h.close()
	h.open()
	check("restarted")
	if _, st, _ := h.service.Scheduler("held"); !strings.Contains(st.Watching, "rounds wait") {
		t.Errorf("the rollout is not under way: %+v", st)
	}
}

// metered is a store that notes the most memory that is in use while events are read.
type metered struct {
	controller.Store
	base, most *atomic.Int64
	holds      bool // every event
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (s metered) ReplayEvents(only string, apply func(string, workload.Event) error) ([]controller.Damage, error) {
	n, held := 0, []workload.Event(nil)
	note := func() {
		s.most.Store(max(s.most.Load(), inUse()-s.base.Load()))
		runtime.KeepAlive(held)
	}
	s.base.Store(inUse())
	defer note()
	return s.Store.ReplayEvents(only, func(id string, e workload.Event) error {
		if n++; n%20_000 == 0 {
			note()
		}
		if s.holds {
			held = append(held, e)
		}
		return apply(id, e)
	})
}

// resident resets the peak of the memory of this process, or returns it in bytes; 0 where the system does not tell.
func resident(reset bool) int64 {
	if reset {
		debug.FreeOSMemory()
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
		return 0
	}
	text, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	var kib int64
	_, _ = fmt.Sscan(after, &kib)
	return kib << 10
}

// TestRestartInEveryState: a restart with a long history holds a ledger and ids, no events, whatever state a scheduler
// is in (N1). AUTOSCHED_RESTART is the number of events from which the memory of the process is measured instead.
func TestRestartInEveryState(t *testing.T) {
	testshared.Full(t)
	events, most := 30_000, int64(0)
	if text := os.Getenv("AUTOSCHED_RESTART"); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		most = 400 << 20 // of a million
	}
	limit := int64(5<<20 + 300*events) // what is read at a time, ids and the ledger: an event has more than 400 bytes
	if most == 0 {
		if held, _, _ := restarted(t, "tuned", 365*24*time.Hour, events, true, true); held <= limit {
			t.Errorf("%d bytes where every event is held, no more than %d", held, limit)
		}
	}
	for _, state := range slices.Sorted(maps.Keys(states)) {
		for _, days := range []int{20, 365} {
			t.Run(fmt.Sprint(state, " ", days, " days"), func(t *testing.T) {
				held, peak, round := restarted(t, state, time.Duration(days)*24*time.Hour, events, most == 0, false)
				t.Logf("%d events, %d MiB held, %d MiB resident, after a round, if one is due, %d", events, held>>20,
					peak>>20, round>>20)
				if held > limit {
					t.Errorf("%d bytes are held for %d events, want at most %d", held, events, limit)
				}
				if most > 0 && peak > most {
					t.Errorf("%d MiB at the peak, want at most %d", peak>>20, most>>20)
				}
			})
		}
	}
}

// restarted restarts a service with events of a scheduler in a state, over a span. It returns the memory that was held
// while they were read, if that is metered, and the peak of the process, before a round and after it. The store itself
// may hold the events.
func restarted(t *testing.T, state string, span time.Duration, events int, meter, hold bool) (held, peak, round int64) {
	const batch = 10_000
	now := origin
	h := &harness{t: t, dir: t.TempDir(), decide: keep, retain: controller.MinRetain,
		now: func() time.Time { return now }}
	h.open()
	h.inState(state)
	_, err := h.service.Ingest(context.Background(), controller.Call{}, state, []workload.Event{submission("first", 0)})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]workload.Event, 0, batch)
	for i := range events / 2 {
		e := submission(fmt.Sprint("x", i), 0)
		e.Time = span * time.Duration(i) / time.Duration(events/2)
		end := e
		end.ID, end.Kind, end.Time = e.ID+"end", workload.Finished, e.Time+time.Minute
		if all = append(all, e, end); len(all) == batch {
			if err := h.repo.AppendEvents(context.Background(), state, all); err != nil {
				t.Fatal(err)
			}
			all = all[:0]
		}
	}
	h.close()
	if now = origin.Add(span); state == "silent" {
		now = now.Add(365 * 24 * time.Hour)
	}
	var base, most atomic.Int64
	if meter {
		h.wrap = func(s controller.Store) controller.Store { return metered{s, &base, &most, hold} }
	}
	resident(true)
	h.open()
	peak = resident(false)
	defer h.close()
	if _, st, err := h.service.Scheduler(state); err != nil || st.Events != int64(events+1) {
		t.Fatal(st.Events, err)
	}
	for !h.service.Idle(state) {
		time.Sleep(time.Millisecond)
	}
	return most.Load(), peak, resident(false)
}

// shrinking is a log whose first event is dropped by retention after it was read once.
type shrinking []workload.Event

func (l *shrinking) ReplayEvents(_ string, apply func(string, workload.Event) error) ([]controller.Damage, error) {
	for _, e := range *l {
		if err := apply("s", e); err != nil {
			return nil, err
		}
	}
	*l = (*l)[1:]
	return nil, nil
}

// TestAheadBesideRetention: an event beyond the clock counts once later ones move it, also if events before it are
// dropped meanwhile.
func TestAheadBesideRetention(t *testing.T) {
	day := 24 * time.Hour
	log := &shrinking{{ID: "a"}, {ID: "far", Time: 10 * day}, {ID: "b", Time: 5 * day}}
	var got []string
	scheduler := &controller.Scheduler{Registration: controller.Registration{ID: "s"}}
	if _, err := controller.ReadEvents(t.Context(), log, scheduler, func(e workload.Event) error {
		got = append(got, e.ID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "far"}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}
