package round

import (
	"fmt"
	"math"

	"github.com/autosched/autosched/internal/stats"
)

// The reports of a scheduler on a revision count as one mean for each interval of event time that has reports.
const (
	// reportLoss is the least share of the mean under the last good revision by which a mean is worse.
	reportLoss = .05
	// reportRun is the number of intervals after which a revision is not looked at any more.
	reportRun = 288
	// leastIndependent is the least number of independent values that an interval is made of.
	leastIndependent = 4
)

// Quantiles of the normal distribution: of two-sided 95 % and one-sided 99.9 %.
const (
	normal95  = 1.959964
	normal999 = 3.090232
)

// reportLooks are the numbers of intervals at which a revision is compared with the last good one. Each doubles the
// one before, so that the chance of a false alarm is that of a few looks.
var reportLooks = [...]int{24, 48, 96, 192, reportRun}

// Estimate is the mean of reports, with its 95 % confidence interval.
type Estimate struct {
	Mean      float64
	Low, High float64 // NaN if there are too few intervals
	// Intervals of event time that have reports.
	Intervals int
	variance  float64 // of the mean
	freedom   float64 // independent values but one
}

// EstimateMean estimates the mean of a metric from its means in intervals, in order. Neighbours resemble each other: n
// values with the correlation r of neighbours count as n(1-r)/(1+r).
func EstimateMean(x []float64) Estimate {
	n := float64(len(x))
	e := Estimate{Mean: stats.Mean(x), Low: math.NaN(), High: math.NaN(), Intervals: len(x)}
	if len(x) < leastIndependent {
		return e
	}
	squares, products := 0.0, 0.0
	for i, v := range x {
		squares += (v - e.Mean) * (v - e.Mean)
		if i > 0 {
			products += (v - e.Mean) * (x[i-1] - e.Mean)
		}
	}
	r := 0.0
	if squares > 0 {
		// The correlation within a short series is low by (1+3r)/n (Kendall 1954).
		r = min(max((n*products/squares+1)/(n-3), 0), .95)
	}
	independent := n * (1 - r) / (1 + r)
	e.freedom = independent - 1
	if independent >= leastIndependent || squares == 0 {
		e.freedom = max(e.freedom, leastIndependent-1)
		e.variance = squares / (n - 1) / independent
		half := student(normal95, e.freedom) * math.Sqrt(e.variance)
		e.Low, e.High = e.Mean-half, e.Mean+half
	}
	return e
}

// known reports whether the estimate has an interval.
func (e *Estimate) known() bool { return !math.IsNaN(e.Low) }

// student is the quantile of Student's distribution where the normal one has z (Abramowitz and Stegun 26.7.5).
func student(z, freedom float64) float64 {
	p := func(c ...float64) (sum float64) { // of odd powers, the highest first
		for _, x := range c {
			sum = sum*z*z + x
		}
		return sum * z
	}
	return z + p(1, 1)/(4*freedom) + p(5, 16, 3)/(96*freedom*freedom) + p(3, 19, 17, -15)/(384*math.Pow(freedom, 3))
}

// NextReportLook is the number of intervals of the look after one, or the first after 0; 0 after the last.
func NextReportLook(after int) int {
	for _, n := range reportLooks {
		if n > after {
			return n
		}
	}
	return 0
}

// JudgeReported compares the reports of a scheduler on a metric under a revision with its reports under the last
// good one, both by interval in order. Worse is a mean that is worse by more than 5 % of the last good one's, with a
// confidence of 99.9 %. Other differences, of demand above all, are in both means.
func JudgeReported(metric string, maximize bool, before, after []float64) Verdict {
	first := reportLooks[0]
	if len(before) < first || len(after) < first {
		return Verdict{Judgement: Early, Reason: fmt.Sprintf(
			"%s is reported in %d intervals, and in %d under the last good configuration; %d are needed of each.",
			metric, len(after), len(before), first)}
	}
	b, a := EstimateMean(before), EstimateMean(after)
	v := Verdict{Judgement: Early, Reason: fmt.Sprintf("%s is %.6g on average, %.6g under the last good configuration",
		metric, a.Mean, b.Mean)}
	worse, better := a.Mean, b.Mean
	if maximize {
		worse, better = better, worse
	}
	if better > 0 {
		v.Ratio = worse / better
	}
	if !a.known() || !b.known() {
		v.Reason += "; the values change too slowly to compare them yet."
		return v
	}
	variance := a.variance + b.variance
	freedom := min(a.freedom, b.freedom)
	if variance > 0 { // Welch and Satterthwaite
		freedom = variance * variance / (a.variance*a.variance/a.freedom + b.variance*b.variance/b.freedom)
	}
	band := student(normal999, freedom) * math.Sqrt(variance)
	loss := worse - better
	if band > 0 {
		v.Excess = loss / band
	}
	switch {
	case loss > reportLoss*math.Abs(b.Mean)+band:
		v.Judgement = Worse
		v.Reason += fmt.Sprintf(": worse by more than %.0f %%, with a confidence of 99.9 %% (%d and %d intervals).",
			100*reportLoss, len(after), len(before))
	default:
		v.Judgement = Keep
		v.Reason += fmt.Sprintf(": not worse by more than %.0f %% with a confidence of 99.9 %% (%d and %d intervals).",
			100*reportLoss, len(after), len(before))
	}
	return v
}
