package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/internal/atomicfile"
	"github.com/autosched/autosched/workload/trace"
)

// publicTrace is a trace that can be fetched.
type publicTrace struct {
	name, about string
	url         string
	size        int64  // bytes
	sha256      string // hexadecimal
	member      string // base name of the file in the archive
	out         string // default name of what is written
	licence     string
}

// publicTraces: size and digest are those that the repository's Git LFS pointer
// names (trace-data.tar.gz at 9425c49).
var publicTraces = []publicTrace{{
	name:    "philly",
	about:   "Microsoft Philly, 117,325 jobs of 2017; an archive of 1.06 GB, of which the job log (38 MB) is kept",
	url:     "https://media.githubusercontent.com/media/msr-fiddle/philly-traces/master/trace-data.tar.gz",
	size:    1_055_988_361,
	sha256:  "2037ccf63a725a02be718b0e1aeee6142c90b7f62d0d849295120e9f6ba13d2c",
	member:  "cluster_job_log",
	out:     "philly.json.gz",
	licence: "Microsoft Philly trace, CC-BY-4.0: cite Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads, USENIX ATC 2019",
}}

func newTraceFetchCmd() *cobra.Command {
	var o struct {
		url, sha256, out string
		json             bool
		trace            publicTrace
	}
	var names []string
	var list strings.Builder
	for _, t := range publicTraces {
		names = append(names, t.name)
		fmt.Fprintf(&list, "\n  %-8s %s\n           %s", t.name, t.about, t.url)
	}
	cmd := &cobra.Command{
		Use:   "fetch NAME",
		Short: "Download a public trace",
		Long: `Fetch downloads a public trace, checks its size and SHA-256, takes the job log out
of the archive and reads it once, to tell what is in it.

Traces:` + list.String() + `

What has been downloaded is kept beside --out in a file that ends in .part until
the trace is complete: after an interruption the same command goes on where it
stopped. The archive is deleted at the end. HTTP proxies are taken from the
environment.

--url names another place. It may hold the archive or the job log itself, plain or
gzip. Its digest is checked if --sha256 tells it, and shown otherwise.`,
		Example: `  autosched trace fetch philly
  autosched trace stats philly.json.gz --nodes 300
  autosched trace fetch philly --url https://mirror.example.org/trace-data.tar.gz --out data/philly.json.zst`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("trace fetch: name the trace to fetch: %s", strings.Join(names, ", "))}
			}
			i := slices.Index(names, args[0])
			if i < 0 {
				return usageError{fmt.Errorf("trace fetch: %q is not known; there is %s", args[0], strings.Join(names, ", "))}
			}
			o.trace = publicTraces[i]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := o.trace
			if o.url != "" {
				u, err := url.Parse(o.url)
				if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
					return usageError{fmt.Errorf("--url: %q is not an http or https address", o.url)}
				}
				t.url, t.size, t.sha256 = o.url, 0, ""
			}
			if o.sha256 != "" {
				if b, err := hex.DecodeString(o.sha256); err != nil || len(b) != sha256.Size {
					return usageError{fmt.Errorf("--sha256: %q is not 64 hexadecimal digits", o.sha256)}
				}
				t.sha256 = strings.ToLower(o.sha256)
			}
			if o.out == "" {
				o.out = t.out
			}
			line := newProgressLine(cmd.ErrOrStderr())
			defer line.clear()
			d := &download{url: t.url, part: o.out + ".part", size: t.size, show: line.show}
			if err := d.run(cmd.Context()); err != nil {
				if errors.Is(err, context.Canceled) {
					line.clear()
					fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", d.resume())
					return err
				}
				return fmt.Errorf("trace fetch %s: %w", t.name, d.explain(err))
			}
			digest, err := d.check(cmd.Context(), t.sha256)
			if err != nil {
				return fmt.Errorf("trace fetch %s: %w", t.name, err)
			}
			if err := extract(cmd.Context(), d.part, t.member, o.out, line.show); err != nil {
				return fmt.Errorf("trace fetch %s: %w", t.name, err)
			}
			w, report, err := trace.Open(o.out, trace.Options{Context: cmd.Context()})
			if err != nil {
				return fmt.Errorf("trace fetch %s: what was fetched is no trace: %w", t.name, errors.Join(err, os.Remove(o.out)))
			}
			if err := d.remove(); err != nil {
				return err
			}
			line.clear()
			if o.json {
				return printJSON(cmd.OutOrStdout(), struct {
					Out     string        `json:"out"`
					URL     string        `json:"url"`
					SHA256  string        `json:"sha256"`
					Checked bool          `json:"sha256_checked"`
					Licence string        `json:"licence"`
					Report  *trace.Report `json:"report"`
				}{o.out, t.url, digest, t.sha256 != "", t.licence, report})
			}
			printReport(cmd.OutOrStdout(), report)
			state := "as expected"
			if t.sha256 == "" {
				state = "not checked"
			}
			first, last := w.Span()
			fmt.Fprintf(cmd.OutOrStdout(), "submitted   %s to %s\nsha256      %s (%s)\nlicence     %s\nwritten to  %s\n", w.Clock(first).Format("2006-01-02"), w.Clock(last).Format("2006-01-02"), digest, state, t.licence, o.out)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "another address of the archive or of the job log")
	f.StringVar(&o.sha256, "sha256", "", "SHA-256 that what is downloaded must have (default: the known one; with --url none)")
	f.StringVarP(&o.out, "out", "o", "", "file to write, compressed if it ends in .gz or .zst (default: the trace's name)")
	f.BoolVar(&o.json, "json", false, "print JSON for programs")
	return cmd
}

// maxJobLog bounds what is taken out of an archive.
const maxJobLog = 8 << 30

var errTooLarge = fmt.Errorf("it is larger than %d GiB", maxJobLog>>30)

// extract takes the job log out of what was downloaded: a file of that name in a
// tar archive, or the download itself; either may be compressed with gzip.
func extract(ctx context.Context, from, member, to string, show func(string, ...any)) (err error) {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		in = bufio.NewReaderSize(z, 1<<20)
	}
	var log io.Reader = in
	// A tar file has its magic word at 257.
	if head, _ := in.Peek(262); len(head) == 262 && string(head[257:]) == "ustar" {
		archive := tar.NewReader(&watched{ctx: ctx, r: in, show: func(n int64) { show("looking for %s: %d MB of the archive", member, n>>20) }})
		for log = nil; log == nil; {
			h, err := archive.Next()
			if err == io.EOF {
				return fmt.Errorf("the archive holds no file called %s", member)
			}
			if err != nil {
				return fmt.Errorf("the archive: %w", err)
			}
			if h.Typeflag == tar.TypeReg && path.Base(h.Name) == member {
				log = archive
			}
		}
	}
	out, err := atomicfile.Create(to)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(&watched{ctx: ctx, r: log, show: func(n int64) { show("extracting %s: %d MB", member, n>>20) }}, maxJobLog+1))
	if err == nil && n > maxJobLog {
		err = errTooLarge
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", filepath.Base(from), err)
	}
	return out.Finish(err)
}

// watched is a reader that ends with its context and tells how far it is.
type watched struct {
	ctx  context.Context
	r    io.Reader
	n    int64
	show func(n int64)
}

func (w *watched) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.r.Read(p)
	w.n += int64(n)
	w.show(w.n)
	return n, err
}
