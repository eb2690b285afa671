package themis_test

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/themis"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// job is submitted at a minute and runs for minutes on gpus.
type job struct{ submit, minutes, gpus int }

func run(t *testing.T, nodes int, jobs []job, o simulator.Options, set ...string) *simulator.Sim {
	t.Helper()
	s, err := space.New(themis.Space(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Parse(s.Default(), set) // the default term is 20 minutes
	if err != nil {
		t.Fatal(err)
	}
	return play(t, nodes, jobs, o, themis.New(c))
}

func play(t *testing.T, nodes int, jobs []job, o simulator.Options, p simulator.Policy) *simulator.Sim {
	t.Helper()
	var list []workload.Job
	for i, j := range jobs {
		list = append(list, workload.Job{ID: string(rune('a' + i)), Submit: minutes(j.submit),
			Duration: minutes(j.minutes), GPUs: workload.GPUs(j.gpus), Model: "resnet50"})
	}
	w, err := workload.New("small", time.Time{}, list)
	if err != nil {
		t.Fatal(err)
	}
	sim := new(simulator.Sim)
	o.Peer.NoRestartCost = true
	if err := sim.Start(workload.Uniform(nodes, 8), w, p, o); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return sim
}

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

func trueDuration(j *workload.Job) time.Duration { return j.Duration }

// want compares ends, in minutes, and preemptions.
func want(t *testing.T, s *simulator.Sim, rows ...[2]int) {
	t.Helper()
	for i, o := range s.Outcomes(nil) {
		if o.End != minutes(rows[i][0]) || o.Preemptions != rows[i][1] {
			t.Errorf("%s ends at %v after %d preemptions, want %v, %d",
				s.JobName(o.ID), o.End, o.Preemptions, minutes(rows[i][0]), rows[i][1])
		}
	}
}

// Two jobs want all of the cluster. At minute 20 the long one's lease is over:
// its rho is 100/(2x100) = .5, the other's (10+10)/(2x10) = 1, so it is stopped
// and goes on at 30. Without the offer it would have ended first.
func TestLeaseIsTaken(t *testing.T) {
	want(t, run(t, 1, []job{{0, 100, 8}, {10, 10, 8}}, simulator.Options{Estimate: trueDuration}), [2]int{110, 1},
		[2]int{30, 0})
}

// The same 20 minutes earlier: the offer is at instant 0, where the lease ends.
func TestLeaseEndsAtZero(t *testing.T) {
	want(t, run(t, 1, []job{{-20, 100, 8}, {-10, 10, 8}}, simulator.Options{Estimate: trueDuration}), [2]int{90, 1},
		[2]int{10, 0})
}

// A lease in force is not taken, however far behind the other is.
func TestLeaseHolds(t *testing.T) {
	want(t, run(t, 1, []job{{0, 100, 8}, {10, 10, 8}}, simulator.Options{Estimate: trueDuration}, "lease_term=10800"),
		[2]int{100, 0}, [2]int{110, 0})
}

// A job that is started between two offers has its GPUs for a whole term: b
// starts at 5, so that at 20 it is not offered yet, and at 40 it is.
func TestLeaseLastsATerm(t *testing.T) {
	want(t, run(t, 1, []job{{0, 5, 8}, {1, 100, 8}, {6, 10, 8}}, simulator.Options{Estimate: trueDuration}),
		[2]int{5, 0}, [2]int{115, 1}, [2]int{50, 0})
}

// Without estimates a job is as long as it has run, one lease at least: at 20 a has
// run 20 and rho (20+20)/(2x40) = .5, b none and (10+20)/(2x20) = .75. At 40 b
// has run 20: 50/80 against a's 60/80, so they change again. At 60 a has not had
// a term of progress, as its restart is allowed for; at 80 it has run 60:
// 140/240 against b's 90/80, and b ends at 90.
func TestNoEstimates(t *testing.T) {
	want(t, run(t, 1, []job{{0, 100, 8}, {10, 30, 8}}, simulator.Options{}), [2]int{130, 2}, [2]int{90, 1})
}

// Of GPU-time, 20 minutes are 2.5 for a job of eight GPUs.
func TestServiceLease(t *testing.T) {
	s := run(t, 1, []job{{0, 100, 8}, {1, 10, 8}}, simulator.Options{Estimate: trueDuration}, "lease_priority=service")
	if start := s.Outcomes(nil)[1].Start; start != 150*time.Second {
		t.Errorf("the second job starts at %v", start)
	}
}

// At 40 all leases are over and d waits for all GPUs. Its rho on an equal share,
// a quarter of them, is (20+22)/(4x22) = .48; the others have all they may ask
// for, (40+20)/60 = 1, and come first.
func TestWideJobWaits(t *testing.T) {
	want(t, run(t, 1, []job{{0, 60, 2}, {0, 60, 2}, {0, 60, 2}, {20, 22, 8}},
		simulator.Options{Estimate: trueDuration}), [2]int{60, 0}, [2]int{60, 0}, [2]int{60, 0}, [2]int{82, 0})
}

// At 20 nine jobs want eight GPUs, and the one that waits is furthest behind. The
// others choose after it whether they are cut off by the fraction or not, and one
// of them is stopped.
func TestCutOffKeepsWhatIsLeft(t *testing.T) {
	jobs := []job{}
	for range 8 {
		jobs = append(jobs, job{0, 60, 1})
	}
	jobs = append(jobs, job{2, 2, 1})
	for _, f := range []string{"fraction=0", "fraction=.49"} {
		s := run(t, 1, jobs, simulator.Options{Estimate: trueDuration}, f)
		stopped := 0
		for _, o := range s.Outcomes(nil) {
			stopped += o.Preemptions
		}
		if last := s.Outcomes(nil)[8]; last.Start != minutes(20) || stopped != 1 {
			t.Errorf("%s: the last job starts at %v, %d are stopped", f, last.Start, stopped)
		}
	}
}

// Three jobs wait for eight GPUs at 20, in order of rho: b and c
// at (18+2)/2 and (18+4)/(2x4), d at (18+80)/80, and a, which runs, at
// (20+80)/(4x100). All three find room before a is asked, which is stopped.
func TestLargestFirst(t *testing.T) {
	s := run(t, 1, []job{{0, 100, 8}, {2, 2, 2}, {2, 4, 4}, {2, 80, 2}}, simulator.Options{Estimate: trueDuration})
	for i, o := range s.Outcomes(nil)[1:] {
		if o.Start != minutes(20) {
			t.Errorf("%d starts at %v", i, o.Start)
		}
	}
}

// At 20 five jobs are in order of rho a, b and c (1), e, which waits, at
// (18+80)/80/2.5, and d, which runs, at 1/2.5. Without a fraction e takes the
// GPUs of d, which gets them back at 60, when it is at 140/100/2.5. If two jobs
// are cut off, d keeps what is left.
func TestFraction(t *testing.T) {
	jobs := []job{{0, 100, 1}, {0, 100, 1}, {0, 100, 1}, {0, 100, 4}, {2, 80, 4}}
	want(t, run(t, 1, jobs, simulator.Options{Estimate: trueDuration}, "fraction=0"), [2]int{100, 0}, [2]int{100, 0},
		[2]int{100, 0}, [2]int{140, 1}, [2]int{140, 1})
	want(t, run(t, 1, jobs, simulator.Options{Estimate: trueDuration}, "fraction=.49"), [2]int{100, 0}, [2]int{100, 0},
		[2]int{100, 0}, [2]int{100, 0}, [2]int{180, 0})
}

// On two nodes with two GPUs left on each, a job of four starts at once if it
// may be spread. Its model's skew (resnet50) is .112.
func TestConsolidation(t *testing.T) {
	jobs := []job{{0, 10, 6}, {0, 10, 6}, {1, 10, 4}}
	for set, start := range map[string]time.Duration{"consolidation_threshold=0.01": minutes(10),
		"consolidation_threshold=1": minutes(1)} {
		if got := run(t, 2, jobs, simulator.Options{Estimate: trueDuration}, set).Outcomes(nil)[2].Start; got != start {
			t.Errorf("%s: starts at %v, want %v", set, got, start)
		}
	}
}
