package search

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/autosched/autosched/space"
)

// Session is a study by ask and tell: Tune with the measuring left to the caller and any
// number of proposals under way. The same calls give the same proposals.
type Session struct {
	s       *study
	started bool // the portfolio was proposed
}

// Proposal is a configuration to measure.
type Proposal struct {
	Config space.Config
	Provenance
}

// askRounds bounds the requests that one Ask makes to the sampler: each may fit a model.
const askRounds = 8

// NewSession returns a session before its first Ask. Options that concern the measuring, recording
// and reporting of Tune are not used. With portfolio, the first Ask proposes it; otherwise the session
// continues one, whose trials the caller reports.
func NewSession(o Options, portfolio bool) (*Session, error) {
	s, err := newStudy(o)
	if err != nil {
		return nil, err
	}
	return &Session{s, !portfolio}, nil
}

// Progress is the number of requests made to the sampler, and the State of a Learner.
func (n *Session) Progress() (step int, state json.RawMessage) {
	if l, ok := n.s.sampler.(Learner); ok {
		state = l.State()
	}
	return n.s.step, state
}

// Continue sets the number of requests made to the sampler, whose State is in the options.
func (n *Session) Continue(step int) { n.s.step = step }

// Expect notes a proposal that is being measured.
func (n *Session) Expect(p Proposal) {
	if hash := p.Config.Hash(); n.s.awaits(hash) < 0 {
		n.s.pending = append(n.s.pending, proposal{p.Config, hash, p.Provenance})
	}
}

// Ask returns new configurations to measure, at most room, and the proposals that were rejected on the
// way. Without any, stopped says why the study is over, or is empty: then there is more to propose
// once more is reported. Returned proposals count as expected.
func (n *Session) Ask(room int) (out []Proposal, rejected []Rejection, stopped string, err error) {
	s := n.s
	from := len(s.result.Rejected)
	var fresh []proposal
	if !n.started {
		n.started = true
		for _, p := range s.portfolio() {
			if !s.known(p, nil) && len(fresh) < room {
				fresh = append(fresh, p)
			}
		}
	}
	for range askRounds {
		if len(fresh) > 0 || err != nil || len(s.asked) > 0 {
			break
		}
		if stopped = s.stop(context.Background(), room); stopped != "" {
			break
		}
		s.result.Stopped = ""
		fresh, err = s.ask(room)
		n.observe()
		if stopped = s.result.Stopped; stopped != "" {
			break
		}
	}
	s.pending = append(s.pending, fresh...)
	for _, p := range fresh {
		out = append(out, Proposal{p.config, p.Provenance})
	}
	return out, s.result.Rejected[from:], stopped, err
}

// Avoid notes a proposal that was rejected before.
func (n *Session) Avoid(r Rejection) { n.s.result.Rejected = append(n.s.result.Rejected, r) }

// Tell adds the measurement of a configuration, proposed or not, or why there is none. Reported again, a
// configuration has the later measurement.
func (n *Session) Tell(p Proposal, m Measurement, failed error) {
	s := n.s
	one := proposal{p.Config, p.Config.Hash(), p.Provenance}
	if at := s.awaits(one.hash); at >= 0 {
		s.pending = slices.Delete(s.pending, at, at+1)
	}
	m = m.clean()
	if at, ok := s.seen[one.hash]; ok {
		n.again(&s.result.Trials[at], m, failed)
	} else {
		s.add(one, outcome{m: m, err: failed})
	}
	if s.result.Incumbent >= 0 {
		s.firstBase()
	}
	n.observe()
}

// again replaces the measurement of a trial.
func (n *Session) again(t *Trial, m Measurement, failed error) {
	if failed == nil {
		failed = m.check(n.s.futures)
	}
	if failed != nil {
		return // the one before stays
	}
	t.Measurement, t.Err = m, ""
	if n.s.futures == 0 {
		n.s.futures = len(m.Values)
	}
	if n.s.based && t.OK() {
		t.Reward = ratio(n.s.base, m.Mean())
	}
}

// observe updates a learner once the trials of its last suggestion are complete.
func (n *Session) observe() {
	complete := !slices.ContainsFunc(n.s.asked, func(p proposal) bool {
		_, ok := n.s.seen[p.hash]
		return !ok
	})
	if complete {
		n.s.update()
	}
}

// Trials returns the reported trials, in order, each configuration once.
func (n *Session) Trials() []Trial { return n.s.result.Trials }

// Rewarded returns the trials that have their reward: all, once the incumbent is reported.
func (n *Session) Rewarded() []Trial { return n.s.rewarded() }

// Choice is the sampler that was chosen and why, "" unless it is an Explainer.
func (n *Session) Choice() string { return n.s.result.Choice }

// Best is the trial that Result.Best of Tune would be, -1 for none.
func (n *Session) Best() int { return n.s.winner() }

// awaits is the place of a pending proposal, -1 if it is none.
func (s *study) awaits(hash string) int {
	return slices.IndexFunc(s.pending, func(p proposal) bool { return p.hash == hash })
}

// believed returns the trials with the values that the sampler minimises, and after them the
// pending ones, as far as they can be expected: at the prediction, or else at the median, but never better
// than the best so far (Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to parallelize
// optimization", 2010).
func (s *study) believed() []Trial {
	shown := s.view()
	if len(s.pending) == 0 {
		return shown
	}
	var means []float64
	for i := range shown {
		if shown[i].OK() {
			means = append(means, shown[i].Measurement.Mean())
		}
	}
	slices.Sort(means)
	out := slices.Clone(shown)
	for _, p := range s.pending {
		t := Trial{Step: len(out), Round: s.step, Config: p.config, Provenance: p.Provenance, Err: "pending"}
		if len(means) > 0 {
			value := means[len(means)/2]
			if p.Prediction != nil {
				value = min(max(p.Prediction.Mean, means[0]), mostCost)
			}
			t.Err, t.Measurement.Values = "", []float64{value}
		}
		out = append(out, t)
	}
	return out
}
