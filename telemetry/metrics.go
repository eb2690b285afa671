package telemetry

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// metric is how exporters report a quantity.
type metric struct {
	name  string // as bareMetric writes it
	field Field  // 0 for a role
	scale float64
	role  role
	rank  int // in the table: of two metrics of a quantity the first counts
}

// role is the meaning of a metric that is no quantity.
type role uint8

const (
	isQuantity   role = iota
	isFreeMemory      // completes the used memory
	isIndex           // the GPU's index on its node
	isJob             // the number of the job
	isShare           // of 1, or of 100 as older versions of the exporter have it
)

const (
	fromBytes = 1. / (1 << 20) // to MiB
	fromHertz = 1e-6
)

// metrics are the known names, the preferred one of a quantity first. Those with units are the names of DCGM 4.7.
var metrics = ranked([]metric{
	{name: "dcgm_gpu_util", field: Utilization, scale: 1},
	{name: "dcgm_gpu_utilization", field: Utilization, scale: 1}, // dcgm-exporter 1
	{name: "dcgm_gpu_util_ratio", field: Utilization, scale: 100, role: isShare},
	{name: "dcgm_sm_active", field: SMActive, scale: 1},
	{name: "dcgm_sm_util_ratio", field: SMActive, scale: 1},
	{name: "dcgm_sm_occupancy", field: SMOccupancy, scale: 1},
	{name: "dcgm_sm_occupancy_ratio", field: SMOccupancy, scale: 1},
	{name: "dcgm_pipe_tensor_active", field: TensorActive, scale: 1},
	{name: "dcgm_tensor_util_ratio", field: TensorActive, scale: 1},
	{name: "dcgm_dram_active", field: DRAMActive, scale: 1},
	{name: "dcgm_dram_util_ratio", field: DRAMActive, scale: 1},
	{name: "dcgm_fb_used", field: MemoryUsed, scale: 1},
	{name: "dcgm_fb_used_bytes", field: MemoryUsed, scale: fromBytes},
	{name: "dcgm_fb_total", field: MemoryTotal, scale: 1},
	{name: "dcgm_fb_capacity_bytes", field: MemoryTotal, scale: fromBytes},
	{name: "dcgm_fb_free", scale: 1, role: isFreeMemory},
	{name: "dcgm_fb_free_bytes", scale: fromBytes, role: isFreeMemory},
	{name: "dcgm_power_usage", field: Power, scale: 1},
	{name: "dcgm_board_power_watts", field: Power, scale: 1},
	{name: "dcgm_total_energy_consumption", field: Energy, scale: 1e-3}, // mJ
	{name: "dcgm_gpu_energy_joules_total", field: Energy, scale: 1},
	{name: "dcgm_gpu_temp", field: Temperature, scale: 1},
	{name: "dcgm_gpu_temp_celsius", field: Temperature, scale: 1},
	{name: "dcgm_sm_clock", field: SMClock, scale: 1},
	{name: "dcgm_sm_clock_hertz", field: SMClock, scale: fromHertz},
	{name: "dcgm_app_sm_clock", field: ApplicationClock, scale: 1},
	{name: "dcgm_app_sm_clock_hertz", field: ApplicationClock, scale: fromHertz},
	{name: "dcgm_clocks_event_reasons", field: Throttle, scale: 1},
	{name: "dcgm_clock_throttle_reasons", field: Throttle, scale: 1}, // before DCGM 3.3
	{name: "dcgm_xid_errors", field: Xid, scale: 1},
	{name: "dcgm_xid_error", field: Xid, scale: 1},
	// nvidia_gpu_exporter, from nvidia-smi's columns.
	{name: "nvidia_smi_utilization_gpu_ratio", field: Utilization, scale: 100},
	{name: "nvidia_smi_memory_used_bytes", field: MemoryUsed, scale: fromBytes},
	{name: "nvidia_smi_memory_total_bytes", field: MemoryTotal, scale: fromBytes},
	{name: "nvidia_smi_power_draw_watts", field: Power, scale: 1},
	{name: "nvidia_smi_power_draw_instant_watts", field: Power, scale: 1},
	{name: "nvidia_smi_power_draw_average_watts", field: Power, scale: 1},
	{name: "nvidia_smi_energy_joules_total", field: Energy, scale: 1},
	{name: "nvidia_smi_temperature_gpu", field: Temperature, scale: 1},
	{name: "nvidia_smi_clocks_current_sm_clock_hz", field: SMClock, scale: fromHertz},
	{name: "nvidia_smi_clocks_applications_graphics_clock_hz", field: ApplicationClock, scale: fromHertz},
	{name: "nvidia_smi_clocks_event_reasons_active", field: Throttle, scale: 1},
	{name: "nvidia_smi_clocks_throttle_reasons_active", field: Throttle, scale: 1},
	{name: "nvidia_smi_index", role: isIndex},
	// nvidia_gpu_prometheus_exporter and jobstats.
	{name: "nvidia_gpu_duty_cycle", field: Utilization, scale: 1},
	{name: "nvidia_gpu_memory_used_bytes", field: MemoryUsed, scale: fromBytes},
	{name: "nvidia_gpu_memory_total_bytes", field: MemoryTotal, scale: fromBytes},
	{name: "nvidia_gpu_power_usage_milliwatts", field: Power, scale: 1e-3},
	{name: "nvidia_gpu_temperature_celsius", field: Temperature, scale: 1},
	{name: "nvidia_gpu_jobid", role: isJob},
	// slurm-job-exporter.
	{name: "slurm_job_utilization_gpu", field: Utilization, scale: 1},
	{name: "slurm_job_memory_usage_gpu", field: MemoryUsed, scale: fromBytes},
	{name: "slurm_job_power_gpu", field: Power, scale: 1e-3},
	// AMD's device metrics exporter; its MB are MiB.
	{name: "gpu_gfx_activity", field: Utilization, scale: 1},
	{name: "gpu_used_vram", field: MemoryUsed, scale: 1},
	{name: "gpu_total_vram", field: MemoryTotal, scale: 1},
	{name: "gpu_free_vram", scale: 1, role: isFreeMemory},
	{name: "gpu_package_power", field: Power, scale: 1},
	{name: "gpu_average_package_power", field: Power, scale: 1},
	{name: "gpu_power_usage", field: Power, scale: 1},
	{name: "gpu_energy_consumed", field: Energy, scale: 1e-6}, // uJ
	{name: "gpu_junction_temperature", field: Temperature, scale: 1},
	{name: "gpu_edge_temperature", field: Temperature, scale: 1},
})

