package round

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/simulator/live"
	"github.com/autosched/autosched/workload"
)

// behind is a cluster of a node, whose GPUs a job of 12 h holds when a change to one
// queue, which stops no job, takes effect at 4 h. A job of 5 min comes every 6 min:
// 10 of them wait at 5 h. Such jobs came and went before.
func behind(t *testing.T, at time.Duration) JudgeInput {
	t.Helper()
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	one, err := s.Space.Parse(s.Space.Default(), []string{"queues=1", "queue_thresholds="})
	if err != nil {
		t.Fatal(err)
	}
	change := 4 * time.Hour
	jobs := []workload.Job{{ID: "long", GPUs: workload.GPUs(8), Submit: 3*time.Hour + time.Minute,
		Duration: 12 * time.Hour}}
	for i := range 70 {
		submit := time.Duration(1+6*i) * time.Minute
		if i >= 30 {
			submit += time.Hour
		}
		jobs = append(jobs, workload.Job{ID: fmt.Sprintf("short%02d", i), GPUs: workload.GPUs(8), Submit: submit,
			Duration: 5 * time.Minute})
	}
	w, err := workload.New("behind", time.Unix(0, 0), jobs)
	if err != nil {
		t.Fatal(err)
	}
	cluster := workload.Uniform(1, 8)
	ledger := workload.NewLedger(cluster)
	l := live.Cluster{Send: func(e workload.Event) { ledger.Apply(e) }}
	o := simulator.Options{Observer: l.Observe}
	if err := l.Sim.Start(cluster, w, s.New(s.Space.Default()), o); err != nil {
		t.Fatal(err)
	}
	if err := l.Sim.RunUntil(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	l.Sim.Reconfigure(s.New(one))
	if err := l.Sim.RunUntil(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	p := &Prediction{At: change, Applied: one, LastGood: s.Space.Default(), Ratio: 1.1, Step: time.Hour}
	for range 4 {
		p.Futures = append(p.Futures, []Mark{{},
			{Arrived: 10, Demand: 120e3, JobTime: 6e3, InsteadJobTime: 6e3},
			{Arrived: 20, Demand: 240e3, JobTime: 12e3, InsteadJobTime: 12e3}})
	}
	return JudgeInput{Snapshot: Snapshot{State: ledger.State(at), Ledger: ledger, Zero: w.Zero()}, Scheduler: s.Name,
		Goal: Minimise("avg_jct"), Prediction: p, Seed: 1}
}

// add delays jobs in one future by seconds within an hour.
func (p *Prediction) add(seconds float64) { p.Futures[2][1].Delay += seconds }

func TestJudge(t *testing.T) {
	hour := 5 * time.Hour
	for _, x := range []struct {
		name    string
		at      time.Duration
		change  func(*JudgeInput)
		want    Judgement
		suspect bool
	}{
		{"a change of ten minutes", 4*time.Hour + 10*time.Minute, nil, Early, false},
		{"jobs wait that would not have", hour, nil, Worse, true},
		{"as much was promised", hour, func(in *JudgeInput) {
			for _, f := range in.Prediction.Futures {
				f[1].Delay += 20e3
			}
		}, Keep, false},
		{"one future was as bad", hour, func(in *JudgeInput) { in.Prediction.add(40e3) }, Keep, false},
		{"beyond all futures", hour, func(in *JudgeInput) { in.Prediction.add(12e3) }, Worse, true},
		{"the first job waits", 4*time.Hour + 17*time.Minute, nil, Worse, true},
		{"the looks before did not find it", hour, func(in *JudgeInput) { in.Against = enoughLooks - 2 }, Keep, true},
		{"what the goal counts is not worse", hour, func(in *JudgeInput) { in.Goal = Minimise("p99_jct") }, Keep, true},
		{"no gain was promised", hour, func(in *JudgeInput) {
			in.Prediction.Ratio = .9
			for _, f := range in.Prediction.Futures {
				f[1].Delay += 20e3
			}
		}, Worse, true},
		{"the last good one is worse", hour, func(in *JudgeInput) {
			p := in.Prediction
			p.Applied, p.LastGood = p.LastGood, p.Applied
		}, Keep, false},
		{"the last good one is the same", hour, func(in *JudgeInput) { in.Prediction.LastGood = in.Prediction.Applied },
			Keep, false},
		{"no job was expected", hour, func(in *JudgeInput) {
			for _, f := range in.Prediction.Futures {
				f[1].Arrived, f[1].Demand = 0, 0
			}
		}, Worse, true},
		{"no job was expected, and the last good one is the same", hour, func(in *JudgeInput) {
			in.Prediction.LastGood = in.Prediction.Applied
			for _, f := range in.Prediction.Futures {
				f[1].Arrived, f[1].Demand = 0, 0
			}
		}, DemandLeft, false},
		{"shorter jobs were expected, and the last good one is worse", hour, func(in *JudgeInput) {
			p := in.Prediction
			p.Applied, p.LastGood = p.LastGood, p.Applied
			for _, f := range p.Futures {
				f[1].Demand = 1e3
			}
		}, DemandLeft, false},
		{"after the last future", 7 * time.Hour, nil, Keep, false},
		{"no future", hour, func(in *JudgeInput) { in.Prediction.Futures = nil }, Keep, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			in := behind(t, x.at)
			in.Against = enoughLooks - 1
			if x.change != nil {
				x.change(&in)
			}
			v, err := Judge(t.Context(), &in)
			if err != nil {
				t.Fatal(err)
			}
			if v.Judgement != x.want || v.Suspect != x.suspect || v.Reason == "" {
				t.Errorf("%+v, want %s, suspect %v", v, x.want, x.suspect)
			}
			again, err := Judge(t.Context(), &in)
			if err != nil || again != v {
				t.Errorf("%+v, then %+v, %v", v, again, err)
			}
		})
	}
}

// TestPredictionReadsBack: the JSON form loses nothing.
func TestPredictionReadsBack(t *testing.T) {
	in := behind(t, 4*time.Hour+time.Minute)
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Predict(t.Context(), Input{Snapshot: in.Snapshot, Settings: DefaultSettings(), Scheduler: "tiresias",
		Space: s.Space, Goal: in.Goal}, in.Prediction.Applied, in.Prediction.LastGood)
	if err != nil {
		t.Fatal(err)
	}
	if p.Until() != DefaultSettings().Horizon || len(p.Futures) != predicted || len(p.Promised) != predicted ||
		p.Ratio > 1 {
		t.Errorf("%d futures until %v, %d objectives, ratio %v of one queue", len(p.Futures), p.Until(),
			len(p.Promised), p.Ratio)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadPrediction(text, s.Space)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Applied.Equal(p.Applied) || !got.LastGood.Equal(p.LastGood) {
		t.Errorf("read %v and %v, want %v and %v", got.Applied, got.LastGood, p.Applied, p.LastGood)
	}
	if diff := cmp.Diff(p.Futures, got.Futures); diff != "" {
		t.Error(diff)
	}
	if _, err := ReadPrediction([]byte(`{"applied":{"queues":99}}`), s.Space); err == nil {
		t.Error("a configuration outside the space is read")
	}
}

// TestNextLook: looks get rarer, and never rarer than rounds, unless there is a suspicion.
func TestNextLook(t *testing.T) {
	looks, last := 0, time.Duration(0)
	for age := time.Duration(0); age < 24*time.Hour; looks++ {
		next := NextLook(age, false)
		if wait := next - age; wait < BurstInterval || wait > DefaultInterval || wait < last {
			t.Fatalf("a look at %v after %v", next, age)
		}
		if soon := NextLook(age, true); soon != age+BurstInterval {
			t.Fatalf("a look at %v after a suspicion at %v", soon, age)
		}
		last, age = next-age, next
	}
	if looks > 50 {
		t.Errorf("%d looks in a day", looks)
	}
}
