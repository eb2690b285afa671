package samples

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/cputime"
	"github.com/autosched/autosched/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const begin = 1_700_002_800 * time.Second // an hour begins

// fleet has samples of GPUs every 15 s, with noise.
func fleet(nodes, gpus int, from, to time.Duration) (out []telemetry.GPUSample) {
	r := rand.New(rand.NewPCG(uint64(from), uint64(nodes)))
	for at := from; at < to; at += 15 * time.Second {
		for n := range nodes {
			for g := range gpus {
				k := float64(r.IntN(100))
				x := telemetry.GPUSample{UUID: fmt.Sprintf("GPU-%d-%d", n, g), Time: at, Job: fmt.Sprint("job", n),
					Utilization: k, SMActive: k / 200, MemoryUsed: 30000 + k, MemoryTotal: 81920,
					Power:       float64(300_000+r.IntN(100_000)) / 1000,
					Energy:      float64(int(at.Seconds())*300 + r.IntN(1000)),
					Temperature: 60 + math.Mod(k, 5), SMClock: 1400 + k, Processes: 1}
				x.GPU = telemetry.GPU{Node: fmt.Sprintf("n%04d", n), Index: g, Instance: -1}
				x.Known = telemetry.Utilization | telemetry.SMActive | telemetry.MemoryUsed | telemetry.MemoryTotal |
					telemetry.Power | telemetry.Energy | telemetry.Temperature | telemetry.SMClock |
					telemetry.Throttle | telemetry.Xid | telemetry.Processes
				out = append(out, x)
			}
		}
	}
	return out
}

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func read(t testing.TB, s *Store, q Query) (out []telemetry.GPUSample) {
	t.Helper()
	keep := func(x *telemetry.GPUSample) error { out = append(out, *x); return nil }
	if err := s.Read(t.Context(), "prod", q, keep); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEverySampleOnce: samples come in any order, twice and late, through restarts and compactions: each is there once.
func TestEverySampleOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	want := fleet(3, 2, begin, begin+4*time.Hour)
	append := func(all []telemetry.GPUSample) {
		t.Helper()
		if err := s.Append(t.Context(), "prod", slices.Clone(all)); err != nil {
			t.Fatal(err)
		}
	}
	for part := range slices.Chunk(want, 1000) {
		append(part)
		append(part[len(part)/2:])
	}
	append(want[:500]) // of an hour that is over
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), "prod", want[:1]); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed store took samples: %v", err)
	}
	s = open(t, dir)
	append(fleet(1, 1, begin+6*time.Hour, begin+6*time.Hour+time.Second))
	if err := s.Close(); err != nil { // all hours but the last are compacted
		t.Fatal(err)
	}
	if logs, _ := filepath.Glob(filepath.Join(dir, "prod", "log-*")); len(logs) != 1 {
		t.Errorf("logs that are left: %v", logs)
	}
	s = open(t, dir)
	got := read(t, s, Query{To: begin + 4*time.Hour})
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Errorf("%d samples, want %d", len(got), len(want))
	}
	one := 1
	got = read(t, s, Query{From: begin + time.Hour, To: begin + 2*time.Hour, Node: "n0002", Index: &one, Job: "job2"})
	if len(got) != 240 || got[0].Time != begin+time.Hour || got[0].Node != "n0002" || got[0].Index != 1 {
		t.Errorf("of a GPU in an hour: %d", len(got))
	}
	if got := read(t, s, Query{Job: "none"}); len(got) != 0 {
		t.Errorf("%d samples of an unknown job", len(got))
	}
	if err := s.Forget("prod"); err != nil || len(read(t, s, Query{})) != 0 {
		t.Errorf("forgotten samples are there: %v", err)
	}
}

