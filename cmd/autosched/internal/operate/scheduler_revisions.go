package operate

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
)

func newSchedulerRevisionsCmd(f *cli.ClientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "revisions NAME",
		Short: "List the revisions of a scheduler: its spaces, clusters and objectives",
		Long: `Lists the revisions of a scheduler, newest first: every change of its parameters,
constraints, cluster or objective is one. With --json they are whole. 'autosched admin audit
list NAME' shows who changed what.`,
		Example:           "  autosched scheduler revisions tiresias",
		ValidArgsFunction: cli.CompleteSchedulers(f),
		RunE: cli.Asks(f, cli.SchedulerArg,
			func(ctx context.Context, c *cli.Client, name string) (*pb.ListSchedulerRevisionsResponse, error) {
				return cli.Pages(func(page string) (*pb.ListSchedulerRevisionsResponse, error) {
					return c.Tuning.ListSchedulerRevisions(ctx,
						&pb.ListSchedulerRevisionsRequest{Parent: name, PageSize: 1000, PageToken: page})
				})
			}, printSchedulerRevisions),
	}
}

func printSchedulerRevisions(out io.Writer, all *pb.ListSchedulerRevisionsResponse) error {
	w := cli.NewTable(out, "REVISION\tSINCE\tCLUSTER\tOBJECTIVE\tSPACE")
	for _, r := range all.GetSchedulerRevisions() {
		if r.GetError() != "" {
			fmt.Fprintf(w, "%d\t-\t-\t-\t%s\n", r.GetRevision(), r.GetError())
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%dx%d\t%s\t%s, %s\n", r.GetRevision(), cli.Instant(r.GetCreateTime()),
			r.GetCluster().GetNodes(), r.GetCluster().GetGpusPerNode(),
			r.GetObjective().GetMetricId()+r.GetObjective().GetGoal(),
			cli.Plural(len(r.GetParameters()), "parameter"), cli.Plural(len(r.GetConstraints()), "rule"))
	}
	return w.Flush()
}
