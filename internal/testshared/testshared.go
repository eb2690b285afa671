// Package testshared finds the reference data that tests compare with: real
// traces and golden results that are not part of this repository.
//
// They are looked for in the folder that the environment variable
// AUTOSCHED_SHARED names, by default ../shared beside the repository. A test
// that needs a missing file is skipped and says so; with
// AUTOSCHED_REQUIRE_SHARED=1 it fails instead. Long marks the inputs that are too
// large for every change.
package testshared

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Path returns the path of a file or folder of the reference data, given by its
// elements ("traces", "philly", "jobs.csv.gz"). If it is not there the test is
// skipped, or fails where AUTOSCHED_REQUIRE_SHARED is 1.
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

// Open opens a file of the reference data, as Path finds it, until the test ends. It is
// decompressed if its name ends in .gz.
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

// Long skips a test unless AUTOSCHED_LONG is 1. It is for inputs that take minutes
// and reach no code that smaller ones do not.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("AUTOSCHED_LONG") != "1" {
		t.Skip("a large input; AUTOSCHED_LONG=1 runs it")
	}
}

// Root returns the repository's root: the nearest folder upwards from the
// test's own that holds go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("testshared: no go.mod above the test's folder")
		}
		dir = up
	}
}

// Near fails the test if a figure is not within a tolerance of what is wanted.
func Near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(got >= want-tolerance && got <= want+tolerance) {
		t.Errorf("%s: %g, want %g +- %g", what, got, want, tolerance)
	}
}
