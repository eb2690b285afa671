// Package lines reads tables as bounded lines of text, plain, gzip or zstd by their
// content, and counts the rows that could not be used.
package lines

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// ErrLimit is for input beyond one of the limits of Options.
var ErrLimit = errors.New("limit exceeded")

// Options bound the input.
type Options struct {
	MaxLine int // bytes of a line; a longer one is skipped
	// MaxBytes after decompression, with Before of files read already; 0 is no limit.
	MaxBytes, Before int64
	// MaxRatio of bytes after decompression to bytes before, checked above 16 MiB; 0 is
	// no limit.
	MaxRatio int
	Progress func() // called about once a MiB; it may be nil
}

// Reader gives bounded lines of text, decompressed, and counts its input.
type Reader struct {
	Text        *bufio.Reader
	Compression string // "gzip", "zstd", or "" for none
	ctx         context.Context
	opts        Options
	raw         *counter
	unzip       io.Reader
	out         int64 // bytes after decompression
	reported    int64 // bytes at the last Progress
	close       func()
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	utf8BOM   = []byte{0xef, 0xbb, 0xbf}
)

// Below this size the decompression ratio is not checked: short repetitive
// files compress well and do no harm.
const ratioFrom = 16 << 20

// maxWindow is the memory that a zstd file may ask for, as with zstd --long.
const maxWindow = 128 << 20

// New finds the compression by the first bytes. Reads fail after ctx has ended. Close frees the
// decompressor.
func New(ctx context.Context, r io.Reader, opts Options) (*Reader, error) {
	s := &Reader{ctx: ctx, opts: opts, raw: &counter{r: r}, close: func() {}}
	br := bufio.NewReaderSize(s.raw, 64<<10)
	head, err := br.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	s.unzip = br
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		z, err := gzip.NewReader(br)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", cutShort(err))
		}
		s.unzip, s.Compression = z, "gzip"
	case bytes.HasPrefix(head, zstdMagic):
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		s.unzip, s.Compression, s.close = z, "zstd", z.Close
	}
	s.Text = bufio.NewReaderSize((*meter)(s), opts.MaxLine+2)
	if bom, _ := s.Text.Peek(3); bytes.Equal(bom, utf8BOM) {
		if _, err := s.Text.Discard(3); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close frees the decompressor; it does not close the reader given to New.
func (s *Reader) Close() { s.close() }

// In is the number of bytes read before decompression, Out after it.
func (s *Reader) In() int64 { return s.raw.n }

// Out is the number of bytes after decompression.
func (s *Reader) Out() int64 { return s.out }

// meter is the Reader as a reader of decompressed bytes within the limits.
type meter Reader

func (m *meter) Read(p []byte) (int, error) {
	opts := &m.opts
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.unzip.Read(p)
	m.out += int64(n)
	if opts.MaxBytes > 0 && opts.Before+m.out > opts.MaxBytes {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrLimit, opts.MaxBytes)
	}
	if opts.MaxRatio > 0 && m.Compression != "" && m.out > ratioFrom && m.out/int64(opts.MaxRatio) > m.raw.n {
		return 0,
			fmt.Errorf("%w: decompresses to more than %d times its size; if it can be trusted, decompress it first",
				ErrLimit, opts.MaxRatio)
	}
	if m.out-m.reported >= 1<<20 {
		m.reported = m.out
		if opts.Progress != nil {
			opts.Progress()
		}
	}
	if err != nil && err != io.EOF {
		if err = cutShort(err); m.Compression != "" {
			err = fmt.Errorf("%s: %w", m.Compression, err)
		}
	}
	return n, err
}

func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the input is cut short: %w", err)
	}
	return err
}

// Peek returns the first bytes, at most a line of the greatest length.
func (s *Reader) Peek() ([]byte, error) {
	head, err := s.Text.Peek(s.Text.Size())
	if err != nil && err != io.EOF && len(head) == 0 {
		return nil, err
	}
	return head, nil
}

// Line returns the next line without its end (LF or CRLF), valid until the next call. A
// line longer than the limit is skipped: long is true and the line is its beginning.
func (s *Reader) Line() (line []byte, long bool, err error) {
	line, err = s.Text.ReadSlice('\n')
	most := s.opts.MaxLine
	if err == bufio.ErrBufferFull || err == nil && len(line) > most && len(bytes.TrimRight(line, "\r\n")) > most {
		head := bytes.Clone(line[:min(len(line), 256)])
		for err == bufio.ErrBufferFull {
			_, err = s.Text.ReadSlice('\n')
		}
		if err == io.EOF {
			err = nil
		}
		return head, true, err
	}
	if err == io.EOF && len(line) > 0 {
		err = nil
	}
	if err != nil {
		return nil, false, err
	}
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, false, nil
}

// Header is the first line of a text that is neither empty nor a comment.
func Header(head []byte) []byte {
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte{'\n'})
		if len(line) > 0 && line[0] != '#' && line[0] != '\r' {
			return bytes.TrimSuffix(line, []byte{'\r'})
		}
		head = rest
	}
	return nil
}

// Split cuts a line at a separator, as RFC 4180 does at commas but for line breaks
// in quotes. It changes the line where quotes are doubled. The fields are parts of
// the line, appended to dst; reason is not empty if the quotes make no sense.
func Split(line []byte, sep byte, dst [][]byte) (fields [][]byte, reason string) {
	for {
		if len(line) == 0 || line[0] != '"' {
			i := bytes.IndexByte(line, sep)
			if i < 0 {
				return append(dst, line), ""
			}
			dst, line = append(dst, line[:i]), line[i+1:]
			continue
		}
		field, i, n := line[1:], 0, 0
		for {
			if i >= len(field) {
				return dst, "has a quote that is not closed"
			}
			if field[i] == '"' {
				if i+1 >= len(field) || field[i+1] != '"' {
					break
				}
				i++
			}
			field[n] = field[i]
			n++
			i++
		}
		dst, line = append(dst, field[:n]), field[i+1:]
		if len(line) == 0 {
			return dst, ""
		}
		if line[0] != sep {
			return dst, "has text after a closing quote"
		}
		line = line[1:]
	}
}
