package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// gpusOf reads the GPU samples of a text.
func gpusOf(t *testing.T, text, name string, opts Options) ([]GPUSample, *Stats) {
	t.Helper()
	var got []GPUSample
	stats, err := Read(t.Context(), strings.NewReader(text), name, opts, func(s *GPUSample) error {
		got = append(got, *s)
		return nil
	})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return got, stats
}

// TestMalformedRows: a bad row is rejected by file, line, field, value and reason, and its neighbours are read.
func TestMalformedRows(t *testing.T) {
	const (
		own   = "time,node,gpu,utilization_percent,memory_used_mib,power_w,throttle,xid,lost\n"
		smi   = "timestamp, index, utilization.gpu [%], power.draw [W]\n"
		pods  = "unix,pod,gpu_util,gpu_memory_used_mib\n"
		wide  = "time,machineId,gpu0_util,gpu1_util\n"
		queue = "time,queue,pending,pending_gpus,free_gpus,total_gpus\n"
		steps = "job,worker,step,seconds,time\n"
		batch = "job,worker,iteration,batch_time\n"
	)
	for _, c := range []struct {
		header, good, bad, field, reason string
	}{
		{own, "1,a,0,5,6,7,0x4,0,", "x,a,0,,,,,,", "time", noClock},
		{own, "1,a,0,5,6,7,0x4,0,", "-1,a,0,,,,,,", "time", noClock},
		{own, "1,a,0,5,6,7,0x4,0,", ",a,0,,,,,,", "time", isEmpty},
		{own, "1,a,0,5,6,7,0x4,0,", "1,,0,,,,,,", "node", isEmpty},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,-1,,,,,,", "gpu", notWhole},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,1.5,,,,,,", "gpu", notWhole},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,100001,,,,,,", "gpu", outOfRange},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,101,,,,,", "utilization_percent", outOfRange},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,-0.5,,,,,", "utilization_percent", outOfRange},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,NaN,,,,,", "utilization_percent", notNumber},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,,Inf,,,,", "memory_used_mib", outOfRange},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,,,1e999,,,", "power_w", outOfRange},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,,,7 W,,,", "power_w", notNumber},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,,,,idle,,", "throttle", "is not a set of bits such as 0x4"},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,,,,,100001,", "xid", outOfRange},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,,,,,,yes", "lost",
			"is neither 1, for a GPU that did not answer, nor 0 or empty"},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0,5,,,,,1", "lost", "a GPU that did not answer has quantities"},
		{own, "1,a,0,5,6,7,0x4,0,", "1,a,0", "line", "has another number of fields than the header"},
		{smi, "2026/01/05 12:00:00.000, 0, 5 %, 7 W", "2026-01-05 12:00:00, 0, 5 %, 7 W", "timestamp",
			"is not a time such as 2026/01/05 12:00:00.123"},
		{smi, "2026/01/05 12:00:00.000, 0, 5 %, 7 W", "1969/12/31 12:00:00, 0, 5 %, 7 W", "timestamp", outOfRange},
		{smi, "2026/01/05 12:00:00.000, 0, 5 %, 7 W", "2026/01/05 12:00:00, x, 5 %, 7 W", "index", notWhole},
		{smi, "2026/01/05 12:00:00.000, 0, 5 %, 7 W", "2026/01/05 12:00:00, 0, 5 %, 7 kW", "power.draw", notNumber},
		{smi, "2026/01/05 12:00:00.000, 0, 5 %, 7 W", "2026/01/05 12:00:00, 0, 500 %, 7 W", "utilization.gpu",
			outOfRange},
		{smi, "2026/01/05 12:00:00.000, 0, 5 %, 7 W", "2026/01/05 12:00:00, 0", "line",
			"has another number of fields than the header"},
		{pods, "1,p,50,1000", "1,,50,1000", "pod", isEmpty},
		{pods, "1,p,50,1000", "1,p,50,-1", "gpu_memory_used_mib", outOfRange},
		{wide, "1,m,5", "1,m,x", "gpu0_util", notNumber},
		{wide, "1,m,5", "1,,5", "machineId", isEmpty},
		{wide, "1,m,5", "noon,m,5", "time", noClock},
		{wide, "1,m,5", "1,m", "line", "has not 1 to 8 GPUs"},
		{wide, "1,m,5", "1,m,1,2,3,4,5,6,7,8,9", "line", "has not 1 to 8 GPUs"},
		{queue, "1,q,1,2,3,4", "1,q,1,2,5,4", "free_gpus", "is more than total_gpus"},
		{queue, "1,q,1,2,3,4", "1,q,-1,2,3,4", "pending", notWhole},
		{queue, "1,q,1,2,3,4", "1,q,,2,3,4", "pending", isEmpty},
		{steps, "j,0,1,0.5,1", ",0,1,0.5,1", "job", isEmpty},
		{steps, "j,0,1,0.5,1", "j,0,1,-0.5,1", "seconds", noClock},
		{batch, "j,0,1,100", "j,0,1,-1", "batch_time", outOfRange},
		{batch, "j,0,1,100", "j,0,1,NaN", "batch_time", notNumber},
	} {
		n := 0
		count := Visit{GPU: func(*GPUSample) error { n++; return nil },
			Queue:     func(*QueueSample) error { n++; return nil },
			Iteration: func(*Iteration) error { n++; return nil }}
		text := c.header + c.good + "\n" + c.bad + "\n" + c.good + "\n"
		stats, err := ReadAll(t.Context(), strings.NewReader(text), "x.csv", Options{Node: "n"}, count)
		if err != nil || n != 2 || stats.Rejected != 1 || stats.Rows != 3 {
			t.Errorf("%q: %d records of %d rows, %d rejected: %v", c.bad, n, stats.Rows, stats.Rejected, err)
			continue
		}
		if x := stats.First[0]; x.File != "x.csv" || x.Line != 3 || x.Field != c.field || x.Reason != c.reason {
			t.Errorf("%q: %+v, want %s: %s", c.bad, x, c.field, c.reason)
		}
	}
}

