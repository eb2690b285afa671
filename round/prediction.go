package round

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/simulator"
	"github.com/autosched/autosched/space"
)

// Prediction is the effect that a round expected of a configuration that it adopted, for Judge to
// compare with the course of events.
type Prediction struct {
	// At is the instant of the change from LastGood to Applied.
	At       time.Duration `json:"at"`
	Applied  space.Config  `json:"applied"`
	LastGood space.Config  `json:"last_good"`
	// Promised and Before are the goal's objective of Applied and LastGood in each
	// future, Ratio that of their controllable parts (Decision.Ratio).
	Promised []float64 `json:"promised"`
	Before   []float64 `json:"before"`
	Ratio    float64   `json:"ratio"`
	// Step is the time between the marks of a future, of which the first is at At.
	Step    time.Duration `json:"step"`
	Futures [][]Mark      `json:"futures"`
}

// Mark is the course of a cluster between a change and an instant.
type Mark struct {
	// Arrived is the number of jobs submitted, Demand their duration times their GPUs,
	// in GPU-seconds.
	Arrived float64 `json:"arrived"`
	Demand  float64 `json:"demand_gpu_s"`
	// JobTime is the integral of the number of active jobs, in seconds: the growth of
	// their JCTs. Delay is the part of it that they made no progress in: they waited, restarted,
	// or ran more slowly than alone. The Instead are the same under the last good configuration.
	JobTime        float64 `json:"job_s"`
	Delay          float64 `json:"delay_s"`
	InsteadJobTime float64 `json:"instead_s"`
	InsteadDelay   float64 `json:"instead_delay_s"`
}

// more is the delay of the jobs because of the change, in seconds.
func (m *Mark) more() float64 { return m.Delay - m.InsteadDelay }

const (
	// markStep is the time between the marks of a Prediction, or the horizon if that is less.
	markStep = time.Hour
	// predicted is its number of futures: the largest of eight is exceeded by chance
	// once in nine times.
	predicted = 8
)

// Predict predicts the effect of a change from lastGood to applied that the round in
// decided on, on fresh futures: on those that it was chosen on, the best of many is partly
// lucky. There are no Futures if these have no job.
func Predict(ctx context.Context, in Input, applied, lastGood space.Config) (*Prediction, error) {
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return nil, err
	}
	seed := rng.Stream("prediction", in.Seed, uint64(in.Round)).Uint64()
	futures, err := in.Forecast(ctx, in.Engine, in.Horizon, predicted, seed)
	if err != nil {
		return nil, err
	}
	problem := Problem{Scheduler: s, Cluster: in.State.Cluster, Options: in.Simulator, Goal: in.Goal,
		Turn: in.Turn}
	sc, err := NewScorer(&problem, futures)
	if errors.Is(err, errNothing) {
		return &Prediction{At: in.State.At, Applied: applied, LastGood: lastGood}, nil
	}
	if err != nil {
		return nil, err
	}
	promised, before, err := sc.compare(ctx, applied, lastGood)
	if err != nil {
		return nil, err
	}
	p := &Prediction{At: in.State.At, Applied: applied, LastGood: lastGood, Promised: promised.Measurement.Values,
		Before: before.Measurement.Values, Ratio: search.Gain(promised, before).Ratio,
		Step: min(markStep, in.Horizon)}
	var marks []time.Duration
	for at := p.At; at <= p.At+in.Horizon; at += p.Step {
		marks = append(marks, at)
	}
	p.Futures, err = sc.courses(ctx, applied, lastGood, marks)
	return p, err
}

// Until is the age up to which the prediction adds to the elapsed time.
func (p *Prediction) Until() time.Duration {
	if len(p.Futures) == 0 {
		return 0
	}
	return p.Step * time.Duration(len(p.Futures[0])-1)
}

