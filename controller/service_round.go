package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/autosched/autosched/generation"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// dueRound is the last round whose instant, its number times the interval, lies
// before an event time: what happened at the instant itself belongs to it.
func dueRound(at, interval time.Duration) int64 {
	at--
	n := int64(at / interval)
	if at < 0 && at%interval != 0 {
		n--
	}
	return n
}

// startRound starts the newest round that is due, unless one is under way: that
// one looks again when it ends, so rounds passed meanwhile become one. t.mu is
// held.
func (s *Service) startRound(t *tuned) {
	v := t.view.Load()
	if t.deciding || t.setting || v.Paused || v.Zero.IsZero() || t.status.Events == 0 {
		return
	}
	number := dueRound(t.latest, v.Policy.UpdateInterval)
	if number <= v.Round {
		return
	}
	s.mu.RLock()
	closed := s.closed
	if !closed {
		s.wg.Add(1) // Close sets closed before it waits
	}
	s.mu.RUnlock()
	if closed {
		return
	}
	t.deciding = true
	ledger, clock, interval := t.ledger, v.ClockSet, v.Policy.UpdateInterval
	go func() {
		defer s.wg.Done()
		began := time.Now() // for what operators see; nothing is decided by it
		text, err := s.round(t, ledger, number, clock, interval)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.deciding = false
		t.drain()
		t.forget(t.view.Load().horizon())
		if s.ctx.Err() != nil {
			return
		}
		t.status.Rounds++
		s.roundDuration.WithLabelValues(t.id).Observe(time.Since(began).Seconds())
		t.status.LastDecision, t.status.LastError = text, ""
		if err != nil {
			t.status.LastError = err.Error()
			t.status.Failures++
			s.o.Log.Error("round failed", "scheduler", t.id, "round", number, "err", err)
		} else {
			s.o.Log.Info("round decided", "scheduler", t.id, "round", number, "decision", text)
		}
		s.startRound(t)
	}()
}

// round decides one round and publishes what it adopts. The ledger is its own
// until it returns. A round that failed counts as decided: the next one is due
// an interval later. It counts for nothing if the clock, set clock times by then,
// was set meanwhile.
func (s *Service) round(t *tuned, ledger *workload.Ledger, number, clock int64, interval time.Duration) (text string, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-s.ctx.Done():
		return "", s.ctx.Err()
	}
	v := t.view.Load()
	p := v.Policy
	p.UpdateInterval = interval // the round's number counts these, whatever was set while it waited
	at := time.Duration(number) * p.UpdateInterval
	served := v.Served
	incumbent, revision := v.incumbent(t.space)
	in := round.Input{
		Scheduler: v.Type, Space: t.space, Objective: v.Objective,
		State: ledger.State(at), Ledger: ledger, Zero: v.Zero,
		Incumbent: incumbent, Refused: v.refused(), Seed: p.Seed, Round: int(number), Experience: v.Experience,
		Engine:   t.foresight(v.Zero),
		Settings: round.Settings{Horizon: p.Horizon, Futures: p.Futures, Budget: p.Budget, Workers: s.o.Workers, MinRatio: p.MinRatio},
	}
	d, decideErr := decideSafely(s.ctx, s.o.Decide, in)
	if s.ctx.Err() != nil {
		return "", s.ctx.Err()
	}
	ledger.Forget(at - round.Retention) // no later round looks further back
	if decideErr == nil && d.Adopt {
		decideErr = checkDecision(t.space, &d)
	}
	err = s.update(s.ctx, t, func(v *view) (*Change, error) {
		switch {
		case v.ClockSet != clock:
			text = "dropped: the event clock was set while the round was decided"
			return nil, nil
		case v.Paused:
			text = "dropped: tuning was paused while the round was decided"
			return nil, nil
		case v.Objective != in.Objective:
			text = "dropped: the objective was changed while the round was decided"
			return nil, nil
		}
		c := &Change{Scheduler: v.Scheduler}
		c.Scheduler.Round = number
		if v.Policy.UpdateInterval != p.UpdateInterval {
			c.Scheduler.Round = max(v.Round, dueRound(at+1, v.Policy.UpdateInterval))
		}
		if decideErr != nil {
			return c, nil
		}
		if json.Valid(d.Experience) {
			c.Scheduler.Experience = d.Experience
		}
		text = "kept: " + d.Reason
		if !d.Adopt {
			return c, nil
		}
		if why := v.unfit(d.Config, served, revision); why != "" {
			text = "kept: " + why
			return c, nil
		}
		evidence := &Evidence{Round: number, At: v.Zero.Add(at), Seed: p.Seed, Ratio: d.Ratio, Incumbent: revision, Interval: d.Interval, Search: d.Search, Why: d.Why,
			Details: finite(d.Details), Candidates: d.Candidates}
		cfg := s.publish(c, v, d.Config, FromTuning, d.Reason, evidence)
		text = fmt.Sprintf("%s as revision %d: %s", cfg.State, cfg.Revision, d.Reason)
		return c, nil
	})
	if decideErr != nil {
		return "", decideErr
	}
	return text, err
}

