package stats

import (
	"math"
	"slices"
)

// Band is the range of a sample of futures: its 10 % and its 90 % quantile, its median and its mean.
type Band struct{ Low, Median, High, Mean float64 }

// Forecasts adds up how samples of futures compare with the truth. The forecast is the median of the futures where the
// mean is not named.
type Forecasts struct {
	N                           int
	Came, Median, Mean          float64 // sums
	AbsMedian, AbsMean, Squares float64 // of errors
	Inside, OnBound             int     // truths within the band, and on a bound of it
}

// Add takes a sample of futures, which it sorts, and the truth. It returns the band of the sample.
func (f *Forecasts) Add(futures []float64, came float64) (b Band) {
	for _, v := range futures {
		b.Mean += v / float64(len(futures))
	}
	slices.Sort(futures)
	b.Low, b.Median, b.High = Quantile(futures, 0.1), Quantile(futures, 0.5), Quantile(futures, 0.9)
	f.N++
	f.Came += came
	f.Median += b.Median
	f.Mean += b.Mean
	f.AbsMedian += math.Abs(b.Median - came)
	f.AbsMean += math.Abs(b.Mean - came)
	f.Squares += (b.Median - came) * (b.Median - came)
	switch {
	case came == b.Low || came == b.High:
		f.OnBound++
	case b.Low < came && came < b.High:
		f.Inside++
	}
	return b
}
