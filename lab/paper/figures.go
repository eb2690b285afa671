package paper

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/stats"
)

// Figure is a figure or table of the paper with what is measured for it.
type Figure struct {
	// ID is the paper's number, such as 9 or table-3; Title names the figure.
	ID, Title string
	// Claim is the paper's number.
	Claim string
	// Experiments are the files of results that it is drawn from.
	Experiments []string
	// Missing is why it is not built; empty if it is.
	Missing string
	// here is the number measured, and whether it is like the paper's, in words.
	here func(*page) (number, same string)
	// detail writes a section.
	detail func(*page)
}

// Figures are in the order of the page.
var Figures = []Figure{
	{ID: "4b", Title: "JCT of Fixed, tuned on a week before, over that of hourly tuning by SelfTune",
		Claim: "up to 3.8", Experiments: []string{"methods"}, here: func(p *page) (string, string) {
			return p.range2("fixed-history", "selftune"), "no: fixed configurations are as often ahead"
		}},
	{ID: "4c", Title: "JCT of SelfTune over that of tuning on the true next hour", Claim: "up to 1.4",
		Experiments: []string{"methods"}, here: func(p *page) (string, string) {
			return p.range2("selftune", "published-optimal"), "smaller"
		}},
	{ID: "4d", Title: "time of a round of SelfTune", Claim: "tens of minutes", Experiments: []string{"methods"},
		here: func(p *page) (string, string) { return p.times("selftune"), "not comparable: another simulator" }},
	{ID: "8", Title: "relative error of an hour's submissions, by day", Claim: ".3 to 1.0, .6 to 2.3 without FFT",
		Experiments: []string{"arrivals"}, here: func(p *page) (string, string) {
			lo, hi := math.Inf(1), 0.
			for _, name := range forecastTraces {
				if f := read[Forecasts](&p.results, "arrivals/"+name); f != nil {
					lo, hi = min(lo, (*f)["paper"].DayLeast), max(hi, (*f)["paper"].DayMost)
				}
			}
			return number("%.2f", lo) + number(" to %.2f", hi), "no: theirs is against the smoothed series"
		}, detail: (*page).forecasts},
	{ID: "table-3", Title: "accuracy of the class of a duration", Claim: "88.2, 90.4, 82.7 %",
		Experiments: []string{"predictor"}, here: func(p *page) (string, string) {
			var text []string
			for _, name := range forecastTraces {
				if x := read[Predicted](&p.results, "predictor/"+name); x != nil {
					text = append(text, percent(x.Queries["submission"].Accuracy))
				}
			}
			return strings.Join(text, ", ") + " %", "at submission no"
		}, detail: (*page).predictor},
	{ID: "9", Title: "Tiresias: JCT of SelfTune over AutoSched's", Claim: "1.10 to 1.36",
		Experiments: []string{"methods"}, here: func(p *page) (string, string) {
			return p.pair("tiresias", "selftune", "published"), "smaller"
		}},
	{ID: "10", Title: "Tiresias: JCT with 10 samples and no causal model over that with the search controller",
		Claim: "about 1", Experiments: []string{"methods"}, here: func(p *page) (string, string) {
			return p.pair("tiresias", "published-no-controller", "published"), "yes"
		}, detail: (*page).ablations},
	{ID: "11", Title: "Tiresias: what a round costs without the causal tuner over that with it", Claim: "9.5 to 22.7",
		Experiments: []string{"methods"}, here: func(p *page) (string, string) { return p.saved("tiresias"), "no" }},
	{ID: "12", Title: "Tiresias: time of a measurement over that with the trace aggregator", Claim: "2.6 to 5.8",
		Experiments: []string{"aggregator"}, here: func(p *page) (string, string) { return p.grouped("tiresias"), "no" },
		detail: (*page).aggregator},
	{ID: "13", Title: "Themis: jobs with a finish-time fairness of at most 1, AutoSched over Fixed",
		Claim: "1.07 to 1.12", Experiments: []string{"methods"}, here: func(p *page) (string, string) {
			return p.fairness("fixed-oracle"), "no"
		}, detail: (*page).fair},
	{ID: "14", Title: "Themis: the same share without the search controller over that with it", Claim: "1.04 to 1.05",
		Missing: "the published tuner's variants are measured with the average JCT alone"},
	{ID: "15", Title: "Themis: what a round costs without the causal tuner over that with it", Claim: "4.8 to 5.5",
		Experiments: []string{"methods"}, here: func(p *page) (string, string) { return p.saved("themis"), "no" }},
	{ID: "16", Title: "Themis: time of a measurement over that with the trace aggregator", Claim: "1.9 to 3.9",
		Experiments: []string{"aggregator"}, here: func(p *page) (string, string) { return p.grouped("themis"), "no" }},
	{ID: "18", Title: "Lucid: JCT of SelfTune over AutoSched's", Claim: "up to 1.15 to 1.17",
		Experiments: []string{"methods"}, here: func(p *page) (string, string) {
			return p.pair("lucid", "selftune", "published"), "smaller"
		}},
	{ID: "19", Title: "Lucid: JCT with the search controller over that with 10 samples and no causal model",
		Claim: "up to 1.05", Experiments: []string{"methods"}, here: func(p *page) (string, string) {
			return p.pair("lucid", "published", "published-no-controller"), "yes"
		}},
	{ID: "20a", Title: "Lucid: what a round costs without the causal tuner over that with it", Claim: "3.4",
		Experiments: []string{"methods"}, here: func(p *page) (string, string) { return p.saved("lucid"), "no" }},
	{ID: "20b", Title: "Lucid: time of a measurement over that with the trace aggregator", Claim: "5.7",
		Experiments: []string{"aggregator"}, here: func(p *page) (string, string) { return p.grouped("lucid"), "no" }},
	{ID: "21b", Title: "Lucid: the parameter that hourly tuning changes most", Claim: "pack knob, then profiler capacity",
		Experiments: []string{"methods"}, here: func(p *page) (string, string) { return p.changed("lucid", "published"), "" }},

	{ID: "1", Title: "Helios's utilisation and submissions in a day", Missing: "the trace of Helios is not at hand"},
	{ID: "2", Title: "durations, service, submissions and recurrence of the traces",
		Missing: "`autosched trace stats` and `trace stats --plot` show them for any trace; PAI 2020 and Helios are not at hand"},
	{ID: "7", Title: "Tiresias's causal graph", Missing: "drawn by hand in the paper; `autosched explain learn` learns one"},
	{ID: "17", Title: "Themis's causal graph, lease term against job load",
		Missing: "the graph as 7; leases by round are not kept in the results"},
	{ID: "21a", Title: "Lucid's causal graph", Missing: "as 7"},
	{ID: "table-4", Title: "error of the causal performance model",
		Missing: "`autosched-lab foresee` measures it; [notes/causal-model.md](notes/causal-model.md) has its numbers"},
	{ID: "table-5", Title: "JCT with four metrics of similarity of the generator",
		Missing: "one metric is built, the sum of absolute differences, on which the paper settles"},
	{ID: "map", Title: "what tuning is worth, by window", Experiments: []string{"methods", "windows"}},
	{ID: "rejection", Title: "trials that causal rejection saves", Experiments: []string{"rejection"}},
}

