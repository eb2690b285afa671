package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/space"
)

// addSets is the flag of values that a command is about.
func addSets(cmd *cobra.Command, sets *[]string) {
	cmd.Flags().StringArrayVar(sets, "set", nil, "")
}

// parseSets reads assignments for a scheduler's space.
func parseSets(ctx context.Context, c *cli.Client, scheduler string, sets []string) (map[string]*structpb.Value,
	error) {
	if len(sets) == 0 {
		return nil, cli.Usage(errors.New("--set is missing: name values, such as --set queues=4"))
	}
	s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: scheduler})
	if err != nil {
		return nil, err
	}
	sp, err := convert.SpaceOf(s.GetSpec())
	if err != nil {
		return nil, err
	}
	values, err := sp.ReadValues(sets)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--set: %w", err))
	}
	return convert.ValuesToProto(sp, values), nil
}

func newWhatIfCmd() *cobra.Command {
	var f cli.ClientFlags
	var sets, workloads []string
	cmd := &cobra.Command{
		Use:   "what-if SCHEDULER --set NAME=VALUE",
		Short: "Simulate other values of a scheduler's parameters on its present futures",
		Long: `Simulates values instead of those that run, from the state that the scheduler's events
describe on, and compares the objective: over 1 is better. What keeps the values
from being adopted by a round (constraints of the objective, guards) is named.
Values that are not named are as in what runs. Nothing changes. With --workload it simulates
workloads of the scheduler ('autosched scheduler workload') instead, each from an empty cluster on.

Beside it stands what the causal model of 'autosched scheduler effects' predicts, if it is
reliable: the ratio of the whole objective, and whether the values lie beyond what was
measured. About a scheduler of type external, which is not simulated, it answers alone.`,
		Example: `  autosched scheduler what-if tiresias --set queues=4
  autosched scheduler what-if tiresias --set starve_limit=8h --set lease=10m --json
  autosched scheduler what-if tiresias --set queues=4 --workload july`,
		ValidArgsFunction: cli.CompleteSchedulers(&f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				values, err := parseSets(ctx, c, name, sets)
				if err != nil {
					return err
				}
				req := &pb.WhatIfRequest{Name: name, Parameters: values}
				for _, w := range workloads {
					if !strings.Contains(w, "/") {
						w = name + "/" + w
					}
					full, err := cli.WorkloadArg(w)
					if err != nil {
						return err
					}
					req.Workloads = append(req.Workloads, full)
				}
				got, err := c.Explanations.WhatIf(ctx, req)
				if err != nil {
					return err
				}
				words, err := getAmounts(ctx, c, name)
				if err != nil {
					return err
				}
				return f.Show(cmd, got, func(w io.Writer) error { return printWhatIf(w, got, words) })
			})
		},
	}
	f.Add(cmd)
	addSets(cmd, &sets)
	cmd.Flags().StringSliceVar(&workloads, "workload", nil, "")
	return cmd
}

func printWhatIf(out io.Writer, r *pb.WhatIfResponse, words *amounts) error {
	w := table.New(out, "")
	running := "the defaults"
	if n := r.GetIncumbentRevision(); n > 0 {
		running = fmt.Sprintf("revision %d", n)
	}
	if r.GetSchedulerTime() != nil || len(r.GetWorkloads()) > 0 {
		printSimulated(w, r, words, running)
	}
	printPredicted(w, r.GetCausalPrediction())
	for _, id := range slices.Sorted(maps.Keys(r.GetCandidate().GetParameters())) {
		before, after := r.GetIncumbent().GetParameters()[id], r.GetCandidate().GetParameters()[id]
		if a, b := words.value(id, before), words.value(id, after); a != b {
			fmt.Fprintf(w, "%s\t%s, %s with %s\n", id, b, a, running)
		}
	}
	return w.Flush()
}

// printPredicted prints the predictions of the causal model.
func printPredicted(w io.Writer, p *pb.CausalPrediction) {
	if r := p.GetReliability(); r.GetReliable() {
		fmt.Fprintf(w, "predicted\tratio %s (90 %%: %s to %s) of the whole objective, by the causal model\n",
			shortNumber(p.GetRatio()), shortNumber(p.GetRatioLow()), shortNumber(p.GetRatioHigh()))
	}
	if p.GetExtrapolation() {
		fmt.Fprintf(w, "extrapolation\t%s: take the prediction for a hint\n", p.GetExtrapolationReason())
	}
	fmt.Fprintf(w, "causal model\t%s\n", trust(p.GetReliability()))
}

