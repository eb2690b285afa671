package prune

import (
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// Scoped is a narrowing with the rounds of the study in which it is in force.
type Scoped struct {
	model.Narrowing
	// Set is the round in which it began, Expires that in which it ends at the latest.
	Set, Expires int
	// ModelRows is how many trials the model had learnt from.
	ModelRows int
	// Ended is the round in which it ended and Why is one of the reasons below;
	// 0 and "" if it was in force at the end of the study.
	Ended int
	Why   string
}

// Why a narrowing ended.
const (
	Expired  = "expired"
	Released = "released at random"
	Drifted  = "the objective drifted"
	Stale    = "nothing better was found for long"
)

// Scope restricts a suggestion to parameters worth searching. Parameters without an
// effect, or whose best value the best trial has, keep that trial's values. It
// returns the changes in words.
func (s *Study) Scope(history []search.Trial, c space.Config) (space.Config, []string) {
	s.update(history)
	if !s.ready(history) {
		return c, nil
	}
	s.review(history)
	var reasons []string
	values := space.Values{}
	for _, id := range c.IDs() {
		values[id] = c.Get(id)
	}
	for _, i := range s.scope {
		if why := s.apply(values, &s.Scopes[i]); why != "" {
			reasons = append(reasons, why)
		}
	}
	if len(reasons) == 0 {
		return c, nil
	}
	s.Narrowed++
	out, _ := s.p.columns.space.Project(values)
	return out, reasons
}

// review updates the scope once a round: narrowings expire together, are
// released at random, and are all dropped after Patience rounds without a better
// trial.
func (s *Study) review(history []search.Trial) {
	round := len(history) / batch
	if now := least(history); now < s.least {
		s.least, s.better = now, round
	}
	if len(s.scope) > 0 && round-s.better >= s.p.o.Patience {
		s.end(Stale, round, func(int) bool { return true })
		s.until, s.better = round+s.p.o.TTL, round
	}
	if round >= s.until {
		s.end(Expired, round, func(int) bool { return true })
		s.until = round + s.p.o.TTL
		s.narrow(history, round)
	} else if round > s.round {
		r := rng.Stream("scope release", s.p.o.Seed, s.study, uint64(round))
		s.end(Released, round, func(int) bool { return r.Float64() < s.p.o.Release })
	}
	s.round = round
}

// end ends the chosen ones of the narrowings in force.
func (s *Study) end(why string, round int, chosen func(int) bool) {
	s.scope = slices.DeleteFunc(s.scope, func(i int) bool {
		if !chosen(i) {
			return false
		}
		s.Scopes[i].Ended, s.Scopes[i].Why = round, why
		return true
	})
}

// narrow asks the model for a scope around the best trial.
func (s *Study) narrow(history []search.Trial, round int) {
	best := s.incumbent
	low := math.Inf(1)
	for i := range history {
		if t := &history[i]; t.OK() && t.Measurement.Mean() < low {
			best, low = t.Config, t.Measurement.Mean()
		}
	}
	s.incumbent = best
	got, err := s.p.model.Narrow(cost, s.point(best), model.Scope{Delta: s.p.o.Delta})
	if err != nil {
		s.err = err
		return
	}
	// A parameter is fixed only if all its columns are: the elements of an array, or
	// a number and its special value.
	fixed, free := map[string]int{}, map[string]int{}
	for i := range s.p.columns.Len() {
		free[s.p.columns.Param(i)]++
	}
	for _, n := range got {
		if n.Op == "fix" {
			fixed[s.paramOf(n.Parameter)]++
		}
	}
	for _, n := range got {
		id := s.paramOf(n.Parameter)
		switch {
		case n.Op == "fix" && fixed[id] == free[id]:
			n.Parameter = id
			fixed[id] = -1
		case n.Op != "fix" && n.Parameter == id: // not of an array
		default:
			continue
		}
		s.scope = append(s.scope, len(s.Scopes))
		s.Scopes = append(s.Scopes, Scoped{Narrowing: n, Set: round, Expires: s.until, ModelRows: s.p.Rows()})
	}
}

func (s *Study) paramOf(column string) string {
	return s.p.columns.Param(slices.Index(s.p.columns.Names(), column))
}

// apply restricts one parameter and returns the change in words, "" for none.
func (s *Study) apply(values space.Values, n *Scoped) string {
	now, best := values.Get(n.Parameter), s.incumbent.Get(n.Parameter)
	if now.IsZero() || best.IsZero() {
		return ""
	}
	to := best
	switch n.Op {
	case "interval":
		if special(s.p.columns.space, n.Parameter, now) || now.Float() >= n.Low && now.Float() <= n.High {
			return ""
		}
		to = squeeze(s.p.columns.space, &n.Narrowing, now.Float())
	case "exclude":
		if !slices.Contains(n.Excluded, s.p.columns.value(n.Parameter, now)) {
			return ""
		}
	}
	if now.Equal(to) {
		return ""
	}
	values[n.Parameter] = to
	return fmt.Sprintf(
		"%s is %s, not %s: %s (effect at least %.2g of the incumbent's objective, changing it could gain at most "+
			"%.2g; until round %d)",
		n.Parameter, to, now, n.Reason, n.ACELow, max(0, n.GainBound), n.Expires)
}

// squeeze maps a parameter's range onto the narrowed one, so that suggestions
// stay spread out.
func squeeze(s *space.Space, n *model.Narrowing, v float64) space.Value {
	p, _ := s.Param(n.Parameter)
	share := (v - p.Min) / (p.Max - p.Min)
	out := n.Low + share*(n.High-n.Low)
	if p.Log && n.Low > 0 {
		share = math.Log(v/p.Min) / math.Log(p.Max/p.Min)
		out = n.Low * math.Exp(share*math.Log(n.High/n.Low))
	}
	if p.Kind == space.KindInt {
		out = math.Round(out)
	}
	return space.Num(out)
}

func special(s *space.Space, id string, v space.Value) bool {
	p, _ := s.Param(id)
	return slices.ContainsFunc(p.Special, func(x space.Special) bool { return x.Value == v.Float() })
}
