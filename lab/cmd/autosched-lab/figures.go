package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/lab/aggregate"
	"github.com/autosched/autosched/lab/decisions"
	"github.com/autosched/autosched/lab/foresight"
	"github.com/autosched/autosched/lab/held"
	"github.com/autosched/autosched/lab/horizons"
	"github.com/autosched/autosched/lab/portfolio"
	"github.com/autosched/autosched/lab/samplers"
	"github.com/autosched/autosched/lab/searches"
	"github.com/autosched/autosched/lab/studies"
	"github.com/autosched/autosched/recommend"
	"github.com/autosched/autosched/replay"
)

// page has charts below a message, the first beside it.
func page(name, message string, charts []*chart.Chart, print func(io.Writer) error) (*chart.Page, error) {
	if len(charts) == 0 {
		return nil, errors.New("--plot: there is nothing to draw")
	}
	p, err := cli.NewPage("laboratory: "+name, false, message, print)
	if err != nil {
		return nil, err
	}
	p.First = charts[0]
	if len(charts) > 1 {
		s := chart.Section{Title: "The others"}
		for _, c := range charts[1:] {
			rows := 8
			if c.Y.Labels {
				rows = len(c.Y.Ticks)
			}
			s.Rows = append(s.Rows, chart.Row{Height: chart.RowsHeight(rows), Charts: []*chart.Chart{c}})
		}
		p.Sections = []chart.Section{s}
	}
	return p, nil
}

// page draws the mean regret of each sampler, a chart for each function.
func (r *searchBench) page(names []string) (*chart.Page, error) {
	var charts []*chart.Chart
	var least []string
	for _, name := range names {
		var rows []chart.Estimate
		var best *samplers.Figures
		add := func(f *samplers.Figures, color chart.Color, note string) {
			e := 1.96 * f.StandardError()
			rows = append(rows, chart.Estimate{Name: f.Sampler + note, Value: f.Mean, Low: f.Mean - e, High: f.Mean + e,
				Color: color, Tip: fmt.Sprintf("%s%s: regret %s, standard error %s, %d seeds", f.Sampler, note,
					figure(f.Mean), figure(f.StandardError()), f.Seeds)})
		}
		for i := range r.Results {
			if f := &r.Results[i]; f.Objective == name {
				add(f, chart.Blue, "")
				if best == nil || f.Mean < best.Mean {
					best = f
				}
			}
		}
		for i := range r.Published {
			if r.Published[i].Objective == name {
				add(&r.Published[i], chart.Gray, ", published")
			}
		}
		least = append(least, best.Sampler+" on "+name)
		c := chart.Estimates("mean regret", 95, 0, rows)
		c.Title = name + ": lower is better"
		charts = append(charts, c)
	}
	return page("samplers", fmt.Sprintf("The least mean regret after %d evaluations has %s.", r.Results[0].Budget,
		strings.Join(least, ", ")), charts, func(w io.Writer) error { return r.print(w, names) })
}

// searchesPage draws each search against the first, on the futures and in truth.
func searchesPage(r *searches.Comparison) (*chart.Page, error) {
	best := slices.MinFunc(r.Searches, func(a, b searches.ComparedSearch) int {
		return cmp.Compare(a.AgainstReference, b.AgainstReference)
	})
	b := chart.Bars{Axis: "objective over that of " + r.Reference, Series: []string{"on futures", "in truth"},
		Title: "Below 1 is better than " + r.Reference}
	for _, s := range r.Searches {
		b.Groups = append(b.Groups, s.Search)
	}
	b.Value = func(group, series int) (float64, string) {
		s := &r.Searches[group]
		v, p := s.AgainstReference, s.P
		if series == 1 {
			v, p = s.AgainstReferenceTruth, s.PTruth
		}
		return v, fmt.Sprintf("%s, %s: %.4f, p %.3f", s.Search, b.Series[series], v, p)
	}
	message := fmt.Sprintf("No search finds better configurations than %s.", r.Reference)
	if best.AgainstReference < 1 {
		message = fmt.Sprintf("%s finds the best configurations: %.1f %% below those of %s on the futures, p %.3f.",
			best.Search, 100*(1-best.AgainstReference), r.Reference, best.P)
	}
	return page("searches", message, []*chart.Chart{b.Chart()},
		func(w io.Writer) error { return printComparison(w, r) })
}

