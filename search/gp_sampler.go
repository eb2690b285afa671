package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
)

// gpSampler models the objective by a Gaussian process and proposes batches. Half of
// a batch maximises the knowledge gradient, which keeps exploring under noise, half
// the expected improvement. The last batch begins with the point of the lowest
// posterior mean.
type gpSampler struct {
	Setup
	enc    *encoder
	fitter fitter
	all    []space.Config
	s      surrogate
}

func newGPSampler(s Setup) *gpSampler {
	e := newEncoder(s.Space)
	return &gpSampler{Setup: s, enc: e, fitter: fitter{nominal: e.nominal}, all: s.enumerate()}
}

// winner implements judge.
func (s *gpSampler) winner(trials []Trial) int { return s.fitter.pick(s.enc, trials) }

func (s *gpSampler) Suggest(q Request) []Suggestion {
	p := newProposals(s.enc, s.all, q, rng.Stream("gp", s.Seed, uint64(q.Step)))
	d := s.enc.gather(q.History)
	if q.Step == 0 || len(d.validCosts()) < 2 {
		return p.design(s.Seed, q)
	}
	n := min(q.N, batch)
	rejected := q.Rejected[max(len(q.Rejected)-maxRejected, 0):]
	h := s.fitter.fit(d)
	d = d.thin(modelSize, s.enc.nominal)
	s.s.build(s.enc.nominal, h, d, n+len(rejected))
	s.avoid(d, rejected)
	c := newChooser(p, &s.s, d, q.History)
	var out []Suggestion
	for len(out) < n {
		config, x, ok := s.one(c, q, len(out))
		if !ok {
			break
		}
		c.take(config)
		mean, variance := c.predict(x)
		out = append(out, Suggestion{Config: config, Prediction: s.s.warping.prediction(mean, variance),
			Point: slices.Clone(x)})
		if len(out) < n {
			c.believe(x)
		}
	}
	return out
}

// maxRejected is how many of the latest rejections enter the model.
const maxRejected = 50

// avoid adds rejected configurations to the model with the worst cost. Without them it
// would propose their neighbours again and again.
func (s *gpSampler) avoid(d *data, rejected []Rejection) {
	if len(rejected) == 0 {
		return
	}
	worst := s.s.warping.forward(slices.Max(d.validCosts()))
	f := make([]float64, s.enc.features)
	for i := range rejected {
		s.enc.encode(f, s.Space.Encode(rejected[i].Config))
		s.s.add(f, worst)
	}
	s.s.ready(true)
}

// one chooses configuration k of a batch.
func (s *gpSampler) one(c *chooser, q Request, k int) (config space.Config, x []float64, ok bool) {
	if k == 0 && q.N <= batch {
		if config, x, ok = c.exploit(); ok {
			return config, x, ok
		}
	}
	if k == 0 && len(q.History) < coverBy {
		if config, x, ok = c.cover(q.History); ok {
			return config, x, ok
		}
	}
	if k < batch/2 {
		if i := c.knowledge(); i >= 0 {
			return c.pool[i].config(c.enc), c.pool[i].x, true
		}
	}
	return c.next()
}

// newChooser prepares the choice of a batch by a surrogate of d.
func newChooser(p *proposals, s *surrogate, d *data, history []Trial) *chooser {
	c := &chooser{proposals: p, s: s, best: math.Inf(1), tmp: make([]float64, s.wide),
		feat: make([]float64, p.enc.features)}
	var order []int
	for i, ok := range d.good {
		if ok {
			c.best = min(c.best, s.smoothed(i))
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.smoothed(a), s.smoothed(b)) })
	for _, i := range order[:min(5, len(order))] {
		c.tops = append(c.tops, p.enc.space.Encode(history[d.at[i]].Config))
	}
	c.fill()
	return c
}
