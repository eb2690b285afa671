package operate

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

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

// parsedFile is a scheduler's configuration file by parameter.
type parsedFile struct {
	Parameters space.Values `json:"parameters"`
	// Compared is the configuration that Differences is beside.
	Compared    string             `json:"compared_with"`
	Differences []space.Difference `json:"differences"`
}

func newConfigParseCmd(f *cli.ClientFlags) *cobra.Command {
	var revision int64
	cmd := &cobra.Command{
		Use:   "parse SCHEDULER FILE",
		Short: "Read a scheduler's own configuration file, and compare it with a revision",
		Long: `Prints the parameters of a file in the form that 'autosched scheduler config render' prints, beside those of
the configuration that the scheduler should run, or of another revision. FILE may be - for
standard input. An option that the scheduler does not have is an error.`,
		Example: "  autosched scheduler config parse tiresias tiresias.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Usage(fmt.Errorf("want a scheduler and a file, not %d arguments", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if revision < 0 {
				return cli.Usage(fmt.Errorf("--revision: %d is negative", revision))
			}
			text, err := cli.ReadText(cmd.InOrStdin(), args[1])
			if err != nil {
				return err
			}
			return f.About(cmd, args[:1], func(ctx context.Context, c *cli.Client, name string) error {
				form, got, want, err := getNative(ctx, c, name, revision)
				if err != nil {
					return err
				}
				values, err := form.Parse(text)
				if err != nil {
					return fmt.Errorf("%s: %w", args[1], err)
				}
				r := parsedFile{Parameters: values, Compared: got.GetName(), Differences: []space.Difference{}}
				for _, id := range slices.Sorted(maps.Keys(both(values, want))) {
					if !values[id].Equal(want[id]) {
						r.Differences = append(r.Differences,
							space.Difference{Field: id, From: want[id].String(), To: values[id].String()})
					}
				}
				return cli.Show(cmd.OutOrStdout(), f.JSON, "parsed-configuration/v1", &r,
					func(w io.Writer) error { return printParsed(w, &r, want) })
			})
		},
	}
	cmd.Flags().Int64Var(&revision, "revision", 0, "compare with this revision instead of the current one")
	return cmd
}

func both(a, b space.Values) space.Values {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func printParsed(out io.Writer, r *parsedFile, want space.Values) error {
	w := cli.NewTable(out, "")
	fmt.Fprintf(w, "PARAMETER\tFILE\t%s\n", r.Compared)
	for _, id := range slices.Sorted(maps.Keys(both(r.Parameters, want))) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", id, cli.OrDash(r.Parameters[id].String()), cli.OrDash(want[id].String()))
	}
	return w.Flush()
}
