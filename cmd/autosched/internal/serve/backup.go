package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/service/store"
)

func newBackupCmd() *cobra.Command {
	var f cli.ClientFlags
	var out string
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Write a backup of a running service",
		Long: `Writes everything that a running service keeps (schedulers, configurations,
acknowledgements, audit log, rounds, events, findings; not telemetry) into one file,
as it is at that moment, while the service goes on. It needs the role admin.

The file is a tar archive with a manifest of SHA-256 sums, compressed if its name
ends in .zst or .gz. It has its name once it is complete, and is read and compared
with the manifest then. 'autosched admin restore' makes a directory of it.`,
		Example: "  autosched admin backup --out backup.tar.zst\n  autosched admin restore --backup backup.tar.zst --dir restored",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return cli.Usage(errors.New("--out is missing: name the file of the backup"))
			}
			if _, err := os.Stat(out); err == nil {
				return fmt.Errorf("--out: %s exists already: name another file, or move it away", out)
			}
			var m *store.Manifest
			err := f.Call(cmd.Context(), true, func(ctx context.Context, c *cli.Client) error {
				return cli.ThroughFile(cmd, out, func(path string) (err error) {
					m, err = backup(ctx, c, path)
					return err
				})
			})
			if err != nil {
				return err
			}
			return showManifest(cli.ReportWriter(cmd, out), f.JSON, m, "%s: %s, %.1f MiB, verified\n", out)
		},
	}
	f.Add(cmd)
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, - for standard output (required)")
	return cmd
}

func showManifest(out io.Writer, asJSON bool, m *store.Manifest, format, name string) error {
	return cli.Show(out, asJSON, "backup/v1", m, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format, name, units.Plural(len(m.Files), "file"), float64(m.Size())/(1<<20))
		return err
	})
}

// backup writes a file and verifies it. One that is not whole is removed.
func backup(ctx context.Context, c *cli.Client, path string) (m *store.Manifest, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Maintenance.Backup(ctx, &pb.BackupRequest{})
	if err != nil {
		return nil, err
	}
	err = atomicfile.WritePrivate(path, func(w io.Writer) error {
		for {
			part, err := stream.Recv()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := w.Write(part.GetData()); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if m, err = cli.ReadFile(path, store.VerifyBackup); err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	return m, err
}

func newRestoreCmd() *cobra.Command {
	var from, dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make a directory for the service of a backup",
		Long: `Makes a directory for 'autosched serve' of a file that 'autosched admin backup' wrote. The
directory must be empty or not there: an existing store is never overwritten. The
file is compared with its manifest and its config.db is read first; after an error
the directory is as it was.`,
		Example: "  autosched admin restore --backup backup.tar.zst --dir restored\n  autosched serve --dir restored",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case from == "":
				return cli.Usage(errors.New("--backup is missing: name the file of the backup"))
			case dir == "":
				return cli.Usage(errors.New("--dir is missing: name the directory to make"))
			}
			in, err := atomicfile.Open(from)
			if err != nil {
				return fmt.Errorf("--backup: %w", err)
			}
			defer in.Close()
			m, err := store.Restore(in, dir)
			if err != nil {
				return fmt.Errorf("%s: %w", from, err)
			}
			return showManifest(cmd.OutOrStdout(), asJSON, m, "%s: %s, %.1f MiB, of "+m.Created.Format(time.RFC3339)+"\n", dir)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&from, "backup", "", "file of the backup (required)")
	fl.StringVar(&dir, "dir", "", "(required; made, or empty)")
	fl.BoolVar(&asJSON, "json", false, "")
	return cmd
}
