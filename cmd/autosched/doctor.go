package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/api/server"
	"github.com/autosched/autosched/rollout"
	"github.com/autosched/autosched/service/store"
)

// check is one thing that doctor looked at.
type check struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn, fail
	Detail string `json:"detail"`
	Action string `json:"action,omitempty"` // what to do
}

// diagnosis is the result of doctor.
type diagnosis struct {
	Checks []check `json:"checks"`
}

func (d *diagnosis) ok(name, format string, args ...any) {
	d.Checks = append(d.Checks, check{name, "ok", fmt.Sprintf(format, args...), ""})
}

func (d *diagnosis) warn(name, action, format string, args ...any) {
	d.Checks = append(d.Checks, check{name, "warn", fmt.Sprintf(format, args...), action})
}

func (d *diagnosis) fail(name, action, format string, args ...any) {
	d.Checks = append(d.Checks, check{name, "fail", fmt.Sprintf(format, args...), action})
}

func (d *diagnosis) print(w io.Writer) error {
	for _, c := range d.Checks {
		line := fmt.Sprintf("%-4s  %-12s  %s", c.Status, c.Check, c.Detail)
		if c.Action != "" {
			line += "\n" + strings.Repeat(" ", 20) + "-> " + c.Action
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// err is not nil if a check failed.
func (d *diagnosis) err() error {
	n := 0
	for _, c := range d.Checks {
		if c.Status == "fail" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s failed", plural(n, "check"))
}

type doctorOptions struct {
	clientFlags
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

--config checks a file of settings, the certificates and roles it names, and
the directory it names unless --server is given.

Each line begins with ok, warn or fail and says what to do. The exit code is 1 if a
check failed.`,
		Example: "  autosched doctor --dir data\n  autosched doctor --server 127.0.0.1:7443 --json\n" +
			"  autosched doctor --config serve.yaml",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			running := cmd.Flags().Changed("server")
			var d diagnosis
			if o.config != "" {
				if dir := checkSettings(&d, o.config, time.Now()); o.dir == "" && !running {
					o.dir = dir
				}
			}
			switch {
			case running && o.dir != "" || !running && o.dir == "" && o.config == "":
				return usageError{errors.New("want either --dir, of a stopped service, or --server, of a running one")}
			case running:
				checkService(cmd.Context(), &d, &o.clientFlags, time.Now)
			case o.dir != "":
				if _, err := os.Stat(o.dir); o.config != "" && errors.Is(err, os.ErrNotExist) {
					d.ok("directory", "%s is not there yet: 'autosched serve' makes it", o.dir)
				} else {
					checkDirectory(&d, o.dir, time.Now())
				}
			}
			if err := show(cmd.OutOrStdout(), o.json, "diagnosis/v1", &d, d.print); err != nil {
				return err
			}
			return d.err()
		},
	}
	o.clientFlags.add(cmd)
	cmd.Flags().StringVar(&o.dir, "dir", "", "directory of a stopped service (default: that of --config)")
	cmd.Flags().StringVar(&o.config, "config", "", "file of settings of 'autosched serve'")
	return cmd
}

// checkSettings checks a file of settings with the files it names, and returns its directory of data.
func checkSettings(d *diagnosis, path string, now time.Time) (dir string) {
	cmd, o := serveCommand()
	if err := readSettings(path, cmd.Flags()); err != nil {
		d.fail("settings", "correct it; 'autosched serve --help' lists the keys", "%v", err)
		return o.dir
	}
	if err := o.check(); err != nil {
		d.fail("settings", "correct "+path, "%v", err)
		return o.dir
	}
	d.ok("settings", "%s is correct", path)
	files, err := access.Open(o.access.files, access.Options{})
	if err != nil {
		d.fail("access", "correct it, or replace it from a backup", "%v", err)
		return o.dir
	}
	defer files.Close()
	for _, f := range []string{o.access.files.Key, o.access.files.Roles} {
		if info, err := os.Stat(f); f != "" && err == nil && info.Mode().Perm()&0o077 != 0 {
			d.warn("access", "chmod 600 "+f, "%s may be read by other users: its mode is %04o", f, info.Mode().Perm())
		}
	}
	switch end := files.Expires(); {
	case end.IsZero():
		d.ok("certificate", "connections are not encrypted")
	case now.After(end):
		d.fail("certificate", "replace it and its key", "%s expired at %s", o.access.files.Cert,
			end.UTC().Format(time.RFC3339))
	case now.Add(access.ExpiresSoon).After(end):
		d.warn("certificate", "replace it and its key", "%s expires at %s", o.access.files.Cert,
			end.UTC().Format(time.RFC3339))
	default:
		d.ok("certificate", "%s is valid until %s", o.access.files.Cert, end.UTC().Format(time.RFC3339))
	}
	return o.dir
}

// maxSkew is how far clocks may differ before it is a fault.
const maxSkew = 5 * time.Second

// checkService checks a running service.
func checkService(ctx context.Context, d *diagnosis, f *clientFlags, now func() time.Time) {
	var answer *pb.DiagnoseResponse
	var before, after time.Time
	err := f.call(ctx, false, func(ctx context.Context, c *client) (err error) {
		before = now()
		answer, err = c.upkeep.Diagnose(ctx, &pb.DiagnoseRequest{})
		after = now()
		return err
	})
	if err != nil {
		d.fail("connection", "see docs/troubleshooting.md", "%v", err)
		return
	}
	d.ok("connection", "%s answers", f.server)
	for _, c := range answer.GetChecks() {
		d.Checks = append(d.Checks, check{c.GetCheck(), enumWord(c.GetStatus()), c.GetDetail(), c.GetAction()})
	}
	const clocks = "synchronise the clocks: certificates and tokens depend on them"
	at := answer.GetTime().AsTime()
	switch skew := max(before.Sub(at), at.Sub(after)); {
	case skew > maxSkew:
		d.warn("clock", clocks, "the service's clock differs by %v", skew.Round(time.Second))
	default:
		d.ok("clock", "the service's clock agrees")
	}
	if mine := built().Version; answer.GetVersion() != mine {
		d.warn("version", "use the same version on both sides", "the service is %s, this program %s",
			answer.GetVersion(), mine)
	} else {
		d.ok("version", "%s", mine)
	}
}

// checkDirectory checks a store that no service uses.
func checkDirectory(d *diagnosis, dir string, now time.Time) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		d.fail("directory", "name the --dir of 'autosched serve'", "%v", err)
		return
	case !info.IsDir():
		d.fail("directory", "name the --dir of 'autosched serve'", "%s is not a directory", dir)
		return
	case info.Mode().Perm()&0o077 != 0:
		d.warn("directory", "chmod 700 "+dir, "%s may be entered by other users: its mode is %04o", dir,
			info.Mode().Perm())
	default:
		d.ok("directory", "%s, mode %04o", dir, info.Mode().Perm())
	}
	r, err := store.Inspect(dir)
	switch {
	case errors.Is(err, store.ErrLocked):
		d.fail("lock", "stop the service first, or use --server", "%v", err)
		return
	case errors.Is(err, store.ErrNewer):
		d.fail("layout", "run the version of autosched that wrote it", "%v", err)
		return
	case err != nil:
		d.fail("files", "see that this user may read the directory", "%v", err)
		return
	}
	if r.Layout > 0 {
		d.ok("layout", "layout %d, for readers of version %d or later", r.Layout, r.Reader)
	}
	checkFiles(d, dir, r)
	checkRecords(d, r, now)
	if head, err := verifyDir(dir, ""); err != nil {
		d.fail("audit", "see 'autosched audit verify --help'; what follows the record is not to be trusted", "%v", err)
	} else {
		d.ok("audit", "%s, unbroken", plural(int(head.Sequence), "record"))
	}
	checkDisk(d, dir)
}

const restoreIt = "restore a backup ('autosched restore'), or see docs/service.md#what-a-damaged-store-costs"

func checkFiles(d *diagnosis, dir string, r *store.Report) {
	events := 0
	for _, f := range r.Files {
		events += f.Events
		switch {
		case f.Damage != nil && f.Name == store.ConfigFile:
			d.fail("file", restoreIt, "%s: %v", f.Name, f.Damage)
		case f.Damage != nil:
			d.warn("file", "its readable part counts; restore a backup to get the rest", "%s: %v", f.Name, f.Damage)
		}
		if info, err := os.Stat(filepath.Join(dir, f.Name)); err == nil && info.Mode().Perm()&0o077 != 0 {
			d.warn("file", "chmod 600 "+filepath.Join(dir, f.Name), "%s may be read by other users: its mode is %04o",
				f.Name, info.Mode().Perm())
		}
	}
	d.ok("files", "%s, %s that can be read", plural(len(r.Files), "file"), plural(events, "event"))
	if len(r.Others) > 0 {
		d.warn("others", "move away what is not needed", "the store does not read %s", strings.Join(r.Others, ", "))
	}
}

// checkRecords checks what config.db holds.
func checkRecords(d *diagnosis, r *store.Report, now time.Time) {
	latest := time.Time{}
	for _, s := range r.Schedulers {
		lost := 0
		for _, c := range s.Configurations {
			if c.State == rollout.Lost {
				lost++
			}
			if c.Updated.After(latest) {
				latest = c.Updated
			}
		}
		switch {
		case s.Fault != nil:
			d.fail("scheduler", restoreIt, "%s will be quarantined: %v", s.Scheduler.ID, s.Fault)
		case lost > 0:
			d.warn("scheduler", restoreIt, "%s lost the values of %s", s.Scheduler.ID, plural(lost, "revision"))
		}
	}
	d.ok("schedulers", "%s", plural(len(r.Schedulers), "scheduler"))
	checkStudies(d, r)
	if latest.After(now.Add(maxSkew)) {
		d.warn("clock", "set this machine's clock", "a record is of %s, and the clock shows %s",
			latest.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	} else {
		d.ok("clock", "no record is newer than the clock")
	}
}

// checkStudies checks studies and their trials.
func checkStudies(d *diagnosis, r *store.Report) {
	read := map[string]bool{}
	trials := 0
	for _, s := range r.Studies {
		trials += len(s.State.Trials)
		read[s.Scheduler+"/"+s.State.ID] = true
	}
	for _, damage := range r.StudyDamage {
		var c *store.CorruptError
		if !errors.As(damage.Err, &c) {
			continue
		}
		name := path.Base(c.Bucket) + "/" + c.Key
		if read[name] {
			d.warn("study", restoreIt, "%s lost %s: %v", name, plural(damage.Records, "trial"), damage.Err)
			trials -= damage.Records
		} else {
			d.fail("study", restoreIt, "%s cannot be read: %v", name, damage.Err)
		}
	}
	d.ok("studies", "%d, %s that can be read", len(r.Studies), plural(trials, "trial"))
}

func checkDisk(d *diagnosis, dir string) {
	free, size, err := store.Space(dir)
	text := fmt.Sprintf("%d of %d MiB are free", free>>20, size>>20)
	switch state := server.DiskState(free); {
	case err != nil:
		d.warn("disk", "see the system's log", "%v", err)
	case state == 2:
		d.fail("disk", "free space on the disk of "+dir, "%s", text)
	case state == 1:
		d.warn("disk", "free space on the disk of "+dir, "%s", text)
	default:
		d.ok("disk", "%s", text)
	}
}
