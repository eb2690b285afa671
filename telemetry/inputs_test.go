package telemetry

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/testshared"
)

// readInput reads a file of ../shared/inputs.
func readInput(t *testing.T, name string, opts Options) ([]GPUSample, *Stats) {
	t.Helper()
	f, err := os.Open(testshared.Path(t, "inputs", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []GPUSample
	stats, err := Read(t.Context(), f, name, opts, func(s *GPUSample) error {
		got = append(got, *s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, stats
}

// TestInput10: DCGM repeats the power of a GPU for each of its MIG instances, each of which names its job.
func TestInput10(t *testing.T) {
	got, stats := readInput(t, "10b.prom.gz", Options{})
	if len(got) != 122 || stats.Named != 122 || stats.Rejected != 0 {
		t.Fatalf("%d samples, %+v", len(got), stats)
	}
	for i := range got {
		if s := &got[i]; s.Instance != 1+i%2 || s.Job != fmt.Sprint(9001+i%2) || s.Power != 300 {
			t.Fatalf("%+v", s)
		}
	}
}

// TestInput11: DCGM's blank values of every width are unknown, and texts and infinities are rejected by name.
func TestInput11(t *testing.T) {
	got, stats := readInput(t, "11.prom", Options{At: at})
	if len(got) != 1 || got[0].UUID != "GPU-f" || got[0].Known != Utilization|Power|SMActive ||
		got[0].Utilization != 40 ||
		got[0].Power != 70.25 || got[0].SMActive != .25 || stats.Rejected != 2 || stats.Absent != 9 {
		t.Errorf("%+v, %+v", got, stats)
	}
}

// TestInput13: logs of nvidia-smi that cron appended to have a header each time, reasons in place of values and lines
// of errors; GPUs are known by their bus ids where there is no index.
func TestInput13(t *testing.T) {
	got, stats := readInput(t, "13a.csv", Options{Node: "n1"})
	if len(got) != 6 || stats.Rejected != 0 || stats.Messages != 4 || stats.Rows != 6 {
		t.Fatalf("%+v, %+v", got, stats)
	}
	for _, s := range []struct {
		i     int
		known Field
		lost  bool
	}{{0, Utilization | MemoryUsed | Power | Temperature, false}, {1, MemoryUsed | Temperature, false}, {3, 0, true},
		{5, Utilization | MemoryUsed | Temperature, false}} {
		if got[s.i].Known != s.known || got[s.i].Lost != s.lost {
			t.Errorf("%d: %+v", s.i, got[s.i])
		}
	}
	got, stats = readInput(t, "13b.csv", Options{Node: "n1"})
	if len(got) != 2 || got[0].Index != 0 || got[1].Index != 1 || got[0].Utilization != 90 || got[1].MemoryUsed != 3 ||
		stats.Numbered != 2 {
		t.Errorf("%+v, %+v", got, stats)
	}
}

// TestInput14: the metrics of other and older exporters are read in the units of a sample.
func TestInput14(t *testing.T) {
	for _, c := range []struct {
		file, job   string
		utilization float64
		power       float64
	}{{"14a.prom", "", 97, 301.2}, {"14b.prom", "9001", 97, 0}, {"14c.prom", "", 97, 301.2}} {
		got, stats := readInput(t, c.file, Options{At: at, Node: "n1"})
		if len(got) != 1 || got[0].GPU != (GPU{"n1", 0, -1}) || got[0].Utilization != c.utilization ||
			got[0].Power != c.power || got[0].Job != c.job || stats.Nothing() != nil {
			t.Errorf("%s: %+v, %+v", c.file, got, stats)
		}
	}
}

// TestInput23: the pod of Prometheus' own labels is the exporter's, the workload's is exported_pod, and an idle GPU has
// none.
func TestInput23(t *testing.T) {
	got, stats := readInput(t, "23.prom.gz", Options{})
	if len(got) != 2*241 || stats.Named != 241 {
		t.Fatalf("%d samples, %+v", len(got), stats)
	}
	for i := range got {
		if s := &got[i]; s.Node != "w1" || s.Job != []string{"train-0", ""}[s.Index] {
			t.Fatalf("%+v", s)
		}
	}
}

// TestOwnInputs reads inputs of the kinds of shared/inputs that are telemetry, three of each, made for this test.
func TestOwnInputs(t *testing.T) {
	const scraped = `{job="dcgm",instance="10.0.0.1:9400",gpu="0",`
	kinds := map[int]int{}
	for _, c := range []struct {
		kind int
		text string
		// samples: node, GPU, instance, job, seconds since 2026-03-02T08:00Z and utilisation; or the error
		want string
	}{
		{3, "DCGM_FI_DEV_GPU_UTIL" + scraped + `Hostname="n1.example.org",pod="x",exported_pod="a"} 5`, "n1.example.org 0 -1 a 0 5"},
		{3, "DCGM_FI_DEV_GPU_UTIL" + scraped + `Hostname="exp-x",pod="exp-x",namespace="gpu",node="n1"} 5`, "n1 0 -1  0 5"},
		{3, "DCGM_FI_DEV_GPU_UTIL" + scraped + `Hostname="n1",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb",hpc_job="4"} 5`, "n1 0 7 4 0 5"},
		{3, `slurm_job_utilization_gpu{gpu="1",slurmjobid="4711",user="u",instance="n1:9798"} 50 1772438460000`, "n7 1 -1 4711 60 50"},
		{4, "# TYPE x gauge\nvendor_gpu_busy{card=\"0\"} 1", "nothing was read: no metric of this scrape is known: vendor_gpu_busy"},
		{4, "time,node,gpu,utilization_percent\n", "nothing was read: it has no rows"},
		{4, "time,node,gpu,utilization_percent\n1772438400,n1,0,500\n", "nothing was read: 1 of 1 rows rejected"},
		{4, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "nothing was read: it has no rows"},
		{11, `{__name__="DCGM_FI_DEV_GPU_UTIL",gpu="0",Hostname="n1"} 50 1772438400.5` + "\n" +
			`{__name__="DCGM_FI_DEV_GPU_UTIL",gpu="0",Hostname="n1"} 60 1772438460500`, "n1 0 -1  0.5 50, n1 0 -1  60.5 60"},
		{11, "\xef\xbb\xbftimestamp, index, utilization.gpu [%]\r\n2026/03/02 08:00:00.000, 0, 90 %\r\n" +
			"timestamp, index, utilization.gpu [%]\r\n2026/03/02 08:01:00.000, 0, [GPU requires reset]\r\n" +
			"2026/03/02 08:02:00.000, 0, 70 %\r\n", "n7 0 -1  0 90, n7 0 -1  120 70"},
		{11, "timestamp, uuid, pci.bus_id, utilization.gpu [%]\n2026/03/02 08:00:00.000, GPU-b, 00000000:0B:00.0, 1 %\n" +
			"2026/03/02 08:00:00.000, GPU-a, 00000000:07:00.0, 2 %\n", "n7 0 -1  0 1, n7 1 -1  0 2"},
		{11, "timestamp;index;utilization.gpu [%];power.draw [W]\n2026/03/02 08:00:00,500;0;90,5 %;301,25 W\n" +
			"timestamp;index;utilization.gpu [%];power.draw [W]\n2026/03/02 08:01:00;0;\"7,5 %\";[N/A]\n",
			"n7 0 -1  0.5 90.5, n7 0 -1  60 7.5"},
		{11, "timestamp\tindex\tutilization.gpu [%]\n2026/03/02 08:00:00.000\t0\t90,5 %\n", "n7 0 -1  0 90.5"},
		{11, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"DCGM_FI_DEV_GPU_UTIL",` +
			`"gpu":"0","instance":"n1:9400","job":"dcgm"},"values":[[1772438400,"NaN"],[1772438460,"5e1"]]}]}}`,
			"n7 0 -1  60 50"},
	} {
		kinds[c.kind]++
		var got []string
		stats, err := Read(t.Context(), strings.NewReader(c.text+"\n"), "f", Options{At: 1772438400 * time.Second, Node: "n7"},
			func(s *GPUSample) error {
				if s.Has(Utilization) {
					got = append(got, fmt.Sprint(s.Node, " ", s.Index, " ", s.Instance, " ", s.Job, " ",
						s.Time.Seconds()-1772438400, " ", s.Utilization))
				}
				return nil
			})
		text := strings.Join(got, ", ")
		if err == nil && text == "" {
			text = fmt.Sprint(stats.Nothing())
		}
		if err != nil || text != c.want && (c.kind != 4 || !strings.Contains(text, c.want)) {
			t.Errorf("kind %d: %q: %s, %v; want %s", c.kind, c.text, text, err, c.want)
		}
	}
	for _, kind := range []int{3, 4, 11} {
		if kinds[kind] < 3 {
			t.Errorf("kind %d has %d inputs, want 3", kind, kinds[kind])
		}
	}
}

// TestSeries: series one after the other, of any length and in any order, make the samples that scrapes make.
func TestSeries(t *testing.T) {
	defer func(n int) { heldPoints = n }(heldPoints)
	for _, heldPoints = range []int{1 << 21, 100} {
		var scrapes, dump, seconds, quoted strings.Builder
		const hours = 40
		for i := range hours {
			for _, m := range []string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"} {
				for g := range 3 {
					fmt.Fprintf(&scrapes, "%s{Hostname=\"n\",UUID=\"u%d\",gpu=\"%d\"} %d %d\n", m, g, g, i+g,
						1e12+i*3600e3)
				}
			}
		}
		for g := range 3 {
			for _, m := range []string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"} {
				for i := range hours {
					fmt.Fprintf(&dump, "{Hostname=\"n\", UUID=\"u%d\", __name__=\"%s\", gpu=\"%d\"} %d %d\n", g, m, g,
						i+g,
						int(1e12)+i*3600e3)
					fmt.Fprintf(&seconds, "%s{Hostname=\"n\",UUID=\"u%d\",gpu=\"%d\"} %d %d.000 # {id=\"x\"} 1\n", m,
						g, g, i+g,
						int(1e9)+i*3600)
					fmt.Fprintf(&quoted, "{\"%s\", Hostname=\"n\", UUID=\"u%d\", gpu=\"%d\"} %d %d\n", m, g, g, i+g,
						int(1e9)+i*3600)
				}
			}
		}
		want, _ := gpusOf(t, scrapes.String(), "f", Options{})
		for what, text := range map[string]string{"tsdb dump": dump.String(), "OpenMetrics": seconds.String() + "# EOF\n",
			"quoted": quoted.String()} {
			got, stats := gpusOf(t, text, "f", Options{})
			if !slices.Equal(got, want) || len(got) != 3*hours || stats.Rejected != 0 {
				t.Errorf("%s, %d in memory: %d samples of %d, %v", what, heldPoints, len(got), len(want), stats.First)
			}
		}
	}
}

// TestExporterLabels: which labels are the workload's depends on how many Prometheus servers renamed them.
func TestExporterLabels(t *testing.T) {
	const scraped = `job="dcgm",instance="10.0.0.1:9400",`
	for _, c := range []struct{ labels, node, job string }{
		{`Hostname="n",pod="a"`, "n", "a"},
		{scraped + `Hostname="n",pod="dcgm-1"`, "n", ""},
		{scraped + `Hostname="n",pod="dcgm-1",exported_pod="a"`, "n", "a"},
		{scraped + `Hostname="dcgm-1",pod="dcgm-1",node="n",exported_pod="a"`, "n", "a"},
		{scraped + `Hostname="dcgm-1",pod="dcgm-1",kubernetes_node="n"`, "n", ""},
		{scraped + `Hostname="dcgm-1",pod="dcgm-1"`, "10.0.0.1", ""},
		{scraped + `exported_job="dcgm",exported_instance="n:9400",exported_pod="dcgm-1",pod="federate-1"`, "n", ""},
		{scraped + `exported_job="dcgm",exported_instance="n:9400",exported_pod="dcgm-1",exported_exported_pod="a"`, "n", "a"},
		{scraped + `Hostname="n",pod="dcgm-1",hpc_job="7"`, "n", "7"},
		{scraped + `hostname="n",pod="dcgm-1",gpu_id="0",job_id="7",gpu_partition_id="0"`, "n", "7"},
		{`instance="n.example.org:9835"`, "n.example.org", ""},
		{`node="n:9100"`, "n", ""},
	} {
		got, stats := gpusOf(t, `DCGM_FI_DEV_GPU_UTIL{gpu="0",`+c.labels+"} 1\n", "s", Options{At: at})
		if len(got) != 1 || got[0].Node != c.node || got[0].Job != c.job || got[0].Instance != -1 {
			t.Errorf("%s: %+v, %v", c.labels, got, stats.First)
		}
	}
}

// TestRenamedNodes: a GPU whose exporter has another host name after a start is one GPU, unless long after.
func TestRenamedNodes(t *testing.T) {
	text := ""
	for i, node := range []string{"pod-a", "pod-a", "pod-b", "pod-b"} {
		text += fmt.Sprintf("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"u\",Hostname=\"%s\"} 1 %d\n"+
			"DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"u\",Hostname=\"%s\"} 50 %d\n", node, 1e12+i*60e3, node, 1e12+i*60e3)
	}
	text += "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"u\",Hostname=\"moved\"} 1 1000090000000\n"
	got, stats := gpusOf(t, text, "f", Options{})
	var nodes []string
	for i := range got {
		nodes = append(nodes, got[i].Node)
	}
	if !slices.Equal(nodes, []string{"pod-a", "pod-a", "pod-a", "pod-a", "moved"}) || stats.Renamed != 2 {
		t.Errorf("%v, %+v", nodes, stats)
	}
}

// TestOtherExporters: one sample of each exporter, in the units of a sample.
func TestOtherExporters(t *testing.T) {
	for what, text := range map[string]string{
		"DCGM 4.7": `DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0",Hostname="n"} 0.5
DCGM_FI_DEV_FB_USED_BYTES{gpu="0",Hostname="n"} 1073741824
DCGM_FI_DEV_FB_CAPACITY_BYTES{gpu="0",Hostname="n"} 2147483648
DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="0",Hostname="n"} 250
DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL{gpu="0",Hostname="n"} 1000
DCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu="0",Hostname="n"} 60
DCGM_FI_DEV_SM_CLOCK_HERTZ{gpu="0",Hostname="n"} 1980000000
`,
		"a site's prefix": `site:DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n"} 50
site:DCGM_FI_DEV_FB_USED{gpu="0",Hostname="n"} 1024
site:DCGM_FI_DEV_FB_FREE{gpu="0",Hostname="n"} 1024
site:DCGM_FI_DEV_POWER_USAGE{gpu="0",Hostname="n"} 250
site:DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",Hostname="n"} 1000000
site:DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="n"} 60
site:DCGM_FI_DEV_SM_CLOCK{gpu="0",Hostname="n"} 1980
`,
		"nvidia-smi": `nvidia_smi_index{uuid="a"} 0
nvidia_smi_utilization_gpu_ratio{uuid="a"} 0.5
nvidia_smi_memory_used_bytes{uuid="a"} 1073741824
nvidia_smi_memory_total_bytes{uuid="a"} 2147483648
nvidia_smi_power_draw_watts{uuid="a"} 250
nvidia_smi_energy_joules_total{uuid="a"} 1000
nvidia_smi_temperature_gpu{uuid="a"} 60
nvidia_smi_clocks_current_sm_clock_hz{uuid="a"} 1.98e+09
`,
		"AMD": `amd_gpu_gfx_activity{gpu_id="0",hostname="n",serial_number="a",gpu_partition_id="0"} 50
gpu_used_vram{gpu_id="0",hostname="n",serial_number="a"} 1024
gpu_total_vram{gpu_id="0",hostname="n",serial_number="a"} 2048
gpu_average_package_power{gpu_id="0",hostname="n",serial_number="a"} 65535
gpu_package_power{gpu_id="0",hostname="n",serial_number="a"} 250
gpu_energy_consumed{gpu_id="0",hostname="n",serial_number="a"} 1e+09
gpu_edge_temperature{gpu_id="0",hostname="n",serial_number="a"} 0
gpu_junction_temperature{gpu_id="0",hostname="n",serial_number="a"} 60
gpu_clock_sm{gpu_id="0",hostname="n"} 1980
`,
	} {
		names, err := ReadNames(strings.NewReader("metrics: {gpu_clock_sm: {is: sm_clock_mhz}}"))
		if err != nil {
			t.Fatal(err)
		}
		got, stats := gpusOf(t, text, "f", Options{At: at, Node: "n", Names: names, Format: "prometheus"})
		if len(got) != 1 || stats.Rejected != 0 {
			t.Errorf("%s: %+v, %v", what, got, stats.First)
			continue
		}
		s := got[0]
		s.UUID = ""
		want := GPUSample{GPU: GPU{"n", 0, -1}, Time: at,
			Known: Utilization | MemoryUsed | MemoryTotal | Power | Energy |
				Temperature | SMClock, Utilization: 50, MemoryUsed: 1024, MemoryTotal: 2048, Power: 250, Energy: 1000,
			Temperature: 60, SMClock: 1980}
		if s != want {
			t.Errorf("%s: %+v, want %+v", what, s, want)
		}
	}
}

// TestNothingRead: a scrape of which no metric is known says their names.
func TestNothingRead(t *testing.T) {
	_, stats := gpusOf(t, "# TYPE x gauge\nvendor_gpu_busy{card=\"0\"} 1\ngo_threads 7\n", "f", Options{At: at, Node: "n"})
	if err := stats.Nothing(); err == nil || !strings.Contains(err.Error(),
		"no metric of this scrape is known: vendor_gpu_busy, go_threads") {
		t.Error(err)
	}
	names, err := ReadNames(strings.NewReader(
		"metrics:\n  vendor_gpu_busy: {is: utilization_percent, scale: 100}\nlabels: {gpu: [card]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := gpusOf(t, "vendor_gpu_busy{card=\"3\"} 0.25\n", "f", Options{At: at, Node: "n", Names: names})
	if len(got) != 1 || got[0].Utilization != 25 || got[0].Index != 3 {
		t.Errorf("%+v", got)
	}
	for text, want := range map[string]string{
		"metrics: {a: {is: heat}}":                 `is: "heat" is none of utilization_percent`,
		"metrics: {a: {is: power_w, scale: -1}}":   "scale: -1 is not positive",
		"labels: {rack: [r]}":                      `"rack" is none of node, gpu`,
		"metric: {}":                               "field metric not found",
		"metrics: {a: {is: power_w, factor: 1e3}}": "field factor not found",
	} {
		if _, err := ReadNames(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSMILog: outputs of nvidia-smi -q -x one after the other, one of them cut short.
func TestSMILog(t *testing.T) {
	const log = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<timestamp>Mon Mar  2 08:0%d:00 2026</timestamp>
	<attached_gpus>2</attached_gpus>
	<gpu id="00000000:07:00.0">
		<uuid>GPU-a</uuid><minor_number>1</minor_number>
		<fb_memory_usage><total>81559 MiB</total><used>30000 MiB</used></fb_memory_usage>
		<bar1_memory_usage><total>1 MiB</total><used>1 MiB</used></bar1_memory_usage>
		<utilization><gpu_util>97 %%</gpu_util></utilization>
		<processes><process_info><type>C</type></process_info><process_info><type>G</type></process_info></processes>
		<clocks_event_reasons>
			<clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
			<clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
		</clocks_event_reasons>
		<temperature><gpu_temp>60 C</gpu_temp></temperature>
		<gpu_power_readings><power_draw>N/A</power_draw><average_power_draw>301.25 W</average_power_draw></gpu_power_readings>
		<clocks><sm_clock>1980 MHz</sm_clock></clocks>
		<applications_clocks><graphics_clock>1980 MHz</graphics_clock></applications_clocks>
	</gpu>
	<gpu id="00000000:0B:00.0">
		<uuid>GPU-b</uuid>
		<mig_devices><mig_device><gpu_instance_id>3</gpu_instance_id>
			<fb_memory_usage><total>9984 MiB</total><used>12 MiB</used></fb_memory_usage></mig_device></mig_devices>
		<fb_memory_usage><total>81559 MiB</total><used>12 MiB</used></fb_memory_usage>
		<utilization><gpu_util>N/A</gpu_util></utilization>
	</gpu>
</nvidia_smi_log>
`
	one, two := fmt.Sprintf(log, 0), fmt.Sprintf(log, 1)
	got, stats := gpusOf(t, one+one[:700]+"\nFailed to initialize NVML\n"+two, "f", Options{Node: "n"})
	if len(got) != 6 || stats.Rejected != 1 || stats.First[0].Reason != "is cut short" {
		t.Fatalf("%+v, %+v", got, stats)
	}
	want := GPUSample{GPU: GPU{"n", 0, -1}, UUID: "GPU-a", Time: 1772438460 * time.Second,
		Known: Utilization | MemoryUsed |
			MemoryTotal | Power | Temperature | SMClock | ApplicationClock | Throttle | Processes, Utilization: 97,
		MemoryUsed: 30000, MemoryTotal: 81559, Power: 301.25, Temperature: 60, SMClock: 1980, ApplicationClock: 1980,
		Throttle: ThrottleSoftwarePower, Processes: 1}
	if got[3] != want {
		t.Errorf("%+v, want %+v", got[3], want)
	}
	if got[4].Index != 1 || got[4].Known != MemoryUsed|MemoryTotal || got[5].Instance != 3 ||
		got[5].MemoryTotal != 9984 {
		t.Errorf("%+v", got[4:])
	}
}

