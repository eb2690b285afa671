package decide

import (
	"fmt"
	"io"
	"strings"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/replay/report"
)

func printRows(w io.Writer, r *replay.Comparison, out string) error {
	fmt.Fprintf(w, "%s%s on %s; every row is one configuration, held\n", r.Trace, cli.SyntheticLabel(r.Synthetic),
		r.Cluster)
	for i := range r.Windows {
		x := &r.Windows[i]
		fmt.Fprintf(w, "\nWindow %s, %s\n", x.Name, units.Plural(x.Results[0].Jobs, "job"))
		if err := printResults(w, x.Results, len(r.Seeds) > 1); err != nil {
			return err
		}
		if x.Fidelity != nil && (r.Verdict == nil || r.Verdict.Fidelity != x.Fidelity) { // else it is below the verdict
			table.Prose(w, "", x.Fidelity.String()+".")
		}
	}
	if len(r.All) > 0 {
		fmt.Fprintf(w, "\nAll %d windows, %s\n", len(r.Windows), units.Plural(r.All[0].Jobs, "job"))
		if err := printResults(w, r.All, len(r.Seeds) > 1); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nratio = average JCT of %s / this row's, with its 95 %% interval; above 1 is better.\n\n",
		r.Rows[0].Name)
	t := table.New(w, "row\tscheduler\t")
	t.Items([]string{"differs from the defaults in"})
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t\n", row.Name, row.Scheduler)
		t.Items(changesText(row.Configuration.Space().Default(), row.Configuration))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if r.Verdict != nil {
		if err := cli.PrintVerdict(w, r.Verdict); err != nil {
			return err
		}
	} else {
		title, text := report.BestRow(r)
		table.Strong(w, title+".")
		if text != "" {
			table.Prose(w, "", text)
		}
	}
	if text := report.Assumption(r); text != "" {
		table.Prose(w, "", text)
	}
	if out != "" {
		fmt.Fprintf(w, "The comparison is %s/compare.html.\n", strings.TrimRight(out, "/"))
	}
	return nil
}

func printResults(w io.Writer, results []replay.Result, drawn bool) error {
	spread := ""
	if drawn {
		spread = "spread\t"
	}
	t := table.Numbers(w, "row\tavg JCT s\tp50\tp95\tp99\tqueue s\tp95\tratio\tinterval\tfaster\tslower\t"+spread+
		"util\trho<=1\tpreempt\t")
	for i := range results {
		r := &results[i]
		between, faster, slower := "", "", ""
		if r.High > 0 {
			between = fmt.Sprintf("%.3f..%.3f", r.Low, r.High)
		}
		if i > 0 {
			faster, slower = units.Percent(r.Faster), units.Percent(r.Slower)
		}
		if drawn {
			spread = units.Percent(r.Spread) + "\t"
		}
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.3f\t%s\t%s\t%s\t%s%s\t%s\t%.0f\t\n", r.Row,
			r.AvgJCT, r.P50JCT, r.P95JCT, r.P99JCT, r.AvgQueue, r.P95Queue, r.Ratio, between, faster, slower, spread,
			units.Percent(r.Utilization), units.Percent(r.FTFLe1), r.Preemptions)
	}
	return t.Flush()
}
