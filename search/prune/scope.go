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

// life bounds narrowings, in rounds of batch trials.
type life struct {
	// delta is model.Scope's: a parameter whose effect on the objective is below this
	// share is fixed.
	delta float64
	// ttl is for how many rounds a narrowing is in force.
	ttl int
	// release is the probability with which a narrowing is dropped in each round, so
	// that no parameter stays fixed for good.
	release float64
	// patience is after how many rounds without a better trial all are dropped.
	patience int
}

var usual = life{delta: .01, ttl: 5, release: .05, patience: 8}

// Scoped is a narrowing with the rounds of the search in which it is in force.
type Scoped struct {
	model.Narrowing
	// Set is the round in which it began, Expires that in which it ends at the latest.
	Set, Expires int
	// Ended is the round in which it ended and Why is one of the reasons below;
	// 0 and "" if it was in force at the end of the search.
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
func (p *Pruner) Scope(history []search.Trial, c space.Config) (space.Config, []string) {
	p.update(history)
	if !p.ready(history) {
		return c, nil
	}
	p.review(history)
	var reasons []string
	values := space.Values{}
	for _, id := range c.IDs() {
		values[id] = c.Get(id)
	}
	for _, i := range p.scope {
		if why := p.apply(values, &p.Scopes[i]); why != "" {
			reasons = append(reasons, why)
		}
	}
	if len(reasons) == 0 {
		return c, nil
	}
	p.Narrowed++
	out, _ := p.columns.space.Project(values)
	return out, reasons
}

// review updates the scope once a round: narrowings expire together, are
// released at random, and are all dropped after life.patience rounds without a better
// trial.
func (p *Pruner) review(history []search.Trial) {
	round := len(history) / batch
	if now := least(history); now < p.least {
		p.least, p.better = now, round
	}
	if len(p.scope) > 0 && round-p.better >= p.life.patience {
		p.end(Stale, round, func(int) bool { return true })
		p.until, p.better = round+p.life.ttl, round
	}
	if round >= p.until {
		p.end(Expired, round, func(int) bool { return true })
		p.until = round + p.life.ttl
		p.narrow(history, round)
	} else if round > p.round {
		r := rng.Stream("scope release", p.seed, uint64(round))
		p.end(Released, round, func(int) bool { return r.Float64() < p.life.release })
	}
	p.round = round
}

// end ends the chosen ones of the narrowings in force.
func (p *Pruner) end(why string, round int, chosen func(int) bool) {
	p.scope = slices.DeleteFunc(p.scope, func(i int) bool {
		if !chosen(i) {
			return false
		}
		p.Scopes[i].Ended, p.Scopes[i].Why = round, why
		return true
	})
}

// narrow asks the model for a scope around the best trial.
func (p *Pruner) narrow(history []search.Trial, round int) {
	best := p.incumbent
	low := math.Inf(1)
	for i := range history {
		if t := &history[i]; t.OK() && t.Measurement.Mean() < low {
			best, low = t.Config, t.Measurement.Mean()
		}
	}
	p.incumbent = best
	got, err := p.model.Narrow(cost, p.point(best), model.Scope{Delta: p.life.delta})
	if err != nil {
		p.err = err
		return
	}
	// A parameter is fixed only if all its columns are: the elements of an array, or
	// a number and its special value.
	fixed, free := map[string]int{}, map[string]int{}
	for i := range p.columns.Len() {
		free[p.columns.Param(i)]++
	}
	for _, n := range got {
		if n.Op == "fix" {
			fixed[p.paramOf(n.Parameter)]++
		}
	}
	for _, n := range got {
		id := p.paramOf(n.Parameter)
		switch {
		case n.Op == "fix" && fixed[id] == free[id]:
			n.Parameter = id
			fixed[id] = -1
		case n.Op != "fix" && n.Parameter == id: // not of an array
		default:
			continue
		}
		p.scope = append(p.scope, len(p.Scopes))
		p.Scopes = append(p.Scopes, Scoped{Narrowing: n, Set: round, Expires: p.until})
	}
}

func (p *Pruner) paramOf(column string) string {
	return p.columns.Param(slices.Index(p.columns.Names(), column))
}

// apply restricts one parameter and returns the change in words, "" for none.
func (p *Pruner) apply(values space.Values, n *Scoped) string {
	now, best := values.Get(n.Parameter), p.incumbent.Get(n.Parameter)
	if now.IsZero() || best.IsZero() {
		return ""
	}
	to := best
	switch n.Op {
	case "interval":
		if special(p.columns.space, n.Parameter, now) || now.Float() >= n.Low && now.Float() <= n.High {
			return ""
		}
		to = squeeze(p.columns.space, &n.Narrowing, now.Float())
	case "exclude":
		if !slices.Contains(n.Excluded, p.columns.value(n.Parameter, now)) {
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
