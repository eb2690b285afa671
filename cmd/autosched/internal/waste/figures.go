package waste

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
)

// page draws the GPU-hours that findings waste, by rule, and why jobs waited.
func (r *patternsScan) page(top int) (*chart.Page, error) {
	p, err := cli.NewPage("patterns: "+cmp.Or(r.Trace, "telemetry"), r.Synthetic, r.message(),
		func(w io.Writer) error { return r.print(w, top) })
	if err != nil {
		return nil, err
	}
	byRule := map[string]float64{}
	for _, f := range r.Findings {
		byRule[f.Rule] += f.WastedGPUHours
	}
	if len(byRule) > 0 {
		p.First = ranked("Wasted GPU-hours by rule", "GPU-hours", byRule)
	}
	if len(r.Waits) > 0 {
		p.Sections = []chart.Section{{Title: "Why jobs waited", Hint: "Inferred from the state of the cluster.",
			Rows: []chart.Row{{Height: chart.RowsHeight(len(r.Waits)),
				Charts: []*chart.Chart{ranked("", "hours of jobs that ended", r.Waits)}}}}}
	}
	return p, nil
}

// message is the scan's result in sentences.
func (r *patternsScan) message() string {
	if len(r.Findings) == 0 {
		return verdict(r.Examined, r.Rules, r.Lacking)
	}
	return fmt.Sprintf("%s, %s wasted; they may overlap.", units.Plural(len(r.Findings), "finding"),
		wasteText(r.Wasted, r.Cost))
}

// ranked draws values by their names, the largest first.
func ranked(title, axis string, values map[string]float64) *chart.Chart {
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
	})
	var rows []chart.Estimate
	for _, name := range names {
		text := strings.ReplaceAll(name, "_", " ")
		rows = append(rows, chart.Estimate{Name: text, Value: values[name], Color: chart.Blue,
			Tip: fmt.Sprintf("%s: %s %s", text, cli.ThreeDigits(values[name]), axis)})
	}
	c := chart.Estimates(axis, 95, 0, rows)
	c.Title = title
	return c
}

// page draws the simulated effects of advice, the waste, and the waits of groups that lose by other settings.
func (r *recommendations) page() (*chart.Page, error) {
	message := r.Trace + ": " + verdict(r.Examined, r.Rules, r.Lacking)
	if len(r.Advice) > 0 {
		message = r.Advice[0].Words
	}
	if r.Verdict != nil {
		message = r.Verdict.Text
	}
	p, err := cli.NewPage(fmt.Sprintf("recommendations: %s on %s", r.Scheduler, r.Trace), r.synthetic, message, r.print)
	if err != nil {
		return nil, err
	}
	var effects []chart.Estimate
	wasted := map[string]float64{}
	for i := range r.Advice {
		a := &r.Advice[i]
		if a.Monthly > 0 {
			wasted[a.Rule] = a.Monthly
		}
		if m := a.Effect; m != nil {
			g := m.GPUHours
			effects = append(effects, chart.Estimate{Name: strings.ReplaceAll(a.Rule, "_", " "), Value: g.Mean,
				Low: g.Low, High: g.High, Color: chart.Blue, Tip: fmt.Sprintf(
					"%s: frees %.1f GPU-hours a month (95 %% %.1f to %.1f)", a.Rule, g.Mean, g.Low, g.High)})
		}
	}
	var charts []*chart.Chart
	if r.Verdict != nil && len(r.Verdict.Candidates) > 0 {
		var rows []chart.Estimate
		for _, c := range r.Verdict.Candidates {
			rows = append(rows, chart.Estimate{Name: round.Source(c.Origin), Value: 100 * c.Gain,
				Color: chart.Blue, Tip: fmt.Sprintf("%s: %.1f %%, %s\n%s", round.Source(c.Origin), 100*c.Gain,
					c.Verdict, c.Configuration)})
		}
		c := chart.Estimates("% of the objective saved on the history", 95, 0, rows)
		c.Title = "Other settings"
		charts = append(charts, c)
	}
	if len(effects) > 0 {
		c := chart.Estimates("GPU-hours a month, simulated", 95, 0, effects)
		c.Title = "Advice: GPU-hours freed"
		charts = append(charts, c)
	}
	if len(wasted) > 0 {
		charts = append(charts, ranked("Waste by rule", "GPU-hours a month", wasted))
	}
	if len(charts) > 0 {
		p.First = charts[0]
	}
	if len(charts) > 1 {
		s := chart.Section{Title: "Advice", Hint: "Point at a value for its text."}
		for _, c := range charts[1:] {
			s.Rows = append(s.Rows, chart.Row{Height: chart.RowsHeight(len(c.Y.Ticks)), Charts: []*chart.Chart{c}})
		}
		p.Sections = []chart.Section{s}
	}
	if r.Verdict != nil && r.Verdict.Change {
		p.Class = "good"
	}
	return p, nil
}
