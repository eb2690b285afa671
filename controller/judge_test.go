package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/storetest"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// simulated is a cluster of a node under Tiresias that the service tunes. Jobs of 5 min come
// every 6 min, and the GPUs belong to a job of 12 h from 3 h on, which they preempt
// unless there is one queue only.
type simulated struct {
	*harness
	cluster live.Cluster
	sched   *schedulers.Scheduler
	at      time.Duration
	sent    []workload.Event
	running int64
	deaf    bool // it applies nothing
}

const simulatedID = "s"

func simulate(t *testing.T, mode controller.Mode, decide round.DecideFunc) *simulated {
	t.Helper()
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	c := &simulated{harness: start(t, decide), sched: s}
	policy := promptly()
	policy.Horizon = 3 * time.Hour
	if _, err := c.service.Register(context.Background(), controller.Call{}, controller.Registration{
		ID: simulatedID, Type: s.Name, Params: s.Space.Params(), Rules: s.Space.Rules(), Objective: "avg_jct",
		Cluster: workload.Uniform(1, 8), Policy: policy, Mode: mode}); err != nil {
		t.Fatal(err)
	}
	jobs := []workload.Job{{ID: "long", GPUs: workload.GPUs(8), Submit: 3*time.Hour + time.Minute,
		Duration: 12 * time.Hour}}
	for i := range 340 {
		jobs = append(jobs, workload.Job{ID: fmt.Sprintf("short%03d", i), GPUs: workload.GPUs(8),
			Submit: time.Duration(1+6*i) * time.Minute, Duration: 5 * time.Minute})
	}
	w, err := workload.New("simulated", origin, jobs)
	if err != nil {
		t.Fatal(err)
	}
	c.cluster.Send = func(e workload.Event) {
		e.Time += time.Duration(origin.UnixNano())
		if e.LeaseUntil != 0 {
			e.LeaseUntil += time.Duration(origin.UnixNano())
		}
		c.sent = append(c.sent, e)
	}
	o := simulator.Options{Observer: c.cluster.Observe}
	if err := c.cluster.Sim.Start(workload.Uniform(1, 8), w, s.New(s.Space.Default()), o); err != nil {
		t.Fatal(err)
	}
	return c
}

// until runs the cluster minute by minute, which applies offers, until an instant
// or until stop.
func (c *simulated) until(at time.Duration, stop func() bool) {
	c.t.Helper()
	for c.at < at && (stop == nil || !stop()) {
		c.at += time.Minute
		if err := c.cluster.Sim.RunUntil(c.t.Context(), c.at); err != nil {
			c.t.Fatal(err)
		}
		c.send()
		if now, err := c.service.Current(simulatedID, ""); err == nil && now.Revision != c.running && !c.deaf {
			c.running = now.Revision
			c.cluster.Sim.Reconfigure(c.sched.New(now.Config))
			c.cluster.Applied(c.at, strconv.FormatInt(now.Revision, 10))
			c.send()
		}
	}
}

// send ingests events and waits for the decisions on them.
func (c *simulated) send() {
	c.t.Helper()
	if _, err := c.service.Ingest(context.Background(), controller.Call{}, simulatedID, c.sent); err != nil {
		c.t.Fatal(err)
	}
	c.sent = nil
	for deadline := time.Now().Add(patience); !c.service.Idle(simulatedID); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			c.t.Fatal("a decision does not end")
		}
	}
}