// TestPrometheusJSON: answers of the HTTP API and VictoriaMetrics' lines have the samples of the text format.
func TestPrometheusJSON(t *testing.T) {
	var text, values, vm, times, list strings.Builder
	for i := range 5 {
		fmt.Fprintf(&text, "DCGM_FI_DEV_GPU_UTIL{Hostname=\"n\",gpu=\"0\"} %d %d\n", i, 1e12+i*60e3)
		fmt.Fprintf(&values, ",[%d.5,\"%d\"]", int(1e9)+i*60-1, i)
		fmt.Fprintf(&times, ",%d", int(1e12)+i*60e3)
		fmt.Fprintf(&list, ",%d", i)
	}
	want, _ := gpusOf(t, text.String(), "f", Options{})
	const labels = `{"__name__":"DCGM_FI_DEV_GPU_UTIL","Hostname":"n","gpu":"0"}`
	fmt.Fprintf(&vm, `{"metric":%s,"values":[%s],"timestamps":[%s]}`+"\n", labels, list.String()[1:], times.String()[1:])
	got, stats := gpusOf(t, vm.String(), "f", Options{})
	if !slices.Equal(got, want) || stats.Format != "prometheus-json" || stats.Rows != 5 {
		t.Errorf("VictoriaMetrics: %+v, %+v", got, stats)
	}
	answer := fmt.Sprintf(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":%s,"values":[%s]},
		{"metric":{"__name__":"up"},"values":[[1,"1"]]}],"stats":{}}}`, labels, values.String()[1:])
	got, stats = gpusOf(t, answer+"\n"+fmt.Sprintf(
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":%s,"value":[1000000300,"9"]}]}}`, labels), "f",
		Options{})
	if len(got) != 6 || got[5].Utilization != 9 || got[4].Time != 1000000239*time.Second+5e8 || stats.Rejected != 0 {
		t.Errorf("API: %+v, %+v", got, stats)
	}
	for text, want := range map[string]string{
		`{"status":"error","errorType":"execution","error":"too many samples"}`: "the answer is an error: too many samples",
		answer[:len(answer)-40]:                "unexpected EOF",
		`{"status":"success","data":[1,2,3]}`:  "is no answer of Prometheus",
		`{"status":"success","data":{"result"`: "unexpected EOF",
	} {
		_, err := Read(t.Context(), strings.NewReader(text), "f", Options{}, func(*GPUSample) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestCronLogs: what else cron leaves in logs of nvidia-smi is skipped and counted, or named.
func TestCronLogs(t *testing.T) {
	const log = `Failed to initialize NVML: Driver/library version mismatch
NVML library version: 535.183

timestamp, index, name, utilization.gpu [%]
2026/03/02 08:00:00.101, 0, NVIDIA A100, 90 %
NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it is running.
No devices were found
2026/03/02 08:02:00.101, 0, NVIDIA A100, [N/A]
timestamp, index, utilization.gpu [%], power.draw [W]
2026/03/02 08:03:00.101, 0, 33 %, 100.00 W
2026/03/02 08:04:00.101, 0
`
	got, stats := gpusOf(t, log, "f", Options{Node: "n"})
	if len(got) != 3 || got[2].Power != 100 || stats.Messages != 5 || stats.Rejected != 1 || stats.Format != "nvidia-smi" {
		t.Errorf("%+v, %+v", got, stats)
	}
	for text, want := range map[string]string{
		"2026/03/02 08:00:00.101, 0, 90 %, 30000 MiB\n":               "output without its header: put the columns",
		"Mon Mar  2 08:00:01 2026\n+---+\n| NVIDIA-SMI 550.127.05":    "nvidia-smi's table for people: record 'nvidia-smi",
		"\n==============NVSMI LOG==============\n":                   "nvidia-smi -q's text: record",
		"# gpu    pwr  gtemp\n# Idx      W      C\n    0     70   35": "nvidia-smi dmon's table: record",
		"index, utilization.gpu [%]\n0, 5 %\n":                        "the header lacks timestamp: add it to the query",
		"timestamp, utilization.gpu [%]\n":                            "the header lacks index, which says which GPU it is",
	} {
		_, err := Read(t.Context(), strings.NewReader(text), "f", Options{Node: "n"},
			func(*GPUSample) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	const counter = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total{gpu=\"0\",Hostname=\"n\"} 5000 1700000000.5\n"
	got, _ = gpusOf(t, counter, "f", Options{})
	if len(got) != 1 || got[0].Energy != 5 || got[0].Time != at+5e8 {
		t.Errorf("a counter of OpenMetrics: %+v", got)
	}
}
