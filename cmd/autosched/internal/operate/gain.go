package operate

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
)

func newSchedulerGainCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "gain SCHEDULER",
		Short: "Compare the delay of jobs as it was with that under the registered defaults",
		Long: `What happened since the configuration in force took effect, at most the last day, is replayed with it and
with the registered defaults. Delay is the time in which jobs make no progress.`,
		Example:           `  autosched scheduler gain prod`,
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.Ask(f, cmd, args, cli.SchedulerArg,
				func(ctx context.Context, c *cli.Client, name string) (*pb.TuningGain, error) {
					return c.Jobs.GetTuningGain(ctx, &pb.GetTuningGainRequest{Name: name})
				}, printGain)
		},
	}
}

func printGain(out io.Writer, g *pb.TuningGain) error {
	if why := g.GetNoGainReason(); why != "" {
		_, err := fmt.Fprintf(out, "nothing is compared: %s\n", why)
		return err
	}
	saved := g.GetSavedHours()
	verdict := "no clear gain"
	switch {
	case saved.GetLow() > 0:
		verdict = "it saves delay"
	case saved.GetHigh() < 0:
		verdict = "it costs delay"
	}
	table.Strong(out, fmt.Sprintf("revision %d: %s, %s to %s", g.GetRevision(), verdict, cli.Instant(g.GetStartTime()),
		cli.Instant(g.GetEndTime())))
	fmt.Fprintln(out)
	band := func(b *pb.TuningGain_Band) string {
		return fmt.Sprintf("%s (%s to %s)", cli.ThreeDigits(b.GetMiddle()), cli.ThreeDigits(b.GetLow()),
			cli.ThreeDigits(b.GetHigh()))
	}
	t := table.New(out, "delay\tjob-hours\t")
	fmt.Fprintf(t, "observed\t%s of %s, %d jobs\n", cli.ThreeDigits(g.GetDelayHours()),
		cli.ThreeDigits(g.GetJobHours()), g.GetJobCount())
	fmt.Fprintf(t, "simulated\t%s\n", band(g.GetReplayedDelayHours()))
	fmt.Fprintf(t, "simulated, with the registered defaults\t%s\n", band(g.GetDefaultDelayHours()))
	fmt.Fprintf(t, "simulated, saved\t%s\n", band(saved))
	return t.Flush()
}
