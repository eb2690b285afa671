package traces

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/fetch"
	"github.com/autosched/autosched/workload/trace"
)

// fetchOptions are the flags of trace fetch.
type fetchOptions struct {
	url, sha256, out string
	json             bool

	source fetch.Source // of the argument, after check with the flags
}

func newTraceFetchCmd() *cobra.Command {
	var o fetchOptions
	var list strings.Builder
	for _, s := range fetch.Sources {
		fmt.Fprintf(&list, "\n  %-8s %s\n           %s", s.Name, s.About, s.URL)
	}
	cmd := &cobra.Command{
		Use:   "fetch NAME",
		Short: "Download a public trace",
		Long: `Downloads a public trace, checks its size and SHA-256, extracts the job log from
the archive and reads it once to report its content.

Traces:` + list.String() + `

A file beside --out that ends in .part holds the unfinished download: after an
interruption the same command continues there. The archive is deleted at the end.
HTTP proxies are taken from the environment.

--url names another address. It may serve the archive or the job log itself, plain
or gzip. Its digest is checked against --sha256, and shown without one.`,
		Example: `  autosched trace fetch philly
  autosched trace stats philly.json.gz --nodes 300
  autosched trace fetch philly --url https://mirror.example.org/trace-data.tar.gz --out data/philly.json.zst`,
		ValidArgs: sourceNames(),
		Args: func(_ *cobra.Command, args []string) error {
			names := sourceNames()
			if len(args) != 1 {
				return cli.Usage(fmt.Errorf("trace fetch: name the trace to fetch: %s", strings.Join(names, ", ")))
			}
			i := slices.Index(names, args[0])
			if i < 0 {
				return cli.Usage(fmt.Errorf("trace fetch: %q is not known; there is %s", args[0],
					strings.Join(names, ", ")))
			}
			o.source = fetch.Sources[i]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			var r *fetchReport
			err := cli.ThroughFile(cmd, o.out, func(path string) (err error) {
				r, err = o.run(cmd.Context(), path, cmd.ErrOrStderr())
				return err
			})
			if err != nil {
				return err
			}
			return cli.Show(cli.ReportWriter(cmd, o.out), o.json, "fetched-trace/v1", r, r.print)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "another address of the archive or of the job log")
	f.StringVar(&o.sha256, "sha256", "",
		"SHA-256 that the download must have (default: the known one; with --url none)")
	f.StringVarP(&o.out, "out", "o", "",
		"file to write, compressed if it ends in .gz or .zst, - for standard output (default: the trace's name)")
	f.BoolVar(&o.json, "json", false, "")
	return cmd
}

func sourceNames() []string {
	var names []string
	for _, s := range fetch.Sources {
		names = append(names, s.Name)
	}
	return names
}

// check puts the flags into the source.
func (o *fetchOptions) check() error {
	if o.url != "" {
		u, err := url.Parse(o.url)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return cli.Usage(fmt.Errorf("--url: %q is not an http or https address", o.url))
		}
		o.source.URL, o.source.Size, o.source.SHA256 = o.url, 0, ""
	}
	if o.sha256 != "" {
		if b, err := hex.DecodeString(o.sha256); err != nil || len(b) != sha256.Size {
			return cli.Usage(fmt.Errorf("--sha256: %q is not 64 hexadecimal digits", o.sha256))
		}
		o.source.SHA256 = strings.ToLower(o.sha256)
	}
	if o.out == "" {
		o.out = o.source.File
	}
	return nil
}

// run fetches the trace. Notes and progress go to notes.
func (o *fetchOptions) run(ctx context.Context, path string, notes io.Writer) (*fetchReport, error) {
	line := cli.NewProgressLine(notes)
	defer line.Clear()
	d := &fetch.Download{Source: o.source, To: path, Show: line.Show}
	digest, err := d.Run(ctx)
	switch {
	case errors.Is(err, context.Canceled) && path == o.out:
		line.Clear()
		fmt.Fprintf(notes, "note: %s\n", d.Resume())
		return nil, err
	case errors.As(err, new(fetch.RefusedError)):
		return nil, fmt.Errorf("trace fetch %s: %w; --url names another address", o.source.Name, err)
	case errors.As(err, new(fetch.UnfinishedError)):
		return nil, fmt.Errorf("trace fetch %s: %w; %s", o.source.Name, err, d.Resume())
	case err != nil:
		return nil, fmt.Errorf("trace fetch %s: %w", o.source.Name, err)
	}
	w, report, err := trace.Open(ctx, path, trace.Options{})
	if err != nil {
		return nil, fmt.Errorf("trace fetch %s: the download is no trace: %w", o.source.Name,
			errors.Join(err, os.Remove(path)))
	}
	if err := d.Remove(); err != nil {
		return nil, err
	}
	return &fetchReport{o.out, o.source.URL, digest, o.source.SHA256 != "", o.source.Licence, report, w}, nil
}

// fetchReport is the result of trace fetch.
type fetchReport struct {
	Out     string        `json:"out"`
	URL     string        `json:"url"`
	SHA256  string        `json:"sha256"`
	Checked bool          `json:"sha256_checked"`
	Licence string        `json:"licence"`
	Report  *trace.Report `json:"report"`

	workload *workload.Workload
}

func (r *fetchReport) print(out io.Writer) error {
	if err := printReport(out, r.Report); err != nil {
		return err
	}
	state := "as expected"
	if !r.Checked {
		state = "not checked"
	}
	first, last := r.workload.Span()
	day := "2006-01-02"
	_, err := fmt.Fprintf(out, "submitted   %s to %s\nsha256      %s (%s)\nlicence     %s\nwritten to  %s\n",
		r.workload.Clock(first).Format(day), r.workload.Clock(last).Format(day), r.SHA256, state, r.Licence, r.Out)
	return err
}
