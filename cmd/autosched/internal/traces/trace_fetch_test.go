package traces

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/workload/trace"
)

// archiveOf is a tar.gz as the public one is: the job log among larger files.
func archiveOf(t testing.TB, member string) []byte {
	t.Helper()
	noise := make([]byte, 300_000)
	r := rand.NewChaCha8([32]byte{1})
	if _, err := r.Read(noise); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, f := range []struct {
		name string
		data []byte
	}{{"trace-data/cluster_gpu_util", noise}, {"trace-data/" + member, []byte(clitest.JobLog)},
		{"trace-data/cluster_mem_util", noise}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTraceFetch(t *testing.T) {
	file := archiveOf(t, "cluster_job_log")
	url, _ := clitest.ServeFile(t, file, nil)
	dir := t.TempDir()
	for _, name := range []string{"p.json", "p.json.gz", "p.json.zst"} {
		out := filepath.Join(dir, name)
		text, _, err := runTrace(t, "", "fetch", "philly", "--url", url, "--sha256",
			strings.ToUpper(clitest.Digest(file)), "--out", out, "--json")
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			SHA256  string
			Checked bool `json:"sha256_checked"`
			Report  trace.Report
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.SHA256 != clitest.Digest(file) ||
			!got.Checked ||
			got.Report.Jobs != 1 || got.Report.LeftOut != 1 || got.Report.Format != "philly-json" {
			t.Errorf("%v\n%s", err, text)
		}
	}
	text, notes, err := runTrace(t, "", "fetch", "philly", "--url", url, "--sha256", clitest.Digest(file), "--out", "-")
	if err != nil || text != clitest.JobLog || !strings.Contains(notes, clitest.Digest(file)) {
		t.Errorf("%v, %q, %s", err, text, notes)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "p.json")); err != nil || string(b) != clitest.JobLog {
		t.Errorf("%v, %q", err, b)
	}
	// The log itself, and one without a digest.
	url, _ = clitest.ServeFile(t, []byte(clitest.JobLog), nil)
	text, _, err = runTrace(t, "", "fetch", "philly", "--url", url, "--out", filepath.Join(dir, "q.json.gz"))
	if err != nil || !strings.Contains(text, clitest.Digest([]byte(clitest.JobLog))+" (not checked)") ||
		!strings.Contains(text, "CC-BY-4.0") {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestTraceFetchRefuses(t *testing.T) {
	dir := t.TempDir()
	good := archiveOf(t, "cluster_job_log")
	cut := func(b []byte) []byte { return b[:len(b)/3] }
	for name, c := range map[string]struct {
		file   []byte
		sha256 string
		status int
		says   string
		keeps  bool // the part file, because it has the bytes of the server
	}{
		"digest": {good, strings.Repeat("0", 64), 0, "expected is 000", false},
		"pointer": {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:2037\nsize 1055988361\n"), "",
			0, "media.githubusercontent.com", false},
		"member":    {archiveOf(t, "something_else"), "", 0, "no file called cluster_job_log", true},
		"no trace":  {[]byte("hello"), "", 0, "the download is no trace", true},
		"cut gzip":  {cut(good), "", 0, "unexpected EOF", true},
		"not found": {good, "", http.StatusNotFound, "404 Not Found; --url names another address", false},
		"forbidden": {good, "", http.StatusForbidden, "403", false},
	} {
		url, _ := clitest.ServeFile(t, c.file, func(_ int32, w http.ResponseWriter, _ *http.Request) bool {
			if c.status != 0 {
				w.WriteHeader(c.status)
			}
			return c.status != 0
		})
		out := filepath.Join(dir, strings.ReplaceAll(name, " ", "_")+".json")
		args := []string{"fetch", "philly", "--url", url, "--out", out}
		if c.sha256 != "" {
			args = append(args, "--sha256", c.sha256)
		}
		_, _, err := runTrace(t, "", args...)
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, new(cli.UsageError)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: there is an output: %v", name, err)
		}
		if _, err := os.Stat(out + ".part"); (err == nil) != c.keeps {
			t.Errorf("%s: part file: %v", name, err)
		}
	}
	for _, args := range [][]string{{}, {"moon"}, {"philly", "helios"}, {"philly", "--url", "ftp://x"},
		{"philly", "--url", "::"}, {"philly", "--sha256", "12"}} {
		if _, _, err := runTrace(t, "", append([]string{"fetch"}, args...)...); !errors.As(err, new(cli.UsageError)) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// An interrupted fetch goes on where it stopped.
func TestTraceFetchInterrupted(t *testing.T) {
	file, out := archiveOf(t, "cluster_job_log"), filepath.Join(t.TempDir(), "p.json.gz")
	ctx, cancel := context.WithCancel(t.Context())
	var ranges []string
	url, _ := clitest.ServeFile(t, file, func(n int32, w http.ResponseWriter, r *http.Request) bool {
		if n > 1 {
			ranges = append(ranges, r.Header.Get("Range"))
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(file)))
		w.Write(file[:100_000])
		w.(http.Flusher).Flush()
		for size := int64(0); size < 100_000 && r.Context().Err() == nil; time.Sleep(time.Millisecond) {
			if part, err := os.Stat(out + ".part"); err == nil {
				size = part.Size()
			}
		}
		cancel()
		<-r.Context().Done()
		return true
	})
	var notices bytes.Buffer
	cmd := newTraceCmd()
	cmd.SetArgs([]string{"fetch", "philly", "--url", url, "--out", out})
	cmd.SetOut(&notices)
	cmd.SetErr(&notices)
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) ||
		!strings.Contains(notices.String(), "goes on from there") {
		t.Fatalf("%v\n%s", err, notices.String())
	}
	if _, _, err := runTrace(t, "", "fetch", "philly", "--url", url, "--sha256", clitest.Digest(file), "--out",
		out); err != nil {
		t.Fatal(err)
	}
	if len(ranges) != 1 || ranges[0] != "bytes=100000-" {
		t.Errorf("asked for %q", ranges)
	}
}
