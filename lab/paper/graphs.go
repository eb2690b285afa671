package paper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/dataset"
	"github.com/autosched/autosched/causal/model"
	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/internal/stats"
	"github.com/autosched/autosched/lab/foresight"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Causal is the causal model of a scheduler: learnt on the earlier days before a window, tested on the later ones.
type Causal struct {
	// Error is the mean of |predicted - measured| / measured, Incumbent that of the median ratio to the configuration
	// in force, which knows no configuration; Rank is Spearman's correlation within a day.
	Error     float64 `json:"error"`
	Incumbent float64 `json:"error_incumbent_only"`
	Rank      float64 `json:"rank_correlation"`
	// Differ and DifferIncumbent are the errors on the days whose configurations differ by more than a tenth,
	// DifferDays their number.
	DifferDays      int         `json:"days_that_differ"`
	Differ          float64     `json:"error_where_they_differ"`
	DifferIncumbent float64     `json:"error_incumbent_where_they_differ"`
	TrainRows       int         `json:"train_rows"`
	TestRows        int         `json:"test_rows"`
	Nodes           []GraphNode `json:"nodes"`
	Edges           []GraphEdge `json:"edges"`
}

// GraphNode is a variable of the graph, but those of the workload.
type GraphNode struct {
	ID   string `json:"id"`
	Tier string `json:"tier"`
}

// GraphEdge is an edge downwards.
type GraphEdge struct {
	From     string  `json:"from"`
	To       string  `json:"to"`
	Strength float64 `json:"strength"`
}

// The training set of a graph: configurations of a day of jobs, a day beginning every half one.
const (
	causalDays    = 14
	causalConfigs = 15
	causalShare   = .6
)

// causalWindows are the windows whose days before them models are learnt on.
var causalWindows = []string{"philly", "helios-like", "pai"}

func causalUnits() (out []Unit) {
	for _, name := range causalWindows {
		x := windowOf(name)
		for _, scheduler := range schedulerNames {
			out = append(out, Unit{Experiment: "causal", Name: name + "/" + scheduler, Core: true, Data: x.file,
				Seed: 1, Rank: 2, Seconds: 15,
				measure: func(ctx context.Context, d *Data) (any, map[string]float64, error) {
					return measureCausal(ctx, d, x, scheduler)
				}})
		}
	}
	return out
}

func measureCausal(ctx context.Context, d *Data, x *window, scheduler string) (any, map[string]float64, error) {
	o, err := d.load(ctx, x, scheduler)
	if err != nil {
		return nil, nil, err
	}
	o.Seed, o.Workers = 1, 1
	first, _ := o.Trace.Span()
	o.From = max(first.Truncate(day), o.From-causalDays*day)
	began := cputime.Process()
	set, err := dataset.Train(ctx, o, dataset.Options{Segment: day, Stride: day / 2, Configs: causalConfigs})
	if err != nil {
		return nil, nil, err
	}
	measured := cputime.Process() - began
	began = cputime.Process()
	f, err := foresight.Foresee(ctx, set, causalShare, causal.LearnOptions{Workers: 1},
		model.Options{Families: []model.Family{model.Linear, model.Quadratic}, Seed: 1})
	if err != nil {
		return nil, nil, err
	}
	learnt := cputime.Process() - began
	// A parameter that can be off has two columns, its state and its value: one node here.
	name := func(id string) string { return metricName(strings.TrimSuffix(id, "_state")) }
	got := Causal{Error: f.Error, Incumbent: f.IncumbentOnly, Rank: f.Rank, DifferDays: f.Differ.Segments,
		Differ: f.Differ.Error, DifferIncumbent: f.Differ.IncumbentOnly, TrainRows: f.TrainRows, TestRows: f.TestRows}
	tiers := map[string]string{}
	for _, n := range f.Document.Nodes {
		tiers[n.ID] = n.Tier
		if node := (GraphNode{name(n.ID), n.Tier}); depth(n.Tier) >= 0 && !slices.Contains(got.Nodes, node) {
			got.Nodes = append(got.Nodes, node)
		}
	}
	for _, e := range f.Document.Edges {
		from, to := e.Source, e.Target
		if depth(tiers[from]) > depth(tiers[to]) {
			from, to = to, from
		}
		if depth(tiers[from]) < 0 || depth(tiers[from]) >= depth(tiers[to]) {
			continue
		}
		edge := GraphEdge{From: name(from), To: name(to)}
		if e.Strength != nil {
			edge.Strength = roundTo(*e.Strength, 4)
		}
		k := slices.IndexFunc(got.Edges, func(x GraphEdge) bool { return x.From == edge.From && x.To == edge.To })
		if k < 0 {
			got.Edges = append(got.Edges, edge)
		} else {
			got.Edges[k].Strength = max(got.Edges[k].Strength, edge.Strength)
		}
	}
	// The model's time over that of measuring the rows, for as many rows of each.
	rows := float64(len(set.Segments))
	return &got, map[string]float64{"model_over_measurement": round3(learnt.Seconds() /
		float64(f.TrainRows+f.TestRows) / (measured.Seconds() / rows))}, nil
}

