package studies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/study"
)

// Evaluator measures trials.
type Evaluator interface {
	// Serves reports whether it measures for a scheduler.
	Serves(scheduler string) bool
	// Parallel is how many trials it measures at a time.
	Parallel() int
	// Evaluate measures a trial of a study until the result is known or the context ends. Each measurement
	// goes to report; an error of it ends the evaluation. An error says that the evaluator cannot measure anything
	// now.
	Evaluate(ctx context.Context, scheduler string, s *study.State, t *study.Trial,
		report func(study.Measurement) error) (study.Complete, error)
}

// RunStudy lets an evaluator measure the trials of a study, if check returns nil.
func (s *Service) RunStudy(ctx context.Context, call controller.Call, scheduler, id string, r study.Run,
	check func(*study.Record) error) (study.State, error) {
	m, err := s.find(scheduler, id)
	if err != nil {
		return study.State{}, err
	}
	if why := s.unable(scheduler, r.Evaluator); why != "" {
		return study.State{}, fmt.Errorf("evaluator %q: %w: it %s", r.Evaluator, controller.ErrNotFound, why)
	}
	describe := func(r *study.Run) string {
		if r == nil {
			return ""
		}
		return fmt.Sprintf("%q", strings.TrimSpace(fmt.Sprintf("%s x %d %s", r.Evaluator, r.Parallel, r.Workload)))
	}
	r.Actor = call.By().Actor
	e := checked{study.Evaluate{Run: r}, check}
	after, _, err := s.step(ctx, call, m, s.now(), e, func(before, after *study.State) *audit.Record {
		return &audit.Record{Time: s.now(), Origin: call.By(), Resource: "schedulers/" + scheduler,
			Fields: []audit.Field{{Name: "studies/" + id + ".run", Before: describe(before.Run),
				After: describe(after.Run)}}}
	})
	if err == nil && !call.DryRun {
		s.o.Log.InfoContext(ctx, "study runs", "scheduler", scheduler, "study", id, "evaluator", r.Evaluator)
	}
	return after, err
}

// Ran is a study that an evaluator measures, or measured.
type Ran struct {
	Scheduler string
	study.State
}

// Ran returns the studies of a scheduler that are run, or were, or of all schedulers if it is "".
func (s *Service) Ran(scheduler string) (out []Ran) {
	for _, m := range s.all() {
		if scheduler != "" && m.scheduler != scheduler {
			continue
		}
		st, gone := *m.durable.Load(), m.deleted.Load()
		if st.Run != nil && !gone && s.check(m.scheduler) == nil {
			out = append(out, Ran{m.scheduler, st})
		}
	}
	return out
}

// Evaluators returns the ids of the evaluators that serve a scheduler, or of all if it is "", in order.
func (s *Service) Evaluators(scheduler string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.o.Evaluators)), func(id string) bool {
		return scheduler != "" && !s.o.Evaluators[id].Serves(scheduler)
	})
}

// unable says why an evaluator cannot measure for a scheduler, "" if it can.
func (s *Service) unable(scheduler, id string) string {
	e := s.o.Evaluators[id]
	if e != nil && e.Serves(scheduler) {
		return ""
	}
	why := "is not configured"
	if e != nil {
		why = "does not serve scheduler " + scheduler
	}
	if there := s.Evaluators(scheduler); len(there) > 0 {
		return why + ": there are " + strings.Join(there, ", ")
	}
	return why + ": the configuration of the service names none"
}

// Problem says why the trials of a study that is run are not measured, "" if they are or no more are to be.
func (s *Service) Problem(scheduler string, st *study.State) string {
	if st.Run == nil || st.Phase != study.Active {
		return ""
	}
	if why := s.unable(scheduler, st.Run.Evaluator); why != "" {
		return fmt.Sprintf("evaluator %q %s", st.Run.Evaluator, why)
	}
	s.runs.mu.Lock()
	defer s.runs.mu.Unlock()
	for at, why := range s.runs.failing {
		if at.m.scheduler == scheduler && at.m.id == st.ID {
			return why
		}
	}
	return ""
}

// runs measures the trials of studies that are run. Each evaluator is a client of the study, so that after
// a restart it gets the trials that it held.
type runs struct {
	s    *Service
	ctx  context.Context // of Service.Run
	wake chan struct{}

	turn int // the study that comes first

	mu      sync.Mutex
	busy    map[evaluation]context.CancelFunc // being measured
	asked   map[evaluation]int                // trials that studies were asked for, without a trial
	failing map[evaluation]string             // why that is tried again
}

