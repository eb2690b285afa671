package simulator

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/workload"
)

// awakeHours is a NodeMeter of the hours that nodes are awake.
type awakeHours struct{ counter }

func (awakeHours) Awake(_ int, from, to, woken time.Duration) Draw {
	return Draw{Energy: (to - from).Hours(), Cost: max(0, min(woken, to)-from).Hours()}
}

func (awakeHours) Draw(Spell) Draw { return Draw{} }

// sleepy runs jobs of two GPUs on two nodes of two GPUs; a node sleeps after half an hour.
func sleepy(t *testing.T, o Options, jobs ...workload.Job) *Sim {
	t.Helper()
	for i := range jobs {
		jobs[i].ID, jobs[i].Status = string(rune('a'+i)), workload.Completed
		if jobs[i].GPUs == 0 {
			jobs[i].GPUs = workload.GPUs(2)
		}
	}
	w, err := workload.New("sleep", time.Time{}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	o.Wake, o.Meter = 10*time.Minute, awakeHours{}
	var s Sim
	if err := s.Start(workload.Uniform(2, 2), w, &Sleeper{&inOrder{}, 30 * time.Minute}, o); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return &s
}

// TestSleep: a job that finds all empty nodes asleep waits for one to wake, one that finds an empty node awake
// does not.
func TestSleep(t *testing.T) {
	const m = time.Minute
	s := sleepy(t, Options{}, workload.Job{Duration: 60 * m}, workload.Job{Submit: 180 * m, Duration: 60 * m},
		workload.Job{Submit: 230 * m, Duration: 5 * m}, workload.Job{Submit: 260 * m, Duration: 30 * m})
	if got, want := s.Naps(), []Nap{{0, 90 * m, 180 * m, 190 * m}, {1, 30 * m, 230 * m, 240 * m},
		{0, 320 * m, Forever, Forever}, {1, 275 * m, Forever, Forever}}; !slices.Equal(got, want) {
		t.Errorf("naps %v, want %v", got, want)
	}
	for i, want := range []time.Duration{60 * m, 250 * m, 245 * m, 290 * m} {
		if o := s.outcome(ID(i)); o.End != want || o.Wait != 0 {
			t.Errorf("job %d ends at %v after waiting %v, want %v", i, o.End, o.Wait, want)
		}
	}
	x := s.Sleep()
	x.NodeHours = math.Round(x.NodeHours*60) / 60
	if want := (Sleep{Wakes: 2, NodeHours: (90 + 200 + 15) / 60., Delayed: 2, Delay: 1200, MeanDelay: 600,
		MaxDelay: 600}); *x != want {
		t.Errorf("%+v, want %+v", *x, want)
	}
	// Awake until they sleep: node 0 for 90 and 140 minutes, node 1 for 30 and 45.
	if d := s.Drawn(); math.Round(d.Energy*60) != 90+140+30+45 || math.Round(d.Cost*60) != 20 {
		t.Errorf("%v minutes awake, %v waking", d.Energy*60, d.Cost*60)
	}
}

// TestSleepPrefersAwakeNodes: of two empty nodes, the one that still is awake comes first, and a job that joins
// one on a node that wakes waits for the rest.
func TestSleepPrefersAwakeNodes(t *testing.T) {
	const m = time.Minute
	s := sleepy(t, Options{}, workload.Job{Duration: 10 * m}, workload.Job{Duration: 120 * m},
		workload.Job{Submit: 125 * m, Duration: 60 * m}, workload.Job{Submit: 150 * m, Duration: m, GPUs: 1000},
		workload.Job{Submit: 154 * m, Duration: m, GPUs: 1000})
	for i, want := range map[ID]time.Duration{2: 185 * m, 3: 161 * m, 4: 161 * m} {
		if o := s.outcome(i); o.End != want {
			t.Errorf("job %d ends at %v, want %v", i, o.End, want)
		}
	}
	if x := s.Sleep(); x.Wakes != 1 || x.Delayed != 2 || x.Delay != (16*m).Seconds() {
		t.Errorf("%+v", x)
	}
}

// TestSleepAndOutages: a node that is down does not sleep, and is awake when it comes up.
func TestSleepAndOutages(t *testing.T) {
	const m = time.Minute
	s := sleepy(t, Options{Nodes: []workload.NodeEvent{{At: 40 * m, Node: 0, Kind: workload.NodeDown},
		{At: 60 * m, Node: 1, Kind: workload.NodeDown}, {At: 100 * m, Node: 0, Kind: workload.NodeUp},
		{At: 100 * m, Node: 1, Kind: workload.NodeUp}}}, workload.Job{Duration: 50 * m},
		workload.Job{Submit: 140 * m, Duration: m})
	if got, want := s.Naps()[:1], []Nap{{1, 30 * m, 40 * m, 50 * m}}; !slices.Equal(got, want) {
		t.Errorf("naps %v, want %v", s.Naps(), want)
	}
	for _, n := range s.Naps() {
		if n.Awake == n.To && n.To != Forever {
			t.Errorf("a nap ends as the node goes down: %v", n)
		}
	}
}

// TestSleepSurvivesForks: a fork has its own naps, and another delay holds from then on.
func TestSleepSurvivesForks(t *testing.T) {
	const m = time.Minute
	w, err := workload.New("sleep", time.Time{}, []workload.Job{
		{ID: "a", Duration: 10 * m, GPUs: 1000, Status: workload.Completed},
		{ID: "b", Submit: 90 * m, Duration: 10 * m, GPUs: 1000, Status: workload.Completed}})
	if err != nil {
		t.Fatal(err)
	}
	var s, fork Sim
	if err := s.Start(workload.Uniform(1, 1), w, &Sleeper{&inOrder{}, 60 * m}, Options{Wake: m}); err != nil {
		t.Fatal(err)
	}
	if err := s.RunUntil(context.Background(), 30*m); err != nil {
		t.Fatal(err)
	}
	s.Fork(&fork, &Sleeper{&inOrder{}, 5 * m})
	for _, c := range []struct {
		s    *Sim
		want Nap
	}{{&s, Nap{0, 70 * m, 90 * m, 91 * m}}, {&fork, Nap{0, 30 * m, 90 * m, 91 * m}}} {
		if err := c.s.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := c.s.Naps(); len(got) != 2 || got[0] != c.want {
			t.Errorf("naps %v, want %v", got, c.want)
		}
	}
	s.Reconfigure(&inOrder{})
	if s.Sleep() != nil {
		t.Error("nodes sleep under a policy that is no Sleeper")
	}
	err = s.Start(workload.Uniform(1, 1), w, &Sleeper{&inOrder{}, m}, Options{Placement: Count})
	if err == nil || !strings.Contains(err.Error(), "sleep: placement by counts") {
		t.Error(err)
	}
}