// depth of a tier in the picture, -1 of the workload's variables.
func depth(tier string) int {
	return slices.Index([]string{causal.TierConfig, causal.TierMetric, causal.TierObjective}, tier)
}

// causalMeans are a value of the models in percent, by window: the mean over schedulers.
func (p *page) causalMeans(of func(*Causal) float64) (out []measured) {
	for _, name := range causalWindows {
		var v []float64
		for _, s := range schedulerNames {
			if c := read[Causal](&p.results, "causal/"+name+"/"+s); c != nil {
				v = append(v, 100*of(c))
			}
		}
		if len(v) > 0 {
			out = append(out, measured{name, stats.Mean(v)})
		}
	}
	return out
}

func (p *page) causalErrors() []measured {
	return p.causalMeans(func(c *Causal) float64 { return c.Error })
}

func (p *page) daysNotModels() string {
	return "the error is of the days more than of the model: without one, by the configuration in force, it is " +
		texts(p.causalMeans(func(c *Causal) float64 { return c.Incumbent }))
}

func (p *page) causalTable() {
	if !p.has("causal/") {
		return
	}
	p.printf(`
### The causal model (table 4)

Error of the predicted objective, %%, on days after those that the model was learnt on, each with configurations of its
own (%d of a day): of the model, and of the configuration in force times the median ratio, which ignores the
configuration; the same on the days whose configurations differ by more than a tenth; Spearman's correlation of predicted and
measured within a day; and time of learning and predicting a row over that of simulating it. The paper adds 0.09 s of
prediction and 1.5 s of fine-tuning per 1000 rows.
`, causalConfigs)
	p.table(2, "window", "scheduler", "rows", "tested", "model", "in force", "days that differ", "model", "in force",
		"rank", "time")
	for _, name := range causalWindows {
		for _, s := range schedulerNames {
			id := "causal/" + name + "/" + s
			c := read[Causal](&p.results, id)
			if c == nil {
				continue
			}
			row := []string{name, s, fmt.Sprint(c.TrainRows), fmt.Sprint(c.TestRows), percent(c.Error),
				percent(c.Incumbent), fmt.Sprint(c.DifferDays), "", "", number("%.2f", c.Rank), ""}
			if c.DifferDays > 0 {
				row[7], row[8] = percent(c.Differ), percent(c.DifferIncumbent)
			}
			if v, ok := p.all[id].Times["model_over_measurement"]; ok {
				row[10] = number("%.3f", v)
			}
			p.row(row...)
		}
	}
}

// graphs are the causal graphs of the schedulers.
func (p *page) graphs() {
	if !p.has("causal/") {
		return
	}
	p.printf(`
### The causal graphs (7, 17a, 21a)

Learnt by FCI from the earlier rows of table 4, no edge being given. Parameters with the metrics that they have an edge to,
each as its difference from the configuration in force; the picture has the graphs of the window %s. The paper's
point at Tiresias's queues, at Themis's lease term, and at a trade between Lucid's profiler and packing.
`, causalWindows[0])
	p.table(3, "window", "scheduler", "parameters and their metrics", "edges")
	row := chart.Row{Height: 340}
	for _, name := range causalWindows {
		for _, s := range schedulerNames {
			c := read[Causal](&p.results, "causal/"+name+"/"+s)
			if c == nil {
				continue
			}
			if name == causalWindows[0] {
				row.Charts = append(row.Charts, graphChart(s, c))
			}
			var texts []string
			for _, n := range c.Nodes {
				if to := c.to(n.ID); n.Tier == causal.TierConfig && len(to) > 0 {
					texts = append(texts, n.ID+": "+strings.Join(to, ", "))
				}
			}
			p.row(name, s, strings.Join(texts, "; "), fmt.Sprint(len(c.Edges)))
		}
	}
	if len(row.Charts) > 0 {
		p.plots["graphs.svg"] = &chart.Picture{Label: "Causal graphs of the schedulers", Rows: []chart.Row{row}}
		p.printf("\n![Causal graphs of the schedulers](paper/graphs.svg)\n")
	}
}

// to are the variables that a variable has an edge to.
func (c *Causal) to(id string) (out []string) {
	for _, e := range c.Edges {
		if e.From == id {
			out = append(out, e.To)
		}
	}
	return out
}

// metricName leaves out the unit of a metric and its comparison with the configuration in force.
func metricName(id string) string {
	return strings.TrimSuffix(strings.TrimSuffix(id, "_over_incumbent"), "_s")
}

