package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/convert"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
)

func newJobCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Show the jobs of a scheduler: why one waits, when it starts, what it uses",
		Long: `Jobs are those that are active and those that ended in the last 30 days of event time, as the
scheduler's events report them. Run times of jobs that wait or run are predicted, as futures of
rounds draw them.`,
		Example: `  autosched scheduler job list prod --filter 'state = WAITING' --order-by 'wait_duration desc'
  autosched scheduler job explain prod 4711`,
	}
	f.Add(cmd)
	cmd.AddCommand(newJobListCmd(&f), newJobGetCmd(&f), newJobExplainCmd(&f))
	return cmd
}

func newJobListCmd(f *cli.ClientFlags) *cobra.Command {
	var limit int32
	var l cli.ListFlags
	var past cli.WindowFlags
	req := &pb.ListJobsRequest{}
	cmd := &cobra.Command{
		Use:   "list SCHEDULER",
		Short: "List a scheduler's jobs, the latest submitted first",
		Long: `Prints jobs: GPUs asked for, how long they waited and held GPUs, and, of those that wait or run, the
predicted run time in all, with the range of 80 % of the draws.`,
		Example: `  autosched scheduler job list prod --tenant vision --limit 50
  autosched scheduler job list prod --filter 'state = WAITING' --order-by 'wait_duration desc'`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := cli.CheckLimit(limit); err != nil {
				return err
			}
			if req.StartTime, req.EndTime, err = past.Read(); err != nil {
				return err
			}
			req.PageSize, req.Filter, req.OrderBy = limit, l.Filter, l.OrderBy
			return cli.Ask(f, cmd, args, cli.SchedulerArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.ListJobsResponse, error) {
					req.Parent = name
					return c.Jobs.ListJobs(ctx, req)
				}, printJobs)
		},
	}
	fl := cmd.Flags()
	past.Add(cmd, "as far back as jobs are kept", latestEvent)
	fl.StringVar(&req.Tenant, "tenant", "", "jobs of this tenant only")
	fl.StringVar(&req.User, "user", "", "jobs of this user only")
	fl.StringVar(&req.NodeId, "on-node", "", "jobs only that held GPUs of this node")
	fl.Int32Var(&limit, "limit", 20, "")
	l.Add(cmd, true)
	return cmd
}

func printJobs(out io.Writer, all *pb.ListJobsResponse) error {
	if len(all.GetJobs()) == 0 {
		_, err := fmt.Fprintln(out, "no jobs")
		return err
	}
	w := table.New(out, "JOB\tTENANT\tSTATE\tGPUS\tWAITED\tRAN\tRUN TIME, PREDICTED")
	for _, j := range all.GetJobs() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", j.GetDetails().GetJobId(),
			cmp.Or(j.GetDetails().GetTenant(), "-"), stateText(j), gpusText(j.GetDetails().GetMilliGpus()),
			spanText(j.GetWaitDuration()), spanText(j.GetRunDuration()), predictionText(j.GetPredictedRun()))
	}
	if all.GetNextPageToken() != "" {
		fmt.Fprintln(w, "... more (--limit)")
	}
	return w.Flush()
}

func stateText(j *pb.Job) string {
	if end := j.GetDetails().GetEndStatus(); j.GetState() == pb.Job_ENDED && end != 0 {
		return cli.EnumWord(end)
	}
	return cli.EnumWord(j.GetState())
}

func gpusText(milli int64) string { return fmt.Sprintf("%g", float64(milli)/1000) }

func spanText(d *durationpb.Duration) string {
	if d == nil {
		return "-"
	}
	return units.Duration(d.AsDuration().Seconds())
}

func predictionText(p *pb.Job_Prediction) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s to %s)", spanText(p.GetMiddleDuration()), spanText(p.GetLowDuration()),
		spanText(p.GetHighDuration()))
}

