package traces

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/trace"
)

// traceImportOptions are the flags of trace import.
type traceImportOptions struct {
	input     traceInput
	anonymize anonymizeFlags
	out       string
}

func newTraceImportCmd() *cobra.Command {
	var o traceImportOptions
	cmd := &cobra.Command{
		Use:   "import TRACE --out FILE",
		Short: "Convert a trace from any known format to AutoSched's CSV",
		Long: `Import reads a trace, checks every row, and writes the usable jobs as AutoSched's
own CSV, in order of submission. Faulty rows are rejected, counted and named with
file, line, field and reason. Valid jobs that no simulation can replay are left
out and counted: those without GPU, that never ran or wait. A job that still ran is
kept with its run time so far (status running), and counts in no mean. Nothing is
dropped silently: rows = jobs + rejected + left out + merged.

The file is compressed if its name ends in .gz or .zst. It replaces an existing
file once it is complete. --out - writes to standard output, the report then goes
to standard error.

--anonymize replaces job ids, users, tenants and recurrence keys (which are hashes
of user and job names) by pseudonyms, an HMAC of each. Equal names stay equal, so
that the trace behaves the same. Model classes, times, sizes and status stay. The
key comes from --key-file, which is created with a new key if it does not exist:
keep it to give later traces the same pseudonyms, and keep it secret. Without
--key-file a random key is used once and not stored. The key is never shown.

--shift moves all times, by a span (-8760h), or by "weeks": a number of whole
weeks, one to eleven years back, derived from the key; hour of day and day of the
week stay.`,
		Example: `  autosched trace import jobs.csv.gz --out jobs.autosched.csv.gz
  ` + trace.SacctCommand + ` -S 2026-01-01 |
    autosched trace import - --out slurm.csv.gz
  autosched trace import pai_job_table.csv,pai_task_table.csv,pai_instance_table.csv --out pai.csv.gz
  autosched trace import slurm.psv --anonymize --key-file cluster.key --shift weeks --out shared.csv.zst`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := writeTrace(cmd, o.out, r.workload, r.Machines); err != nil {
				return err
			}
			return cli.Show(cli.ReportWriter(cmd, o.out), o.input.json, "imported-trace/v1", r, r.print)
		},
	}
	o.input.add(cmd)
	o.anonymize.add(cmd)
	cmd.Flags().StringVarP(&o.out, "out", "o", "",
		"file to write, compressed if it ends in .gz or .zst, - for standard output")
	return cmd
}

// check checks all that needs no trace.
func (o *traceImportOptions) check() error {
	if o.out == "" {
		return cli.Usage(errors.New("trace import: --out is missing; to check a trace only, use trace validate"))
	}
	if err := o.anonymize.check(); err != nil {
		return cli.Usage(err)
	}
	return o.input.check()
}

// run reads the trace, and anonymizes it where the flags say so. Notes and rejected
// rows go to notes.
func (o *traceImportOptions) run(ctx context.Context, notes io.Writer) (*traceImport, error) {
	w, report, err := o.input.read(ctx, notes)
	if err != nil {
		if report != nil && report.Rejected > 0 {
			printRejections(notes, report)
		}
		return nil, err
	}
	if w, err = o.anonymize.apply(w, notes); err != nil {
		return nil, err
	}
	return &traceImport{report, o.out, w}, nil
}

// traceImport is the result of trace import.
type traceImport struct {
	*trace.Report

	out      string
	workload *workload.Workload
}

func (r *traceImport) print(w io.Writer) error {
	if err := printReport(w, r.Report); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "written to  %s\n", r.out)
	return err
}

// anonymizeFlags select the columns of a trace to hide.
type anonymizeFlags struct {
	anonymize   bool
	keyFile     string
	keepTenants bool
	shift       string
}

func (o *anonymizeFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.anonymize, "anonymize", false, "replace job ids, users, tenants and recurrence keys by pseudonyms")
	f.StringVar(&o.keyFile, "key-file", "",
		"file with the key of the pseudonyms, created if it does not exist (default: a random key, not stored)")
	f.BoolVar(&o.keepTenants, "keep-tenants", false, "keep the names of tenants")
	f.StringVar(&o.shift, "shift", "",
		`move all times by a span such as -8760h, or by "weeks": whole weeks derived from the key`)
}

const shiftWeeks = "weeks"

