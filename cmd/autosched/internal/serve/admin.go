package serve

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/api/access"
	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/checkup"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/table"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/round"
	"github.com/autosched/autosched/service/doctor"
	"github.com/autosched/autosched/service/store"
)

func newAuditCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show and verify who changed what, when and why",
		Long: `The service writes one record of every change of a scheduler, of its configurations
and of what it runs, together with the change. The records of a scheduler form a chain,
each with the SHA-256 of the one before, and once a day an anchor takes in the heads of
all chains: a record that was altered or moved is found, a removed one by the record or
the anchor after it. Records missing at the end are found with the hash of a later state
(--head), such as one the service logged.`,
	}
	cmd.AddCommand(newAuditListCmd(), newAuditExportCmd(), newAuditVerifyCmd())
	return cmd
}

// auditPage is the most records that one call returns.
const auditPage = 1000

func newAuditListCmd() *cobra.Command {
	var f cli.ClientFlags
	var limit int32
	var l cli.ListFlags
	cmd := &cobra.Command{
		Use:   "list [SCHEDULER]",
		Short: "List who changed what, newest first",
		Long: `Prints the newest records of the audit log, of one scheduler or of all: who changed what
and why, the revision that was offered before and after, and the fields that differ.
--json has their values.`,
		Example: `  autosched admin audit list
  autosched admin audit list tiresias --limit 5 --json`,
		ValidArgsFunction: cli.CompleteSchedulers(&f),
		Args:              atMostOne("scheduler"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > auditPage {
				return cli.Usage(fmt.Errorf("--limit: %d is not from 1 to %d", limit, auditPage))
			}
			req := &pb.ListAuditRecordsRequest{PageSize: limit, Filter: l.Filter}
			if len(args) == 1 {
				req.Resource, _ = cli.SchedulerArg(args)
			}
			return f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				got, err := c.Audit.ListAuditRecords(ctx, req)
				return f.Answer(cmd, got, err, func(w io.Writer) error { return printAuditRecords(w, got) })
			})
		},
	}
	f.Add(cmd)
	cmd.Flags().Int32Var(&limit, "limit", 20, "")
	l.Add(cmd, false)
	return cmd
}

// maxChanges is the most fields that a line of a table names.
const maxChanges = 3

func printAuditRecords(out io.Writer, list *pb.ListAuditRecordsResponse) error {
	if len(list.GetAuditRecords()) == 0 {
		_, err := fmt.Fprintln(out, "nothing has been changed yet")
		return err
	}
	w := table.New(out, "RECORD\tTIME\tACTOR\tVERB\tSCHEDULER\tOFFERED\tREASON\tCHANGES")
	for _, r := range list.GetAuditRecords() {
		var fields []string
		for _, x := range r.GetFields() {
			if !strings.HasSuffix(x.GetName(), ".origin") && !strings.HasSuffix(x.GetName(), ".sha256") {
				fields = append(fields, x.GetName())
			}
		}
		if more := len(fields) - maxChanges; more > 0 {
			fields = append(fields[:maxChanges], fmt.Sprintf("+%d", more))
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d to %d\t%s\t%s\n", r.GetSequence(),
			cli.Instant(r.GetCreateTime()), r.GetActor(), r.GetVerb(), cli.ShortName(r.GetResource()),
			r.GetRevisionBefore(), r.GetRevisionAfter(), cmp.Or(cli.OneLine(r.GetReason()), "-"), strings.Join(fields, " "))
	}
	if list.GetNextPageToken() != "" {
		fmt.Fprintln(w, "... more (--limit)")
	}
	return w.Flush()
}