func ranked(list []metric) []metric {
	for i := range list {
		list[i].rank = i + 1
	}
	return list
}

// metricNames finds a metric by its bare name.
var metricNames = func() map[string]*metric {
	byName := map[string]*metric{}
	for i := range metrics {
		byName[metrics[i].name] = &metrics[i]
	}
	return byName
}()

// bareMetric is a name in lower case, with dcgm_ in place of DCGM's longer prefixes and what a site put before them,
// and without AMD's optional one.
func bareMetric(name string) string {
	name = strings.ToLower(name)
	for _, prefix := range []string{"dcgm_fi_dev_", "dcgm_fi_prof_"} {
		if _, rest, ok := strings.Cut(name, prefix); ok {
			return dcgm + rest
		}
	}
	if rest, ok := strings.CutPrefix(name, "amd_"); ok {
		return rest
	}
	return name
}

const dcgm = "dcgm_"

// String is the name without DCGM's prefix.
func (m *metric) String() string {
	if rest, ok := strings.CutPrefix(m.name, dcgm); ok {
		return strings.ToUpper(rest)
	}
	return m.name
}

// The labels of a scrape that say of which GPU, node and job a value is, in lower case; the first one found counts.
// Prometheus puts "exported_" before those of the exporter that its own have the names of.
var (
	nodeLabels = []string{"node", "kubernetes_node", "node_name", "nodename", "k8s_node_name",
		"kubernetes_io_hostname"}
	hostLabels     = []string{"hostname", "host", "host_name"}
	indexLabels    = []string{"gpu", "ordinal", "gpu_id", "gpu_index", "index", "minor_number", "device"}
	uuidLabels     = []string{"uuid", "gpu_uuid", "serial_number", "pci_bus_id"}
	instanceLabels = []string{"gpu_i_id", "gpu_instance_id"}
	jobLabels      = []string{"hpc_job", "job_id", "jobid", "slurmjobid", "slurm_job_id"}
	podLabels      = []string{"pod", "pod_name"}
)

