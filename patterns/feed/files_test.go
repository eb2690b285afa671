package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/patterns"
	"github.com/autosched/autosched/telemetry"
)

// stream returns lines of a job at given instants, and then an error unless it is nil.
func stream(job string, failed error, at ...time.Duration) iter.Seq2[dated, error] {
	return func(yield func(dated, error) bool) {
		for _, t := range at {
			if !yield(dated{t, line(t, job)}, nil) {
				return
			}
		}
		if failed != nil {
			yield(dated{}, failed)
		}
	}
}

// TestMerge: streams merge by time, those of one instant in the order of the streams, until one of them or the receiver
// fails.
func TestMerge(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		sources []iter.Seq2[dated, error]
		most    int // that the receiver takes
		want    string
		failed  error
	}{
		{"none", nil, 9, "", nil},
		{"an empty one", []iter.Seq2[dated, error]{stream("a", nil), stream("b", nil, 1)}, 9, "b1", nil},
		{"one that ends", []iter.Seq2[dated, error]{stream("a", nil, 2), stream("b", nil, 1, 3, 4)}, 9,
			"b1 a2 b3 b4", nil},
		{"one instant", []iter.Seq2[dated, error]{stream("a", nil, 1, 2), stream("b", nil, 1, 2)}, 9,
			"a1 b1 a2 b2", nil},
		{"fails at once", []iter.Seq2[dated, error]{stream("a", nil, 1), stream("b", broken)}, 9, "", broken},
		{"fails later", []iter.Seq2[dated, error]{stream("a", nil, 1, 3), stream("b", broken, 2)}, 9, "a1 b2",
			broken},
		{"is refused", []iter.Seq2[dated, error]{stream("a", nil, 1, 3), stream("b", nil, 2)}, 2, "a1 b2",
			io.ErrShortWrite},
	} {
		var got []string
		err := merge(c.sources, func(r patterns.Record) error {
			if len(got) == c.most {
				return io.ErrShortWrite
			}
			got = append(got, fmt.Sprintf("%s%d", r.Message.Job, r.Message.Time))
			return nil
		})
		if !errors.Is(err, c.failed) || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, got, err, c.want, c.failed)
		}
	}
}

// TestMergeIsASort: a merge of streams is a stable sort of all their records.
func TestMergeIsASort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sources []iter.Seq2[dated, error]
		var want []patterns.Record
		for i := range rapid.IntRange(0, 5).Draw(t, "streams") {
			var at []time.Duration
			for _, x := range rapid.SliceOfN(rapid.IntRange(0, 9), 0, 9).Draw(t, "at") {
				at = append(at, time.Duration(x))
			}
			slices.Sort(at)
			for _, x := range at {
				want = append(want, line(x, fmt.Sprint(i)))
			}
			sources = append(sources, stream(fmt.Sprint(i), nil, at...))
		}
		slices.SortStableFunc(want, func(a, b patterns.Record) int { return int(a.Message.Time - b.Message.Time) })
		n := 0
		err := merge(sources, func(r patterns.Record) error {
			if n == len(want) || *r.Message != *want[n].Message {
				t.Fatalf("record %d is %+v", n, *r.Message)
			}
			n++
			return nil
		})
		if err != nil || n != len(want) {
			t.Fatalf("%d of %d records, %v", n, len(want), err)
		}
	})
}

// follows returns a reader of an input that sends a line at each instant that it reads.
func follows(job string) func(io.Reader, Send) error {
	return func(r io.Reader, send Send) error {
		for {
			var at int
			if _, err := fmt.Fscanln(r, &at); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := send(time.Duration(at), line(time.Duration(at), job)); err != nil {
				return err
			}
		}
	}
}

