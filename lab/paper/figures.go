package paper

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
)

// Figure is a figure or table of the paper with its counterpart here.
type Figure struct {
	// ID is the paper's number, such as 9 or table-3; Title names the figure.
	ID, Title string
	// Claim is the paper's number, Low and High its range.
	Claim     string
	Low, High float64
	// Experiments are the files of results that it is drawn from.
	Experiments []string
	// why is the reason of a difference from the paper, as far as results show one: "" if they do not.
	why func(*page) string
	// here are the numbers measured, by window.
	here func(*page) []measured
	// detail writes a section.
	detail func(*page)
}

// measured is a number of a window.
type measured struct {
	window string
	value  float64
}

// Figures are in the order of the page.
var Figures = []Figure{
	{ID: "1", Title: "Helios's GPUs in use and submissions in a day", Claim: "both change much",
		Experiments: []string{"traces"}, detail: (*page).traces},
	{ID: "2", Title: "durations, GPU-time, periods and recurrence of the traces", Claim: "long tails; 23 h; bursts; 60 %",
		Experiments: []string{"traces"}},
	{ID: "4b", Title: "JCT of Fixed, tuned on the week before, over that of SelfTune", Claim: "up to 3.8", Low: 1.05,
		High: 3.8, Experiments: []string{"methods"},
		here: overAll("fixed-history", "selftune"), why: (*page).fixedWorse},
	{ID: "4c", Title: "JCT of SelfTune over that of tuning on the true next hour", Claim: "up to 1.4", Low: 1.05,
		High:        1.4,
		Experiments: []string{"methods"}, here: overAll("selftune", "published-optimal"), why: (*page).longerAhead},
	{ID: "4d", Title: "SelfTune: processor time of a round as a share of the hour, %",
		Claim: "tens of minutes: 17 and more", Low: 17, High: 100, Experiments: []string{"overhead"},
		here: func(p *page) []measured { return p.tuneTimes("selftune") }, why: (*page).fastMeasurements,
		detail: (*page).rounds},
	{ID: "abstract", Title: "processor time of a round without causal model and trace aggregator over that with both",
		Claim: "up to 132", Low: 2, High: 132, Experiments: []string{"overhead"}, here: (*page).controllerSaves,
		why: func(*page) string {
			return "the causal model rejects next to nothing (11, 15, 20a), and few jobs are alike (12, 16, 20b)"
		}},
	{ID: "7", Title: "Tiresias's causal graph", Claim: "its queues decide", Experiments: []string{"causal"},
		detail: (*page).graphs},
	{ID: "8", Title: "relative error of the next hour's submissions, mean of a day", Claim: ".6 to 2.3; of smoothed counts .3 to 1.0",
		Low: .6, High: 2.3,
		Experiments: []string{"arrivals"}, here: (*page).dayErrors,
		why:    func(*page) string { return "less than the range is better; the counts are not smoothed" },
		detail: (*page).forecasts},
	{ID: "table-3", Title: "accuracy of a duration's class at submission, %", Claim: "82.7 to 90.4", Low: 82.7,
		High: 90.4, Experiments: []string{"predictor"}, here: (*page).accuracies, why: (*page).whileRunning,
		detail: (*page).predictor},
	{ID: "table-5", Title: "Tiresias: JCT with places of history by cosine over that by absolute differences",
		Claim: "1.04 to 1.09", Low: 1.04, High: 1.09, Experiments: []string{"similarity", "methods"},
		here: over("tiresias", "published-cosine", "published"), why: (*page).noMeasure,
		detail: (*page).likenessTable},
	{ID: "table-4", Title: "error of the causal model's predictions, %, mean of the schedulers", Claim: "11.2 to 15.2",
		Low: 11.2, High: 15.2, Experiments: []string{"causal"}, here: (*page).causalErrors, why: (*page).daysNotModels,
		detail: (*page).causalTable},
	{ID: "9", Title: "Tiresias: JCT of SelfTune over AutoSched's", Claim: "1.10 to 1.36", Low: 1.1, High: 1.36,
		Experiments: []string{"methods"}, here: over("tiresias", "selftune", "published"),
		why: noneToForesee("tiresias")},
	{ID: "10", Title: "Tiresias: JCT without the search controller over that with it", Claim: "about 1", Low: .97,
		High: 1.05, Experiments: []string{"methods"}, here: over("tiresias", "published-no-controller", "published"),
		detail: (*page).ablations},
	{ID: "11", Title: "Tiresias: samples of a round over those measured, the others being rejected",
		Claim: "9.5 to 22.7", Low: 9.5, High: 22.7, Experiments: []string{"methods"}, here: saved("tiresias"),
		why: noneToReject("tiresias")},
	{ID: "12", Title: "Tiresias: time of a measurement over that with the trace aggregator", Claim: "2.6 to 5.8",
		Low:  2.6,
		High: 5.8, Experiments: []string{"aggregator"}, here: grouped("tiresias"),
		why: fewAlike("tiresias"), detail: (*page).aggregator},
	{ID: "13", Title: "Themis: share of jobs with a finish-time fairness of at most 1, AutoSched's over Fixed's",
		Claim: "1.07 to 1.12", Low: 1.07, High: 1.12, Experiments: []string{"methods"},
		here: (*page).fairness, why: (*page).fairOverDefault,
		detail: (*page).fair},
	{ID: "14", Title: "Themis: share of fair jobs with the search controller over that without it", Claim: ".95 to 1",
		Low: .94, High: 1.005, Experiments: []string{"methods"}, here: (*page).fairController,
		why: (*page).fairCausal},
	{ID: "15", Title: "Themis: samples of a round over those measured, the others being rejected", Claim: "4.8 to 5.5",
		Low: 4.8, High: 5.5, Experiments: []string{"methods"}, here: saved("themis"),
		why: noneToReject("themis")},
	{ID: "16", Title: "Themis: time of a measurement over that with the trace aggregator", Claim: "1.9 to 3.9",
		Low:  1.9,
		High: 3.9, Experiments: []string{"aggregator"}, here: grouped("themis"),
		why: fewAlike("themis")},
	{ID: "17", Title: "Themis's causal graph, and its lease term against the job load", Claim: "the lease term decides",
		Experiments: []string{"causal", "leases"}, detail: (*page).leases},
	{ID: "18", Title: "Lucid: JCT of SelfTune over AutoSched's", Claim: "up to 1.15 to 1.17; in its abstract 1.46",
		Low: 1.05, High: 1.17,
		Experiments: []string{"methods"}, here: over("lucid", "selftune", "published"),
		why: noneToForesee("lucid")},
	{ID: "19", Title: "Lucid: JCT with the search controller over that without it", Claim: "1 to 1.05", Low: 1,
		High:        1.05,
		Experiments: []string{"methods"}, here: over("lucid", "published", "published-no-controller")},
	{ID: "20a", Title: "Lucid: samples of a round over those measured, the others being rejected", Claim: "up to 3.4",
		Low: 1.5, High: 3.4, Experiments: []string{"methods"}, here: saved("lucid"),
		why: noneToReject("lucid")},
	{ID: "20b", Title: "Lucid: time of a measurement over that with the trace aggregator", Claim: "up to 5.7", Low: 1.5,
		High: 5.7, Experiments: []string{"aggregator"}, here: grouped("lucid"),
		why: fewAlike("lucid")},
	{ID: "21a", Title: "Lucid's causal graph", Claim: "a trade of profiler and packing",
		Experiments: []string{"causal"}},
	{ID: "21b", Title: "how often hourly tuning changes each parameter", Experiments: []string{"methods"},
		detail: (*page).changed},
	{ID: "map", Title: "what tuning is worth, by window", Experiments: []string{"methods", "windows"},
		detail: (*page).payMap},
	{ID: "rejection", Title: "trials that causal rejection saves", Experiments: []string{"rejection"},
		detail: (*page).rejection},
	{ID: "twins", Title: "distances of the synthetic traces", Experiments: []string{"twins"},
		detail: (*page).twinTable},
	{ID: "speed", Title: "simulation speed beside the peers' own programs", Experiments: []string{"speed"},
		detail: (*page).speedTable},
	{ID: "overhead", Title: "time of a round", Experiments: []string{"methods"}, detail: (*page).overhead},
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

// has reports whether there are results whose names begin so.
func (p *page) has(prefix string) bool {
	for name := range p.all {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
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

// over is the average JCT of one method over another's, by window.
func over(scheduler, a, b string) func(*page) []measured {
	return func(p *page) (out []measured) {
		p.each(scheduler, a, b, func(x *window, a, b cell) { out = append(out, measured{x.name, a.over(b)}) })
		return out
	}
}

// overAll is the same for all schedulers.
func overAll(a, b string) func(*page) []measured {
	return func(p *page) (out []measured) {
		for _, s := range schedulerNames {
			for _, m := range over(s, a, b)(p) {
				out = append(out, measured{m.window + " " + s, m.value})
			}
		}
		return out
	}
}

func perRound(o *Outcome) float64 { return float64(o.Evaluations) / float64(max(1, o.Rounds)) }

// saved is the samples of a round over those that are measured, where the causal model rejects the others as published.
func saved(scheduler string) func(*page) []measured {
	return func(p *page) (out []measured) {
		p.each(scheduler, "published-rejects", "published-rejects", func(x *window, a, _ cell) {
			n := a.mean(func(o *Outcome) float64 { return float64(o.Evaluations) })
			out = append(out, measured{x.name, 1 + a.mean(func(o *Outcome) float64 { return float64(o.Rejected) })/n})
		})
		return out
	}
}

// noneToReject says how many of a round's measurements are as good as its best.
func noneToReject(scheduler string) func(*page) string {
	return func(p *page) string {
		var near []float64
		p.each(scheduler, "published-rejects", "published-rejects", func(_ *window, a, _ cell) {
			near = append(near, a.mean(func(o *Outcome) float64 { return o.Close }))
		})
		return fmt.Sprintf("%.0f %% of a round's measurements are within 5 %% of its best: there is nothing to reject",
			100*stats.Mean(near))
	}
}

// fewAlike says how many groups the jobs of an hour make.
func fewAlike(scheduler string) func(*page) string {
	return func(p *page) string {
		jobs, groups := 0., 0.
		for i := range windows {
			if g := read[Aggregated](&p.results, "aggregator/"+windows[i].name+"/"+scheduler); g != nil {
				jobs, groups = jobs+g.JobsIn, groups+g.JobsOut
			}
		}
		return fmt.Sprintf("few jobs of a round are alike: %.0f make %.0f groups", jobs, groups)
	}
}

// noneToForesee says what the true next hour gives, which no forecast can exceed.
func noneToForesee(scheduler string) func(*page) string {
	return func(p *page) string {
		all := over(scheduler, "selftune", "published-optimal")(p)
		if len(all) == 0 {
			return ""
		}
		return "with the true next hour in place of the forecast: " + texts(all)
	}
}

func (p *page) whileRunning() string {
	var all []measured
	for _, name := range forecastTraces {
		if x := read[Predicted](&p.results, "predictor/"+name); x != nil {
			all = append(all, measured{name, 100 * x.Queries["uniform"].Accuracy})
		}
	}
	return "asked at an instant of a job's life: " + texts(all) + "; which the paper asks is not said"
}

// grouped is the speed-up by groups, by window.
func grouped(scheduler string) func(*page) []measured {
	return func(p *page) (out []measured) {
		for i := range windows {
			if r := p.all["aggregator/"+windows[i].name+"/"+scheduler]; r != nil && r.Times != nil {
				out = append(out, measured{windows[i].name, r.Times["speedup"]})
			}
		}
		return out
	}
}

func (p *page) dayErrors() (out []measured) {
	for _, name := range forecastTraces {
		if f := read[Forecasts](&p.results, "arrivals/"+name); f != nil {
			out = append(out, measured{name, (*f)["paper"].DayMedian})
		}
	}
	return out
}

func (p *page) accuracies() (out []measured) {
	for _, name := range forecastTraces {
		if x := read[Predicted](&p.results, "predictor/"+name); x != nil {
			out = append(out, measured{name, 100 * x.Queries["arrival"].Accuracy})
		}
	}
	return out
}

// fairness is the share of fair jobs of the published tuner over Fixed's, tuned for that share.
func (p *page) fairness() (out []measured) {
	p.each(fairThemis, "published", "fixed-oracle", func(x *window, a, b cell) {
		out = append(out, measured{x.name, a.mean(fairShare) / b.mean(fairShare)})
	})
	return out
}

// fairController is the share of fair jobs of the tuner with causal model and aggregator over that without both.
func (p *page) fairController() (out []measured) {
	p.each(fairThemis, "published-groups", "published-no-controller", func(x *window, a, b cell) {
		out = append(out, measured{x.name, a.mean(fairShare) / b.mean(fairShare)})
	})
	return out
}

// fastMeasurements is how long a measurement takes.
func (p *page) fastMeasurements() string {
	all := p.tuneTimes("selftune")
	var v []float64
	for _, m := range all {
		v = append(v, m.value*36/samples)
	}
	return fmt.Sprintf("a measurement takes %.1g s of processor time on average; by the paper's text several minutes",
		stats.Mean(v))
}

// fixedWorse compares SelfTune and Fixed with the default.
func (p *page) fixedWorse() string {
	f := Figure{}
	tuned, fixed := overAll("default", "selftune")(p), overAll("fixed-history", "default")(p)
	if len(tuned) == 0 || len(fixed) == 0 {
		return ""
	}
	return "JCT of the default over SelfTune's: " + f.text(tuned) + "; of Fixed over the default's: " + f.text(fixed) +
		": high ratios are of a week before that misleads, not of changes by the hour"
}

// longerAhead is the paper's Optimal on a longer true future.
func (p *page) longerAhead() string {
	f := Figure{}
	var out []string
	for _, hours := range []string{"4", "12"} {
		if all := overAll("selftune", "published-optimal-"+hours+"h")(p); len(all) > 0 {
			out = append(out, "on the true next "+hours+" hours: "+f.text(all))
		}
	}
	return strings.Join(out, "; ")
}

// noMeasure compares the least informed forecast with the truth.
func (p *page) noMeasure() string {
	f := Figure{}
	why := "error of the next hour's submissions by cosine over that by absolute differences: " + p.likenessErrors()
	if all := overAll("published-no-generator", "published-optimal")(p); len(all) > 0 {
		why += "; forecasts matter little: the JCT on the last hour is that on the true next one times " + f.text(all)
	}
	return why
}

// fairOver is the share of fair jobs of a variant over another's.
func (p *page) fairOver(a, b string) string {
	var all []measured
	p.each(fairThemis, a, b, func(x *window, a, b cell) {
		all = append(all, measured{x.name, a.mean(fairShare) / b.mean(fairShare)})
	})
	return texts(all)
}

func (p *page) fairOverDefault() string {
	return "Fixed is the best in hindsight; the tuner's share over the default's: " +
		p.fairOver("published", "default") + "; on the true next hour: " + p.fairOver("published-optimal", "default")
}

func (p *page) fairCausal() string {
	least, most := math.MaxInt, 0
	for _, m := range []string{"published", "published-groups", "published-no-controller"} {
		p.each(fairThemis, m, m, func(_ *window, a, _ cell) { least, most = min(least, len(a)), max(most, len(a)) })
	}
	seeds := units.Plural(most, "seed")
	if least < most {
		seeds = fmt.Sprintf("%d to %s", least, seeds)
	}
	return "with the causal model alone: " + p.fairOver("published", "published-no-controller") + "; of " + seeds +
		": one round's luck decides later ones"
}

// text is the numbers measured: each of a few, or the range and the geometric mean of many.
func (f *Figure) text(all []measured) string {
	if len(all) == 0 {
		return "not measured"
	}
	if len(all) > 4 {
		lo, hi, mean := f.spread(all)
		return fmt.Sprintf("%.3g to %.3g, mean %.3g of %d", lo, hi, mean, len(all))
	}
	return texts(all)
}

// texts are numbers with their windows.
func texts(all []measured) string {
	var out []string
	for _, m := range all {
		out = append(out, fmt.Sprintf("%.3g %s", m.value, m.window))
	}
	return strings.Join(out, ", ")
}

func (f *Figure) spread(all []measured) (lo, hi, mean float64) {
	var v []float64
	for _, m := range all {
		v = append(v, m.value)
	}
	return slices.Min(v), slices.Max(v), geometric(v)
}

// verdict compares the numbers measured with the paper's range.
func (f *Figure) verdict(all []measured) string {
	if len(all) == 0 {
		return ""
	}
	within, below := 0, 0
	for _, m := range all {
		switch {
		case m.value < f.Low:
			below++
		case m.value <= f.High:
			within++
		}
	}
	switch n := len(all); {
	case within == n:
		return "yes"
	case below == n:
		return "no, less"
	case within+below == 0:
		return "no, more"
	default:
		return fmt.Sprintf("in %d of %d", within, n)
	}
}

// changed is how often the published tuner changes the parameters over the windows of all
// methods.
func (p *page) changed() {
	began := false
	for _, s := range schedulerNames {
		counts, rounds := map[string]int{}, 0
		for i := range windows {
			if windows[i].all {
				for _, o := range p.cell(windows[i].name, s, "published") {
					rounds += o.Rounds
					for k, v := range o.Changed {
						counts[k] += v
					}
				}
			}
		}
		if rounds == 0 {
			continue
		}
		if !began {
			began = true
			p.printf("\n### What hourly tuning changes (21b)\n\nShare of the rounds of the published tuner, over the windows above, " +
				"that change a parameter. The paper: Lucid's pack knob\nmore often than its profiler's capacity.\n")
			p.table(1, "scheduler", "rounds", "parameters")
		}
		names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
			return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
		})
		for i, n := range names {
			names[i] = fmt.Sprintf("%s %.0f %%", n, 100*float64(counts[n])/float64(rounds))
		}
		p.row(s, fmt.Sprint(rounds), strings.Join(names, ", "))
	}
}

// overhead is the time of a method's round in simulations of the window.
func (p *page) overhead() {
	var rows [][]string
	for _, m := range []string{"selftune", "published", "published-no-causal", "published-groups", "paper", "autosched",
		"oracle"} {
		var times, trials []float64
		for i := range windows {
			for _, s := range schedulerNames {
				id := methodID(windows[i].name, s, m, 1)
				o := read[Outcome](&p.results, id)
				if o == nil || p.all[id].Times == nil {
					continue
				}
				times, trials = append(times, p.all[id].Times["round_over_simulation"]), append(trials, perRound(o))
			}
		}
		if len(times) == 0 {
			continue
		}
		slices.Sort(times)
		rows = append(rows, []string{m, fmt.Sprint(len(times)), number("%.0f", stats.Mean(trials)),
			number("%.1f", stats.Quantile(times, .5)), number("%.1f", times[0]), number("%.1f", times[len(times)-1])})
	}
	if len(rows) == 0 {
		return
	}
	p.printf("\n### A round beside a simulation\n\nProcessor time of a round over that of one simulation of the window under the default, " +
		"in one run: the median, the least and\nthe most of windows and schedulers; measurements of a round. The paper has 100 s a " +
		"round, with simulations of minutes.\n")
	p.table(1, "method", "cells", "measurements", "median", "least", "most")
	for _, r := range rows {
		p.row(r...)
	}
}

func fairShare(o *Outcome) float64 { return o.FTF }

func (p *page) fair() {
	if !p.has("methods/philly/themis+ftf/published") {
		return
	}
	p.printf("\n### Themis, tuned for fairness (13)\n\nShare of jobs with a finish-time fairness of at most 1, %%, where that " +
		"share is the objective.\n")
	p.table(1, append([]string{"window"}, fairMethods...)...)
	for i := range windows {
		if x := &windows[i]; len(p.cell(x.name, fairThemis, "default")) > 0 {
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
	if !p.has("methods/pai/tiresias/published-no") {
		return
	}
	p.printf(`
### What the parts are worth (10, 14, 19, and autosched's own)

Average JCT of the whole tuner over that without the part, geometric means over windows and schedulers, with the least
and the most: below 1 the part helps. Measurements of a round are over the whole tuner's. The service's rounds use no causal
model: autosched has none to leave out.
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
				trials = append(trials, part.mean(perRound)/whole.mean(perRound))
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
	"autosched/no-past":    "no warm start: no winners of past rounds among the candidates",
	"autosched/repeat":     "the last hour again in place of the forecast",
	"autosched/no-predict": "durations drawn from history",
}

func (p *page) aggregator() {
	if !p.has("aggregator/") {
		return
	}
	p.printf("\n### The trace aggregator (12, 16, 20b)\n\nGroups of four GPUs. Kendall's rank correlation of 20 configurations " +
		"on groups and on jobs; beside it that of the same\njobs, each up to a minute later; the loss by choosing on groups; " +
		"" +
		"by how much the objective is higher on groups, the bias;\nthe speed-up of a measurement, a time.\n")
	p.table(2, "window", "scheduler", "jobs", "groups", "tau", "tau, moved", "lost, %", "bias", "speed-up", "most")
	for i := range windows {
		for _, s := range schedulerNames {
			id := "aggregator/" + windows[i].name + "/" + s
			g := read[Aggregated](&p.results, id)
			if g == nil {
				continue
			}
			t := p.all[id].Times
			p.row(windows[i].name, s, number("%.0f", g.JobsIn), number("%.0f", g.JobsOut), number("%.2f", g.Tau),
				number("%.2f", g.Noise), percent(g.Lost), signed(g.Bias), number("%.2f", t["speedup"]),
				number("%.2f", t["most_speedup"]))
		}
	}
}

func (p *page) predictor() {
	if !p.has("predictor/") {
		return
	}
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
	if !p.has("arrivals/") {
		return
	}
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
