package samples

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/autosched/autosched/telemetry"
)

// Folder is that of the samples in the directory of a service.
const Folder = "telemetry"

// Damage is a file of which bytes cannot be read, or none at all if there is an error.
type Damage struct {
	File  string
	Bytes int64
	Err   error
}

// Inspect reads the files of a directory and returns their number and the damage. The unfinished end of a log is none:
// it was not acknowledged. It writes nothing.
func Inspect(dir string) (files int, all []Damage, err error) {
	var paths []string
	schedulers, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, s := range schedulers {
		entries, listErr := os.ReadDir(filepath.Join(dir, s.Name()))
		if listErr != nil && !errors.Is(listErr, syscall.ENOTDIR) {
			err = errors.Join(err, listErr)
		}
		for _, e := range entries {
			paths = append(paths, filepath.Join(dir, s.Name(), e.Name()))
		}
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, ".") { // a crash left it
			continue
		}
		files++
		steps := strings.HasPrefix(name, iterationLog) || strings.HasPrefix(name, iterationRaw)
		one := Damage{File: path}
		got, size, err := scanFile(path, func(_ int64, body []byte) error {
			payload, err := payloadOf(nil, body)
			if err == nil && steps {
				err = decodeIterations(payload, func(telemetry.Iteration) {})
			} else if err == nil {
				c := newCursor(payload)
				for len(c.run) > 0 {
					c.next()
				}
				if c.damaged {
					err = errPayload
				}
			}
			if err != nil {
				one.Bytes += int64(len(body))
			}
			return nil
		})
		if one.Bytes += got.damaged; !strings.HasPrefix(name, logName) && !strings.HasPrefix(name, iterationLog) {
			one.Bytes += size - got.end
		}
		if one.Err = err; one.Err != nil || one.Bytes > 0 {
			all = append(all, one)
		}
	}
	return files, all, err
}
