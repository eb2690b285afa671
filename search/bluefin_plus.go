package search

import (
	"math"

	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/space"
)

// blueFinPlus adapts BlueFin to schedulers' spaces. It starts from the best point of
// a space-filling design, moves the centre towards better trials, and shrinks the
// radius with time. Each dimension has its own radius, at least a level; the
// gradient is divided by the distance of the pair after rounding and projection, so
// that a perturbation that was rounded away moves nothing; differences are scaled by
// their root mean square. Categories, booleans and special values are constant
// within a pair and chosen between pairs by a bandit.
type blueFinPlus struct {
	Setup
	enc *encoder
	all []space.Config
}

const bluefinPlusName = "bluefin+"

// Radius of the first pair, the number of pairs that halve it, and the share of the
// distance to the better point that a difference of mean size moves the centre.
const (
	plusRadius = 0.2
	plusHalf   = 12
	plusStep   = 0.5
)

func newBlueFinPlus(s Setup) *blueFinPlus {
	return &blueFinPlus{Setup: s, enc: newEncoder(s.Space), all: s.enumerate()}
}

// plusState is the state after a history.
type plusState struct {
	center []float64
	best   int // trial
	pairs  int
}

// replay computes the state from the history.
func (s *blueFinPlus) replay(history []Trial) plusState {
	st := plusState{best: -1}
	usual := 0.0 // mean square of the differences so far
	for i := 0; i < len(history); i++ {
		t := &history[i]
		better := t.OK() && (st.best < 0 || t.Measurement.Mean() < history[st.best].Measurement.Mean())
		if pair := i > 0 && t.Origin == bluefinPlusName && history[i-1].Origin == bluefinPlusName &&
			history[i-1].Round == t.Round; pair {
			st.pairs++
			if p := &history[i-1]; t.OK() && p.OK() {
				usual = s.move(st.center, p, t, usual)
			}
		}
		if better {
			st.best = i
			if t.Origin != bluefinPlusName || st.center == nil {
				st.center = s.Space.Encode(t.Config)
			} else { // half way, as the lowest measurement is biased
				for d, x := range s.Space.Encode(t.Config) {
					if s.held(d) {
						st.center[d] = x
					} else {
						st.center[d] += (x - st.center[d]) / 2
					}
				}
			}
		}
	}
	return st
}

// move shifts the centre by a pair and returns the new mean square difference.
func (s *blueFinPlus) move(center []float64, plus, minus *Trial, usual float64) float64 {
	// Positive if plus is better.
	diff := minus.Measurement.Mean() - plus.Measurement.Mean()
	if usual == 0 {
		usual = diff * diff
	} else {
		usual += 0.2 * (diff*diff - usual)
	}
	if usual == 0 {
		return usual
	}
	strength := min(max(diff/math.Sqrt(usual), -2), 2)
	a, b := s.Space.Encode(plus.Config), s.Space.Encode(minus.Config)
	for d := range center {
		if !s.held(d) {
			center[d] = min(max(center[d]+plusStep*strength*(a[d]-b[d])/2, 0), 1)
		}
	}
	return usual
}

// held reports whether dimension d keeps its value within a pair.
func (s *blueFinPlus) held(d int) bool {
	dim := &s.enc.dims[d]
	return dim.nominal || len(dim.levels) == 2 || len(dim.levels) == 1
}

func (s *blueFinPlus) Suggest(q Request) []Suggestion {
	p := newProposals(s.enc, s.all, q, rng.Stream(bluefinPlusName, s.Seed, uint64(q.Step)))
	st := s.replay(q.History)
	if q.Step == 0 || st.best < 0 {
		return p.design(s.Seed, q)
	}
	if q.N < 2 { // half a pair: the centre itself
		c, ok := p.fresh(st.center)
		if !ok {
			if c, ok = p.anyNew(st.center); !ok {
				return nil
			}
		}
		return []Suggestion{{Config: c, Origin: bluefinPlusName}}
	}
	radius := plusRadius * math.Pow(0.5, float64(st.pairs)/plusHalf)
	base := append([]float64(nil), st.center...)
	s.choose(base, q.History, p, st)
	plus, minus := make([]float64, len(base)), make([]float64, len(base))
	for try := range 30 {
		for d, w := range base {
			plus[d], minus[d] = w, w
			if s.held(d) {
				continue
			}
			dim := &s.enc.dims[d]
			r := radius * math.Pow(1.1, float64(try))
			if level := 1 / float64(len(dim.levels)); dim.levels != nil && r < 1.5*level {
				// A whole level is large beside a small radius: hold it in every other
				// pair, so that the centre's own level is measured too.
				if p.rng.IntN(2) == 0 {
					continue
				}
				r = max(r, 0.75*level)
			}
			if p.rng.IntN(2) == 0 {
				r = -r
			}
			plus[d], minus[d] = min(max(w+r, 0), 1), min(max(w-r, 0), 1)
		}
		a, okA := p.fresh(plus)
		b, okB := p.fresh(minus)
		if okA && okB && !a.Equal(b) {
			return []Suggestion{{Config: a, Origin: bluefinPlusName, Point: plus},
				{Config: b, Origin: bluefinPlusName, Point: minus}}
		}
	}
	if c, ok := p.anyNew(base); ok { // no new pair was found near the centre
		return []Suggestion{{Config: c, Origin: bluefinPlusName}}
	}
	return nil
}

// choose sets the held dimensions of base by upper confidence bounds: the best
// of each value so far, in units of the spread of all trials, plus a bonus for
// rarely tried values (Auer, Cesa-Bianchi and Fischer, 2002).
func (s *blueFinPlus) choose(base []float64, history []Trial, p *proposals, st plusState) {
	var good []*Trial
	low, high := math.Inf(1), math.Inf(-1)
	for i := range history {
		if t := &history[i]; t.OK() {
			good = append(good, t)
			low, high = min(low, t.Measurement.Mean()), max(high, t.Measurement.Mean())
		}
	}
	if !(high > low) {
		return
	}
	points := make([][]float64, len(good))
	for i, t := range good {
		points[i] = s.Space.Encode(t.Config)
	}
	for d := range base {
		dim := &s.enc.dims[d]
		if !s.held(d) || len(dim.levels) < 2 {
			continue
		}
		bestScore, at := math.Inf(-1), 0
		for k := range dim.levels {
			n, value := 0.0, high
			for i, x := range points {
				if dim.level(x[d]) == k {
					n++
					value = min(value, good[i].Measurement.Mean())
				}
			}
			score := (high-value)/(high-low) + 0.3*math.Sqrt(math.Log(float64(len(good)+1))/(n+1))
			if score > bestScore {
				bestScore, at = score, k
			}
		}
		base[d] = dim.levels[at]
	}
}
