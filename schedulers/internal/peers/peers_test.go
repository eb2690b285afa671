package peers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/schedulers/internal/tryout"
	"github.com/autosched/autosched/schedulers/tiresias"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// play runs jobs on one node.
func play(t *testing.T, p simulator.Policy, gpus int, o simulator.Options, jobs []workload.Job) []simulator.Outcome {
	t.Helper()
	w, err := workload.New("small", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	var sim simulator.Sim
	if err := sim.Start(workload.Uniform(1, gpus), w, p, o); err != nil {
		t.Fatal(err)
	}
	if err := sim.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return sim.Outcomes(nil)
}

// On Lucid's clock, where a restart of 40 s is work, b begins 5 s after a on the
// same two GPUs.
func TestLucid(t *testing.T) {
	models := simulator.DefaultModels()
	models.Restart = func(int, int64) time.Duration { return 40 * time.Second }
	o := simulator.Options{Models: models,
		Peer: simulator.Peer{Clock: time.Second, RestartAsWork: true, QuotaOnly: true}, Round: time.Minute}
	jobs := []workload.Job{tryout.Job("a", 0, 100, 2), tryout.Job("b", 5, 10, 2)}
	// A job that attained more than 150 GPU-seconds by a minute goes last.
	out := play(t, LucidTiresias(150*time.Second), 2, o, jobs)
	tryout.Near(t, "begin of b", out[1].Start, 120)
	out = play(t, LucidTiresias(119*time.Second), 2, o, jobs)
	tryout.Near(t, "begin of b", out[1].Start, 60)
	tryout.Near(t, "end of a", out[0].End, 120+40+40+1)
	tryout.Near(t, "end of b", out[1].End, 71)
	// b holds the GPUs for 11 s, and a has 95 + 40 left and a second to be found.
	o.Round = time.Second
	out = play(t, LucidSRTF(), 2, o, jobs)
	tryout.Near(t, "begin of b", out[1].Start, 5)
	tryout.Near(t, "end of b", out[1].End, 16)
	tryout.Near(t, "end of a", out[0].End, 16+135+1)
}

// Each example has the result of package tiresias beside.
func TestTiresias(t *testing.T) {
	tests := []struct {
		name   string
		gpus   int
		factor float64
		jobs   [][3]float64 // submit, duration, GPUs
		want   string
		plain  string
	}{
		// At 30 s it foresees the threshold of 100 GPU-s in (100-30)/2 s.
		{"late demotion", 2, 0, [][3]float64{{0, 1000, 2}, {30, 10, 2}}, "0-1010 65-75", "0-1010 50-60"},
		// The first job sinks at 100 s. Having run for 100 s it is promoted 200 s
		// later, ahead of the last arrival.
		{"starving", 1, 2, [][3]float64{{0, 150, 1}, {50, 90, 1}, {60, 90, 1}, {60, 90, 1}, {60, 90, 1}, {350, 90, 1}},
			"0-510 100-190 190-280 280-370 370-460 510-600", "0-600 100-190 190-280 280-370 370-460 460-550"},
		// Stopped at 100 s by the third, the second job is the first to go on at
		// 120 s: it entered the second queue at 51 s, the first job at 100 s.
		{"order of entry", 3, 0, [][3]float64{{0, 300, 1}, {1, 300, 2}, {90, 20, 3}, {110, 50, 1}},
			"0-370 1-321 100-120 120-170", "0-320 1-371 100-120 120-170"},
	}
	s, err := space.New(tiresias.Space(), tiresias.Rules())
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Parse(s.Default(), []string{"queues=2", "queue_thresholds=100", "order=running_first"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		var jobs []workload.Job
		for i, x := range tt.jobs {
			jobs = append(jobs, tryout.Job(string(rune('a'+i)), x[0], x[1], int(x[2])))
		}
		for _, p := range []struct {
			name   string
			policy simulator.Policy
			want   string
		}{{"peer", Tiresias(c, tt.factor), tt.want}, {"plain", tiresias.New(c), tt.plain}} {
			var got []string
			for _, x := range play(t, p.policy, tt.gpus, simulator.Options{Peer: simulator.Peer{NoRestartCost: true}},
				jobs) {
				got = append(got, fmt.Sprintf("%g-%g", x.Start.Seconds(), x.End.Seconds()))
			}
			if got := strings.Join(got, " "); got != p.want {
				t.Errorf("%s, %s: %s, want %s", tt.name, p.name, got, p.want)
			}
		}
	}
}

func TestGittinsTable(t *testing.T) {
	var x gittinsTable
	x.make([]time.Duration{5000 * time.Second, 100 * time.Second, 200 * time.Second})
	// Below 100 s: two of three end within the quantum, 66.667 %, in
	// (100 + 200 + 3250) / 3 = 1183 whole seconds; above 100 s one of two in
	// (200 + 3250) / 2. The last is never among the ended ones.
	for s, want := range map[float64]float64{0: 563.5418, 99.5: 563.5418, 100: 289.8551, 250: 0, 4999: 0, 6000: 0} {
		if got := x.of(tryout.Seconds(s)); got != want {
			t.Errorf("after %v s: %v, want %v", s, got, want)
		}
	}
}
