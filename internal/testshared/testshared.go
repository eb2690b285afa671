// Package testshared locates the reference data of tests: real traces and golden
// results that are not part of this repository.
//
// The data are in the directory AUTOSCHED_SHARED, by default ../shared beside the
// repository. A test that needs a missing file is skipped with a message; with
// AUTOSCHED_REQUIRE_SHARED=1 it fails. Long marks tests whose inputs are too large
// to run for every change.
package testshared

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Path returns the path of a file or directory of the reference data, given by its
// elements ("traces", "philly", "jobs.csv.gz"). If it does not exist, Path skips the
// test, or fails it if AUTOSCHED_REQUIRE_SHARED is 1.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	dir := os.Getenv("AUTOSCHED_SHARED")
	if dir == "" {
		dir = filepath.Join(Root(t), "..", "shared")
	}
	p := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(p); err != nil {
		const hint = "reference data %s is missing: set AUTOSCHED_SHARED to the folder that holds it (%v)"
		name := strings.Join(elem, "/")
		if os.Getenv("AUTOSCHED_REQUIRE_SHARED") == "1" {
			t.Fatalf(hint, name, err)
		}
		t.Skipf(hint, name, err)
	}
	return p
}

// Open opens a file of the reference data at [Path], which the test closes when it ends.
// A file whose name ends in .gz is decompressed.
func Open(t testing.TB, elem ...string) io.Reader {
	t.Helper()
	f, err := os.Open(Path(t, elem...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if !strings.HasSuffix(f.Name(), ".gz") {
		return f
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// Long skips a test unless AUTOSCHED_LONG is 1. Use it for inputs that take minutes
// and cover no more code than smaller ones.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("AUTOSCHED_LONG") != "1" {
		t.Skip("a large input; AUTOSCHED_LONG=1 runs it")
	}
}

// Full skips a test if tests are to be short, as under the race detector. Use it for code without goroutines, or
// whose goroutines other tests of its package start as well.
func Full(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs nothing at the same time that other tests do not")
	}
}

// Root returns the repository's root: the nearest directory with the go.mod of its main
// module, from the test's own upwards.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/autosched/autosched\n") {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("testshared: no go.mod above the test's folder")
		}
		dir = up
	}
}

// Near fails the test unless got is within tolerance of want.
func Near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(got >= want-tolerance && got <= want+tolerance) {
		t.Errorf("%s: %g, want %g +- %g", what, got, want, tolerance)
	}
}
