package durations

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/autosched/autosched/internal/rng"
)

// network is a softmax on standardised features, with one hidden layer of
// rectified units or none (multinomial logistic regression). It is a baseline
// of the paper's Table 3, trained by Adam (Kingma and Ba, ICLR 2015).
type network struct {
	columns    []int
	mean, rate []float64 // a feature enters as (value - mean) * rate; a missing one as 0
	hidden     int
	weights    []float64 // hidden x (in+1), then Classes x (hidden+1); or Classes x (in+1)
	in, mid    []float64 // scratch, each ending with the constant 1
}

const (
	networkSteps  = 2000 // at least; and at least networkEpochs passes
	networkEpochs = 3
	networkBatch  = 128
	networkStep   = 2e-3
	networkDecay  = 1e-4 // of the weights, for each step
	clip          = 5    // standard deviations beyond which a feature says no more
)

func learnNetwork(ctx context.Context, e *Examples, o LearnOptions, hidden int) (Classifier, error) {
	if err := enoughOf(e); err != nil {
		return nil, err
	}
	n := newNetwork(e, o.columns(), hidden)
	r := rng.Stream("network", o.Seed, uint64(hidden))
	n.start(r)
	gradient, first, second := make([]float64, len(n.weights)), make([]float64, len(n.weights)), make([]float64, len(n.weights))
	order := make([]int, e.Len())
	for i := range order {
		order[i] = i
	}
	back := make([]float64, hidden)
	steps := 0
	epochs := max(networkEpochs, networkSteps*networkBatch/e.Len())
	for epoch := range epochs {
		if o.Progress != nil {
			o.Progress(epoch, epochs)
		}
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for at := 0; at < len(order); at += networkBatch {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			clear(gradient)
			batch := order[at:min(at+networkBatch, len(order))]
			weight := 0.
			for _, i := range batch {
				n.accumulate(gradient, back, e.X.Row(i), int(e.Class[i]), e.Weights[i])
				weight += e.Weights[i]
			}
			steps++
			fade1, fade2 := 1-math.Pow(.9, float64(steps)), 1-math.Pow(.999, float64(steps))
			for k, g := range gradient {
				g = g/weight + networkDecay*n.weights[k]
				first[k] = .9*first[k] + .1*g
				second[k] = .999*second[k] + .001*g*g
				n.weights[k] -= networkStep * (first[k] / fade1) / (math.Sqrt(second[k]/fade2) + 1e-8)
			}
		}
	}
	return n, nil
}

func newNetwork(e *Examples, columns []int, hidden int) *network {
	n := &network{columns: columns, hidden: hidden, mean: make([]float64, len(columns)), rate: make([]float64, len(columns)), in: make([]float64, len(columns)+1)}
	for k, c := range columns {
		count, sum, squares := 0., 0., 0.
		for i := range e.X.Rows {
			if v := e.X.Row(i)[c]; !math.IsNaN(v) {
				count++
				sum += v
				squares += v * v
			}
		}
		if count == 0 {
			continue
		}
		n.mean[k] = sum / count
		if variance := squares/count - n.mean[k]*n.mean[k]; variance > 1e-12 {
			n.rate[k] = 1 / math.Sqrt(variance)
		}
	}
	size := Classes * (len(columns) + 1)
	if hidden > 0 {
		size = hidden*(len(columns)+1) + Classes*(hidden+1)
		n.mid = make([]float64, hidden+1)
		n.mid[hidden] = 1
	}
	n.in[len(columns)] = 1
	n.weights = make([]float64, size)
	return n
}

// start draws the weights of the hidden layer (He et al., ICCV 2015); all others
// begin with zero.
func (n *network) start(r *rand.Rand) {
	scale := math.Sqrt(2 / float64(len(n.columns)+1))
	for k := range n.hidden * len(n.in) {
		n.weights[k] = scale * r.NormFloat64()
	}
}

// forward fills the scratch and writes the probabilities.
func (n *network) forward(dst, row []float64) {
	for k, c := range n.columns {
		if v := row[c]; math.IsNaN(v) {
			n.in[k] = 0
		} else {
			n.in[k] = min(clip, max(-clip, (v-n.mean[k])*n.rate[k]))
		}
	}
	below, w := n.in, n.weights
	if n.hidden > 0 {
		for h := range n.hidden {
			n.mid[h] = max(0, dot(w[h*len(n.in):], n.in))
		}
		below, w = n.mid, w[n.hidden*len(n.in):]
	}
	top := math.Inf(-1)
	for c := range dst {
		dst[c] = dot(w[c*len(below):], below)
		top = max(top, dst[c])
	}
	sum := 0.
	for c := range dst {
		dst[c] = math.Exp(dst[c] - top)
		sum += dst[c]
	}
	for c := range dst {
		dst[c] /= sum
	}
}

func dot(w, x []float64) float64 {
	s := 0.
	for k, v := range x {
		s += w[k] * v
	}
	return s
}

// accumulate adds the gradient of one example's log-loss.
func (n *network) accumulate(gradient, back, row []float64, class int, weight float64) {
	var p [Classes]float64
	n.forward(p[:], row)
	p[class]--
	below, w, g := n.in, n.weights, gradient
	if n.hidden > 0 {
		below, w, g = n.mid, w[n.hidden*len(n.in):], g[n.hidden*len(n.in):]
		clear(back)
	}
	for c, d := range p {
		d *= weight
		for k, v := range below {
			g[c*len(below)+k] += d * v
		}
		for h := range back {
			back[h] += d * w[c*len(below)+h]
		}
	}
	for h, d := range back {
		if n.mid[h] <= 0 {
			continue
		}
		for k, v := range n.in {
			gradient[h*len(n.in)+k] += d * v
		}
	}
}

func (n *network) Probabilities(dst, row []float64) {
	n.forward(dst, row)
	mask(dst, row[ranColumn])
}
