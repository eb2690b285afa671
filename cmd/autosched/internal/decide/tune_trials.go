package decide

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// trialsFile is the file that --trials names, for the record of a search.
type trialsFile struct {
	out  *os.File // nil without a record
	made bool     // the file did not exist
	some bool     // something was written
}

// openTrials opens a file that must be empty, or not exist; "" is no file.
func openTrials(path string) (*trialsFile, error) {
	f := &trialsFile{}
	if path == "" {
		return f, nil
	}
	info, err := os.Stat(path)
	f.made = errors.Is(err, os.ErrNotExist)
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		return nil, fmt.Errorf("--trials: %s is not empty and is not overwritten: name another file", path)
	}
	if f.out, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("--trials: %w", err)
	}
	return f, nil
}

// to is the destination of the record, nil for none.
func (f *trialsFile) to() io.Writer {
	if f.out == nil {
		return nil
	}
	return f
}

func (f *trialsFile) Write(line []byte) (int, error) {
	f.some = true
	return f.out.Write(line)
}

// close may be called twice. It removes a new file that stayed empty.
func (f *trialsFile) close() error {
	if f.out == nil {
		return nil
	}
	if err := f.out.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("--trials: %w", err)
	}
	if f.made && !f.some {
		f.made = false
		return os.Remove(f.out.Name())
	}
	return nil
}
