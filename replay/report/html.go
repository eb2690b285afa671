package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/round"
)

//go:embed report.html.tmpl
var reportTemplate string

var reportHTML = template.Must(chart.Template().New("report").Parse(reportTemplate))

// page is the data of the template.
type page struct {
	document
	Frame     chart.Frame
	Answer    Answer
	Assumes   string // the baseline
	Tuner     string // the method in Versus
	Versus    []row
	Noise     string
	Swatches  []swatch
	Columns   []column
	Rows      []tableRow
	CDF       template.HTML
	Gains     template.HTML
	Loads     []load
	PeakGPUs  int
	Changes   template.HTML
	Decisions []decisionTable
	Defs      []definition
	Pays      []payRow
	Waits     []waitRow
	Hindsight string
	Stats     string // the objective
}

// swatch is a method's colour and dash.
type swatch struct {
	Of   int
	Name string
	Slot int
	Tag  string
}

// Dash is the dash pattern of the method's curves.
func (s swatch) Dash() string {
	var out []string
	for _, d := range chart.SeriesDash(s.Slot) {
		out = append(out, number(d))
	}
	return strings.Join(out, " ")
}

type column struct{ Name, Unit, Help string }

type tableRow struct {
	Swatch swatch
	Cells  []cell
	Ratio  string
	Class  string  // good, bad or same
	X, W   float64 // of the bar, in a box as wide as barBox
	One    float64 // where 1 is
	Rest   []string
}

// waitRow compares the waits of a group before a change with those after it.
type waitRow struct {
	round.Group
	Cells []string
	Class string
}

// payRow names the metrics that a method makes worse.
type payRow struct {
	Swatch            swatch
	Width, Short, P99 string // ratios
	Broken            string
}

type cell struct {
	Text string
	Best bool
}

type decisionTable struct {
	Swatch  swatch
	Method  *replay.Method
	Summary string
	Rows    []decisionRow
	Left    int // rows not shown
}

type decisionRow struct {
	replay.Decision
	Ratio    string
	Settings []setting
}

type setting struct {
	Text    string
	Changed bool
}

type definition struct {
	Swatch            swatch
	Description, Sees string
}

// Color is the name of the colour of the method's curves.
func (s swatch) Color() string { return chart.Series(s.Slot).Name() }

// slots fix a colour and dash for each known method, in every report; others follow.
var slots = map[string]int{"default": 0, "preset": 1, "random-preset": 2, "fixed-history": 3, "fixed-oracle": 4,
	"selftune": 5, "selftune+": 6, "autosched": 7, "current": 8, "oracle": 9, "paper": 10}

var tags = map[role]string{roleHindsight: "hindsight", roleControl: "control", roleOracle: "sees the future"}

// sees describes the information that a method uses.
var sees = map[string]string{
	"current":       "Nothing of the workload.",
	"default":       "Nothing of the workload.",
	"preset":        "Nothing of the workload: the scheduler's authors recommend it.",
	"random-preset": "Nothing: it draws at random. Its gain is that of changing at all.",
	"fixed-history": "Jobs submitted in the week before the window, once.",
	"fixed-oracle": "The whole window beforehand, durations included. It cannot be run online; it estimates the " +
		"gain of the best fixed configuration.",
	"selftune":  "Job events so far: the jobs submitted in the last hour, with durations as far as they are known.",
	"selftune+": "The same as selftune, with AutoSched's search and presets.",
	"autosched": "Job events so far, replayed from the last 20 days, and forecasts of the next hours.",
	"paper":     "Job events so far, from which it forecasts the next hours by the paper's method.",
	"oracle": "The true arrivals and durations of the next hours. It cannot be run online. It is greedy by the " +
		"round, and not the best possible.",
}

const (
	maxDecisionRows = 1500
	barBox          = 56
)

func (r *document) writeHTML(w io.Writer) error {
	p := page{document: *r, Answer: r.answer(), Versus: r.versus(), Noise: Noise(), Assumes: BaselineText(r.Report),
		Stats: r.objective(), Hindsight: InHindsight(r.Report)}
	if m := r.tuner(); m != nil {
		p.Tuner = m.Method
	}
	other := 0
	for i := range r.Methods {
		m := &r.Methods[i]
		s := swatch{Of: i, Name: m.Method, Tag: tags[roleOf(m)]}
		if known, ok := slots[m.Method]; ok {
			s.Slot = known
		} else {
			s.Slot = len(slots) + other
			other++
		}
		p.Swatches = append(p.Swatches, s)
		if g := m.Guards; g != nil {
			row := payRow{s, ratio(g.WidthRatio), ratio(g.ShortRatio), ratio(g.P99Ratio), PriceText(g)}
			if g.Width != "" {
				row.Width += " (" + g.Width + ")"
			}
			p.Pays = append(p.Pays, row)
		}
		p.Defs = append(p.Defs, definition{s, m.Description, sees[m.Method]})
		if len(m.Decisions) > 0 {
			p.Decisions = append(p.Decisions, decisionsOf(m, s))
		}
	}
	for _, g := range p.Answer.Waits {
		if g.By == round.ByUser && !g.Loses() {
			continue
		}
		row := waitRow{Group: g, Cells: []string{units.Count(g.Jobs), units.Duration(g.Before.Mean),
			units.Duration(g.After.Mean), units.Duration(g.Before.P95), units.Duration(g.After.P95),
			units.Count(g.Slower), units.Duration(g.Worst)}}
		if g.Loses() {
			row.Class = "bad-t"
		}
		p.Waits = append(p.Waits, row)
	}
	p.table()
	p.draw()
	return reportHTML.Execute(w, &p)
}

