package stats

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/autosched/autosched/workload"
)

// Bins count per bin of the wall clock, from the bin of the first submission
// to that of the last.
type Bins struct {
	BinS        float64 `json:"bin_s"`
	Bins        int     `json:"bins"`
	Mean        float64 `json:"mean"`
	CV          float64 `json:"cv"`
	VarOverMean float64 `json:"variance_over_mean"`
	Max         int     `json:"max"`
	Empty       float64 `json:"empty"` // share of bins without any
}

// Profile is when jobs are submitted: jobs per hour in each hour of the
// day and on each day of the week (Monday first), over the mean of all. The clock
// is the trace's own where it names no zone, else UTC. An hour or a day the
// workload does not cover has 0.
type Profile struct {
	Hour    [24]float64 `json:"hour_of_day"`
	Weekday [7]float64  `json:"weekday"`
}

// Periods are the periods of the number of submissions, by a
// Fourier transform over whole days from the hour of the first submission.
type Periods struct {
	BinS  float64 `json:"bin_s"`
	Bins  int     `json:"bins"`
	Bands []Band  `json:"bands"`
	// Strongest are the five periods of the largest shares.
	Strongest []Period `json:"strongest"`
}

// Band is the share of the variance that has periods from FromH (included) to ToH
// hours; 0 stands for no end.
type Band struct {
	FromH float64 `json:"from_h"`
	ToH   float64 `json:"to_h"`
	Share float64 `json:"share"`
}

// Period is the share of the variance at one period.
type Period struct {
	Hours float64 `json:"period_h"`
	Share float64 `json:"share"`
}

// bandEnds of Band, in hours: bands around a day and a week are narrow.
var bandEnds = []float64{0, 1, 2, 6, 11, 13, 22, 26, 144, 192, 0}

// binOf is the bin of the wall clock in which a job was submitted.
func binOf(w *workload.Workload, j *workload.Job, bin time.Duration) int64 {
	seconds := w.Zero().Unix() + floorDiv(int64(w.Zero().Nanosecond())+int64(j.Submit), int64(time.Second))
	return floorDiv(seconds, int64(bin/time.Second))
}

func perBin(w *workload.Workload, jobs []workload.Job, bin time.Duration, counts func(i int) bool) Bins {
	first, last := binOf(w, &jobs[0], bin), binOf(w, &jobs[len(jobs)-1], bin)
	a := Bins{BinS: bin.Seconds(), Bins: int(last - first + 1)}
	n, squares, full := 0, 0.0, 0
	for i := 0; i < len(jobs); {
		b, k := binOf(w, &jobs[i], bin), 0
		for ; i < len(jobs) && binOf(w, &jobs[i], bin) == b; i++ {
			if counts(i) {
				k++
			}
		}
		n += k
		squares += float64(k) * float64(k)
		a.Max = max(a.Max, k)
		if k > 0 {
			full++
		}
	}
	bins := float64(a.Bins)
	a.Mean = float64(n) / bins
	a.Empty = 1 - float64(full)/bins
	if variance := squares/bins - a.Mean*a.Mean; variance > 0 {
		a.CV = math.Sqrt(variance) / a.Mean
		a.VarOverMean = variance / a.Mean
	}
	return a
}

func perHour(w *workload.Workload, jobs []workload.Job, counts func(i int) bool) Arrivals {
	a := perBin(w, jobs, time.Hour, counts)
	return Arrivals{Hours: a.Bins, Mean: a.Mean, CV: a.CV, VarOverMean: a.VarOverMean, Max: a.Max, Empty: a.Empty}
}

// maxBins bounds the memory of results that need every bin: 480 years of hours, 39 of
// five minutes.
const maxBins = 1 << 22

// Counts are the submissions in each bin of the wall clock, from the bin of the
// first job to that of the last; from is when the first bin begins. They are nil
// if there is no job, or more than four million bins.
func Counts(w *workload.Workload, bin time.Duration) (counts []float64, from time.Time) {
	if w.Len() == 0 || bin < time.Second {
		return nil, time.Time{}
	}
	first, last := binOf(w, &w.Jobs()[0], bin), binOf(w, &w.Jobs()[w.Len()-1], bin)
	if last-first >= maxBins {
		return nil, time.Time{}
	}
	counts = make([]float64, last-first+1)
	for i := range w.Jobs() {
		counts[binOf(w, &w.Jobs()[i], bin)-first]++
	}
	return counts, time.Unix(first*int64(bin/time.Second), 0).UTC()
}