func newAuditExportCmd() *cobra.Command {
	var f cli.ClientFlags
	var to string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the audit log, a JSON line a record, oldest first",
		Long: `Writes all records as they are stored, {"hash": ..., "record": ...} on each line, for
'autosched admin audit verify' and other programs.`,
		Example: `  autosched admin audit export -o audit.jsonl
  autosched admin audit verify audit.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := os.Stat(to); to != "-" && err == nil {
				return fmt.Errorf("--out: %s exists already: name another file, or move it away", to)
			}
			var lines []string
			head := ""
			err := f.Call(cmd.Context(), false, func(ctx context.Context, c *cli.Client) error {
				for req := (&pb.ListAuditRecordsRequest{PageSize: auditPage}); ; {
					got, err := c.Audit.ListAuditRecords(ctx, req)
					if err != nil {
						return err
					}
					for _, r := range got.GetAuditRecords() {
						lines = append(lines, r.GetLine())
						head = cmp.Or(head, r.GetContentHash())
					}
					if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
						return nil
					}
				}
			})
			if err != nil {
				return err
			}
			err = cli.WriteOutput(cmd, to, func(w io.Writer) error {
				b := bufio.NewWriter(w)
				for _, line := range slices.Backward(lines) {
					_, _ = fmt.Fprintln(b, line) // Flush has the error
				}
				return b.Flush()
			})
			if err == nil {
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s; the head is %s\n", units.Plural(len(lines), "record"),
					cmp.Or(head, "none"))
			}
			return err
		},
	}
	f.ConnectFlags.Add(cmd)
	cmd.Flags().DurationVar(&f.Timeout, "timeout", time.Minute, "")
	cmd.Flags().StringVarP(&to, "out", "o", "-", "file to write, - for standard output")
	return cmd
}

var sha256Hex = regexp.MustCompile(`^[0-9a-f]{64}$`)

func newAuditVerifyCmd() *cobra.Command {
	var dir, head string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Verify the chain of the audit log",
		Long: `Verifies a file that 'autosched admin audit export' wrote, - for standard input, or the
directory of a stopped service or of a backup (--dir), which it does not change. It
prints the head, the number and hash of the last record, or ends with an error that
names the first broken record.

With --head it also finds that records are missing at the end: the log must hold the
record with this hash.`,
		Example: `  autosched admin audit verify audit.jsonl
  autosched admin audit verify --dir data`,
		Args: atMostOne("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (len(args) == 1) == (dir != ""):
				return cli.Usage(errors.New("name either a file or a directory (--dir)"))
			case head != "" && !sha256Hex.MatchString(head):
				return cli.Usage(fmt.Errorf("--head: %q is not a SHA-256 in hexadecimal", head))
			}
			var got *audit.Head
			var err error
			if dir != "" {
				got, err = store.VerifyAudit(dir, head)
			} else {
				got, err = cli.ReadInput(cmd, args[0], func(log io.Reader) (*audit.Head, error) {
					got, err := audit.Verify(log, head)
					return &got, err
				})
			}
			if err != nil {
				return err
			}
			result := struct {
				Records int64  `json:"records"`
				Head    string `json:"head"`
			}{got.Sequence, got.Hash}
			return cli.Show(cmd.OutOrStdout(), asJSON, "audit-verification/v1", result, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s, unbroken; the head is %s\n", units.Plural(int(got.Sequence), "record"),
					cmp.Or(got.Hash, "none"))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "")
	cmd.Flags().StringVar(&head, "head", "", "hash of a record that the log must hold")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

// atMostOne refuses more arguments than the one that a command takes.
func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return cli.Usage(fmt.Errorf("%s takes one %s; what is %q?", cli.CommandName(cmd), what, args[1]))
		}
		return nil
	}
}

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
	return m, atomicfile.SyncDir(filepath.Dir(path))
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

// compaction is the size of the files of a service.
type compaction struct {
	Dir    string `json:"dir,omitempty"` // of a stopped one
	Before int64  `json:"bytes_before"`
	After  int64  `json:"bytes_after"`
}

func newCompactCmd() *cobra.Command {
	var f cli.ClientFlags
	var c compaction
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Give the free pages of a service's files back to the disk",
		Long: `Rewrites config.db and the files of rounds, reports and workloads without their free
pages: of a running service (--server), which answers meanwhile, or in the directory
of a stopped one (--dir). Records and the epoch stay. A file is replaced once its copy,
for which the disk must have room, is on disk.`,
		Example: "  autosched admin compact --server 127.0.0.1:7443\n  autosched admin compact --dir data",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			name := c.Dir
			switch running := cmd.Flags().Changed("server"); {
			case running == (c.Dir != ""):
				return cli.Usage(errors.New("want either --dir, of a stopped service, or --server, of a running one"))
			case running:
				name = f.Server
				err = f.Call(cmd.Context(), true, func(ctx context.Context, client *cli.Client) error {
					answer, err := client.Maintenance.Compact(ctx, &pb.CompactRequest{})
					c.Before, c.After = answer.GetBytesBefore(), answer.GetBytesAfter()
					return err
				})
			default:
				c.Before, c.After, err = store.Compact(c.Dir)
			}
			if err != nil {
				return err
			}
			return cli.Show(cmd.OutOrStdout(), f.JSON, "compaction/v1", &c, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %.1f MiB, before %.1f MiB\n", name, float64(c.After)/(1<<20),
					float64(c.Before)/(1<<20))
				return err
			})
		},
	}
	f.Add(cmd)
	cmd.Flags().StringVar(&c.Dir, "dir", "", "")
	return cmd
}

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

func newReplayCmd() *cobra.Command {
	var dir string
	var workers int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay SCHEDULER ROUND --dir DIR",
		Short: "Decide a stored round again and compare it bit for bit",
		Long: `Replay reads the directory of a stopped service, or of a backup that 'autosched admin restore'
unpacked, and changes nothing in it. It makes the input of a round again from the events
up to it, compares its SHA-256 with that of the round, decides, and compares the decision,
each candidate and its objective in each future. It ends with an error that names the first
difference, such as events that were dropped since or another version of the program.`,
		Example: `  autosched admin backup --out backup.tar.zst
  autosched admin restore --backup backup.tar.zst --dir copy
  autosched admin replay tiresias 17 --dir copy`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 2:
				return cli.Usage(errors.New("want a scheduler and the number of a round; " +
					"'autosched scheduler rounds list SCHEDULER' shows them"))
			case dir == "":
				return cli.Usage(errors.New("--dir is missing: name the directory of the service's data"))
			case workers < 0:
				return cli.Usage(fmt.Errorf("--workers: %d is negative", workers))
			}
			sequence, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || sequence < 1 {
				return cli.Usage(fmt.Errorf("%q is not the number of a round, from 1", args[1]))
			}
			id := strings.TrimPrefix(args[0], "schedulers/")
			again, err := replayRound(cmd.Context(), dir, id, sequence, workers)
			if err != nil {
				return err
			}
			err = cli.Show(cmd.OutOrStdout(), asJSON, "replay/v1", again, func(w io.Writer) error {
				if again.Difference != "" {
					return nil
				}
				candidates := 0
				if again.Decision != nil {
					candidates = len(again.Decision.Candidates)
				}
				_, err := fmt.Fprintf(w, "round %d of %s is the same again: %s, %s\n", sequence, id,
					units.Plural(int(again.Events), "event"), units.Plural(candidates, "candidate"))
				return err
			})
			if err == nil && again.Difference != "" {
				err = fmt.Errorf("round %d of %s is not the same again: %s", sequence, id, again.Difference)
				if again.Unread != nil {
					err = fmt.Errorf("%w; %w", err, again.Unread)
				}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "")
	cmd.Flags().IntVar(&workers, "workers", 0, "")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

func replayRound(ctx context.Context, dir, id string, sequence int64, workers int) (
	*controller.Repetition, error) {
	r, err := store.OpenReader(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	saved, _, _, err := r.Load()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(saved, func(s controller.Saved) bool { return s.Scheduler.ID == id })
	switch {
	case i < 0:
		return nil, fmt.Errorf("%s has no scheduler %q", dir, id)
	case saved[i].Fault != nil:
		return nil, saved[i].Fault
	}
	var record *controller.RoundRecord
	err = r.Rounds(saved[i].Scheduler.UID, sequence+1, func(n int64, text []byte, err error) bool {
		if n == sequence {
			record = controller.DecodeRound(n, text, err)
		}
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case record == nil:
		return nil, fmt.Errorf("%s has no round %d of %s: it is not kept any more, or there was none", dir, sequence,
			id)
	case record.Damage != nil:
		return nil, record.Damage
	}
	return controller.RepeatRound(ctx, r, &saved[i], record, round.DecideOnline, workers)
}