// TestMalformedScrapes: a bad line of a scrape is rejected and the other metrics of the GPU are read.
func TestMalformedScrapes(t *testing.T) {
	const good = `DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="h"} 60 1700000000000` + "\n"
	for line, want := range map[string]string{
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="h"}`:                  "GPU_UTIL: is not METRIC{LABELS} VALUE",
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="h`:                    "GPU_UTIL: is not METRIC{LABELS} VALUE",
		`DCGM_FI_DEV_GPU_UTIL{gpu=0,Hostname="h"} 1 1700000000000`:    `labels: are not NAME="VALUE",...`,
		`DCGM_FI_DEV_GPU_UTIL{gpu="0" Hostname="h"} 1 1700000000000`:  `labels: are not NAME="VALUE",...`,
		`DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1 1700000000000`:               "Hostname: is missing: the GPU has no node, which --node names",
		`DCGM_FI_DEV_GPU_UTIL{Hostname="h"} 1 1700000000000`:          "gpu: is missing, as is a UUID",
		`DCGM_FI_DEV_GPU_UTIL{gpu="-1",Hostname="h"} 1 1700000000000`: "gpu: is not a whole number",
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",GPU_I_ID="x",Hostname="h"} 1 1`: "GPU_I_ID: is not a whole number",
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="h"} high 1`:           "GPU_UTIL: is not a number",
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="h"} +Inf 1`:           "GPU_UTIL: is out of range",
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="h"} -1 1`:             "GPU_UTIL: is out of range",
		`DCGM_FI_DEV_FB_FREE{gpu="0",Hostname="h"} -1 1`:              "FB_FREE: is out of range",
		`DCGM_FI_DEV_XID_ERRORS{gpu="0",Hostname="h"} 1.5 1`:          "XID_ERRORS: is out of range",
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="h"} 1 -1`:             "timestamp: is neither seconds nor milliseconds since 1970",
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="h"} 1 noon`:           "timestamp: is neither seconds nor milliseconds since 1970",
		`DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="h"} 1 1e18`:           "timestamp: is neither seconds nor milliseconds since 1970",
	} {
		got, stats := gpusOf(t, good+line+"\n", "s", Options{})
		if len(got) != 1 || got[0].Temperature != 60 || got[0].Has(Utilization) || stats.Rejected != 1 ||
			stats.First[0].Line != 2 || stats.First[0].Field+": "+stats.First[0].Reason != want {
			t.Errorf("%s: %+v, %v, want %s", line, got, stats.First, want)
		}
	}
}

// TestScales: each format's numbers are in the units of GPUSample.
func TestScales(t *testing.T) {
	scrape := func(metric, value string) string {
		return fmt.Sprintf("%s{gpu=\"3\",Hostname=\"h\"} %s 1700000000250\n", metric, value)
	}
	for _, c := range []struct {
		name, text string
		field      Field
		want       float64
	}{
		{"s", scrape("DCGM_FI_DEV_GPU_UTIL", "50"), Utilization, 50},
		{"s", scrape("DCGM_FI_PROF_SM_ACTIVE", "0.5"), SMActive, .5},
		{"s", scrape("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "2500"), Energy, 2.5},
		{"s", scrape("DCGM_FI_DEV_POWER_USAGE", "312.5"), Power, 312.5},
		{"s", scrape("DCGM_FI_DEV_FB_USED", "1024"), MemoryUsed, 1024},
		{"s", scrape("DCGM_FI_DEV_GPU_TEMP", "-5"), Temperature, -5},
		{"s", scrape("DCGM_FI_DEV_FB_USED", "1024") + scrape("DCGM_FI_DEV_FB_FREE", "512"), MemoryTotal, 1536},
		{"s", scrape("DCGM_FI_DEV_FB_USED", "1024") + scrape("DCGM_FI_DEV_FB_FREE", "512") +
			scrape("DCGM_FI_DEV_FB_TOTAL", "2048"), MemoryTotal, 2048},
		{"SM_ACTIVE.csv", "Time,h-3\n1700000000.25,50\n", SMActive, .5},
		{"GPU_UTIL-2023-07.csv", "Time,h-3\n1700000000.25,50\n", Utilization, 50},
		{`C:\x\POWER_USAGE.csv`, "Time,h-3\n1700000000.25,50\n", Power, 50},
		{"TOTAL_ENERGY_CONSUMPTION.csv", "Time,h-3\n1700000000.25,50\n", Energy, .05},
	} {
		got, stats := gpusOf(t, c.text, c.name, Options{})
		if len(got) != 1 || !got[0].Has(c.field) || *quantityOf(c.field).At(&got[0]) != c.want ||
			got[0].GPU != (GPU{"h", 3, -1}) || got[0].Time != at+250*time.Millisecond {
			t.Errorf("%s %q: %+v, %v, want %s %v", c.name, c.text, got, stats.First, c.field, c.want)
		}
	}
	for _, value := range []string{"NaN", "2147483632", "140737488355328", "9223372036854775792"} { // DCGM's blanks
		got, stats := gpusOf(t, scrape("DCGM_FI_DEV_POWER_USAGE", value), "s", Options{})
		if len(got) != 0 || stats.Absent != 1 || stats.Rejected != 0 {
			t.Errorf("%s: %+v, %+v", value, got, stats)
		}
	}
}

// TestScrapeSeparators: blanks and tabs separate the tokens of a line.
func TestScrapeSeparators(t *testing.T) {
	for _, line := range []string{"{gpu=\"0\",Hostname=\"h\"}\t93\t1700000000000",
		"{gpu=\"0\",Hostname=\"h\"}93 1700000000000 ",
		" \t{ gpu = \"0\" , Hostname = \"h\" , } \t93 \t1700000000000\t", "{gpu=\"0\",Hostname=\"h\"} 93.0  1700000000000\r"} {
		got, stats := gpusOf(t, "# TYPE x gauge\nDCGM_FI_DEV_GPU_UTIL"+strings.TrimLeft(line, " \t")+"\n", "s",
			Options{})
		if len(got) != 1 || got[0].Utilization != 93 || got[0].Time != at {
			t.Errorf("%q: %+v, %v", line, got, stats.First)
		}
	}
}

// TestLabels: nodes and jobs come from the first known label; quotes, braces and commas in values are text.
func TestLabels(t *testing.T) {
	for _, c := range []struct {
		labels    string
		node, job string
	}{
		{`Hostname="a",instance="b:9400"`, "a", ""},
		{`instance="b:9400"`, "n", ""},
		{`Hostname="",node="c"`, "c", ""},
		{`Hostname="a}{,=\"b\\"`, `a}{,="b\`, ""},
		{`Hostname="a",hpc_job="7",pod="p"`, "a", "7"},
		{`Hostname="a",pod="p",exported_pod="q"`, "a", "q"},
		{`Hostname="a",job="exporter"`, "a", ""},
		{`Hostname="é'; DROP",job_id="<b>"`, "é'; DROP", "<b>"},
	} {
		text := `DCGM_FI_DEV_GPU_UTIL{gpu="0",` + c.labels + "} 1\n"
		got, stats := gpusOf(t, text, "s", Options{At: at, Node: "n"})
		if len(got) != 1 || got[0].Node != c.node || got[0].Job != c.job {
			t.Errorf("%s: %+v, %v", c.labels, got, stats.First)
		}
	}
	got, _ := gpusOf(t, `DCGM_FI_DEV_GPU_UTIL{gpu="0",instance="b:9400",GPU_I_ID="2"} 1`, "s", Options{At: at})
	if len(got) != 1 || got[0].GPU != (GPU{"b", 0, 2}) {
		t.Errorf("%+v", got)
	}
	got, _ = gpusOf(t, `DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="a",hpc_job="1"} 1
DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="a",hpc_job="2"} 1
DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="a",hpc_job="1"} 1
`, "s", Options{At: at})
	if len(got) != 1 || got[0].Job != "" {
		t.Errorf("a GPU that jobs share: %+v", got)
	}
}

