package telemetry

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/testshared"
)

var update = flag.Bool("update", false, "write the golden files")

// at is when the scrape without times was made.
const at = 1_700_000_000 * time.Second

// describe reads a text and writes down all that it gave.
func describe(t *testing.T, data []byte, name string, opts Options) string {
	t.Helper()
	var gpus, queues, iterations, out bytes.Buffer
	g, q, i := NewWriter(&gpus), newQueueWriter(&queues), newIterationWriter(&iterations)
	stats, err := ReadAll(t.Context(), bytes.NewReader(data), name, opts, Visit{GPU: g.Write, Queue: q.Write,
		Iteration: i.Write})
	if stats == nil {
		t.Fatal("no statistics")
	}
	for _, flush := range []func() error{g.Flush, q.Flush, i.Flush} {
		if err := flush(); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintf(&out, "%s: %s, rows %d, samples %d, absent %d, rejected %d, ignored %v, error %v\n", stats.Format,
		stats.Kind, stats.Rows, stats.Samples, stats.Absent, stats.Rejected, stats.Ignored, err)
	for _, x := range stats.First {
		fmt.Fprintf(&out, "  %s\n", x)
	}
	out.Write(gpus.Bytes())
	out.Write(queues.Bytes())
	out.Write(iterations.Bytes())
	return out.String()
}

func TestReadGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, ".golden") {
			continue
		}
		opts := Options{At: at}
		if strings.Contains(f, "nvidia-smi.") {
			opts.Node = "n7" // which it does not say
		}
		fmt.Fprintf(&got, "=== %s\n%s", filepath.Base(f), describe(t, data, filepath.Base(f), opts))
	}
	const golden = "testdata/read.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("read otherwise (-update writes the file): %s", diff)
	}
}

