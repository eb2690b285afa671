package telemetry

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/autosched/autosched/internal/lines"
)

// TestMetricNames: names of exporters with their prefixes and cases lead to one metric; no name is there twice.
func TestMetricNames(t *testing.T) {
	for name, want := range map[string]Field{"DCGM_FI_DEV_GPU_UTIL": Utilization, "dcgm_gpu_util": Utilization,
		"site_DCGM_FI_DEV_GPU_UTIL": Utilization, "DCGM_FI_PROF_SM_ACTIVE": SMActive, "DCGM_FI_DEV_FB_USED": MemoryUsed,
		"amd_gpu_package_power": Power, "GPU_PACKAGE_POWER": Power, "nvidia_gpu_duty_cycle": Utilization,
		"slurm_job_power_gpu": Power, "DCGM_FI_DEV_FB_FREE": 0} {
		if m := (*Names)(nil).metric(name); m == nil || m.field != want {
			t.Errorf("%s: %v, want %v", name, m, want)
		}
	}
	for _, name := range []string{"", "gpu_util", "up", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
		"amd_amd_gpu_package_power"} {
		if (*Names)(nil).Reads(name) {
			t.Errorf("%q is read", name)
		}
	}
	if len(metricNames) != len(metrics) {
		t.Errorf("%d names of %d metrics", len(metricNames), len(metrics))
	}
	for i := range metrics {
		if m := &metrics[i]; m.name != bareMetric(m.name) || m.field != 0 && m.scale <= 0 || m.rank != i+1 {
			t.Errorf("%+v", m)
		}
	}
}

