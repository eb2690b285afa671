package decide

import (
	"fmt"
	"io"
	"math"

	"github.com/autosched/autosched/fidelity"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
)

func (r *fidelityReport) print(w io.Writer) error {
	t := table.New(w, "")
	row := func(name, format string, v ...any) { fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, v...)...) }
	row("trace", "%s%s", r.Trace, cli.SyntheticLabel(r.Synthetic))
	row("cluster", "%s", r.Cluster)
	row("scheduler", "%s (recorded: %s)", r.Scheduler, r.Recorded)
	row("configuration", "%s", r.Configuration)
	jobs := fmt.Sprintf("%d simulated, %d compared; not compared: %d without a recorded delay, %d while the cluster fills",
		r.Jobs, r.Compared, r.Unrecorded, r.WarmUp)
	if r.Unended > 0 {
		jobs += fmt.Sprintf(", %d not ended", r.Unended)
	}
	row("jobs", "%s", jobs)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	table.Strong(w, r.Graded.String()+".")
	if r.Delay.Jobs == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t = table.Numbers(w, "\tjobs\trecorded s\tsimulated s\terror p5\tp25\tp50\tp75\tp95\tfactor\tKS\trank\t")
	line := func(name string, a *fidelity.Agreement) {
		fmt.Fprintf(t, "%s\t%d", name, a.Jobs)
		for _, seconds := range []float64{a.Recorded, a.Simulated, a.P5, a.P25, a.Median, a.P75, a.P95} {
			fmt.Fprintf(t, "\t%.0f", math.RoundToEven(seconds)+0) // 0 without a sign
		}
		fmt.Fprintf(t, "\t%.2f\t%.2f\t%.2f\t\n", a.Factor, a.KS, a.Rank)
	}
	line("JCT", &r.JCT)
	line("queueing delay", &r.Delay)
	for i := range r.Groups {
		line(r.Groups[i].By+" "+r.Groups[i].Name, &r.Groups[i].Agreement)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if e := r.Ensemble; e != nil {
		fmt.Fprintf(w, "\nWhen the scheduler's cycles came is not recorded. Of %d simulations that differ in it, jobs wait %s to %s on\n"+
			"average; the closest one is compared.\n", e.Members, units.Duration(e.Least), units.Duration(e.Greatest))
	}
	if len(r.Causes) > 0 {
		fmt.Fprintln(w, "\nWhat explains the difference:")
		for _, c := range r.Causes {
			fmt.Fprintf(w, "  %s: %s.\n    To do: %s.\n", c.Name, c.Evidence, c.Do)
		}
	}
	fmt.Fprintln(w, "\nSchedulers by how far a job's delay is off typically, the closest first:")
	for i := range r.Orders {
		x, mark := &r.Orders[i], ""
		if x.Simulated {
			mark = " (simulated)"
		}
		fmt.Fprintf(w, "  %.2f  %s%s, rank correlation %.2f\n", x.Delay.Factor, x.Name(), mark, x.Delay.Rank)
	}
	if x := r.Outages; x != nil {
		fmt.Fprintf(w, "\nCapacity over time: nodes were out in %d hours, with %d left at least. Without them a job's delay is off "+
			"by a factor\nof %.2f, %.2f with all nodes; this describes the past (--node-events-out).\n",
			x.Hours, x.Least, x.Delay.Factor, r.Delay.Factor)
	}
	if c := r.Calibration; c != nil && !c.Changed {
		fmt.Fprintln(w, "\nCalibration: no other number of nodes is closer on the first half.")
	} else if c != nil {
		fmt.Fprintf(w, "\nCalibrated on the first half: %d nodes. On the second half a job's delay is off by a factor of %.2f,\n"+
			"%.2f before. %s.\n", c.Nodes, c.After.Factor, c.Before.Factor, &c.Graded)
	}
	if m := r.Models; m != nil {
		fmt.Fprintln(w, "\nPerformance models learnt from the runs that ended first:")
		for _, l := range m.Learned {
			fmt.Fprintf(w, "  %s: %.3g, from %d runs\n", l.What, l.Value, l.Runs)
		}
		fmt.Fprintf(w, "The time on GPUs of %d later runs that were preempted or spread is off by %.1f %% (median), %.1f %% with the\n"+
			"models given.\n", m.Runs, 100*m.After, 100*m.Given)
	}
	return nil
}