// jobArg reads a scheduler and the id of a job, or the name of one.
func jobArg(args []string) (string, error) {
	if len(args) == 1 {
		if _, _, err := convert.ParseJob("job", args[0]); err == nil {
			return args[0], nil
		}
	}
	if len(args) != 2 || args[1] == "" {
		return "", cli.Usage(fmt.Errorf("want a scheduler and the id of a job; " +
			"'autosched scheduler job list SCHEDULER' shows them"))
	}
	return convert.JobName(strings.TrimPrefix(args[0], "schedulers/"), args[1]), nil
}

func newJobGetCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "get SCHEDULER JOB",
		Short:             "Show a job, with the times in which it held GPUs",
		Long:              "Shows what events report of a job, and its predicted run time while it waits or runs.",
		Example:           "  autosched scheduler job get prod 4711",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: cli.Asks(f, jobArg, func(ctx context.Context, c *cli.Client, name string) (*pb.Job, error) {
			return c.Jobs.GetJob(ctx, &pb.GetJobRequest{Name: name})
		}, printJob),
	}
}

func printJob(out io.Writer, j *pb.Job) error {
	if err := printJobFacts(out, j); err != nil || len(j.GetSpells()) == 0 {
		return err
	}
	fmt.Fprintln(out)
	w := table.New(out, "FROM\tTO\tGPUS\tNODES\tLOST")
	for _, s := range j.GetSpells() {
		to := "-"
		if s.GetEndTime() != nil {
			to = cli.Instant(s.GetEndTime())
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", cli.Instant(s.GetStartTime()), to, s.GetGpus(),
			nodesText(s.GetPlacement()), spanText(s.GetLostDuration()))
	}
	return w.Flush()
}

func nodesText(all []*pb.NodePlacement) string {
	var nodes []string
	for _, n := range all {
		nodes = append(nodes, n.GetNodeId())
	}
	return cmp.Or(strings.Join(nodes, " "), "-")
}

func printJobFacts(out io.Writer, j *pb.Job) error {
	w, d := table.New(out, ""), j.GetDetails()
	fmt.Fprintf(w, "job\t%s (%s)\n", d.GetJobId(), stateText(j))
	if d.GetTenant()+d.GetUser() != "" {
		fmt.Fprintf(w, "of\ttenant %s, user %s\n", cmp.Or(d.GetTenant(), "-"), cmp.Or(d.GetUser(), "-"))
	}
	fmt.Fprintf(w, "GPUs\t%s\n", gpusText(d.GetMilliGpus()))
	fmt.Fprintf(w, "submitted\t%s\n", cli.Instant(j.GetSubmitTime()))
	if j.GetHoldUntilTime() != nil {
		fmt.Fprintf(w, "held until\t%s\n", cli.Instant(j.GetHoldUntilTime()))
	}
	if j.GetStartTime() != nil {
		fmt.Fprintf(w, "started\t%s\n", cli.Instant(j.GetStartTime()))
	}
	if j.GetEndTime() != nil {
		fmt.Fprintf(w, "ended\t%s\n", cli.Instant(j.GetEndTime()))
	}
	fmt.Fprintf(w, "waited\t%s\nran\t%s\n", spanText(j.GetWaitDuration()), spanText(j.GetRunDuration()))
	if n := j.GetPreemptionCount(); n > 0 {
		lost := ""
		if d := j.GetLostDuration(); d != nil {
			lost = fmt.Sprintf(", progress of %s lost", spanText(d))
		}
		fmt.Fprintf(w, "stopped\t%s%s\n", units.Plural(int(n), "time"), lost)
	}
	if p := j.GetPredictedRun(); p != nil {
		by := "the model of run times"
		if p.GetSource() == pb.Job_Prediction_HISTORY {
			by = "run times of jobs like it"
		}
		fmt.Fprintf(w, "predicted\truns %s in all, by %s\n", predictionText(p), by)
	}
	return w.Flush()
}

func newJobExplainCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "explain SCHEDULER JOB",
		Short: "Say why a job waited, when it starts and ends, and what it uses",
		Long: `Why: what events show at instants spread over the job's waiting. When: futures are simulated under the
configuration in force, as 'scheduler load --forecast' does it, which waits for a round under way
(--timeout). What it uses: samples of its GPUs.`,
		Example:           "  autosched scheduler job explain prod 4711 --timeout 2m",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: cli.Asks(f, jobArg,
			func(ctx context.Context, c *cli.Client, name string) (*pb.ExplainJobResponse, error) {
				return c.Jobs.ExplainJob(ctx, &pb.ExplainJobRequest{Name: name})
			}, printExplained),
	}
}

// causes are the words of causes of waiting.
var causes = map[pb.ExplainJobResponse_Cause]string{
	pb.ExplainJobResponse_HELD:          "it may not start before an instant",
	pb.ExplainJobResponse_QUOTA:         "the quota of its tenant has no room for it",
	pb.ExplainJobResponse_BUSY:          "fewer GPUs are free than it asks for",
	pb.ExplainJobResponse_FRAGMENTED:    "enough GPUs are free, but on too many nodes",
	pb.ExplainJobResponse_BEHIND_OTHERS: "earlier jobs, or of a higher priority, wait",
	pb.ExplainJobResponse_UNKNOWN:       "there is room; the scheduler's reason is not reported",
	pb.ExplainJobResponse_LIMIT:         "a limit of its user, account or QOS",
	pb.ExplainJobResponse_RESERVED:      "it would delay a job of a higher priority that these GPUs are reserved for",
	pb.ExplainJobResponse_SET_APART:     "the nodes are set apart by an advance reservation",
	pb.ExplainJobResponse_DEPTH:         "the scheduler's cycles look at fewer jobs",
	pb.ExplainJobResponse_CYCLE:         "the scheduler's next cycle, which starts it, has not come",
}