// TestMerger: the records of files that grow and of the standard input come in order of time, and following ends with
// the context.
func TestMerger(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "1\n4\n6\n", "b": "2\n5\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	m := NewMerger(ctx, strings.NewReader("3\n7\n"))
	m.Follow(filepath.Join(dir, "a"), follows("a"))
	m.Follow(filepath.Join(dir, "b"), follows("b"))
	m.Follow("-", follows("in"))
	var got []string
	err := m.Run(func(r patterns.Record) error {
		if got = append(got, fmt.Sprintf("%s%d", r.Message.Job, r.Message.Time)); len(got) == 7 {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || strings.Join(got, " ") != "a1 b2 in3 a4 b5 a6 in7" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestMergerEnds: standard input alone ends a run; an input that cannot be read, and a receiver's error, fail it.
func TestMergerEnds(t *testing.T) {
	for _, c := range []struct {
		name, text, file string
		most             int
		want             int
		failed           string
	}{
		{"standard input", "1\n2\n", "", 9, 2, ""},
		{"a line with a fault", "1\nx\n", "", 9, 1, "expected integer"},
		{"no such file", "", "missing", 9, 0, "missing: no such file"},
		{"refused", "1\n2\n", "", 1, 1, io.ErrShortWrite.Error()},
	} {
		ctx, stop := context.WithCancel(t.Context())
		m := NewMerger(ctx, strings.NewReader(c.text))
		m.Follow("-", follows("in"))
		if c.file != "" {
			m.Follow(filepath.Join(t.TempDir(), c.file), follows("f"))
		}
		n := 0
		err := m.Run(func(patterns.Record) error {
			if n == c.most {
				return io.ErrShortWrite
			}
			n++
			return nil
		})
		if n != c.want || (err == nil) != (c.failed == "") || err != nil && !strings.Contains(err.Error(), c.failed) {
			t.Errorf("%s: %d records, %v; want %d, %q", c.name, n, err, c.want, c.failed)
		}
		stop()
	}
}

// TestFileIsNamed: a file that cannot be read is named.
func TestFileIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.csv")
	f := &Files{Telemetry: []string{missing}}
	if _, _, err := f.Peek(t.Context()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("Peek: %v", err)
	}
	x := newTape(t, minute)
	if _, err := f.Send(t.Context(), x.Feed, time.Time{}); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), missing) {
		t.Errorf("Send: %v", err)
	}
}

// rotated is a file that grows and is replaced by another one after a look at its end.
type rotated struct {
	*os.File
	path string
	text string // that is still to come, empty once it has
}

func (r *rotated) Read(p []byte) (int, error) {
	n, err := r.File.Read(p)
	if n == 0 && r.text != "" {
		text := r.text
		r.text = ""
		f, _ := os.OpenFile(r.path, os.O_APPEND|os.O_WRONLY, 0)
		f.WriteString(text)
		f.Close()
		os.Rename(r.path, r.path+".1")
		os.WriteFile(r.path, []byte("new\n"), 0o600)
	}
	return n, err
}

// TestRotatedWhileRead: lines that come between a look at the end of a file and its replacement are read.
func TestRotatedWhileRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	got, err := io.ReadAll(&growing{ctx: t.Context(), path: path, tail: &tail{},
		file: &rotated{File: file, path: path, text: "two\nthree\n"}})
	if err != nil || string(got) != "one\ntwo\nthree\n" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestUndatedRows: an iteration without a time comes with the row before it, and does not hold the rest of its file.
func TestUndatedRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.csv")
	for text, want := range map[string]string{
		"j,0,1,5,100\nj,0,2,5,\nj,0,3,5,300\n": "[1m40s 1m40s 5m0s]",
		"j,0,1,5,\nj,0,2,5,100\n":              fmt.Sprint([]time.Duration{math.MaxInt64, 100 * time.Second}),
	} {
		if err := os.WriteFile(path, []byte("job,worker,step,seconds,time\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		var c Counts
		var at []time.Duration
		for x, err := range c.samples(t.Context(), path, 0, &Files{}, func(*telemetry.Visit) {}) {
			if err != nil {
				t.Fatal(err)
			}
			at = append(at, x.at)
		}
		if got := fmt.Sprint(at); got != want {
			t.Errorf("%q: times %s, want %s", text, got, want)
		}
	}
}