// studiesPage draws how many trials studies with and without the causal model take, by scheduler and window.
func studiesPage(all []*studies.Comparison) (*chart.Page, error) {
	var charts []*chart.Chart
	fewer, cells := 0, 0
	for _, sampler := range samplersOf(all) {
		b := chart.Bars{Title: sampler + ": trials until one is good", Axis: "trials, median over seeds",
			Series: []string{"no causal model", "causal model"}}
		var values [][2]float64
		for _, c := range all {
			var v [2]float64
			for k := range v {
				var trials []float64
				for _, x := range c.Studies {
					if x.Algorithm == sampler && x.Causal == (k == 1) {
						trials = append(trials, float64(cmp.Or(x.Trials, x.Measured)))
					}
				}
				if v[k] = math.NaN(); len(trials) > 0 {
					slices.Sort(trials)
					v[k] = trials[len(trials)/2]
				}
			}
			if cells++; v[1] < v[0] {
				fewer++
			}
			b.Groups, values = append(b.Groups, c.Scheduler+" "+c.Window), append(values, v)
		}
		b.Value = func(group, series int) (float64, string) {
			return values[group][series], fmt.Sprintf("%s, %s: %g trials", b.Groups[group], b.Series[series],
				values[group][series])
		}
		charts = append(charts, b.Chart())
	}
	return page("studies", fmt.Sprintf("With the causal model a study takes fewer trials in %d of %d cases.", fewer,
		cells), charts, func(w io.Writer) error { return printStudies(w, all) })
}

func samplersOf(all []*studies.Comparison) (out []string) {
	for _, x := range all[0].Studies {
		if !slices.Contains(out, x.Algorithm) {
			out = append(out, x.Algorithm)
		}
	}
	return out
}

// horizonsPage draws the rank correlation by horizon.
func horizonsPage(all []*horizons.Ranking) (*chart.Page, error) {
	b := chart.Bars{Title: "Rank correlation of scores and average JCT", Axis: "Spearman's correlation"}
	mean := make([]float64, len(all[0].Horizons))
	for i, h := range all[0].Horizons {
		b.Series = append(b.Series, fmt.Sprintf("%g h", h.HorizonS/3600))
		for _, r := range all {
			mean[i] += r.Horizons[i].Rank / float64(len(all))
		}
	}
	for _, r := range all {
		b.Groups = append(b.Groups, r.Scheduler+" "+r.Window)
	}
	b.Value = func(group, series int) (float64, string) {
		v := all[group].Horizons[series].Rank
		return v, fmt.Sprintf("%s, %s: %.2f", b.Groups[group], b.Series[series], v)
	}
	best := slices.Index(mean, slices.Max(mean))
	return page("horizons", fmt.Sprintf("Rounds of %s rank configurations best: the mean correlation is %.2f.",
		b.Series[best], mean[best]), []*chart.Chart{b.Chart()},
		func(w io.Writer) error { return printHorizons(w, all) })
}

// portfolioPage draws the worst regret of the present presets and of the chosen ones.
func portfolioPage(r *portfolio.Portfolio) (*chart.Page, error) {
	b := chart.Bars{Title: "Worst regret over the windows", Axis: "worst regret, %",
		Series: []string{"training", "test"}}
	rows := slices.Concat(r.Compared, r.Chosen)
	for i := range rows {
		b.Groups = append(b.Groups, cmp.Or(rows[i].Name, fmt.Sprint("chosen ", i+1-len(r.Compared))))
	}
	b.Value = func(group, series int) (float64, string) {
		v := []float64{rows[group].Alone.Worst, rows[group].Alone.WorstTest}[series]
		return 100 * v, fmt.Sprintf("%s, %s: %.1f %%", b.Groups[group], b.Series[series], 100*v)
	}
	return page("presets of "+r.Scheduler, fmt.Sprintf("%d presets are chosen of %d configurations.", len(r.Chosen),
		r.Measured), []*chart.Chart{b.Chart()}, func(w io.Writer) error { return printPortfolio(w, r) })
}