func (p *page) draw() {
	front := p.front()
	front.Facts = p.facts()
	p.Frame, p.PeakGPUs = front.Frame(toggles(p.Swatches)), p.Cluster.TotalGPUs()
	jcts := sorted(p.rows(), replay.JobRows.JCTs)
	p.CDF = still("Share of jobs by job completion time, one curve for each method", 380,
		cdf(p.Swatches, jcts, "job completion time"))
	p.Gains = still("Ratio of the baseline's to each method's job completion time at every percentile", 310,
		p.gains(jcts))
	p.Loads, p.Changes = p.loads(), p.changes()
}

// toggles hide the curves of a swatch whose box is not checked.
func toggles(swatches []swatch) template.CSS {
	var out strings.Builder
	for i := range swatches {
		fmt.Fprintf(&out, "body:has(#show-%[1]d:not(:checked)) :is(.curves, .loads) .m%[1]d { display: none }\n",
			swatches[i].Of)
	}
	return template.CSS(out.String())
}

func (r *document) facts() []chart.Fact {
	seeds := strconv.FormatUint(r.Seed, 10)
	if n := len(r.Seeds); n > 1 {
		seeds = fmt.Sprintf("%d, from %d", n, r.Seed)
	}
	return []chart.Fact{
		{Name: "Trace", Value: r.Trace},
		{Name: "Window", Value: minute(r.From) + " to " + minute(r.To) + " UTC"},
		{Name: "Jobs", Value: fmt.Sprintf("%s counted, %s in the history before", units.Count(r.Jobs),
			units.Count(r.HistoryJobs))},
		{Name: "Cluster", Value: fmt.Sprintf("%s (%s GPUs)", r.Cluster, units.Count(r.Cluster.TotalGPUs()))},
		{Name: "Load", Value: fmt.Sprintf("%.2f of capacity", r.Load)},
		{Name: "Scheduler", Value: r.Scheduler},
		{Name: "Tuned for", Value: strings.Join(append([]string{r.objective()}, r.SubjectTo...), ", ")},
		{Name: "Rounds", Value: "every " + units.Duration(r.IntervalS)},
		{Name: "Futures", Value: fmt.Sprintf("%d of %s each to search on", r.Futures, units.Duration(r.HorizonS))},
		{Name: "Budget", Value: fmt.Sprintf("%d evaluations a round", r.Budget)},
		{Name: "Adoption", Value: r.adoption()},
		{Name: "Seeds of methods that draw", Value: seeds},
		{Name: "Simulator version", Value: r.Simulator},
		{Name: "Trace digest", Value: r.Digest, Mono: true},
	}
}

// adoption has the conditions of a change of configuration, the parts that are off left out.
func (r *document) adoption() string {
	text := "by the daily rule"
	for _, x := range [...]struct {
		on   bool
		text string
	}{
		{r.Guard > 0, fmt.Sprintf("guarded times at most %.3g %% worse", 100*r.Guard)},
		{r.MaxChanges > 0, fmt.Sprintf("at most %d changes in 24 h", r.MaxChanges)},
		{r.FlapWindowS > 0, "one return to earlier values in " + units.Duration(r.FlapWindowS)},
		{len(r.QuietHours) > 0, "none from " + strings.Join(r.QuietHours, " and ")},
	} {
		if x.on {
			text += ", " + x.text
		}
	}
	return text
}

