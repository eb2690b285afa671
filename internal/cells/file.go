// Package cells computes the cells of a grid, several at a time, and keeps each in a file
// once it is computed, so that a computation that was interrupted continues.
package cells

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// File holds cells, a line of JSON each. Key identifies a cell.
type File[K comparable, V any] struct {
	Path string
	Key  func(*V) K
	mu   sync.Mutex
}

// Read returns the cells of the file, the last of each key, and the number of lines that
// are none: a kill cuts the last one short. A file that does not exist has no cells.
func (f *File[K, V]) Read() (cells map[K]*V, bad int, err error) {
	if info, err := os.Lstat(f.Path); err == nil && !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: is a link, folder or device, not a file: remove it", f.Path)
	}
	text, err := os.ReadFile(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	cells = map[K]*V{}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		v := new(V)
		if json.Unmarshal(line, v) != nil {
			bad++
			continue
		}
		cells[f.Key(v)] = v
	}
	return cells, bad, nil
}

// Append adds a cell in one write. It begins a new line, as a kill may have cut the last.
func (f *File[K, V]) Append(v *V) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out, err := os.OpenFile(f.Path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%s\n", line)
	return cmp.Or(err, out.Close())
}