// printSimulated prints the results of the simulation.
func printSimulated(w io.Writer, r *pb.WhatIfResponse, words *amounts, running string) {
	if all := r.GetWorkloads(); len(all) > 0 {
		var names []string
		for _, name := range all {
			names = append(names, cli.ShortWorkload(name))
		}
		fmt.Fprintf(w, "simulated\ton %s\n", strings.Join(names, ", "))
	} else {
		fmt.Fprintf(w, "simulated\tfrom %s, %s\n", cli.Instant(r.GetSchedulerTime()),
			units.Plural(int(r.GetFutures()), "future"))
	}
	printRatio(w, r)
	for _, l := range r.GetLimits() {
		fmt.Fprintf(w, "limit\tit %s\n", l)
	}
	fmt.Fprintf(w, "objective\t%s, %s with %s\n", words.outlook(r.GetCandidate()), words.outlook(r.GetIncumbent()),
		running)
	before, after := r.GetIncumbent(), r.GetCandidate()
	for _, key := range slices.Sorted(maps.Keys(after.GetMetrics())) {
		fmt.Fprintf(w, "%s\t%s, %s with %s\n", key, words.metric(key, after.GetMetrics()[key]),
			words.metric(key, before.GetMetrics()[key]), running)
	}
	if after.GetEnergy() != nil {
		fmt.Fprintf(w, "energy\t%s\n\t%s with %s\n", energyText(after.GetEnergy()),
			energyText(before.GetEnergy()), running)
	}
}

// printRatio prints a ratio with its interval.
func printRatio(w io.Writer, r interface {
	GetControllableRatio() float64
	GetRatioLow() float64
	GetRatioHigh() float64
}) {
	fmt.Fprintf(w, "ratio\t%s", shortNumber(r.GetControllableRatio()))
	if r.GetRatioHigh() > 0 {
		fmt.Fprintf(w, " (95 %%: %s to %s)", shortNumber(r.GetRatioLow()), shortNumber(r.GetRatioHigh()))
	}
	fmt.Fprintln(w, ", above 1 is better")
}

// amounts says how numbers of a scheduler print: times as such.
type amounts struct {
	goal  round.Goal // the zero Goal of an external scheduler
	space *space.Space
}

func getAmounts(ctx context.Context, c *cli.Client, scheduler string) (*amounts, error) {
	s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: scheduler})
	if err != nil {
		return nil, err
	}
	a := &amounts{}
	objective := s.GetSpec().GetObjective()
	if goal, err := round.ParseGoal(objective.GetMetricId() + objective.GetGoal()); err == nil {
		a.goal = goal
	}
	a.space, err = convert.SpaceOf(s.GetSpec())
	return a, err
}

// outlook is a mean objective, or that there is none.
func (a *amounts) outlook(o *pb.Outlook) string {
	if len(o.GetObjectives()) == 0 {
		return "does not end"
	}
	return a.objective(o.GetObjective())
}

// objective is a value of the objective with its unit.
func (a *amounts) objective(x float64) string {
	text := a.number(a.goal.Seconds(), x)
	if round.Metered(a.goal.Metric()) {
		text += " " + a.goal.Unit()
	}
	return text
}

func (a *amounts) number(seconds bool, x float64) string {
	if seconds {
		return units.Duration(x)
	}
	return shortNumber(x)
}

// metric formats a metric of an outlook; the names of times end in _s.
func (a *amounts) metric(key string, x float64) string {
	return a.number(strings.HasSuffix(key, "_s"), x)
}

// energyText is the energy use of a configuration, with the band of the power model.
func energyText(u *pb.EnergyUse) string {
	if u == nil {
		return "-"
	}
	band := func(b *pb.EnergyBand, unit string) string {
		return fmt.Sprintf("%s %s (%s to %s)", shortNumber(b.GetMiddle()), unit, shortNumber(b.GetLow()),
			shortNumber(b.GetHigh()))
	}
	return band(u.GetEnergyKwh(), "kWh") + ", " + band(u.GetCostUsd(), "$") + ", " + band(u.GetCo2Kg(), "kg CO2")
}

// plusSign is a difference with its sign.
func plusSign(text string, x float64) string {
	if x > 0 {
		return "+" + text
	}
	return text
}

// value is that of a parameter, as flags take it.
func (a *amounts) value(id string, v *structpb.Value) string {
	n, number := v.GetKind().(*structpb.Value_NumberValue)
	if p, ok := a.space.Param(id); ok && number && p.Kind == space.KindDuration {
		if text, exact := units.Span(n.NumberValue); exact {
			return text
		}
	}
	return valueText(v)
}

