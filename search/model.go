package search

import (
	"cmp"
	"math"
	"slices"
)

// data is a history in features, with one cost per trial.
type data struct {
	x    []float64 // n rows of features
	n, d int
	cost []float64 // the mean objective; of a bad trial the worst of the others
	good []bool
	at   []int // which trial of the history
}

// mostCost bounds costs, so that their squares are finite.
const mostCost = 1e100

// gather encodes trials. Trials without an objective get the cost of the worst trial
// that has one: a model avoids them without being distorted by an arbitrary number.
func (e *encoder) gather(trials []Trial) *data {
	d := &data{n: len(trials), d: e.features}
	d.x = make([]float64, d.n*d.d)
	for i := range trials {
		e.encode(d.row(i), e.space.Encode(trials[i].Config))
		d.good = append(d.good, trials[i].OK())
		d.cost = append(d.cost, min(trials[i].Measurement.Mean(), mostCost))
		d.at = append(d.at, i)
	}
	d.impute()
	return d
}

// impute gives the bad trials the cost of the worst of the others.
func (d *data) impute() {
	worst := 0.0
	for i, ok := range d.good {
		if ok {
			worst = max(worst, d.cost[i])
		}
	}
	for i, ok := range d.good {
		if !ok {
			d.cost[i] = worst
		}
	}
}

func (d *data) row(i int) []float64 { return d.x[i*d.d : (i+1)*d.d] }

// prefix returns the first n trials of d as the data set they were.
func (d *data) prefix(n int) *data {
	if n == d.n {
		return d
	}
	out := &data{x: d.x[:n*d.d], n: n, d: d.d, cost: slices.Clone(d.cost[:n]), good: d.good[:n], at: d.at[:n]}
	out.impute()
	return out
}

// validCosts returns the costs of the trials that have one.
func (d *data) validCosts() []float64 {
	var out []float64
	for i, ok := range d.good {
		if ok {
			out = append(out, d.cost[i])
		}
	}
	return out
}

// thin returns at most size trials that lie far apart, half of them from the
// better half: the best one first, then always the one farthest from all
// taken. Late trials are close to the best and largely redundant.
func (d *data) thin(size int, nominal []bool) *data {
	if d.n <= size {
		return d
	}
	order := make([]int, d.n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(d.cost[a], d.cost[b]) })
	away := make([]float64, d.n) // by position in order: squared distance to the nearest taken, -1 once taken
	for i := range away {
		away[i] = math.Inf(1)
	}
	keep := make([]int, 0, size)
	take := func(k int) {
		taken := d.row(order[k])
		for j, i := range order {
			if away[j] <= 0 {
				continue
			}
			var r float64
			for f, v := range d.row(i) {
				v -= taken[f]
				if nominal[f] && v != 0 {
					v = 1
				}
				r += v * v
			}
			away[j] = min(away[j], r)
		}
		away[k] = -1
		keep = append(keep, order[k])
	}
	take(0)
	for len(keep) < size {
		among := away
		if len(keep)%2 == 0 {
			among = away[:(d.n+1)/2]
		}
		far := 0
		for j, r := range among {
			if r > among[far] {
				far = j
			}
		}
		if among[far] < 0 { // the better half is used up
			far = slices.IndexFunc(away, func(r float64) bool { return r >= 0 })
		}
		take(far)
	}
	slices.Sort(keep)
	out := &data{n: len(keep), d: d.d}
	for _, i := range keep {
		out.x = append(out.x, d.row(i)...)
		out.cost = append(out.cost, d.cost[i])
		out.good = append(out.good, d.good[i])
		out.at = append(out.at, d.at[i])
	}
	return out
}

// fitSize is the largest number of trials that hyper-parameters are fitted to: the
// cost grows with its cube.
const fitSize = 64

// modelSize is the largest number of trials in the model itself.
const modelSize = 128

// fitter fits hyper-parameters to growing histories. The result is a function of the
// history: it fits at fixed sizes, each starting from the previous fit.
type fitter struct {
	nominal []bool
	done    int // the size last fitted
	best    hyper
	options [warpKinds][kernels]hyper // the latest fit of each kernel and warp
}

// schedule returns the largest size up to n at which hyper-parameters are
// fitted, 0 if there is none.
func schedule(n int) int {
	switch {
	case n < 4:
		return 0
	case n < 64:
		return n - n%4
	}
	step := 16
	for step*8 <= n {
		step *= 2
	}
	return n - n%step
}

// fit returns hyper-parameters for the trials. The result is shared: do not
// modify it.
func (f *fitter) fit(d *data) *hyper {
	want := schedule(d.n)
	if want < f.done {
		*f = fitter{nominal: f.nominal}
	}
	for f.done < want {
		n := f.done + 1
		for schedule(n) != n {
			n++
		}
		f.step(d.prefix(n).thin(fitSize, f.nominal), n)
		f.done = n
	}
	if f.best.h == nil { // too few trials to fit
		e := newEvidence(f.nominal, nil, 0)
		return &hyper{kernel: matern52, h: e.start()}
	}
	return &f.best
}

// once fits hyper-parameters to the trials without earlier ones.
func (f *fitter) once(d *data) {
	f.step(d.thin(fitSize, f.nominal), 1)
	f.done = schedule(d.n)
}

