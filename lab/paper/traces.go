package paper

import (
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/workload"
	tracestats "github.com/autosched/autosched/workload/stats"
)

// Described is a trace as the paper's figures 1 and 2 describe theirs; parts that a file has no data of are absent.
type Described struct {
	Jobs int `json:"jobs,omitempty"`
	// Submitted and Used are by hour of the day: mean, tenth and ninetieth percentile over days of the submissions of
	// an hour, and of the share of the GPUs in use.
	Submitted [][3]float64 `json:"submitted,omitempty"`
	Used      [][3]float64 `json:"used,omitempty"`
	// Period is the strongest period of hourly submissions of up to a week, in hours, Daily the share of their variance
	// at periods of 22 to 26 h, Weeks at longer ones.
	Period float64 `json:"period_h,omitempty"`
	Daily  float64 `json:"daily,omitempty"`
	Weeks  float64 `json:"longer,omitempty"`
	// Durations are quantiles, at every twentieth.
	Durations []float64 `json:"durations_s,omitempty"`
	// Service is the GPU-time of jobs of 1, 2 to 4, 5 to 8, and more GPUs: percentiles 10, 50 and 90, in GPU-seconds.
	Service [][3]float64 `json:"service_gpu_s,omitempty"`
	// Recurring are the shares of the jobs whose key more than 1, 10 and 100 have.
	Recurring []float64 `json:"recurring,omitempty"`
}

// earthFile has the GPUs in use of Helios's cluster Earth in May 2020, by virtual cluster and ten minutes.
const earthFile = "helios-earth/vc_load_10min_2020-05.csv.gz"

// serviceBands are the greatest numbers of GPUs of a band.
var serviceBands = []float64{1, 4, 8, math.Inf(1)}

func describedUnits() []Unit {
	out := traceUnits("traces", 2, 2, func(_ context.Context, w *workload.Workload) (any, error) {
		return describe(w), nil
	})
	counters := func(name, file string, of func(rows [][]string, column func(string) int) (*Described, error)) {
		out = append(out, Unit{Experiment: "traces", Name: name, Core: true, Data: file, Seed: 1, Rank: 2, Seconds: 1,
			measure: func(_ context.Context, d *Data) (any, map[string]float64, error) {
				rows, column, err := readTable(filepath.Join(d.Folder, file))
				if err != nil {
					return nil, nil, err
				}
				v, err := of(rows, column)
				return v, nil, err
			}})
	}
	counters("helios-venus", venusFile, describeVenus)
	counters("helios-earth", earthFile, describeEarth)
	return out
}

func describe(w *workload.Workload) *Described {
	counts, from := tracestats.Counts(w, time.Hour)
	x := &Described{Jobs: w.Len(), Submitted: byHour(counts, from.Hour())}
	x.periods(counts)
	work := make([][]float64, len(serviceBands))
	durations := seconds(w)
	keys := map[string]int{}
	for _, j := range w.Jobs() {
		band := slices.IndexFunc(serviceBands, func(most float64) bool { return j.GPUs.Count() <= most })
		work[band] = append(work[band], j.Duration.Seconds()*j.GPUs.Count())
		if j.Key != "" {
			keys[j.Key]++
		}
	}
	slices.Sort(durations)
	for q := range 21 {
		x.Durations = append(x.Durations, math.Round(stats.Quantile(durations, float64(q)/20)))
	}
	for _, v := range work {
		x.Service = append(x.Service, spreadOf(v, 0))
	}
	if len(keys) > 0 {
		for _, least := range []int{1, 10, 100} {
			n := 0
			for _, of := range keys {
				if of > least {
					n += of
				}
			}
			x.Recurring = append(x.Recurring, roundTo(float64(n)/float64(w.Len()), 4))
		}
	}
	return x
}

// periods are those of hourly counts.
func (x *Described) periods(counts []float64) {
	share := tracestats.Periodogram(counts, time.Hour)
	best := 0.
	for k := 1; k < len(share); k++ {
		hours := 2 * float64(len(share)-1) / float64(k)
		if share[k] > best && hours <= 7*24 {
			best, x.Period = share[k], roundTo(hours, 2)
		}
		if hours >= 22 && hours < 26 {
			x.Daily += share[k]
		} else if hours >= 26 {
			x.Weeks += share[k]
		}
	}
	x.Daily, x.Weeks = roundTo(x.Daily, 4), roundTo(x.Weeks, 4)
}