// shortNumber writes a number with four significant digits, whole above 1000.
func shortNumber(x float64) string {
	if math.Abs(x) >= 1000 {
		return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

func newConfigExplainCmd(f *cli.ClientFlags) *cobra.Command {
	var revision, number int64
	var compareTo string
	cmd := &cobra.Command{
		Use:   "explain SCHEDULER",
		Short: "Explain why a configuration was adopted or not, by parameter",
		Long: `Says why the round that found a revision adopted it, and simulates on the futures of
that round what each parameter contributes, when they are set one after the other. Where
the causal model of 'autosched scheduler effects' is reliable, it adds through which
metrics a parameter acts.
Without --revision it explains what is on offer; --round explains the best
configuration of a round that adopted nothing, too.`,
		Example: `  autosched scheduler config explain tiresias
  autosched scheduler config explain tiresias --revision 4 --compare-to default
  autosched scheduler config explain tiresias --round 17`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pb.ExplainConfigurationRequest{}
			if revision != 0 && number != 0 {
				return cli.Usage(errors.New("--revision and --round: name one of them"))
			}
			switch n, err := strconv.ParseInt(compareTo, 10, 64); {
			case compareTo == "incumbent":
			case compareTo == "default":
				req.CompareTo = pb.ExplainConfigurationRequest_DEFAULT
			case compareTo == "current":
				req.CompareTo = pb.ExplainConfigurationRequest_CURRENT
			case err == nil && n > 0:
				req.CompareToRevision = n
			default:
				return cli.Usage(fmt.Errorf("--compare-to: %q is not incumbent, default, current or a revision",
					compareTo))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				switch {
				case number != 0:
					req.Name = fmt.Sprintf("%s/rounds/%d", name, number)
				case revision != 0:
					req.Name = revisionName(name, revision)
				default:
					s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
					if err != nil {
						return err
					}
					req.Name = s.GetCurrentConfiguration()
				}
				got, err := c.Explanations.ExplainConfiguration(ctx, req)
				if err != nil {
					return err
				}
				words, err := getAmounts(ctx, c, name)
				if err != nil {
					return err
				}
				return f.Show(cmd, got, func(w io.Writer) error { return printExplanation(w, got, words) })
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "")
	cmd.Flags().Int64Var(&number, "round", 0, "")
	cmd.Flags().StringVar(&compareTo, "compare-to", "incumbent", "incumbent (of the round), default, current or a revision")
	return cmd
}

func printExplanation(out io.Writer, e *pb.ExplainConfigurationResponse, words *amounts) error {
	fmt.Fprintln(out, e.GetSummary())
	if e.GetFrom() == nil {
		return nil
	}
	w := table.New(out, "")
	printRatio(w, e)
	fmt.Fprintf(w, "objective\t%s, %s before\n", words.outlook(e.GetTo()), words.outlook(e.GetFrom()))
	if e.GetTo().GetEnergy() != nil {
		fmt.Fprintf(w, "energy\t%s\n\t%s before\n", energyText(e.GetTo().GetEnergy()),
			energyText(e.GetFrom().GetEnergy()))
	}
	for _, l := range e.GetLimits() {
		fmt.Fprintf(w, "limit\tit %s\n", l)
	}
	for _, p := range e.GetParameterContributions() {
		id, delta := p.GetParameterId(), p.GetDeltaObjective()
		fmt.Fprintf(w, "%s\t%s to %s: objective %s", id, words.value(id, p.GetFrom()), words.value(id, p.GetTo()),
			plusSign(words.objective(delta), delta))
		for _, key := range slices.Sorted(maps.Keys(p.GetDeltaMetrics())) {
			delta := p.GetDeltaMetrics()[key]
			fmt.Fprintf(w, ", %s %s", key, plusSign(words.metric(key, delta), delta))
		}
		if way := ways(p.GetCausalPaths()); way != "" {
			fmt.Fprintf(w, "; acts %s", way)
		}
		for _, c := range p.GetAdapted() {
			fmt.Fprintf(w, "; %s becomes %s (%s)", c.GetParameterId(), words.value(c.GetParameterId(), c.GetTo()),
				c.GetConstraintId())
		}
		fmt.Fprintln(w)
	}
	if r := e.GetCausalReliability(); r != nil {
		fmt.Fprintf(w, "causal model\t%s\n", trust(r))
	}
	return w.Flush()
}

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
	text := fmt.Sprintf("%s of %d %s", units.Plural(int(r.GetTrialCount()), "trial"), r.GetGroupCount(), of)
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
	w := table.New(out, "\nPARAMETER\tEFFECT\t90 % INTERVAL\tBEST\tWAY")
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
	w = table.New(out, "\nCAUSE\tTARGET\tEFFECT\tSIGN\tRELIABILITY\t")
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
