package durations

import (
	"context"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/workload/trace"
)

// philly is the real trace between two dates, "" for all of it.
func philly(t testing.TB, from, to string) ([]Record, time.Time) {
	t.Helper()
	w, _, err := trace.Open(t.Context(), testshared.Path(t, "traces", "philly", "jobs.csv.gz"), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if from != "" {
		var span [2]time.Duration
		for i, s := range []string{from, to} {
			if span[i], err = trace.ParseInstant(w, s); err != nil {
				t.Fatal(err)
			}
		}
		w = w.Window(span[0], span[1])
	}
	return Unqueued(w.Jobs()), w.Zero()
}

// TestPaperWindow holds the predictor to the project's targets on the paper's two
// weeks of Philly, and to being better than the methods beside it.
func TestPaperWindow(t *testing.T) {
	if testing.Short() {
		t.Skip("learns from 9,000 jobs")
	}
	history, zero := philly(t, "2017-09-22", "2017-10-06")
	got, err := Evaluate(context.Background(), history, zero,
		EvaluateOptions{Seed: 1}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if got.TrainJobs != 9159 || got.TestJobs != 3926 {
		t.Errorf("%d jobs to learn from and %d to ask about", got.TrainJobs, got.TestJobs)
	}
	target := map[string]float64{"arrival": .73, "uniform": .82, "hourly-4h": .70}
	for _, q := range got.Queries {
		t.Logf("%-9s n %d accuracy %.3f log-loss %.3f ECE %.3f majority %.3f elapsed %.3f KS %.3f history's %.3f",
			q.Kind, q.N, q.Accuracy, q.LogLoss, q.ECE, q.Majority, q.Elapsed, q.KS, q.KSHistory)
		if q.Accuracy < target[q.Kind] {
			t.Errorf("%s: accuracy %.3f, target %.3f", q.Kind, q.Accuracy, target[q.Kind])
		}
		if q.Accuracy <= max(q.Majority, q.Elapsed) {
			t.Errorf("%s: accuracy %.3f; majority %.3f, elapsed %.3f", q.Kind, q.Accuracy, q.Majority, q.Elapsed)
		}
		// Durations drawn by class come closer to the truth than those of history
		// alone; where nearly every class is decided, there is little to tell.
		if q.Kind != "hourly" && (q.KS > .25 || q.KS > q.KSHistory) {
			t.Errorf("%s: drawn durations are %.3f from the true ones, history's %.3f", q.Kind, q.KS, q.KSHistory)
		}
	}
	t.Logf("learnt in %.1f s, %.4f s per 1000", got.Methods[0].TrainS, got.Methods[0].Per1000)
}

// TestEvaluate checks without real data.
func TestEvaluate(t *testing.T) {
	history, m := example(t)
	ctx := context.Background()
	got, err := Evaluate(ctx, history, zero, EvaluateOptions{Seed: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Queries) != len(Kinds) || len(got.Methods) != 3 || got.TrainJobs+got.TestJobs != len(history) {
		t.Fatalf("%+v", got)
	}
	all, undecided := got.Queries[3], got.Queries[2]
	if all.Undecided.Score != undecided.Score {
		t.Errorf("undecided hourly questions are %+v, and those below 4 h %+v", all.Undecided.Score, undecided.Score)
	}
	asked, err := Evaluate(ctx, history, zero, EvaluateOptions{Seed: 1, Model: m}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := asked.Queries[0]; s.Accuracy < .9 || s.N != m.Held.Jobs || asked.TestJobs != m.Held.Jobs {
		t.Errorf("a model is asked about other jobs than it was not taught: %+v, held back %+v", s, m.Held)
	}
	if want := m.Scores["arrival"]; asked.Queries[0].Score != want {
		t.Errorf("a model scores %+v, and scored %+v when it was learnt", asked.Queries[0].Score, want)
	}
	if _, err := Evaluate(ctx, history, zero, EvaluateOptions{TrainShare: 1}, nil); err == nil {
		t.Error("evaluated without a job to ask about")
	}
	if _, err := Evaluate(ctx, history[:1], zero, EvaluateOptions{}, nil); err == nil {
		t.Error("evaluated on one job")
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Evaluate(stopped, history, zero, EvaluateOptions{}, nil); err == nil {
		t.Error("evaluated after it was stopped")
	}
}
