package report

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers/elastic"
)

// ComparisonSchema of compare.json (package schema).
const ComparisonSchema = "comparison/v1"

//go:embed comparison.html.tmpl
var comparisonTemplate string

var comparisonHTML = template.Must(template.Must(reportHTML.Clone()).New("comparison").Parse(comparisonTemplate))

// rowsDocument is a comparison of rows with the texts of its files.
type rowsDocument struct{ *replay.Comparison }

// WriteComparison writes a comparison into a folder, which it creates: compare.json,
// compare.csv, jobs.csv and compare.html, each atomically, compare.html last.
func WriteComparison(c *replay.Comparison, dir string) error {
	r := &rowsDocument{c}
	return writeFiles(dir, []file{
		{"compare.json", func(w io.Writer) error { return schema.Write(w, ComparisonSchema, c) }},
		{"compare.csv", r.writeCSV},
		{"jobs.csv", r.writeJobs},
		{"compare.html", r.writeHTML},
	})
}

// Overall are the results that a comparison concludes from: the results over all windows, or of
// its only one.
func Overall(c *replay.Comparison) []replay.Result {
	if len(c.All) > 0 {
		return c.All
	}
	return c.Windows[0].Results
}

// Best is the row whose average JCT is shorter than the first's beyond chance, and the shortest of all; 0 if there is
// none, and before a comparison has ended.
func Best(c *replay.Comparison) int {
	if c == nil || len(c.Windows) == 0 {
		return 0
	}
	results := Overall(c)
	if at := least(results); at > 0 && results[at].Low > 1 {
		return at
	}
	return 0
}

// least is the row behind the first with the lowest average JCT, 0 if there is none.
func least(results []replay.Result) int {
	at := min(1, len(results)-1)
	for i := range results {
		if i > 0 && results[i].AvgJCT < results[at].AvgJCT {
			at = i
		}
	}
	return at
}

// BestRow says which row has the lowest average JCT, and whether that may be chance. The
// text has the figures, and is empty where the title has.
func BestRow(c *replay.Comparison) (title, text string) {
	results := Overall(c)
	base := &results[0]
	if len(results) == 1 {
		return fmt.Sprintf("%s: average JCT %s", base.Row, units.Duration(base.AvgJCT)), ""
	}
	at := least(results)
	best := &results[at]
	if best.Ratio <= 1 {
		return fmt.Sprintf("No row has a shorter average JCT than %s (%s)", base.Row, units.Duration(base.AvgJCT)), ""
	}
	title = fmt.Sprintf("%s: average JCT %s shorter than %s", best.Row, units.Percent(1-1/best.Ratio), base.Row)
	text = fmt.Sprintf("Average JCT %s -> %s", units.Duration(base.AvgJCT), units.Duration(best.AvgJCT))
	switch {
	case best.High == 0:
		text += "; there are too few jobs for an interval"
		title = fmt.Sprintf("No row is shown to be better than %s; the best is %s", base.Row, title)
	default:
		text += fmt.Sprintf("; 95 %% interval of the gain %s to %s", units.Percent(1-1/best.Low),
			units.Percent(1-1/best.High))
		if best.Low <= 1 {
			title = fmt.Sprintf("No row is better than %s beyond chance; the best is %s", base.Row, title)
		}
	}
	if n := len(c.Windows); n > 1 {
		better := 0
		for i := range c.Windows {
			if c.Windows[i].Results[at].Ratio > 1 {
				better++
			}
		}
		text += fmt.Sprintf("; shorter in %d of %d windows", better, n)
	}
	return title, text + "."
}

