package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// sink is a file that is compressed if its name says so. It takes its place when
// it is complete and on the disk: what is broken off leaves what was there before.
type sink struct {
	io.Writer
	file *os.File
	zip  io.WriteCloser
	path string // where it goes, "" if it is there
	done bool
}

// openSink opens a file of which the name says nothing.
func openSink(path string) (*sink, error) {
	s := &sink{}
	var err error
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() { // a pipe or a device cannot be replaced
		s.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	} else {
		s.path = path
		if to, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
			s.path = to
		}
		s.file, err = os.CreateTemp(filepath.Dir(s.path), "."+filepath.Base(s.path)+".*")
		if told := (*os.PathError)(nil); errors.As(err, &told) {
			err = &os.PathError{Op: told.Op, Path: path, Err: told.Err}
		}
	}
	if err != nil {
		return nil, err
	}
	s.Writer = s.file
	return s, nil
}

func newSink(path string) (*sink, error) {
	s, err := openSink(path)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(path) {
	case ".gz":
		s.zip = gzip.NewWriter(s.file)
	case ".zst":
		// One thread, so that the same content gives the same bytes everywhere.
		if s.zip, err = zstd.NewWriter(s.file, zstd.WithEncoderConcurrency(1)); err != nil {
			s.abort()
			return nil, err
		}
	default:
		return s, nil
	}
	s.Writer = s.zip
	return s, nil
}

// end completes the file and puts it in its place, unless what was to be written
// failed.
func (s *sink) end(err error) error {
	if err != nil {
		s.abort()
		return err
	}
	if s.zip != nil {
		err = s.zip.Close()
	}
	if s.path == "" {
		s.done = true
		return errors.Join(err, s.file.Close())
	}
	if err == nil {
		err = s.file.Chmod(0o644)
	}
	if err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		err = s.file.Close()
	}
	if err == nil {
		err = os.Rename(s.file.Name(), s.path)
	}
	if err != nil {
		s.abort()
	}
	s.done = true
	return err
}

// abort leaves no trace of a file that is not complete, nil included.
func (s *sink) abort() {
	if s == nil || s.done {
		return
	}
	s.done = true
	s.file.Close()
	if s.path != "" {
		os.Remove(s.file.Name())
	}
}

// writeFile writes a file that a flag names.
func writeFile(path, flag string, write func(io.Writer) error) error {
	s, err := newSink(path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	if err := s.end(write(s)); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}
