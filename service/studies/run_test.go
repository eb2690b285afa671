package studies_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/service/studies"
	"github.com/autosched/autosched/study"
)

// bench is an evaluator that measures by a function.
type bench struct {
	parallel int
	measure  func(ctx context.Context, t *study.Trial, report func(study.Measurement) error) (study.Complete, error)

	mu       sync.Mutex
	now, top int                  // evaluations at a time
	begun    map[string]int       // by study and trial
	studies  map[string]time.Time // when each had its first
}

func (b *bench) Serves(scheduler string) bool { return scheduler == "s" }
func (b *bench) Parallel() int                { return b.parallel }

func (b *bench) Evaluate(ctx context.Context, scheduler string, s *study.State, t *study.Trial,
	report func(study.Measurement) error) (study.Complete, error) {
	b.mu.Lock()
	if b.begun == nil {
		b.begun, b.studies = map[string]int{}, map[string]time.Time{}
	}
	b.begun[fmt.Sprintf("%s/%d", s.ID, t.ID)]++
	if _, ok := b.studies[s.ID]; !ok {
		b.studies[s.ID] = time.Now()
	}
	b.now++
	b.top = max(b.top, b.now)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.now--
		b.mu.Unlock()
	}()
	return b.measure(ctx, t, report)
}

// begins is how often evaluations began, of how many trials.
func (b *bench) begins() (n, trials int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.begun {
		n += k
	}
	return n, len(b.begun)
}

// with begins a house with an evaluator, whose study has a budget.
func with(t *testing.T, b *bench, budget int) *house {
	t.Helper()
	h := newHouse(t, study.Spec{Algorithm: "sobol", Budget: budget, Lease: time.Hour})
	h.close()
	h.evaluators = map[string]studies.Evaluator{"bench": b}
	h.open()
	return h
}

func (h *house) run(id string, parallel int) {
	h.t.Helper()
	call := controller.Call{Origin: audit.Origin{Actor: "ann", Verb: "RunStudy"}}
	r := study.Run{Evaluator: "bench", Workload: "monday", Parallel: parallel}
	if _, err := h.RunStudy(h.t.Context(), call, "s", id, r, anyway); err != nil {
		h.t.Fatal(err)
	}
}

// until waits until a study is as wanted.
func (h *house) until(what string, ok func(s *study.State) bool) study.State {
	h.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s, err := h.Study("s", "first")
		if err != nil {
			h.t.Fatal(err)
		}
		if ok(&s) {
			return s
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s: %s, %v, run %+v, %q", what, s.Phase, s.Count(), s.Run, h.Problem("s", &s))
		}
	}
}

func completed(s *study.State) bool { return s.Phase == study.Completed }

