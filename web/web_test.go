package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/chart"
)

func TestHandler(t *testing.T) {
	h := Handler()
	ask := func(method, path string, header ...string) *http.Response {
		r := httptest.NewRequest(method, path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	read := func(r io.Reader) string {
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	total := 0
	for path, want := range map[string]struct{ mediaType, text string }{
		"/":                                    {"text/html; charset=utf-8", `src="/assets/app.js"`},
		"/findings":                            {"text/html; charset=utf-8", `src="/assets/app.js"`},
		"/schedulers/a%2Fb/configurations/1":   {"text/html; charset=utf-8", `src="/assets/app.js"`},
		"/assets/app.js":                       {"text/javascript; charset=utf-8", "AutoSched"},
		"/assets/app.css":                      {"text/css; charset=utf-8", "nav"},
		"/assets/report.css":                   {"text/css; charset=utf-8", "--c4:"},
		"/assets/icon.svg":                     {"image/svg+xml", "<svg"},
		"/schedulers/prod/configurations/2?x=": {"text/html; charset=utf-8", `id="app"`},
	} {
		plain := ask(http.MethodGet, path)
		text := read(plain.Body)
		if plain.StatusCode != http.StatusOK || plain.Header.Get("Content-Type") != want.mediaType ||
			!strings.Contains(text, want.text) {
			t.Errorf("%s: %s %s without %q", path, plain.Status, plain.Header.Get("Content-Type"), want.text)
		}
		packed := ask(http.MethodGet, path, "Accept-Encoding", "br, gzip")
		bytesOf := read(packed.Body)
		z, err := gzip.NewReader(bytes.NewReader([]byte(bytesOf)))
		if err != nil {
			t.Fatal(err)
		}
		if read(z) != text {
			t.Errorf("%s: compressed it differs", path)
		}
		if strings.HasPrefix(path, "/assets/") {
			total += len(bytesOf)
		}
		tag := plain.Header.Get("ETag")
		again := ask(http.MethodGet, path, "If-None-Match", tag)
		if tag == "" || again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %s with its tag %s", path, again.Status, tag)
		}
		if head := ask(http.MethodHead, path); head.StatusCode != http.StatusOK || read(head.Body) != "" {
			t.Errorf("HEAD %s: %s", path, head.Status)
		}
	}
	if total == 0 || total > 300<<10 {
		t.Errorf("the assets have %d bytes compressed, at most 300 KiB", total)
	}
	for _, path := range []string{"/assets/", "/assets/none.js", "/assets/../web.go", "/wp-login.php", "/schedulersx"} {
		if got := ask(http.MethodGet, path); got.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, got.Status)
		}
	}
}

// TestOneDesign: reports and the dashboard take their colours from one table, chart.CSS. No other file writes one, but
// for the shade behind dialogues, and each name of a colour is declared there.
func TestOneDesign(t *testing.T) {
	declared := string(chart.CSS())
	files := []string{"../internal/chart/page.css", "../internal/chart/page.html.tmpl"}
	for _, pattern := range []string{"src/*.css", "src/*.ts", "src/*.tsx", "src/*.html", "../replay/report/*.tmpl"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	literal := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b|\b(?:rgb|hsl)a?\([^)]*\)`)
	used := regexp.MustCompile(`var\((--[a-z0-9-]+)\)`)
	names := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, color := range literal.FindAllString(string(text), -1) {
			if color != "rgb(0 0 0 / .5)" {
				t.Errorf("%s: the colour %s is not of the design", file, color)
			}
		}
		for _, name := range used.FindAllStringSubmatch(string(text), -1) {
			names++
			if !strings.Contains(declared, name[1]+":") {
				t.Errorf("%s: %s is not declared", file, name[1])
			}
		}
		if strings.HasSuffix(file, ".css") && regexp.MustCompile(`(?m)(^|[{;\s])--[a-z0-9-]+:`).Match(text) {
			t.Errorf("%s declares a colour of its own", file)
		}
	}
	if names < 40 {
		t.Errorf("%d names of colours are used", names)
	}
}