// A text that cannot be read at all is an error with a remedy.
func TestReadErrors(t *testing.T) {
	for _, x := range []struct{ text, name, format, want string }{
		{"", "f", "", "it is empty"},
		{"a,b\n1,2\n", "f", "", "philly: time,machineId"},
		{"a,b\n1,2\n", "f", "csv", `no format is called "csv"; known are acme, autosched`},
		{"time,node\n", "f", "autosched", "the header lacks gpu"},
		{"time,node,gpu,gpu\n", "f", "", "names gpu twice"},
		{"time,\"node,gpu\n", "f", "autosched", "a quote that is not closed"},
		{"Time,a-0\n", "FB_FREE.csv", "", `"FB_FREE" is none of GPU_UTIL`},
		{"Time,a-0,b\n", "GPU_UTIL.csv", "", "column 3 is called \"b\", not SERVER-GPU"},
		{"a\n", "f", "philly", "time,machineId"},
		{"timestamp, index, name\n", "f", "", "it does not say of which node it is"},
		{"timestamp, index, index\n", "f", "", "names index twice"},
		{"index\n", "f", "nvidia-smi", "the header lacks timestamp"},
		{"\n\n", "f", "autosched", "there is no header"},
		{"DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",Hostname=\"a\"} 1\n", "f", "", "no times: --scrape-time says when"},
		{"\x1f\x8b\x08\x00", "f", "", "cut short"},
		{"job,worker,step,seconds\n", "f", "", "it holds iterations"},
	} {
		stats, err := Read(t.Context(), strings.NewReader(x.text), x.name, Options{Format: x.format},
			func(*GPUSample) error { return nil })
		if err == nil || !strings.Contains(err.Error(), x.want) || stats == nil {
			t.Errorf("%q: %v, want %q", x.text, err, x.want)
		}
	}
	stop := errors.New("enough")
	text := "time,node,gpu\n1,a,0\n2,a,0\n"
	if _, err := Read(t.Context(), strings.NewReader(text), "f", Options{},
		func(*GPUSample) error { return stop }); !errors.Is(err,
		stop) {
		t.Errorf("an error of the function: %v", err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := Read(ended, strings.NewReader(text), "f", Options{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}

// Of the columns of nvidia-smi of one quantity the first with a value counts, in whichever order they are, and times
// are of the zone's clock.
func TestNvidiaSMI(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const at = 1_767_610_800 * time.Second // 2026-01-05T11:00:00Z
	for _, c := range []struct {
		columns, values string
		zone            *time.Location
		at              time.Duration
		power           float64
		throttle        uint64
	}{
		{"power.draw [W], power.draw.instant [W], power.draw.average [W]", "300 W, 200 W, 100 W", berlin, at, 300, 0},
		{"power.draw.average [W], power.draw.instant [W], power.draw [W]", "100 W, 200 W, 300 W", nil, at + time.Hour,
			300, 0},
		{"power.draw.average, power.draw.instant", "100, 200", nil, at + time.Hour, 200, 0},
		{"power.draw.average, power.draw", "100, [N/A]", nil, at + time.Hour, 100, 0},
		{"clocks_throttle_reasons.active, clocks_event_reasons.active", "0x1, 0x4", nil, at + time.Hour, 0, 4},
	} {
		text := "timestamp, index, " + c.columns + "\n2026/01/05 12:00:00.000, 0, " + c.values + "\n"
		_, err := Read(t.Context(), strings.NewReader(text), "f", Options{Node: "n", Zone: c.zone},
			func(s *GPUSample) error {
				if s.Time != c.at || s.Power != c.power || s.Throttle != c.throttle {
					t.Errorf("%s: at %v, %v W, throttle %#x", c.columns, s.Time, s.Power, s.Throttle)
				}
				return nil
			})
		if err != nil {
			t.Errorf("%s: %v", c.columns, err)
		}
	}
}

// Only the first rejected rows are named; all are counted.
func TestManyRejected(t *testing.T) {
	text := "time,node,gpu\n" + strings.Repeat("x,a,0\n", 50) + strings.Repeat("y", maxLine+10) + "\n1,a,0\n"
	n := 0
	stats, err := Read(t.Context(), strings.NewReader(text), "f.csv", Options{},
		func(*GPUSample) error { n++; return nil })
	if err != nil || stats.Rejected != 51 || len(stats.First) != keepRejected || stats.Rows != 52 || n != 1 ||
		stats.Reasons[1].Reason != "is longer than the limit" ||
		stats.First[0].String() != `f.csv:2: time: "x": `+noClock {
		t.Errorf("%+v, %v", stats, err)
	}
}

func TestInstant(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1700000000": at, "1700000000.123456789": at + 123456789, "2023-11-14T22:13:20Z": at,
		"2023-11-15 06:13:20+08:00": at, "2023-11-14 14:13:20 PST": at, "2023-11-14 15:13:20.5 PDT": at + 5e8,
	} {
		if got, reason := instant([]byte(text)); got != want || reason != "" {
			t.Errorf("%s: %v %s, want %v", text, got, reason, want)
		}
	}
	for _, text := range []string{"", "-1", ".", "2023-11-14 22:13:20", "2023-11-14", "1e9", "10000000000",
		"99999999999999999999",
		"1500-01-01 00:00:00Z", "2017-10-03 00:08:00 CST"} {
		if got, reason := instant([]byte(text)); reason == "" {
			t.Errorf("%s: %v, want a reason", text, got)
		}
	}
}

// drawn draws a sample that a GPU may report.
func drawn(t *rapid.T) GPUSample {
	text := rapid.StringMatching(`[a-z0-9,"# .é-]{1,8}`)
	s := GPUSample{GPU: GPU{Node: text.Draw(t, "node"), Index: rapid.IntRange(0, 15).Draw(t, "gpu"),
		Instance: rapid.IntRange(-1, 13).Draw(t, "instance")},
		UUID: rapid.StringMatching(`[A-Z,"-]{0,6}`).Draw(t, "uuid"),
		Time: time.Duration(rapid.Int64Range(0, int64(maxTime)).Draw(t, "time"))}
	if rapid.Bool().Draw(t, "has a job") {
		s.Job = text.Draw(t, "job")
	}
	if s.Lost = rapid.IntRange(0, 9).Draw(t, "lost") == 0; s.Lost {
		return s
	}
	for i := range Quantities {
		if q := &Quantities[i]; rapid.Bool().Draw(t, q.Name) {
			*q.At(&s) = rapid.Float64Range(q.Least, q.Most).Draw(t, "value")
			s.Known |= q.Field
		}
	}
	if rapid.Bool().Draw(t, "counts") {
		s.Known |= Throttle | Xid | Processes
		s.Throttle = rapid.Uint64().Draw(t, "throttle")
		s.Xid = rapid.IntRange(0, maxXid).Draw(t, "xid")
		s.Processes = rapid.IntRange(0, maxProcesses).Draw(t, "processes")
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawn), 1, 8).Draw(t, "samples")
		roundTrip(t, want)
	})
	queues := []QueueSample{{Queue: "a,b", Time: at, Pending: 3, PendingGPUs: 24, FreeGPUs: 1, TotalGPUs: 64}, {}}
	iterations := []Iteration{{Job: "j", Worker: 3, Step: 9, Took: 1234567891, Time: at}, {Job: "k"}}
	var a, b bytes.Buffer
	q, i := newQueueWriter(&a), newIterationWriter(&b)
	for k := range 2 {
		if err := errors.Join(q.Write(&queues[k]), i.Write(&iterations[k])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(q.Flush(), i.Flush()); err != nil {
		t.Fatal(err)
	}
	var gotQ []QueueSample
	var gotI []Iteration
	v := Visit{Queue: func(x *QueueSample) error { gotQ = append(gotQ, *x); return nil },
		Iteration: func(x *Iteration) error { gotI = append(gotI, *x); return nil }}
	for _, x := range []*bytes.Buffer{&a, &b} {
		if _, err := ReadAll(t.Context(), x, "f", Options{}, v); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(queues, gotQ) + cmp.Diff(iterations, gotI); diff != "" {
		t.Error(diff)
	}
}

func roundTrip(t rapid.TB, want []GPUSample) {
	var text bytes.Buffer
	w := NewWriter(&text)
	for i := range want {
		if err := w.Write(&want[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	var got []GPUSample
	stats, err := Read(context.Background(), &text, "f", Options{}, func(s *GPUSample) error {
		got = append(got,
			*s)
		return nil
	})
	if err != nil || stats.Rejected > 0 {
		t.Fatal(err, stats.First)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// A sample that would not read back is refused.
func TestWriteRefuses(t *testing.T) {
	ok := GPUSample{GPU: GPU{Node: "n", Instance: -1}, Time: at}
	for what, change := range map[string]func(*GPUSample){
		"time": func(s *GPUSample) { s.Time = -1 }, "node": func(s *GPUSample) { s.Node = "" },
		"gpu": func(s *GPUSample) { s.Index = -1 }, "instance": func(s *GPUSample) { s.Instance = -2 },
		"job":                 func(s *GPUSample) { s.Job = "a\nb" },
		"power_w":             func(s *GPUSample) { s.Known, s.Power = Power, math.NaN() },
		"utilization_percent": func(s *GPUSample) { s.Known, s.Utilization = Utilization, 101 },
		"processes":           func(s *GPUSample) { s.Known, s.Processes = Processes, -1 },
		"lost":                func(s *GPUSample) { s.Lost, s.Known = true, Power },
	} {
		s := ok
		change(&s)
		if err := NewWriter(&bytes.Buffer{}).Write(&s); err == nil || !strings.Contains(err.Error(), " "+what+": ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := NewWriter(&bytes.Buffer{}).Write(&ok); err != nil {
		t.Error(err)
	}
}

// The names of fields are the bits' names.
func TestFieldNames(t *testing.T) {
	if got := (Utilization | ApplicationClock | Throttle | Xid | Processes).String(); got !=
		"utilization_percent, application_clock_mhz, throttle, xid, processes" {
		t.Error(got)
	}
	for i := range Quantities {
		if q := &Quantities[i]; q.Field.String() != q.Name {
			t.Errorf("%s is field %s", q.Name, q.Field)
		}
	}
	busy := GPUSample{Known: Utilization | SMActive, Utilization: 100, SMActive: .5}
	if u, ok := busy.Busy(); u != .5 || !ok {
		t.Error(u, ok)
	}
}

func TestSummary(t *testing.T) {
	s := NewSummary()
	for i := range 100 {
		if i > 40 && i <= 60 {
			continue
		}
		x := GPUSample{GPU: GPU{Node: "n", Instance: -1}, Time: at + time.Duration(i)*15*time.Second, Known: Power,
			Power: float64(i), Job: "j"}
		s.AddGPU(&x)
		x.Index = 1
		if i%2 == 0 {
			s.AddGPU(&x)
		}
	}
	r := s.Report(GPUs)
	if r.GPUs != 2 || r.Nodes != 1 || r.Jobs != 1 || r.Period != 15*time.Second || r.Gaps != 2 || len(r.Longest) != 2 ||
		r.Longest[0].Of != "n:1" || r.Longest[1].To-r.Longest[1].From != 21*15*time.Second ||
		math.Abs(r.Coverage-120./(100+99)) > 1e-9 || r.Quantities[0].Most != 99 || r.Unsorted+r.Repeated != 0 {
		t.Errorf("%+v", r)
	}
	x := GPUSample{GPU: GPU{Node: "n", Instance: -1}, Time: at, Lost: true, Known: Xid, Xid: 79}
	s.AddGPU(&x)
	x.Time = at + 99*15*time.Second
	s.AddGPU(&x)
	if r := s.Report(GPUs); r.Unsorted != 1 || r.Repeated != 1 || r.Lost != 2 || r.Xids != 2 {
		t.Errorf("%+v", r)
	}
}

// The real recordings are read as a whole, and have their known figures.
func TestReadShared(t *testing.T) {
	read := func(file string) (*Stats, *Report) {
		f, err := os.Open(testshared.Path(t, "traces", "telemetry", file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s := NewSummary()
		stats, err := ReadAll(t.Context(), f, file, Options{}, s.Visit())
		if err != nil || stats.Rejected > 0 {
			t.Fatal(file, err, stats.First)
		}
		return stats, s.Report(stats.Kind)
	}
	stats, r := read("genai_pods.csv.gz")
	if stats.Samples != 161_415 || stats.Compression != "gzip" || r.GPUs != 144 || r.Period != 57*time.Second ||
		r.Gaps != 3 || r.Quantities[0].Samples != 161_415-3_998 || r.Quantities[1].Samples != 161_413 {
		t.Errorf("%+v %+v", stats, r)
	}
	if stats, r = read("pai_minibatch.csv.gz"); stats.Samples != 24_829 || r.Workers != 20 || r.Jobs != 2 {
		t.Errorf("%+v %+v", stats, r)
	}
}

// fuzz reads any text as one format: it must not panic, and its records must be
// possible and written as it is read.
func fuzz(f *testing.F, format string) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		if all := Formats(); strings.HasSuffix(name, ".golden") ||
			!all[slices.IndexFunc(all, func(x Format) bool { return x.Name == format })].detect(data) {
			continue
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var gpus []GPUSample
		n := 0
		opts := Options{Format: format, At: at, Node: "n7"}
		stats, err := ReadAll(t.Context(), bytes.NewReader(data), "SM_ACTIVE.csv", opts, Visit{
			GPU: func(s *GPUSample) error {
				if n++; !strings.ContainsAny(s.Job+s.Node+s.UUID, "\r\n") {
					gpus = append(gpus, *s)
				}
				return nil
			},
			Queue:     func(q *QueueSample) error { n++; return newQueueWriter(&bytes.Buffer{}).Write(q) },
			Iteration: func(i *Iteration) error { n++; return newIterationWriter(&bytes.Buffer{}).Write(i) }})
		if n != stats.Samples || len(stats.First) > stats.Rejected {
			t.Errorf("%d samples, %+v", n, stats)
		}
		if err == nil && len(gpus) > 0 {
			roundTrip(t, gpus)
		}
	})
}

func FuzzAcme(f *testing.F)       { fuzz(f, "acme") }
func FuzzGPUs(f *testing.F)       { fuzz(f, "autosched") }
func FuzzPods(f *testing.F)       { fuzz(f, "genai-pods") }
func FuzzIterations(f *testing.F) { fuzz(f, "iterations") }
func FuzzNvidiaSMI(f *testing.F)  { fuzz(f, "nvidia-smi") }
func FuzzMinibatch(f *testing.F)  { fuzz(f, "pai-minibatch") }
func FuzzPhilly(f *testing.F)     { fuzz(f, "philly") }
func FuzzPrometheus(f *testing.F) { fuzz(f, "prometheus") }
func FuzzSMILog(f *testing.F)     { fuzz(f, "nvidia-smi-xml") }
func FuzzAnswers(f *testing.F)    { fuzz(f, "prometheus-json") }
func FuzzQueues(f *testing.F)     { fuzz(f, "queue") }

// One row of eight GPUs' readings a minute, as the service reads them.
func BenchmarkRead(b *testing.B) {
	var text bytes.Buffer
	w := NewWriter(&text)
	const rows = 10_000
	for i := range rows {
		s := GPUSample{GPU: GPU{Node: fmt.Sprintf("node%03d", i/8%100), Index: i % 8, Instance: -1},
			UUID: fmt.Sprintf("GPU-%032d", i%800), Time: at + time.Duration(i/800)*15*time.Second,
			Known: 1<<12 - 1, Utilization: 97, SMActive: .512, MemoryUsed: 31_234, MemoryTotal: 81_559, Power: 312.25,
			Energy: 1e9 + float64(i), Temperature: 61, SMClock: 1410, ApplicationClock: 1410, Processes: 1, Job: "12345"}
		if err := w.Write(&s); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		_, err := Read(b.Context(), bytes.NewReader(text.Bytes()), "f", Options{},
			func(*GPUSample) error { n++; return nil })
		if err != nil || n != rows {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}

func newQueueWriter(w io.Writer) *Writer[QueueSample] { return newWriter(w, queueColumns) }

func newIterationWriter(w io.Writer) *Writer[Iteration] { return newWriter(w, iterationColumns) }
