package controller

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// waitingFor returns a scheduler with a round due and a number of questions.
func waitingFor(t *testing.T, questions int) *schedulerState {
	t.Helper()
	sp, err := space.New([]space.Param{{ID: "pack", Kind: space.KindBool, Default: space.Bool(false)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	policy := DefaultPolicy()
	policy.AllowedLateness = 0
	m := newSchedulerState(Saved{Space: sp, Scheduler: Scheduler{Zero: time.Unix(0, 0), Registration: Registration{ID: "s",
		Type: "test", Objective: "avg_jct", Cluster: workload.Uniform(1, 8), Policy: policy, Mode: Auto}}}, 0)
	if m.fault != nil {
		t.Fatal(m.fault)
	}
	close(m.ready)
	m.arrive("a", policy.UpdateInterval+time.Minute)
	for range questions {
		m.agenda.questions = append(m.agenda.questions, &question{})
	}
	return m
}

func (m *schedulerState) arrive(job string, at time.Duration) {
	m.history.Append([]workload.Event{{ID: job, Kind: workload.Submitted, Time: at,
		Job: workload.Job{ID: job, GPUs: workload.GPUs(1)}}}, "")
}

// chosen are the next tasks of a scheduler.
func (m *schedulerState) chosen(n int) (kinds []taskKind) {
	for range n {
		if t := m.next(); t != nil {
			kinds = append(kinds, t.kind)
		} else {
			kinds = append(kinds, "none")
		}
	}
	return kinds
}

// full is a store that takes no change.
type full struct{ Store }

func (full) Commit(context.Context, Change) error { return errFull }

var errFull = errors.New("the disk is full")

// TestQuestionsFollowSettingOfClock: a question that came while the clock was being set is answered, also if the clock
// could not be set.
func TestQuestionsFollowSettingOfClock(t *testing.T) {
	m := waitingFor(t, 1)
	s := &Service{o: Options{Store: full{}, Now: time.Now}}
	if err := s.setClock(t.Context(), Call{}, m, time.Hour); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	if m.agenda.task == nil || m.agenda.task.kind != questionTask {
		t.Errorf("the next task is %+v", m.agenda.task)
	}
}

// TestNext: questions and other tasks follow one another, questions wait only while the
// clock is set, and a triggered round is chosen once.
func TestNext(t *testing.T) {
	change := func(f func(*Scheduler)) func(*schedulerState) {
		return func(m *schedulerState) {
			v := *m.snapshot.Load()
			f(&v.Scheduler)
			m.snapshot.Store(&v)
		}
	}
	for name, c := range map[string]struct {
		questions int
		set       func(*schedulerState)
		want      []taskKind
	}{
		"a round is due": {0, nil, []taskKind{roundTask, roundTask}},
		"questions wait, too": {2, nil,
			[]taskKind{questionTask, roundTask, questionTask, roundTask, roundTask}},
		"after a question": {1, func(m *schedulerState) { m.agenda.lastWasQuestion = true },
			[]taskKind{roundTask, questionTask, roundTask}},
		"the clock is being set": {1, func(m *schedulerState) { m.agenda.setting = true }, []taskKind{"none"}},
		"after a failure": {1, func(m *schedulerState) { m.backoff.on = true },
			[]taskKind{questionTask, "none"}},
		"paused":   {1, change(func(s *Scheduler) { s.Paused = true }), []taskKind{questionTask, "none"}},
		"deleted":  {0, change(func(s *Scheduler) { s.Deleted = time.Unix(1, 0) }), []taskKind{"none"}},
		"external": {0, change(func(s *Scheduler) { s.Type = External }), []taskKind{"none"}},
		"decided":  {0, change(func(s *Scheduler) { s.Round = 1 }), []taskKind{"none"}},
		"triggered": {2, func(m *schedulerState) {
			change(func(s *Scheduler) { s.Round = 1 })(m)
			m.agenda.triggered = &running{}
		}, []taskKind{questionTask, triggerTask, questionTask, "none"}},
		"triggered, not stored yet": {0, func(m *schedulerState) {
			change(func(s *Scheduler) { s.Round = 1 })(m)
			m.agenda.triggered = &running{started: true}
		}, []taskKind{"none"}},
	} {
		m := waitingFor(t, c.questions)
		if c.set != nil {
			c.set(m)
		}
		if got := m.chosen(len(c.want)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestNextLook: a look and a round that are both due follow one another, and a mark is looked at once.
func TestNextLook(t *testing.T) {
	m := waitingFor(t, 0)
	v := *m.snapshot.Load()
	one := &rollout.Configuration{Scheduler: "s", Revision: 1, Config: v.space.Default(), State: rollout.RolledOut,
		Origin: rollout.FromTuning, Evidence: &rollout.Evidence{}, Ack: &rollout.Ack{State: rollout.AckApplied}}
	v.configs = []*rollout.Configuration{one}
	v.LastRevision, v.OfferedRevision, v.AcknowledgedRevision = 1, 1, 1
	m.snapshot.Store(&v)
	if v.onTrial() == nil {
		t.Fatal("no revision is on trial")
	}
	if got, want := m.chosen(3), []taskKind{lookTask, roundTask, roundTask}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	m.arrive("b", m.history.Now()+10*time.Minute)
	if got, want := m.chosen(2), []taskKind{lookTask, roundTask}; !slices.Equal(got, want) {
		t.Errorf("after the next mark: %v, want %v", got, want)
	}
}