// TestRepeatedXids: an Xid error counts once, at its first sample, across scrapes and inputs.
func TestRepeatedXids(t *testing.T) {
	var text strings.Builder
	for i, xid := range []int{0, 79, 79, 31, 0, 31} {
		fmt.Fprintf(&text, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",Hostname=\"a\"} 1 %d\n"+
			"DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",Hostname=\"a\"} %d %d\n",
			i+1, xid, i+1)
	}
	opts := Options{Xids: map[GPU]int{}}
	xids := func() (xids []int) {
		got, _ := gpusOf(t, text.String(), "s", opts)
		for i := range got {
			xids = append(xids, got[i].Xid)
		}
		return xids
	}
	if got := xids(); !slices.Equal(got, []int{0, 79, 0, 31, 0, 31}) {
		t.Error(got)
	}
	text.Reset()
	text.WriteString(`DCGM_FI_DEV_XID_ERRORS{gpu="0",Hostname="a"} 31 9` + "\n")
	if got := xids(); !slices.Equal(got, []int{0}) {
		t.Error("of the input before:", got)
	}
}

// TestAbsentIsUnknown: a value that was not measured is neither zero nor a fault.
func TestAbsentIsUnknown(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"f", "time,node,gpu,power_w,utilization_percent\n1,a,0,,5\n"},
		{"f", "timestamp, index, power.draw [W], utilization.gpu [%]\n2026/01/05 12:00:00.000, 0, [N/A], 5 %\n"},
		{"f", "timestamp, index, power.draw [W], utilization.gpu [%]\n2026/01/05 12:00:00.000, 0, [Not Supported], 5 %\n"},
		{"GPU_UTIL.csv", "Time,a-0,a-1\n1,5,\n"},
		{"f", "time,machineId,gpu0_util,gpu1_util\n1,a,5,NA\n"},
	} {
		got, stats := gpusOf(t, c.text, c.name, Options{Node: "a"})
		if len(got) != 1 || got[0].Known != Utilization || got[0].Utilization != 5 || stats.Absent != 1 ||
			stats.Rejected != 0 {
			t.Errorf("%q: %+v, %+v", c.text, got, stats)
		}
	}
}

