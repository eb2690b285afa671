package round

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/workload"
)

// Judgement is what Judge finds.
type Judgement string

const (
	// Early: too little has happened since the change.
	Early Judgement = "early"
	// Keep: nothing speaks for going back.
	Keep Judgement = "keep"
	// Worse: the last good configuration would have done better.
	Worse Judgement = "worse"
	// DemandLeft: what is observed is worse than promised, and so is what arrived: the
	// configuration is not to blame.
	DemandLeft Judgement = "demand left"
)

// Verdict is the result of a look at a configuration that was adopted.
type Verdict struct {
	Judgement Judgement `json:"judgement"`
	Reason    string    `json:"reason"`
	// Excess is how far the time that jobs spend in the system because of the change
	// lies above the futures' mean, in units of the band above it: above 1 it is beyond.
	Excess float64 `json:"excess"`
	// Suspect reports whether a next look may find it Worse because of this one.
	Suspect bool `json:"suspect,omitempty"`
	// Ratio is the controllable objective of the applied configuration over that of the
	// last good one, replayed on what arrived; 0 if nothing was replayed.
	Ratio float64 `json:"ratio,omitempty"`
}

// JudgeInput is what Judge decides on. Its Snapshot is of the instant of the look.
type JudgeInput struct {
	Snapshot
	Scheduler  string
	Goal       Goal
	Prediction *Prediction
	// Suspect is that of the previous look.
	Suspect bool
	Seed    uint64
}

const (
	// leastAge is the age of a change from which on it is judged.
	leastAge = 15 * time.Minute
	// judgeReplays is how often what arrived is replayed, with other draws of the durations
	// that are not known yet.
	judgeReplays = 4
	// leastBand is the least width of the band above the futures' mean, as a share of the
	// time that jobs spend in the system: few futures may happen to agree.
	leastBand = .0025
	// rollbackRatio is the least Verdict.Ratio for which to go back.
	rollbackRatio = 1.05
	// demandSlack is the factor by which demand may leave the range of the futures.
	demandSlack = 1.5
	// demandJobs is by how many jobs it may.
	demandJobs = 10
)

// NextLook is the age of the look after one at an age: the later, the less one more look
// can change.
func NextLook(age time.Duration) time.Duration {
	const tick = 5 * time.Minute
	return age + max(tick, min(age/8, time.Hour).Truncate(tick))
}

// Distrusted returns the settings of rounds for some time after a configuration did worse
// than promised: only known configurations, and twice the gain.
func (s Settings) Distrusted() Settings {
	s.Search, s.MinRatio = SearchPortfolio, 2*s.MinRatio-1
	return s
}