// contender is the largest log evidence ratio to the best at which a kernel and warp
// are refitted between refits of all.
const contender = 3

// step fits every kernel and warp whenever the size doubled, otherwise the ones
// that come close to the best.
func (f *fitter) step(d *data, n int) {
	costs := d.validCosts()
	e := newEvidence(f.nominal, d.x, d.n)
	e.y = make([]float64, d.n)
	all := n&(n-1) == 0
	previous := f.best.value
	f.best = hyper{}
	for w := range warpKinds {
		warping, ok := fitWarp(w, costs)
		if !ok {
			continue
		}
		var jacobian float64
		for i, v := range d.cost {
			e.y[i] = warping.forward(v)
			jacobian += warping.jacobian(v)
		}
		for k := range kernels {
			o := &f.options[w][k]
			if !all && o.h != nil && o.value < previous-contender {
				continue
			}
			e.kernel = k
			h, value := e.start(), math.Inf(-1)
			if o.h == nil || all && n <= 32 {
				value = maximise(e.at, h, 25)
			}
			if o.h != nil {
				warm := slices.Clone(o.h)
				if v := maximise(e.at, warm, 12); v > value {
					h, value = warm, v
				}
			}
			*o = hyper{kernel: k, warp: w, h: h, value: value + jacobian}
			if f.best.h == nil || o.value > f.best.value {
				f.best = *o
			}
		}
	}
	if f.best.h == nil { // the warp cannot be used on these data
		f.best = f.options[warpNone][matern52]
	}
}

// surrogate is a gp over a history.
type surrogate struct {
	gp
	warping warping
}

// build factorises all of d, with room for more points.
func (s *surrogate) build(nominal []bool, h *hyper, d *data, room int) {
	warping, ok := fitWarp(h.warp, d.validCosts())
	if !ok {
		warping, _ = fitWarp(warpNone, d.validCosts())
	}
	s.warping = warping
	s.nominal = nominal
	h.apply(&s.gp)
	s.reset(d.n + room)
	for i := range d.n {
		s.add(d.row(i), warping.forward(d.cost[i]))
	}
	s.ready(false)
}

// refactor factorises the points again after a change of the noise.
func (s *surrogate) refactor() {
	n, y := s.n, slices.Clone(s.y[:s.n])
	s.n = 0
	for i := range n {
		s.add(s.row(i), y[i])
	}
	s.ready(false)
}

// twins estimates the noise, relative to the signal, from the differences between the
// closest pairs of good trials; ok is false if fewer than eight pairs are close enough to
// neglect the signal.
func (s *surrogate) twins(d *data) (ratio float64, ok bool) {
	const near = 0.999 // correlation
	var squares []float64
	for i := range d.n {
		best, at := near, -1
		for j := range i {
			if d.good[i] && d.good[j] {
				if c := s.correlation(s.row(i), s.row(j)); c > best {
					best, at = c, j
				}
			}
		}
		if at >= 0 {
			diff := s.y[i] - s.y[at]
			squares = append(squares, diff*diff/2)
		}
	}
	if len(squares) < 8 {
		return 0, false
	}
	slices.Sort(squares)
	// 0.455 is the median of a squared standard normal.
	return squares[len(squares)/2] / 0.455 / s.scale, true
}

// smoothed returns the posterior mean at point i of the history.
func (s *surrogate) smoothed(i int) float64 { return s.y[i] - (s.noise+jitter)*s.alpha[i] }

// prediction undoes the warp: the mean and half the width of the band of one
// standard deviation, in the objective's units. nil if they are not finite.
func (w *warping) prediction(mean, variance float64) *Prediction {
	sd := math.Sqrt(variance)
	p := &Prediction{Mean: w.back(mean), SD: (w.back(mean+sd) - w.back(mean-sd)) / 2}
	if !finite(p.Mean) || !finite(p.SD) {
		return nil
	}
	return p
}

// fewest is the number of good trials that a model needs to choose the winner.
const fewest = 8

// pick returns the trial with the best posterior mean, since the lowest of noisy
// measurements is biased; -1 if no trial has an objective.
func (f *fitter) pick(e *encoder, trials []Trial) int {
	best, good := lowestMean(trials)
	if good < fewest || e.features == 0 {
		return best
	}
	d := e.gather(trials)
	var m surrogate
	h := f.fit(d)
	d = d.thin(4*modelSize, f.nominal)
	m.build(e.nominal, h, d, 0)
	if r, ok := m.twins(d); ok && r < m.noise/10 {
		// The model takes a discontinuity for noise, but the measurements of close
		// pairs agree.
		m.noise = max(r, jitter)
		m.refactor()
	}
	lowest := math.Inf(1)
	for i, ok := range d.good {
		if v := m.smoothed(i); ok && v < lowest {
			best, lowest = d.at[i], v
		}
	}
	return best
}

// lowestMean returns the trial with the lowest mean objective, the earlier on a tie, and
// the number of trials that have one.
func lowestMean(trials []Trial) (best, good int) {
	best = -1
	for i := range trials {
		if !trials[i].OK() {
			continue
		}
		good++
		if best < 0 || trials[i].Measurement.Mean() < trials[best].Measurement.Mean() {
			best = i
		}
	}
	return best, good
}
