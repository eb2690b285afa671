package paper

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/chart"
)

// page is the text of a page and its plots, by name.
type page struct {
	results
	text  bytes.Buffer
	plots map[string]*chart.Picture
}

// Write writes the page of the results in a folder, its plots into a folder of its name beside it, and the part of a
// README between Begin and End; readme may be empty.
func Write(folder, path, readme string) error {
	text, plots, err := Render(folder)
	if err != nil {
		return err
	}
	if readme != "" {
		if err := writeReadme(folder, readme); err != nil {
			return err
		}
	}
	beside := strings.TrimSuffix(path, filepath.Ext(path))
	if err := os.MkdirAll(beside, 0o777); err != nil {
		return err
	}
	for name, plot := range plots {
		if err := os.WriteFile(filepath.Join(beside, name), plot, 0o666); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text, 0o666)
}

// Render returns the page of the results in a folder and its plots as SVG, by name.
func Render(folder string) (text []byte, plots map[string][]byte, err error) {
	p := page{plots: map[string]*chart.Picture{}}
	if p.all, err = Read(folder); err != nil {
		return nil, nil, err
	}
	p.write()
	if p.err != nil {
		return nil, nil, p.err
	}
	plots = map[string][]byte{}
	for name, picture := range p.plots {
		var b bytes.Buffer
		if err := picture.Write(&b, name); err != nil {
			return nil, nil, err
		}
		plots[name] = b.Bytes()
	}
	return p.text.Bytes(), plots, nil
}

func (p *page) printf(format string, values ...any) { fmt.Fprintf(&p.text, format, values...) }

// table begins a table. The first n columns are text, the others numbers.
func (p *page) table(n int, columns ...string) {
	p.printf("\n| %s |\n|%s%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", n),
		strings.Repeat(" ---: |", len(columns)-n))
}

func (p *page) row(values ...string) { p.printf("| %s |\n", strings.Join(values, " | ")) }

