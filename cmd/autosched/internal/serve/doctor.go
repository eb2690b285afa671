package serve

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/service/doctor"
)

type doctorOptions struct {
	cli.ClientFlags
	dir    string
	config string
}

func newDoctorCmd() *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a service, or the directory of one that is stopped",
		Long: `Checks the directory of a stopped service (--dir): its files and every record in
them, permissions, disk space, the clock. Nothing is written.

Or checks a running service (--server): whether changes and events are stored, its
files, disk space, schedulers and rounds, certificates, the clock, the version.

--settings checks a file of settings, the certificates and roles it names, and
the directory it names unless --server is given.

Each line begins with ok, warn or fail and says what to do. The exit code is 1 if a
check failed.`,
		Example: "  autosched admin doctor --dir data\n  autosched admin doctor --server 127.0.0.1:7443 --json\n" +
			"  autosched admin doctor --settings serve.yaml",
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			running := cmd.Flags().Changed("server")
			var d checkup.Report
			if o.config != "" {
				if dir := checkSettings(&d, o.config, time.Now()); o.dir == "" && !running {
					o.dir = dir
				}
			}
			switch {
			case running && o.dir != "" || !running && o.dir == "" && o.config == "":
				return cli.Usage(errors.New("want either --dir, of a stopped service, or --server, of a running one"))
			case running:
				checkService(cmd.Context(), &d, &o.ClientFlags, time.Now)
			case o.dir != "":
				if _, err := os.Stat(o.dir); o.config != "" && errors.Is(err, os.ErrNotExist) {
					d.OK("directory", "%s is not there yet: 'autosched serve' makes it", o.dir)
				} else {
					doctor.Directory(&d, o.dir, time.Now())
				}
			}
			if err := cli.Show(cmd.OutOrStdout(), o.JSON, "diagnosis/v1", &d, d.Print); err != nil {
				return err
			}
			return d.Err()
		},
	}
	o.ClientFlags.Add(cmd)
	cmd.Flags().StringVar(&o.dir, "dir", "", "")
	cmd.Flags().StringVar(&o.config, "settings", "", "")
	return cmd
}

// checkSettings checks a file of settings with the files it names, and returns its directory of data.
func checkSettings(d *checkup.Report, path string, now time.Time) (dir string) {
	cmd, o := serveCommand()
	if err := cli.ReadSettings(path, cmd.Flags()); err != nil {
		d.Fail("settings", "correct it; 'autosched serve --help' lists the keys", "%v", err)
		return o.dir
	}
	if err := o.check(); err != nil {
		d.Fail("settings", "correct "+path, "%v", err)
		return o.dir
	}
	d.OK("settings", "%s is correct", path)
	files, err := access.Open(o.access.Files, access.Options{})
	if err != nil {
		d.Fail("access", "correct it, or replace it from a backup", "%v", err)
		return o.dir
	}
	for _, f := range []string{o.access.Files.Key, o.access.Files.Roles} {
		if info, err := os.Stat(f); f != "" && err == nil && info.Mode().Perm()&0o077 != 0 {
			d.Warn("access", "chmod 600 "+f, "%s may be read by other users: its mode is %04o", f, info.Mode().Perm())
		}
	}
	switch end := files.Expires(); {
	case end.IsZero():
		d.OK("certificate", "connections are not encrypted")
	case now.After(end):
		d.Fail("certificate", "replace it and its key", "%s expired at %s", o.access.Files.Cert,
			end.UTC().Format(time.RFC3339))
	case now.Add(access.ExpiresSoon).After(end):
		d.Warn("certificate", "replace it and its key", "%s expires at %s", o.access.Files.Cert,
			end.UTC().Format(time.RFC3339))
	default:
		d.OK("certificate", "%s is valid until %s", o.access.Files.Cert, end.UTC().Format(time.RFC3339))
	}
	return o.dir
}

// checkService checks a running service.
func checkService(ctx context.Context, d *checkup.Report, f *cli.ClientFlags, now func() time.Time) {
	var answer *pb.DiagnoseResponse
	var before, after time.Time
	err := f.Call(ctx, false, func(ctx context.Context, c *cli.Client) (err error) {
		before = now()
		answer, err = c.Maintenance.Diagnose(ctx, &pb.DiagnoseRequest{})
		after = now()
		return err
	})
	if err != nil {
		d.Fail("connection", "see docs/troubleshooting.md", "%v", err)
		return
	}
	d.OK("connection", "%s answers", f.Server)
	for _, c := range answer.GetChecks() {
		d.Checks = append(d.Checks, checkup.Check{Name: c.GetCheck(),
			Status: checkup.Status(cli.EnumWord(c.GetStatus())),
			Detail: c.GetDetail(), Action: c.GetAction()})
	}
	const clocks = "synchronise the clocks: certificates and tokens depend on them"
	at := answer.GetTime().AsTime()
	switch skew := max(before.Sub(at), at.Sub(after)); {
	case skew > doctor.MaxSkew:
		d.Warn("clock", clocks, "the service's clock differs by %v", skew.Round(time.Second))
	default:
		d.OK("clock", "the service's clock agrees")
	}
	if mine := cli.Built().Version; answer.GetVersion() != mine {
		d.Warn("version", "use the same version on both sides", "the service is %s, this program %s",
			answer.GetVersion(), mine)
	} else {
		d.OK("version", "%s", mine)
	}
}
