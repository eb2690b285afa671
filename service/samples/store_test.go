package samples

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
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
	append(want[:1])
	if err := s.Forget("prod"); err != nil || len(read(t, s, Query{})) != 0 {
		t.Errorf("forgotten samples are there: %v", err)
	}
	if at, err := s.Latest("prod"); err != nil || at != 0 {
		t.Errorf("the latest sample is of %v after all are forgotten: %v", at, err)
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

// TestHeldLog: a log whose disk is slow holds up its own scheduler only, and callers wait as long as they want to
// (N11).
func TestHeldLog(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	s, err := Open(t.TempDir(), Options{Room: func(write func() error) error {
		if calls.Add(1) == 1 {
			close(held)
			<-release
		}
		return write()
	}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 1200 { // more than may wait
		wg.Go(func() { _ = s.Append(ctx, "a", fleet(1, 1, begin, begin+time.Second)) })
	}
	<-held
	within, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	if err := s.Append(within, "b", fleet(1, 1, begin, begin+time.Second)); err != nil {
		t.Errorf("another scheduler: %v", err)
	}
	if _, err := s.Newest("a"); err != nil {
		t.Error(err)
	}
	cancel()
	wg.Wait() // all callers are answered
	close(release)
	_ = s.Close()
}

// TestHourEndsBesideIngest: samples are taken in while an hour that is over is compacted, also of that hour (N10).
func TestHourEndsBesideIngest(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	s, err := Open(t.TempDir(), Options{Room: func(write func() error) error {
		err := write()
		if calls.Add(1) == 3 { // after two calls of Append
			close(reached)
			<-release
		}
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	send := func(from time.Duration) {
		t.Helper()
		if err := s.Append(ctx, "prod", fleet(2, 2, from, from+time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	send(begin)
	send(begin + 2*time.Hour)
	<-reached
	send(begin + 10*time.Minute) // late
	send(begin + 2*time.Hour + time.Minute)
	if got := read(t, s, Query{}); len(got) != 4*2*2*4 {
		t.Errorf("%d samples while an hour is compacted", len(got))
	}
	close(release)
	_ = s.Close()
	if got := read(t, s, Query{}); len(got) != 4*2*2*4 {
		t.Errorf("%d samples after an hour was compacted", len(got))
	}
	if raw, err := s.hours("prod", names[Raw]); err != nil || len(raw) != 1 {
		t.Errorf("hours that are over: %v, %v", raw, err)
	}
}

// TestShed: the oldest raw hour of the scheduler with the most goes, and its means stay (N3).
func TestShed(t *testing.T) {
	s := open(t, t.TempDir())
	for _, scheduler := range []string{"small", "large"} {
		for hour := range time.Duration(4) {
			from, nodes := begin+hour*time.Hour, 1
			if scheduler == "large" {
				nodes = 9
			}
			if err := s.Append(t.Context(), scheduler, fleet(nodes, 2, from, from+time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = s.Close()
	for want := 1; want >= 0; want-- {
		if !s.Shed() {
			t.Fatal("nothing was shed")
		}
		hours, err := s.hours("large", names[Raw])
		if err != nil || len(hours) != want || want > 0 && !hours[0].Equal(hourOf(begin+time.Hour)) {
			t.Fatalf("%v, %v", hours, err)
		}
	}
	if fine, err := s.hours("large", names[Fine]); err != nil || len(fine) != 2 {
		t.Errorf("means: %v, %v", fine, err)
	}
	for left := 2; left >= 0; left-- {
		if s.Shed() != (left > 0) {
			t.Errorf("%d hours of the other scheduler should be left", left)
		}
	}
}

// TestLateSamplesOfAShedHour: samples that come after the samples of their hour were dropped are there, and the means
// of the hour stay, however often such samples come.
func TestLateSamplesOfAShedHour(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	send := func(from time.Duration) {
		t.Helper()
		if err := s.Append(t.Context(), "prod", fleet(2, 2, from, from+time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for k := range time.Duration(30) {
		send(begin + k*time.Minute)
	}
	send(begin + 3*time.Hour)
	_ = s.Close()
	s = open(t, dir)
	hour := func(r Resolution) []telemetry.GPUSample {
		return read(t, s, Query{To: begin + time.Hour, Resolution: r})
	}
	fine, coarse := hour(Fine), hour(Coarse)
	if !s.Shed() || len(fine) != 6*4 || len(coarse) != 4 {
		t.Fatalf("%d and %d means", len(fine), len(coarse))
	}
	for k := range 3 {
		send(begin + time.Duration(40+k)*time.Minute)
		for _, when := range []string{"in a log", "compacted"} {
			if when == "compacted" {
				send(begin + time.Duration(6+k)*time.Hour)
				_ = s.Close()
				s = open(t, dir)
			}
			if got := hour(Raw); len(got) != (k+1)*16 {
				t.Errorf("%d late batches, the last %s: %d samples", k+1, when, len(got))
			}
			if !slices.Equal(hour(Fine), fine) || !slices.Equal(hour(Coarse), coarse) {
				t.Errorf("%d late batches, the last %s: other means", k+1, when)
			}
		}
	}
	if _, damage, err := Inspect(dir); err != nil || len(damage) > 0 {
		t.Errorf("%+v, %v", damage, err)
	}
}

// TestMeansOfAnHourAlone: the means of an hour that is over are read without its raw file.
func TestMeansOfAnHourAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for _, from := range []time.Duration{begin, begin + 3*time.Hour} {
		if err := s.Append(t.Context(), "prod", fleet(2, 2, from, from+10*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	raw := s.path("prod", names[Raw], hourOf(begin))
	if err := errors.Join(os.Remove(raw), os.Symlink(raw, raw)); err != nil { // cannot be opened
		t.Fatal(err)
	}
	s = open(t, dir)
	q := Query{To: begin + time.Hour}
	if err := s.Read(t.Context(), "prod", q, func(*telemetry.GPUSample) error { return nil }); err == nil {
		t.Error("the raw file was read")
	}
	for r, want := range map[Resolution]int{Fine: 2 * 4, Coarse: 4} {
		q.Resolution = r
		if got := read(t, s, q); len(got) != want {
			t.Errorf("%v: %d means, want %d", r.Step(), len(got), want)
		}
	}
}

// TestFolderOfAnyName: the name of the directory is no pattern.
func TestFolderOfAnyName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b")
	s := open(t, dir)
	for _, from := range []time.Duration{begin, begin + 3*time.Hour} {
		if err := s.Append(t.Context(), "prod", fleet(1, 1, from, from+time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.Close()
	if files, damage, err := Inspect(dir); files != 4 || len(damage) > 0 || err != nil {
		t.Errorf("%d files, %v, %v", files, damage, err)
	}
	if !s.Shed() {
		t.Error("nothing was shed")
	}
}

// TestPageOfAnHour: a page of an hour that is over costs the frames that it shows, whatever else the hour has (N10).
func TestPageOfAnHour(t *testing.T) {
	const nodes = 60
	s := open(t, t.TempDir())
	for part := range time.Duration(4) {
		from := begin + part*15*time.Minute
		for all := range slices.Chunk(fleet(nodes, 8, from, from+15*time.Minute), 8*nodes) {
			if err := s.Append(t.Context(), "prod", all); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Append(t.Context(), "prod", fleet(1, 1, begin+3*time.Hour, begin+3*time.Hour+1)); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	enough := errors.New("enough")
	page := func(q Query) func() {
		return func() {
			err := s.Read(context.Background(), "prod", q, func(*telemetry.GPUSample) error { return enough })
			if !errors.Is(err, enough) {
				t.Fatal(err)
			}
		}
	}
	for name, q := range map[string]Query{"first": {}, "of a node": {Node: "n0000"},
		"after": {After: &telemetry.GPUSample{GPU: telemetry.GPU{Node: "n0000", Instance: -1}, Time: begin}}} {
		var before, after runtime.MemStats
		page(q)()
		runtime.ReadMemStats(&before)
		page(q)()
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 2<<20 {
			t.Errorf("%s: a page of one sample takes %d bytes", name, bytes)
		}
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

// decode calls f with the samples of a payload.
func decode(payload []byte, f func(*telemetry.GPUSample)) error {
	c := newCursor(payload)
	for ; len(c.run) > 0; c.next() {
		for i := range c.run {
			f(&c.run[i])
		}
	}
	if c.damaged {
		return errPayload
	}
	return nil
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
		err := decode(encode(nil, all), func(x *telemetry.GPUSample) { got = append(got, *x) })
		if err != nil || fmt.Sprint(got) != fmt.Sprint(all) { // NaN is no NaN
			t.Fatalf("%v\n%v\n%v", err, got, all)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(nil, sorted(fleet(2, 2, begin, begin+time.Minute))))
	f.Add([]byte{1, 0, 0, 0, 0, 200, 1})
	f.Fuzz(func(t *testing.T, payload []byte) {
		_ = decodeIterations(payload, func(telemetry.Iteration) {})
		_ = decode(payload, func(*telemetry.GPUSample) {})
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
