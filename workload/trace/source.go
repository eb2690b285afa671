package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// source gives bounded lines of text, decompressed, and counts what it reads.
type source struct {
	in          *input
	raw         *counter
	text        *bufio.Reader
	unzip       io.Reader
	compression string // "gzip", "zstd", or "" for none
	out         int64  // bytes after decompression
	reported    int64  // bytes at the last Progress
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

// maxWindow is how much memory a zstd file may ask for: what zstd --long takes.
const maxWindow = 128 << 20

func newSource(r io.Reader, in *input) (*source, error) {
	s := &source{in: in, raw: &counter{r: r}, close: func() {}}
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
		s.unzip, s.compression = z, "gzip"
	case bytes.HasPrefix(head, zstdMagic):
		z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		s.unzip, s.compression, s.close = z, "zstd", z.Close
	}
	s.text = bufio.NewReaderSize((*meter)(s), in.opts.MaxLine+2)
	if bom, _ := s.text.Peek(3); bytes.Equal(bom, utf8BOM) {
		if _, err := s.text.Discard(3); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// meter is the source as a reader of decompressed bytes within the limits.
type meter source

func (m *meter) Read(p []byte) (int, error) {
	opts := &m.in.opts
	if err := opts.Context.Err(); err != nil {
		return 0, err
	}
	n, err := m.unzip.Read(p)
	m.out += int64(n)
	if m.in.out+m.out > opts.MaxBytes {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrLimit, opts.MaxBytes)
	}
	if m.compression != "" && m.out > ratioFrom && m.out/int64(opts.MaxRatio) > m.raw.n {
		return 0,
			fmt.Errorf("%w: decompresses to more than %d times its size; if it can be trusted, decompress it first",
				ErrLimit, opts.MaxRatio)
	}
	if m.out-m.reported >= 1<<20 {
		m.reported = m.out
		m.in.progress()
	}
	if err != nil && err != io.EOF {
		if err = cutShort(err); m.compression != "" {
			err = fmt.Errorf("%s: %w", m.compression, err)
		}
	}
	return n, err
}

func cutShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the compressed file is cut short: %w", err)
	}
	return err
}

// peek returns the first bytes, at most a line of the greatest length.
func (s *source) peek() ([]byte, error) {
	head, err := s.text.Peek(s.text.Size())
	if err != nil && err != io.EOF && len(head) == 0 {
		return nil, err
	}
	return head, nil
}

// line returns the next line without its end (LF or CRLF). A line longer than
// the limit is skipped: long is true and the line is its beginning.
func (s *source) line() (line []byte, long bool, err error) {
	line, err = s.text.ReadSlice('\n')
	most := s.in.opts.MaxLine
	if err == bufio.ErrBufferFull || err == nil && len(line) > most && len(bytes.TrimRight(line, "\r\n")) > most {
		head := bytes.Clone(line[:min(len(line), 256)])
		for err == bufio.ErrBufferFull {
			_, err = s.text.ReadSlice('\n')
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

// headerLine is the first line that is not a comment.
func headerLine(head []byte) []byte {
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte{'\n'})
		if len(line) > 0 && line[0] != '#' && line[0] != '\r' {
			return bytes.TrimSuffix(line, []byte{'\r'})
		}
		head = rest
	}
	return nil
}
