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
	// Keep: nothing speaks against the configuration.
	Keep Judgement = "keep"
	// Worse: the last good configuration would have done better.
	Worse Judgement = "worse"
	// DemandLeft: jobs are delayed by more than promised, and more arrived than was expected: the
	// configuration is not to blame, as the last good one would do no better.
	DemandLeft Judgement = "demand left"
)

// Verdict is the result of a look at a configuration that was adopted.
type Verdict struct {
	Judgement Judgement `json:"judgement"`
	Reason    string    `json:"reason"`
	// Excess is how far the delay of jobs because of the change lies above the futures' mean, in
	// units of the band above it: above 1 it is beyond.
	Excess float64 `json:"excess"`
	// Suspect reports whether it is, and in every replay, so that the next look is soon.
	Suspect bool `json:"suspect,omitempty"`
	// Against is the number of looks in a row at which all speaks against the configuration.
	Against int `json:"against,omitempty"`
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
	// Against is that of the previous look.
	Against int
	Seed    uint64
}

const (
	// leastAge is the age of a change from which on it is judged.
	leastAge = 15 * time.Minute
	// judgeReplays is how often what arrived is replayed, with other draws of the durations
	// that are not known yet; confirmReplays if that speaks against the change.
	judgeReplays   = 4
	confirmReplays = 16
	// leastBand is the least width of the band above the futures' mean, as a share of the
	// time that jobs spend in the system: few futures may happen to agree.
	leastBand = .0025
	// leastLoss and leastDelay are the least time that jobs spent in the system, or were delayed,
	// because of the change, as shares of the time that they spent there; lossShare and delayShare
	// as shares of the delay under the last good configuration.
	leastLoss, lossShare   = .0075, .1
	leastDelay, delayShare = .03, .2
	// alarmRatio is the least Verdict.Ratio for an alarm.
	alarmRatio = 1.05
	// enoughLooks is the number of looks in a row for an alarm.
	enoughLooks = 2
	// demandSlack is the factor by which demand may leave the range of the futures.
	demandSlack = 1.5
	// demandJobs is by how many jobs it may.
	demandJobs = 10
)

// NextLook is the age of the look after one at an age: the later, the less one more look
// can change, unless the verdict is that the configuration is suspect.
func NextLook(age time.Duration, suspect bool) time.Duration {
	if suspect {
		return age + BurstInterval
	}
	return age + max(BurstInterval, min(age/8, time.Hour).Truncate(BurstInterval))
}

// Judge compares what happened since a change of configuration with what would have happened
// under the last good one. What arrived is replayed under both, from the state at the change, with
// the work that jobs are known to have done; what is not known of their durations is drawn, the same
// for both. The applied configuration is Worse if all of these hold:
//
//   - jobs are delayed more by it in every replay, and by more than in the futures. Delay is time
//     without progress, known from the events also of jobs that have not ended;
//   - that has cost time in the system, at least leastLoss of it and lossShare of the delay that the
//     last good one leaves, or will: the delay is at least leastDelay and delayShare;
//   - replayed to the end of the last job, the last good one gains alarmRatio, and most of
//     the replays agree;
//   - enoughLooks in a row find that.
//
// Demand that no future had delays jobs in both replays, so that it is not blamed on the change. Two
// equal configurations never differ.
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
	var v Verdict
	for _, n := range [...]int{judgeReplays, confirmReplays} {
		c, err := in.compare(ctx, n)
		if errors.Is(err, errNothing) {
			return Verdict{Judgement: Keep, Reason: "Nothing ran or arrived."}, nil
		}
		if err != nil {
			return Verdict{}, err
		}
		v, err = c.verdict(ctx, p)
		if err != nil || v.Against == 0 {
			return v, err
		}
	}
	if v.Against += in.Against; v.Against < enoughLooks {
		v.Reason += ", to be confirmed."
		return v, nil
	}
	v.Judgement = Worse
	v.Reason += "."
	return v, nil
}

// comparison is of the applied configuration with the last good one.
type comparison struct {
	scorer *Scorer
	// seen are means over the replays, least is the least delay because of the change in any.
	seen    Mark
	least   float64
	futures []Mark
}

// replay replays what happened since the change n times under both configurations, until the instant of the look. It
// returns errNothing if there was no job.
func (in *JudgeInput) replay(ctx context.Context, n int) (*Scorer, [][]Mark, error) {
	p := in.Prediction
	s, err := schedulers.Find(in.Scheduler)
	if err != nil {
		return nil, nil, err
	}
	x, err := in.Since(ctx, p.At, n, in.Seed)
	if err != nil {
		return nil, nil, err
	}
	sc, err := NewScorer(&Problem{Scheduler: s, Cluster: in.State.Cluster, Options: in.Simulator, Goal: in.Goal,
		Turn: in.Turn}, x)
	if err != nil {
		return nil, nil, err
	}
	marks, err := sc.courses(ctx, p.Applied, p.LastGood, []time.Duration{in.State.At})
	return sc, marks, err
}