// forecastTraces are the windows whose traces predictors are measured on.
var forecastTraces = []string{"philly", "helios-like", "pai", "acme-like-1.1"}

func findFigure(id string) *Figure {
	for i := range Figures {
		if Figures[i].ID == id {
			return &Figures[i]
		}
	}
	return nil
}

// FigureIDs are the names of the figures and tables.
func FigureIDs() (out []string) {
	for i := range Figures {
		out = append(out, Figures[i].ID)
	}
	return out
}

// each calls a function with the cells of two methods that are both measured.
func (p *page) each(scheduler, a, b string, with func(x *window, a, b cell)) {
	for i := range windows {
		x := &windows[i]
		m, n := p.cell(x.name, scheduler, a), p.cell(x.name, scheduler, b)
		if len(m) > 0 && len(n) > 0 {
			with(x, m, n)
		}
	}
}

// pair is the average JCT of one method over another's, by window.
func (p *page) pair(scheduler, a, b string) string {
	var text []string
	p.each(scheduler, a, b, func(x *window, a, b cell) {
		text = append(text, fmt.Sprintf("%.3f %s", a.over(b), x.name))
	})
	if len(text) > 3 {
		text = text[:3]
	}
	return strings.Join(text, ", ")
}

// range2 is the range of the same over all schedulers and windows, with the geometric mean.
func (p *page) range2(a, b string) string {
	var all []float64
	for _, s := range schedulerNames {
		p.each(s, a, b, func(_ *window, a, b cell) { all = append(all, a.over(b)) })
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f to %.3f, mean %.3f, %d cells", slices.Min(all), slices.Max(all), geometric(all), len(all))
}

// times is the time of a method's round in simulations of the window.
func (p *page) times(name string) string {
	var all []float64
	for i := range windows {
		for _, s := range schedulerNames {
			if r := p.all[methodID(windows[i].name, s, name, 1)]; r != nil {
				if v, ok := r.Times["round_over_simulation"]; ok {
					all = append(all, v)
				}
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return fmt.Sprintf("%.1f simulations of the window (%.1f to %.1f)", stats.Quantile(all, .5), all[0], all[len(all)-1])
}

// saved is the number of configurations measured without the causal tuner over that with it.
func (p *page) saved(scheduler string) string {
	var text []string
	p.each(scheduler, "published-no-causal", "published", func(x *window, a, b cell) {
		perRound := func(o *Outcome) float64 { return float64(o.Evaluations) / float64(max(1, o.Rounds)) }
		text = append(text, fmt.Sprintf("%.2f %s", a.mean(perRound)/b.mean(perRound), x.name))
	})
	if len(text) == 0 {
		return ""
	}
	return strings.Join(text[:min(3, len(text))], ", ") + " (measurements)"
}

// grouped is the speed-up by groups, by window.
func (p *page) grouped(scheduler string) string {
	var text []string
	for i := range windows {
		if r := p.all["aggregator/"+windows[i].name+"/"+scheduler]; r != nil {
			text = append(text, number("%.2f ", r.Times["speedup"])+windows[i].name)
		}
	}
	return strings.Join(text, ", ")
}

// changed are the parameters that a method changes, with their shares of its rounds over the core windows.
func (p *page) changed(scheduler, method string) string {
	counts, rounds := map[string]int{}, 0
	for i := range windows {
		if !windows[i].core {
			continue
		}
		for _, o := range p.cell(windows[i].name, scheduler, method) {
			rounds += o.Rounds
			for k, v := range o.Changed {
				counts[k] += v
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	var text []string
	for _, n := range names {
		text = append(text, fmt.Sprintf("%s %.0f %%", n, 100*float64(counts[n])/float64(rounds)))
	}
	return strings.Join(text[:min(3, len(text))], ", ")
}

// fairness is the share of fair jobs of the published tuner over another's, by window, tuned for that share.
func (p *page) fairness(other string) string {
	var text []string
	p.each(fairThemis, "published", other, func(x *window, a, b cell) {
		text = append(text, fmt.Sprintf("%.3f %s", a.mean(fairShare)/b.mean(fairShare), x.name))
	})
	return strings.Join(text, ", ")
}

func fairShare(o *Outcome) float64 { return o.FTF }

func (p *page) fair() {
	p.printf("\n### Themis, tuned for fairness (13)\n\nShare of jobs with a finish-time fairness of at most 1, %%, where that " +
		"share is the objective.\n")
	p.table(1, append([]string{"window"}, fairMethods...)...)
	for i := range windows {
		if x := &windows[i]; x.core {
			row := []string{x.name}
			for _, m := range fairMethods {
				row = append(row, percent(p.cell(x.name, fairThemis, m).mean(fairShare)))
			}
			p.row(row...)
		}
	}
}

// ablations are parts of the published tuner and of autosched left out.
func (p *page) ablations() {
	p.printf(`
### What the parts are worth (10, 14, 19, and autosched's own)

Average JCT of the whole tuner over that without the part, geometric means over windows and schedulers, with the least
and the most: below 1 the part helps. Measurements and time of a round are over the whole tuner's.
`)
	p.table(2, "tuner", "without, or with", "ratio", "least", "most", "cells", "measurements")
	var rows [][3]string
	for _, v := range variants[1:] {
		rows = append(rows, [3]string{"published", v.name, v.about})
	}
	for _, name := range slices.Sorted(maps.Keys(settingsOf)) {
		rows = append(rows, [3]string{"autosched", name, ablationNames[name]})
	}
	for _, r := range rows {
		var ratios, trials []float64
		for _, s := range schedulerNames {
			p.each(s, r[0], r[1], func(_ *window, whole, part cell) {
				// An ablation of one seed is compared with that seed.
				whole = whole[:min(len(whole), len(part))]
				ratios = append(ratios, whole.over(part))
				evaluations := func(o *Outcome) float64 { return float64(o.Evaluations) / float64(max(1, o.Rounds)) }
				trials = append(trials, part.mean(evaluations)/whole.mean(evaluations))
			})
		}
		if len(ratios) == 0 {
			continue
		}
		p.row(r[0], r[2], number("%.3f", geometric(ratios)), number("%.3f", slices.Min(ratios)),
			number("%.3f", slices.Max(ratios)), fmt.Sprint(len(ratios)), number("%.2f", geometric(trials)))
	}
}

var ablationNames = map[string]string{
	"autosched/futures=1":  "1 future",
	"autosched/futures=8":  "8 futures",
	"autosched/no-daily":   "no daily rule: cold rounds alone",
	"autosched/no-fast":    "no fast path: the daily rule alone",
	"autosched/no-guards":  "no guards",
	"autosched/repeat":     "the last hour again in place of the forecast",
	"autosched/no-predict": "durations drawn from history",
}

func (p *page) aggregator() {
	p.printf("\n### The trace aggregator (12, 16, 20b)\n\nGroups of four GPUs. Kendall's rank correlation of 20 configurations " +
		"on groups and on jobs; beside it that of the same\njobs, each up to a minute later; the loss by choosing on groups; " +
		"the speed-up of a measurement, a time.\n")
	p.table(2, "window", "scheduler", "jobs", "groups", "tau", "tau, moved", "lost, %", "speed-up", "most")
	for i := range windows {
		for _, s := range schedulerNames {
			id := "aggregator/" + windows[i].name + "/" + s
			g := read[Aggregated](&p.results, id)
			if g == nil {
				continue
			}
			t := p.all[id].Times
			p.row(windows[i].name, s, number("%.0f", g.JobsIn), number("%.0f", g.JobsOut), number("%.2f", g.Tau),
				number("%.2f", g.Noise), percent(g.Lost), number("%.2f", t["speedup"]), number("%.2f", t["most_speedup"]))
		}
	}
}

func (p *page) predictor() {
	p.printf("\n### Duration classes (table 3)\n\nAccuracy, %%, on the last 30 %% of the jobs: of boosted trees, of the most " +
		"frequent class, and of the class in which a job\nis by its elapsed time.\n")
	p.table(2, "trace", "asked", "jobs", "trees", "most frequent", "elapsed")
	for _, name := range forecastTraces {
		x := read[Predicted](&p.results, "predictor/"+name)
		if x == nil {
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(x.Queries)) {
			q := x.Queries[kind]
			p.row(name, kind, fmt.Sprint(x.Test), percent(q.Accuracy), percent(q.Majority), percent(q.Elapsed))
		}
	}
}

func (p *page) forecasts() {
	p.printf("\n### An hour's submissions (8)\n\nRelative error of the number of jobs of the next hour, mean of a day: the " +
		"least, the median and the most of two weeks;\nWAPE is the sum of errors over that of jobs. Against the true counts.\n")
	p.table(2, "trace", "method", "least", "median", "most", "WAPE")
	for _, name := range forecastTraces {
		f := read[Forecasts](&p.results, "arrivals/"+name)
		if f == nil {
			continue
		}
		for _, m := range slices.Sorted(maps.Keys(*f)) {
			e := (*f)[m]
			p.row(name, m, number("%.2f", e.DayLeast), number("%.2f", e.DayMedian), number("%.2f", e.DayMost),
				number("%.2f", e.WAPE))
		}
	}
}