// TestReadNames: a site's names come before the known ones; a wrong file is an error that names the entry.
func TestReadNames(t *testing.T) {
	n, err := ReadNames(strings.NewReader("metrics:\n  busy: {is: utilization_percent, scale: 100}\n  of: {is: job}\n" +
		"  nr: {is: gpu}\n  rest: {is: memory_free_mib}\n  dcgm_gpu_util: {is: power_w}\nlabels:\n  node: [Machine, box]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]metric{"busy": {name: "busy", field: Utilization, scale: 100},
		"of": {name: "of", scale: 1, role: isJob}, "nr": {name: "nr", scale: 1, role: isIndex},
		"rest":          {name: "rest", scale: 1, role: isFreeMemory},
		"dcgm_gpu_util": {name: "dcgm_gpu_util", field: Power, scale: 1}} {
		if m := n.metric(name); m == nil || *m != want || !n.Reads(name) {
			t.Errorf("%s: %+v, want %+v", name, m, want)
		}
	}
	if got := n.own("node"); !slices.Equal(got, []string{"machine", "box"}) || n.own("job") != nil {
		t.Errorf("labels %v", got)
	}
	if m := n.metric("dcgm_sm_active"); m == nil || m.field != SMActive {
		t.Errorf("a known name: %v", m)
	}
	for text, want := range map[string]string{
		"metrics: {m: {is: frequency}}":               `metrics: m: is: "frequency" is none of`,
		"metrics: {m: {is: processes}}":               "is none of",
		"metrics: {m: {is: power_w, scale: 0}}":       "metrics: m: scale: 0 is not positive",
		"metrics: {m: {is: power_w, scale: -1}}":      "not positive",
		"metrics: {m: {is: power_w, scale: .inf}}":    "not positive",
		"metrics: {m: {is: power_w, scale: .nan}}":    "not positive",
		"metrics: {m: {is: power_w, unit: mW}}":       "unit",
		"labels: {host: [a]}":                         `labels: "host" is none of node, gpu, uuid, instance, job`,
		"metrics: [":                                  "yaml",
		"metrics: {m: {is: power_w}}\nother: nothing": "other",
	} {
		if _, err := ReadNames(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if n, err := ReadNames(strings.NewReader("")); err != nil || len(n.metrics) != 0 {
		t.Errorf("an empty file: %v", err)
	}
}

// TestBlank: DCGM's blank values lie in 16 at the ends of 32-bit and 64-bit integers and from 2^47.
func TestBlank(t *testing.T) {
	for v, want := range map[float64]bool{0x7fffffef: false, 0x7ffffff0: true, 0x7fffffff: true, 0x80000000: false,
		1<<47 - 1: false, 1 << 47: true, 1<<47 + 15: true, 1<<47 + 16: false, 0x7ffffffffffff000: false,
		1 << 63: true, 1<<63 + 1<<12: false, math.Inf(1): false, 0: false, -1: false} {
		if got := blank(v); got != want {
			t.Errorf("%g: blank %t, want %t", v, got, want)
		}
	}
	if !blank(math.NaN()) {
		t.Error("NaN is a value")
	}
	power, use := metricNames["gpu_package_power"], metricNames["gpu_gfx_activity"]
	if !power.absent(math.MaxUint16) || power.absent(math.MaxUint16-1) || use.absent(math.MaxUint16) {
		t.Error("AMD's greatest value of 16 bits is unknown of power alone")
	}
}

// TestTake: values at, and just beyond, the bounds of each kind of metric.
func TestTake(t *testing.T) {
	for _, c := range []struct {
		metric string
		value  float64
		want   float64 // of the quantity
		ok     bool
	}{
		{"dcgm_gpu_util", 100, 100, true}, {"dcgm_gpu_util", 100.1, 0, false}, {"dcgm_gpu_util", -.1, 0, false},
		{"dcgm_gpu_util_ratio", 1, 100, true}, {"dcgm_gpu_util_ratio", .5, 50, true},
		{"dcgm_gpu_util_ratio", 1.5, 1.5, true}, // an older version's percent
		{"dcgm_sm_active", 1, 1, true}, {"dcgm_sm_active", 1.01, 0, false},
		{"dcgm_fb_used_bytes", 1 << 30, 1024, true}, {"dcgm_sm_clock_hertz", 1.41e9, 1410, true},
		{"nvidia_gpu_power_usage_milliwatts", 250_000, 250, true},
		{"dcgm_xid_errors", 79, 79, true}, {"dcgm_xid_errors", 79.5, 0, false}, {"dcgm_xid_errors", -1, 0, false},
		{"dcgm_xid_errors", maxXid, maxXid, true}, {"dcgm_xid_errors", maxXid + 1, 0, false},
		{"dcgm_clocks_event_reasons", 4, 4, true}, {"dcgm_clocks_event_reasons", .5, 0, false},
		{"dcgm_clocks_event_reasons", 1 << 53, 0, false},
	} {
		m := metricNames[c.metric]
		var s GPUSample
		reason := m.take(&s, c.value)
		got := 0.
		switch q := quantityOf(m.field); {
		case q != nil:
			got = *q.At(&s)
		case m.field == Xid:
			got = float64(s.Xid)
		default:
			got = float64(s.Throttle)
		}
		if (reason == "") != c.ok || math.Abs(got-c.want) > 1e-9 || s.Has(m.field) != c.ok {
			t.Errorf("%s of %g: %g, %q, want %g (%t)", c.metric, c.value, got, reason, c.want, c.ok)
		}
	}
}

// TestBusy: SM activity is preferred, and unknown is not idle.
func TestBusy(t *testing.T) {
	for _, c := range []struct {
		known Field
		want  float64
		ok    bool
	}{{SMActive | Utilization, .25, true}, {SMActive, .25, true}, {Utilization, .9, true}, {Power, 0, false}, {0, 0,
		false}} {
		s := GPUSample{Known: c.known, SMActive: .25, Utilization: 90}
		if got, ok := s.Busy(); got != c.want || ok != c.ok {
			t.Errorf("%v known: %g, %t, want %g, %t", c.known, got, ok, c.want, c.ok)
		}
	}
}

// TestNothing: a file without records is an error that says why.
func TestNothing(t *testing.T) {
	rejected := Stats{File: "f", Rows: 3}
	rejected.Rejected, rejected.First = 2, []lines.Rejection{{File: "f", Line: 2, Field: "gpu", Value: "x", Reason: "no"}}
	for name, c := range map[string]struct {
		stats Stats
		want  string
	}{
		"records":      {Stats{Samples: 1, Rows: 1}, ""},
		"rejected":     {rejected, "2 of 3 rows rejected, first f:2: gpu: x: no"},
		"unknown":      {Stats{File: "f", Rows: 1, Unknown: []string{"a", "b"}}, "no metric of this scrape is known: a, b"},
		"without text": {Stats{File: "f"}, "it has no rows"},
		"blank":        {Stats{File: "f", Rows: 2}, "none of 2 rows has a value"},
	} {
		err := c.stats.Nothing()
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrNothing) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestReadFile: a file is read by its path, in the format that its beginning shows.
func TestReadFile(t *testing.T) {
	const text = "time,node,gpu,utilization_percent\n2026-01-05T00:00:00Z,n1,0,50\n"
	path := filepath.Join(t.TempDir(), "gpus.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	stats, err := ReadFile(t.Context(), path, Options{}, Visit{GPU: func(s *GPUSample) error {
		n++
		if s.Node != "n1" || s.Utilization != 50 {
			t.Errorf("%+v", s)
		}
		return nil
	}})
	if err != nil || n != 1 || stats.File != "gpus.csv" {
		t.Errorf("%d samples, %+v, %v", n, stats, err)
	}
	if _, err := ReadFile(t.Context(), path+"x", Options{}, Visit{}); !errors.Is(err, os.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "telemetry: open ") {
		t.Errorf("without the file: %v", err)
	}
	if stats.Format == "" {
		t.Error("the format has no name")
	}
	_, err = ReadAll(t.Context(), strings.NewReader("nothing known\n"), "x", Options{}, Visit{})
	if !errors.Is(err, ErrFormat) {
		t.Errorf("of an unknown text: %v", err)
	}
}