func (c *simulated) revisions() []*rollout.Configuration {
	c.t.Helper()
	all, err := c.service.Configurations(simulatedID, 0, 1000)
	if err != nil {
		c.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// summary is every revision with its origin, state, queues, reason and alarm.
func (c *simulated) summary() string {
	var b strings.Builder
	for _, r := range c.revisions() {
		fmt.Fprintf(&b, "%d %s %s %d %s\n", r.Revision, r.Origin, r.State, r.Config.Get("queues").Int(), r.Reason)
		if i := r.Incident; i != nil {
			fmt.Fprintf(&b, "  %s %d %d %+v\n", i.At, i.Revision, i.Good, i.Verdict)
		}
	}
	return b.String()
}

func (c *simulated) status() controller.Status {
	c.t.Helper()
	_, st, err := c.service.Scheduler(simulatedID)
	if err != nil {
		c.t.Fatal(err)
	}
	return st
}

func (c *simulated) incident() bool { return c.status().Incident != nil }

func (c *simulated) restart() {
	c.close()
	c.open()
	c.send()
}

// with parses a configuration of Tiresias.
func with(t *testing.T, sets ...string) space.Config {
	t.Helper()
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Space.Parse(s.Space.Default(), sets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// adopting always adopts a configuration from a round on, whatever is refused.
func adopting(c space.Config, from int, see func(round.Input)) round.DecideFunc {
	return func(_ context.Context, in round.Input) (round.Decision, error) {
		if see != nil {
			see(in)
		}
		return round.Decision{Config: c, Adopt: in.Round >= from, Reason: "test", Ratio: 1.2}, nil
	}
}

// TestAlarm: a configuration under which jobs wait raises an alarm within an hour of the first one that does, once. It
// stays in force and is not parked; rounds go on, and looks until the end of the forecast.
func TestAlarm(t *testing.T) {
	one := with(t, "queues=1", "queue_thresholds=")
	rounds := map[int]round.Input{}
	c := simulate(t, controller.Auto, adopting(one, 4, func(in round.Input) { rounds[in.Round] = in }))
	c.until(6*time.Hour, c.incident)
	looks := c.looks
	if n := len(looks); n < 3 || looks[0].Verdict.Judgement != round.Early || looks[n-1].Revision != 2 ||
		looks[n-1].Verdict.Judgement != round.Worse || looks[n-1].Verdict.Excess <= 1 ||
		!looks[n-1].Applied.Equal(looks[0].Applied) || !looks[n-1].Applied.Before(looks[n-1].At) {
		t.Errorf("looks %+v", looks)
	}
	effect := 4*time.Hour + 7*time.Minute // a job waits that would have run
	st := c.status()
	if st.Incident == nil || c.at > effect+time.Hour {
		t.Fatalf("%v, %s\n%s", c.at, st.Watching, c.summary())
	}
	found, i := st.Incident, st.Incident.Incident
	if found.Revision != 2 || !found.Alarmed() || i.Revision != 2 || i.Good != 1 || i.Actor != rollout.Judge ||
		i.Verdict.Judgement != round.Worse || i.Verdict.Ratio < 1.05 || !i.Until.IsZero() ||
		!strings.Contains(st.Watching, "revision 2: "+i.Verdict.Reason) {
		t.Errorf("%+v with %+v: %s\n%s", found, i, st.Watching, c.summary())
	}
	if back := c.service.WayBack(found); back != nil {
		t.Errorf("the way back from revision 2 is %+v", back)
	}
	at := i.At.Sub(origin)
	c.until(10*time.Hour, nil)
	if r := c.revisions(); len(r) != 2 || r[1].State != rollout.RolledOut || c.running != 2 ||
		!r[1].Incident.At.Equal(i.At) {
		t.Errorf("%s", c.summary())
	}
	for n := 5; n < 10; n++ {
		if in, decided := rounds[n]; !decided || len(in.Refused) > 0 {
			t.Errorf("round %d: decided %v, refused %v", n, decided, in.Refused)
		}
	}
	last := c.looks[len(c.looks)-1]
	if later := last.At.Sub(origin); later < at+time.Hour || !strings.Contains(c.status().Watching, "within 3 h") {
		t.Errorf("the last look is at %v, the alarm at %v: %s", later, at, c.status().Watching)
	}
	for k, l := range c.looks[len(looks):] {
		if k > 0 && l.At.Sub(c.looks[len(looks)+k-1].At) < 5*time.Minute {
			t.Errorf("looks at %v and %v", c.looks[len(looks)+k-1].At, l.At)
		}
	}
}

// TestSameRaisesNoAlarm: nor does a configuration under which everything happens as before.
func TestSameRaisesNoAlarm(t *testing.T) {
	same := with(t, "queue_thresholds=3250,7300")
	c := simulate(t, controller.Auto, adopting(same, 4, nil))
	c.until(8*time.Hour, nil)
	if n := len(c.revisions()); n != 2 || c.incident() || !strings.Contains(c.status().Watching, "No loss within 3 h") {
		t.Errorf("%s\n%s", c.status().Watching, c.summary())
	}
}

// TestJudgeAcrossRestarts: a service that restarts all the time, or could not write what it
// found, raises the same alarm at the same time.
func TestJudgeAcrossRestarts(t *testing.T) {
	one := with(t, "queues=1", "queue_thresholds=")
	steady := simulate(t, controller.Auto, adopting(one, 4, nil))
	steady.until(6*time.Hour, nil)
	c := simulate(t, controller.Auto, adopting(one, 4, nil))
	for at := 3 * time.Hour; at <= 6*time.Hour; at += 7 * time.Minute {
		c.until(min(at, 6*time.Hour), nil)
		c.restart()
	}
	c.until(6*time.Hour, nil)
	if steady.summary() != c.summary() || !c.incident() {
		t.Errorf("%s\nwith restarts\n%s", steady.summary(), c.summary())
	}

	for _, restarts := range []bool{true, false} {
		c := simulate(t, controller.Auto, adopting(one, 4, nil))
		var lost atomic.Bool
		c.wrap = func(s controller.Store) controller.Store {
			return &storetest.Faulty{Store: s, OnCommit: func(change controller.Change) error {
				if slices.ContainsFunc(change.Configurations, (*rollout.Configuration).Alarmed) && !lost.Swap(true) {
					return errors.New("lost")
				}
				return nil
			}}
		}
		c.restart()
		c.until(6*time.Hour, lost.Load)
		if c.incident() || len(c.revisions()) != 2 {
			t.Fatalf("shown before it is durable:\n%s", c.summary())
		}
		if restarts {
			c.restart()
		}
		for deadline := time.Now().Add(2 * time.Minute); !c.incident() && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond) // it is written again, without a new event
		}
		if c.until(8*time.Hour, nil); !c.incident() || len(c.revisions()) != 2 {
			t.Errorf("not found again: %s\n%s", c.status().Watching, c.summary())
		}
	}
}

// TestAlarmOfProposal: in mode RECOMMEND what an operator approved is looked at; nothing more is proposed.
func TestAlarmOfProposal(t *testing.T) {
	one := with(t, "queues=1", "queue_thresholds=")
	c := simulate(t, controller.Recommend, adopting(one, 4, nil))
	c.until(6*time.Hour, func() bool { return len(c.revisions()) > 1 })
	c.until(c.at+20*time.Minute, nil)
	if st := c.status(); st.Watching != "" {
		t.Errorf("a proposal is watched: %s", st.Watching)
	}
	approve := rollout.Approve{Revision: 2}
	if _, err := c.service.Approve(context.Background(), controller.Call{}, simulatedID, approve, nil); err != nil {
		t.Fatal(err)
	}
	c.until(7*time.Hour, c.incident)
	c.until(c.at+time.Hour, nil)
	if r := c.revisions(); len(r) != 2 || !r[1].Alarmed() || r[1].State != rollout.RolledOut ||
		c.current(simulatedID).Revision != 2 {
		t.Fatalf("%s", c.summary())
	}
}

// TestFirstLookAfterRestart: a look that was due when the service stopped reaches the hook after a restart, however
// long after the construction the service runs.
func TestFirstLookAfterRestart(t *testing.T) {
	c := simulate(t, controller.Auto, adopting(with(t, "queues=1", "queue_thresholds="), 4, nil))
	c.until(6*time.Hour, func() bool { return c.seen() > 0 })
	c.service.StopRounds()
	c.until(c.at+25*time.Minute, nil)
	before := c.seen()
	c.service.Close()
	var err error
	if c.service, err = controller.NewService(controller.Options{Store: c.repo, Decide: c.decide,
		Workers: 1}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond) // in which the other parts are made
	run(c.service, c.hooks())
	for deadline := time.Now().Add(patience); c.seen() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no look after the restart: %s", c.status().Watching)
		}
	}
}