func (o *anonymizeFlags) check() error {
	switch {
	case !o.anonymize && o.keyFile != "":
		return errors.New("--key-file: has no use without --anonymize")
	case !o.anonymize && o.keepTenants:
		return errors.New("--keep-tenants: has no use without --anonymize")
	case !o.anonymize && o.shift == shiftWeeks:
		return errors.New("--shift weeks: needs --anonymize, whose key decides how many")
	}
	_, err := o.span(nil)
	return err
}

// span is how far times are moved; key is needed for weeks only.
func (o *anonymizeFlags) span(key []byte) (time.Duration, error) {
	switch o.shift {
	case "":
		return 0, nil
	case shiftWeeks:
		return trace.SecretShift(key), nil
	}
	by, err := time.ParseDuration(o.shift)
	if err != nil {
		return 0, fmt.Errorf("--shift: %q is neither a span such as -8760h nor weeks", o.shift)
	}
	return by, nil
}

// apply anonymizes and shifts a trace.
func (o *anonymizeFlags) apply(w *workload.Workload, notes io.Writer) (*workload.Workload, error) {
	var key []byte
	var err error
	if o.anonymize {
		if key, err = o.key(notes); err != nil {
			return nil, err
		}
		if w, err = trace.Anonymize(w, trace.AnonymizeOptions{Key: key, KeepTenants: o.keepTenants}); err != nil {
			return nil, err
		}
		if models := modelNames(w.Jobs(), 10); len(models) > 0 {
			fmt.Fprintf(notes, "note: model classes are kept: %s\n", strings.Join(models, ", "))
		}
	}
	by, err := o.span(key)
	if err != nil || by == 0 {
		return w, err
	}
	if w, err = trace.Shift(w, by); err != nil {
		return nil, cli.Usage(fmt.Errorf("--shift: %w", err))
	}
	return w, nil
}

// modelNames are the first model classes of jobs, at most limit, with "..." in
// place of the others.
func modelNames(jobs []workload.Job, limit int) []string {
	var names []string
	for i := range jobs {
		m := jobs[i].Model
		if m == "" || slices.Contains(names, m) {
			continue
		}
		if len(names) == limit {
			return append(names, "...")
		}
		names = append(names, m)
	}
	return names
}

// key reads the key from its file, creates the file, or draws a key.
func (o *anonymizeFlags) key(notes io.Writer) ([]byte, error) {
	if o.keyFile == "" {
		return newKey(), nil
	}
	b, err := os.ReadFile(o.keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		key := newKey()
		f, err := os.OpenFile(o.keyFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--key-file: %w", err)
		}
		_, err = f.Write(append(key, '\n'))
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return nil, fmt.Errorf("--key-file: %w", err)
		}
		fmt.Fprintf(notes, "note: a new key is in %s: keep it secret\n", o.keyFile)
		return key, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--key-file: %w", err)
	}
	if b = bytes.TrimRight(b, "\r\n"); len(b) < trace.MinKey {
		return nil,
			fmt.Errorf("--key-file: %s: a key of %d bytes is too short: at least %d; name a file that does not "+
				"exist to have one made", o.keyFile, len(b), trace.MinKey)
	}
	return b, nil
}

// newKey draws 256 bits, written in hexadecimal digits.
func newKey() []byte {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("autosched: no random numbers: " + err.Error())
	}
	return []byte(hex.EncodeToString(b[:]))
}

// traceValidateOptions are the flags of trace validate.
type traceValidateOptions struct{ traceInput }

func newTraceValidateCmd() *cobra.Command {
	var o traceValidateOptions
	cmd := &cobra.Command{
		Use:   "validate TRACE",
		Short: "Check every row of a trace",
		Long: `Validate reads a trace and reports on its rows. It exits with 1 if rows were
rejected, and names the first of them: line, field, value, reason.`,
		Example: `  autosched trace validate jobs.csv.gz
  autosched trace validate jobs.csv --show 100 --json | jq .reasons`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			r, failed := o.run(cmd.Context(), cmd.ErrOrStderr())
			if r == nil {
				return failed
			}
			print := func(w io.Writer) error { return printReport(w, r) }
			if err := cli.Show(cmd.OutOrStdout(), o.json, "trace-validation/v1", r, print); err != nil {
				return err
			}
			return failed
		},
	}
	o.add(cmd)
	return cmd
}

