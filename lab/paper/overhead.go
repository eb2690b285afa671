package paper

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Overhead is the work of the rounds of tuners on a window, one after another in one run. Its times are processor time
// of a round as a share of the hour that it decides about, of one processor.
type Overhead struct {
	// Rounds and Measurements are those of each tuner.
	Rounds       map[string]int     `json:"rounds"`
	Measurements map[string]float64 `json:"measurements_of_a_round"`
}

// overheadTuners are variants of the published tuner whose rounds are timed each; the product's rounds are timed
// together.
var overheadTuners = []published{
	{name: "selftune", future: "last hour", budget: samples},
	{name: "published-no-causal", future: "forecast", budget: samples},
	{name: "published", future: "forecast", causal: true, budget: samples},
	{name: "published-groups", future: "forecast", causal: true, groups: true, budget: samples},
}

func overheadUnits() (out []Unit) {
	for _, name := range causalWindows {
		x := windowOf(name)
		for _, scheduler := range schedulerNames {
			out = append(out, Unit{Experiment: "overhead", Name: name + "/" + scheduler, Core: true, Data: x.file,
				Seed: 1, Rank: 3, Seconds: 60,
				measure: func(ctx context.Context, d *Data) (any, map[string]float64, error) {
					return measureOverhead(ctx, d, x, scheduler)
				}})
		}
	}
	return out
}

func measureOverhead(ctx context.Context, d *Data, x *window, scheduler string) (any, map[string]float64, error) {
	o, err := d.load(ctx, x, scheduler)
	if err != nil {
		return nil, nil, err
	}
	o.Seed, o.Workers = 1, 1
	got, times := Overhead{map[string]int{}, map[string]float64{}}, map[string]float64{}
	share := func(v float64) float64 { return roundTo(v/time.Hour.Seconds(), 7) }
	for _, p := range overheadTuners {
		e, err := replay.Prepare(o)
		if err != nil {
			return nil, nil, err
		}
		var took []float64
		p.each = func(_ []workload.MilliGPU, _ space.Config, t time.Duration) { took = append(took, t.Seconds()) }
		var outcome Outcome
		if err := p.run(ctx, e, &outcome); err != nil {
			return nil, nil, err
		}
		if len(took) == 0 {
			continue
		}
		got.Rounds[p.name], got.Measurements[p.name] = len(took), roundTo(perRound(&outcome), 2)
		times[p.name] = share(stats.Mean(took))
		slices.Sort(took)
		times[p.name+" median"], times[p.name+" most"] = share(stats.Quantile(took, .5)), share(took[len(took)-1])
	}
	for _, name := range []string{"paper", "autosched"} {
		e, err := replay.Prepare(o)
		if err != nil {
			return nil, nil, err
		}
		began := cputime.Process()
		if _, err := e.Measure(ctx, "default"); err != nil {
			return nil, nil, err
		}
		simulated := cputime.Process() - began
		began = cputime.Process()
		m, err := e.Measure(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		n := max(1, m.Rounds)
		got.Rounds[name], got.Measurements[name] = m.Rounds, roundTo(float64(m.Evaluations)/float64(n), 2)
		times[name] = share((cputime.Process() - began - simulated).Seconds() / float64(n))
	}
	return &got, times, nil
}

// tuneTimes are the mean shares of the hour of a tuner's rounds in percent, by window and scheduler.
func (p *page) tuneTimes(tuner string) (out []measured) {
	for _, name := range causalWindows {
		for _, s := range schedulerNames {
			if r := p.all["overhead/"+name+"/"+s]; r != nil && r.Times != nil {
				out = append(out, measured{name + " " + s, 100 * r.Times[tuner]})
			}
		}
	}
	return out
}

// controllerSaves is the time of the published tuner's rounds without its search controller over that with it.
func (p *page) controllerSaves() (out []measured) {
	with := p.tuneTimes("published-groups")
	for i, m := range p.tuneTimes("published-no-causal") {
		out = append(out, measured{m.window, m.value / with[i].value})
	}
	return out
}

// rounds is the time of a tuner's round as a share of the hour.
func (p *page) rounds() {
	if len(p.tuneTimes("published")) == 0 {
		return
	}
	p.printf(`
### What a round costs (4d, overhead)

Processor time of a round as a share of the hour that it decides about, %%, all tuners in one run on a window: mean, and
median and most of the published ones; measurements of a round; the mean over that of the published tuner, geometric over
windows and schedulers. The paper: SelfTune takes tens of minutes (17 %% of the hour and more), 100 s a round with its search
controller are 2.8 %%.
`)
	names := []string{"selftune", "published-no-causal", "published", "published-groups", "paper", "autosched"}
	p.table(1, "tuner", "least cell", "geometric mean", "most cell", "most round", "measurements", "over published")
	picture := &chart.Chart{Title: "time of a round",
		X: chart.Axis{Labels: true, Min: -.5, Max: float64(len(names)) - .5},
		Y: chart.Axis{Name: "share of the hour, %", Log: true, Include: []float64{2.8, 17}}}
	for _, line := range []float64{2.8, 17} {
		picture.Layers = append(picture.Layers, &chart.Line{Mark: chart.Mark{Color: chart.Soft}, Dash: []float64{4, 4},
			Points: []chart.Point{{X: -.5, Y: line}, {X: float64(len(names)) - .5, Y: line}}})
	}
	for k, name := range names {
		var shares, over, trials []float64
		most := 0.
		for i, m := range p.tuneTimes(name) {
			whole := p.tuneTimes("published")[i]
			shares, over = append(shares, m.value), append(over, m.value/whole.value)
			id := "overhead/" + strings.ReplaceAll(m.window, " ", "/")
			if o := read[Overhead](&p.results, id); o != nil {
				trials = append(trials, o.Measurements[name])
			}
			most = max(most, 100*p.all[id].Times[name+" most"])
		}
		if len(shares) == 0 {
			continue
		}
		text := ""
		if most > 0 {
			text = number("%.2g", most)
		}
		p.row(name, number("%.2g", slices.Min(shares)), number("%.2g", geometric(shares)),
			number("%.2g", slices.Max(shares)), text, number("%.0f", stats.Mean(trials)),
			number("%.2f", geometric(over)))
		picture.X.Ticks = append(picture.X.Ticks, chart.Tick{Value: float64(k), Label: name})
		dots := &chart.Dots{Mark: chart.Mark{Color: chart.Series(k)}, Radius: 4}
		for _, v := range shares {
			dots.Points = append(dots.Points, chart.Point{X: float64(k), Y: v})
		}
		picture.Layers = append(picture.Layers, dots)
	}
	p.plots["rounds.svg"] = &chart.Picture{Label: "Processor time of a round", Rows: []chart.Row{{Height: 280,
		Charts: []*chart.Chart{picture}}}}
	p.printf("\n![Processor time of a round](paper/rounds.svg)\n\nDashed: the paper's 100 s, and ten minutes.\n")
}