// TestGzip: a compressed text has the samples of the plain one; a cut one is an error after its samples.
func TestGzip(t *testing.T) {
	var text strings.Builder
	text.WriteString("time,node,gpu,power_w\n")
	x := rand.New(rand.NewPCG(3, 4))
	for i := range 5_000 {
		fmt.Fprintf(&text, "%d,n%d,0,%v\n", i, x.IntN(1000), x.Float64()*500)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(text.String())); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	plain, _ := gpusOf(t, text.String(), "f", Options{})
	got, stats := gpusOf(t, packed.String(), "f", Options{})
	if !slices.Equal(plain, got) || stats.Compression != "gzip" || stats.Bytes != int64(text.Len()) {
		t.Errorf("%d samples of %d, %+v", len(got), len(plain), stats)
	}
	n := 0
	_, err := Read(t.Context(), bytes.NewReader(packed.Bytes()[:packed.Len()/2]), "f", Options{},
		func(*GPUSample) error { n++; return nil })
	if err == nil || n >= len(plain) || !strings.Contains(err.Error(), "telemetry f: ") {
		t.Errorf("half of it: %d samples, %v", n, err)
	}
}

// TestCancelled: the end of the context ends the reading within the file.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	text := "time,node,gpu\n" + strings.Repeat("1,a,0\n", 1<<20)
	n := 0
	_, err := Read(ctx, strings.NewReader(text), "f", Options{}, func(*GPUSample) error {
		n++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || n >= 1<<20 {
		t.Errorf("%d samples, %v", n, err)
	}
}

// TestSummaryPlain: the period, gaps, coverage and ranges are those of a plain count over all samples.
func TestSummaryPlain(t *testing.T) {
	x := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		s, period := NewSummary(), time.Duration(1+x.IntN(60))*time.Second
		var deltas []time.Duration
		var values []float64
		var have, want float64
		repeated, unsorted := 0, 0
		spans := map[int][2]time.Duration{}
		for g := range 1 + x.IntN(4) {
			last := at
			for i := range 2 + x.IntN(100) {
				now := last
				switch {
				case i == 0:
					spans[g] = [2]time.Duration{at, at}
				case x.IntN(20) == 0:
					repeated++
				case x.IntN(20) == 0 && last > at:
					now = at
					unsorted++
				default:
					d := period
					if x.IntN(10) == 0 {
						d *= time.Duration(2 + x.IntN(5))
					}
					now, last = last+d, last+d
					deltas = append(deltas, d)
					spans[g] = [2]time.Duration{at, last}
				}
				v := x.Float64() * 300
				values = append(values, v)
				s.AddGPU(&GPUSample{GPU: GPU{Node: "n", Index: g, Instance: -1}, Time: now, Known: Power, Power: v})
				have++
			}
		}
		r := s.Report(GPUs)
		if len(deltas) == 0 {
			continue
		}
		slices.Sort(deltas)
		median, gaps := deltas[(len(deltas)-1)/2], 0
		for _, d := range deltas {
			if d > 3*median {
				gaps++
			}
		}
		for span := range maps.Values(spans) {
			want += float64((span[1]-span[0]+median/2)/median + 1)
		}
		sum := 0.
		for _, v := range values {
			sum += v
		}
		q := r.Quantities[0]
		if r.Period != median || r.Gaps != gaps || len(r.Longest) != min(gaps, keptGaps) || r.Repeated != repeated ||
			r.Unsorted != unsorted || math.Abs(r.Coverage-min(1, (have-float64(repeated))/want)) > 1e-12 ||
			q.Name != "power_w" || q.Least != slices.Min(values) || q.Most != slices.Max(values) ||
			math.Abs(q.Mean-sum/float64(len(values))) > 1e-9 {
			t.Fatalf("%+v, want a period of %v, %d gaps, %d repeated, %d unsorted", r, median, gaps, repeated, unsorted)
		}
	}
}

