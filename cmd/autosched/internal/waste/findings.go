package waste

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
)

func newFindingsCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "findings",
		Short: "Show what wastes a registered scheduler's cluster, and judge it",
		Long: `The service looks for patterns in the events and samples of every registered scheduler
('autosched patterns rules' lists the rules). A finding says that a rule holds for a job, a
tenant or a node, with its evidence and the GPU-hours that it wastes. docs/patterns.md
describes findings in the service.`,
		Example: `  autosched scheduler findings list prod --state open
  autosched scheduler findings show prod/1f2e3d4c5b6a7988
  autosched scheduler findings ack prod/1f2e3d4c5b6a7988 --reason 'asked its owner'`,
	}
	f.Add(cmd)
	cmd.AddCommand(newFindingsListCmd(&f), newFindingsShowCmd(&f), newFindingsAckCmd(&f), newFindingsSnoozeCmd(&f),
		newFindingsFalseCmd(&f))
	return cmd
}

// findingArg reads SCHEDULER/FINDING.
func findingArg(args []string) (string, error) {
	if len(args) == 1 {
		parts := strings.Split(strings.TrimPrefix(args[0], "schedulers/"), "/")
		switch {
		case len(parts) == 2:
			return "schedulers/" + parts[0] + "/findings/" + parts[1], nil
		case len(parts) == 3 && parts[1] == "findings":
			return "schedulers/" + strings.Join(parts, "/"), nil
		}
	}
	return "", cli.Usage(errors.New("want one finding, as SCHEDULER/FINDING; 'autosched scheduler findings list SCHEDULER' shows them"))
}

var findingStates = map[string]pb.Finding_State{"all": 0, "open": pb.Finding_OPEN, "closed": pb.Finding_CLOSED}

func newFindingsListCmd(f *cli.ClientFlags) *cobra.Command {
	var state, rule, entity string
	var limit int
	cmd := &cobra.Command{
		Use:   "list SCHEDULER",
		Short: "List findings, the latest opened first",
		Long: `List prints findings, and for each rule how many opened and how many of those judged were true.
Times are those of events and samples.`,
		Example: `  autosched scheduler findings list prod --state open
  autosched scheduler findings list prod --rule idle_allocation --entity job/4711 --json`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &pb.ListFindingsRequest{Rule: rule}
			var known bool
			if req.State, known = findingStates[state]; !known {
				return cli.Usage(fmt.Errorf("--state: %q is not all, open or closed", state))
			}
			if limit < 1 {
				return cli.Usage(fmt.Errorf("--limit: %d is not positive", limit))
			}
			if entity != "" {
				if req.EntityKind, req.Entity, known = strings.Cut(entity, "/"); !known {
					return cli.Usage(fmt.Errorf("--entity: %q is not a kind and a name, such as job/4711", entity))
				}
			}
			return cli.Ask(f, cmd, args, cli.SchedulerArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.ListFindingsResponse, error) {
					req.Parent = name
					return listFindings(ctx, c, req, limit)
				}, printFindings)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&state, "state", "all", "all, open or closed")
	fl.StringVar(&rule, "rule", "", "")
	fl.StringVar(&entity, "entity", "", "only of this entity, such as job/4711 or node/n7")
	fl.IntVar(&limit, "limit", 50, "")
	return cmd
}

// listFindings joins pages up to a number of findings.
func listFindings(ctx context.Context, c *cli.Client, req *pb.ListFindingsRequest,
	limit int) (*pb.ListFindingsResponse, error) {
	out := &pb.ListFindingsResponse{}
	for {
		req.PageSize = int32(min(limit-len(out.Findings), 1000))
		got, err := c.Findings.ListFindings(ctx, req)
		if err != nil {
			return nil, err
		}
		out.Findings = append(out.Findings, got.GetFindings()...)
		out.Rules, out.NextPageToken, req.PageToken = got.GetRules(), got.GetNextPageToken(), got.GetNextPageToken()
		if req.PageToken == "" || len(out.Findings) >= limit {
			return out, nil
		}
	}
}

func newFindingsShowCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "show SCHEDULER/FINDING",
		Short: "Show a finding with its evidence",
		Long: `Show prints a finding: the numbers that it rests on with what they were compared with, the
GPU-hours wasted, the jobs and tenants affected, and what people said of it.`,
		Example: "  autosched scheduler findings show prod/1f2e3d4c5b6a7988",
		RunE: cli.Asks(f, findingArg, func(ctx context.Context, c *cli.Client, name string) (*pb.Finding, error) {
			return c.Findings.GetFinding(ctx, &pb.GetFindingRequest{Name: name})
		}, printFinding),
	}
}

func newFindingsAckCmd(f *cli.ClientFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "ack SCHEDULER/FINDING",
		Short: "Say that a finding is true and seen to",
		Long: `Ack says that a finding is true, which counts for its rule's precision, and that it is seen
to. It takes back that it is a false positive.`,
		Example: "  autosched scheduler findings ack prod/1f2e3d4c5b6a7988 --reason 'asked its owner'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.Ask(f, cmd, args, findingArg, func(ctx context.Context, c *cli.Client, name string) (*pb.Finding,
				error) {
				return c.Findings.AcknowledgeFinding(ctx, &pb.AcknowledgeFindingRequest{Name: name, Reason: reason})
			}, printFinding)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "")
	return cmd
}

func newFindingsSnoozeCmd(f *cli.ClientFlags) *cobra.Command {
	var reason, until string
	cmd := &cobra.Command{
		Use:   "snooze SCHEDULER/FINDING",
		Short: "Make an open finding silent for a while",
		Long: `Snooze leaves a finding out of the metric of open ones and of the webhook until an instant, as
those of the same rule and entity that open before then. Lists still have it.`,
		Example: "  autosched scheduler findings snooze prod/1f2e3d4c5b6a7988 --until 2026-11-24T08:00:00Z",
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := time.Parse(time.RFC3339, until)
			if err != nil {
				return cli.Usage(fmt.Errorf("--until: %q is not a time such as 2026-11-24T08:00:00Z", until))
			}
			return cli.Ask(f, cmd, args, findingArg, func(ctx context.Context, c *cli.Client, name string) (*pb.Finding,
				error) {
				return c.Findings.SnoozeFinding(ctx, &pb.SnoozeFindingRequest{Name: name, Reason: reason,
					UntilTime: timestamppb.New(at)})
			}, printFinding)
		},
	}
	cmd.Flags().StringVar(&until, "until", "", "")
	cmd.Flags().StringVar(&reason, "reason", "", "")
	return cmd
}

func newFindingsFalseCmd(f *cli.ClientFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "false-positive SCHEDULER/FINDING",
		Short: "Say that a finding is wrong",
		Long: `False-positive says that a finding is wrong and why, for who tunes the rule. It counts for the
rule's precision, and takes back an acknowledgement.`,
		Example: "  autosched scheduler findings false-positive prod/1f2e3d4c5b6a7988 --reason 'a licence server, without a GPU by design'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return cli.Usage(errors.New("--reason is required: say why it is wrong, for who tunes the rule"))
			}
			return cli.Ask(f, cmd, args, findingArg, func(ctx context.Context, c *cli.Client, name string) (*pb.Finding,
				error) {
				return c.Findings.MarkFalsePositive(ctx, &pb.MarkFalsePositiveRequest{Name: name, Reason: reason})
			}, printFinding)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "")
	return cmd
}

// findingState is the state of a finding, with the words of people on it.
func findingState(f *pb.Finding) string {
	text := cli.EnumWord(f.GetState())
	switch {
	case f.GetLost():
		text += ", lost"
	case f.GetState() == pb.Finding_OPEN && f.GetSnoozed().GetUntilTime().AsTime().After(time.Now()):
		text += ", snoozed"
	}
	switch {
	case f.GetAcknowledged() != nil:
		text += ", acknowledged"
	case f.GetFalsePositive() != nil:
		text += ", false positive"
	}
	return text
}

// costText is a cost, which is 0 where the service has no price of a GPU-hour.
func costText(cost float64) string {
	if cost == 0 {
		return "-"
	}
	return strconv.FormatFloat(cost, 'f', 2, 64)
}

