package operate

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

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
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				all := &pb.ListSchedulerRevisionsResponse{}
				for token := ""; ; {
					page, err := c.Tuning.ListSchedulerRevisions(ctx,
						&pb.ListSchedulerRevisionsRequest{Parent: name, PageSize: 1000, PageToken: token})
					if err != nil {
						return err
					}
					all.SchedulerRevisions = append(all.SchedulerRevisions, page.GetSchedulerRevisions()...)
					if token = page.GetNextPageToken(); token == "" {
						break
					}
				}
				return f.Show(cmd, all, func(w io.Writer) error { return printSchedulerRevisions(w, all) })
			})
		},
	}
}

func printSchedulerRevisions(out io.Writer, all *pb.ListSchedulerRevisionsResponse) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REVISION\tSINCE\tCLUSTER\tOBJECTIVE\tSPACE")
	for _, r := range all.GetSchedulerRevisions() {
		if r.GetError() != "" {
			fmt.Fprintf(w, "%d\t-\t-\t-\t%s\n", r.GetRevision(), r.GetError())
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%dx%d\t%s\t%s, %s\n", r.GetRevision(), r.GetCreateTime().AsTime().Format(time.RFC3339),
			r.GetCluster().GetNodes(), r.GetCluster().GetGpusPerNode(),
			r.GetObjective().GetMetricId()+r.GetObjective().GetGoal(),
			cli.Plural(len(r.GetParameters()), "parameter"), cli.Plural(len(r.GetConstraints()), "rule"))
	}
	return w.Flush()
}
