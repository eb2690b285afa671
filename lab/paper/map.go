package paper

import (
	"fmt"
	"math"
	"slices"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/stats"
)

// feature of a history that a rule may ask for.
type feature struct {
	name string
	of   func(*Features) float64
}

var featureList = []feature{
	{"load", func(f *Features) float64 { return f.Load }},
	{"burst", func(f *Features) float64 { return f.Burst }},
	{"tail", func(f *Features) float64 { return f.Tail }},
	{"drift", func(f *Features) float64 { return f.Drift }},
	{"wide", func(f *Features) float64 { return f.Wide }},
	{"waiting", func(f *Features) float64 { return f.Waiting }},
	{"recurrence", func(f *Features) float64 { return f.Recurrence }},
	{"knobs", func(f *Features) float64 { return float64(f.Knobs) }},
}

func featureOf(name string) feature {
	return featureList[slices.IndexFunc(featureList, func(f feature) bool { return f.name == name })]
}

// place is a window with a scheduler on the map.
type place struct {
	x         *window
	scheduler string
	Features
	// Gains over the default, logarithms: of the daily rule's pick, of hourly tuning, of the best in hindsight.
	once, hourly, hindsight float64
	lo, hi                  float64 // of once
}

// worth is the gain from which on a change pays.
const worth = .02

func (p *page) places() (out []place) {
	for i := range windows {
		x := &windows[i]
		if x.fortnight {
			continue // a sample
		}
		for _, s := range schedulerNames {
			base, daily := p.cell(x.name, s, "default"), p.cell(x.name, s, "daily")
			f := read[Features](&p.results, "windows/"+x.name+"/"+s)
			if len(base) == 0 || len(daily) == 0 || f == nil {
				continue
			}
			at := place{x: x, scheduler: s, Features: *f, once: math.Log(base.over(daily)),
				hourly:    math.Log(base.over(p.cell(x.name, s, "published"))),
				hindsight: math.Log(base.over(p.cell(x.name, s, "fixed-oracle")))}
			at.lo, at.hi = base.span(daily)
			out = append(out, at)
		}
	}
	return out
}

func (p *page) payMap() {
	all := p.places()
	if len(all) == 0 {
		return
	}
	p.printf(`
### When tuning pays

Average JCT of the default over that of the daily rule's pick, held ("once", with a 95 %% interval), of the published tuner
every hour ("hourly"), and of the best of %d configurations in hindsight. The history before the window, up to %d days of
it, has a load, a variance over mean of hourly submissions ("burst"), a share of GPU-time in the heaviest hundredth of the
jobs ("tail"), a Kolmogorov-Smirnov distance between the durations of its halves ("drift"), a share of GPU-time in jobs of
more than a node ("wide"), a share of GPU-time in jobs whose key an earlier one had ("recurrence"; the key is user
and name, or tenant, GPUs and sweep where a trace has no names), and a share of the JCT that jobs wait when it is simulated
under the default ("waiting").
`, hindsightBudget, featureDays)
	p.table(2, "window", "scheduler", "once", "95 %", "hourly", "hindsight", "load", "burst", "tail", "drift", "wide",
		"recurrence", "waiting", "knobs")
	for i := range all {
		x := &all[i]
		p.row(x.x.name, x.scheduler, number("%.3f", math.Exp(x.once)), span(x.lo, x.hi), number("%.3f",
			math.Exp(x.hourly)),
			number("%.3f", math.Exp(x.hindsight)), number("%.2f", x.Load), number("%.0f", x.Burst), number("%.2f",
				x.Tail),
			number("%.2f", x.Drift), number("%.2f", x.Wide), number("%.2f", x.Recurrence),
			number("%.2f", x.Waiting), fmt.Sprint(x.Knobs))
	}
	p.byTrace()
	p.plots["map.svg"] = mapPlot(all)
	p.printf("\n![Gain of tuning once, over features of the history](paper/map.svg)\n")
	p.table(1, "Spearman's correlation with", "once", "hourly", "hindsight")
	for _, f := range featureList {
		v, gains := make([]float64, len(all)), [3][]float64{}
		for i := range all {
			v[i] = f.of(&all[i].Features)
			for k, g := range []float64{all[i].once, all[i].hourly, all[i].hindsight} {
				gains[k] = append(gains[k], g)
			}
		}
		p.row(f.name, correlation(v, gains[0]), correlation(v, gains[1]), correlation(v, gains[2]))
	}
	p.rules(all)
}

// correlation is Spearman's of the pairs whose second value is known.
func correlation(a, b []float64) string {
	var x, y []float64
	for i := range a {
		if !math.IsNaN(b[i]) {
			x, y = append(x, a[i]), append(y, b[i])
		}
	}
	if len(x) < 3 {
		return ""
	}
	return number("%.2f", stats.Spearman(x, y))
}

func mapPlot(all []place) *chart.Picture {
	picture := &chart.Picture{Label: "Gain of tuning once, over features of the history"}
	for _, names := range [][]string{{"waiting", "load", "wide", "recurrence"},
		{"burst", "tail", "drift", "knobs"}} {
		row := chart.Row{Height: 260}
		for _, name := range names {
			f := featureOf(name)
			c := &chart.Chart{Title: name, X: chart.Axis{Name: name + " of the history", Log: name == "burst"},
				Y: chart.Axis{Name: "gain of tuning once, %", Include: []float64{0}}}
			c.Layers = append(c.Layers, &chart.Line{Mark: chart.Mark{Color: chart.Soft},
				Points: []chart.Point{{X: math.Inf(-1), Y: 0}, {X: math.Inf(1), Y: 0}}})
			for k, s := range schedulerNames {
				dots := &chart.Dots{Mark: chart.Mark{Name: s, Color: chart.Series(k)}, Radius: 3.5}
				for i := range all {
					if all[i].scheduler == s {
						dots.Points = append(dots.Points, chart.Point{X: f.of(&all[i].Features),
							Y: 100 * (1 - math.Exp(-all[i].once))})
					}
				}
				c.Layers = append(c.Layers, dots)
			}
			row.Charts = append(row.Charts, c)
		}
		picture.Rows = append(picture.Rows, row)
	}
	return picture
}
