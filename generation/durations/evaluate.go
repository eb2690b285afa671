package durations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
)

// EvaluateOptions say how to score the predictor beside the rules majority and elapsed.
type EvaluateOptions struct {
	// TrainShare is the share of the jobs, the first submitted, that are learnt
	// from; default 0.7 (the paper, section 4.1). Of these, only the part known
	// at the submission of the next job is used.
	TrainShare float64
	// Model is asked instead of one that is learnt, about jobs that were submitted after those
	// it has learnt from.
	Model   *Model
	Seed    uint64
	Workers int
	// Progress gets the step, and its progress.
	Progress func(what string, done, of int)
}

// Evaluation has the scores of methods on the questions about the later jobs of a
// history.
type Evaluation struct {
	TrainJobs int           `json:"train_jobs"`
	TestJobs  int           `json:"test_jobs"`
	Lessons   int           `json:"lessons"` // questions learnt from
	CutAt     time.Duration `json:"-"`       // when the first job that is not learnt from was submitted
	// Queries has the predictor's scores by kind of question, in the order of Kinds.
	Queries []QueryScore `json:"queries"`
	// Methods has the scores of the predictor and the rules.
	Methods []MethodScore `json:"methods"`
}

// QueryScore is a kind of questions with its scores.
type QueryScore struct {
	Kind string `json:"query"`
	Score
	Majority  float64 `json:"majority"`     // accuracy of the most frequent class
	Elapsed   float64 `json:"elapsed_rule"` // accuracy of the elapsed-time rule
	Undecided struct {
		Score
		Majority float64 `json:"majority"`
		Elapsed  float64 `json:"elapsed_rule"`
	} `json:"undecided"` // of jobs that have not run for the last bound yet
	// KS is Kolmogorov and Smirnov's distance of the remaining times drawn from the
	// true ones; KSHistory that of times drawn without a class.
	KS        float64 `json:"ks"`
	KSHistory float64 `json:"ks_history"`
}

// MethodScore is a method with its scores on the kinds of questions.
type MethodScore struct {
	Method    string           `json:"method"`
	Features  int              `json:"features"`
	TrainS    float64          `json:"train_s"`
	Per1000   float64          `json:"inference_s_per_1000"` // without features
	Scores    map[string]Score `json:"scores"`
	Undecided map[string]Score `json:"undecided"`
}

// Evaluate trains on the first jobs of a history that has ended, and asks about
// the others. clock measures wall time; nil leaves times out.
func Evaluate(ctx context.Context, history []Record, zero time.Time, o EvaluateOptions,
	clock func() time.Time) (*Evaluation, error) {
	if o.TrainShare == 0 {
		o.TrainShare = .7
	}
	if o.TrainShare <= 0 || o.TrainShare >= 1 {
		return nil, fmt.Errorf("durations: a share of %g of the jobs to learn from is not between 0 and 1",
			o.TrainShare)
	}
	cut := int(float64(len(history)) * o.TrainShare)
	if o.Model != nil {
		for cut < len(history) && !zero.Add(history[cut].Submit).After(o.Model.Trained.To) {
			cut++
		}
		if cut == len(history) {
			return nil, errors.New("durations: the model has learnt from all these jobs")
		}
	}
	if cut == 0 || cut >= len(history) {
		return nil, errors.New("durations: too few jobs to learn from some and ask about others")
	}
	run := &evaluation{ctx: ctx, o: o, clock: clock, history: history, zero: zero, cut: cut,
		asked: make([]*Examples, len(Kinds)), usual: make([]Classifier, len(Kinds))}
	return run.all()
}

type evaluation struct {
	ctx     context.Context
	o       EvaluateOptions
	clock   func() time.Time
	history []Record
	zero    time.Time
	cut     int
	lessons *Examples
	asked   []*Examples  // by kind
	usual   []Classifier // the most frequent class of the questions learnt from, by kind
}

func (v *evaluation) progress(what string, done, of int) {
	if v.o.Progress != nil {
		v.o.Progress(what, done, of)
	}
}