// TestMeans: means of five minutes and hours are the same of an hour that is over and of one that is not.
func TestMeans(t *testing.T) {
	s := open(t, t.TempDir())
	all := []telemetry.GPUSample{}
	for i, u := range []float64{10, 20, 60} {
		all = append(all, telemetry.GPUSample{GPU: telemetry.GPU{Node: "a", Instance: -1},
			Time: begin + time.Duration(i)*15*time.Second, Known: telemetry.Utilization | telemetry.Energy,
			Utilization: u, Energy: 100 * u})
	}
	all = append(all, telemetry.GPUSample{GPU: all[0].GPU, Time: begin + time.Minute, Lost: true},
		telemetry.GPUSample{GPU: all[0].GPU, Time: begin + 5*time.Minute, Lost: true})
	for round := range 2 {
		if round == 1 {
			all = fleet(1, 1, begin+5*time.Hour, begin+5*time.Hour+time.Second)
		}
		if err := s.Append(t.Context(), "prod", all); err != nil {
			t.Fatal(err)
		}
		fine := read(t, s, Query{To: begin + time.Hour, Resolution: Fine})
		if len(fine) != 2 || fine[0].Utilization != 30 || fine[0].Energy != 6000 || fine[0].Lost ||
			fine[0].Has(telemetry.Power) || !fine[1].Lost || fine[1].Known != 0 || fine[1].Time != begin+5*time.Minute {
			t.Errorf("round %d: %+v", round, fine)
		}
		coarse := read(t, s, Query{To: begin + time.Hour, Resolution: Coarse})
		if len(coarse) != 1 || coarse[0].Utilization != 30 {
			t.Errorf("round %d: %+v", round, coarse)
		}
	}
}

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
	length := len(appendFrame(nil, sorted(slices.Clone(first))))
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

// TestDamage: a file that was changed is named.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for _, hour := range []time.Duration{0, 3} {
		from := begin + hour*time.Hour
		if err := s.Append(t.Context(), "prod", fleet(1, 2, from, from+10*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	path := filepath.Join(dir, "prod", names[Raw]+hourOf(begin).Format(layout))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 4
	if err := os.WriteFile(path, text, 0o640); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	err = s.Read(t.Context(), "prod", Query{}, func(*telemetry.GPUSample) error { return nil })
	if err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
		t.Errorf("damage: %v", err)
	}
}