// methodRows are the methods with the means of their ratios to the default, over rows.
func methodRows(methods []string, rows []decisions.MatrixRow) []chart.Estimate {
	var out []chart.Estimate
	for _, name := range methods {
		var ratios []float64
		for i := range rows {
			if v, ok := rows[i].Ratio[name]; ok && v < replay.MaxRatio {
				ratios = append(ratios, v)
			}
		}
		if len(ratios) == 0 {
			continue
		}
		mean := stats.Mean(ratios)
		out = append(out, chart.Estimate{Name: name, Value: mean, Low: mean, High: mean, Color: chart.Blue,
			Tip: fmt.Sprintf("%s: %.3f, mean of %d", name, mean, len(ratios))})
	}
	return out
}

// decisionsPage draws the ratio of the default's average JCT to each method's: the mean, and a chart for each
// scheduler.
func decisionsPage(m *decisions.Matrix, cells []decisions.Cell) (*chart.Page, error) {
	methods, _, all := tabulate(m, cells)
	draw := func(title string, rows []decisions.MatrixRow) *chart.Chart {
		c := chart.Estimates("average JCT of the default over that of the method", 95, 1, methodRows(methods, rows))
		c.Title = title
		return c
	}
	means := methodRows(methods, all)
	if len(means) == 0 {
		return nil, errors.New("--plot: no method beside the default is measured")
	}
	best := slices.MaxFunc(means, func(a, b chart.Estimate) int { return cmp.Compare(a.Value, b.Value) })
	charts := []*chart.Chart{draw("All schedulers: above 1 is better than the default", all)}
	for i := range all {
		charts = append(charts, draw(fmt.Sprintf("%s, mean over windows", all[i].Scheduler), all[i:i+1]))
	}
	message := "No method is better than the default, by the mean of average JCTs over schedulers."
	if best.Value > 1 {
		message = fmt.Sprintf("The largest ratio of the default's average JCT has %s: %.3f, the mean over %s.",
			best.Name, best.Value, units.Plural(len(all), "scheduler"))
	}
	for i := range means {
		if e := &means[i]; e.Name == "autosched" && e.Name != best.Name {
			message += fmt.Sprintf(" That of autosched is %.3f.", e.Value)
		}
	}
	return page("decisions", message, charts, func(w io.Writer) error { return printDecisions(w, m, cells) })
}

// heldPage draws the gain of each rule beside that of the best configuration in hindsight and of random presets.
func heldPage(cells []held.Cell) (*chart.Page, error) {
	if len(cells) == 0 {
		return nil, errors.New("--plot: no window is measured")
	}
	var shares, losses, gains []chart.Estimate
	row := func(name string, e held.Estimate) chart.Estimate {
		return chart.Estimate{Name: name, Value: 100 * e.Value, Low: 100 * e.Low, High: 100 * e.High, Color: chart.Blue,
			Tip: fmt.Sprintf("%s: %.1f %%, 95 %% interval %.1f to %.1f %%", name, 100*e.Value, 100*e.Low, 100*e.High)}
	}
	point := func(name string, v float64, color chart.Color) chart.Estimate {
		return chart.Estimate{Name: name, Value: 100 * v, Low: 100 * v, High: 100 * v, Color: color,
			Tip: fmt.Sprintf("%s: %.1f %%", name, 100*v)}
	}
	by, names := bySchedulers(cells)
	var first held.Summary
	for i, rule := range held.Names() {
		s := held.Summarise(cells, rule)
		if i == 0 {
			first = s
			gains = append(gains, point("a random preset", s.Random, chart.Gray))
		}
		if !math.IsNaN(s.Share.Value + s.Share.Low + s.Share.High) {
			shares = append(shares, row(rule, s.Share))
		}
		losses, gains = append(losses, row(rule, s.Below1)), append(gains, point(rule, s.Gain, chart.Blue))
		for _, name := range names {
			if len(names) > 1 {
				gains = append(gains, point(rule+", "+name, held.Summarise(by[name], rule).Gain, chart.Soft))
			}
		}
	}
	title := func(title string, c *chart.Chart) *chart.Chart { c.Title = title; return c }
	charts := []*chart.Chart{
		title("Gain over the default", chart.Estimates("mean gain in average JCT, %", 95, 0, gains)),
		title("Windows that lose more than 1 %", chart.Estimates("share of windows, %", 95, 0, losses))}
	if len(shares) > 0 {
		charts = append(charts, title("Part of the gain of the best preset in hindsight",
			chart.Estimates("share of that gain, %", 95, 0, shares)))
	}
	return page("the daily rule on unseen windows", fmt.Sprintf("Where guards are only reported, the daily rule gains "+
		"%.1f %% over the default, a random preset %.1f %%: the mean of %s.", 100*first.Gain, 100*first.Random,
		units.Plural(first.Windows, "window")), charts, func(w io.Writer) error { return printHeld(w, cells) })
}

