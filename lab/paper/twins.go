package paper

import (
	"context"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
	tracestats "github.com/autosched/autosched/workload/stats"
)

// Twin is the distance of a synthetic trace from a recorded one.
type Twin struct {
	// Durations is the Kolmogorov-Smirnov distance of the durations, Hours that of the hourly submissions over their
	// mean, Sizes half the sum of the differences of the shares of jobs by GPUs; absent where the original has none.
	Durations *float64 `json:"durations_ks,omitempty"`
	Hours     float64  `json:"hours_ks"`
	Sizes     *float64 `json:"sizes,omitempty"`
	// Burst is the variance over the mean of hourly submissions, Recurrence the share of jobs whose key more than ten
	// have: of the original, then of the twin.
	Burst      [2]float64 `json:"burst"`
	Recurrence [2]float64 `json:"recurrence"`
}

// venusFile has the submissions of Helios's cluster Venus, and no jobs.
const venusFile = "helios-venus/throughput.csv.gz"

// twins are windows by the originals that their traces stand for.
var twins = []struct{ window, original, file string }{
	{"philly-like-1.2", "Philly, September to November 2017", phillyFile},
	{"helios-like-1.3", "Helios-Venus, submissions alone", venusFile},
	{"pai-like-1.1", "PAI 2023, of which the profile is not: it is of PAI 2020", paiFile},
}

// Instead names the synthetic windows that stand for a file of a recorded trace, "" if none do.
func Instead(file string) string {
	for _, t := range twins {
		if t.file == file {
			name, _, _ := strings.Cut(t.window, "-like")
			return ". The windows " + name + "-like are its synthetic twin, and need no file"
		}
	}
	return ""
}

func twinUnits() (out []Unit) {
	for _, t := range twins {
		out = append(out, Unit{Experiment: "twins", Name: t.window, Core: true, Data: t.file, Seconds: 2,
			measure: func(ctx context.Context, d *Data) (any, map[string]float64, error) {
				o, err := d.load(ctx, windowOf(t.window), "tiresias")
				if err != nil {
					return nil, nil, err
				}
				hours := hourly(o.Trace)
				if t.file == venusFile {
					rows, column, err := readTable(filepath.Join(d.Folder, t.file))
					if err != nil {
						return nil, nil, err
					}
					counts, err := venusHours(rows, column("submit_gpu_job"))
					return &Twin{Hours: stats.KS(overMean(counts), overMean(hours)),
						Burst: [2]float64{burst(counts), burst(hours)}}, nil, err
				}
				w, err := d.open(ctx, t.file)
				if err != nil {
					return nil, nil, err
				}
				counts := hourly(w)
				x := &Twin{Durations: new(stats.KS(seconds(w), seconds(o.Trace))), Sizes: new(sizesApart(w, o.Trace)),
					Hours: stats.KS(overMean(counts), overMean(hours)), Burst: [2]float64{burst(counts), burst(hours)},
					Recurrence: [2]float64{tracestats.Describe(w, nil).Recurrence.Over10,
						tracestats.Describe(o.Trace, nil).Recurrence.Over10}}
				return x, nil, nil
			}})
	}
	return out
}

func seconds(w *workload.Workload) (out []float64) {
	for _, j := range w.Jobs() {
		out = append(out, j.Duration.Seconds())
	}
	return out
}

// hourly counts submissions by hour.
func hourly(w *workload.Workload) []float64 {
	counts, _ := tracestats.Counts(w, day/24)
	return counts
}

func overMean(v []float64) []float64 {
	mean := stats.Mean(v)
	out := slices.Clone(v)
	for i := range out {
		out[i] /= mean
	}
	return out
}

// burst is the variance over the mean.
func burst(v []float64) float64 {
	mean, squares := stats.Mean(v), 0.
	for _, x := range v {
		squares += (x - mean) * (x - mean) / float64(len(v))
	}
	return squares / mean
}

// sizesApart is half the sum of the differences of the shares of jobs by GPUs.
func sizesApart(a, b *workload.Workload) (apart float64) {
	shares := map[int64]float64{}
	for k, w := range []*workload.Workload{a, b} {
		for _, j := range w.Jobs() {
			shares[int64(j.GPUs)] += float64(1-2*k) / float64(w.Len())
		}
	}
	for _, size := range slices.Sorted(maps.Keys(shares)) {
		apart += math.Abs(shares[size]) / 2
	}
	return apart
}

// venusHours returns the hourly submissions of GPU jobs of rows of ten minutes.
func venusHours(rows [][]string, column int) (counts []float64, err error) {
	if column < 0 {
		return nil, errors.New(venusFile + " has no column submit_gpu_job")
	}
	for i, row := range rows {
		v, err := strconv.ParseFloat(row[column], 64)
		if err != nil {
			return nil, err
		}
		if i%6 == 0 {
			counts = append(counts, 0)
		}
		counts[len(counts)-1] += v
	}
	return counts, nil
}

// twinTable has the distances of the synthetic traces.
func (p *page) twinTable() {
	if !p.has("twins/") {
		return
	}
	p.printf("\n### How far the synthetic traces are from recorded ones\n\nKolmogorov-Smirnov distances of durations and of " +
		"hourly submissions over their mean, half the sum of the differences of the\nshares of jobs by GPUs; variance over mean " +
		"of hourly submissions, and the share of jobs whose key more than ten have,\nrecorded | synthetic. A profile has its " +
		"statistics from the whole trace of its cluster, Philly's file is a part of it.\n")
	p.table(2, "trace", "recorded", "durations", "hours", "sizes", "burst", "recurrence")
	for _, t := range twins {
		x := read[Twin](&p.results, "twins/"+t.window)
		if x == nil {
			continue
		}
		known := func(v *float64) string {
			if v == nil {
				return ""
			}
			return number("%.2f", *v)
		}
		again := ""
		if x.Durations != nil {
			again = number("%.2f", x.Recurrence[0]) + ", " + number("%.2f", x.Recurrence[1])
		}
		p.row(t.window, t.original, known(x.Durations), number("%.2f", x.Hours), known(x.Sizes),
			number("%.0f", x.Burst[0])+", "+number("%.0f", x.Burst[1]), again)
	}
}