// Assumption is what a comparison with elastic schedulers assumes of the jobs, "" without any.
func Assumption(c *replay.Comparison) string {
	var names []string
	for _, row := range c.Rows {
		if row.Configuration.Has(elastic.MaxScale) && !slices.Contains(names, row.Scheduler) {
			names = append(names, row.Scheduler)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("Under %s every job is assumed to run on up to %s times its GPUs; others keep to what jobs ask for.",
		strings.Join(names, " and "), elastic.MaxScale)
}

// writeCSV writes a row for each row and window; the window "all" is over all of them.
// Times are in seconds.
func (r *rowsDocument) writeCSV(w io.Writer) error {
	out := [][]string{{"window", "row", "scheduler", "configuration", "jobs", "avg_jct_s", "p50_jct_s", "p95_jct_s",
		"p99_jct_s", "avg_queue_s", "p95_queue_s", "ratio", "ratio_low", "ratio_high", "faster", "slower", "spread",
		"utilization", "fragmentation", "ftf_le_1", "p95_rho", "preemptions"}}
	add := func(window string, results []replay.Result) {
		for i := range results {
			x := &results[i]
			low, high := "", ""
			if x.High > 0 {
				low, high = number(x.Low), number(x.High)
			}
			out = append(out, []string{window, x.Row, r.Rows[i].Scheduler, r.Rows[i].Configuration.String(),
				strconv.Itoa(x.Jobs), number(x.AvgJCT), number(x.P50JCT), number(x.P95JCT), number(x.P99JCT),
				number(x.AvgQueue), number(x.P95Queue), number(x.Ratio), low, high, number(x.Faster),
				number(x.Slower), number(x.Spread), number(x.Utilization), number(x.Fragmentation), number(x.FTFLe1),
				number(x.P95Rho), number(x.Preemptions)})
		}
	}
	for i := range r.Windows {
		add(r.Windows[i].Name, r.Windows[i].Results)
	}
	if len(r.All) > 0 {
		add("all", r.All)
	}
	return csv.NewWriter(w).WriteAll(out)
}

// writeJobs writes a row for each job of each window, in order of submission, with its JCT
// in seconds under each row, the mean over seeds.
func (r *rowsDocument) writeJobs(w io.Writer) error {
	c := csv.NewWriter(w)
	line := []string{"window", "job"}
	for i := range r.Rows {
		line = append(line, r.Rows[i].Name)
	}
	c.Write(line)
	for i := range r.Windows {
		var rows []replay.JobRows
		for k := range r.Windows[i].Results {
			rows = append(rows, r.Windows[i].Results[k].Rows)
		}
		if err := writeTable(c, []string{r.Windows[i].Name}, rows); err != nil {
			return err
		}
	}
	return c.Error()
}

// rowsPage is the data of comparison.html.tmpl.
type rowsPage struct {
	*rowsDocument
	Frame    chart.Frame
	Swatches []swatch
	Held     []heldRow
	Sections []rowsSection
	Drawn    bool // by seeds
}

// heldRow is a row with its swatch.
type heldRow struct {
	Swatch                   swatch
	Scheduler, Configuration string
}

// rowsSection is a window, or all of them.
type rowsSection struct {
	Title, Jobs     string
	Fidelity        string
	Columns         []column
	Rows            []rowsLine
	JCT, Queue      template.HTML
	Used, Asked     template.HTML
	GPUs            int
	Seeds, HasTimes bool
}

type rowsLine struct {
	Swatch                 swatch
	Cells                  []cell
	Ratio, Between, Class  string
	Faster, Slower, Spread string
	Rest                   []string
}

func (r *rowsDocument) writeHTML(w io.Writer) error {
	p := &rowsPage{rowsDocument: r, Drawn: len(r.Seeds) > 1}
	for i, row := range r.Rows {
		s := swatch{Of: i, Name: row.Name, Slot: i}
		p.Swatches = append(p.Swatches, s)
		p.Held = append(p.Held, heldRow{s, row.Scheduler, row.Configuration.String()})
	}
	jobs := 0
	for i := range r.Windows {
		jobs += r.Windows[i].Results[0].Jobs
	}
	front := comparisonFront(r.Comparison)
	front.Facts = []chart.Fact{
		{Name: "Trace", Value: r.Trace},
		{Name: "Windows", Value: strconv.Itoa(len(r.Windows))},
		{Name: "Jobs", Value: units.Count(jobs)},
		{Name: "Cluster", Value: fmt.Sprintf("%s (%s GPUs)", r.Cluster, units.Count(r.Cluster.TotalGPUs()))},
		{Name: "Baseline", Value: r.Rows[0].Name},
		{Name: "Simulator version", Value: r.Simulator},
		{Name: "Trace digest", Value: r.Digest, Mono: true},
	}
	if p.Drawn {
		front.Facts = append(front.Facts,
			chart.Fact{Name: "Seeds of run-time estimates", Value: strconv.Itoa(len(r.Seeds))})
	}
	p.Frame = front.Frame(toggles(p.Swatches))
	if len(r.All) > 0 {
		p.Sections = append(p.Sections, p.section("All windows", r.All))
	}
	for i := range r.Windows {
		x := &r.Windows[i]
		s := p.section(minute(x.From)+" to "+minute(x.To)+" UTC", x.Results)
		if x.Fidelity != nil {
			s.Fidelity = x.Fidelity.String() + "."
		}
		p.overTime(&s, x)
		p.Sections = append(p.Sections, s)
	}
	return comparisonHTML.Execute(w, p)
}

// section has the table and the distributions of results.
func (p *rowsPage) section(title string, results []replay.Result) rowsSection {
	s := rowsSection{Title: title, Jobs: units.Count(results[0].Jobs), GPUs: p.Cluster.TotalGPUs(), Seeds: p.Drawn}
	s.Rows = make([]rowsLine, len(results))
	for _, c := range []struct {
		name, help string
		of         func(*replay.Result) float64
	}{
		{"avg JCT", "average job completion time", func(r *replay.Result) float64 { return r.AvgJCT }},
		{"p50", "median JCT", func(r *replay.Result) float64 { return r.P50JCT }},
		{"p95", "95th percentile of JCT", func(r *replay.Result) float64 { return r.P95JCT }},
		{"p99", "99th percentile of JCT", func(r *replay.Result) float64 { return r.P99JCT }},
		{"avg queue", "average queueing delay", func(r *replay.Result) float64 { return r.AvgQueue }},
		{"p95 queue", "95th percentile of queueing delay", func(r *replay.Result) float64 { return r.P95Queue }},
	} {
		unit, cells := timeColumn(len(results), func(i int) float64 { return c.of(&results[i]) })
		s.Columns = append(s.Columns, column{c.name, unit, c.help})
		for i := range results {
			s.Rows[i].Cells = append(s.Rows[i].Cells, cells[i])
		}
	}
	percent := func(v float64) string { return fmt.Sprintf("%.1f", 100*v) }
	rows := make([]replay.JobRows, len(results))
	for i := range results {
		r, row := &results[i], &s.Rows[i]
		row.Swatch, row.Ratio, row.Class = p.Swatches[i], ratio(r.Ratio), "same"
		if r.High > 0 {
			row.Between = ratio(r.Low) + " to " + ratio(r.High)
			if r.Low > 1 {
				row.Class = "good"
			} else if r.High < 1 {
				row.Class = "bad"
			}
		}
		row.Faster, row.Slower, row.Spread = percent(r.Faster), percent(r.Slower), percent(r.Spread)
		if i == 0 {
			row.Faster, row.Slower = "–", "–"
		}
		row.Rest = []string{percent(r.Utilization), percent(r.FTFLe1), units.Count(int(math.Round(r.Preemptions)))}
		rows[i] = r.Rows
	}
	draw := func(of func(replay.JobRows) []float64, name string) template.HTML {
		return still("Share of jobs by "+name+", a curve for each row", 340, cdf(p.Swatches, sorted(rows, of), name))
	}
	s.JCT = draw(replay.JobRows.JCTs, "job completion time")
	s.Queue = draw(replay.JobRows.Waits, "queueing delay")
	return s
}

// overTime draws the GPUs in use and asked for in a window, all rows in one figure.
func (p *rowsPage) overTime(s *rowsSection, w *replay.ComparedWindow) {
	c := clock{lo: w.FromS, hi: w.FromS + 1, end: w.ToS}
	if from, err := time.Parse(time.RFC3339, w.From); err == nil {
		c.zero, c.aligned = from.UTC().Add(-time.Duration(w.FromS*1e9)), true
	}
	for i := range w.Results {
		if n := len(w.Results[i].Series); n > 0 {
			c.hi = max(c.hi, w.Results[i].Series[n-1].AtS)
		}
	}
	draw := func(name string, y chart.Axis, of func(replay.GPUs) float64) template.HTML {
		label := name + " over time, a curve for each row"
		return chart.Responsive(label, 300, chart.PageWidth, func(width float64) *chart.Chart {
			ticks := 14
			if width <= chart.PhoneWidth {
				ticks = 5
			}
			d := &chart.Chart{X: c.axis("time (UTC)", ticks), Y: y}
			c.window(d)
			for i := range w.Results {
				var curve []chart.Point
				for _, x := range w.Results[i].Series {
					curve = append(curve, chart.Point{X: x.AtS, Y: of(x)})
				}
				line := p.Swatches[i].curve(chart.Steps(curve, c.hi))
				line.Width = 1.5
				d.Layers = append(d.Layers, line)
			}
			return d
		})
	}
	s.HasTimes = true
	s.Used = draw("GPUs in use", chart.Axis{Name: "GPUs in use", Max: float64(max(1, s.GPUs))},
		func(x replay.GPUs) float64 { return x.Used })
	s.Asked = draw("GPUs that waiting jobs ask for", chart.Axis{Name: "GPUs asked for", Include: []float64{0, 1}},
		func(x replay.GPUs) float64 { return x.Queued })
}