// recommendPage draws the gain in utilisation by the share of waste, and the waits.
func recommendPage(r *recommendBench) (*chart.Page, error) {
	if len(r.Rows) == 0 {
		return nil, errors.New("--plot: no share of waste is measured")
	}
	var rows []chart.Estimate
	add := func(name string, e *recommend.Effect, color chart.Color) {
		rows = append(rows, chart.Estimate{Name: name, Value: 100 * e.Gain, Low: 100 * e.Low, High: 100 * e.High,
			Color: color, Tip: fmt.Sprintf("%s: %+.1f %%, 95 %% interval %+.1f to %+.1f %%", name, 100*e.Gain,
				100*e.Low, 100*e.High)})
	}
	b := chart.Bars{Title: "Mean wait of a job", Axis: "mean wait, h", Series: []string{"no action", "every case"}}
	for i := range r.Rows {
		x := &r.Rows[i]
		name := fmt.Sprintf("%g %% waste", x.Waste)
		add(name, &x.Effect, chart.Blue)
		b.Groups = append(b.Groups, name)
		if x.Detected != nil {
			add(name+", findings", &x.Detected.Effect, chart.Orange)
			b.Series = []string{"no action", "every case", "findings"}
		}
	}
	b.Value = func(group, series int) (float64, string) {
		x := &r.Rows[group]
		waits := []float64{x.Before.WaitS, x.After.WaitS}
		if x.Detected != nil {
			waits = append(waits, x.Detected.After.WaitS)
		}
		h := waits[series] / 3600
		return h, fmt.Sprintf("%s, %s: %.2f h", b.Groups[group], b.Series[series], h)
	}
	c := chart.Estimates("gain in utilisation, %", 95, 0, rows)
	c.Title = "Acting on waste, by its share of GPU-hours"
	last := &r.Rows[len(r.Rows)-1]
	message := fmt.Sprintf("With %g %% of GPU-hours wasted, acting on every case gains %.1f %% utilisation, 95 %% "+
		"interval %.1f to %.1f %%.", last.Waste, 100*last.Gain, 100*last.Low, 100*last.High)
	if last.Detected != nil {
		message += fmt.Sprintf(" Acting on the findings of the built-in rules gains %.1f %%.", 100*last.Detected.Gain)
	}
	return page("acting on findings", message, []*chart.Chart{c, b.Chart()},
		func(w io.Writer) error { return printRecommendBench(w, r) })
}

// patternsPage draws the F1 score of each rule, a chart for each trace and prevalence.
func patternsPage(r *patternsBench, examples int) (*chart.Page, error) {
	var charts []*chart.Chart
	cases, found, wrong, days := 0, 0, 0, 0.
	for _, t := range r.Tables {
		var rows []chart.Estimate
		days += t.GPUDays
		for _, x := range t.Rules {
			cases, found, wrong = cases+x.Cases, found+x.Found, wrong+x.False
			if x.F1.Known {
				tip := fmt.Sprintf("%s: F1 %.3f, 95 %% interval %.2f to %.2f, %d of %d cases found, %s", x.Rule,
					x.F1.Value, x.F1.Low, x.F1.High, x.Found, x.Cases, units.Plural(x.False, "false alert"))
				rows = append(rows, chart.Estimate{Name: x.Rule, Value: x.F1.Value, Low: x.F1.Low, High: x.F1.High,
					Color: chart.Blue, Tip: tip})
			}
		}
		c := chart.Estimates("F1 score", 95, 1, rows)
		c.X.Include = append(c.X.Include, 0)
		c.Title = fmt.Sprintf("%s: cases in %g %% of entities", t.Trace, t.Prevalence)
		charts = append(charts, c)
	}
	return page("pattern rules", fmt.Sprintf("The rules find %d of %d injected cases, with %s in %.0f GPU-days.", found,
		cases, units.Plural(wrong, "false alert"), days), charts,
		func(w io.Writer) error { return printPatternsBench(w, r, examples) })
}

