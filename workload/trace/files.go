package trace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// traceFiles are the files of one trace.
type traceFiles struct {
	name   string // of the workload
	files  []traceFile
	folder bool // files of no known format are left out
}

type traceFile struct {
	name string // as the report shows it
	size int64  // 0 if unknown
	open func() (io.ReadCloser, error)
}

// maxFiles bounds a folder taken for a trace by mistake.
const maxFiles = 1000

func oneFile(r io.Reader, name string, size int64) traceFiles {
	return traceFiles{name: name, files: []traceFile{{name: name, size: size, open: func() (io.ReadCloser, error) {
		return io.NopCloser(r), nil
	}}}}
}

// locate finds the files that a path stands for: see Open. A file whose name
// has a comma comes before a list.
func locate(path string) (traceFiles, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return locateFolder(path)
	case err == nil:
		return traceFiles{name: filepath.Base(path), files: []traceFile{fileAt(path, filepath.Base(path), info)}}, nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.Contains(path, ","):
		return traceFiles{}, err
	}
	var t traceFiles
	names := map[string]bool{}
	for p := range strings.SplitSeq(path, ",") {
		p = strings.TrimSpace(p)
		if p == "" {
			return traceFiles{}, fmt.Errorf("%q: a file name is missing between commas", path)
		}
		info, err := os.Stat(p)
		if err != nil {
			return traceFiles{}, err
		}
		if info.IsDir() {
			return traceFiles{}, fmt.Errorf("%s: is a folder: name files, or this folder alone", p)
		}
		name := filepath.Base(p)
		if names[name] {
			name = p
		}
		names[name] = true
		t.files = append(t.files, fileAt(p, name, info))
		if len(t.files) > maxFiles {
			return traceFiles{}, fmt.Errorf("%q: more than %d files", path, maxFiles)
		}
	}
	t.name = t.files[0].name
	if n := len(t.files) - 1; n > 0 {
		t.name += fmt.Sprintf("+%d", n)
	}
	return t, nil
}

func locateFolder(path string) (traceFiles, error) {
	entries, err := os.ReadDir(path) // in order of name
	if err != nil {
		return traceFiles{}, err
	}
	t := traceFiles{folder: true}
	if abs, err := filepath.Abs(path); err == nil {
		t.name = filepath.Base(abs)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(path, e.Name())) // follows links
		// PAI's .header files name the columns of the tables beside them.
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(e.Name(), ".") ||
			strings.HasSuffix(e.Name(), ".header") {
			continue
		}
		t.files = append(t.files, fileAt(filepath.Join(path, e.Name()), e.Name(), info))
		if len(t.files) > maxFiles {
			return traceFiles{},
				fmt.Errorf("%s: the folder holds more than %d files: name those of the trace, with commas between them",
					path, maxFiles)
		}
	}
	if len(t.files) == 0 {
		return traceFiles{}, fmt.Errorf("%s: the folder holds no file", path)
	}
	return t, nil
}

func fileAt(path, name string, info fs.FileInfo) traceFile {
	f := traceFile{name: name, open: func() (io.ReadCloser, error) { return os.Open(path) }}
	if info.Mode().IsRegular() {
		f.size = info.Size()
	}
	return f
}