func printExplained(out io.Writer, x *pb.ExplainJobResponse) error {
	if err := printJobFacts(out, x.GetJob()); err != nil {
		return err
	}
	if len(x.GetWaits()) > 0 {
		fmt.Fprintln(out)
		w := table.New(out, "WAITED\tSHARE\tFROM\tBECAUSE")
		for _, r := range x.GetWaits() {
			from, why := "observed", causes[r.GetCause()]
			if r.GetSimulated() {
				from = "simulated"
			}
			if r.GetDetail() != "" {
				why += ": " + r.GetDetail()
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", spanText(r.GetDuration()), percentText(r.GetShare()), from, why)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if why := x.GetNoModelReason(); why != "" {
			fmt.Fprintf(out, "the scheduler was not simulated where there was room: %s\n", why)
		}
		if n := x.GetPassedCount(); n > 0 {
			fmt.Fprintf(out, "%s submitted after it started before it\n", units.Plural(int(n), "job"))
		}
	}
	if active := x.GetJob().GetState(); active == pb.Job_WAITING || active == pb.Job_RUNNING {
		fmt.Fprintln(out)
		if why := x.GetNoFuturesReason(); why != "" {
			fmt.Fprintf(out, "no forecast: %s\n", why)
		} else {
			w := table.New(out, "")
			if x.GetStart() != nil {
				fmt.Fprintf(w, "starts\t%s\n", instantsText(x.GetStart(), x))
			}
			fmt.Fprintf(w, "ends\t%s\n", instantsText(x.GetEnd(), x))
			fmt.Fprintf(w, "by\t%d futures simulated from %s\n", x.GetFutures(), cli.Instant(x.GetSchedulerTime()))
			if why := x.GetLimitedReason(); why != "" {
				fmt.Fprintf(w, "bounded\t%s\n", why)
			}
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	if u := x.GetUsage(); u != nil {
		var parts []string
		if u.Busy != nil {
			parts = append(parts, fmt.Sprintf("%s of its GPUs in use", percentText(u.GetBusy())))
		}
		if u.MemoryMib != nil {
			parts = append(parts, fmt.Sprintf("%.0f MiB", u.GetMemoryMib()))
		}
		if u.PowerWatts != nil {
			parts = append(parts, fmt.Sprintf("%.0f W", u.GetPowerWatts()))
		}
		fmt.Fprintf(out, "\nuses (observed, mean of a GPU): %s\n",
			cmp.Or(strings.Join(parts, ", "), "no sample says it"))
	}
	return nil
}

// instantsText is when something happens in futures.
func instantsText(i *pb.ExplainJobResponse_Instants, x *pb.ExplainJobResponse) string {
	if i.GetFutures() == 0 {
		return fmt.Sprintf("in none of %d futures until %s", x.GetFutures(), cli.Instant(x.GetHorizonTime()))
	}
	text := fmt.Sprintf("%s (%s to %s)", cli.Instant(i.GetMiddleTime()), cli.Instant(i.GetLowTime()),
		cli.Instant(i.GetHighTime()))
	if i.GetFutures() < x.GetFutures() {
		text += fmt.Sprintf(", in %d of %d futures; in the others after %s", i.GetFutures(), x.GetFutures(),
			cli.Instant(x.GetHorizonTime()))
	}
	return text
}

func newTenantsCmd(f *cli.ClientFlags) *cobra.Command {
	var past cli.WindowFlags
	var l cli.ListFlags
	cmd := &cobra.Command{
		Use:   "tenants SCHEDULER",
		Short: "Show what each tenant got in a time, and the ones over quota",
		Long: `Prints tenants, those with the most GPU-hours first: GPUs that they hold at the end of the time beside
their quota, marked where that is exceeded, and how long their jobs waited for the first start and
after preemptions.`,
		Example: `  autosched scheduler tenants prod
  autosched scheduler tenants prod --from 2026-01-05T00:00:00Z --order-by 'waiting_gpu_hours desc'`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to, err := past.Read()
			if err != nil {
				return err
			}
			return cli.Ask(f, cmd, args, cli.SchedulerArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.ListTenantsResponse, error) {
					return cli.Pages(func(page string) (*pb.ListTenantsResponse, error) {
						return c.Jobs.ListTenants(ctx, &pb.ListTenantsRequest{Parent: name, PageSize: 1000,
							PageToken: page, Filter: l.Filter, OrderBy: l.OrderBy, StartTime: from, EndTime: to})
					})
				}, printTenants)
		},
	}
	past.Add(cmd, weekBefore, latestEvent)
	l.Add(cmd, true)
	return cmd
}

func printTenants(out io.Writer, all *pb.ListTenantsResponse) error {
	if len(all.GetTenants()) == 0 {
		_, err := fmt.Fprintln(out, "no tenants: no job was there in this time")
		return err
	}
	w := table.New(out, "TENANT\tGPU-HOURS\tSHARE\tGPUS\tQUOTA\tWAITING\tWAIT, MEAN\tP95\tAFTER STOPS")
	over := 0
	for _, t := range all.GetTenants() {
		quota := "-"
		if q := t.GetQuotaGpus(); q > 0 {
			if quota = fmt.Sprint(q); t.GetBusyGpus() > q {
				quota, over = quota+" over", over+1
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\t%s\n", cmp.Or(t.GetTenant(), "-"),
			cli.ThreeDigits(t.GetGpuHours()), percentText(t.GetShare()), t.GetBusyGpus(), quota, t.GetWaitingGpus(),
			spanText(t.GetMeanWaitDuration()), spanText(t.GetP95WaitDuration()),
			spanText(t.GetMeanRestartWaitDuration()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if over > 0 {
		fmt.Fprintf(out, "\nover quota: %s, with GPUs that others lend or leave free\n", units.Plural(over, "tenant"))
	}
	return nil
}

func newLoadCmd(f *cli.ClientFlags) *cobra.Command {
	var forecast bool
	var plot cli.PlotFlag
	cmd := &cobra.Command{
		Use:   "load SCHEDULER",
		Short: "Show the load of a scheduler's cluster, or its forecast",
		Long: `Shows GPUs in use and asked for at the latest event, and how fresh the records are. With --forecast
futures of the next 12 hours are simulated under the configuration in force: the least, the middle and
the most of each half hour. That waits for a round under way (--timeout).`,
		Example: `  autosched scheduler load prod
  autosched scheduler load prod --forecast --plot load.svg --timeout 2m`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			if plot.Path != "" && !forecast {
				return cli.Usage(fmt.Errorf("--plot: is of --forecast"))
			}
			if err := plot.Check(); err != nil {
				return err
			}
			if !forecast {
				return cli.Ask(f, cmd, args, cli.SchedulerArg,
					func(ctx context.Context, c *cli.Client, name string) (*pb.Load, error) {
						return c.Jobs.GetLoad(ctx, &pb.GetLoadRequest{Name: name + "/load"})
					}, printLoad)
			}
			return cli.Ask(f, cmd, args, cli.SchedulerArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.ForecastLoadResponse, error) {
					got, err := c.Jobs.ForecastLoad(ctx, &pb.ForecastLoadRequest{Name: name + "/load"})
					if err != nil {
						return nil, err
					}
					return got, plotLoad(&plot, cli.ShortName(name), got)
				}, printForecast)
		},
	}
	cmd.Flags().BoolVar(&forecast, "forecast", false, "simulate the next 12 hours")
	plot.Add(cmd)
	return cmd
}

func printLoad(out io.Writer, l *pb.Load) error {
	w := table.New(out, "")
	row := func(name string, at *timestamppb.Timestamp) {
		if at != nil {
			fmt.Fprintf(w, "%s\t%s\n", name, cli.Instant(at))
		}
	}
	row("at", l.GetSchedulerTime())
	fmt.Fprintf(w, "GPUs\t%d of %d in use, %d waited for\n", l.GetBusyGpus(), l.GetTotalGpus(), l.GetWaitingGpus())
	fmt.Fprintf(w, "jobs\t%d run, %d wait", l.GetRunningJobs(), l.GetWaitingJobs())
	if l.GetLongestWaitDuration() != nil {
		fmt.Fprintf(w, ", one for %s", spanText(l.GetLongestWaitDuration()))
	}
	fmt.Fprintf(w, "\nnodes\t%d take jobs, %d are down or draining\n", l.GetNodeCount(), l.GetClosedNodeCount())
	row("events came", l.GetReceiveTime())
	if skew := l.GetClockSkew(); skew != nil {
		by, side := skew.AsDuration(), "ahead of"
		if by < 0 {
			by, side = -by, "behind"
		}
		fmt.Fprintf(w, "their clock\t%s %s the service's\n", spanText(durationpb.New(by)), side)
	}
	row("latest sample", l.GetSampleTime())
	row("acknowledged", l.GetAcknowledgeTime())
	return w.Flush()
}

func printForecast(out io.Writer, x *pb.ForecastLoadResponse) error {
	if why := x.GetNoFuturesReason(); why != "" {
		_, err := fmt.Fprintf(out, "no forecast: %s\n", why)
		return err
	}
	fmt.Fprintf(out, "simulated: the middle of %d futures under revision %d, and their range\n\n", x.GetFutures(),
		x.GetRevision())
	w := table.New(out, "TIME\tGPUS IN USE\tGPUS WAITED FOR\tJOBS THAT WAIT")
	band := func(b *pb.ForecastLoadResponse_Band) string {
		return fmt.Sprintf("%g (%g to %g)", b.GetMiddle(), b.GetLow(), b.GetHigh())
	}
	for _, p := range x.GetPoints() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cli.Instant(p.GetSchedulerTime()), band(p.GetBusyGpus()),
			band(p.GetWaitingGpus()), band(p.GetWaitingJobs()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if why := x.GetLimitedReason(); why != "" {
		fmt.Fprintf(out, "\nbounded: %s\n", why)
	}
	return nil
}

func newTimelineCmd(f *cli.ClientFlags) *cobra.Command {
	var past cli.WindowFlags
	var nodes bool
	var plot cli.PlotFlag
	req := &pb.GetTimelineRequest{}
	cmd := &cobra.Command{
		Use:   "timeline SCHEDULER",
		Short: "Show the GPUs that tenants or nodes held over a time",
		Long: `Prints GPUs held and waited for by tenants, or held of nodes, in equal parts of a time, with the
configurations that took effect and the findings. The bars of a row are the GPUs held, of the most in
the table's rows; --json has every number.`,
		Example: `  autosched scheduler timeline prod
  autosched scheduler timeline prod --by-node --from 2026-01-05T00:00:00Z --to 2026-01-06T00:00:00Z --plot day.html`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := plot.Check(); err != nil {
				return err
			}
			if req.BucketCount < 1 || req.RowCount < 1 {
				return cli.Usage(fmt.Errorf("--parts and --limit: must be at least 1"))
			}
			if req.StartTime, req.EndTime, err = past.Read(); err != nil {
				return err
			}
			if req.Rows = pb.GetTimelineRequest_TENANTS; nodes {
				req.Rows = pb.GetTimelineRequest_NODES
			}
			return cli.Ask(f, cmd, args, cli.SchedulerArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.Timeline, error) {
					req.Name = name
					got, err := c.Jobs.GetTimeline(ctx, req)
					if err != nil {
						return nil, err
					}
					return got, plotTimeline(&plot, cli.ShortName(name), got)
				}, printTimeline)
		},
	}
	fl := cmd.Flags()
	past.Add(cmd, "a day before the latest event", latestEvent)
	fl.BoolVar(&nodes, "by-node", false, "rows are nodes, not tenants")
	fl.Int32Var(&req.BucketCount, "parts", 24, "equal parts of the time")
	fl.Int32Var(&req.RowCount, "limit", 20, "")
	plot.Add(cmd)
	return cmd
}

func rowName(r *pb.Timeline_Row) string {
	switch {
	case r.GetFirst() == "" && r.GetMemberCount() > 1:
		return units.Plural(int(r.GetMemberCount()), "other")
	case r.GetLast() != "" && r.GetLast() != r.GetFirst():
		return r.GetFirst() + " to " + r.GetLast()
	}
	return cmp.Or(r.GetFirst(), "-")
}

func printTimeline(out io.Writer, t *pb.Timeline) error {
	fmt.Fprintf(out, "%s to %s, parts of %s, %s\n\n", cli.Instant(t.GetStartTime()), cli.Instant(t.GetEndTime()),
		spanText(t.GetBucketDuration()), units.Plural(int(t.GetJobCount()), "job"))
	most := 0.0
	for _, r := range t.GetRows() {
		most = max(most, slices.Max(append(r.GetBusyGpus(), 0)))
	}
	mean := func(all []float64) float64 {
		sum := 0.0
		for _, v := range all {
			sum += v
		}
		return sum / float64(max(1, len(all)))
	}
	w := table.New(out, "ROW\tGPUS\tHELD, MEAN\tMOST\tWAITED FOR, MEAN\tHELD")
	for _, r := range t.GetRows() {
		gpus := "-"
		if r.GetGpus() > 0 {
			gpus = fmt.Sprint(r.GetGpus())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", rowName(r), gpus, cli.ThreeDigits(mean(r.GetBusyGpus())),
			cli.ThreeDigits(slices.Max(append(r.GetBusyGpus(), 0))), cli.ThreeDigits(mean(r.GetWaitingGpus())),
			bars(r.GetBusyGpus(), most))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	marks := slices.Concat(t.GetConfigurations(), t.GetFindings())
	slices.SortStableFunc(marks, func(a, b *pb.Timeline_Mark) int {
		return a.GetStartTime().AsTime().Compare(b.GetStartTime().AsTime())
	})
	for _, m := range marks {
		fmt.Fprintf(out, "%s  %s\n", cli.Instant(m.GetStartTime()), m.GetWords())
	}
	return nil
}

// bars draws numbers of at most the most, a column for each; a dot is none.
func bars(all []float64, most float64) string {
	const levels = "▁▂▃▄▅▆▇█"
	steps := []rune(levels)
	var b strings.Builder
	for _, v := range all {
		if v <= 0 || most <= 0 {
			b.WriteByte('.')
			continue
		}
		b.WriteRune(steps[min(len(steps)-1, int(v/most*float64(len(steps))))])
	}
	return b.String()
}
