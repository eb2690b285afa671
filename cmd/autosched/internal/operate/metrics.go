package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

func newMetricsCmd() *cobra.Command {
	var f cli.ClientFlags
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Report the metrics that a registered scheduler measures of itself",
		Long: `A scheduler reports what it measures of itself, such as how long jobs wait, with the revision of
its configuration that was in force (ReportMetrics). 'autosched scheduler config get' shows the means of a
revision against those of the one before it. What a study found of a scheduler of type external
is judged by the metric that it was tuned for: docs/service.md says how.`,
		Example: "  autosched scheduler metrics report prod --revision 4 wait=31.5 goodput=0.84",
	}
	f.Add(cmd)
	cmd.AddCommand(newMetricsReportCmd(&f))
	return cmd
}

func newMetricsReportCmd(f *cli.ClientFlags) *cobra.Command {
	var at string
	report := &pb.MetricReport{}
	cmd := &cobra.Command{
		Use:   "report SCHEDULER METRIC=VALUE...",
		Short: "Report metrics on behalf of a scheduler",
		Long: `Report stores one report. A report of the same instance and time counts once, so that the command
may be repeated with the same --event-time.`,
		Example: `  autosched scheduler metrics report prod --revision 4 wait=31.5
  autosched scheduler metrics report prod --revision 4 --instance a --event-time 2026-01-05T12:00:00Z wait=31.5 goodput=0.84`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) < 2 {
				return cli.Usage(errors.New("name the scheduler and at least one METRIC=VALUE"))
			}
			report.Metrics = map[string]float64{}
			for _, arg := range args[1:] {
				name, text, ok := strings.Cut(arg, "=")
				v, err := strconv.ParseFloat(text, 64)
				if !ok || err != nil {
					return cli.Usage(fmt.Errorf("%q is not METRIC=VALUE with a number, such as wait=31.5", arg))
				}
				report.Metrics[name] = v
			}
			if report.SchedulerTime, err = cli.ParseInstant("--event-time", at); err != nil {
				return err
			}
			if at == "" {
				report.SchedulerTime = timestamppb.Now()
			}
			return f.About(cmd, args[:1], func(ctx context.Context, c *cli.Client, name string) error {
				stream, err := c.Metrics.ReportMetrics(ctx)
				if err == nil {
					err = stream.Send(&pb.ReportMetricsRequest{Parent: name, Reports: []*pb.MetricReport{report}})
				}
				if err != nil && !errors.Is(err, io.EOF) { // then Recv has the reason
					return err
				}
				got, err := stream.Recv()
				if err != nil {
					return err
				}
				if err := stream.CloseSend(); err != nil {
					return err
				}
				if bad := got.GetRejectedReports(); len(bad) > 0 {
					return fmt.Errorf("the service rejected the report: %s: %s",
						strings.TrimPrefix(bad[0].GetField(), "reports[0]."), bad[0].GetDescription())
				}
				text := "stored"
				switch {
				case got.GetDuplicateCount() > 0:
					text = "stored before: a report of this instance and time counts once"
				case got.GetLateCount() > 0:
					text = "not stored: it is from before the time that is kept"
				}
				return f.Say(cmd, got, "%s", text)
			})
		},
	}
	fl := cmd.Flags()
	fl.Int64Var(&report.ConfigurationRevision, "revision", 0, "")
	fl.StringVar(&report.InstanceId, "instance", "", "")
	fl.StringVar(&at, "event-time", "", "event time, RFC 3339 (default: now)")
	return cmd
}

// printReported prints the metrics reported under a revision beside the previous one's.
func printReported(w io.Writer, all []*pb.ReportedMetric) {
	for _, m := range all {
		text := reportedText(m)
		if before := m.GetPrevious(); before != nil {
			text += fmt.Sprintf("; revision %d: %s", before.GetConfigurationRevision(), reportedText(before))
		}
		fmt.Fprintf(w, "reported\t%s %s\n", m.GetMetricId(), text)
	}
}

func reportedText(m *pb.ReportedMetric) string {
	text := fmt.Sprintf("%.6g", m.GetMean())
	if m.MeanLow != nil {
		text += fmt.Sprintf(" (%.6g to %.6g)", m.GetMeanLow(), m.GetMeanHigh())
	}
	return fmt.Sprintf("%s in %d reports", text, m.GetReportCount())
}