// aggregatePage draws rank correlation and speed-up by the size of groups.
func aggregatePage(r *aggregate.Study) (*chart.Page, error) {
	bars := func(title, axis string, series []string, value func(*aggregate.Row, int) float64) *chart.Chart {
		b := chart.Bars{Title: title, Axis: axis, Series: series}
		for i := range r.Rows {
			b.Groups = append(b.Groups, groupSize(&r.Rows[i]))
		}
		b.Value = func(group, series int) (float64, string) {
			v := value(&r.Rows[group], series)
			return v, fmt.Sprintf("%s, %s: %.3g", b.Groups[group], b.Series[series], v)
		}
		c := b.Chart()
		c.X.Name = "size of a group at most, GPUs"
		return c
	}
	charts := []*chart.Chart{
		bars("Order of configurations on groups and on jobs", "Kendall's rank correlation",
			[]string{"least of an instant", "mean"}, func(x *aggregate.Row, series int) float64 {
				return []float64{x.MinTau, x.Tau}[series]
			}),
		bars("Time of a measurement on jobs over that on groups", "speed-up", []string{"median"},
			func(x *aggregate.Row, _ int) float64 { return x.Speedup }),
		bars("Loss by the choice on groups", "objective above the best, %", []string{"most", "mean"},
			func(x *aggregate.Row, series int) float64 {
				return 100 * []float64{x.MostLost, x.Lost}[series]
			})}
	fastest := slices.MaxFunc(r.Rows, func(a, b aggregate.Row) int { return cmp.Compare(a.Speedup, b.Speedup) })
	message := "No size of groups is faster than the jobs themselves."
	if fastest.Size > 1 && fastest.Speedup > 1 {
		message = fmt.Sprintf("Groups of at most %d GPUs are measured %.1f times faster; the rank correlation with jobs is "+
			"%.2f.", fastest.Size, fastest.Speedup, fastest.Tau)
	}
	return page("groups of similar jobs", message, charts, func(w io.Writer) error { return printAggregate(w, r) })
}

// foresightPage draws the errors of the model and of simpler predictions.
func foresightPage(data string, f *foresight.Foresight) (*chart.Page, error) {
	rows := func(format string, color chart.Color, all ...chart.Estimate) []chart.Estimate {
		for i := range all {
			e := &all[i]
			e.Low, e.High, e.Tip, e.Color = e.Value, e.Value, fmt.Sprintf("%s: "+format, e.Name, e.Value), color
			color = chart.Gray
		}
		return all
	}
	errs := chart.Estimates("mean error, % of the measured value", 95, 0, rows("%.1f %%", chart.Blue,
		chart.Estimate{Name: "model", Value: 100 * f.Error},
		chart.Estimate{Name: "direct head only", Value: 100 * f.DirectOnly},
		chart.Estimate{Name: "structural head only", Value: 100 * f.StructuralOnly},
		chart.Estimate{Name: "configuration in force", Value: 100 * f.IncumbentOnly},
		chart.Estimate{Name: "mean", Value: 100 * f.Mean}))
	errs.Title = "Error on configurations of later days"
	tries := chart.Estimates("configurations measured", 95, 0, rows("%.1f", chart.Blue,
		chart.Estimate{Name: "in the model's order", Value: f.Tries.Model},
		chart.Estimate{Name: "at random", Value: f.Tries.Random}))
	tries.Title = "Until one is at most 1 % above the best"
	return page("predictions of the causal model", fmt.Sprintf("The model predicts %s of unseen configurations %.1f %% "+
		"off, the configuration in force %.1f %%; the rank correlation is %.2f.", f.Objective, 100*f.Error,
		100*f.IncumbentOnly, f.Rank), []*chart.Chart{errs, tries},
		func(w io.Writer) error { return printForesight(w, data, f) })
}