// evaluation is a trial with the evaluator that measures it.
type evaluation struct {
	m         *studyState
	trial     int64
	evaluator string
}

// measured is the call by which an evaluator changes a trial.
var measured = controller.Call{Origin: audit.Origin{Actor: "evaluator", Verb: "RunStudy"}}

func (s *Service) newRuns() *runs {
	return &runs{s: s, wake: make(chan struct{}, 1), busy: map[evaluation]context.CancelFunc{},
		asked: map[evaluation]int{}, failing: map[evaluation]string{}}
}

// look makes the loop look for trials at once.
func (r *runs) look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// loop begins evaluations until the context ends, and waits for evaluations under way.
func (r *runs) loop(ctx context.Context) {
	r.ctx = ctx
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		all := r.s.all()
		slices.SortFunc(all, func(a, b *studyState) int {
			return cmp.Or(cmp.Compare(a.scheduler, b.scheduler), cmp.Compare(a.id, b.id))
		})
		r.turn++
		r.drop()
		for i := range all {
			r.drive(all[(i+r.turn)%len(all)], &wg)
		}
		select {
		case <-ticker.C:
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// drive begins evaluations of a study that is run, as many as it and its evaluator allow, and ends the ones
// that are to stop.
func (r *runs) drive(m *studyState, wg *sync.WaitGroup) {
	st := *m.durable.Load()
	if st.Run == nil {
		return
	}
	r.stop(m, &st)
	e := r.s.o.Evaluators[st.Run.Evaluator]
	if st.Phase == study.Cancelled || st.Phase == study.Completed || r.s.unable(m.scheduler, st.Run.Evaluator) != "" {
		return
	}
	mine, all := r.count(m, st.Run.Evaluator)
	want := min(st.Run.Parallel, mine+e.Parallel()-all)
	if want <= mine {
		return
	}
	slots := evaluation{m: m, evaluator: st.Run.Evaluator}
	r.mu.Lock()
	_, under := r.asked[slots]
	if !under {
		r.asked[slots] = want - mine
	}
	r.mu.Unlock()
	if under {
		return
	}
	wg.Go(func() { // proposing takes time, which other studies do not wait for
		r.begin(m, &st, e, want, wg)
		r.mu.Lock()
		delete(r.asked, slots)
		r.mu.Unlock()
	})
}

// begin begins evaluations of trials of a study, until its evaluator holds as many as are wanted.
func (r *runs) begin(m *studyState, st *study.State, e Evaluator, want int, wg *sync.WaitGroup) {
	after, held, err := r.s.Suggest(r.ctx, m.scheduler, m.id, st.Run.Client(), want)
	if err != nil {
		if !errors.Is(err, study.ErrBudget) && !errors.Is(err, study.ErrExhausted) && !errors.Is(err, study.ErrState) &&
			!errors.Is(err, controller.ErrNotFound) && !errors.Is(err, controller.ErrDeleted) &&
			!errors.Is(err, controller.ErrClosed) && r.ctx.Err() == nil {
			r.s.o.Log.Warn("no trial for the evaluator", "scheduler", m.scheduler, "study", m.id, "err", err)
		}
		return
	}
	for _, t := range held {
		at := evaluation{m, t.ID, st.Run.Evaluator}
		ctx, cancel := context.WithCancel(r.ctx)
		r.mu.Lock()
		_, under := r.busy[at]
		if !under {
			r.busy[at] = cancel
		}
		r.mu.Unlock()
		if under {
			cancel()
			continue
		}
		wg.Go(func() {
			defer cancel()
			now, err := r.trial(at) // it may have ended since it was suggested
			if err == nil && now.State == study.Running {
				r.evaluate(ctx, e, at, &after, t)
			}
			r.mu.Lock()
			delete(r.busy, at)
			delete(r.failing, at)
			r.mu.Unlock()
			r.look()
		})
	}
}

// count is how many trials of a study an evaluator measures, and of all studies.
func (r *runs) count(m *studyState, evaluator string) (mine, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.busy {
		if at.evaluator == evaluator {
			all++
			if at.m == m {
				mine++
			}
		}
	}
	for at, n := range r.asked {
		if at.evaluator == evaluator {
			all += n
		}
	}
	return mine, all
}

// drop ends the evaluations that count no more, so that the evaluator is free for others: of trials that someone
// else completed, and of studies and schedulers that were deleted.
func (r *runs) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, cancel := range r.busy {
		if t, err := r.trial(at); err != nil || !counts(t) {
			cancel()
		}
	}
}

// trial is the one that is being measured. Another study that has the id of a deleted one is not meant.
func (r *runs) trial(at evaluation) (*study.Trial, error) {
	if m, err := r.s.find(at.m.scheduler, at.m.id); err != nil {
		return nil, err
	} else if m != at.m {
		return nil, notFound(at.m.scheduler, at.m.id)
	}
	t := at.m.durable.Load().Trial(at.trial)
	if at.m.deleted.Load() || t == nil {
		return nil, notFound(at.m.scheduler, at.m.id)
	}
	return t, nil
}

// counts reports whether a result of a trial changes it.
func counts(t *study.Trial) bool { return t.State.Open() || t.State == study.Stale }

// stop ends the evaluations of trials that are to stop, and the trials without an evaluation.
func (r *runs) stop(m *studyState, st *study.State) {
	for _, t := range st.Trials {
		if t.State != study.Stopping || !strings.HasPrefix(t.Client, study.EvaluatorClient) {
			continue
		}
		r.mu.Lock()
		cancel := r.busy[evaluation{m, t.ID, strings.TrimPrefix(t.Client, study.EvaluatorClient)}]
		r.mu.Unlock()
		if cancel != nil {
			cancel()
			continue
		}
		r.complete(m, stopped(t))
	}
}

// stopped ends a trial that is to stop: by its last measurement, if it has one.
func stopped(t *study.Trial) study.Complete {
	if len(t.Measurements) > 0 {
		return study.Complete{Trial: t.ID}
	}
	return study.Complete{Trial: t.ID, Failure: "it was stopped before anything was measured"}
}

// errStop ends an evaluation whose trial is to stop.
var errStop = errors.New("the trial is to stop")

// evaluate measures a trial and completes it, unless the service ends before.
func (r *runs) evaluate(ctx context.Context, e Evaluator, at evaluation, st *study.State, t *study.Trial) {
	do := func(e study.Event) (*study.Trial, error) {
		_, after, err := r.s.do(ctx, measured, at.m, at.trial, e)
		return after, err
	}
	var renewals sync.WaitGroup
	done := make(chan struct{})
	renewals.Go(func() {
		ticker := time.NewTicker(st.Spec.Lease / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_, _ = do(study.Renew{Trial: at.trial}) // an ended one has no lease
			case <-done:
				return
			}
		}
	})
	measured := int64(-1) // the last step of former attempts, such as before a restart, which is kept
	report := func(m study.Measurement) error {
		if why := st.Spec.Check(&m, false); why != "" {
			return errors.New(why)
		}
		if m.Step > measured {
			if _, err := do(study.Measure{Trial: at.trial, Measurement: m}); err != nil {
				return err
			}
		}
		after, err := do(study.Check{Trial: at.trial})
		if err == nil && after.State == study.Stopping {
			err = errStop
		}
		return err
	}
	var result study.Complete
	var err error
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		if now, err := r.trial(at); err == nil && len(now.Measurements) > 0 {
			measured = now.Measurements[len(now.Measurements)-1].Step
		}
		if result, err = e.Evaluate(ctx, at.m.scheduler, st, t, report); err == nil || ctx.Err() != nil {
			break
		}
		r.s.o.Log.Warn("evaluator fails, trying again", "evaluator", at.evaluator, "err", err)
		r.mu.Lock()
		r.failing[at] = err.Error()
		r.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	close(done)
	renewals.Wait()
	if r.ctx.Err() != nil {
		return // it is measured again after the restart
	}
	now, gone := r.trial(at)
	switch {
	case gone != nil || !counts(now):
		return
	case now.State == study.Stopping:
		result = stopped(now)
	case err != nil: // it counted for a moment only
		return
	}
	if result.Final != nil {
		if why := st.Spec.Check(result.Final, true); why != "" {
			result = study.Complete{Failure: why}
		}
	}
	result.Trial = at.trial
	r.complete(at.m, result)
}

// complete ends a trial that has not ended before.
func (r *runs) complete(m *studyState, e study.Complete) {
	_, t, err := r.s.do(context.WithoutCancel(r.ctx), measured, m, e.Trial, e)
	switch {
	case errors.Is(err, study.ErrState), errors.Is(err, controller.ErrNotFound), errors.Is(err, controller.ErrDeleted):
	case err != nil:
		r.s.o.Log.Error("trial not completed", "scheduler", m.scheduler, "study", m.id, "trial", e.Trial, "err", err)
	case t.State == study.Failed:
		r.s.o.Log.Warn("trial failed", "scheduler", m.scheduler, "study", m.id, "trial", e.Trial, "reason", t.Reason)
	}
}
