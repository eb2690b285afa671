package samples

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/telemetry"
)

// TestCutOff: whatever is left of the last frame, acknowledged samples are there, and appending goes on.
func TestCutOff(t *testing.T) {
	first, second := fleet(2, 2, begin, begin+time.Minute), fleet(2, 2, begin+time.Minute, begin+2*time.Minute)
	whole := filepath.Join(t.TempDir(), "whole")
	s := open(t, whole)
	for _, part := range [][]telemetry.GPUSample{first, second} {
		if err := s.Append(t.Context(), "prod", part); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	name := filepath.Join("prod", logName+hourOf(begin).Format(layout))
	text, err := os.ReadFile(filepath.Join(whole, name))
	if err != nil {
		t.Fatal(err)
	}
	length := len(appendFrames(nil, sorted(slices.Clone(first))))
	for _, cut := range []int{length, length + 1, length + headSize, len(text) - 1} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "prod"), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text[:cut], 0o640); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir)
		if got := read(t, s, Query{}); len(got) != len(first) {
			t.Errorf("cut at %d: %d samples, want %d", cut, len(got), len(first))
		}
		if err := s.Append(t.Context(), "prod", slices.Clone(second)); err != nil {
			t.Fatal(err)
		}
		if got := read(t, s, Query{}); len(got) != len(first)+len(second) {
			t.Errorf("cut at %d: %d samples after another append", cut, len(got))
		}
		_ = s.Close()
	}
}

// TestCutOffHourIsCompacted: what is left of the last frame of an hour that is over does not keep its log.
func TestCutOffHourIsCompacted(t *testing.T) {
	for _, kind := range []string{logName, iterationLog} {
		dir := t.TempDir()
		send := func(from time.Duration) {
			t.Helper()
			s := open(t, dir)
			err := s.Append(t.Context(), "prod", fleet(2, 2, from, from+time.Minute))
			if kind == iterationLog {
				err = errors.Join(err, s.AppendIterations(t.Context(), "prod",
					[]telemetry.Iteration{{Job: "j", Took: 1, Time: from}}))
			}
			if err := errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
		}
		send(begin)
		path := filepath.Join(dir, "prod", kind+hourOf(begin).Format(layout))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(text, text[:len(text)-1]...), 0o640); err != nil {
			t.Fatal(err)
		}
		send(begin + 3*time.Hour)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
		want := fleet(2, 2, begin, begin+time.Minute)
		if got := read(t, open(t, dir), Query{To: begin + time.Hour}); len(got) != len(want) {
			t.Errorf("%s: %d samples, want %d", kind, len(got), len(want))
		}
	}
}