func profileOf(w *workload.Workload) Profile {
	var p Profile
	counts, from := Counts(w, time.Hour)
	sum := 0.0
	var jobsHour, hours [24]float64
	var jobsDay, days [7]float64
	hour, day := from.Hour(), (int(from.Weekday())+6)%7
	for _, c := range counts {
		sum += c
		jobsHour[hour] += c
		hours[hour]++
		jobsDay[day] += c
		days[day]++
		if hour++; hour == 24 {
			hour, day = 0, (day+1)%7
		}
	}
	if sum == 0 {
		return p
	}
	mean := sum / float64(len(counts))
	for h := range p.Hour {
		if hours[h] > 0 {
			p.Hour[h] = jobsHour[h] / hours[h] / mean
		}
	}
	for d := range p.Weekday {
		if days[d] > 0 {
			p.Weekday[d] = jobsDay[d] / days[d] / mean
		}
	}
	return p
}

// periodsOf needs two days, else there is no period of a day to be seen.
func periodsOf(w *workload.Workload) []Periods {
	var out []Periods
	for _, bin := range []time.Duration{time.Hour, 5 * time.Minute} {
		counts, _ := Counts(w, bin)
		share := Periodogram(counts, bin)
		if share == nil {
			continue
		}
		// share[k] belongs to the period n/k bins.
		n := 2 * (len(share) - 1)
		p := Periods{BinS: bin.Seconds(), Bins: n}
		for i := 1; i < len(bandEnds); i++ {
			if to := bandEnds[i]; to == 0 || to > 2*bin.Hours() { // periods of two bins are the shortest
				p.Bands = append(p.Bands, Band{FromH: bandEnds[i-1], ToH: to})
			}
		}
		order := make([]int, 0, len(share)-1)
		for k := 1; k < len(share); k++ {
			order = append(order, k)
			hours := float64(n) / float64(k) * bin.Hours()
			for i := range p.Bands {
				if b := &p.Bands[i]; hours >= b.FromH && (b.ToH == 0 || hours < b.ToH) {
					b.Share += share[k]
				}
			}
		}
		slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(share[b], share[a]), cmp.Compare(a, b)) })
		for _, k := range order[:min(5, len(order))] {
			p.Strongest = append(p.Strongest, Period{Hours: float64(n) / float64(k) * bin.Hours(), Share: share[k]})
		}
		out = append(out, p)
	}
	return out
}

// Periodogram is the share of the variance of counts at each frequency: element
// k belongs to the period n/k bins, element 0 to the mean, which has none. It
// takes the whole days of counts, n bins, and returns n/2+1 shares; nil for less
// than two days, or if the counts do not vary.
func Periodogram(counts []float64, bin time.Duration) []float64 {
	day := int(24 * time.Hour / bin)
	days := len(counts) / day
	if days < 2 {
		return nil
	}
	// The transform of a prime number of days is slow: for years, drop days until
	// no factor is above seven.
	for days > 400 && !smooth(days) {
		days--
	}
	n := days * day
	mean := 0.0
	for _, c := range counts[:n] {
		mean += c
	}
	mean /= float64(n)
	v := make([]float64, n)
	for i, c := range counts[:n] {
		v[i] = c - mean
	}
	coeffs := fourier.NewFFT(n).Coefficients(nil, v)
	share, sum := make([]float64, len(coeffs)), 0.0
	for k := 1; k < len(coeffs); k++ {
		re, im := real(coeffs[k]), imag(coeffs[k])
		share[k] = re*re + im*im
		if 2*k < n { // each frequency but the highest stands for two
			share[k] *= 2
		}
		sum += share[k]
	}
	if sum == 0 {
		return nil
	}
	for k := range share {
		share[k] /= sum
	}
	return share
}

func smooth(n int) bool {
	for _, p := range []int{2, 3, 5, 7} {
		for n%p == 0 {
			n /= p
		}
	}
	return n == 1
}
