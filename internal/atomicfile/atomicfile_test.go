package atomicfile_test

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/autosched/autosched/internal/atomicfile"
)

var text = strings.Repeat("a line of a file\n", 10000) // more than is buffered

func writeText(w io.Writer) error {
	_, err := io.WriteString(w, text)
	return err
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// alone checks that a directory holds one file, and thus no temporary file.
func alone(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("%s holds %v, want one file", dir, entries)
	}
}

func TestCompressedByName(t *testing.T) {
	plain := func(r io.Reader) (io.Reader, error) { return r, nil }
	for name, open := range map[string]func(io.Reader) (io.Reader, error){
		"x.csv":     plain,
		"x":         plain,
		"x.csv.gz":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"x.csv.zst": func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		var files [2]string
		for i := range files {
			if err := atomicfile.Write(path, writeText); err != nil {
				t.Fatal(err)
			}
			files[i] = read(t, path)
		}
		if files[0] != files[1] {
			t.Errorf("%s: the same content gives different bytes", name)
		}
		alone(t, dir)
		r, err := open(strings.NewReader(files[0]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(got) != text {
			t.Errorf("%s reads %d bytes, want the %d written", name, len(got), len(text))
		}
	}
}

func TestPlainWhateverTheName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gz")
	f, err := atomicfile.CreatePlain(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Finish(writeText(f)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != text {
		t.Errorf("the file holds %.20q", got)
	}
}

func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	broken := errors.New("broken")
	for _, name := range []string{"x", "x.gz", "x.zst"} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := atomicfile.Write(path, func(w io.Writer) error {
			if err := writeText(w); err != nil {
				t.Error(err)
			}
			if got := read(t, path); got != "before" {
				t.Errorf("%s: while it is written the file holds %.20q", name, got)
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("%s: error %v, want that of the writer", name, err)
		}
		f, err := atomicfile.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Abort()
		f.Abort()
		if got := read(t, path); got != "before" {
			t.Errorf("%s: the file holds %.20q", name, got)
		}
		alone(t, dir)
	}
	(*atomicfile.File)(nil).Abort()
}

func TestPermission(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	permission := func() os.FileMode {
		if err := atomicfile.Write(path, writeText); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if got := permission(); got != 0o644 {
		t.Errorf("a new file has permission %o, want 644", got)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := permission(); got != 0o600 {
		t.Errorf("a file with permission 600 has %o after it is replaced", got)
	}
}

func TestLinkIsKept(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(t.TempDir(), "link")
	if err := os.WriteFile(target, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(link, writeText); err != nil {
		t.Fatal(err)
	}
	if got := read(t, target); got != text {
		t.Errorf("the target of the link holds %.20q", got)
	}
	alone(t, dir)
	if got, err := os.Readlink(link); err != nil || got != target {
		t.Errorf("the link leads to %q (%v), want %q", got, err, target)
	}
}

func TestPathsThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing", "x")} {
		err := atomicfile.Write(path, writeText)
		if at := (*os.PathError)(nil); !errors.As(err, &at) || at.Path != path {
			t.Errorf("%s: error %v, want one that names the path", path, err)
		}
	}
}

// TestDevice checks that a device is written in place.
func TestDevice(t *testing.T) {
	if err := atomicfile.Write(os.DevNull, writeText); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s is a regular file now (%v)", os.DevNull, err)
	}
	const full = "/dev/full" // Linux: every write fails
	if _, err := os.Stat(full); err != nil {
		return
	}
	short := func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }
	if err := atomicfile.Write(full, short); err == nil {
		t.Errorf("a write to %s is reported as done", full)
	}
}

// TestOpen reads compressed files, also under another extension, and checks the errors
// for damaged ones.
func TestOpen(t *testing.T) {
	for _, name := range []string{"x.csv", "x.csv.gz", "x.csv.zst"} {
		path := filepath.Join(t.TempDir(), name)
		if err := atomicfile.Write(path, writeText); err != nil {
			t.Fatal(err)
		}
		renamed := filepath.Join(t.TempDir(), "y")
		if err := os.Rename(path, renamed); err != nil {
			t.Fatal(err)
		}
		in, err := atomicfile.Open(renamed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if err := in.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "one": "x", "five": "hello"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := atomicfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(in); err != nil || string(got) != content {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		in.Close()
	}
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("\x1f\x8bno gzip at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := atomicfile.Open(bad); !errors.Is(err, gzip.ErrHeader) || !strings.Contains(err.Error(), bad) {
		t.Errorf("damaged: %v", err)
	}
	if _, err := atomicfile.Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}