// Judge compares what happened since a change of configuration with what was promised.
// It finds the applied configuration Worse only if all of these hold: jobs spent more
// time in the system than they would have under the last good configuration, in every
// replay of what arrived, and more so than in any future; the demand was like that of the
// futures; and the replays gain rollbackRatio with the last good one. A replay starts
// from the state at the change and draws the durations that are not known yet. It takes
// two such looks, or one beyond twice the band of the futures.
func Judge(ctx context.Context, in *JudgeInput) (Verdict, error) {
	p := in.Prediction
	age := in.State.At - p.At
	switch {
	case age < leastAge:
		text := fmt.Sprintf("In force for %s only.", units.Duration(age.Seconds()))
		return Verdict{Judgement: Early, Reason: text}, nil
	case age > p.Until():
		text := fmt.Sprintf("In force for %s, longer than was forecast.", units.Duration(age.Seconds()))
		return Verdict{Judgement: Keep, Reason: text}, nil
	}
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return Verdict{}, err
	}
	x, err := in.Since(ctx, p.At, judgeReplays, in.Seed)
	if err != nil {
		return Verdict{}, err
	}
	sc, err := NewScorer(&Problem{Scheduler: s, Cluster: in.State.Cluster, Options: in.Simulator, Goal: in.Goal}, x)
	if errors.Is(err, errNothing) {
		return Verdict{Judgement: Keep, Reason: "Nothing ran or arrived."}, nil
	}
	if err != nil {
		return Verdict{}, err
	}
	replayed, err := sc.courses(ctx, p.Applied, p.LastGood, []time.Duration{in.State.At})
	if err != nil {
		return Verdict{}, err
	}
	// A cluster slower than its simulation is not the configuration's fault.
	observed := in.jobTime(p.At)
	seen, least := Mark{Arrived: replayed[0][0].Arrived}, math.Inf(1)
	for i := range replayed {
		m, n := &replayed[i][0], float64(len(replayed))
		m.JobTime = min(m.JobTime, observed)
		seen.Demand += m.Demand / n
		seen.JobTime += m.JobTime / n
		seen.Instead += m.Instead / n
		least = min(least, m.more())
	}

	v := Verdict{Judgement: Keep}
	futures := p.at(age)
	v.Excess = p.excess(&seen, futures)
	switch left := leaves(&seen, futures); {
	case !(v.Excess > 1 && least > 0):
		v.Reason = fmt.Sprintf("%.0f job-hours, %+.1f by the change, as expected.", observed/3600, seen.more()/3600)
		return v, nil
	case left != "":
		v.Judgement, v.Reason = DemandLeft, left
		return v, nil
	}
	applied, good, err := sc.compare(ctx, p.Applied, p.LastGood)
	if err != nil {
		return v, err
	}
	v.Ratio = search.Gain(good, applied).Ratio
	v.Suspect = v.Ratio >= rollbackRatio && (!applied.OK() || agrees(&good, &applied))
	what := fmt.Sprintf("The change cost %.1f of %.0f job-hours; on what arrived, the configuration before it saves %s",
		seen.more()/3600, observed/3600, Influence(v.Ratio))
	switch {
	case !v.Suspect:
		v.Reason = what + ", too little to go back."
	case in.Suspect || v.Excess >= 2:
		v.Judgement, v.Reason = Worse, what+"."
	default:
		v.Reason = what + ", to be confirmed."
	}
	return v, nil
}

// jobTime is Mark.JobTime as observed since an instant.
func (s *Snapshot) jobTime(since time.Duration) float64 {
	sum := 0.0
	add := func(j *workload.Job, until time.Duration) {
		if s.State.Cluster.Fits(j) {
			sum += (until - max(j.Submit, since)).Seconds()
		}
	}
	for i := range s.State.Jobs {
		add(&s.State.Jobs[i].Job, s.State.At)
	}
	ended := s.Ledger.Finishes(since+1, s.State.At+1)
	for i := range ended {
		add(&ended[i].Job, ended[i].End)
	}
	return sum
}

// excess is Verdict.Excess. A change that does worse in the futures too, in which it was
// not chosen, is promised to cost nothing.
func (p *Prediction) excess(seen *Mark, futures []Mark) float64 {
	mean, most := 0.0, math.Inf(-1)
	for i := range futures {
		more := futures[i].more()
		if p.Ratio < 1 {
			more = min(more, 0)
		}
		mean += more / float64(len(futures))
		most = max(most, more)
	}
	return (seen.more() - mean) / max(most-mean, leastBand*seen.Instead, 1)
}

// leaves says in what the demand left that of the futures, "" if it did not.
func leaves(seen *Mark, futures []Mark) string {
	low, high := futures[0], futures[0]
	for _, f := range futures[1:] {
		low.Arrived, high.Arrived = min(low.Arrived, f.Arrived), max(high.Arrived, f.Arrived)
		low.Demand, high.Demand = min(low.Demand, f.Demand), max(high.Demand, f.Demand)
	}
	switch {
	case seen.Arrived > demandSlack*high.Arrived+demandJobs || seen.Arrived < low.Arrived/demandSlack-demandJobs:
		return fmt.Sprintf("%.0f jobs arrived where %.0f to %.0f were expected: the configuration is not to blame.",
			seen.Arrived, low.Arrived, high.Arrived)
	case seen.Demand > demandSlack*high.Demand:
		return fmt.Sprintf("%.0f GPU-hours arrived where %.0f to %.0f were expected: the configuration is not to blame.",
			seen.Demand/3600, low.Demand/3600, high.Demand/3600)
	}
	return ""
}