func (v *evaluation) all() (*Evaluation, error) {
	at := v.history[v.cut].Submit
	known := Known(v.history[:v.cut], at)
	v.progress("features", 0, 1)
	var err error
	if v.lessons, err = Lessons(v.ctx, known, v.o.Seed); err != nil {
		return nil, err
	}
	if v.lessons.Len() == 0 {
		return nil, errors.New("durations: no job's class was known when the training ended")
	}
	for k := range Kinds {
		var later []Question
		before := &Examples{}
		for _, q := range Kinds[k].Ask(v.history, v.o.Seed) {
			if !decided(&v.history[q.Job]) {
				continue
			}
			if q.Job >= v.cut {
				later = append(later, q)
			} else if q.At < at && decided(&known[q.Job]) {
				before.Class = append(before.Class, float64(ClassOf(known[q.Job].Ran)))
			}
		}
		v.usual[k] = &majority{frequencies(before)}
		inTime(later)
		if v.asked[k], err = Extract(v.ctx, v.history, later); err != nil {
			return nil, err
		}
	}
	out := &Evaluation{TrainJobs: v.cut, TestJobs: len(v.history) - v.cut, Lessons: v.lessons.Len(), CutAt: at}
	s := &MethodScore{Method: "boosted"}
	var main Classifier
	if m := v.o.Model; m != nil {
		out.Lessons = m.Lessons
		s.Method, s.Features, main = "model "+m.Version, len(m.Features), m.Classifier()
	} else {
		began := v.now()
		b, err := boost(v.ctx, v.lessons, LearnOptions{Seed: v.o.Seed, Workers: v.o.Workers,
			Progress: func(done, of int) { v.progress(s.Method, done, of) }})
		if err != nil {
			return nil, err
		}
		s.TrainS, s.Features, main = v.now().Sub(began).Seconds(), len(b.columns), b
	}
	majority, rule := &MethodScore{Method: "majority"}, &MethodScore{Method: "elapsed", Features: 1}
	v.ask(s, main)
	v.ask(majority, learnMajority(v.lessons))
	v.ask(rule, learnElapsed(v.lessons))
	if err := v.ctx.Err(); err != nil {
		return nil, err
	}
	out.Methods = []MethodScore{*s, *majority, *rule}
	draws := NewDraws(known)
	for k, kind := range Kinds {
		q := QueryScore{Kind: kind.Name, Score: s.Scores[kind.Name], Majority: majority.Scores[kind.Name].Accuracy,
			Elapsed: rule.Scores[kind.Name].Accuracy}
		q.Undecided.Score = s.Undecided[kind.Name]
		q.Undecided.Majority, q.Undecided.Elapsed = majority.Undecided[kind.Name].Accuracy,
			rule.Undecided[kind.Name].Accuracy
		q.KS, q.KSHistory = v.drawn(draws, main, k)
		out.Queries = append(out.Queries, q)
	}
	return out, nil
}

// ask scores a classifier on everything.
func (v *evaluation) ask(s *MethodScore, c Classifier) {
	s.Scores, s.Undecided = map[string]Score{}, map[string]Score{}
	began := v.now()
	asked := 0
	p := make([]float64, Classes)
	for k, kind := range Kinds {
		by := c
		if _, ok := c.(*majority); ok {
			by = v.usual[k]
		}
		var all, undecided scorer
		e := v.asked[k]
		for i := range e.Questions {
			by.Probabilities(p, e.X.Row(i))
			all.add(p, int(e.Class[i]))
			if e.Ran[i] < Bounds[len(Bounds)-1].Seconds() {
				undecided.add(p, int(e.Class[i]))
			}
		}
		asked += e.Len()
		s.Scores[kind.Name], s.Undecided[kind.Name] = all.score(), undecided.score()
	}
	if asked > 0 {
		s.Per1000 = v.now().Sub(began).Seconds() / float64(asked) * 1000
	}
}

func (v *evaluation) now() time.Time {
	if v.clock == nil {
		return time.Time{}
	}
	return v.clock()
}

// drawn compares remaining times drawn for the questions of a kind with the true
// ones: the classifier's, and draws from history alone. The time that a job has run
// is left out of all of them, or the same number on both sides would make them
// look alike.
func (v *evaluation) drawn(d *Draws, c Classifier, kind int) (ks, plain float64) {
	e := v.asked[kind]
	r := rng.Stream("drawn durations", v.o.Seed, uint64(kind))
	p := make([]float64, Classes)
	got, base, truth := make([]float64, e.Len()), make([]float64, e.Len()), make([]float64, e.Len())
	for i, q := range e.Questions {
		j, ran := v.history[q.Job].Job, time.Duration(e.Ran[i]*float64(time.Second))
		c.Probabilities(p, e.X.Row(i))
		got[i] = (d.Draw(r, j, p, ran) - ran).Seconds()
		d.Plain(p, j, ran)
		base[i] = (d.Draw(r, j, p, ran) - ran).Seconds()
		truth[i] = e.Total[i] - e.Ran[i]
	}
	return stats.KS(got, truth), stats.KS(base, truth)
}
