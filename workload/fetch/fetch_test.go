package fetch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
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
)

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// serve answers as a file server does, changed by bend.
func serve(t *testing.T, file []byte,
	bend func(n int32, w http.ResponseWriter, r *http.Request) (done bool)) (url string, requests *atomic.Int32) {
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

// A download arrives despite faults of servers and networks.
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
		"at once":      {nil, 1 << 20, 1, ""},
		"size unknown": {nil, 0, 1, ""},
		"without range": {func(n int32, w http.ResponseWriter,
			r *http.Request) bool {
			r.Header.Del("Range")
			return false
		}, 1 << 20, 1, ""},
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
		"always busy": {func(n int32, w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(500); return true },
			0, 3, "500 Internal Server Error (tried 3 times)"},
		"too small": {nil, 1<<20 + 1, 1, "it has 1048576 bytes, expected are 1048577"},
		"too large": {func(n int32, w http.ResponseWriter, r *http.Request) bool {
			w.Write(file[:600_000])
			w.(http.Flusher).Flush() // chunked: no length is sent
			w.Write(file[:600_000])
			return true
		}, 1 << 20, 1, "larger than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			url, requests := serve(t, file, c.bend)
			d := &Download{
				Source: Source{URL: url, Size: c.size}, To: filepath.Join(t.TempDir(), "x"),
				Show:  func(string, ...any) {},
				tries: 3, pause: time.Millisecond,
			}
			if name == "stalls" {
				d.stall = time.Second // longer than any busy machine pauses
			}
			err := d.download(t.Context())
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v", err)
				}
				if refused := errors.As(err, new(RefusedError)); refused == errors.As(err, new(UnfinishedError)) {
					t.Errorf("%v: refused is %v, and so is unfinished", err, refused)
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				if b, err := os.ReadFile(d.part()); err != nil || !bytes.Equal(b, file) {
					t.Errorf("%v, %d bytes", err, len(b))
				}
				// Again: it is there, and a server is at most asked whether that is all.
				if err := d.download(t.Context()); err != nil {
					t.Errorf("again: %v", err)
				}
			}
			if n := requests.Load(); n < c.requests || n > c.requests+1 {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
		})
	}
}

// TestRun: the trace comes out of a plain or compressed archive, or is the file
// itself; a wrong digest leaves nothing behind.
func TestRun(t *testing.T) {
	const log = "the job log\n"
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range []string{"data/other", "data/log"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(log))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(strings.Replace(log, "job", filepath.Base(name)[:3], 1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	zip := func(b []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	const inArchive = "the log log\n"
	for name, c := range map[string]struct {
		file   []byte
		member string
		sha256 string
		want   string
		says   string
	}{
		"archive":            {archive.Bytes(), "log", "", inArchive, ""},
		"compressed archive": {zip(archive.Bytes()), "log", digestOf(zip(archive.Bytes())), inArchive, ""},
		"compressed file":    {zip([]byte(log)), "log", "", log, ""},
		"file":               {[]byte(log), "log", digestOf([]byte(log)), log, ""},
		"no member":          {archive.Bytes(), "jobs", "", "", "no file called jobs"},
		"another digest":     {[]byte(log), "log", digestOf(nil), "", "expected is " + digestOf(nil)},
	} {
		url, _ := serve(t, c.file, nil)
		d := &Download{
			Source: Source{URL: url, Member: c.member, SHA256: c.sha256}, To: filepath.Join(t.TempDir(), "trace"),
			Show: func(string, ...any) {},
		}
		digest, err := d.Run(t.Context())
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: error %v, want one that says %q", name, err, c.says)
			}
			if _, err := os.Stat(d.To); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: there is a trace (%v)", name, err)
			}
			continue
		}
		if err != nil || digest != digestOf(c.file) {
			t.Errorf("%s: digest %s, %v", name, digest, err)
		}
		if got, err := os.ReadFile(d.To); err != nil || string(got) != c.want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
		if err := d.Remove(); err != nil || d.have() != 0 {
			t.Errorf("%s: the part file is left (%v)", name, err)
		}
	}
}
