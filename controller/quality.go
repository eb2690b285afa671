package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/round"
)

// ForecastQuality is how forecasts of past hours compare with the truth.
type ForecastQuality struct {
	*generation.Grades
	Zero   time.Time
	At     time.Time // event time
	Method generation.Method
	Reason string // why Grades is nil
	// Limited is why the first hours are forecast from less than 28 days of arrivals; empty if they are not.
	Limited string
}

// graded is the last ForecastQuality of a scheduler.
type graded struct {
	ForecastQuality
	from, to time.Duration // as asked for
	clockSet int64
	grader   *generation.Grader
}

// longestGraded bounds the time that is graded at once: ledgers go back for 30 days, and forecasts need a past.
const longestGraded = 14 * 24 * time.Hour

// ForecastQuality grades the forecasts of past hours as rounds make them, with the seed of the scheduler's rounds. A
// zero to is the latest event, a zero from a week before. One scheduler's are graded at a time; grades are kept until
// the next full hour.
func (s *Service) ForecastQuality(ctx context.Context, id string, from, to time.Time) (out ForecastQuality, err error) {
	p, err := s.readPast(ctx, id)
	if err != nil {
		return out, err
	}
	v := p.m.snapshot.Load()
	switch {
	case v.Type == External:
		return ForecastQuality{Reason: "no round forecasts an external scheduler"}, nil
	case p.zero.IsZero():
		return ForecastQuality{Reason: "there are no events yet"}, nil
	}
	begin, end := p.hours(from, to)
	if end-begin > longestGraded {
		return out, fmt.Errorf("%w: %s to %s is longer than the 14 days that are graded at once", rollout.ErrState,
			p.zero.Add(begin).Format(time.RFC3339), p.zero.Add(end).Format(time.RFC3339))
	}
	select { // grades take memory for all jobs of their time
	case s.grades <- struct{}{}:
		defer func() { <-s.grades }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	method := v.Policy.WithDefaults().Rule.Generator()
	p.m.mu.Lock()
	last := p.m.graded
	p.m.mu.Unlock()
	same := last.grader != nil && last.clockSet == v.ClockSet && last.Method == method
	if same && last.from == begin && last.to == end {
		s.keepGrades(p.m, last)
		last.At = p.zero.Add(p.at)
		return last.ForecastQuality, nil
	}
	if !same {
		last = graded{clockSet: v.ClockSet, grader: generation.NewGrader(p.zero, method)}
	}
	last.from, last.to = begin, end
	last.ForecastQuality = ForecastQuality{Zero: p.zero, At: p.zero.Add(p.at), Method: method}
	seen := v.at(p.ledger, p.at)
	kept := v.horizon(p.at)
	last.Grades, err = seen.Grade(ctx, last.grader, begin, end, kept, v.settings(1).Seed)
	if err == nil {
		last.Limited = limitedGrades(last.Grades, p.zero, begin, kept)
	}
	if errors.Is(err, generation.ErrShortHistory) {
		last.Reason, err = err.Error(), nil
	}
	if err != nil {
		return out, err
	}
	s.keepGrades(p.m, last)
	return last.ForecastQuality, nil
}

// limitedGrades is the Limited of grades of hours from begin on, with events since kept.
func limitedGrades(g *generation.Grades, zero time.Time, begin, kept time.Duration) string {
	since, than := kept, "rounds knew 28 days of them"
	if kept <= 0 {
		since, than = g.Since, "rounds knew no more"
	}
	full := since + round.ArrivalMemory
	if g.From >= full || kept <= 0 && begin >= round.ArrivalMemory { // then Since is not the first of all arrivals
		return ""
	}
	return fmt.Sprintf("forecasts of hours before %s know arrivals since %s alone; %s",
		zero.Add(full).Format(time.RFC3339), zero.Add(since).Format(time.RFC3339), than)
}

// keptGrades bounds the schedulers whose grades are kept: each takes memory for the forecasts of all hours.
const keptGrades = 8

// keepGrades keeps the grades of a scheduler in place of those that were not asked for as long. The caller must have
// the room of grades.
func (s *Service) keepGrades(m *schedulerState, g graded) {
	keep := func(m *schedulerState, g graded) {
		m.mu.Lock()
		m.graded = g
		m.mu.Unlock()
	}
	keep(m, g)
	s.graded = append(slices.DeleteFunc(s.graded, func(o *schedulerState) bool { return o == m }), m)
	if len(s.graded) > keptGrades {
		keep(s.graded[0], graded{})
		s.graded = slices.Delete(s.graded, 0, 1)
	}
}

// week are the instants of a window: a zero to is the latest event, a zero from a week before.
func (p *past) week(from, to time.Time) (begin, end time.Duration) {
	end = p.at
	if !to.IsZero() {
		end = min(end, to.Sub(p.zero))
	}
	begin = end - 7*24*time.Hour
	if !from.IsZero() {
		begin = from.Sub(p.zero)
	}
	return begin, end
}

// hours is a week that ends on the last full hour until its end: the same until the next one.
func (p *past) hours(from, to time.Time) (begin, end time.Duration) {
	begin, end = p.week(from, to)
	whole := p.zero.Add(end).UTC().Truncate(time.Hour).Sub(p.zero)
	if from.IsZero() {
		begin -= end - whole
	}
	return begin, whole
}
