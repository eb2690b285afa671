package paper

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/rng"
	"github.com/autosched/autosched/internal/stats"
)

// gained sums up a method against the default over cases: windows with a scheduler each.
type gained struct {
	n int
	// change of the average JCT, geometric mean over cases, with the 95 % interval; below 0 jobs end earlier.
	change, lo, hi float64
	worst          float64
	losses         int // by more than 1 %
}

// gained returns false where no case is measured. The interval is by a bootstrap over windows and, within each, over
// seeds and stretches of the same jobs: the cases of a window have the same jobs.
func (r *results) gained(method string, of func(*window) bool) (g gained, ok bool) {
	type pair struct{ base, other cell }
	var all [][]pair
	sum := 0.
	for i := range windows {
		if windows[i].fortnight {
			continue // a sample
		}
		var here []pair
		for _, s := range schedulerNames {
			p := pair{r.cell(windows[i].name, s, "default"), r.cell(windows[i].name, s, method)}
			if !of(&windows[i]) || len(p.base) == 0 || len(p.other) == 0 {
				continue
			}
			here = append(here, p)
			v := p.other.over(p.base)
			sum += math.Log(v)
			if g.n++; v > 1.01 {
				g.losses++
			}
			if g.n == 1 || v-1 > g.worst {
				g.worst = v - 1
			}
		}
		if len(here) > 0 {
			all = append(all, here)
		}
	}
	if g.n == 0 {
		return g, false
	}
	g.change = math.Expm1(sum / float64(g.n))
	draw, changes := rng.Stream("paper summary", 1), make([]float64, 1000)
	for i := range changes {
		logs, n := 0., 0
		for range all {
			var jobs [stretches]int
			here, seed := all[draw.IntN(len(all))], draw.IntN(1<<20)
			for k := range jobs {
				jobs[k] = draw.IntN(stretches)
			}
			for _, p := range here {
				x, y := p.base[seed%len(p.base)], p.other[seed%len(p.other)]
				a, b := 0., 0.
				for _, k := range jobs {
					a, b = a+x.Stretches[k], b+y.Stretches[k]
				}
				logs, n = logs+math.Log(b/a), n+1
			}
		}
		changes[i] = math.Expm1(logs / float64(n))
	}
	g.lo, g.hi = stats.Interval(changes, 1)
	return g, true
}