// Names are a site's own names of metrics and labels, which come before the known ones.
type Names struct {
	metrics map[string]*metric
	labels  map[string][]string // by what they say: node, gpu, uuid, instance, job
}

// ReadNames reads names from YAML:
//
//	metrics:
//	  site_gpu_busy: {is: utilization_percent, scale: 100}
//	  site_gpu_job: {is: job}
//	labels:
//	  node: [machine]
//
// A metric is a column of the project's CSV, or memory_free_mib, gpu (its index) or job (its number); scale makes the
// column's unit of the metric's, and is 1 by default. The labels are node, gpu, uuid, instance and job.
func ReadNames(r io.Reader) (*Names, error) {
	var file struct {
		Metrics map[string]struct {
			Is    string
			Scale *float64
		}
		Labels map[string][]string
	}
	d := yaml.NewDecoder(io.LimitReader(r, 1<<20))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	n := &Names{metrics: map[string]*metric{}, labels: map[string][]string{}}
	for name, x := range file.Metrics {
		m := &metric{name: name, scale: 1}
		if x.Scale != nil {
			m.scale = *x.Scale
		}
		switch x.Is {
		case "memory_free_mib":
			m.role = isFreeMemory
		case "gpu":
			m.role = isIndex
		case "job":
			m.role = isJob
		default:
			i := slices.Index(fieldNames, x.Is)
			if i < 0 || Field(1<<i) == Processes {
				return nil, fmt.Errorf("metrics: %s: is: %q is none of %s, memory_free_mib, gpu, job", name, x.Is,
					strings.Join(fieldNames, ", "))
			}
			m.field = Field(1 << i)
		}
		if !(m.scale > 0) || math.IsInf(m.scale, 0) {
			return nil, fmt.Errorf("metrics: %s: scale: %g is not positive", name, m.scale)
		}
		n.metrics[name] = m
	}
	for what, labels := range file.Labels {
		if !slices.Contains([]string{"node", "gpu", "uuid", "instance", "job"}, what) {
			return nil, fmt.Errorf("labels: %q is none of node, gpu, uuid, instance, job", what)
		}
		for i := range labels {
			labels[i] = strings.ToLower(labels[i])
		}
		n.labels[what] = labels
	}
	return n, nil
}

// metric finds a metric by its name, nil if it is not known.
func (n *Names) metric(name string) *metric {
	if n != nil {
		if m := n.metrics[name]; m != nil {
			return m
		}
	}
	bare := bareMetric(name)
	if m := metricNames[bare]; m != nil {
		return m
	}
	return metricNames[strings.TrimSuffix(bare, "_total")] // as OpenMetrics ends the names of counters
}

// Reads reports whether a metric is read.
func (n *Names) Reads(name string) bool { return n.metric(name) != nil }

// own are the site's labels of a kind.
func (n *Names) own(what string) []string {
	if n == nil {
		return nil
	}
	return n.labels[what]
}

// blank reports whether an exporter says by a value that it has none: DCGM's blanks of 32-bit and 64-bit integers and
// of floating point lie at the ends of the ranges (dcgm_structs.h).
func blank(v float64) bool {
	return math.IsNaN(v) || v >= 0x7ffffff0 && v <= 0x7fffffff || v >= 1<<47 && v < 1<<47+16 ||
		v >= 0x7ffffffffffffff0 && v <= 1<<63
}

// absent reports whether a value says that there is none; AMD's of power is the greatest of 16 bits.
func (m *metric) absent(v float64) bool { return blank(v) || m.field == Power && v == math.MaxUint16 }

// take sets a metric's value. A blank value leaves the quantity unknown.
func (m *metric) take(s *GPUSample, v float64) (reason string) {
	if m.absent(v) {
		return ""
	}
	whole := v >= 0 && v == math.Trunc(v)
	switch m.field {
	case Throttle:
		if !whole || v >= 1<<53 {
			return outOfRange
		}
		s.Throttle = uint64(v)
	case Xid:
		if !whole || v > maxXid {
			return outOfRange
		}
		s.Xid = int(v)
	default:
		scale := m.scale
		if m.role == isShare && v > 1 {
			scale = 1
		}
		return quantityOf(m.field).set(s, v*scale)
	}
	s.Known |= m.field
	return ""
}