func printFindings(out io.Writer, all *pb.ListFindingsResponse) error {
	if len(all.GetFindings()) == 0 {
		if _, err := fmt.Fprintln(out, "no findings"); err != nil {
			return err
		}
	}
	columns := "FINDING\tOPENED\tRULE\tENTITY\tSTATE\tGPU-HOURS\tCOST\tCONFIDENCE"
	if len(all.GetFindings()) == 0 {
		columns = ""
	}
	w := table.New(out, columns)
	for _, f := range all.GetFindings() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s/%s\t%s\t%.1f\t%s\t%.2f\n", cli.ShortName(f.GetName()),
			cli.Instant(f.GetOpenTime()), f.GetRule(), f.GetEntityKind(), f.GetEntity(), findingState(f),
			f.GetWastedGpuHours(), costText(f.GetCost()), f.GetConfidence())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if all.GetNextPageToken() != "" {
		fmt.Fprintln(out, "... and more (--limit)")
	}
	if len(all.GetRules()) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "RULE\tOPENED\tOPEN\tGPU-HOURS OF OPEN\tCOST OF OPEN\tTRUE\tFALSE\tPRECISION")
	for _, r := range all.GetRules() {
		precision := "-"
		if r.Precision != nil {
			precision = fmt.Sprintf("%.2f", r.GetPrecision())
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%s\t%d\t%d\t%s\n", r.GetRule(), r.GetTotalCount(), r.GetOpenCount(),
			r.GetWastedGpuHours(), costText(r.GetCost()), r.GetAcknowledgedCount(), r.GetFalsePositiveCount(),
			precision)
	}
	return w.Flush()
}

func printFinding(out io.Writer, f *pb.Finding) error {
	w := table.New(out, "")
	fmt.Fprintf(w, "%s\t%s of %s/%s\n", cli.ShortName(f.GetName()), f.GetRule(), f.GetEntityKind(), f.GetEntity())
	fmt.Fprintf(w, "state\t%s\n", findingState(f))
	if f.GetJobId() != "" {
		fmt.Fprintf(w, "job\t%s\n", f.GetJobId())
	}
	fmt.Fprintf(w, "began\t%s\n", cli.Instant(f.GetBeginTime()))
	fmt.Fprintf(w, "opened\t%s\n", cli.Instant(f.GetOpenTime()))
	if f.GetCloseTime() != nil {
		fmt.Fprintf(w, "closed\t%s\n", cli.Instant(f.GetCloseTime()))
	}
	fmt.Fprintf(w, "wasted\t%.1f GPU-hours until %s\n", f.GetWastedGpuHours(), cli.Instant(f.GetUpdateTime()))
	if f.GetCost() > 0 {
		fmt.Fprintf(w, "cost\t%s\n", costText(f.GetCost()))
	}
	fmt.Fprintf(w, "confidence\t%.2f\n", f.GetConfidence())
	for i, e := range f.GetEvidence() {
		label := ""
		if i == 0 {
			label = "evidence"
		}
		fmt.Fprintf(w, "%s\t%s, %s to %s\n", label, evidenceText(e.GetWhat(), e.GetValue(), e.GetThreshold(),
			e.GetUnit()),
			cli.Instant(e.GetStartTime()), cli.Instant(e.GetEndTime()))
	}
	if len(f.GetAffected()) > 0 {
		fmt.Fprintf(w, "affected\t%s\n", strings.Join(f.GetAffected(), ", "))
	}
	for _, m := range []struct {
		what string
		mark *pb.Finding_Mark
	}{{"acknowledged", f.GetAcknowledged()}, {"snoozed", f.GetSnoozed()}, {"false positive", f.GetFalsePositive()}} {
		if m.mark == nil {
			continue
		}
		text := cli.Instant(m.mark.GetCreateTime())
		if m.mark.GetActor() != "" {
			text += " by " + m.mark.GetActor()
		}
		if m.mark.GetUntilTime() != nil {
			text += " until " + cli.Instant(m.mark.GetUntilTime())
		}
		if m.mark.GetReason() != "" {
			text += ": " + cli.OneLine(m.mark.GetReason())
		}
		fmt.Fprintf(w, "%s\t%s\n", m.what, text)
	}
	fmt.Fprintf(w, "action\t%s\n", f.GetAction())
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, f.GetWords())
	return err
}
