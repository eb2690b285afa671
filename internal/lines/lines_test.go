package lines

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func packed(t *testing.T, how, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch how {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zstd":
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	default:
		return []byte(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReader(t *testing.T) {
	text := "\xef\xbb\xbf# c\r\na,b\r\n" + strings.Repeat("x", 40) + "\nlast"
	for _, how := range []string{"", "gzip", "zstd"} {
		r, err := New(t.Context(), bytes.NewReader(packed(t, how, text)), Options{MaxLine: 20})
		if err != nil {
			t.Fatal(err)
		}
		head, err := r.Peek()
		if err != nil || string(Header(head)) != "a,b" {
			t.Errorf("%s: header %q, %v", how, Header(head), err)
		}
		var got []string
		for {
			line, long, err := r.Line()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if long {
				line = append(bytes.Clone(line[:2]), '+')
			}
			got = append(got, string(line))
		}
		if want := []string{"# c", "a,b", "xx+", "last"}; !slices.Equal(got, want) || r.Compression != how ||
			r.Out() != int64(len(text)) {
			t.Errorf("%s: %q, want %q; %q, %d bytes", how, got, want, r.Compression, r.Out())
		}
		r.Close()
	}
}

func TestLimits(t *testing.T) {
	ctx := t.Context()
	read := func(data []byte, o Options) error {
		o.MaxLine = 1 << 10
		r, err := New(ctx, bytes.NewReader(data), o)
		for err == nil {
			_, _, err = r.Line()
		}
		return err
	}
	zeros := packed(t, "gzip", strings.Repeat(strings.Repeat("0", 99)+"\n", 200_000))
	if err := read(zeros, Options{MaxRatio: 100}); !errors.Is(err, ErrLimit) {
		t.Errorf("ratio: %v", err)
	}
	if err := read(zeros, Options{}); err != io.EOF {
		t.Errorf("without limits: %v", err)
	}
	if err := read([]byte("0123456789"), Options{MaxBytes: 15, Before: 6}); !errors.Is(err, ErrLimit) {
		t.Errorf("bytes: %v", err)
	}
	if err := read(zeros[:len(zeros)/2], Options{}); !errors.Is(err, io.ErrUnexpectedEOF) ||
		!strings.Contains(err.Error(), "cut short") {
		t.Errorf("half a file: %v", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	ctx = ended
	if err := read(zeros, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

func TestRejections(t *testing.T) {
	var r Rejections
	for i := range 3 {
		r.Add(Rejection{File: "f", Line: 2 + i, Field: "a", Reason: "is bad", Value: Excerpt([]byte("v"))}, 2)
	}
	if r.Rejected != 3 || len(r.First) != 2 || r.Reasons[0].Rows != 3 || r.First[0].String() != `f:2: a: "v": is bad` {
		t.Errorf("%+v", r)
	}
}
