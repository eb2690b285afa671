package operate

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
)

func newSchedulerEffectsCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "effects NAME",
		Short: "Show which parameters change the objective, through which metrics, and how far that is known",
		Long: `Shows the causal model that the service learns of a scheduler, once a day of event time,
from the configurations that its rounds measured; of a scheduler of type external, from
its studies. The effect of a parameter is the difference of the objective between its
worst and its best value, all else as measured. A model that does not rank well what it
was not learnt from says so, and nothing else.`,
		Example: `  autosched scheduler effects tiresias
  autosched scheduler effects tiresias --json | jq '.edges[] | select(.reliability > 0.8)'`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: cli.Asks(f, cli.SchedulerArg,
			func(ctx context.Context, c *cli.Client, name string) (*pb.CausalModel, error) {
				return c.Explanations.GetCausalModel(ctx, &pb.GetCausalModelRequest{Name: name})
			}, printEffects),
	}
}

// trust is how far a causal model can be trusted, in words.
func trust(r *pb.CausalReliability) string {
	of := "studies"
	if r.GetSchedulerTime() != nil {
		of = "rounds until " + cli.Instant(r.GetSchedulerTime())
	}
	text := fmt.Sprintf("%s of %d %s", cli.Plural(int(r.GetTrialCount()), "trial"), r.GetGroupCount(), of)
	if r.GetRankedGroupCount() > 0 {
		text += fmt.Sprintf(", rank correlation of what was left out %.2f, error %.1f %%, of the mean %.1f %%",
			r.GetRankCorrelation(), 100*r.GetMeanError(), 100*r.GetBaselineError())
	}
	if !r.GetReliable() {
		return "not reliable: " + r.GetReason() + " (" + text + ")"
	}
	return text
}

// wayText is a path between its ends.
func wayText(p *pb.CausalPath) string {
	if len(p.GetMetricIds()) == 0 {
		return "directly"
	}
	return "by " + strings.Join(p.GetMetricIds(), ", ")
}

func ways(paths []*pb.CausalPath) string {
	var out []string
	for _, p := range paths {
		out = append(out, wayText(p))
	}
	return strings.Join(out, "; ")
}

func printEffects(out io.Writer, m *pb.CausalModel) error {
	fmt.Fprintf(out, "causal model: %s\n", trust(m.GetReliability()))
	if !m.GetReliability().GetReliable() {
		return nil
	}
	w := cli.NewTable(out, "\nPARAMETER\tEFFECT\t90 % INTERVAL\tBEST\tWAY")
	for _, e := range m.GetParameterEffects() {
		switch {
		case e.GetConstant():
			fmt.Fprintf(w, "%s\t\t\t\tnever changed\n", e.GetParameterId())
			continue
		case e.GetInert():
			fmt.Fprintf(w, "%s\tnone that is certain\t\t\t\n", e.GetParameterId())
			continue
		}
		way := ways(e.GetPaths())
		if way == "" {
			way = "none in the graph"
		}
		fmt.Fprintf(w, "%s\t%.1f %%\t%.1f to %.1f %%\t%s\t%s\n", e.GetParameterId(), units.Tenth(100*e.GetEffect()),
			units.Tenth(100*e.GetEffectLow()), units.Tenth(100*e.GetEffectHigh()), e.GetBestLevel(), way)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	w = cli.NewTable(out, "")
	fmt.Fprintln(w, "\nCAUSE\tTARGET\tEFFECT\tSIGN\tRELIABILITY\t")
	for _, e := range m.GetEdges() {
		sign := map[int32]string{1: "+", -1: "-"}[e.GetSign()]
		note := ""
		if e.GetPossiblyConfounded() {
			note = "a hidden cause may account for it"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f %%\t%s\n", e.GetFrom(), e.GetTo(), shortNumber(e.GetEffect()), sign,
			100*e.GetReliability(), note)
	}
	return w.Flush()
}
