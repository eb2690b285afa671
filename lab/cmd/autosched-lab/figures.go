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
	"github.com/autosched/autosched/lab/horizons"
	"github.com/autosched/autosched/lab/portfolio"
	"github.com/autosched/autosched/lab/samplers"
	"github.com/autosched/autosched/lab/searches"
	"github.com/autosched/autosched/lab/studies"
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
			s.Rows = append(s.Rows, chart.Row{Height: chart.RowsHeight(max(len(c.Y.Ticks), 8)),
				Charts: []*chart.Chart{c}})
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
