package explain

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/autosched/autosched/internal/chart"
	"github.com/autosched/autosched/internal/cli"
)

// page puts charts with a row for each value below a message.
func page(name, message, section string, charts []*chart.Chart, print func(io.Writer) error) (*chart.Page, error) {
	if len(charts) == 0 {
		return nil, errors.New("--plot: the data have no objective to draw")
	}
	p, err := cli.NewPage(name, false, message, print)
	if err != nil {
		return nil, err
	}
	p.First = charts[0]
	s := chart.Section{Title: section, Hint: effectNumbers}
	for _, c := range charts[1:] {
		s.Rows = append(s.Rows, chart.Row{Height: chart.RowsHeight(len(c.Y.Ticks)), Charts: []*chart.Chart{c}})
	}
	if s.Rows != nil {
		p.Sections = append(p.Sections, s)
	}
	return p, nil
}

// effectsPage draws the effect of each parameter on each objective.
func (l *learnt) effectsPage(x *effects) (*chart.Page, error) {
	var charts []*chart.Chart
	message := ""
	for _, o := range x.Objectives {
		var rows []chart.Estimate
		for _, e := range o.Effects {
			row := chart.Estimate{Name: e.Parameter, Value: e.ACE, Low: e.Low, High: e.High, Color: chart.Blue,
				Tip: fmt.Sprintf("%s: %s (90 %% %s to %s), %.1f %% of the mean", e.Parameter, short(e.ACE),
					short(e.Low), short(e.High), e.Percent)}
			if e.Inert {
				row.Color = chart.Gray
			}
			rows = append(rows, row)
		}
		if message == "" && len(o.Effects) > 0 {
			message = fmt.Sprintf("%s Predicted from %d rows.", surest(&o), l.table.Rows())
		}
		c := chart.Estimates("lowest to highest mean", 90, 0, rows)
		c.Title = "Effect on " + o.Objective
		charts = append(charts, c)
	}
	return page("causal effects: "+l.data, message, "Other objectives", charts, func(w io.Writer) error {
		return l.printEffects(w, x.Objectives)
	})
}

// surest names the parameter whose effect has the highest lower bound, if that is above 0.
func surest(o *objectiveEffects) string {
	e := o.Effects[0]
	if e.Low <= 0 {
		return fmt.Sprintf("No parameter is sure to move %s: the interval of each effect includes 0.", o.Objective)
	}
	return fmt.Sprintf("%s is the surest to move %s, by %.1f %% of its mean.", e.Parameter, o.Objective, e.Percent)
}

// whatIfPage draws each objective before and after.
func (l *learnt) whatIfPage(x *whatIf) (*chart.Page, error) {
	var charts []*chart.Chart
	message := ""
	for _, a := range x.Answers {
		if message == "" {
			message = fmt.Sprintf("%s is predicted to change by %s. From %s to %s, 90 %% interval %s to %s.",
				a.Objective, cmp.Or(relative(&a), signed(a.After-a.Before)), short(a.Before), short(a.After),
				short(a.Low), short(a.High))
		}
		c := chart.Estimates(a.Objective, 90, a.Before, []chart.Estimate{
			{Name: "before", Value: a.Before, Color: chart.Gray, Tip: "before: " + short(a.Before)},
			{Name: "after", Value: a.After, Low: a.Low, High: a.High, Color: chart.Blue,
				Tip: fmt.Sprintf("after: %s, 90 %% %s to %s", short(a.After), short(a.Low), short(a.High))}})
		c.Title = a.Objective + ", predicted"
		charts = append(charts, c)
	}
	return page("what if: "+l.data, message, "Other objectives", charts, func(w io.Writer) error {
		return l.printWhatIf(w, x)
	})
}
