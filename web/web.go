// Package web has the dashboard: pages that show what the service's API says, and call it.
//
// The pages are written in TypeScript, in src. `make web` bundles them into dist, which is checked in, so that the Go
// program builds without other tools.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/autosched/autosched/internal/chart"
)

//go:embed dist
var dist embed.FS

// file is an asset, as it is and compressed.
type file struct {
	mediaType, etag string
	plain, packed   []byte
}

// Handler serves the pages and their assets. It has no data: the pages call the API, with the reader's identity.
func Handler() http.Handler {
	files := map[string]file{"report.css": newFile("report.css", []byte(chart.Style()))}
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	for _, e := range entries {
		text, err := dist.ReadFile("dist/" + e.Name())
		if err != nil {
			panic(err)
		}
		files[e.Name()] = newFile(e.Name(), text)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, asset := strings.CutPrefix(r.URL.Path, "/assets/")
		if !asset {
			if !page(r.URL.Path) {
				http.NotFound(w, r)
				return
			}
			name = "index.html"
		}
		f, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		f.serve(w, r)
	})
}

// page says whether a path is one of the dashboard's pages. The script knows which schedulers there are.
func page(p string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return slices.Contains([]string{"", "schedulers", "findings", "doctor", "sign-in"}, first)
}

func newFile(name string, text []byte) file {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	_, _ = z.Write(text)                                       // to memory
	_ = z.Close()
	sum := sha256.Sum256(text)
	return file{mime.TypeByExtension(path.Ext(name)), `"` + hex.EncodeToString(sum[:8]) + `"`, text, packed.Bytes()}
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept-Encoding")
	h.Set("ETag", f.etag)
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	text := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		text = f.packed
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the reader may be gone
	}
}
