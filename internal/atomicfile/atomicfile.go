// Package atomicfile writes files atomically: a path holds either the old content or
// all of the new. A temporary file in the same directory is written, synced and
// renamed. Files whose path ends in .gz or .zst are compressed; Open decompresses
// them.
package atomicfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// mode is the permission of a new file. A replaced file keeps its permission.
const mode os.FileMode = 0o644

// File is a file being written. Finish moves it to its path.
type File struct {
	path   string // "" for a pipe or device, which cannot be replaced
	mode   os.FileMode
	file   *os.File
	buffer *bufio.Writer
	zip    io.WriteCloser // nil without compression
	closed bool
}

// Create creates a file that is compressed if its extension is .gz or .zst.
func Create(path string) (*File, error) {
	f, err := CreatePlain(path)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(path) {
	case ".gz":
		f.zip = gzip.NewWriter(f.buffer)
	case ".zst":
		// Concurrent encoding would make the bytes depend on timing.
		if f.zip, err = zstd.NewWriter(f.buffer, zstd.WithEncoderConcurrency(1)); err != nil {
			f.Abort()
			return nil, err
		}
	}
	return f, nil
}

// CreatePlain creates a file without compression, whatever its extension.
func CreatePlain(path string) (*File, error) {
	f := &File{mode: mode}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		f.file, err = os.OpenFile(filepath.Clean(path), os.O_WRONLY, 0)
	default:
		if err == nil {
			f.mode = info.Mode().Perm()
		}
		f.path = path
		if target, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
			f.path = target
		}
		f.file, err = os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*")
		// Report the path rather than the temporary file's name.
		if at := (*os.PathError)(nil); errors.As(err, &at) {
			err = &os.PathError{Op: at.Op, Path: path, Err: at.Err}
		}
	}
	if err != nil {
		return nil, err
	}
	f.buffer = bufio.NewWriterSize(f.file, 64<<10)
	return f, nil
}

// Write implements [io.Writer].
func (f *File) Write(b []byte) (int, error) {
	if f.zip != nil {
		return f.zip.Write(b)
	}
	return f.buffer.Write(b)
}

// Finish completes the file and moves it to its path. If err is not nil, it discards
// the file as Abort does and returns err.
func (f *File) Finish(err error) error {
	defer f.Abort()
	if err != nil {
		return err
	}
	if f.zip != nil {
		if err := f.zip.Close(); err != nil {
			return err
		}
	}
	if err := f.buffer.Flush(); err != nil {
		return err
	}
	if f.path == "" {
		f.closed = true
		return f.file.Close()
	}
	if err := f.file.Chmod(f.mode); err != nil {
		return err
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	if err := f.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.file.Name(), f.path); err != nil {
		return err
	}
	f.closed = true
	return nil
}

// Abort discards the file and leaves the content of its path. It does nothing after
// Finish or if f is nil.
func (f *File) Abort() {
	if f == nil || f.closed {
		return
	}
	f.closed = true
	_ = f.file.Close()
	if f.path != "" {
		_ = os.Remove(f.file.Name())
	}
}

// Write creates the file at path and calls write to fill it.
func Write(path string, write func(io.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort() // if write panics
	return f.Finish(write(f))
}

// WritePrivate is Write for a file that only its owner may read.
func WritePrivate(path string, write func(io.Writer) error) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	f.mode = 0o600
	return f.Finish(write(f))
}

// SyncDir makes changes of the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// maxWindow bounds the memory of a decoder: the window of zstd --long.
const maxWindow = 128 << 20

// Open opens a file for reading. It decompresses gzip and zstd content, whatever the
// file's extension.
func Open(path string) (io.ReadCloser, error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(f)
	head, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return nil, errors.Join(err, f.Close())
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: gzip: %w", path, err), f.Close())
		}
		return opened{z, f}, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: zstd: %w", path, err), f.Close())
		}
		return opened{z.IOReadCloser(), f}, nil
	}
	return opened{io.NopCloser(in), f}, nil
}

// opened reads a file's decompressed content.
type opened struct {
	io.ReadCloser
	file *os.File
}

// Close closes the decompressor and the file.
func (o opened) Close() error { return errors.Join(o.ReadCloser.Close(), o.file.Close()) }