// number formats a value, nothing where it is unknown.
func number(format string, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// chance formats a p-value.
func chance(p float64) string {
	if p < .001 {
		return "< .001"
	}
	return number("%.3f", p)
}

func percent(v float64) string { return number("%.1f", 100*v) }

func (p *page) write() {
	commits := map[string]int{}
	for _, r := range p.all {
		commits[r.Commit]++
	}
	var units, measured [2]int  // of the core set, and others
	sample := map[string]bool{} // methods measured on a fortnight
	var hours [2]float64
	for _, u := range allUnits() {
		k := 0
		if !u.Core {
			k = 1
		}
		units[k]++
		hours[k] += u.Seconds / time.Hour.Seconds()
		if p.all[u.ID()] != nil {
			measured[k]++
			if part := strings.SplitN(u.ID(), "/", 4); part[0] == "methods" && windowOf(part[1]).fortnight {
				sample[path.Dir(part[3])] = true
			}
		}
	}
	p.printf("# The AutoSched paper, measured\n\nGao et al., \"AutoSched: An Adaptive Self-configured Framework for Scheduling " +
		"Deep Learning Training Workloads\", ICS 2024.\n")
	p.summary()
	var byCommit []string
	for _, commit := range slices.Sorted(maps.Keys(commits)) {
		byCommit = append(byCommit, fmt.Sprintf("%s %d", commit, commits[commit]))
	}
	fortnights := "; none of theirs is measured"
	if len(sample) > 0 {
		fortnights = "; of theirs there is a sample, in no mean: " + strings.Join(slices.Sorted(maps.Keys(sample)), ", ") +
			".\nPhilly's begins with the trace, so that the daily rule has no history to answer from"
	}
	p.printf(`
This page is generated: tables and plots from the files in lab/paper/results, by a program that `+"`make lab`"+` builds:

    bin/autosched-lab paper --core --estimate
    bin/autosched-lab paper --core --jobs 2
    bin/autosched-lab paper --render
    bin/autosched-lab paper --check 100

The first says how long the second takes, which goes on where it was ended and writes this page. Each result names its
command, commit and seed; equal inputs give equal numbers, but for times, which are ratios within one run. The last
measures 100 results of other commits again and compares. Measured are %d of the %d units of the core set, and %d of the
%d others; by commit that gave them last
%s.

**Data.** Windows named -like are drawn from published statistics and need no file. Those named philly need jobs of
[Philly](traces.md) as philly/jobs.csv.gz in the folder --data: here a CSV derivative of the trace with 82,247 of its
117,325 jobs, until 5 November 2017. What `+"`autosched trace fetch philly`"+` writes has all jobs, and is not what was
measured here: its download is tested on an archive of the same layout, the public one was not at hand. Those named pai
need the pods of Alibaba's trace of 2023 as pai2023/pods.csv.gz. Where a file is missing, the command says where to get
it, and measures the rest; rows and columns as published give the same numbers as the files that were used. The Helios
and PAI 2020 traces of the paper are not at hand: helios-like and pai-like stand for them; of Helios's cluster Earth
there are loads, no jobs. Clusters are sized by their mean load, as the paper
sized its own; the days that are measured have loads of .5 to 3.1. The core set has windows of one to five days, with
two days of warm-up. Without --core there are fortnights on 70 nodes, too, as the paper has: %.0f hours of
processor time instead of %.0f%s.
`, measured[0], units[0], measured[1], units[1], strings.Join(byCommit, ", "),
		hours[0]+hours[1], hours[0], fortnights)
	p.headline()
	p.figures()
	p.printf("\n## Not built\n\n- The 5-minute rounds of the published tuner after bursts: an hourly round is " +
		"measured.\n")
}

// headlineMethods in order, with the names of columns.
var headlineMethods = [][2]string{{"preset", "preset"}, {"random-preset", "random"}, {"fixed-history", "history"},
	{"fixed-oracle", "fixed"}, {"selftune", "selftune"}, {"published", "published"},
	{"published-optimal", "its optimal"}, {"paper", "paper"}, {"daily", "daily"}, {"autosched", "autosched"},
	{"oracle", "oracle"}}

func ofAll(x *window) bool   { return x.all && !x.fortnight }
func anyWindow(*window) bool { return true }

func (p *page) headline() {
	p.printf(`
## All methods

Average JCT of the default over each method's: above 1 is better. Means over the seeds of methods that draw. "fixed" is
the paper's Fixed: the best of %d configurations on the window itself, in hindsight. "published" is the tuner of the
paper: its generator, BlueFin with 40 measurements on the next hour, rejection and scope by a causal model, the best adopted
every hour; "its optimal" the same on the true next hour. "paper" is the product's --adoption paper, "daily" the answer of
the daily rule at the beginning of the window, held, "autosched" what the service does, "oracle" its search on the true
next hours. Losses of more than 1 %% are bold.
`, hindsightBudget)
	columns := []string{"window", "scheduler", "load", "jobs", "default, s"}
	for _, m := range headlineMethods {
		columns = append(columns, m[1])
	}
	p.table(2, append(columns, "autosched, 95 %")...)
	for i := range windows {
		x := &windows[i]
		for _, s := range schedulerNames {
			base := p.cell(x.name, s, "default")
			if !x.all || len(base) == 0 {
				continue
			}
			row := []string{x.name, s, number("%.2f", base[0].Load), fmt.Sprint(base[0].Jobs), number("%.0f",
				base.jct())}
			for _, m := range headlineMethods {
				v := base.over(p.cell(x.name, s, m[0]))
				text := number("%.3f", v)
				if v < .99 {
					text = "**" + text + "**"
				}
				row = append(row, text)
			}
			ours := p.cell(x.name, s, "autosched")
			lo, hi := base.span(ours)
			p.row(append(row, span(lo, hi))...)
		}
	}
	others := []string{"default", "random-preset", "fixed-history", "fixed-oracle", "selftune", "published", "paper",
		"daily", "oracle"}
	p.comparison("autosched", others, ofAll)
	p.comparison("daily", []string{"default", "preset", "fixed-history", "fixed-oracle", "published"}, anyWindow)
	p.headlinePlot()
}

func span(lo, hi float64) string {
	if math.IsNaN(lo) {
		return ""
	}
	return fmt.Sprintf("%.3f to %.3f", lo, hi)
}

func (p *page) comparison(method string, others []string, of func(*window) bool) {
	all := p.compare(method, others, of)
	if len(all) == 0 {
		return
	}
	p.printf("\n`%s` against others, over windows and schedulers: geometric mean of the other's average JCT over its own, "+
		"the least and\nthe most, wins and losses of more than 1 %%, Wilcoxon's signed-rank test, adjusted by Holm.\n",
		method)
	p.table(1, "against", "cells", "ratio", "least", "most", "wins", "losses", "p", "p, Holm")
	for _, c := range all {
		p.row(c.name, fmt.Sprint(c.n), number("%.3f", c.ratio), number("%.3f", c.least), number("%.3f", c.most),
			fmt.Sprint(c.wins), fmt.Sprint(c.losses), chance(c.p), chance(c.holm))
	}
}

func (p *page) headlinePlot() {
	picture := &chart.Picture{Label: "Average JCT of the default over that of each method",
		Rows: []chart.Row{{Height: 300}}}
	for _, s := range schedulerNames {
		c := &chart.Chart{Title: s, X: chart.Axis{Labels: true, Min: -.5, Max: float64(len(headlineMethods)) - .5},
			Y: chart.Axis{Name: "default's JCT over the method's", Include: []float64{1}}}
		c.Layers = append(c.Layers, &chart.Line{Mark: chart.Mark{Color: chart.Soft},
			Points: []chart.Point{{X: math.Inf(-1), Y: 1}, {X: math.Inf(1), Y: 1}}})
		for k := range headlineMethods {
			c.X.Ticks = append(c.X.Ticks, chart.Tick{Value: float64(k), Label: fmt.Sprint(k + 1)})
		}
		n := 0
		for i := range windows {
			if !windows[i].all {
				continue
			}
			dots := &chart.Dots{Mark: chart.Mark{Name: windows[i].name, Color: chart.Series(n)}, Radius: 4}
			n++
			base := p.cell(windows[i].name, s, "default")
			for k, m := range headlineMethods {
				dots.Points = append(dots.Points, chart.Point{X: float64(k), Y: base.over(p.cell(windows[i].name, s,
					m[0]))})
			}
			c.Layers = append(c.Layers, dots)
		}
		picture.Rows[0].Charts = append(picture.Rows[0].Charts, c)
	}
	p.plots["methods.svg"] = picture
	var names []string
	for k, m := range headlineMethods {
		names = append(names, fmt.Sprintf("%d %s", k+1, m[1]))
	}
	p.printf("\n![Average JCT of the default over that of each method](paper/methods.svg)\n\nMethods: %s.\n",
		strings.Join(names, ", "))
}

// Row is a figure or table of the paper beside what is measured here.
type Row struct {
	ID    string `json:"figure"`
	Title string `json:"subject"`
	Paper string `json:"the_paper,omitempty"`
	// Here are the numbers by window; Same compares them with the paper's range, and Why is the reason of a difference.
	Here []Here `json:"here,omitempty"`
	Same string `json:"the_same,omitempty"`
	Why  string `json:"why_not,omitempty"`

	text string
}

// Here is a number measured.
type Here struct {
	Window string  `json:"window"`
	Value  float64 `json:"value"`
}

// Rows returns the figures of the results in a folder.
func Rows(folder string) ([]Row, error) {
	p := page{}
	var err error
	if p.all, err = Read(folder); err != nil {
		return nil, err
	}
	return p.rows(), p.err
}

func (p *page) rows() (out []Row) {
	for i := range Figures {
		f := &Figures[i]
		r := Row{ID: f.ID, Title: f.Title, Paper: f.Claim, text: "below"}
		if f.here != nil {
			all := f.here(p)
			if r.Same, r.text = f.verdict(all), f.text(all); r.Same != "" && r.Same != "yes" {
				if f.why != nil {
					r.Why = f.why(p)
				}
				r.Why = cmp.Or(r.Why, "unknown")
			}
			for _, m := range all {
				r.Here = append(r.Here, Here{m.window, m.value})
			}
		}
		out = append(out, r)
	}
	return out
}

// figures writes a table of the paper's figures, then a section for each that has one.
func (p *page) figures() {
	p.printf("\n## Figures and tables\n\nRatios of a few windows by name, of many their range and geometric mean. \"The same\" " +
		"compares with the paper's range.\n")
	p.table(6, "figure", "subject", "the paper", "here", "the same", "why not")
	for _, r := range p.rows() {
		if r.Paper != "" {
			p.row(r.ID, r.Title, r.Paper, r.text, r.Same, r.Why)
		}
	}
	for i := range Figures {
		if f := &Figures[i]; f.detail != nil {
			f.detail(p)
		}
	}
}

// rejection is whether a causal model saves trials of a slow evaluator.
func (p *page) rejection() {
	var rows [][]string
	rejected := 0
	for _, s := range []string{"tiresias", "lucid", "gandiva"} {
		r := read[Rejection](&p.results, "rejection/"+s)
		if r == nil {
			continue
		}
		for _, causal := range []bool{false, true} {
			var trials []float64
			found, skipped := 0, 0
			for _, x := range r.Studies {
				if x.Causal != causal {
					continue
				}
				trials = append(trials, float64(cmp.Or(x.Trials, x.Measured)))
				skipped += x.Skipped
				if x.Trials > 0 {
					found++
				}
			}
			rejected += skipped
			slices.Sort(trials)
			name, tuner := "without", "tuner_over_evaluator_without"
			if causal {
				name, tuner = "with", "tuner_over_evaluator_with"
			}
			rows = append(rows, []string{s, fmt.Sprint(r.Parameters), name, fmt.Sprintf("%d of %d", found, len(trials)),
				number("%.0f", trials[len(trials)/2]), fmt.Sprintf("%.0f to %.0f", trials[0], trials[len(trials)-1]),
				number("%.0f", trials[len(trials)/2]*evaluatorTakes.Seconds()), fmt.Sprint(skipped),
				number("%.3f", p.all["rejection/"+s].Times[tuner])})
		}
	}
	if len(rows) == 0 {
		return
	}
	p.printf(`
### Does causal rejection pay where a trial takes long

Studies of %d trials on the window pai, %d seeds each way, on an evaluator of %v of processor time, which is
counted, not waited for. Trials until one is within 1 %% of the best of a study of %d trials; one that finds none counts
with all of its own. Medians; "tuner" is the time of proposing over that of the evaluator.
`, rejectionTrials, rejectionSeeds, evaluatorTakes, rejectionReference)
	p.table(1, "space", "parameters", "causal model", "found", "trials", "least to most", "time, s", "skipped", "tuner")
	saved := rejected
	for k, r := range rows {
		p.row(r...)
		if k%2 == 1 && rows[k-1][4] != r[4] {
			saved++
		}
	}
	if saved == 0 {
		p.printf("\nIt does not: the model rejects nothing within these trials, as it does so only once it has ranked measured " +
			"trials well\n([notes/causal-model.md](notes/causal-model.md#in-studies)).\n")
	}
	p.live()
}
