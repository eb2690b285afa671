package samples

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// TestIterations: iterations come back once and in order of time, after a restart and a write that a crash cut off, and
// are dropped with raw samples.
func TestIterations(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var want []telemetry.Iteration
	for k := range 100 {
		for w := range 3 {
			want = append(want, telemetry.Iteration{Job: fmt.Sprint("j", w%2), Worker: w, Step: k,
				Took: time.Duration(k+1) * time.Millisecond,
				Time: begin + time.Duration(k)*time.Minute + time.Duration(w)})
		}
	}
	iterations := func(from, to time.Duration) (out []telemetry.Iteration) {
		t.Helper()
		err := s.Iterations(t.Context(), "prod", from, to, func(x *telemetry.Iteration) error {
			out = append(out, *x)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	all := func() {
		t.Helper()
		got := iterations(0, math.MaxInt64)
		slices.SortFunc(want, iterationOrder)
		if !slices.Equal(got, want) {
			t.Errorf("%d iterations, want %d", len(got), len(want))
		}
	}
	for range 2 {
		for part := range slices.Chunk(slices.Clone(want), 70) {
			if err := s.AppendIterations(t.Context(), "prod", part); err != nil {
				t.Fatal(err)
			}
		}
	}
	all()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := s.path("prod", iterationLog, hourOf(begin))
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append(text, text[:20]...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	all()
	more := telemetry.Iteration{Job: "j", Step: 7, Took: 1, Time: begin + 30*time.Minute}
	if err := s.AppendIterations(t.Context(), "prod", []telemetry.Iteration{more}); err != nil {
		t.Fatal(err)
	}
	want = append(want, more)
	all()
	if got := iterations(begin+time.Minute, begin+3*time.Minute); len(got) != 6 || got[0].Step != 1 {
		t.Errorf("%v", got)
	}
	if end, err := s.Newest("prod"); err != nil || end != begin+2*time.Hour {
		t.Errorf("newest %v, %v", end, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(dir, Options{Keep: [resolutions]int{Raw: 1}})
	if err != nil {
		t.Fatal(err)
	}
	s.turn <- struct{}{} // old files are dropped when both logs of late are there, and neither is compacted
	late := []telemetry.Iteration{{Job: "j", Took: 1, Time: begin + 10*time.Hour},
		{Job: "j", Took: 1, Time: begin + 12*time.Hour}} // one hour that is over, and one that is not
	if err := s.AppendIterations(t.Context(), "prod", slices.Clone(late)); err != nil {
		t.Fatal(err)
	}
	<-s.turn
	if err := s.Close(); err != nil { // old files are dropped after the answer
		t.Fatal(err)
	}
	s = open(t, dir)
	if got := iterations(0, math.MaxInt64); !slices.Equal(got, late) {
		t.Errorf("%d iterations are kept: %v", len(got), got)
	}
}

// TestIterationsSentAgain: an hour that is over loses the training steps that were sent again, also ones that come
// late, and an hour that is full takes no more, whatever else is sent at a time.
func TestIterationsSentAgain(t *testing.T) {
	dir := t.TempDir()
	open := func() *Store {
		s, err := Open(dir, Options{Iterations: 2500})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	hour := func(k time.Duration, from, to int) (out []telemetry.Iteration) {
		for i := from; i < to; i++ {
			out = append(out, telemetry.Iteration{Job: "j", Step: i, Took: 1,
				Time: begin + k*time.Hour + time.Duration(i)})
		}
		return out
	}
	s := open()
	send := func(want error, all []telemetry.Iteration) {
		t.Helper()
		if err := s.AppendIterations(t.Context(), "prod", all); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	check := func(want ...int) {
		t.Helper()
		for k, n := range want {
			at := begin + time.Duration(k)*time.Hour
			var got []telemetry.Iteration
			err := s.Iterations(t.Context(), "prod", at, at+time.Hour, func(x *telemetry.Iteration) error {
				got = append(got, *x)
				return nil
			})
			if err != nil || !slices.Equal(got, hour(time.Duration(k), 0, n)) {
				t.Errorf("hour %d: %d training steps, %v, want %d", k, len(got), err, n)
			}
		}
	}
	send(nil, hour(0, 0, 1000))
	send(nil, hour(0, 0, 1000))
	send(ErrLimit, hour(0, 0, 1000))
	send(ErrLimit, append(hour(0, 0, 600), hour(1, 0, 5)...))
	send(nil, hour(0, 1000, 1500)) // fills it
	send(ErrLimit, hour(0, 1500, 1501))
	_ = s.Close()
	s = open() // the size of an hour is known after a restart
	send(ErrLimit, hour(0, 1500, 1501))
	check(1500, 0)
	send(nil, hour(2, 0, 1))
	_ = s.Close()
	held := func() (n int) {
		for _, kind := range []string{iterationRaw, iterationLog} {
			_, _, _ = scanFile(s.path("prod", kind, hourOf(begin)), func(_ int64, body []byte) error {
				payload, _ := payloadOf(nil, body)
				return decodeIterations(payload, func(telemetry.Iteration) { n++ })
			})
		}
		return n
	}
	if n := held(); n != 1500 {
		t.Errorf("%d training steps are on disk of an hour of 1500", n)
	}
	s = open()
	send(nil, hour(0, 900, 1600)) // late
	check(1600, 0, 1)
	send(nil, hour(3, 0, 1))
	_ = s.Close()
	if n := held(); n != 1600 {
		t.Errorf("%d training steps are on disk of an hour of 1600", n)
	}
	s = open()
	check(1600, 0, 1, 1)
}
