// Package fetch downloads public traces: it continues broken downloads, checks
// size and SHA-256, and extracts the trace from its archive.
package fetch

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/autosched/autosched/internal/atomicfile"
)

// Source is a public trace.
type Source struct {
	Name, About string
	URL         string
	Size        int64  // bytes; 0 if unknown
	SHA256      string // hexadecimal; empty if unknown
	Member      string // base name of the trace's file in the archive
	File        string // default name of the trace
	Licence     string
}

// Sources are the known public traces. Size and digest are as in the Git LFS
// pointer of the repository (trace-data.tar.gz at 9425c49).
var Sources = []Source{{
	Name:   "philly",
	About:  "Microsoft Philly, 117,325 jobs of 2017; an archive of 1.06 GB, of which the job log (38 MB) is kept",
	URL:    "https://media.githubusercontent.com/media/msr-fiddle/philly-traces/master/trace-data.tar.gz",
	Size:   1_055_988_361,
	SHA256: "2037ccf63a725a02be718b0e1aeee6142c90b7f62d0d849295120e9f6ba13d2c",
	Member: "cluster_job_log",
	File:   "philly.json.gz",
	Licence: "Microsoft Philly trace, CC-BY-4.0: cite Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters " +
		"for DNN Training Workloads, USENIX ATC 2019",
}}

// maxJobLog bounds the extracted file.
const maxJobLog = 8 << 30

var errTooLarge = fmt.Errorf("it is larger than %d GiB", maxJobLog>>30)

// extract writes the trace in the part file to its path: the member of a tar
// archive, or the part file itself; either may be compressed with gzip.
func (d *Download) extract(ctx context.Context) (err error) {
	f, err := os.Open(d.part())
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
		archive := tar.NewReader(&watched{ctx: ctx, r: in,
			show: func(n int64) { d.Show("looking for %s: %d MB of the archive", d.Member, n>>20) }})
		for log = nil; log == nil; {
			h, err := archive.Next()
			if err == io.EOF {
				return fmt.Errorf("the archive holds no file called %s", d.Member)
			}
			if err != nil {
				return fmt.Errorf("the archive: %w", err)
			}
			if h.Typeflag == tar.TypeReg && path.Base(h.Name) == d.Member {
				log = archive
			}
		}
	}
	out, err := atomicfile.Create(d.To)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(&watched{ctx: ctx, r: log,
		show: func(n int64) { d.Show("extracting %s: %d MB", d.Member, n>>20) }}, maxJobLog+1))
	if err == nil && n > maxJobLog {
		err = errTooLarge
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", filepath.Base(d.part()), err)
	}
	return out.Finish(err)
}

// watched is a reader that ends with its context and shows its progress.
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
