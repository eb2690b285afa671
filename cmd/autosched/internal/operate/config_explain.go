package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

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
	cmd.Flags().Int64Var(&revision, "revision", 0, "the revision (default: the one on offer)")
	cmd.Flags().Int64Var(&number, "round", 0, "the round whose best configuration to explain")
	cmd.Flags().StringVar(&compareTo, "compare-to", "incumbent", "incumbent (of the round), default, current or a revision")
	return cmd
}

func printExplanation(out io.Writer, e *pb.ExplainConfigurationResponse, words *amounts) error {
	fmt.Fprintln(out, e.GetSummary())
	if e.GetFrom() == nil {
		return nil
	}
	w := cli.NewTable(out, "")
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
		for _, key := range cli.SortedKeys(p.GetDeltaMetrics()) {
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
