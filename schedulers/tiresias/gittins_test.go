package tiresias

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

func configure(t *testing.T, set ...string) space.Config {
	t.Helper()
	s, err := space.New(Space(), Rules())
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Parse(s.Default(), set)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask is a job's submission and duration in seconds, and its GPUs.
type ask struct {
	submit, duration float64
	gpus             int
}

// play runs jobs on one node and returns, for each that is not of the first
// skip ones, when it was first started and when it ended, in seconds.
func play(t *testing.T, p simulator.Policy, gpus int, past []time.Duration, jobs []ask, skip int) string {
	t.Helper()
	var list []workload.Job
	for i, a := range jobs {
		list = append(list, workload.Job{ID: fmt.Sprintf("%03d", i), Submit: seconds(a.submit),
			Duration: seconds(a.duration), GPUs: workload.GPUs(a.gpus)})
	}
	w, err := workload.New("play", time.Time{}, list)
	if err != nil {
		t.Fatal(err)
	}
	var ended []simulator.EndedJob
	for _, d := range past {
		ended = append(ended, simulator.EndedJob{GPUs: 1, RunTime: d})
	}
	var sim simulator.Sim
	o := simulator.Options{Peer: simulator.Peer{NoRestartCost: true}, Past: simulator.NewPast(ended)}
	if err := sim.Start(workload.Uniform(1, gpus), w, p, o); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range sim.Outcomes(nil)[skip:] {
		out = append(out, fmt.Sprintf("%g-%g", o.Start.Seconds(), o.End.Seconds()))
	}
	return strings.Join(out, " ")
}

// repeat is n services of s seconds.
func repeat(n int, s float64) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = seconds(s)
	}
	return out
}

func TestIndex(t *testing.T) {
	var x index
	x.learn(append(repeat(10, 100_000), repeat(10, 1000)...))
	// Of 20 at the start 10 end within the quantum, in 10 x 1000 s, and 10 do
	// not; no job past 1,000 s ends within a quantum.
	if got, want := x.value(0), 10/(10*1000+10*3250.); got != want {
		t.Errorf("index of a new job: %v, want %v", got, want)
	}
	// 99,000 s on, all ten end within 1,000 s.
	if got, want := x.value(99_000*time.Second), 1/1000.; got != want {
		t.Errorf("index after 99,000 s: %v, want %v", got, want)
	}
	for _, tt := range []struct {
		at    time.Duration
		key   int32
		until time.Duration
	}{
		{0, 0, 1000 * time.Second},
		{1000*time.Second - 1, 0, 1000 * time.Second},
		{1000 * time.Second, 1, math.MaxInt64}, // the step at 100,000 s is not better
		{time.Hour * 1000, 1, math.MaxInt64},
	} {
		if key, until := x.at(tt.at); key != tt.key || until != tt.until {
			t.Errorf("at %v: key %d until %v, want %d until %v", tt.at, key, until, tt.key, tt.until)
		}
	}
	x.learn(nil)
	if key, until := x.at(time.Hour); key != 0 || until != math.MaxInt64 {
		t.Errorf("without a sample: key %d until %v", key, until)
	}
}

func TestGittins(t *testing.T) {
	two := []ask{{0, 3000, 1}, {500, 600, 1}}
	short := append(repeat(12, 1000), repeat(8, 100_000)...)
	tests := []struct {
		name string
		past []time.Duration
		set  string
		want string
	}{
		{"past 1000 s it is a long job", short, "order=submit", "0-3600 1000-1600"},
		{"but nobody is stopped for his like", short, "order=running_first", "0-3000 3000-3600"},
		{"nothing is known", nil, "order=submit", "0-3000 3000-3600"},
		{"too little is known", short[5:], "order=submit", "0-3000 3000-3600"},
	}
	for _, tt := range tests {
		p := New(configure(t, "priority=gittins", "queues=1", tt.set))
		if got := play(t, p, 1, tt.past, two, 0); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestGittinsLearns: the ends of the run count like the given ones.
func TestGittinsLearns(t *testing.T) {
	p := New(configure(t, "priority=gittins", "queues=1", "order=submit"))
	for n, want := range map[int]string{
		firstSample:     "2000-5060 2062.5-2122.5", // 1,000 GPU-s are 62.5 s of 16 GPUs
		firstSample - 1: "2000-5000 5000-5060",
	} {
		var jobs []ask
		for range n {
			jobs = append(jobs, ask{0, 1000, 1})
		}
		jobs = append(jobs, ask{2000, 3000, 16}, ask{2010, 60, 16})
		if got := play(t, p, 16, nil, jobs, n); got != want {
			t.Errorf("after %d jobs: %s, want %s", n, got, want)
		}
	}
}

// TestSteadyState: a policy that has served once needs no more memory.
func TestSteadyState(t *testing.T) {
	var list []workload.Job
	for i := range 300 {
		list = append(list, workload.Job{ID: fmt.Sprint(i), Submit: time.Duration(i) * time.Minute,
			Duration: time.Duration(1+i*i%97) * 10 * time.Minute, GPUs: workload.GPUs(1 + i%8)})
	}
	w, err := workload.New("steady", time.Time{}, list)
	if err != nil {
		t.Fatal(err)
	}
	c := workload.Uniform(4, 8)
	for _, priority := range []string{"service", "time", "gittins"} {
		p := New(configure(t, "priority="+priority, "order=submit"))
		var sim simulator.Sim
		run := func() {
			if err := sim.Start(c, w, p, simulator.Options{}); err != nil {
				t.Fatal(err)
			}
			if err := sim.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if n := testing.AllocsPerRun(5, run); n > 0 {
			t.Errorf("%s: %v allocations per run", priority, n)
		}
	}
}
