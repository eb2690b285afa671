package arrivals

import (
	"math"
	"time"
)

// Features of the forecast of a level, all of them logarithms of counts of the series
// itself: the bins of the last hour, the last twelve hours, means over longer
// windows, the same hours of the last one and two weeks, and the clock. Chosen on
// the public Philly and Helios-Venus traces; lags of a day and a week by
// themselves and other series' lags made forecasts worse.
const (
	lagHours   = 12
	harmonics  = 3 // of the day
	dayOfMeans = 14
)

var meanHours = [...]int{3, 6, 24, 168}

func featureCount(perHour int) int {
	return perHour + lagHours + len(meanHours) + 2 + 2*harmonics + 7
}

// series is one count on a history's grid, as running totals.
type series struct {
	total   []int32
	perHour int
	clock   int64 // wall-clock second of the first edge, a midnight
	step    int64 // seconds of a bin
}

func (h *History) series(total []int32) series {
	return series{total: total, perHour: h.perHour(), clock: h.zero.Unix() + int64(h.start/time.Second),
		step: int64(h.bin / time.Second)}
}

// sum of the n bins that begin back bins before t; bins before the first count
// nothing.
func (s series) sum(t, back, n int) float64 {
	lo, hi := max(t-back, 0), max(t-back+n, 0)
	return float64(s.total[hi] - s.total[lo])
}

// next is the number of arrivals in the n bins from t on.
func (s series) next(t, n int) int { return int(s.total[t+n] - s.total[t]) }

// features writes the featureCount features at edge t to dst.
func (s series) features(dst []float64, t int) {
	m, at := s.perHour, 0
	put := func(v float64) { dst[at] = v; at++ }
	for i := 1; i <= m; i++ {
		put(log1p(s.sum(t, i, 1)))
	}
	for h := 1; h <= lagHours; h++ {
		put(log1p(s.sum(t, h*m, m)))
	}
	for _, w := range meanHours {
		put(log1p(s.sum(t, w*m, w*m) / float64(w)))
	}
	var sameHour float64
	for d := 1; d <= dayOfMeans; d++ {
		sameHour += log1p(s.sum(t, d*24*m, m))
		if d == dayOfMeans/2 || d == dayOfMeans {
			put(sameHour / float64(d))
		}
	}
	clock := s.clock + int64(t)*s.step
	angle := 2 * math.Pi * float64(clock%86400) / 86400
	for k := 1; k <= harmonics; k++ {
		sin, cos := math.Sincos(float64(k) * angle)
		put(sin)
		put(cos)
	}
	today := clock / 86400 % 7
	for d := range int64(7) {
		v := 0.0
		if d == today {
			v = 1
		}
		put(v)
	}
}

// log1p is the logarithm of one more than a count, from a table where it can be.
func log1p(v float64) float64 {
	if i := int(v); i < len(logs) && float64(i) == v && i >= 0 {
		return logs[i]
	}
	return math.Log1p(v)
}

var logs = func() (t [512]float64) {
	for i := range t {
		t[i] = math.Log1p(float64(i))
	}
	return t
}()
