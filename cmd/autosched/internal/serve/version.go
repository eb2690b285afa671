package serve

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
)

func newVersionCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version of the program and of its simulator",
		Long: `Shows the version, the commit it was built from, the version of the simulator and
that of Go. Results of different versions of the simulator cannot be compared:
reports and caches name it.`,
		Example: "  autosched admin version\n  autosched admin version --json",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := cli.Built()
			return cli.Show(cmd.OutOrStdout(), asJSON, "version/v1", b, func(w io.Writer) error {
				_, err := io.WriteString(w, b.Text())
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON for programs")
	return cmd
}
