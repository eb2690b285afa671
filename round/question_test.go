package round

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/autosched/autosched/generation/durations"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/testshared"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/schedulers/lanes"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

var epoch = time.Unix(0, 0).UTC()

// daysOf is a trace of some days with crowds of short jobs every day, which one long job of all GPUs holds up.
func daysOf(t *testing.T, days int) *workload.Workload { return crowdsOf(t, days, 12) }

// crowdsOf is the same with crowds of some jobs: what the presets gain of large ones is no luck.
func crowdsOf(t *testing.T, days, jobsOf int) *workload.Workload {
	t.Helper()
	draw := rng.Stream("question", 1)
	var jobs []workload.Job
	add := func(at, takes time.Duration, gpus int, tenant string) {
		jobs = append(jobs, workload.Job{ID: fmt.Sprint(len(jobs)), Tenant: tenant, Submit: at, Duration: takes,
			GPUs: workload.GPUs(gpus), Status: workload.Completed})
	}
	for d := range days {
		at := time.Duration(d) * day
		for range 5 {
			at += time.Duration(1+draw.IntN(60)) * time.Minute
			add(at, time.Duration(2+draw.IntN(4))*time.Hour, 8, "long")
			for range jobsOf {
				add(at+time.Duration(draw.IntN(3600))*time.Second, time.Duration(5+draw.IntN(50))*time.Minute,
					1+draw.IntN(4),
					"short")
			}
		}
	}
	w, err := workload.New("days", epoch, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func ask(t *testing.T, w *workload.Workload, at time.Duration, change func(*Question)) Answer {
	t.Helper()
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Problem: Problem{Scheduler: s, Space: s.Space, Cluster: workload.Uniform(2, 8),
		Goal: Minimise("avg_jct"), Incumbent: s.Space.Default()}, History: RecordedOf(w, at), Guard: .1, Seed: 1,
		Workers: 2}
	if change != nil {
		change(&q)
	}
	out, err := Ask(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// same compares answers without their evidence.
var same = cmp.Options{cmpopts.IgnoreUnexported(Compared{}, Group{}),
	cmp.Comparer(func(a, b space.Config) bool { return a.Equal(b) })}

// TestStretches: they begin at multiples of five days since 1970, the last has two days or more, and there are four.
func TestStretches(t *testing.T) {
	span := func(from, to int) stretch { return stretch{time.Duration(from) * day, time.Duration(to) * day} }
	for _, tt := range []struct {
		name      string
		zero      int // days since 1970
		first, at time.Duration
		want      []stretch
	}{
		{"whole", 0, 0, 20 * day, []stretch{span(0, 5), span(5, 10), span(10, 15), span(15, 20)}},
		{"the open one has less than two days", 0, 0, 22*day - 1,
			[]stretch{span(0, 5), span(5, 10), span(10, 15), span(15, 20)}},
		{"the open one counts from its third day", 0, 0, 22 * day,
			[]stretch{span(5, 10), span(10, 15), span(15, 20), span(20, 22)}},
		{"another zero", 3, 0, 20 * day, []stretch{span(2, 7), span(7, 12), span(12, 17), span(17, 20)}},
		{"before the zero", 0, -3 * day, 4 * day, []stretch{span(-3, 0), span(0, 4)}},
		{"young", 0, 4 * day, 9 * day, []stretch{span(5, 9)}},
		{"nothing", 0, 9 * day, 9 * day, nil},
	} {
		h := Recorded{At: tt.at, Zero: epoch.Add(time.Duration(tt.zero) * day),
			Jobs: []durations.Record{{Job: &workload.Job{ID: "a", Submit: tt.first}}}}
		passed := slices.DeleteFunc(slices.Clone(tt.want), func(s stretch) bool { return s.to > h.begun() })
		got := h.passed(tt.want)
		if len(passed) > 0 && !slices.Equal(got, passed) || len(got) == 0 && len(tt.want) > 0 {
			t.Errorf("%s: %v have passed, want %v", tt.name, got, passed)
		}
		if d := cmp.Diff(tt.want, h.stretches(), cmp.AllowUnexported(stretch{})); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}

// TestReplayOfAStretch: jobs of the stretch count, those of four days before it run, run times that are not known yet
// are drawn, and the longest last as long as a stretch.
func TestReplayOfAStretch(t *testing.T) {
	at := 7*day + time.Hour
	job := func(id string, submit, takes time.Duration, gpus int) workload.Job {
		return workload.Job{ID: id, Submit: submit, Duration: takes, GPUs: workload.GPUs(gpus),
			Status: workload.Completed}
	}
	w, err := workload.New("", epoch, []workload.Job{job("old", 0, time.Hour, 1),
		job("early", day/2, time.Hour, 1), job("warming", 3*day/2, time.Hour, 1),
		job("counts", 5*day, time.Hour, 2), job("week", 5*day, 7*day, 1), job("wide", 6*day, time.Hour, 17),
		job("now", 7*day, 2*time.Hour, 1)})
	if err != nil {
		t.Fatal(err)
	}
	h := RecordedOf(w, at)
	x := h.tape(1).replay(stretch{5 * day, at}, warming, workload.Uniform(2, 8).Fits, 0)
	got := map[string]workload.Job{}
	for _, j := range x.Arrivals.Jobs() {
		got[j.ID] = j
		if was := slices.IndexFunc(w.Jobs(), func(o workload.Job) bool { return o.ID == j.ID }); was >= 0 {
			if d := j.Submit - w.Jobs()[was].Submit; d < 0 || d >= replayJitter {
				t.Errorf("%s is submitted %v later", j.ID, d)
			}
		}
	}
	for id, want := range map[string]time.Duration{"warming": time.Hour, "counts": time.Hour, wideProbe: time.Hour} {
		if got[id].Duration != want {
			t.Errorf("%s takes %v, want %v", id, got[id].Duration, want)
		}
	}
	if d := got["week"].Duration; d < 2*day || d > stretchLength {
		t.Errorf("a job that runs for two days takes %v", d)
	}
	if d := got["now"].Duration; d < time.Hour {
		t.Errorf("a job that runs for an hour takes %v", d)
	}
	if _, ok := got["wide"]; ok || got["old"].ID+got["early"].ID != "" || got[wideProbe].GPUs != workload.GPUs(2) {
		t.Errorf("replayed are %v", got)
	}
	if n := counted(&x); x.CountFrom != 5*day || n != 3 {
		t.Errorf("%d jobs count from %v", n, x.CountFrom)
	}
	if past := x.Past.Jobs(); len(past) != 2 || past[0].End != time.Hour {
		t.Errorf("known are %v", past)
	}
}

// TestDrawsStay: the run time of a job stays the same until it has run for longer, or for twice as long.
func TestDrawsStay(t *testing.T) {
	h := RecordedOf(daysOf(t, 12), 12*day)
	tape := h.tape(1)
	for i := range 50 {
		r := durations.Record{Job: &workload.Job{ID: fmt.Sprint("job ", i), Tenant: "short", GPUs: workload.GPUs(1)}}
		last := tape.draw(&r, 0)
		for r.Ran = time.Minute; r.Ran < 45*time.Minute; r.Ran += time.Minute {
			is := tape.draw(&r, 0)
			if is <= r.Ran || last > r.Ran && is != last && steady(r.Ran) == steady(r.Ran-time.Minute) {
				t.Fatalf("after %v a job takes %v, before %v", r.Ran, is, last)
			}
			last = is
		}
	}
	for ran, want := range map[time.Duration]time.Duration{0: 0, time.Minute - 1: 0, time.Minute: time.Minute,
		2*time.Minute - 1: time.Minute, 100 * time.Minute: 64 * time.Minute} {
		if got := steady(ran); got != want {
			t.Errorf("steady(%v) = %v, want %v", ran, got, want)
		}
	}
}

// TestAskForEnoughHistory: less than five days say when there will be enough, less than ten ask for more.
func TestAskForEnoughHistory(t *testing.T) {
	w := daysOf(t, 25)
	a := ask(t, w, 4*day, nil)
	h := RecordedOf(w, 4*day)
	if a.Adopt || !a.Known.Equal(epoch.Add(h.first()+5*day)) || a.Compared != nil ||
		!strings.Contains(a.Reason, "too short") {
		t.Errorf("after four days: %+v", a)
	}
	a = ask(t, w, 6*day, func(q *Question) { q.Guard = -1 })
	if !a.Known.IsZero() || a.Stretches != 1 || len(a.Compared) < 3 {
		t.Errorf("after six days: %+v", a)
	}
	if a := ask(t, w, 0, nil); a.Adopt || !a.Known.IsZero() {
		t.Errorf("without history: %+v", a)
	}
}

// TestAskWithQuotas: the quotas of a cluster of another size fit it, and jobs that no longer fit theirs are left out.
func TestAskWithQuotas(t *testing.T) {
	testshared.Full(t)
	w := daysOf(t, 12)
	for _, quota := range []simulator.Quota{simulator.QuotaStrict, simulator.QuotaBorrow} {
		a := ask(t, w, 11*day, func(q *Question) {
			q.Cluster = workload.Uniform(3, 8)
			q.Cluster.VCs = []workload.VC{{Tenant: "long", GPUs: 12}, {Tenant: "short", GPUs: 12}}
			q.Options.Quota = quota
		})
		if a.Jobs == 0 || a.Best == nil && a.Refused == nil {
			t.Errorf("%v: %+v", quota, a)
		}
	}
	c := workload.Uniform(3, 4)
	c.VCs = []workload.VC{{Tenant: "a", GPUs: 6}, {Tenant: "b", GPUs: 5}}
	c = resized(c, crowded)
	if got := c.VCs[0].GPUs + c.VCs[1].GPUs; got > c.TotalGPUs() {
		t.Errorf("quotas of %d GPUs of %d", got, c.TotalGPUs())
	}
	j := workload.Job{Tenant: "a", GPUs: workload.GPUs(6)}
	if !fits(&j, c, simulator.QuotaBorrow) || fits(&j, c, simulator.QuotaStrict) {
		t.Error("6 of 8 GPUs, of which 3 are others', are only free to borrow")
	}
}

// TestReasonNamesConstraints: an answer that constraints decide says so.
func TestReasonNamesConstraints(t *testing.T) {
	testshared.Full(t)
	w := daysOf(t, 12)
	for bound, want := range map[string]string{
		"avg_queue<=1s":             "The one in force breaks avg_queue<=1s by far",
		"p99_jct<=0.9*incumbent+1h": "keeps all constraints",
		"avg_jct<=1*incumbent":      "and keeps to the constraints",
	} {
		a := ask(t, w, 11*day, func(q *Question) {
			c, err := ParseConstraint(bound)
			if err != nil {
				t.Fatal(err)
			}
			q.Goal.Constraints = []Constraint{c}
		})
		if !strings.Contains(a.Reason, want) {
			t.Errorf("%s: %s", bound, a.Reason)
		}
	}
}

// TestAnswerDoesNotDepend: on the number of workers, on results kept of other questions, nor on later jobs.
func TestAnswerDoesNotDepend(t *testing.T) {
	w := crowdsOf(t, 24, 30)
	kept := &Replays{}
	want := ask(t, w, 21*day, nil)
	if !want.Adopt && want.Refused == nil || want.Stretches != 4 || want.Jobs == 0 {
		t.Fatalf("nothing to compare: %+v", want)
	}
	ask(t, w, 20*day, func(q *Question) { q.Replays = kept })
	done, of := 0, 0
	for _, tt := range []struct {
		name   string
		w      *workload.Workload
		change func(*Question)
	}{
		{"one worker", w, func(q *Question) { q.Workers = 1 }},
		{"kept of the day before", w, func(q *Question) { q.Replays = kept }},
		{"kept of the same day", w, func(q *Question) {
			q.Replays = kept
			q.Progress = func(n, m int) { done, of = n, m }
		}},
		{"nothing later", w.Window(-day, 21*day), nil},
	} {
		if d := cmp.Diff(want, ask(t, tt.w, 21*day, tt.change), same); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
	if done == 0 || done != of {
		t.Errorf("%d of %d replays are reported", done, of)
	}
}

// TestProgressOfAQuestion: the number of replays that is announced does not grow, and is reached once.
func TestProgressOfAQuestion(t *testing.T) {
	last, reached := math.MaxInt, 0
	ask(t, daysOf(t, 12), 11*day, func(q *Question) {
		q.Progress = func(done, of int) {
			if of > last {
				t.Errorf("%d of %d replays, of %d before", done, of, last)
			}
			if last = of; done >= of {
				reached++
			}
		}
	})
	if reached != 1 {
		t.Errorf("the end is announced %d times", reached)
	}
}

// TestReplaysOfATapeAreShared: a tape gives the same replays to clusters of any size, in any order, as a new one does,
// and one workload to all that fit every job.
func TestReplaysOfATapeAreShared(t *testing.T) {
	h := RecordedOf(daysOf(t, 12), 12*day)
	shared := h.tape(1)
	var first Scenario
	for n, nodes := range [...]float64{2, 3, .5, 1} { // half a node does not fit all
		for _, st := range h.stretches() {
			for k := range replays {
				fits := func(j *workload.Job) bool { return j.GPUs.Count() <= 8*nodes }
				got := shared.replay(st, warming, fits, k)
				want := h.tape(1).replay(st, warming, fits, k)
				if got.Arrivals.Digest() != want.Arrivals.Digest() || got.Past.Digest() != want.Past.Digest() ||
					got.CountFrom != want.CountFrom || got.Warmup != want.Warmup {
					t.Errorf("%v nodes, %v, replay %d: a shared tape differs from a new one", nodes, st, k)
				}
				if n == 0 && first.Arrivals == nil {
					first = got
				} else if n == 3 && k == 0 && st == h.stretches()[0] && got.Arrivals != first.Arrivals {
					t.Error("the jobs of a replay are made twice")
				}
			}
		}
	}
}

// TestDayReplaysTheOpenStretch: from day to day, replays of stretches that have passed and the jobs that policies know
// before them stay the same as long as the first of them does, and those of the open one do not.
func TestDayReplaysTheOpenStretch(t *testing.T) {
	w := daysOf(t, 45)
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Problem: Problem{Scheduler: s, Cluster: workload.Uniform(2, 8), Goal: Minimise("avg_jct")}}
	keys := func(at time.Duration, how way) map[string]bool {
		h, out := RecordedOf(w, at), map[string]bool{}
		q.History = h
		f, err := q.newField(t.Context(), h.stretches(), h.tape(1), how)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range f.runs {
			out[r.key+pastKey(f.scorer.scenarios[i].Past)] = true
		}
		return out
	}
	for _, how := range []way{asIs, larger, smaller, settled} {
		for _, days := range [][]time.Duration{{40 * day, 42*day - 1}, {42 * day, 43 * day, 45*day - 1}} {
			open := 0
			if days[0] >= 42*day {
				open = how.times
			}
			before := keys(days[0], how)
			for _, at := range days[1:] {
				now := keys(at, how)
				fresh := 0
				for key := range now {
					if !before[key] {
						fresh++
					}
				}
				if len(now) != stretches*how.times || fresh != open {
					t.Errorf("%+v: %d of %d replays at %v are new after %v, want %d", how, fresh, len(now), at, days[0],
						open)
				}
				before = now
			}
		}
	}
}

// TestKeptReplaysHaveAPast: the result of a policy that learns from ended jobs is of these, and any other of all.
func TestKeptReplaysHaveAPast(t *testing.T) {
	w := daysOf(t, 12)
	h := RecordedOf(w, 12*day)
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Problem: Problem{Scheduler: s, Cluster: workload.Uniform(2, 8), Goal: Minimise("avg_jct")},
		History: h}
	f, err := q.newField(t.Context(), h.stretches(), h.tape(1), settled)
	if err != nil {
		t.Fatal(err)
	}
	last := len(f.runs) - 1
	f.scorer.scenarios[last].Past = simulator.NewPast([]simulator.EndedJob{{GPUs: 1, RunTime: time.Hour}})
	other := simulator.NewPast([]simulator.EndedJob{{GPUs: 2, RunTime: time.Hour}})
	for _, tt := range []struct {
		priority string
		learns   bool
	}{{"service", false}, {"gittins", true}} {
		c, err := s.Space.Parse(s.Space.Default(), []string{"priority=" + tt.priority})
		if err != nil {
			t.Fatal(err)
		}
		kept := &Replays{}
		if _, err := f.run(t.Context(), []space.Config{c}, kept, 1, func() {}); err != nil {
			t.Fatal(err)
		}
		key := f.runs[last].key + c.Hash()
		if kept.get(key, f.scorer.scenarios[last].Past) == nil || (kept.get(key, other) == nil) != tt.learns {
			t.Errorf("%s: kept for the same past and another: %v, %v", tt.priority,
				kept.get(key, f.scorer.scenarios[last].Past), kept.get(key, other))
		}
	}
}

// TestGainOfAnAnswer: it is the mean of the logarithms of the simulated ratios.
func TestGainOfAnAnswer(t *testing.T) {
	testshared.Full(t)
	w := daysOf(t, 12)
	a := ask(t, w, 12*day, func(q *Question) { q.Guard = -1 })
	s, _ := schedulers.Find("tiresias")
	h := RecordedOf(w, 12*day)
	tape := h.tape(1)
	jct := func(x *Scenario, c workload.Cluster, config space.Config) float64 {
		var sim simulator.Sim
		if err := sim.Start(c, x.Arrivals, s.New(config), simulator.Options{Past: x.Past}); err != nil {
			t.Fatal(err)
		}
		if err := sim.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		sum, n := 0.0, 0.0
		for _, o := range sim.Outcomes(nil) {
			if j := &x.Arrivals.Jobs()[o.ID]; o.Submit >= x.CountFrom && !isProbe(j) {
				sum, n = sum+o.JCT().Seconds(), n+1
			}
		}
		return sum / n
	}
	for _, c := range a.Compared[1:3] {
		want, sum, n := 0.0, 0.0, 0.0
		for _, nodes := range [...]int{2, 3} { // 1.3 times 2, rounded
			for _, st := range h.stretches() {
				for k := range replays {
					x := tape.replay(st, warming, workload.Uniform(nodes, 8).Fits, k)
					sum += math.Log(jct(&x, workload.Uniform(nodes, 8), s.Space.Default()) / jct(&x,
						workload.Uniform(nodes, 8), c.Config))
					n++
				}
			}
			if want = sum / n; want <= -hopeless {
				break // it is not replayed on the larger cluster
			}
		}
		if math.Abs(c.Gain-want) > 1e-9 {
			t.Errorf("%s gains %v, want %v", c.Origin, c.Gain, want)
		}
	}
}

// TestRule: which candidate is adopted, by gains in two stretches of two replays each, on two clusters.
func TestRule(t *testing.T) {
	s, err := schedulers.Find("tiresias")
	if err != nil {
		t.Fatal(err)
	}
	config := func(queues int) space.Config {
		c, err := s.Space.Parse(s.Space.Default(), []string{fmt.Sprint("queues=", queues)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	even := func(gain float64) []float64 { return slices.Repeat([]float64{gain}, 8) }
	over := search.Limit{Name: "p99_jct<=1s", Values: []float64{2}, Bounds: []float64{1}}
	kept := search.Limit{Name: "p99_jct<=1s", Values: []float64{.5}, Bounds: []float64{1}}
	guard := []Broken{{What: "p99 JCT", Before: 100, After: 300}}
	for _, tt := range []struct {
		name    string
		bar     float64
		inForce Compared
		others  []Compared
		want    int // place of the adopted one, 0 for none
		refused int
	}{
		{"the largest gain", leastGain, Compared{}, []Compared{{logs: even(.02)}, {logs: even(.03)}}, 2, 0},
		{"too little", leastGain, Compared{}, []Compared{{logs: even(.01)}, {logs: even(-.03)}}, 0, 0},
		{"too little of a young history", youngGain, Compared{}, []Compared{{logs: even(.02)}}, 0, 0},
		{"more in one stretch than in the other", leastGain, Compared{},
			[]Compared{{logs: []float64{.1, .1, .02, .02, .1, .1, .02, .02}}}, 1, 0},
		{"a gain within its standard error", leastGain, Compared{},
			[]Compared{{logs: []float64{.1, .1, -.04, -.04, .1, .1, -.04, -.04}}, {logs: even(.02)}}, 2, 0},
		{"a guard, and within its standard error", leastGain, Compared{},
			[]Compared{{logs: []float64{.1, .1, -.04, -.04, .1, .1, -.04, -.04}, Breaks: guard}}, 0, 0},
		{"a gain on the larger cluster alone", leastGain, Compared{},
			[]Compared{{logs: []float64{.1, .1, -.1, -.1, .1, .1, .1, .1}}, {logs: even(.02)}}, 2, 0},
		{"a gain within the luck of one replay", leastGain, Compared{},
			[]Compared{{logs: []float64{.09, -.01, .09, -.01, .09, -.01, .09, -.01}}, {logs: even(.02)}}, 2, 0},
		{"replays that differ, and all gain", leastGain, Compared{},
			[]Compared{{logs: []float64{.08, .01, .08, .01, .08, -.01, .08, -.01}}, {logs: even(.02)}}, 1, 0},
		{"luck on the larger cluster", leastGain, Compared{},
			[]Compared{{logs: []float64{.04, .04, .04, .04, .09, -.01, .09, -.01}}, {logs: even(.02)}}, 1, 0},
		{"found, and sure", leastGain, Compared{}, []Compared{{Found: true, logs: even(.02)}}, 1, 0},
		{"found, and not sure", leastGain, Compared{},
			[]Compared{{Found: true, logs: []float64{.1, .1, .02, .02, .1, .1, .02, .02}}, {logs: even(.011)}}, 2, 0},
		{"a guard", leastGain, Compared{}, []Compared{{logs: even(.05), Breaks: guard}, {logs: even(.02)}}, 2, 1},
		{"a guard of the lesser", leastGain, Compared{}, []Compared{{logs: even(.02), Breaks: guard},
			{logs: even(.05)}}, 2, 0},
		{"a constraint", leastGain, Compared{limits: []search.Limit{kept}},
			[]Compared{{logs: even(.05), limits: []search.Limit{over}}}, 0, 0},
		{"in force breaks a constraint", leastGain, Compared{limits: []search.Limit{over}},
			[]Compared{{logs: even(.05), limits: []search.Limit{over}}, {logs: even(-.05),
				limits: []search.Limit{kept}}}, 2, 0},
		{"in force does not end", leastGain, Compared{failed: true}, []Compared{{logs: even(0)}}, 1, 0},
		{"does not end", leastGain, Compared{}, []Compared{{failed: true}, {logs: even(.02)}}, 2, 0},
		{"in force does not end, and one was replayed in part", leastGain, Compared{failed: true},
			[]Compared{{Changes: 1, partial: true, Breaks: guard, logs: even(.3)[:4]},
				{Changes: 2, logs: even(.2)}}, 2, 0},
		{"the same with fewer changes", leastGain, Compared{},
			[]Compared{{Changes: 3, logs: []float64{.05, .07, .05, .07, .05, .07, .05, .07}},
				{Changes: 2, logs: []float64{.0595, .0595, .0595, .0595, .0595, .0595, .0595, .0595}}}, 2, 0},
		{"more than noise", leastGain, Compared{},
			[]Compared{{Changes: 3, logs: even(.06)}, {Changes: 2, logs: even(.05)}}, 1, 0},
	} {
		runs := []run{{"", 0}, {"", 0}, {"", 1}, {"", 1}}
		a := asking{Question: &Question{Problem: Problem{Goal: Minimise("avg_jct")}, Guard: .1}, out: &Answer{},
			bar: tt.bar, fields: []*field{{runs: runs}, {runs: runs}}}
		tt.inForce.logs = even(0)
		a.candidates = append([]Compared{tt.inForce}, tt.others...)
		for i := range a.candidates {
			a.candidates[i].Config = config(2 + i)
			a.summarise(&a.candidates[i])
		}
		a.choose()
		got, refused := 0, 0
		for i := range a.candidates {
			switch {
			case a.out.Adopt && a.out.Best == &a.candidates[i]:
				got = i
			case a.out.Refused == &a.candidates[i]:
				refused = i
			}
			if (a.candidates[i].Verdict == "") != (i > 0 && i == tt.want) {
				t.Errorf("%s: verdict %q on %d", tt.name, a.candidates[i].Verdict, i)
			}
		}
		if got != tt.want || refused != tt.refused {
			t.Errorf("%s: adopted %d, refused %d, want %d and %d", tt.name, got, refused, tt.want, tt.refused)
		}
	}
}

// TestGuardsOfAnAnswer: a time is guarded by a share and a minute, on average and in all stretches but one.
func TestGuardsOfAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		name     string
		was, now []float64
		accept   float64 // 0: not broken
	}{
		{"the same", []float64{100, 100}, []float64{100, 100}, 0},
		{"a minute is nothing", []float64{10, 10}, []float64{70, 70}, 0},
		{"a tenth and a minute", []float64{1000, 1000}, []float64{1160, 1160}, 0},
		{"more", []float64{1000, 1000}, []float64{1260, 1260}, .2},
		{"in one of three", []float64{1000, 1000, 1000}, []float64{9000, 1000, 1000}, 0},
		{"in one of two, and on average", []float64{1000, 1000}, []float64{1560, 1000}, .22},
		{"in one of two, not on average", []float64{1000, 1000}, []float64{1560, 500}, 0},
		{"in two of three, and on average", []float64{1000, 1000, 1000}, []float64{1560, 1400, 1000}, .26},
		{"in two of three, not on average", []float64{1000, 1000, 1000}, []float64{1560, 1400, 100}, 0},
		{"in two of four", []float64{1000, 1000, 1000, 1000}, []float64{9000, 1900, 1000, 1000}, 0},
		{"in three of four", []float64{1000, 1000, 1000, 1000}, []float64{9000, 1360, 1560, 1000}, .3},
	} {
		var was, now []*replayed
		for i := range tt.was {
			was = append(was, &replayed{guarded: map[string]meanTime{"p99 JCT": {tt.was[i], 1}}})
			now = append(now, &replayed{guarded: map[string]meanTime{"p99 JCT": {tt.now[i], 1}}})
		}
		each := func(i int) int { return i }
		got := guarded(.1, each, now, was)
		breaks, accept := got.breaks, got.accept
		if unclear := accept == 0 && slices.Max(tt.now) > 1160; (len(got.unclear) > 0) != unclear {
			t.Errorf("%s: unclear are %v", tt.name, got.unclear)
		}
		if accept != tt.accept || (len(breaks) > 0) != (tt.accept > 0) {
			t.Errorf("%s: %v, accepted with %v, want %v", tt.name, breaks, accept, tt.accept)
		}
		if tt.accept > 0 {
			if again := guarded(accept, each, now, was).breaks; len(again) > 0 {
				t.Errorf("%s: %v with a guard of %v", tt.name, again, accept)
			}
		}
	}
}

// TestGuardsOfUnlikeCounts: the means before and after are each over the jobs of their own.
func TestGuardsOfUnlikeCounts(t *testing.T) {
	of := func(jobs float64) []*replayed {
		return []*replayed{{guarded: map[string]meanTime{"short": {1000, jobs}}}}
	}
	one := func(int) int { return 0 }
	if got := guarded(.1, one, of(20), of(10)).breaks; len(got) > 0 {
		t.Errorf("the same mean of more jobs: %v", got)
	}
	now := of(20)
	now[0].guarded["short"] = meanTime{3000, 20}
	if got := guarded(.1, one, now, of(10)).breaks; len(got) != 1 || got[0].Before != 1000 || got[0].After != 3000 {
		t.Errorf("three times the mean of more jobs: %v", got)
	}
}

// TestGuardsOfStretches: a stretch is worse if most of its replays are, however bad one is, and jobs of a kind that few
// stretches have tell nothing, unless the history has no more than two.
func TestGuardsOfStretches(t *testing.T) {
	of := func(what string, means ...float64) (out []*replayed) {
		for _, m := range means {
			x := &replayed{guarded: map[string]meanTime{}}
			if m > 0 {
				x.guarded[what] = meanTime{m, 1}
			}
			out = append(out, x)
		}
		return out
	}
	for _, tt := range []struct {
		name            string
		was, now        []float64 // of three replays each
		breaks, unclear int
	}{
		{"one replay of each", []float64{1e3, 1e3, 1e3, 1e3, 1e3, 1e3}, []float64{9e4, 1e3, 1e3, 9e4, 1e3, 1e3}, 0, 1},
		{"two of each", []float64{1e3, 1e3, 1e3, 1e3, 1e3, 1e3}, []float64{2e3, 2e3, 1e3, 2e3, 2e3, 1e3}, 1, 0},
		{"one of two has such jobs", []float64{1e3, 1e3, 1e3, 0, 0, 0}, []float64{2e3, 2e3, 2e3, 0, 0, 0}, 1, 0},
		{"one of two, kept", []float64{1e3, 1e3, 1e3, 0, 0, 0}, []float64{1e3, 1e3, 1e3, 0, 0, 0}, 0, 1},
		{"one of three", []float64{1e3, 1e3, 1e3, 0, 0, 0, 0, 0, 0}, []float64{2e3, 2e3, 2e3, 0, 0, 0, 0, 0, 0}, 0, 1},
		{"the only stretch", []float64{1e3, 1e3, 1e3}, []float64{2e3, 2e3, 2e3}, 1, 0},
		{"kept", []float64{1e3, 1e3, 1e3, 1e3, 1e3, 1e3}, []float64{1e3, 2e2, 3e2, 1e3, 1e3, 1e3}, 0, 0},
	} {
		got := guarded(.1, func(i int) int { return i / 3 }, of("p99 JCT", tt.now...), of("p99 JCT", tt.was...))
		if len(got.breaks) != tt.breaks || len(got.unclear) != tt.unclear {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// TestRefusedGainsAreNamed: a change that breaks a guard is reported with its losers, and adopted if that is accepted.
func TestRefusedGainsAreNamed(t *testing.T) {
	testshared.Full(t)
	w := crowdsOf(t, 21, 30)
	a := ask(t, w, 21*day, func(q *Question) { q.Guard = .001 })
	r := a.Refused
	if r == nil {
		t.Fatalf("nothing is refused: %s", a.Reason)
	}
	if len(r.Breaks) == 0 || r.Accept <= .001 || !strings.Contains(a.Reason, r.Breaks[0].What) || r.Low > r.Gain ||
		r.High < r.Gain {
		t.Errorf("refused is %+v: %s", r, a.Reason)
	}
	b := ask(t, w, 21*day, func(q *Question) { q.Guard = r.Accept })
	if !b.Adopt || b.Gain < r.Gain-1e-9 {
		t.Errorf("with a guard of %v: %s", r.Accept, b.Reason)
	}
	whole := 0
	for i := range a.Compared {
		switch c := &a.Compared[i]; {
		case !c.partial:
			whole++
		case c == a.Best || c == r || len(c.Breaks) == 0 && c.Gain > -hopeless:
			t.Errorf("%s is not replayed on the larger cluster: %+v", c.Origin, c)
		}
	}
	if whole == len(a.Compared) {
		t.Error("all are replayed on the larger cluster")
	}
	if c := ask(t, w, 21*day,
		func(q *Question) { q.Guard = -1 }); !c.Adopt || c.Refused != nil || c.Gain < r.Gain-1e-9 {
		t.Errorf("without guards: %s", c.Reason)
	}
}

// TestPromises: what an answer promises is the mean gain of replays with two weeks before each stretch, within the
// range of all replays. What promises no gain is not adopted.
func TestPromises(t *testing.T) {
	testshared.Full(t)
	w := crowdsOf(t, 21, 30)
	a := ask(t, w, 21*day, func(q *Question) { q.Guard = -1 })
	b := a.Best
	if !a.Adopt || len(b.promise) != a.Stretches || a.Gain != stats.Mean(b.promise) ||
		a.Low > slices.Min(slices.Concat(b.promise, b.logs)) || a.High < slices.Max(slices.Concat(b.promise, b.logs)) {
		t.Fatalf("promises %v, in replays %v: %+v", b.promise, b.logs, a)
	}
	x := asking{Question: &Question{Problem: Problem{Incumbent: a.Compared[0].Config}}, out: &a, bar: leastGain,
		candidates: a.Compared}
	b.promise = []float64{-.01, .005}
	if x.choose(); a.Best == b && a.Adopt || b.Verdict != unsure {
		t.Errorf("%s is adopted: %s", b.Origin, b.Verdict)
	}
}

// TestGuardAndLosersAgree: the wait of a class of widths is one number, the mean over the jobs of all replays, in the
// guard and among the losers, whether the replays were simulated now or kept.
func TestGuardAndLosersAgree(t *testing.T) {
	testshared.Full(t)
	w, kept, classes := crowdsOf(t, 21, 30), &Replays{}, 0
	for range 2 {
		a := ask(t, w, 21*day, func(q *Question) { q.Guard, q.Replays = .001, kept })
		for _, b := range a.Refused.Breaks {
			for _, g := range a.Refused.Losers {
				if g.By == ByWidth && b.What == "mean wait of "+g.Name+"-GPU jobs" {
					classes++
					testshared.Near(t, b.What+" before", g.Before.Mean, b.Before, 1e-6)
					testshared.Near(t, b.What+" after", g.After.Mean, b.After, 1e-6)
				}
			}
		}
		kept.losers = latest[[]Group]{}
	}
	if classes == 0 {
		t.Error("no class of widths is guarded and loses")
	}
}

// TestReplaysAreBounded: the least recently used are forgotten, and few have the results of their jobs.
func TestReplaysAreBounded(t *testing.T) {
	testshared.Full(t)
	var r Replays
	for i := range 5 * keptReplays {
		r.add(fmt.Sprint(i), &replayed{jobs: make([]jobTimes, 1)})
		if x := r.get("0", nil); x == nil || x.jobs != nil {
			t.Fatalf("what is used is %v after %d", x, i)
		}
	}
	if n := len(r.results.recent) + len(r.results.old); n > 2*keptReplays || r.get("1", nil) != nil {
		t.Errorf("%d replays are kept", n)
	}
	var full latest[int]
	for _, key := range []string{"a", "b", "a", "b"} {
		full.put(key, 0, 2)
	}
	if len(full.recent) != 2 || full.old != nil {
		t.Errorf("a part with the key is left: %v, %v", full.recent, full.old)
	}
	kept, w := &Replays{}, crowdsOf(t, 21, 30)
	for days := 14; days <= 21; days++ {
		ask(t, w, time.Duration(days)*day, func(q *Question) { q.Guard, q.Replays = .001, kept })
	}
	if n := len(kept.jobs.recent) + len(kept.jobs.old); n == 0 || n > 2*keptJobs {
		t.Errorf("%d replays are kept with their jobs", n)
	}
	for _, x := range []map[string]*replayed{kept.results.recent, kept.results.old} {
		for key := range x {
			if x[key].jobs != nil {
				t.Fatal("results have those of the jobs")
			}
		}
	}
}

// restless does not end on clusters of more than some GPUs: it wants to be asked again at once.
type restless struct {
	lanes.Line
	over int
	v    *simulator.View
}

func (r *restless) Reset(v *simulator.View, p *simulator.Plan) {
	r.v = v
	r.Line.Reset(v, p)
}

func (r *restless) Plan(p *simulator.Plan) {
	r.Line.Plan(p)
	if r.v.TotalGPUs() > r.over {
		p.WakeAt(r.v.Now())
	}
}

// batched starts jobs when none runs.
type batched struct{ restless }

func (b *batched) Plan(p *simulator.Plan) {
	if p.Free() == b.v.TotalGPUs() {
		b.Line.Plan(p)
	}
}

// endlessOver is a scheduler of one parameter: jobs run in order of submission, in batches if it is 1, and it does not
// end on clusters of more than some GPUs if it is 2.
func endlessOver(t *testing.T, gpus int) (*schedulers.Scheduler, func(n int) space.Config) {
	t.Helper()
	s, first, _ := line(t)
	base, at := s.New, numbered(t)
	s.New = func(c space.Config) simulator.Policy {
		r := restless{Line: *base(first).(*lanes.Line), over: gpus}
		switch {
		case c.Equal(at(2)):
			return &r
		case c.Equal(at(1)):
			return &batched{r}
		}
		return &r.Line
	}
	return s, at
}

// TestEndlessInForce: where the one in force does not end on the larger cluster alone, the others are replayed on it
// too, and the best of them replaces it.
func TestEndlessInForce(t *testing.T) {
	s, at := endlessOver(t, 16)
	a := ask(t, daysOf(t, 12), 11*day, func(q *Question) {
		q.Scheduler, q.Space, q.Incumbent, q.Guard = s, s.Space, at(2), .001
		q.Options.EventBudget = 20_000
		q.Also = []search.Preset{{Name: "batches", Config: at(1)}}
	})
	if !a.Adopt || len(a.Compared) != 3 {
		t.Errorf("%d are compared: %s", len(a.Compared), a.Reason)
	}
	for i := range a.Compared {
		if c := &a.Compared[i]; c.partial || c.failed != (i == 0) {
			t.Errorf("%s: in part %v, failed %v", c.Origin, c.partial, c.failed)
		}
	}
}

// TestEndlessIsRefused: between daily answers a guard refuses what does not end its work.
func TestEndlessIsRefused(t *testing.T) {
	s, at := endlessOver(t, 0)
	w := daysOf(t, 12)
	p := Problem{Scheduler: s, Space: s.Space, Cluster: workload.Uniform(2, 8), Incumbent: at(0),
		Goal: Minimise("avg_jct"), Options: simulator.Options{EventBudget: 20_000}}
	g, err := p.guards(t.Context(), .1, []Scenario{{Arrivals: w.Window(0, day)}}, time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	q := Question{Problem: p, History: RecordedOf(w, 11*day), Guard: .1, Workers: 2}
	breaks, err := q.guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]guard{"replays": breaks, "futures": g.broken} {
		if got, err := broken(t.Context(), at(2)); err != nil || len(got) != 1 || got[0].String() != "does not end its work" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if got, err := broken(t.Context(), at(0)); err != nil || len(got) > 0 {
			t.Errorf("%s, of the one in force: %v, %v", name, got, err)
		}
	}
}

// TestHopeful: of candidates that break a guard, the one with the largest gain is replayed on the larger cluster, but
// not for a candidate that nothing names.
func TestHopeful(t *testing.T) {
	at := numbered(t)
	over := []Constraint{{Metric: "p99_jct", Slack: 200}}
	times := func(jct, p99 float64) *replayed {
		return &replayed{values: map[string]float64{"avg_jct": jct, "p99_jct": p99},
			guarded: map[string]meanTime{"p99 JCT": {100 * p99, 1}}}
	}
	same := func(jct, p99 float64) []*replayed { return []*replayed{times(jct, p99), times(jct, p99)} }
	for _, tt := range []struct {
		name string
		best []*replayed
		with func(*asking)
		want int // the candidate besides the one in force
	}{
		{"the largest gain", same(500, 150), func(*asking) {}, 1},
		{"refused by the scheduler", same(500, 150), func(a *asking) { a.Refused = []space.Config{at(1)} }, 2},
		{"may break a constraint", same(500, 250), func(*asking) {}, 2},
	} {
		a := &asking{Question: &Question{Problem: Problem{Goal: Minimise("avg_jct")}, Guard: .1},
			fields:     []*field{{runs: []run{{"", 0}, {"", 1}}}},
			candidates: []Compared{{Config: at(0)}, {Config: at(1)}, {Config: at(2)}}}
		a.Goal.Constraints = over
		tt.with(a)
		got := a.hopeful([][]*replayed{same(1000, 100), tt.best, same(800, 150)})
		if len(got) != 2 || !got[0].Equal(at(0)) || !got[1].Equal(at(tt.want)) {
			t.Errorf("%s: %v, want %d", tt.name, got, tt.want)
		}
	}
	a := &asking{Question: &Question{Problem: Problem{Goal: Minimise("avg_jct")}, Guard: .1},
		fields:     []*field{{runs: []run{{"", 0}, {"", 1}}}},
		candidates: []Compared{{Config: at(0)}, {Config: at(1), Found: true}, {Config: at(2)}}}
	got := a.hopeful([][]*replayed{same(1000, 100), {times(300, 150), times(1000, 150)}, same(800, 150)})
	if len(got) != 3 {
		t.Errorf("found, and not sure: %v", got)
	}
}
