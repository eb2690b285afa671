package serve

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/service/jet"
)

func newMigrateCmd() *cobra.Command {
	var dir, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move the records of a stopped service to a cluster",
		Long: `Moves the records in the directory of a stopped service to a cluster that has none yet.
Run it on each node before serve: with --dir on the one that has the directory, and
without on the others, whose servers take part until the records are there. They are
read back and compared; then no program serves from the directory any more, and the
nodes serve under a new epoch. A move that failed can be repeated. Telemetry and
findings stay in the directory. The way back is admin backup and admin restore.`,
		Example: "  autosched admin migrate --cluster node-a.yaml --dir data\n" +
			"  autosched admin migrate --cluster node-b.yaml",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if file == "" {
				return cli.Usage(errors.New("--cluster is required"))
			}
			config, err := jet.ReadConfig(file)
			if err != nil {
				return cli.Usage(fmt.Errorf("--cluster: %w", err))
			}
			log := cli.NewLog(cmd.ErrOrStderr())
			engine, err := jet.Start(cmd.Context(), config, log)
			if err != nil {
				return err
			}
			defer engine.Close()
			if dir == "" {
				return jet.Await(cmd.Context(), engine)
			}
			m, err := jet.Migrate(cmd.Context(), dir, engine, jet.Options{Log: log})
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), asJSON, "migration/v1", m, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "moved: %d schedulers, %d revisions, %d studies, %d events, %d audit records\n"+
					"audit head %s\nepoch %d\n", m.Schedulers, m.Revisions, m.Studies, m.Events, m.Audit, m.Head,
					m.Epoch.Counter)
				return err
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&dir, "dir", "", "")
	fl.StringVar(&file, "cluster", "", "cluster file of a node (required)")
	fl.BoolVar(&asJSON, "json", false, "")
	return cmd
}