// signed is a change in percent.
func signed(v float64) string {
	v = math.Round(1000*v) / 10
	if v == 0 {
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", v)
}

func (g *gained) text() string {
	return signed(g.change) + " (" + signed(g.lo) + " to " + signed(g.hi) + ")"
}

// lost has the number of losses and the worst one.
func (g *gained) lost() string {
	text := fmt.Sprintf("%d of %d", g.losses, g.n)
	if g.losses > 0 {
		text += ", worst " + signed(g.worst)
	}
	return text
}

// summary is the table at the head of the page.
func (p *page) summary() {
	p.printf("\nAverage JCT against the scheduler's default, geometric means over windows with Tiresias, Themis and Lucid, in " +
		"brackets 95 %%:\nbelow 0 jobs end earlier. Lost: cases whose jobs take more than 1 %% longer.\n" +
		"Guards: runs that break one against the default, where that is compared.\n")
	p.table(1, "tuning", "windows with every method", "lost", "guards", "all windows", "lost")
	for _, m := range [][2]string{{"random-preset", "a preset drawn at random"},
		{"fixed-history", "once, the best of the days before"}, {"daily", "once, by the daily rule"},
		{"selftune", "every hour, SelfTune's method"}, {"published", "every hour, the paper's tuner"},
		{"autosched", "every hour, the service"}, {"fixed-oracle", "once, the best in hindsight"}} {
		every, ok := p.gained(m[0], ofAll)
		if !ok {
			continue
		}
		row := []string{m[1], every.text(), every.lost(), p.broken(m[0]), "", ""}
		if all, _ := p.gained(m[0], anyWindow); all.n > every.n {
			row[4], row[5] = all.text(), all.lost()
		}
		p.row(row...)
	}
}

// broken counts the runs of a method that break a guard, on the windows of all methods; "" where none is compared.
func (r *results) broken(method string) string {
	n, of := 0, 0
	for i := range windows {
		for _, s := range schedulerNames {
			if !windows[i].all {
				continue
			}
			for _, o := range r.cell(windows[i].name, s, method) {
				if o.Broken == nil {
					continue
				}
				if of++; *o.Broken > 0 {
					n++
				}
			}
		}
	}
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", n, of)
}

// Begin and End are the lines around the part of a README that is written.
const (
	Begin = "<!-- written by autosched-lab paper --render -->"
	End   = "<!-- end -->"
)

// Readme returns a README with its part written anew from the results in a folder.
func Readme(folder string, text []byte) ([]byte, error) {
	before, rest, ok := bytes.Cut(text, []byte(Begin+"\n"))
	if !ok {
		return nil, fmt.Errorf("there is no line %s, which the table of results follows", Begin)
	}
	_, after, ok := bytes.Cut(rest, []byte(End+"\n"))
	if !ok {
		return nil, fmt.Errorf("there is no line %s after the table of results", End)
	}
	all, err := Read(folder)
	if err != nil {
		return nil, err
	}
	p := page{results: results{all: all}}
	p.expect()
	return slices.Concat(before, []byte(Begin), p.text.Bytes(), []byte(End+"\n"), after), p.err
}

func writeReadme(folder, path string) error {
	text, err := os.ReadFile(path)
	if err == nil {
		text, err = Readme(folder, text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, text, 0o666)
}

// traceNames are the traces that are measured, then "all".
func (r *results) traceNames() (out []string) {
	for i := range windows {
		x := &windows[i]
		if !slices.Contains(out, x.set) && slices.ContainsFunc(schedulerNames, func(s string) bool {
			return len(r.cell(x.name, s, "default")) > 0 && len(r.cell(x.name, s, "daily")) > 0
		}) {
			out = append(out, x.set)
		}
	}
	return append(out, "all")
}

func ofTrace(name string) func(*window) bool {
	return func(x *window) bool { return name == "all" || x.set == name }
}

// expect is the README's table, by trace.
func (p *page) expect() {
	p.table(1, "history", "changed once", "lost", "tuned every hour", "lost", "best in hindsight", "lost")
	p.traceRows("daily", "autosched", "fixed-oracle")
	all, ok := p.gained("daily", anyWindow)
	service, measured := p.gained("autosched", anyWindow)
	if !ok || !measured {
		return
	}
	names := p.traceNames()
	most, without := "", gained{}
	for _, name := range names[:len(names)-1] {
		g, _ := p.gained("daily", func(x *window) bool { return x.set != name })
		if most == "" || math.Abs(g.change-all.change) > math.Abs(without.change-all.change) {
			most, without = name, g
		}
	}
	rest, _ := p.gained("autosched", func(x *window) bool { return x.set != most })
	p.printf("\nThe means over all are mostly %s's: without it they are %s changed once\nand %s tuned every hour.%s\n",
		most, without.text(), rest.text(), p.oncePays(&service))
}

// oncePays says whether tuning every hour is better than a change once, where both are measured.
func (p *page) oncePays(service *gained) string {
	text := ""
	if service.lo <= 0 && service.hi >= 0 {
		text = " The interval of tuning every hour includes 0."
	}
	both := p.compare("autosched", []string{"daily"}, anyWindow)
	if len(both) == 0 {
		return text
	}
	c := &both[0]
	than := "longer"
	if c.ratio > 1 {
		than = "shorter"
	}
	text += fmt.Sprintf(" On\nthe %d cases that have both, JCTs are %.1f %% %s tuned every hour than changed once", c.n,
		100*math.Abs(1-1/c.ratio), than)
	if c.p >= .05 {
		return text + ", which may be chance."
	}
	return text + "."
}

// traceRows are of what methods gain and lose, by trace.
func (p *page) traceRows(methods ...string) {
	for _, name := range p.traceNames() {
		row := []string{name}
		for _, m := range methods {
			if g, ok := p.gained(m, ofTrace(name)); ok {
				row = append(row, g.text(), g.lost())
			} else {
				row = append(row, "", "")
			}
		}
		p.row(row...)
	}
}

// byTrace is what tuning is worth on each trace, as a table and a plot.
func (p *page) byTrace() {
	p.printf("\nBy trace: change of the average JCT, geometric means over windows and schedulers, in brackets 95 %%; lost: by " +
		"more than 1 %%.\nColumns of a row with other numbers of cases are not to be compared.\n")
	p.table(1, "trace", "once", "lost", "hourly", "lost", "hourly, the service", "lost", "hindsight", "lost")
	methods := [][2]string{{"daily", "once"}, {"published", "hourly"}, {"autosched", "hourly, the service"},
		{"fixed-oracle", "hindsight"}}
	p.traceRows("daily", "published", "autosched", "fixed-oracle")
	c := &chart.Chart{Title: "What tuning is worth", X: chart.Axis{Labels: true},
		Y: chart.Axis{Name: "change of the average JCT, %", Include: []float64{0}}}
	c.Layers = append(c.Layers, &chart.Line{Mark: chart.Mark{Color: chart.Soft},
		Points: []chart.Point{{X: math.Inf(-1), Y: 0}, {X: math.Inf(1), Y: 0}}})
	names := p.traceNames()
	c.X.Min, c.X.Max = -.5, float64(len(names))-.5
	for i, name := range names {
		c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: float64(i), Label: name})
	}
	for k, m := range methods {
		dots := &chart.Dots{Mark: chart.Mark{Name: m[1], Color: chart.Series(k)}, Radius: 3.5}
		for i, name := range names {
			if g, ok := p.gained(m[0], ofTrace(name)); ok {
				x := float64(i) + .15*(float64(k)-1.5)
				dots.Points = append(dots.Points, chart.Point{X: x, Y: 100 * g.change})
				c.Layers = append(c.Layers, &chart.Line{Mark: chart.Mark{Color: chart.Series(k)},
					Points: []chart.Point{{X: x, Y: 100 * g.lo}, {X: x, Y: 100 * g.hi}}})
			}
		}
		c.Layers = append(c.Layers, dots)
	}
	p.plots["worth.svg"] = &chart.Picture{Label: "What tuning is worth, by trace",
		Rows: []chart.Row{{Height: 300, Charts: []*chart.Chart{c}}}}
	p.printf("\n![What tuning is worth, by trace, with intervals of 95 %%](paper/worth.svg)\n")
}