// byHour has the mean, the tenth and the ninetieth percentile of successive hours by hour of the day, of which the
// first is named.
func byHour(values []float64, first int) (out [][3]float64) {
	for h := range 24 {
		var v []float64
		for i := (h - first + 24) % 24; i < len(values); i += 24 {
			v = append(v, values[i])
		}
		mean := 0.
		if len(v) > 0 {
			mean = roundTo(stats.Mean(v), 4)
		}
		spread := spreadOf(v, 4)
		out = append(out, [3]float64{mean, spread[0], spread[2]})
	}
	return out
}

// spreadOf are percentiles 10, 50 and 90; zeros of nothing.
func spreadOf(v []float64, places int) (out [3]float64) {
	if len(v) == 0 {
		return out
	}
	slices.Sort(v)
	for i, q := range []float64{.1, .5, .9} {
		out[i] = roundTo(stats.Quantile(v, q), places)
	}
	return out
}

func describeVenus(rows [][]string, column func(string) int) (*Described, error) {
	counts, err := venusHours(rows, column("submit_gpu_job"))
	x := &Described{Submitted: byHour(counts, 0)}
	x.periods(counts)
	return x, err
}

// describeEarth sums the virtual clusters up by time.
func describeEarth(rows [][]string, column func(string) int) (*Described, error) {
	at, running, all := column("unix"), column("running_gpu_num"), column("total_gpu_num")
	if min(at, running, all) < 0 {
		return nil, errors.New(earthFile + " lacks a column of unix, running_gpu_num and total_gpu_num")
	}
	used, of := map[int64]float64{}, map[int64]float64{}
	for i, row := range rows {
		unix, err := strconv.ParseInt(row[at], 10, 64)
		r, err2 := strconv.ParseFloat(row[running], 64)
		n, err3 := strconv.ParseFloat(row[all], 64)
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, fmt.Errorf("%s: row %d: %w", earthFile, i+2, err)
		}
		used[unix/3600] += r
		of[unix/3600] += n
	}
	var hours []int64
	for h := range of {
		hours = append(hours, h)
	}
	slices.Sort(hours)
	var shares []float64
	for _, h := range hours {
		shares = append(shares, used[h]/of[h])
	}
	return &Described{Used: byHour(shares, int(hours[0]%24))}, nil
}

// readTable reads a compressed CSV file; column finds a name of its header, -1 without it.
func readTable(path string) (rows [][]string, column func(string) int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := gzip.NewReader(file)
	if err != nil {
		return nil, nil, err
	}
	all, err := csv.NewReader(text).ReadAll()
	if err != nil || len(all) < 2 {
		return nil, nil, errors.Join(err, fmt.Errorf("%s has no rows", path))
	}
	return all[1:], func(name string) int { return slices.Index(all[0], name) }, nil
}

// describedTraces in the order of the page.
var describedTraces = append([]string{"helios-venus", "helios-earth"}, forecastTraces...)

// traces describes the traces as figures 1 and 2 do.
func (p *page) traces() {
	if !p.has("traces/") {
		return
	}
	p.printf(`
### A day and the jobs of the traces (1, 2)

Of Helios there are counters alone: the submissions of its cluster Venus from April to August 2020, and the GPUs in use of
Earth in May 2020. By hour of the day: the mean of the least and the most busy hour, over days; the strongest period of
up to a week of hourly submissions, and the shares of their variance with periods of a day (22 to 26 h), longer, and
shorter. The paper: about 23 h, and bursts. Shares of jobs whose key more than 1, 10 and 100 have; the paper: about 60 %% of PAI's
more than 10. The key is user and name, or tenant, GPUs and sweep where a trace has no names, so that Philly's overstates
it.
`)
	p.table(1, "trace", "jobs", "jobs an hour", "GPUs in use, %", "period, h", "daily, %", "longer, %", "shorter, %",
		"recurring, %")
	for _, name := range describedTraces {
		x := read[Described](&p.results, "traces/"+name)
		if x == nil {
			continue
		}
		row := []string{name, "", "", "", "", "", "", "", ""}
		if x.Jobs > 0 {
			row[1] = fmt.Sprint(x.Jobs)
		}
		if len(x.Submitted) > 0 {
			row[2] = ends(x.Submitted, 1)
			row[4], row[5], row[6] = number("%.1f", x.Period), percent(x.Daily), percent(x.Weeks)
			row[7] = percent(1 - x.Daily - x.Weeks)
		}
		if len(x.Used) > 0 {
			row[3] = ends(x.Used, 100)
		}
		if len(x.Recurring) > 0 {
			row[8] = percent(x.Recurring[0]) + ", " + percent(x.Recurring[1]) + ", " + percent(x.Recurring[2])
		}
		p.row(row...)
	}
	p.dayPlot()
	p.jobPlot()
}