// TestShortPeriods: a period below a second is exact to the millisecond.
func TestShortPeriods(t *testing.T) {
	for _, period := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond,
		250 * time.Millisecond, time.Second} {
		s := NewSummary()
		for i := range 10 {
			s.AddQueue(&QueueSample{Time: at + time.Duration(i)*period})
		}
		if r := s.Report(Queues); r.Period != period || r.Gaps != 0 || r.Coverage != 1 || r.Queues != 1 {
			t.Errorf("%v: %+v", period, r)
		}
	}
}

// TestForgetImpossible: the quantities that no GPU reports are found and forgotten; the others stay.
func TestForgetImpossible(t *testing.T) {
	for i := range Quantities {
		q := &Quantities[i]
		for _, v := range []float64{q.Least - 1, q.Most * 1.01, math.NaN(), math.Inf(1), math.Inf(-1)} {
			s := GPUSample{Known: q.Field | Processes, Processes: 3}
			*q.At(&s) = v
			if bad := s.Impossible(); bad != q.Field {
				t.Errorf("%s of %v: %s", q.Name, v, bad)
			}
			if s.Forget(q.Field); s != (GPUSample{Known: Processes, Processes: 3}) {
				t.Errorf("%s of %v: %+v", q.Name, v, s)
			}
		}
		for _, v := range []float64{q.Least, q.Most} {
			s := GPUSample{}
			if reason := q.set(&s, v); reason != "" || s.Impossible() != 0 || !s.Has(q.Field) {
				t.Errorf("%s of %v: %s", q.Name, v, reason)
			}
		}
	}
}
