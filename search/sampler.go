package search

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
)

// Request asks a sampler for configurations.
type Request struct {
	// History holds every trial so far in step order, the portfolio included.
	History []Trial
	// Rejected are the proposals rejected without a measurement.
	Rejected []Rejection
	// Step counts the requests made before in the study.
	Step int
	// N is the largest number of configurations to propose.
	N int
}

// Suggestion is a configuration to measure with its provenance.
type Suggestion struct {
	Config space.Config
	// Origin is the source of the configuration, "" for the sampler's name.
	Origin string
	// Prediction is that of the sampler's model, if it has one.
	Prediction *Prediction
	// Point is the point of the unit cube that Config is the projection of, if known.
	Point []float64
}

// unprojected returns the values at the point before they were projected into the
// space, nil if projecting only left out inactive parameters.
func (g *Suggestion) unprojected(s *space.Space) space.Values {
	if g.Point == nil {
		return nil
	}
	values := s.Values(g.Point)
	for _, id := range g.Config.IDs() {
		v, was := g.Config.Get(id), values[id]
		if n := v.Len(); n < was.Len() {
			was = space.Nums(was.Floats()[:n]...)
		}
		if !v.Equal(was) {
			return values
		}
	}
	return nil
}

// Prediction is the expected mean objective with its standard deviation.
type Prediction struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"`
}

// Sampler proposes configurations to measure.
type Sampler interface {
	// Suggest returns from 1 to Request.N valid configurations to be measured
	// together, or none if it has no more to propose. It is a function of the setup and
	// the request (and, for a Learner, of its observations); their number must not
	// depend on the machine.
	Suggest(Request) []Suggestion
}

// Learner is a sampler that observes the trial of each suggestion. After every
// Suggest exactly one of Observe and Discard is called.
type Learner interface {
	Sampler
	// Observe gets one trial for each configuration of the last suggestion, in its
	// order. Trials may have failed, or repeat earlier ones.
	Observe(trials []Trial)
	// Discard drops the last suggestion; the next one must differ.
	Discard()
	// State returns the Setup.State to continue from.
	State() json.RawMessage
}

// Explainer is a sampler that describes its choice in words.
type Explainer interface{ Explain() string }

// judge is a sampler whose model estimates which trial is best; -1 if it cannot.
type judge interface{ winner([]Trial) int }

// Setup is the input of a sampler's constructor.
type Setup struct {
	Space *space.Space
	Start space.Config // a good configuration, usually the incumbent
	Seed  uint64
	State json.RawMessage // of an earlier Learner of the same space, or nothing
	// Budget is the number of configurations that the study measures, 0 if unknown.
	Budget int
	// Filtered reports whether proposals may be rejected or narrowed on the evidence of
	// earlier trials: samplers without a model then propose few at once, too.
	Filtered bool
}

// batch is the number of configurations that a sampler with a model proposes at once: enough for the cores of a small
// machine, and few enough that most suggestions use all other measurements.
const batch = 4

// Entry is one sampler in the table.
type Entry struct {
	Name        string
	Description string
	New         func(Setup) (Sampler, error)
}

// Samplers lists every sampler in name order.
var Samplers = []Entry{
	{"auto", "one of the others, chosen by the space and the budget", newAuto},
	{"bluefin", "two-point bandit gradient from the incumbent, as SelfTune does",
		func(s Setup) (Sampler, error) { return NewBlueFinSampler(s) }},
	{"gp", "knowledge gradient and expected improvement under a Gaussian process", infallible(newGPSampler)},
	{"local", "local search around the best, for the end of a large budget", infallible(newLocalSampler)},
	{"random", "independent uniform points", infallible(newRandom)},
	{"sobol", "points spread evenly by a scrambled Sobol sequence", infallible(newSobolSampler)},
}

// infallible adapts a constructor that cannot fail.
func infallible[S Sampler](make func(Setup) S) func(Setup) (Sampler, error) {
	return func(s Setup) (Sampler, error) { return make(s), nil }
}

// DefaultSampler is the sampler of an empty name.
const DefaultSampler = "auto"

// NewSampler makes a sampler by name; "" is DefaultSampler.
func NewSampler(name string, setup Setup) (Sampler, error) {
	if name == "" {
		name = DefaultSampler
	}
	var names []string
	for _, e := range Samplers {
		if e.Name == name {
			return e.New(setup)
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("search: no sampler %q, want one of %s", name, strings.Join(names, ", "))
}

// spread is how many points the samplers without a model propose at once: many
// enough to keep any machine busy.
const spread = 16

// spread is how many points a sampler without a model proposes at once.
func (s *Setup) spread() int {
	if s.Filtered {
		return min(batch, spread)
	}
	return spread
}

// random draws uniform points, a function of the seed and the step.
type random struct {
	Setup
	enc *encoder
	all []space.Config
}

func newRandom(s Setup) *random {
	return &random{s, newEncoder(s.Space), s.enumerate()}
}

func (r *random) Suggest(q Request) []Suggestion {
	p := newProposals(r.enc, r.all, q, rng.Stream("random", r.Seed, uint64(q.Step)))
	return p.points(min(q.N, r.spread()), func(x []float64) {
		for d := range x {
			x[d] = p.rng.Float64()
		}
	})
}

// points returns up to n points of draw, without known ones; if none is left, another
// new point.
func (p *proposals) points(n int, draw func(x []float64)) []Suggestion {
	var out []Suggestion
	x := make([]float64, len(p.enc.dims))
	for range n {
		draw(x)
		if c, ok := p.fresh(x); ok {
			p.take(c)
			out = append(out, Suggestion{Config: c, Point: slices.Clone(x)})
		}
	}
	if len(out) == 0 {
		if c, ok := p.anyNew(nil); ok {
			out = append(out, Suggestion{Config: c})
		}
	}
	return out
}