// ends are the least and the most of the means.
func ends(v [][3]float64, times float64) string {
	var means []float64
	for _, x := range v {
		means = append(means, times*x[0])
	}
	return fmt.Sprintf("%.3g to %.3g", slices.Min(means), slices.Max(means))
}

// dayPlot has the day of the traces: mean and the range of the middle four fifths of the days.
func (p *page) dayPlot() {
	var rows []chart.Row
	row := chart.Row{Height: 220}
	for _, name := range describedTraces {
		x := read[Described](&p.results, "traces/"+name)
		if x == nil {
			continue
		}
		values, title, unit, times := x.Submitted, name, "jobs an hour", 1.
		if len(values) == 0 {
			values, unit, times = x.Used, "GPUs in use, %", 100
		}
		var mean, low, high []chart.Point
		for h, v := range values {
			at := float64(h) + .5
			mean = append(mean, chart.Point{X: at, Y: times * v[0]})
			low = append(low, chart.Point{X: at, Y: times * v[1]})
			high = append(high, chart.Point{X: at, Y: times * v[2]})
		}
		slices.Reverse(low)
		row.Charts = append(row.Charts, &chart.Chart{Title: title, X: chart.Axis{Name: "hour of the day", Max: 24},
			Y: chart.Axis{Name: unit, Include: []float64{0}}, Layers: []chart.Layer{
				&chart.Area{Mark: chart.Mark{Color: chart.Soft.Fade(.2)}, Points: append(high, low...)},
				&chart.Line{Mark: chart.Mark{Color: chart.Series(0)}, Points: mean}}})
		if len(row.Charts) == 3 {
			rows, row = append(rows, row), chart.Row{Height: 220}
		}
	}
	if len(row.Charts) > 0 {
		rows = append(rows, row)
	}
	p.plots["day.svg"] = &chart.Picture{Label: "Submissions and GPUs in use by hour of the day", Rows: rows}
	p.printf("\n![Submissions and GPUs in use by hour of the day](paper/day.svg)\n\nMean over days, and the range of the middle " +
		"four fifths of them.\n")
}

// jobPlot has the durations and the GPU-time of jobs.
func (p *page) jobPlot() {
	durations := &chart.Chart{Title: "durations", X: chart.Axis{Name: "duration, s", Log: true},
		Y: chart.Axis{Name: "share of jobs, %", Max: 100}}
	service := &chart.Chart{Title: "GPU-time of a job", X: chart.Axis{Labels: true, Min: -.5, Max: 3.5},
		Y: chart.Axis{Name: "GPU-seconds", Log: true}}
	for i, text := range []string{"1 GPU", "2 to 4", "5 to 8", "more"} {
		service.X.Ticks = append(service.X.Ticks, chart.Tick{Value: float64(i), Label: text})
	}
	n := 0
	for _, name := range forecastTraces {
		x := read[Described](&p.results, "traces/"+name)
		if x == nil {
			continue
		}
		line := &chart.Line{Mark: chart.Mark{Name: name, Color: chart.Series(n)}}
		for q, v := range x.Durations {
			line.Points = append(line.Points, chart.Point{X: max(1, v), Y: 5 * float64(q)})
		}
		durations.Layers = append(durations.Layers, line)
		dots := &chart.Dots{Mark: chart.Mark{Color: chart.Series(n)}, Radius: 4}
		for i, v := range x.Service {
			if v[2] == 0 {
				continue
			}
			at := float64(i) + (float64(n)-1.5)/6
			dots.Points = append(dots.Points, chart.Point{X: at, Y: v[1]})
			service.Layers = append(service.Layers, &chart.Line{Mark: chart.Mark{Color: chart.Series(n)},
				Points: []chart.Point{{X: at, Y: max(1, v[0])}, {X: at, Y: v[2]}}})
		}
		service.Layers = append(service.Layers, dots)
		n++
	}
	p.plots["jobs.svg"] = &chart.Picture{Label: "Durations and GPU-time of jobs",
		Rows: []chart.Row{{Height: 300, Charts: []*chart.Chart{durations, service}}}}
	p.printf("\n![Durations and GPU-time of jobs](paper/jobs.svg)\n\nDistribution of durations; median of a job's GPU-time by " +
		"its GPUs, and the range of the middle four fifths of the jobs.\n")
}