// foresight is the engine that a scheduler's rounds share.
func (t *tuned) foresight(zero time.Time) *generation.Engine {
	if t.engine == nil {
		t.engine, _ = generation.NewEngine(zero, generation.DefaultMethod) // which is known
	}
	return t.engine
}

// publish adds a new revision to a change: offered to the scheduler, or only
// proposed if the mode says so.
func (s *Service) publish(c *Change, v *view, config space.Config, origin Origin, reason string, evidence *Evidence) *Configuration {
	now := s.o.Now().UTC()
	c.Scheduler.Last++
	cfg := &Configuration{
		Scheduler: v.ID, UID: s.o.NewID(), Revision: c.Scheduler.Last, State: Published, Origin: origin, Config: config, Hash: config.Hash(),
		Created: now, Updated: now, Reason: reason, Evidence: evidence,
	}
	if v.Mode != Auto && origin == FromTuning {
		cfg.State = Proposed
	} else {
		c.Scheduler.Served = cfg.Revision
	}
	for _, old := range v.configs {
		if old.State == Proposed || old.State == Published && cfg.State == Published {
			c.replace(old, Superseded, now)
		}
	}
	c.Configurations = append(c.Configurations, cfg)
	return cfg
}

// replace puts a revision in another state into the change and returns it. The
// same revision is changed once at most.
func (c *Change) replace(old *Configuration, state ConfigState, now time.Time) *Configuration {
	for _, cfg := range c.Configurations {
		if cfg.Revision == old.Revision {
			return cfg
		}
	}
	next := *old
	next.State, next.Updated = state, now
	c.Configurations = append(c.Configurations, &next)
	return &next
}

// running is the revision that the scheduler runs as far as it said: the one it
// acknowledged last, whatever was offered since, or else the defaults it was
// registered with. It is nil if it refused these.
func (v *view) running() *Configuration {
	cfg := v.config(max(1, v.Acknowledged))
	if cfg.State == Rejected {
		return nil
	}
	return cfg
}

// incumbent is what the scheduler runs, and the revision, 0 if it has none.
func (v *view) incumbent(sp *space.Space) (space.Config, int64) {
	cfg := v.running()
	if cfg == nil {
		return sp.Default(), 0
	}
	return cfg.effective(sp), cfg.Revision
}

// effective is a revision's configuration as the scheduler applied it, or as it
// was sent if what was applied is outside the space.
func (c *Configuration) effective(sp *space.Space) space.Config {
	if c.Ack == nil || c.Ack.State != AckPartial {
		return c.Config
	}
	config := c.Config
	for id, value := range c.Ack.Effective {
		if _, ok := sp.Param(id); ok {
			config = config.With(id, value)
		}
	}
	if sp.Check(config) != nil {
		return c.Config
	}
	return config
}

// refused are the configurations that are parked.
func (v *view) refused() []space.Config {
	var out []space.Config
	for _, c := range v.configs {
		if c.State == Rejected {
			out = append(out, c.Config)
		}
	}
	return out
}

// parked reports whether the scheduler refused these values.
func (v *view) parked(hash string) bool {
	for _, c := range v.configs {
		if c.State == Rejected && c.Hash == hash {
			return true
		}
	}
	return false
}

// unfit says why a decision made while one revision was served and another ran is
// not to be published, "" if it is.
func (v *view) unfit(config space.Config, served, ran int64) string {
	hash := config.Hash()
	now := int64(0)
	if cfg := v.running(); cfg != nil {
		now = cfg.Revision
	}
	if v.Served != served || now != ran {
		return "what ran changed while the round was decided"
	}
	if v.parked(hash) {
		return "the scheduler refused these values before"
	}
	if offer := v.config(v.Served); offer != nil && offer.Hash == hash {
		return "the best configuration is the one offered already"
	}
	for _, c := range v.configs {
		if c.State == Proposed && c.Hash == hash {
			return fmt.Sprintf("revision %d proposes the same", c.Revision)
		}
	}
	return ""
}

// checkDecision turns the decision's configuration into one of the registered
// space, or says why it is none.
func checkDecision(sp *space.Space, d *round.Decision) error {
	config, err := exit(sp, d.Config)
	if err != nil {
		return err
	}
	if math.IsNaN(d.Ratio) || math.IsInf(d.Ratio, 0) {
		return fmt.Errorf("controller: decision has ratio %v", d.Ratio)
	}
	d.Config = config
	return nil
}

// finite leaves out what JSON cannot hold.
func finite(m map[string]float64) map[string]float64 {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(_ string, x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
	return m
}

// decideSafely keeps a panic of one decision from ending the service.
func decideSafely(ctx context.Context, decide round.DecideFunc, in round.Input) (d round.Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("controller: decision panicked: %v", p)
		}
	}()
	return decide(ctx, in)
}