// TestNotWatched: the status says why there are no looks, and that one failed.
func TestNotWatched(t *testing.T) {
	one := with(t, "queues=1", "queue_thresholds=")
	c := simulate(t, controller.Auto, adopting(one, 4, nil))
	_, err := c.service.Modify(context.Background(), controller.Call{}, simulatedID,
		func(s *controller.Scheduler) error {
			s.Policy.Horizon = 20 * time.Minute
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	c.until(4*time.Hour+10*time.Minute, nil)
	if got := c.status().Watching; !strings.Contains(got, "revision 2: Not watched: a horizon of 20 min is too short") {
		t.Error(got)
	}

	h := start(t, adopt(func(round.Input) int { return 7 }))
	h.register("s", controller.Auto) // of a type that no simulation knows
	h.submit("s", time.Hour)
	h.submit("s", time.Hour+time.Second)
	h.rounds("s", 1)
	h.ack("s", 2, rollout.AckApplied)
	h.submit("s", time.Hour+6*time.Minute)
	for deadline := time.Now().Add(patience); !h.service.Idle("s") && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if _, st, _ := h.service.Scheduler("s"); !strings.HasPrefix(st.Watching, "the last look failed: ") {
		t.Errorf("%q", st.Watching)
	}
}

// TestOperatorEndsTrial: there is no look while tuning is paused, nor at an operator's choice.
func TestOperatorEndsTrial(t *testing.T) {
	one := with(t, "queues=1", "queue_thresholds=")
	c := simulate(t, controller.Auto, adopting(one, 4, nil))
	pause := func(paused bool) {
		t.Helper()
		_, err := c.service.Modify(context.Background(), controller.Call{}, simulatedID,
			func(s *controller.Scheduler) error {
				s.Paused = paused
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	c.until(4*time.Hour+10*time.Minute, nil)
	pause(true)
	c.until(5*time.Hour, nil)
	if c.incident() || c.running != 2 {
		t.Fatalf("paused:\n%s", c.summary())
	}
	pause(false)
	c.until(6*time.Hour, c.incident)
	c.until(c.at+5*time.Minute, nil)
	if !c.incident() || c.running != 2 {
		t.Fatalf("resumed:\n%s", c.summary())
	}
	for _, to := range []int64{1, 2} {
		if _, err := c.service.Rollback(context.Background(), controller.Call{}, simulatedID,
			rollout.Rollback{To: to}); err != nil {
			t.Fatal(err)
		}
		before := len(c.looks)
		c.until(c.at+3*time.Hour, nil)
		if r := c.revisions(); len(r) != int(to)+2 || c.running != to+2 ||
			r[c.running-1].Origin != rollout.FromRestore || c.status().Watching != "" || len(c.looks) != before {
			t.Errorf("%s: %s", c.status().Watching, c.summary())
		}
	}
}
