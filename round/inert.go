package round

import (
	"slices"
	"strings"

	"github.com/autosched/autosched/schedulers"
	"github.com/autosched/autosched/search"
	"github.com/autosched/autosched/space"
)

// Inert names the parameters of a scheduler that have no effect, given whether jobs have
// deadlines and whether run times are reported.
func Inert(s *schedulers.Scheduler, deadlines, reported bool) []string {
	if s.Inert == nil {
		return nil
	}
	return s.Inert(deadlines, reported)
}

// InertNote says that parameters have no effect; "" without parameters.
func InertNote(ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	return strings.Join(ids, ", ") +
		" keep the incumbent's values: without deadlines or estimates of run times they have no effect"
}

// withoutInert fixes the parameters that have no effect in the round's scenarios at the
// incumbent's values, so that no measurement is spent on them, and names them. It is the
// round itself if there are none, or if the sampler continues in later rounds.
func (r *Round) withoutInert() (*Round, []string) {
	if strings.HasPrefix(r.Sampler, "bluefin") || r.State != nil {
		return r, nil // the sampler's state is in coordinates of the space
	}
	inert := Inert(r.Scheduler, r.hasDeadline(), r.Options.Estimate != nil)
	if len(inert) == 0 || r.Space.Check(r.Incumbent) != nil {
		return r, nil
	}
	params, held := r.Space.Params(), []string(nil)
	for i := range params {
		p := &params[i]
		v := r.Incumbent.Get(p.ID)
		if slices.Contains(inert, p.ID) && !v.IsZero() && p.Min < p.Max {
			p.Min, p.Max, p.Step, p.Log, p.Special, p.Default = v.Float(), v.Float(), 0, false, nil, v
			held = append(held, p.ID)
		}
	}
	narrow, err := space.New(params, r.Space.Rules())
	if err != nil || len(held) == 0 { // a rule relates them to others
		return r, nil
	}
	n := *r
	n.Space, n.registered = narrow, r.Space
	n.Incumbent = move(r.Incumbent, narrow)
	n.Past = make([]search.Preset, len(r.Past))
	for i, p := range r.Past {
		p.Config = move(p.Config, narrow)
		n.Past[i] = p
	}
	return &n, held
}

// move projects a configuration into another space of the same parameters.
func move(c space.Config, to *space.Space) space.Config {
	values := space.Values{}
	for _, id := range c.IDs() {
		values[id] = c.Get(id)
	}
	out, _ := to.Project(values)
	return out
}

// moveTo moves all configurations of a result to another space.
func (out *Result) moveTo(s *space.Space) {
	out.Config = move(out.Config, s)
	for _, t := range slices.Concat(pointers(out.Trials),
		[]*search.Trial{&out.Best, &out.Found, &out.Incumbent}) {
		if !t.Config.IsZero() {
			t.Config = move(t.Config, s)
		}
		if t.Projected != nil {
			c := move(*t.Projected, s)
			t.Projected = &c
		}
	}
}

func pointers(trials []search.Trial) []*search.Trial {
	out := make([]*search.Trial, len(trials))
	for i := range trials {
		out[i] = &trials[i]
	}
	return out
}