// An evaluator measures the budget of a study, several trials at a time; the audit log says who asked for it.
func TestRun(t *testing.T) {
	t.Parallel()
	b := &bench{parallel: 3, measure: func(_ context.Context, t *study.Trial, report func(study.Measurement) error) (
		study.Complete, error) {
		switch t.ID {
		case 2:
			return study.Complete{Failure: "no node"}, nil
		case 3:
			return study.Complete{Infeasible: "too large"}, nil
		case 4:
			return study.Complete{Final: &study.Measurement{Metrics: map[string]float64{"other": 1}}}, nil
		}
		if err := report(study.Measurement{Step: 1, Metrics: map[string]float64{"wait": 50}}); err != nil {
			return study.Complete{}, err
		}
		time.Sleep(2 * time.Millisecond)
		return study.Complete{Final: waited(float64(t.ID))}, nil
	}}
	h := with(t, b, 20)
	for _, c := range []struct{ evaluator, says string }{
		{"none", `evaluator "none": not found: it is not configured: there are bench`},
		{"", `evaluator "": not found: it is not configured: there are bench`},
	} {
		r := study.Run{Evaluator: c.evaluator, Parallel: 1}
		if _, err := h.RunStudy(t.Context(), controller.Call{}, "s", "first", r, anyway); !errors.Is(err,
			controller.ErrNotFound) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.evaluator, err)
		}
	}
	h.run("first", 2)
	s := h.until("complete", completed)
	n := s.Count()
	if n[study.Succeeded] != 17 || n[study.Failed] != 2 || n[study.Infeasible] != 1 || len(s.Trials) != 20 {
		t.Errorf("%v", n)
	}
	if why := s.Trial(4).Reason; why != `the metric of the study, "wait", is missing` {
		t.Errorf("trial 4: %s", why)
	}
	if one := s.Trial(1); len(one.Measurements) != 1 || one.Client != "evaluator/bench" {
		t.Errorf("trial 1: %+v", one)
	}
	if begins, _ := b.begins(); begins != 20 || b.top != 2 {
		t.Errorf("%d evaluations, up to %d at a time", begins, b.top)
	}
	log := ""
	note := func(_ int64, line []byte, _ error) bool { log += string(line); return true }
	if err := h.store.Audit(0, false, note); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"ann"`, `"RunStudy"`, `studies/first.run`, `bench x 2 monday`} {
		if !strings.Contains(log, want) {
			t.Errorf("the audit log lacks %s: %s", want, log)
		}
	}
}

// A restart goes on with the trials that were being measured: none is lost or made anew.
func TestRunGoesOn(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	b := &bench{parallel: 4, measure: func(ctx context.Context, t *study.Trial, _ func(study.Measurement) error) (
		study.Complete, error) {
		if t.ID > 5 {
			select {
			case <-hold:
			case <-ctx.Done():
				return study.Complete{}, ctx.Err()
			}
		}
		return study.Complete{Final: waited(float64(t.ID))}, nil
	}}
	h := with(t, b, 12)
	h.run("first", 4)
	h.until("half", func(s *study.State) bool { return s.Count()[study.Running] == 4 && s.Ended == 5 })
	h.close()
	h.open()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if begins, trials := b.begins(); begins == 13 && trials == 9 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d evaluations of %d trials", begins, trials)
		}
	}
	close(hold)
	s := h.until("complete", completed)
	if s.Count()[study.Succeeded] != 12 || len(s.Trials) != 12 || b.top > 4 {
		t.Errorf("%v, %d at a time", s.Count(), b.top)
	}
	h.close()
	h.evaluators = nil
	h.open()
	if s, _ := h.Study("s", "first"); h.Problem("s", &s) != "" {
		t.Errorf("a complete study has the problem %q", h.Problem("s", &s))
	}
}

// Pause lets evaluations end, cancel ends them, and a trial that is to stop counts with its last measurement.
func TestRunStops(t *testing.T) {
	t.Parallel()
	cut := make(chan int64, 10)
	b := &bench{parallel: 2, measure: func(ctx context.Context, t *study.Trial, report func(study.Measurement) error) (
		study.Complete, error) {
		if t.ID%2 == 1 {
			if err := report(study.Measurement{Step: 1, Metrics: map[string]float64{"wait": 7}}); err != nil {
				return study.Complete{}, err
			}
		}
		<-ctx.Done()
		cut <- t.ID
		return study.Complete{}, ctx.Err()
	}}
	h := with(t, b, 12)
	h.run("first", 2)
	two := func(s *study.State) bool {
		return s.Count()[study.Running] == 2 && len(s.Trials[0].Measurements) == 1
	}
	h.until("two run", two)
	if _, err := h.Operate(t.Context(), controller.Call{}, "s", "first", study.Pause{}, anyway); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Do(t.Context(), controller.Call{}, "s", "first", 1, study.Stop{Trial: 1}); err != nil {
		t.Fatal(err)
	}
	s := h.until("one is stopped", func(s *study.State) bool { return s.Trials[0].State == study.Succeeded })
	if v := s.Trials[0].Final.Metrics["wait"]; v != 7 || <-cut != 1 || s.Count()[study.Running] != 1 {
		t.Errorf("trial 1 has %v: %v", v, s.Count())
	}
	if _, err := h.Operate(t.Context(), controller.Call{}, "s", "first", study.Cancel{}, anyway); err != nil {
		t.Fatal(err)
	}
	s = h.until("cancelled", func(s *study.State) bool { return !s.Trials[1].State.Open() })
	if one := s.Trials[1]; one.State != study.Failed || !strings.Contains(one.Reason, "before anything was measured") {
		t.Errorf("trial 2 is %s: %s", one.State, one.Reason)
	}
	again := study.Run{Evaluator: "bench", Parallel: 1}
	if _, err := h.RunStudy(t.Context(), controller.Call{}, "s", "first", again, anyway); !errors.Is(err,
		study.ErrState) {
		t.Errorf("a cancelled study runs: %v", err)
	}
}

// An evaluator that is not available costs no trial, and says why; two studies share an evaluator.
func TestRunWaitsForEvaluator(t *testing.T) {
	t.Parallel()
	down, tries := true, 0
	b := &bench{parallel: 1}
	b.measure = func(_ context.Context, t *study.Trial, _ func(study.Measurement) error) (study.Complete, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if tries++; down {
			return study.Complete{}, errors.New("connection refused")
		}
		return study.Complete{Final: waited(float64(t.ID))}, nil
	}
	h := with(t, b, 4)
	if _, err := h.Create(t.Context(), controller.Call{}, "s", study.Record{ID: "second",
		Spec: study.Spec{Algorithm: "sobol", Budget: 4,
			Lease: time.Hour, Metric: "wait"}}); err != nil {
		t.Fatal(err)
	}
	h.run("first", 1)
	h.until("a problem", func(s *study.State) bool {
		return strings.Contains(h.Problem("s", s), "connection refused")
	})
	h.run("second", 1)
	b.mu.Lock()
	down = false
	b.mu.Unlock()
	h.until("both complete", func(s *study.State) bool {
		other, err := h.Study("s", "second")
		return err == nil && completed(s) && completed(&other) && h.Problem("s", s) == ""
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if tries < 9 || b.top != 1 || len(b.studies) != 2 {
		t.Errorf("%d tries, %d at a time, %d studies", tries, b.top, len(b.studies))
	}
}

// A dry run has the answer and the error of the call, and changes nothing.
func TestDryRun(t *testing.T) {
	h := with(t, &bench{parallel: 1}, 4)
	ctx, call := t.Context(), controller.Call{DryRun: true}
	r := study.Run{Evaluator: "bench", Parallel: 1}
	if got, err := h.RunStudy(ctx, call, "s", "first", r, anyway); err != nil || got.Run == nil {
		t.Errorf("run: %+v, %v", got.Run, err)
	}
	if _, err := h.RunStudy(ctx, call, "s", "first", study.Run{Evaluator: "none", Parallel: 1}, anyway); err == nil {
		t.Error("an evaluator that is not there can be run")
	}
	state, err := h.Service.Study("s", "first")
	if err != nil {
		t.Fatal(err)
	}
	_, trial, err := h.Do(ctx, call, "s", "first", 0, study.Create{Config: state.Space.Default(), Final: waited(2)})
	if err != nil || trial.ID != 1 || trial.State != study.Succeeded {
		t.Errorf("create a trial: %+v, %v", trial, err)
	}
	for range 2 {
		if got, err := h.Service.Study("s", "first"); err != nil || got.Run != nil || len(got.Trials) != 0 ||
			got.Version != state.Version {
			t.Errorf("the study has %d trials, %+v runs it, version %d, %v", len(got.Trials), got.Run, got.Version, err)
		}
		h.close()
		h.open()
	}
}

// A measurement of an evaluator before a restart, or before it failed, counts, and its trial goes on when it measures
// from the beginning again.
func TestRunMeasuresAgain(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	var attempts sync.Map
	b := &bench{parallel: 2, measure: func(ctx context.Context, t *study.Trial, report func(study.Measurement) error) (
		study.Complete, error) {
		_, again := attempts.LoadOrStore(t.ID, true)
		steps := 3
		if again {
			steps = 5
		}
		for step := range steps {
			// Measurements differ a little each time.
			err := report(study.Measurement{Step: int64(step), Elapsed: time.Duration(len(t.Measurements)),
				Metrics: map[string]float64{"wait": 50}})
			if err != nil {
				return study.Complete{Failure: err.Error()}, nil
			}
		}
		switch {
		case again:
		case t.ID == 1:
			return study.Complete{}, errors.New("connection refused")
		default:
			select {
			case <-hold:
			case <-ctx.Done():
				return study.Complete{}, ctx.Err()
			}
		}
		return study.Complete{Final: waited(float64(t.ID))}, nil
	}}
	h := with(t, b, 2)
	h.run("first", 2)
	h.until("half", func(s *study.State) bool {
		return len(s.Trials) == 2 && s.Trial(1).State == study.Succeeded && len(s.Trial(2).Measurements) == 3
	})
	h.close()
	h.open()
	s := h.until("complete", completed)
	for _, one := range s.Trials {
		if one.State != study.Succeeded || len(one.Measurements) != 5 {
			t.Errorf("trial %d is %s, %d measurements: %s", one.ID, one.State, len(one.Measurements), one.Reason)
		}
	}
}

// A trial that counts no more is not measured on, and leaves the evaluator to others: a trial that someone else
// completed, a deleted study.
func TestRunDrops(t *testing.T) {
	t.Parallel()
	left := make(chan string, 100)
	b := &bench{parallel: 1}
	b.measure = func(ctx context.Context, t *study.Trial, _ func(study.Measurement) error) (study.Complete, error) {
		<-ctx.Done()
		left <- fmt.Sprint(t.ID)
		return study.Complete{}, ctx.Err()
	}
	h := with(t, b, 4)
	if _, err := h.Create(t.Context(), controller.Call{}, "s", study.Record{ID: "second",
		Spec: study.Spec{Algorithm: "sobol", Budget: 4,
			Lease: time.Hour, Metric: "wait"}}); err != nil {
		t.Fatal(err)
	}
	h.run("first", 1)
	h.until("one runs", func(s *study.State) bool { return s.Count()[study.Running] == 1 })
	if _, _, err := h.Do(t.Context(), controller.Call{}, "s", "first", 1, study.Complete{Trial: 1,
		Final: waited(3)}); err != nil {
		t.Fatal(err)
	}
	if id := <-left; id != "1" {
		t.Errorf("trial %s is left", id)
	}
	s := h.until("the next runs", func(s *study.State) bool { return s.Count()[study.Running] == 1 })
	if v := s.Trial(1).Final.Metrics["wait"]; v != 3 {
		t.Errorf("trial 1 has %v", v)
	}
	h.run("second", 1)
	if err := h.Delete(t.Context(), controller.Call{}, "s", "first", anyway); err != nil {
		t.Fatal(err)
	}
	if id := <-left; id != "2" {
		t.Errorf("trial %s is left", id)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s, err := h.Study("s", "second")
		if err != nil {
			t.Fatal(err)
		}
		if s.Count()[study.Running] == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the evaluator is not free: %v", s.Count())
		}
	}
}

// Measurements of a deleted study count for nothing in another one of its id, whether the trial exists there
// or not.
func TestRunLeavesAnotherStudyAlone(t *testing.T) {
	t.Parallel()
	for _, trials := range []int{0, 1} {
		begun, hold := make(chan bool, 10), make(chan struct{})
		b := &bench{parallel: 1, measure: func(ctx context.Context, _ *study.Trial,
			_ func(study.Measurement) error) (study.Complete, error) {
			begun <- true
			<-ctx.Done()
			<-hold
			return study.Complete{Final: waited(3)}, nil
		}}
		h := with(t, b, 4)
		create := func(id string) {
			t.Helper()
			if _, err := h.Create(t.Context(), controller.Call{}, "s", study.Record{ID: id,
				Spec: study.Spec{Algorithm: "sobol", Budget: 4,
					Lease: time.Hour, Metric: "wait"}}); err != nil {
				t.Fatal(err)
			}
		}
		create("second")
		h.run("first", 1)
		<-begun
		h.run("second", 1)
		if err := h.Delete(t.Context(), controller.Call{}, "s", "first", anyway); err != nil {
			t.Fatal(err)
		}
		create("first")
		if trials > 0 {
			if _, _, err := h.Suggest(t.Context(), "s", "first", "ann", trials); err != nil {
				t.Fatal(err)
			}
		}
		close(hold)
		<-begun // of the second, as the evaluator is free
		s, err := h.Study("s", "first")
		if err != nil || len(s.Trials) != trials || s.Count()[study.Running] != trials {
			t.Errorf("%d trials: %v, %v", trials, s.Count(), err)
		}
	}
}
