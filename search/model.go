package search

import (
	"math"
	"slices"
)

// data is a history as a model reads it: features and one cost per trial.
type data struct {
	x    []float64 // n rows of features
	n, d int
	cost []float64 // the mean objective; of a bad trial the worst of the others
	good []bool
}

// gather reads trials. Those without an objective count as bad as the worst
// that has one, so that a model keeps away from them without being bent by an
// invented number.
func (e *encoder) gather(trials []Trial) *data {
	d := &data{n: len(trials), d: e.features}
	d.x = make([]float64, d.n*d.d)
	for i := range trials {
		e.encode(d.row(i), e.space.Encode(trials[i].Config))
		d.good = append(d.good, trials[i].OK())
		d.cost = append(d.cost, trials[i].Measurement.Mean())
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

// prefix returns the first n trials of d, as they were before the others came.
func (d *data) prefix(n int) *data {
	if n == d.n {
		return d
	}
	out := &data{x: d.x[:n*d.d], n: n, d: d.d, cost: slices.Clone(d.cost[:n]), good: d.good[:n]}
	out.impute()
	return out
}

// goods returns the costs of the trials that have one.
func (d *data) goods() []float64 {
	var out []float64
	for i, ok := range d.good {
		if ok {
			out = append(out, d.cost[i])
		}
	}
	return out
}

// thin returns at most size trials: the better half of them, and of the others
// every so many in the order of time.
func (d *data) thin(size int) *data {
	if d.n <= size {
		return d
	}
	order := make([]int, d.n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case d.cost[a] < d.cost[b]:
			return -1
		case d.cost[a] > d.cost[b]:
			return 1
		}
		return 0
	})
	keep := order[:size/2]
	rest := order[size/2:]
	slices.Sort(rest)
	for k := range size - len(keep) {
		keep = append(keep[:len(keep):len(keep)], rest[k*len(rest)/(size-size/2)])
	}
	slices.Sort(keep)
	out := &data{n: len(keep), d: d.d}
	for _, i := range keep {
		out.x = append(out.x, d.row(i)...)
		out.cost = append(out.cost, d.cost[i])
		out.good = append(out.good, d.good[i])
	}
	return out
}

// fitSize is how many trials the hyper-parameters are fitted to at most: the
// cost grows with the cube, the benefit hardly at all.
const fitSize = 80

// fitter finds hyper-parameters for growing histories. What it finds depends on
// the history alone: it fits at fixed sizes, each from where the one before
// ended.
type fitter struct {
	nominal []bool
	done    int // the size last fitted
	best    hyper
	options []hyper // one for each kernel and warp tried, with where it ended
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
		f.step(d.prefix(n).thin(fitSize), n)
		f.done = n
	}
	if f.best.h == nil { // too few trials to learn from
		e := newEvidence(f.nominal, nil, 0)
		return &hyper{kernel: matern52, h: e.start()}
	}
	return &f.best
}

// once fits hyper-parameters to the trials without those before.
func (f *fitter) once(d *data) {
	f.step(d.thin(fitSize), 1)
	f.done = schedule(d.n)
}

// step fits every kernel and warp, or once there are many trials only the best
// one except now and then.
func (f *fitter) step(d *data, n int) {
	costs := d.goods()
	e := newEvidence(f.nominal, d.x, d.n)
	e.y = make([]float64, d.n)
	all := n <= 16 || n%16 == 0 && n <= 64 || n&(n-1) == 0
	if f.options == nil {
		f.options = make([]hyper, int(kernels)*int(warpKinds))
	}
	previous := f.best
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
			if !all && previous.h != nil && (previous.kernel != k || previous.warp != w) {
				continue
			}
			o := &f.options[int(k)*int(warpKinds)+int(w)]
			e.kernel = k
			h := e.start()
			var value float64
			if o.h != nil {
				warm := slices.Clone(o.h)
				value = maximise(e.at, warm, 15)
				if all {
					if v := maximise(e.at, h, 25); v > value {
						value, warm = v, h
					}
				}
				h = warm
			} else {
				value = maximise(e.at, h, 30)
			}
			*o = hyper{kernel: k, warp: w, h: h, value: value + jacobian}
			if f.best.h == nil || o.value > f.best.value {
				f.best = o.clone()
			}
		}
	}
	if f.best.h == nil { // the warp in use no longer fits the data
		f.best = f.options[int(matern52)*int(warpKinds)]
		if f.best.h == nil {
			f.best = hyper{kernel: matern52, h: e.start()}
		}
	}
}

// surrogate is a gp over a history.
type surrogate struct {
	gp
	warping warping
}

// build factorises all of d, with room for more points.
func (s *surrogate) build(nominal []bool, h *hyper, d *data, room int) {
	warping, ok := fitWarp(h.warp, d.goods())
	if !ok {
		warping, _ = fitWarp(warpNone, d.goods())
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

// smoothed returns the posterior mean at point i of the history.
func (s *surrogate) smoothed(i int) float64 { return s.y[i] - (s.noise+jitter)*s.alpha[i] }

// predictions of a cost: mean and standard deviation in its own units.
func (s *surrogate) prediction(mean, variance float64) *Prediction {
	sd := math.Sqrt(variance)
	low, high := s.warping.back(mean-sd), s.warping.back(mean+sd)
	p := &Prediction{Mean: s.warping.back(mean), SD: (high - low) / 2}
	if !finite(p.Mean) || !finite(p.SD) {
		return nil
	}
	return p
}

// fewest is how many good trials a model needs to choose the winner.
const fewest = 8

// pick returns the trial with the best posterior mean: where measurements are
// noisy, the luckiest is not the best. -1 if no trial has an objective.
func (f *fitter) pick(e *encoder, trials []Trial) int {
	best, good := luckiest(trials)
	if good < fewest || e.features == 0 {
		return best
	}
	d := e.gather(trials)
	var m surrogate
	m.build(e.nominal, f.fit(d), d, 0)
	for i := range trials {
		if trials[i].OK() && m.smoothed(i) < m.smoothed(best) {
			best = i
		}
	}
	return best
}

// luckiest returns the trial with the lowest mean objective, the earlier on a
// tie, and how many trials have one.
func luckiest(trials []Trial) (best, good int) {
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
