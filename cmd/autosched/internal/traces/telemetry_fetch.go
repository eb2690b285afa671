package traces

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/units"
	"github.com/autosched/autosched/telemetry"
	"github.com/autosched/autosched/telemetry/remote"
)

// telemetryFetchOptions are the flags of telemetry fetch.
type telemetryFetchOptions struct {
	server  *url.URL
	from    string
	to      string
	step    time.Duration
	match   string
	read    cli.TelemetryFlags
	headers string
	ca      string
	timeout time.Duration
	out     string
	notes   io.Writer
}

func newTelemetryFetchCmd() *cobra.Command {
	var o telemetryFetchOptions
	cmd := &cobra.Command{
		Use:   "fetch URL",
		Short: "Fetch the samples of GPUs that a Prometheus server has kept",
		Long: `Fetch asks a Prometheus server, or another with its API, for the metrics of GPUs that
'telemetry validate' reads, and writes the samples as this project's CSV. It asks for
two hours of a metric at a time at a step of a minute, and for less where that is too
much for the server. A request that fails is made again; what was written stays, and the
same command goes on there.

--header-file names a file with lines of NAME: VALUE, such as Authorization: Bearer
TOKEN. --match takes matchers of labels, such as cluster="a".`,
		Example: `  autosched telemetry fetch http://prometheus:9090 --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --out week.csv
  autosched telemetry fetch https://mimir.example.org/prometheus --header-file token.txt --match 'cluster="a"' \
      --from 2026-03-01T00:00:00Z --to 2026-03-02T00:00:00Z --out day.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage(errors.New("name the server, such as http://prometheus:9090"))
			}
			u, err := url.Parse(args[0])
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return cli.Usage(fmt.Errorf("%q is not a URL such as http://prometheus:9090", args[0]))
			}
			o.server = u
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.notes = cmd.ErrOrStderr()
			n, err := o.run(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s samples written to %s\n", units.Count(n), o.out)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "(required)")
	f.StringVar(&o.to, "to", "", "(default: now)")
	f.DurationVar(&o.step, "period", time.Minute, "")
	f.StringVar(&o.match, "match", "", `label matchers, such as cluster="a"`)
	o.read.AddMetrics(cmd)
	f.StringVar(&o.headers, "header-file", "", "file with HTTP headers to send: lines of NAME: VALUE")
	f.StringVar(&o.ca, "tls-ca", "", "PEM file of the authorities that may sign the server's certificate (default: the system's)")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "")
	f.StringVarP(&o.out, "out", "o", "", "CSV file to write")
	return cmd
}

// prometheus is the server and the range that flags name.
func (o *telemetryFetchOptions) prometheus() (*remote.Prometheus, remote.Range, error) {
	var r remote.Range
	from, err := time.Parse(time.RFC3339, o.from)
	to := time.Now().Truncate(time.Second)
	if err == nil && o.to != "" {
		to, err = time.Parse(time.RFC3339, o.to)
	}
	switch {
	case err != nil:
		return nil, r, cli.Usage(errors.New("--from, --to: name RFC 3339 times such as 2026-03-01T00:00:00Z"))
	case !from.Before(to):
		return nil, r, cli.Usage(fmt.Errorf("--from: %s is not before --to", o.from))
	case o.step < time.Second || o.step > time.Hour:
		return nil, r, cli.Usage(fmt.Errorf("--period: %v is not from 1s to 1h", o.step))
	case o.timeout < time.Second:
		return nil, r, cli.Usage(fmt.Errorf("--timeout: %v is less than 1s", o.timeout))
	case o.out == "-":
		return nil, r, cli.NeedsPath(o.out, "--out", "a CSV file, in which the next call goes on")
	case o.out == "":
		return nil, r, cli.Usage(errors.New("--out: name the CSV file to write"))
	}
	p := &remote.Prometheus{URL: o.server, Header: http.Header{}, Matchers: strings.Trim(o.match, "{} "),
		Timeout: o.timeout}
	if p.Options, err = o.read.Options(); err != nil {
		return nil, r, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.ca != "" {
		text, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, r, fmt.Errorf("--tls-ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, r, fmt.Errorf("--tls-ca: %s has no certificate", o.ca)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	p.Client = &http.Client{Transport: transport}
	if o.headers != "" {
		file, err := os.Open(o.headers)
		if err != nil {
			return nil, r, fmt.Errorf("--header-file: %w", err)
		}
		defer file.Close()
		h, err := textproto.NewReader(bufio.NewReader(io.MultiReader(io.LimitReader(file, 1<<16),
			strings.NewReader("\n\n")))).ReadMIMEHeader()
		if err != nil {
			return nil, r, fmt.Errorf("--header-file: %s: has not only lines of NAME: VALUE", o.headers)
		}
		p.Header = http.Header(h)
	}
	return p, remote.Range{From: from.Truncate(o.step), To: to, Step: o.step}, nil
}

// fetched is how far a fetch came; it lies beside the CSV file until all is there.
type fetched struct {
	URL   string        `json:"url"`
	Match string        `json:"match,omitempty"`
	From  time.Time     `json:"from"`
	To    string        `json:"to,omitempty"` // as given
	Step  time.Duration `json:"step_ns"`
	Next  time.Time     `json:"next"`
	Bytes int64         `json:"bytes"`
	Rows  int           `json:"rows"`
}

// resume opens the output where an interrupted fetch of the same samples left it.
func (o *telemetryFetchOptions) resume(r *remote.Range) (*os.File, *fetched, error) {
	f := &fetched{URL: o.server.Redacted(), Match: o.match, From: r.From, To: o.to, Step: o.step, Next: r.From}
	text, err := os.ReadFile(o.out + ".fetch")
	if errors.Is(err, fs.ErrNotExist) {
		file, err := os.OpenFile(o.out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			err = errors.New("it exists: name another file, or remove it")
		}
		return file, f, err
	}
	was := &fetched{}
	if err == nil {
		err = json.Unmarshal(text, was)
	}
	if err != nil {
		return nil, nil, err
	}
	if was.URL != f.URL || was.Match != f.Match || !was.From.Equal(f.From) || was.To != f.To || was.Step != f.Step {
		return nil, nil, fmt.Errorf("%s.fetch is of another fetch: name another file, or remove both", o.out)
	}
	file, err := os.OpenFile(o.out, os.O_WRONLY, 0)
	if err == nil {
		if err = file.Truncate(was.Bytes); err == nil {
			_, err = file.Seek(0, io.SeekEnd)
		}
	}
	fmt.Fprintf(o.notes, "note: goes on at %s\n", was.Next.Format(time.RFC3339))
	r.From = was.Next
	return file, was, err
}

// run fetches, and returns the number of samples.
func (o *telemetryFetchOptions) run(ctx context.Context) (int, error) {
	p, r, err := o.prometheus()
	if err != nil {
		return 0, err
	}
	names, others, err := p.Names(ctx, r)
	if err != nil {
		return 0, err
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("%w: none of %d metrics of the server is known: --metrics names others",
			telemetry.ErrNothing,
			len(others))
	}
	began := r.From
	file, at, err := o.resume(&r)
	if err != nil {
		return 0, fmt.Errorf("--out: %w", err)
	}
	defer file.Close()
	progress := cli.NewProgressLine(o.notes)
	defer progress.Clear()
	w := telemetry.NewWriter(file)
	if at.Bytes > 0 {
		w.SkipHeader()
	}
	var all telemetry.Stats
	err = p.Fetch(ctx, names, r, w.Write, func(until time.Time, s *telemetry.Stats) error {
		all.Rejected += s.Rejected
		all.Rows += s.Rows
		if all.First == nil {
			all.First = s.First
		}
		if err := cmp.Or(w.Header(), w.Flush()); err != nil {
			return err
		}
		at.Next, at.Rows = until, at.Rows+s.Samples
		var err error
		if at.Bytes, err = file.Seek(0, io.SeekCurrent); err != nil {
			return err
		}
		progress.Show("%.0f %%, %d samples", 100*until.Sub(began).Seconds()/r.To.Sub(began).Seconds(), at.Rows)
		return atomicfile.Write(o.out+".fetch", func(w io.Writer) error { return json.NewEncoder(w).Encode(at) })
	})
	if err != nil {
		return at.Rows, err
	}
	if err := cmp.Or(file.Close(), os.Remove(o.out+".fetch")); err != nil {
		return at.Rows, err
	}
	progress.Clear()
	switch {
	case all.Rejected > 0:
		return at.Rows, fmt.Errorf("%d of %d values rejected, first %s", all.Rejected, all.Rows, all.First[0])
	case at.Rows == 0:
		return 0, fmt.Errorf("%w: the server has no values of %s then", telemetry.ErrNothing, strings.Join(names, ", "))
	}
	return at.Rows, nil
}
