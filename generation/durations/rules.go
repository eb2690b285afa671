package durations

import (
	"math"
	"slices"
	"time"
)

var (
	ranColumn = column(ranFeature)
	keyColumn = column(keyFeature)
)

// mask leaves no probability to classes that a job has outrun, and makes the rest
// add up to 1. ran is the feature.
func mask(p []float64, ran float64) {
	elapsed := seconds(ran)
	sum := 0.
	for c := range p {
		// A feature is rounded: a job that ran for a bound to the millisecond has
		// outrun the class below.
		if c < len(Bounds) && elapsed >= Bounds[c]-time.Millisecond {
			p[c] = 0
		}
		sum += p[c]
	}
	if sum <= 0 {
		clear(p)
		p[ClassOf(elapsed+time.Millisecond)] = 1
		return
	}
	for c := range p {
		p[c] /= sum
	}
}

// keyShare is how much of a prediction is the key's own survival estimate. The
// trees learn the sweeps of the past, the estimate has nothing to
// forget when a sweep of a new kind comes. Chosen as boosting was.
const keyShare = .3

// shareFor is keyShare for models that know the estimate, 0 for others.
func shareFor(columns []int) float64 {
	if slices.Contains(columns, keyColumn) {
		return keyShare
	}
	return 0
}

// hedge mixes the key's estimate into the trees' prediction.
func hedge(p, row []float64, share float64) {
	key := row[keyColumn : keyColumn+Classes]
	if share == 0 || math.IsNaN(key[0]) {
		return
	}
	for c := range p {
		p[c] += share * (key[c] - p[c])
	}
}

// seconds turns a feature back into a length of time.
func seconds(feature float64) time.Duration {
	return time.Duration(math.Expm1(feature) * float64(time.Second))
}

// frequencies of the classes, by weight, each class counted once more than it was
// seen, so that none is impossible.
func frequencies(e *Examples) [Classes]float64 {
	var p [Classes]float64
	sum := 0.
	for c := range p {
		p[c] = 1
		sum++
	}
	for _, c := range e.Class {
		p[int(c)]++
		sum++
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

type majority struct{ p [Classes]float64 }

// learnMajority counts jobs when they are submitted: one example a job.
func learnMajority(e *Examples) Classifier { return &majority{frequencies(e.arrivals())} }

func (m *majority) Probabilities(dst, _ []float64) { copy(dst, m.p[:]) }

// arrivals are the examples of jobs that have not run at all.
func (e *Examples) arrivals() *Examples {
	out := &Examples{}
	for i, ran := range e.Ran {
		if ran == 0 {
			out.Class = append(out.Class, e.Class[i])
			out.Total = append(out.Total, e.Total[i])
		}
	}
	return out
}

// elapsed knows how long jobs ran, and counts jobs that ran longer than the one
// asked about.
type elapsed struct {
	totals []float64          // sorted
	after  [][Classes]float64 // classes of totals[i:]
}

func learnElapsed(e *Examples) Classifier {
	r := &elapsed{totals: e.arrivals().Total}
	slices.Sort(r.totals)
	r.after = make([][Classes]float64, len(r.totals)+1)
	for i := len(r.totals) - 1; i >= 0; i-- {
		r.after[i] = r.after[i+1]
		r.after[i][ClassOf(time.Duration(r.totals[i]*float64(time.Second)))]++
	}
	return r
}

func (r *elapsed) Probabilities(dst, row []float64) {
	i, _ := slices.BinarySearch(r.totals, seconds(row[ranColumn]).Seconds()+1e-3)
	for c, n := range r.after[i] {
		dst[c] = n + 1
	}
	mask(dst, row[ranColumn])
}