// at returns the marks of all futures at an age, interpolated.
func (p *Prediction) at(age time.Duration) []Mark {
	k := min(int(age/p.Step), len(p.Futures[0])-2)
	f := float64(age-p.Step*time.Duration(k)) / float64(p.Step)
	out := make([]Mark, len(p.Futures))
	for i, marks := range p.Futures {
		a, b := marks[k], marks[k+1]
		part := func(a, b float64) float64 { return a + f*(b-a) }
		out[i] = Mark{part(a.Arrived, b.Arrived), part(a.Demand, b.Demand), part(a.JobTime, b.JobTime),
			part(a.Delay, b.Delay), part(a.InsteadJobTime, b.InsteadJobTime), part(a.InsteadDelay, b.InsteadDelay)}
	}
	return out
}

// ReadPrediction reads the JSON form of a Prediction, whose configurations are of a space.
func ReadPrediction(text []byte, sp *space.Space) (*Prediction, error) {
	type plain Prediction
	var in struct {
		plain
		Applied  json.RawMessage `json:"applied"`
		LastGood json.RawMessage `json:"last_good"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	p := Prediction(in.plain)
	var err, err2 error
	p.Applied, err = sp.ParseJSON(in.Applied)
	p.LastGood, err2 = sp.ParseJSON(in.LastGood)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return &p, nil
}

// compare measures two configurations, of which the goal is relative to the second.
func (sc *Scorer) compare(ctx context.Context, first, second space.Config) (a, b search.Trial, err error) {
	if err := sc.CompareWith(ctx, second); err != nil {
		return a, b, err
	}
	a.Config, b.Config = first, second
	if a.Measurement, err = sc.Measure(ctx, first); err != nil {
		return a, b, err
	}
	b.Measurement, err = sc.Measure(ctx, second)
	return a, b, err
}

// courses simulates the course under a configuration, and under another instead, on
// every scenario until some instants.
func (sc *Scorer) courses(ctx context.Context, c, instead space.Config, at []time.Duration) ([][]Mark, error) {
	p := sc.players.Get().(*player)
	defer sc.players.Put(p)
	out := make([][]Mark, len(sc.scenarios))
	for i := range sc.scenarios {
		x := &sc.scenarios[i]
		out[i] = make([]Mark, len(at))
		if err := sc.course(ctx, p, x, instead, at, out[i]); err != nil {
			return nil, err
		}
		for k := range at {
			m := &out[i][k]
			m.InsteadJobTime, m.InsteadDelay = m.JobTime, m.Delay
		}
		if err := sc.course(ctx, p, x, c, at, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// course simulates a configuration on a scenario until some instants, and sets all but
// Instead of the marks at each. If its events are exhausted, Delay is infinite.
func (sc *Scorer) course(ctx context.Context, p *player, x *Scenario, c space.Config, at []time.Duration,
	marks []Mark) error {
	o := sc.options
	o.EventBudget, o.Past = eventsPerJob*x.Jobs()+1000, x.Past
	if err := p.sim.Resume(x.State, x.Left, x.Arrivals, sc.scheduler.New(c), o); err != nil {
		return err
	}
	for k, t := range at {
		m := Mark{InsteadJobTime: marks[k].InsteadJobTime, InsteadDelay: marks[k].InsteadDelay}
		err := p.sim.RunUntil(ctx, t)
		switch {
		case errors.Is(err, simulator.ErrBudget):
			m.Delay = math.MaxFloat32
		case err != nil:
			return err
		}
		for id := range p.sim.Submitted() {
			n := float64(p.sim.JobMembers(id))
			end, ended := p.sim.JobEnded(id)
			if !ended {
				end = t
			}
			spent, work := end-max(p.sim.JobSubmit(id), x.State.At), p.sim.Spec(id).Duration
			if int(id) < len(x.Left) {
				work = x.Left[id]
			}
			m.JobTime += n * spent.Seconds()
			m.Delay += n * (spent - work + p.sim.JobLeft(id)).Seconds()
			if int(id) >= len(x.Left) {
				m.Arrived += n
				m.Demand += p.sim.Spec(id).Duration.Seconds() * float64(p.sim.JobDemand(id))
			}
		}
		marks[k] = m
	}
	return nil
}