// TestDamage: one flipped bit, wherever it is, costs the samples of its frame, also in a log that is appended to and
// compacted afterwards, and no other hour (N4).
func TestDamage(t *testing.T) {
	const batch, full = 2 * 2 * 4, 8 * 4 * 4 // samples of a minute, and of one of the hour that is over
	good := t.TempDir()
	s := open(t, good)
	send := func(s *Store, from time.Duration) {
		t.Helper()
		if err := s.Append(t.Context(), "prod", fleet(2, 2, from, from+time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	const logged, closed = 20, 20 // minutes of an hour that is not over, and of one that is
	for k := range time.Duration(closed) {
		from := begin + k*time.Minute
		if err := s.Append(t.Context(), "prod", fleet(8, 4, from, from+time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for k := range time.Duration(logged) {
		send(s, begin+3*time.Hour+k*time.Minute)
	}
	_ = s.Close()
	files, err := filepath.Glob(filepath.Join(good, "prod", "*"))
	if err != nil || len(files) != 4 { // a log, and three resolutions of an hour
		t.Fatal(files, err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, damaged := range []string{"log-", "raw-"} {
		for range 60 {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			paths, _ := filepath.Glob(filepath.Join(dir, "prod", damaged+"*"))
			text, err := os.ReadFile(paths[0])
			if err != nil {
				t.Fatal(err)
			}
			bit := r.IntN(8 * len(text))
			text[bit/8] ^= 1 << (bit % 8)
			if err := os.WriteFile(paths[0], text, 0o640); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir)
			inLog := read(t, s, Query{From: begin + 3*time.Hour})
			inRaw := read(t, s, Query{To: begin + time.Hour})
			leastLog, leastRaw := logged*batch, closed*full
			if damaged == "log-" {
				leastLog -= batch
			} else {
				leastRaw -= perFrame // of 2560
			}
			if len(inLog) < leastLog || len(inRaw) < leastRaw {
				t.Fatalf("bit %d of %s: %d samples of %d and %d of %d", bit, paths[0], len(inLog), logged*batch,
					len(inRaw), closed*full)
			}
			if got := s.Damaged(); len(got) > 1 || len(got) == 1 && got[0] != paths[0] ||
				damaged == "raw-" && len(inRaw) < closed*full && len(got) == 0 {
				t.Errorf("bit %d of %s: %v", bit, paths[0], got)
			}
			// The last frame is cut off if it is the one: nothing behind it was acknowledged.
			send(s, begin+3*time.Hour+30*time.Minute)
			send(s, begin+6*time.Hour)
			_ = s.Close()
			s = open(t, dir)
			got := read(t, s, Query{From: begin + 3*time.Hour, To: begin + 6*time.Hour})
			if len(got) != len(inLog)+batch {
				t.Fatalf("bit %d of %s: %d samples after the hour is over, want %d", bit, paths[0], len(got),
					len(inLog)+batch)
			}
			_ = s.Close()
		}
	}
}

// TestUnreadableLog: a log that is no file concerns the samples of its hour (N4).
func TestUnreadableLog(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "prod", logName+hourOf(begin).Format(layout)), 0o750); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	for hour, want := range []bool{false, true} {
		from := begin + time.Duration(hour)*time.Hour
		err := s.Append(t.Context(), "prod", fleet(1, 1, from, from+time.Minute))
		if (err == nil) != want {
			t.Errorf("hour %d: %v", hour, err)
		}
	}
	if got := read(t, s, Query{From: begin + time.Hour}); len(got) != 4 {
		t.Errorf("%d samples of the hour after", len(got))
	}
}

// TestDamageIsNoted: whatever cannot be read is noted with its file and bytes.
func TestDamageIsNoted(t *testing.T) {
	whole := func(body []byte) []byte { // a frame whose checksum is right
		text := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
		return append(binary.LittleEndian.AppendUint32(text, crc32.Checksum(body, castagnoli)), body...)
	}
	good := sorted(fleet(1, 1, begin, begin+time.Minute))
	span := appendGPU(appendGPU(nil, good[0].GPU), good[0].GPU)
	head := append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32([]byte{compressed}, skippable),
		uint32(len(span))), span...)
	runs := append([]byte{plain}, encode(nil, good)...)
	steps := frame(nil, encodeIterations(nil, []telemetry.Iteration{{Job: "j", Took: 1, Time: begin}}), nil)
	for name, c := range map[string]struct {
		kind  string
		text  []byte
		bytes int
	}{
		"runs cut off":     {logName, whole(runs[:len(runs)-1]), len(runs) - 1},
		"no zstd":          {logName, whole([]byte{compressed, 0x28, 0xb5, 0x2f, 0xfd, 9, 9}), 7},
		"no zstd, a span":  {logName, whole(append(head, 9, 9)), len(head) + 2},
		"a raw file":       {names[Raw], whole(runs[:len(runs)-1]), len(runs) - 1},
		"end of raw":       {names[Raw], appendFrames(nil, good)[:20], 20},
		"end of means":     {names[Fine], appendFrames(nil, good)[:20], 20},
		"end of steps":     {iterationRaw, steps[:len(steps)-1], len(steps) - 1},
		"a log, all of it": {logName, appendFrames(nil, good), 0},
	} {
		var said bytes.Buffer
		s, err := Open(t.TempDir(), Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		path := s.path("prod", c.kind, hourOf(begin))
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o750), os.WriteFile(path, c.text, 0o600)); err != nil {
			t.Fatal(err)
		}
		for r := range resolutions {
			read(t, s, Query{Resolution: r})
		}
		err = s.Iterations(t.Context(), "prod", 0, math.MaxInt64, func(*telemetry.Iteration) error { return nil })
		if err != nil {
			t.Error(err)
		}
		want := fmt.Sprintf("file=%s bytes=%d\n", path, c.bytes)
		if got := said.String(); strings.HasSuffix(got, want) != (c.bytes > 0) || strings.Count(got, "\n") > 1 {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		_ = s.Close()
	}
}

// TestUnfinishedFilesAreRemoved: the files that a crash of a compaction leaves are removed once samples come again, in
// a directory of any name.
func TestUnfinishedFilesAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b")
	left := filepath.Join(dir, "prod", "."+names[Raw]+"20250301T00.123")
	err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o750), os.WriteFile(left, []byte("half"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Append(t.Context(), "prod", []telemetry.GPUSample{{GPU: telemetry.GPU{Node: "n"}, Time: 1}})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if all, _ := os.ReadDir(filepath.Dir(left)); len(all) != 1 {
		t.Errorf("left %v", all)
	}
}