// compare compares what happened since the change with n replays.
func (in *JudgeInput) compare(ctx context.Context, n int) (*comparison, error) {
	p := in.Prediction
	sc, replayed, err := in.replay(ctx, n)
	if err != nil {
		return nil, err
	}
	c := &comparison{scorer: sc, seen: Mark{Arrived: replayed[0][0].Arrived}, least: math.Inf(1),
		futures: p.at(in.State.At - p.At)}
	// A cluster slower than its simulation is not the configuration's fault.
	_, _, observed := in.spent(p.At)
	for i := range replayed {
		m, n := &replayed[i][0], float64(len(replayed))
		m.Delay = min(m.Delay, observed)
		c.seen.Demand += m.Demand / n
		c.seen.JobTime += m.JobTime / n
		c.seen.Delay += m.Delay / n
		c.seen.InsteadJobTime += m.InsteadJobTime / n
		c.seen.InsteadDelay += m.InsteadDelay / n
		c.least = min(c.least, m.more())
	}
	return c, nil
}

// verdict says what a comparison shows; Against is 1 if all speaks for going back.
func (c *comparison) verdict(ctx context.Context, p *Prediction) (Verdict, error) {
	seen := &c.seen
	v := Verdict{Judgement: Keep, Excess: p.excess(seen, c.futures)}
	what := fmt.Sprintf("%.0f job-hours, of which %.1f without progress, %+.1f by the change", seen.JobTime/3600,
		seen.Delay/3600, seen.more()/3600)
	if v.Suspect = v.Excess > 1 && c.least > 0; !v.Suspect {
		v.Reason = what + ", as expected."
		if left := demandLeft(seen, c.futures); left != "" {
			v.Judgement, v.Reason = DemandLeft, what+": "+left+", the configuration is not to blame."
		}
		return v, nil
	}
	lost := seen.JobTime - seen.InsteadJobTime
	if lost < max(leastLoss*seen.JobTime, lossShare*seen.InsteadDelay) &&
		seen.more() < max(leastDelay*seen.JobTime, delayShare*seen.InsteadDelay) {
		v.Reason = what + ", too little to go back."
		return v, nil
	}
	applied, good, err := c.scorer.compare(ctx, p.Applied, p.LastGood)
	if err != nil {
		return v, err
	}
	v.Ratio = search.Gain(good, applied).Ratio
	what += fmt.Sprintf("; on what arrived, the configuration before it saves %s", Influence(v.Ratio))
	if v.Ratio < alarmRatio || applied.OK() && !agrees(&good, &applied) {
		v.Reason = what + ", too little to go back."
		return v, nil
	}
	v.Against, v.Reason = 1, what
	return v, nil
}

// spent are Mark.JobTime and Mark.Delay as observed since an instant, and the number of the jobs.
func (s *Snapshot) spent(since time.Duration) (jobs int, jobTime, delay float64) {
	did := s.Simulator.Work(s.Ledger.Spells(since, s.State.At), since, s.State.At, s.Scattered)
	total, without := time.Duration(0), time.Duration(0)
	add := func(j *workload.Job, until time.Duration) {
		if s.State.Cluster.Fits(j) {
			there := until - max(j.Submit, since)
			jobs, total, without = jobs+1, total+there, without+there-did[j.ID]
		}
	}
	for i := range s.State.Jobs {
		add(&s.State.Jobs[i].Job, s.State.At)
	}
	ended := s.Ledger.Finishes(since+1, s.State.At+1)
	for i := range ended {
		add(&ended[i].Job, ended[i].End)
	}
	return jobs, total.Seconds(), without.Seconds()
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
	return (seen.more() - mean) / max(most-mean, leastBand*seen.JobTime, 1)
}

// demandLeft says in what more arrived than in the futures, "" if it did not.
func demandLeft(seen *Mark, futures []Mark) string {
	var most Mark
	for _, f := range futures {
		most.Arrived, most.Demand = max(most.Arrived, f.Arrived), max(most.Demand, f.Demand)
		most.Delay = max(most.Delay, f.Delay)
	}
	switch {
	case seen.Delay <= most.Delay:
		return ""
	case seen.Arrived > demandSlack*most.Arrived+demandJobs:
		return fmt.Sprintf("%.0f jobs arrived where at most %.0f were expected", seen.Arrived, most.Arrived)
	case seen.Demand > demandSlack*most.Demand:
		return fmt.Sprintf("%.0f GPU-hours arrived where at most %.0f were expected", seen.Demand/3600,
			most.Demand/3600)
	}
	return ""
}
