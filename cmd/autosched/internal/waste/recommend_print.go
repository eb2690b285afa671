package waste

import (
	"fmt"
	"io"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/recommend"
)

func (r *recommendations) print(w io.Writer) error {
	if len(r.Advice) == 0 {
		fmt.Fprintf(w, "%s: %s\n", r.Trace, verdict(r.Examined, r.Rules, r.Lacking))
	}
	for i := range r.Advice {
		a := &r.Advice[i]
		fmt.Fprintf(w, "%d. %s: %s, confidence %.2f", i+1, a.Rule, units.Plural(a.Findings, "finding"), a.Confidence)
		if a.Monthly > 0 {
			fmt.Fprintf(w, ", %.1f GPU-hours a month wasted", a.Monthly)
		}
		if a.Cost > 0 {
			fmt.Fprintf(w, " (%.2f)", a.Cost)
		}
		fmt.Fprintf(w, "\n   %s\n", a.Words)
		switch {
		case a.Reconfigures && r.Verdict != nil:
			fmt.Fprintln(w, "   Whether other settings are better is said below.")
		case a.Simulated == nil:
			fmt.Fprintln(w, "   Not simulated.")
		default:
			r.printEffect(w, a)
		}
		if a.Command != nil {
			fmt.Fprintf(w, "   Command, which is not run: %s\n", units.Command(a.Command))
		} else if a.NoCommand != "" {
			fmt.Fprintf(w, "   No command: %s\n", a.NoCommand)
		}
	}
	if r.Verdict != nil {
		if err := r.printVerdict(w); err != nil {
			return err
		}
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	return nil
}

// printVerdict prints whether other settings are better, and how to apply them.
func (r *recommendations) printVerdict(w io.Writer) error {
	fmt.Fprintln(w, "\nThe settings:")
	if err := cli.PrintVerdict(w, r.Verdict); err != nil {
		return err
	}
	if r.Settings != nil || len(r.Apply) == 0 {
		return r.site.PrintChange(w, r.Settings)
	}
	for k, line := range r.Apply {
		fmt.Fprintf(w, "   %s %s\n", []string{"Check:    ", "Apply:    ", "Take back:"}[k], line)
	}
	return nil
}

// printEffect prints the simulated effect of advice.
func (r *recommendations) printEffect(w io.Writer, a *recommend.Advice) {
	e, m := a.Simulated, a.Effect
	fmt.Fprintf(w, "   Simulated, it frees %.1f GPU-hours a month more (95 %% %.1f to %.1f)", m.GPUHours.Mean,
		m.GPUHours.Low, m.GPUHours.High)
	if m.Cost != nil {
		fmt.Fprintf(w, ", worth %.2f (%.2f to %.2f)", m.Cost.Mean, m.Cost.Low, m.Cost.High)
	}
	fmt.Fprintln(w, ".")
	if m.Energy != nil {
		fmt.Fprintf(w, "   Energy of jobs %+.1f kWh a month (95 %% %+.1f to %+.1f), its cost %+.2f $, CO2 %+.1f kg.\n",
			m.Energy.Mean, m.Energy.Low, m.Energy.High, m.EnergyCost, m.CO2)
	}
	fmt.Fprintf(w, "   Under %s over %s: utilisation %.3f to %.3f (%+.1f %%, 95 %% %+.1f to %+.1f), "+
		"mean wait %.0f s to %.0f s;\n   jobs wait longer in %s.\n", r.Scheduler, units.Plural(e.Windows, "window"),
		e.Before.Utilization, e.After.Utilization, 100*e.Gain, 100*e.Low, 100*e.High, e.Before.WaitS, e.After.WaitS,
		units.Plural(e.Longer, "window"))
	for _, g := range []struct {
		name    string
		was, is float64
		of      recommend.Tenants
	}{{"Small", e.Before.SmallWaitS, e.After.SmallWaitS, e.Small},
		{"Large", e.Before.LargeWaitS, e.After.LargeWaitS, e.Large}} {
		if n := g.of.Shorter + g.of.Longer + g.of.Equal; n > 0 {
			fmt.Fprintf(w, "   %s tenants: mean wait %.0f s to %.0f s; of %d, %d wait shorter and %d longer.\n", g.name,
				g.was, g.is, n, g.of.Shorter, g.of.Longer)
		}
	}
	fmt.Fprintf(w, "   Jain's index of the tenants' stretch %.3f to %.3f, of their shares %.3f to %.3f.\n",
		e.Before.Jain, e.After.Jain, e.Before.JainShares, e.After.JainShares)
}