// graphChart draws the variables with an edge in three layers, names of neighbours at different heights.
func graphChart(title string, c *Causal) *chart.Chart {
	at, lift := map[string]chart.Point{}, map[string]float64{}
	for tier := range 3 {
		var ids []string
		for _, n := range c.Nodes {
			if depth(n.Tier) == tier && slices.ContainsFunc(c.Edges,
				func(e GraphEdge) bool { return e.From == n.ID || e.To == n.ID }) {
				ids = append(ids, n.ID)
			}
		}
		for i, id := range ids {
			at[id] = chart.Point{X: (float64(i) + .5) / float64(len(ids)), Y: float64(2 - tier)}
			if lift[id] = 14 + 13*float64(i%3); tier == 0 {
				lift[id] = -8 - 13*float64(i%3)
			}
		}
	}
	out := &chart.Chart{Title: title, X: chart.Axis{Labels: true, Max: 1, Ticks: []chart.Tick{{Value: 2}}},
		Y: chart.Axis{Labels: true, Min: -.4, Max: 2.6,
			Ticks: []chart.Tick{{Value: 2, Label: "parameters"}, {Value: 1, Label: "metrics"}, {Value: 0, Label: "objective"}}}}
	for _, e := range c.Edges {
		out.Layers = append(out.Layers, &chart.Line{Mark: chart.Mark{Color: chart.Series(0)}, Width: .5 + 3*e.Strength,
			Points: []chart.Point{at[e.From], at[e.To]}})
	}
	for _, n := range c.Nodes {
		point, ok := at[n.ID]
		if !ok {
			continue
		}
		out.Layers = append(out.Layers, &chart.Dots{Points: []chart.Point{point}, Radius: 3},
			&chart.Text{At: point, Text: chart.Clip(n.ID, 16), Align: chart.Center, DY: lift[n.ID]})
	}
	return out
}

// Leases are the rounds of the published tuner of Themis.
type Leases struct {
	// Loads are GPUs asked for per job of what a round is measured on, the paper's job load; Terms the lease terms in
	// force after it, in seconds.
	Loads []float64 `json:"loads"`
	Terms []float64 `json:"lease_terms_s"`
}

func leaseUnits() (out []Unit) {
	for _, name := range causalWindows {
		x := windowOf(name)
		out = append(out, Unit{Experiment: "leases", Name: name, Core: true, Data: x.file, Seed: 1, Rank: 2,
			Seconds: 10, measure: func(ctx context.Context, d *Data) (any, map[string]float64, error) {
				var got Leases
				p := *publishedOf("published")
				p.each = func(jobs []workload.MilliGPU, c space.Config, _ time.Duration) {
					gpus := 0.
					for _, g := range jobs {
						gpus += g.Count() / float64(len(jobs))
					}
					if len(jobs) > 0 {
						got.Loads = append(got.Loads, math.Round(1e3*gpus)/1e3)
						got.Terms = append(got.Terms, c.Get("lease_term").Float())
					}
				}
				return &got, nil, p.on(ctx, d, x, fairThemis)
			}})
	}
	return out
}

// leases compares Themis's lease terms with the job load.
func (p *page) leases() {
	var row chart.Row
	began, least := false, 0.
	for _, name := range causalWindows {
		l := read[Leases](&p.results, "leases/"+name)
		if l == nil || len(l.Terms) == 0 {
			continue
		}
		if !began {
			began = true
			p.printf("\n### Themis's lease term against the job load (17b)\n\nRounds of the published tuner for the share of fair " +
				"jobs; load is GPUs asked for per job. The paper: short leases where the load\nis high, shown for some rounds of one " +
				"trace. Spearman's correlation of both, and the median term in the rounds of the\nlower and the upper half of the load.\n")
			p.table(1, "window", "rounds", "correlation", "terms, low load, s", "terms, high load, s")
			row.Height = 260
			least = math.Inf(1)
		}
		middle := stats.Quantile(slices.Sorted(slices.Values(l.Loads)), .5)
		var low, high []float64
		dots := &chart.Dots{Mark: chart.Mark{Color: chart.Series(0)}, Radius: 3}
		for i, v := range l.Loads {
			if dots.Points = append(dots.Points, chart.Point{X: v, Y: l.Terms[i]}); v <= middle {
				low = append(low, l.Terms[i])
			} else {
				high = append(high, l.Terms[i])
			}
		}
		half := func(v []float64) float64 {
			if len(v) == 0 {
				return math.NaN()
			}
			return stats.Quantile(slices.Sorted(slices.Values(v)), .5)
		}
		v := stats.Spearman(l.Loads, l.Terms)
		least = min(least, v)
		p.row(name, fmt.Sprint(len(l.Terms)), number("%.2f", v),
			number("%.0f", half(low)), number("%.0f", half(high)))
		row.Charts = append(row.Charts, &chart.Chart{Title: name, X: chart.Axis{Name: "GPUs asked for per job"},
			Y: chart.Axis{Name: "lease term, s", Log: true}, Layers: []chart.Layer{dots}})
	}
	if began {
		p.plots["leases.svg"] = &chart.Picture{Label: "Themis's lease term against the job load",
			Rows: []chart.Row{row}}
		p.printf("\n![Themis's lease term against the job load](paper/leases.svg)\n")
		if least > -.2 {
			p.printf("\nOver all rounds of these windows the term does not fall with the load.\n")
		}
	}
}