// TestRetention: the files of the oldest hours go, files of means later.
func TestRetention(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Keep: [resolutions]int{2, 3, 4}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for hour := range time.Duration(8) {
		from := begin + hour*time.Hour
		if err := s.Append(t.Context(), "prod", fleet(1, 1, from, from+time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	for r, want := range []int{2, 3, 4} {
		if hours, err := s.hours("prod", names[r]); err != nil || len(hours) != want {
			t.Errorf("%s: %d hours, want %d: %v", names[r], len(hours), want, err)
		}
	}
}

// TestConcurrent: many collectors append while samples are read.
func TestConcurrent(t *testing.T) {
	s := open(t, t.TempDir())
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for k := range 20 {
				from := begin + time.Duration(k)*20*time.Minute
				all := fleet(1, 2, from, from+time.Minute)
				for i := range all {
					all[i].Node = fmt.Sprint("node", n)
				}
				if err := s.Append(context.Background(), "prod", all); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 5 {
		read(t, s, Query{})
	}
	wg.Wait()
	if got := read(t, s, Query{}); len(got) != 8*20*8 {
		t.Errorf("%d samples", len(got))
	}
}

// TestRoundTrip: any samples are read as they were.
func TestRoundTrip(t *testing.T) {
	number := rapid.Custom(func(t *rapid.T) float64 {
		decimal := rapid.Map(rapid.IntRange(-1e6, 1e6), func(i int) float64 { return float64(i) / 1000 })
		return rapid.OneOf(rapid.Float64(), decimal).Draw(t, "number")
	})
	rapid.Check(t, func(t *rapid.T) {
		var all []telemetry.GPUSample
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			x := telemetry.GPUSample{GPU: telemetry.GPU{Node: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "node"),
				Index: rapid.IntRange(0, 2).Draw(t, "index"), Instance: rapid.IntRange(-1, 1).Draw(t, "instance")},
				Time:  time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "time")),
				Job:   rapid.SampledFrom([]string{"", "j", "k"}).Draw(t, "job"),
				Known: telemetry.Field(rapid.Uint32Range(0, uint32(telemetry.DRAMActive)*2-1).Draw(t, "known")),
				Lost:  rapid.Bool().Draw(t, "lost")}
			for i := range telemetry.Quantities {
				if q := &telemetry.Quantities[i]; x.Has(q.Field) {
					*q.At(&x) = number.Draw(t, "v")
				}
			}
			for _, c := range whole {
				if x.Has(c.field) {
					c.set(&x, rapid.Int64().Draw(t, "w"))
				}
			}
			all = append(all, x)
		}
		all = sorted(all)
		var got []telemetry.GPUSample
		err := decode(encode(nil, all), func(telemetry.GPU) bool { return true },
			func(x *telemetry.GPUSample) error { got = append(got, *x); return nil })
		if err != nil || fmt.Sprint(got) != fmt.Sprint(all) { // NaN is no NaN
			t.Fatalf("%v\n%v\n%v", err, got, all)
		}
	})
}

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
	s.o.Keep[Raw] = 1
	late := []telemetry.Iteration{{Job: "j", Took: 1, Time: begin + 10*time.Hour},
		{Job: "j", Took: 1, Time: begin + 12*time.Hour}} // one hour that is over, and one that is not
	if err := s.AppendIterations(t.Context(), "prod", slices.Clone(late)); err != nil {
		t.Fatal(err)
	}
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
			_, _ = scan(s.path("prod", kind, hourOf(begin)), func(payload []byte) error {
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

func FuzzDecode(f *testing.F) {
	f.Add(encode(nil, sorted(fleet(2, 2, begin, begin+time.Minute))))
	f.Add([]byte{1, 0, 0, 0, 0, 200, 1})
	f.Fuzz(func(t *testing.T, payload []byte) {
		_ = decodeIterations(payload, func(telemetry.Iteration) {})
		_ = decode(payload, func(telemetry.GPU) bool { return true }, func(*telemetry.GPUSample) error { return nil })
	})
}

// TestSize: a day of 1,000 GPUs takes less than 200 MiB: 36 bytes a sample.
func TestSize(t *testing.T) {
	s := open(t, t.TempDir())
	for hour := range time.Duration(3) {
		from := begin + hour*time.Hour
		if err := s.Append(t.Context(), "prod", fleet(20, 8, from, from+time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	size, err := s.Size("prod")
	if err != nil {
		t.Fatal(err)
	}
	each := float64(size) / (3 * 240 * 160)
	t.Logf("%.1f bytes a sample", each)
	if each > 36 {
		t.Errorf("%.1f bytes a sample", each)
	}
}

// BenchmarkAppend takes in samples of many nodes of 8 GPUs at a time, durably. samples/cpu-s leave out
// the time that the disk takes.
func BenchmarkAppend(b *testing.B) {
	for _, nodes := range []int{1, 125, 1250} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			s := open(b, b.TempDir())
			at, began := begin, cputime.Process()
			b.ReportAllocs()
			for b.Loop() {
				var wg sync.WaitGroup
				all := fleet(nodes, 8, at, at+time.Second)
				for part := range slices.Chunk(all, 8) {
					wg.Go(func() {
						if err := s.Append(context.Background(), "prod", part); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
				at += 15 * time.Second
			}
			b.ReportMetric(float64(b.N*nodes*8)/b.Elapsed().Seconds(), "samples/s")
			b.ReportMetric(float64(b.N*nodes*8)/(cputime.Process()-began).Seconds(), "samples/cpu-s")
		})
	}
}
