package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autosched/autosched/workload/trace"
)

const jobLog = `[{"status":"Pass","vc":"v","jobid":"a","submitted_time":"2017-10-07 01:00:00","user":"u","attempts":[{"start_time":"2017-10-07 01:00:10","end_time":"2017-10-07 01:00:20","detail":[{"ip":"m","gpus":["gpu0"]}]}]},
{"status":"Killed","vc":"v","jobid":"b","submitted_time":"2017-10-08 01:00:00","user":"u","attempts":[]}]`

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
	}{{"trace-data/cluster_gpu_util", noise}, {"trace-data/" + member, []byte(jobLog)}, {"trace-data/cluster_mem_util", noise}} {
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

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// serve answers as a file server does, with what bend changes.
func serve(t *testing.T, file []byte, bend func(n int32, w http.ResponseWriter, r *http.Request) (done bool)) (url string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		w.Header().Set("ETag", `"`+digestOf(file)[:8]+`"`)
		if bend != nil && bend(n, w, r) {
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(s.Close)
	return s.URL + "/trace-data.tar.gz", requests
}

func TestTraceFetch(t *testing.T) {
	file := archiveOf(t, "cluster_job_log")
	url, _ := serve(t, file, nil)
	dir := t.TempDir()
	for _, name := range []string{"p.json", "p.json.gz", "p.json.zst"} {
		out := filepath.Join(dir, name)
		text, _, err := runTrace(t, "", "fetch", "philly", "--url", url, "--sha256", strings.ToUpper(digestOf(file)), "--out", out, "--json")
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			SHA256  string
			Checked bool `json:"sha256_checked"`
			Report  trace.Report
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.SHA256 != digestOf(file) || !got.Checked || got.Report.Jobs != 1 || got.Report.LeftOut != 1 || got.Report.Format != "philly-json" {
			t.Errorf("%v\n%s", err, text)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "p.json")); err != nil || string(b) != jobLog {
		t.Errorf("%v, %q", err, b)
	}
	// The log itself, and one whose digest nobody told.
	url, _ = serve(t, []byte(jobLog), nil)
	text, _, err := runTrace(t, "", "fetch", "philly", "--url", url, "--out", filepath.Join(dir, "q.json.gz"))
	if err != nil || !strings.Contains(text, digestOf([]byte(jobLog))+" (not checked)") || !strings.Contains(text, "CC-BY-4.0") {
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
		keeps  bool // the part file, because it is what the server has
	}{
		"digest":    {good, strings.Repeat("0", 64), 0, "expected is 000", false},
		"pointer":   {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:2037\nsize 1055988361\n"), "", 0, "media.githubusercontent.com", false},
		"member":    {archiveOf(t, "something_else"), "", 0, "no file called cluster_job_log", true},
		"no trace":  {[]byte("hello"), "", 0, "what was fetched is no trace", true},
		"cut gzip":  {cut(good), "", 0, "unexpected EOF", true},
		"not found": {good, "", http.StatusNotFound, "404 Not Found; --url names another address", false},
		"forbidden": {good, "", http.StatusForbidden, "403", false},
	} {
		url, _ := serve(t, c.file, func(_ int32, w http.ResponseWriter, _ *http.Request) bool {
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
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.As(err, new(usageError)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: there is an output: %v", name, err)
		}
		if _, err := os.Stat(out + ".part"); (err == nil) != c.keeps {
			t.Errorf("%s: part file: %v", name, err)
		}
	}
	for _, args := range [][]string{{}, {"moon"}, {"philly", "helios"}, {"philly", "--url", "ftp://x"}, {"philly", "--url", "::"}, {"philly", "--sha256", "12"}} {
		if _, _, err := runTrace(t, "", append([]string{"fetch"}, args...)...); !errors.As(err, new(usageError)) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// What servers and networks do to a download, and that it arrives.
func TestDownload(t *testing.T) {
	file := make([]byte, 1<<20)
	r := rand.NewChaCha8([32]byte{2})
	if _, err := r.Read(file); err != nil {
		t.Fatal(err)
	}
	part := func(w http.ResponseWriter, n int) { // a connection that breaks after n bytes
		w.Header().Set("Content-Length", fmt.Sprint(len(file)))
		w.WriteHeader(http.StatusOK)
		w.Write(file[:n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		bend     func(n int32, w http.ResponseWriter, r *http.Request) bool
		size     int64
		requests int32
		says     string
	}{
		"at once":       {nil, 1 << 20, 1, ""},
		"size unknown":  {nil, 0, 1, ""},
		"without range": {func(n int32, w http.ResponseWriter, r *http.Request) bool { r.Header.Del("Range"); return false }, 1 << 20, 1, ""},
		"breaks": {func(n int32, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				part(w, 400_000)
			}
			if got := r.Header.Get("Range"); n == 2 && !strings.HasPrefix(got, "bytes=4000") {
				t.Errorf("second request for %q", got)
			}
			return false
		}, 1 << 20, 2, ""},
		"breaks, changed": {func(n int32, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				w.Header().Set("ETag", `"old"`)
				part(w, 400_000)
			}
			return false
		}, 1 << 20, 2, ""},
		"breaks, no range": {func(n int32, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				part(w, 400_000)
			}
			r.Header.Del("Range")
			return false
		}, 0, 2, ""},
		"breaks, wrong range": {func(n int32, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				part(w, 400_000)
			}
			if n == 2 {
				w.Header().Set("Content-Range", "bytes 5-9/10")
				w.WriteHeader(http.StatusPartialContent)
				return true
			}
			return false
		}, 0, 3, ""},
		"busy": {func(n int32, w http.ResponseWriter, r *http.Request) bool {
			if n < 3 {
				w.WriteHeader([]int{0, 503, 429}[n])
			}
			return n < 3
		}, 0, 3, ""},
		"stalls": {func(n int32, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				w.Header().Set("Content-Length", fmt.Sprint(len(file)))
				w.Write(file[:1000])
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return true
			}
			return false
		}, 1 << 20, 2, ""},
		"always busy": {func(n int32, w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(500); return true }, 0, 3, "500 Internal Server Error (tried 3 times)"},
		"too small":   {nil, 1<<20 + 1, 1, "it has 1048576 bytes, expected are 1048577"},
		"too large": {func(n int32, w http.ResponseWriter, r *http.Request) bool {
			w.Write(file[:600_000])
			w.(http.Flusher).Flush() // chunked: no length is told
			w.Write(file[:600_000])
			return true
		}, 1 << 20, 1, "larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := serve(t, file, c.bend)
			d := &download{url: url, part: filepath.Join(t.TempDir(), "x.part"), size: c.size, show: func(string, ...any) {}, tries: 3, pause: time.Millisecond}
			if name == "stalls" {
				d.stall = time.Second // longer than any busy machine pauses
			}
			err := d.run(t.Context())
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				if b, err := os.ReadFile(d.part); err != nil || !bytes.Equal(b, file) {
					t.Errorf("%v, %d bytes", err, len(b))
				}
				// Again: it is there, and a server is at most asked whether that is all.
				if err := d.run(t.Context()); err != nil {
					t.Errorf("again: %v", err)
				}
			}
			if n := requests.Load(); n < c.requests || n > c.requests+1 {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

// An interrupted fetch goes on where it stopped.
func TestTraceFetchInterrupted(t *testing.T) {
	file := archiveOf(t, "cluster_job_log")
	ctx, cancel := context.WithCancel(t.Context())
	var ranges []string
	url, _ := serve(t, file, func(n int32, w http.ResponseWriter, r *http.Request) bool {
		if n > 1 {
			ranges = append(ranges, r.Header.Get("Range"))
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(file)))
		w.Write(file[:100_000])
		w.(http.Flusher).Flush()
		time.Sleep(50 * time.Millisecond) // until it has arrived
		cancel()
		<-r.Context().Done()
		return true
	})
	out := filepath.Join(t.TempDir(), "p.json.gz")
	var notices bytes.Buffer
	cmd := newTraceCmd()
	cmd.SetArgs([]string{"fetch", "philly", "--url", url, "--out", out})
	cmd.SetOut(&notices)
	cmd.SetErr(&notices)
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(notices.String(), "goes on from there") {
		t.Fatalf("%v\n%s", err, notices.String())
	}
	if _, _, err := runTrace(t, "", "fetch", "philly", "--url", url, "--sha256", digestOf(file), "--out", out); err != nil {
		t.Fatal(err)
	}
	if len(ranges) != 1 || ranges[0] != "bytes=100000-" {
		t.Errorf("asked for %q", ranges)
	}
}
