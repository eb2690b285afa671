package serve

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "github.com/autosched/autosched/api/autosched/v1"
	"github.com/autosched/autosched/controller/audit"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/service/store"
)

func newAuditCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show and verify who changed what, when and why",
		Long: `The service writes one record of every change of a scheduler, of its configurations
and of what it runs, together with the change. Each record has the SHA-256 of the one
before: a record that was altered, removed or moved is found. Records missing at the
end are found with the hash of a later state (--head), such as one the service logged.`,
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
	w := cli.NewTable(out, "RECORD\tTIME\tACTOR\tVERB\tSCHEDULER\tOFFERED\tREASON\tCHANGES")
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
			r.GetRevisionBefore(), r.GetRevisionAfter(), cmp.Or(r.GetReason(), "-"), strings.Join(fields, " "))
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
