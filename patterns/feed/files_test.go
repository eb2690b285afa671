package feed

import (
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