// round1 is a coordinate in tenths.
func round1(v float64) float64 {
	if v = math.Round(v*10) / 10; v != v || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// minute is an instant to the minute, as it is if it cannot be read.
func minute(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return s
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// timeColumn formats a column of times in seconds in the unit that fits the longest, and
// marks the lowest.
func timeColumn(rows int, seconds func(row int) float64) (unit string, cells []cell) {
	top := 0.
	for i := range rows {
		top = max(top, seconds(i))
	}
	unit, size, digits := unitOf(top)
	return unit, cellsOf(rows, seconds, size, digits)
}

// cellsOf formats a column of numbers in a unit, and marks the lowest.
func cellsOf(rows int, value func(row int) float64, unit float64, digits int) (cells []cell) {
	best := math.Inf(1)
	for i := range rows {
		best = min(best, value(i))
	}
	for i := range rows {
		v := value(i)
		cells = append(cells, cell{strconv.FormatFloat(v/unit, 'f', digits, 64), v == best && rows > 1})
	}
	return cells
}

// table of methods.
func (p *page) table() {
	r := p.document
	columns := []struct {
		name, help string
		of         func(*replay.Method) float64
	}{
		{"avg JCT", "average job completion time", func(m *replay.Method) float64 { return m.AvgJCT }},
		{"p50", "median JCT", func(m *replay.Method) float64 { return m.P50JCT }},
		{"p95", "95th percentile of JCT", func(m *replay.Method) float64 { return m.P95JCT }},
		{"p99", "99th percentile of JCT", func(m *replay.Method) float64 { return m.P99JCT }},
		{"avg queue", "average queueing delay", func(m *replay.Method) float64 { return m.AvgQueue }},
	}
	p.Rows = make([]tableRow, len(r.Methods))
	for _, c := range columns {
		unit, cells := timeColumn(len(r.Methods), func(i int) float64 { return c.of(&r.Methods[i]) })
		p.Columns = append(p.Columns, column{c.name, unit, c.help})
		for i := range r.Methods {
			p.Rows[i].Cells = append(p.Rows[i].Cells, cells[i])
		}
	}
	if len(r.Methods) > 0 && r.Methods[0].Energy > 0 {
		p.drawn()
	}
	lo, hi := 1., 1.05
	for i := range r.Methods {
		lo, hi = min(lo, r.Methods[i].Ratio), max(hi, r.Methods[i].Ratio)
	}
	at := func(v float64) float64 { return round1(1 + (barBox-2)*(v-lo)/(hi-lo)) }
	for i := range r.Methods {
		m, row := &r.Methods[i], &p.Rows[i]
		row.Swatch, row.Ratio = p.Swatches[i], ratio(m.Ratio)
		row.Class = class(m.Ratio)
		row.X, row.One = at(min(1, m.Ratio)), at(1)
		row.W = round1(at(max(1, m.Ratio)) - row.X)
		spread := "–"
		if len(m.Seeds) > 0 {
			spread = fmt.Sprintf("%.1f", 100*m.Spread)
		}
		row.Rest = []string{spread, fmt.Sprintf("%.1f", 100*m.Utilization), fmt.Sprintf("%.1f", 100*m.FTFLe1),
			units.Count(m.Preemptions), units.Count(m.Rounds), units.Count(m.Changes),
			units.Count(m.Evaluations)}
	}
}

// drawn adds the energy of jobs to the table of methods.
func (p *page) drawn() {
	for _, c := range []struct {
		name, unit string
		of         func(*replay.Method) float64
	}{
		{"energy", "kWh", func(m *replay.Method) float64 { return m.Energy }},
		{"cost", "$", func(m *replay.Method) float64 { return m.Cost }},
		{"CO2", "kg", func(m *replay.Method) float64 { return m.CO2 }},
	} {
		p.Columns = append(p.Columns, column{c.name, c.unit, "of what the configuration decides"})
		for i, x := range cellsOf(len(p.Rows), func(i int) float64 { return c.of(&p.document.Methods[i]) }, 1, 1) {
			p.Rows[i].Cells = append(p.Rows[i].Cells, x)
		}
	}
}

// class of a ratio, for its colour.
func class(ratio float64) string {
	switch {
	case ratio >= noise:
		return "good"
	case ratio <= 1/noise:
		return "bad"
	}
	return "same"
}

func decisionsOf(m *replay.Method, s swatch) decisionTable {
	summary := fmt.Sprintf("%s rounds, %s changes", units.Count(m.Rounds), units.Count(m.Changes))
	t := decisionTable{Swatch: s, Method: m, Summary: summary}
	before := ""
	for _, d := range m.Decisions {
		if len(t.Rows) == maxDecisionRows {
			t.Left++
			continue
		}
		row := decisionRow{Decision: d, Ratio: ratio(d.Ratio)}
		if d.Adopted || before == "" {
			row.Settings = settings(before, d.Configuration)
		}
		before = d.Configuration
		t.Rows = append(t.Rows, row)
	}
	return t
}

// settings of a configuration, the changed ones marked. Without a
// before, none is.
func settings(before, now string) []setting {
	had := strings.Fields(before)
	var out []setting
	for _, s := range strings.Fields(now) {
		out = append(out, setting{s, before != "" && !slices.Contains(had, s)})
	}
	return out
}

// unitOf is the unit for a column whose longest time is top seconds, with the
// digits that show a difference of 1 %.
func unitOf(top float64) (name string, size float64, digits int) {
	switch {
	case top < 120:
		name, size = "s", 1
	case top < 7200:
		name, size = "min", 60
	case top < 4*86400:
		name, size = "h", 3600
	default:
		name, size = "d", 86400
	}
	switch v := top / size; {
	case v >= 100:
		return name, size, 1
	case v >= 10:
		return name, size, 2
	}
	return name, size, 3
}