// run reads the trace. There is a report beside the error if rows were read.
func (o *traceValidateOptions) run(ctx context.Context, notes io.Writer) (*trace.Report, error) {
	r, err := o.report(ctx, notes)
	if err != nil && r != nil && r.Rows == 0 {
		return nil, err
	}
	if err == nil && r.Rejected > 0 {
		err = fmt.Errorf("trace %s: %d of %d rows rejected, first %s", r.File, r.Rejected, r.Rows, r.First[0])
	}
	return r, err
}

// printReport prints how a trace was read.
func printReport(w io.Writer, r *trace.Report) error {
	b := bufio.NewWriter(w)
	name := r.Format
	if name == "" {
		name = "unknown"
	}
	if r.Compression != "" {
		name += ", " + r.Compression
	}
	if r.Synthetic {
		name += ", synthetic"
	}
	fmt.Fprintf(b, "trace       %s (%s)\n", r.File, name)
	if len(r.Files) > 0 {
		fmt.Fprintf(b, "files       %s\n", strings.Join(r.Files, ", "))
	}
	for _, x := range r.Columns {
		if x.Read != "" {
			fmt.Fprintf(b, "column      %s holds %s\n", x, x.Read)
		}
	}
	if len(r.Ignored) > 0 {
		fmt.Fprintf(b, "not read    %s\n", strings.Join(r.Ignored, ", "))
	}
	fmt.Fprintf(b, "rows        %d\njobs        %d\nrejected    %d\n", r.Rows, r.Jobs, r.Rejected)
	if r.Running > 0 {
		fmt.Fprintf(b, "running     %d of the jobs had not ended: they hold GPUs as long as is known, and count in no "+
			"duration\n", r.Running)
	}
	if r.Pending > 0 {
		fmt.Fprintf(b, "pending     %d of the jobs had not started: how long they would run is taken from the others, and "+
			"they count in no duration\n", r.Pending)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(b, "left out    %d jobs: %s\n", r.LeftOut, leftOut(r))
	}
	if r.Merged > 0 {
		fmt.Fprintf(b, "merged      %d rows that add to another row's job or list machines\n", r.Merged)
	}
	if r.Expanded > 0 {
		fmt.Fprintf(b, "expanded    %d more jobs than rows: what waits of an array is one row\n", r.Expanded)
	}
	for _, m := range r.Machines {
		fmt.Fprintf(b, "machines    %d x %d GPUs %s\n", m.Nodes, m.GPUsPerNode, m.GPUModel)
	}
	printHeld(b, r)
	if r.Unsorted > 0 {
		fmt.Fprintf(b, "unsorted    %d, now sorted by submission\n", r.Unsorted)
	}
	if r.Rejected > 0 {
		printRejections(b, r)
	}
	return b.Flush()
}

// printHeld prints the GPU-hours of the jobs and the most GPUs that they held at once, beside the trace's cluster.
func printHeld(w io.Writer, r *trace.Report) {
	h := &r.Held
	if h.GPUHours > 0 {
		var kinds []string
		for _, k := range h.Kinds {
			kinds = append(kinds, fmt.Sprintf("%s %.4g", cmp.Or(k.Status, "without a status"), k.GPUHours))
		}
		fmt.Fprintf(w, "GPU-hours   %.5g: %s; %.1f %% in running jobs\n", h.GPUHours, strings.Join(kinds, ", "),
			100*h.Running)
	}
	if h.Peak > 0 {
		has := "compare it with the cluster's"
		if gpus := (workload.Cluster{Groups: r.Machines}).TotalGPUs(); gpus > 0 {
			has = fmt.Sprintf("the cluster has %d", gpus)
		}
		fmt.Fprintf(w, "most held   %.5g GPUs at once, at %s; %s\n", h.Peak, h.At.Format(time.RFC3339), has)
	}
}

// leftOut lists the reasons for which jobs without fault are not used.
func leftOut(r *trace.Report) string {
	var b strings.Builder
	for i, c := range r.LeftOutReasons {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s (%d)", c.Reason, c.Jobs)
	}
	return b.String()
}

func printRejections(w io.Writer, r *trace.Report) {
	fmt.Fprintf(w, "%d of %d rows rejected:\n", r.Rejected, r.Rows)
	for _, c := range r.Reasons {
		fmt.Fprintf(w, "  %6d x %s %s\n", c.Rows, c.Field, c.Reason)
	}
	for _, x := range r.First {
		fmt.Fprintf(w, "  %s\n", x)
	}
	if n := r.Rejected - len(r.First); n > 0 {
		fmt.Fprintf(w, "  ... and %d more (--show)\n", n)
	}
}
