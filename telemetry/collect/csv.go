package collect

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/autosched/autosched/telemetry"
)

// CSV is a sink that writes the project's CSV.
type CSV struct {
	out    io.Writer
	close  func() error
	file   *os.File // nil if out cannot be cut
	begun  bool     // the header is written
	buffer bytes.Buffer
}

// NewCSV writes to a stream.
func NewCSV(out io.Writer) *CSV { return &CSV{out: out, close: func() error { return nil }} }

// OpenCSV appends to a file, which is made if it is missing. One with other columns is an error.
func OpenCSV(path string) (*CSV, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	c := &CSV{out: f, close: f.Close, begun: info.Size() > 0}
	if c.begun && info.Mode().IsRegular() {
		if err := sameColumns(path); err != nil {
			f.Close()
			return nil, err
		}
	}
	if info.Mode().IsRegular() {
		c.file = f
	}
	return c, nil
}

// sameColumns reports a file whose header is another than that of the rows to come.
func sameColumns(path string) error {
	var header bytes.Buffer
	w := telemetry.NewWriter(&header)
	if err := cmp.Or(w.Header(), w.Flush()); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	have := make([]byte, header.Len())
	if n, _ := io.ReadFull(f, have); !bytes.Equal(have[:n], header.Bytes()) {
		return fmt.Errorf("%s has other columns than %s: name another file", path, bytes.TrimSpace(header.Bytes()))
	}
	return nil
}

// Close closes the file.
func (c *CSV) Close() error { return c.close() }

// Send implements Sink. A row is written whole or not at all.
func (c *CSV) Send(_ context.Context, samples []telemetry.GPUSample) error {
	c.buffer.Reset()
	w := telemetry.NewWriter(&c.buffer)
	if c.begun {
		w.SkipHeader()
	}
	for i := range samples {
		if err := w.Write(&samples[i]); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var size int64
	if c.file != nil {
		info, err := c.file.Stat()
		if err != nil {
			return err
		}
		size = info.Size()
	}
	if _, err := c.out.Write(c.buffer.Bytes()); err != nil {
		if c.file != nil {
			if cut := c.file.Truncate(size); cut != nil {
				return fmt.Errorf("%w; what was written of it stays: %w", err, cut)
			}
		}
		return err
	}
	c.begun = true
	return nil
}
