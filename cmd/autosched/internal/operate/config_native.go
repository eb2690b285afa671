package operate

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/adapter"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/schema"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

func newConfigRenderCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		ValidArgsFunction: cli.CompleteSchedulers(f),
		Use:               "render SCHEDULER",
		Short:             "Print a configuration as the scheduler's own configuration file",
		Long: `Prints the configuration that a scheduler should run, or another revision, as its
configuration file: in the options of the scheduler's published release where there is one,
otherwise by parameter. 'autosched scheduler adapter file' writes the same.`,
		Example: `  autosched scheduler config render tiresias
  autosched scheduler config render tiresias --revision 3 >tiresias.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if revision < 0 {
				return cli.Usage(fmt.Errorf("--revision: %d is negative", revision))
			}
			return f.About(cmd, args, func(ctx context.Context, c *cli.Client, name string) error {
				form, got, values, err := getNative(ctx, c, name, revision)
				if err != nil {
					return err
				}
				text, err := form.Render(values)
				if err != nil {
					return fmt.Errorf("%s: %w", got.GetName(), err)
				}
				w := cmd.OutOrStdout()
				if f.JSON {
					return schema.Write(w, "rendered-configuration/v1",
						map[string]any{"configuration": got.GetName(), "text": string(text)})
				}
				_, err = w.Write(text)
				return err
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "this revision instead of the current one")
	return cmd
}

// getNative is a revision of a scheduler, 0 for the current one, with its values, and the form of the scheduler's
// configuration file.
func getNative(ctx context.Context, c *cli.Client, name string, revision int64) (native.Form, *pb.Configuration,
	space.Values, error) {
	s, err := c.Tuning.GetScheduler(ctx, &pb.GetSchedulerRequest{Name: name})
	if err != nil {
		return nil, nil, nil, err
	}
	got, err := getConfiguration(ctx, c, name, revision)
	if err != nil {
		return nil, nil, nil, err
	}
	values, err := adapter.FromProto(got.GetParameters())
	return adapter.FormOf(s.GetSpec().GetSchedulerType()), got, values, err
}
