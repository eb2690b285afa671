package telemetry

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/autosched/autosched/internal/lines"
)

// phillyGPUs is the number of GPU columns of cluster_gpu_util.
const phillyGPUs = 8

func detectPhilly(head []byte) bool {
	return bytes.HasPrefix(lines.Header(head), []byte("time,machineId,gpu0_util"))
}

// readPhilly reads a row per machine with a column per GPU. Rows may end in a comma, and
// machines with fewer GPUs have fewer fields. NA is a GPU that was offline or that the
// machine does not have, which the table does not distinguish: it makes no sample.
func readPhilly(in *input) error {
	names, err := in.header()
	if err != nil {
		return err
	}
	if len(names) < 3 || names[0] != "time" || names[1] != "machineId" {
		return fmt.Errorf("%w: line %d: the header is not time,machineId,gpu0_util and so on", ErrFormat, in.line)
	}
	util := quantityOf(Utilization)
	for {
		fields, err := in.row()
		if fields == nil || err != nil {
			return err
		}
		for len(fields) > 2 && len(fields[len(fields)-1]) == 0 {
			fields = fields[:len(fields)-1]
		}
		if len(fields) < 3 || len(fields) > 2+phillyGPUs {
			in.reject("line", "has not 1 to 8 GPUs", bytes.Join(fields, []byte{','}))
			continue
		}
		at, reason := in.instant(fields[0])
		if reason != "" {
			in.reject("time", reason, fields[0])
			continue
		}
		if len(fields[1]) == 0 {
			in.reject("machineId", isEmpty, nil)
			continue
		}
		s := GPUSample{Time: at, GPU: GPU{Node: in.text(fields[1]), Instance: -1}}
		for i, b := range fields[2:] {
			if len(b) == 0 || string(b) == "NA" {
				in.stats.Absent++
				continue
			}
			s.Index, s.Known = i, 0
			v, reason := number(b)
			if reason == "" {
				reason = util.set(&s, v)
			}
			if reason != "" {
				in.reject(fmt.Sprintf("gpu%d_util", i), reason, b)
				continue
			}
			if err := in.gpu(&s); err != nil {
				return err
			}
		}
	}
}

func detectAcme(head []byte) bool {
	names := bytes.SplitN(lines.Header(head), []byte{','}, 3)
	if len(names) < 2 || string(names[0]) != "Time" {
		return false
	}
	_, ok := serverGPU(trimmed(names[1]))
	return ok
}

// serverGPU cuts a column's name, SERVER-GPU.
func serverGPU(name string) (GPU, bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return GPU{}, false
	}
	n, reason := whole([]byte(name[i+1:]), maxGPU)
	return GPU{Node: name[:i], Index: n, Instance: -1}, reason == ""
}

// acmeMetric is the metric of a file, by its name: GPU_UTIL.csv, or GPU_UTIL-2023-07.csv
// for a part. The files have shares in percent.
func acmeMetric(file string) (metric, error) {
	name, _, _ := strings.Cut(path.Base(strings.ReplaceAll(file, `\`, "/")), ".")
	name, _, _ = strings.Cut(name, "-")
	m := metricNames[bareMetric(dcgm+name)]
	if m == nil || m.field == 0 {
		var known []string
		for i := range metrics {
			if m := &metrics[i]; m.field != 0 && strings.HasPrefix(m.name, dcgm) {
				known = append(known, m.String())
			}
		}
		return metric{}, fmt.Errorf("%w: the file's name says which metric it holds, and %q is none of %s", ErrFormat,
			name, strings.Join(known, ", "))
	}
	found := *m
	if found.field&(SMActive|SMOccupancy|TensorActive|DRAMActive) != 0 {
		found.scale = .01
	}
	return found, nil
}

// readAcme reads a column per GPU; each field makes a sample with one quantity.
func readAcme(in *input) error {
	m, err := acmeMetric(in.stats.File)
	if err != nil {
		return err
	}
	names, err := in.header()
	if err != nil {
		return err
	}
	gpus := make([]GPU, len(names))
	last := make([]int, len(names)) // Xid
	for i, name := range names[1:] {
		var ok bool
		if gpus[i+1], ok = serverGPU(name); !ok {
			return fmt.Errorf("%w: line %d: column %d is called %s, not SERVER-GPU", ErrFormat, in.line, i+2,
				lines.Excerpt([]byte(name)))
		}
	}
	for {
		fields, err := in.row()
		if fields == nil || err != nil {
			return err
		}
		if len(fields) != len(names) {
			in.reject("line", "has another number of fields than the header", fields[0])
			continue
		}
		at, reason := in.instant(fields[0])
		if reason != "" {
			in.reject("Time", reason, fields[0])
			continue
		}
		for i, b := range fields[1:] {
			if len(b) == 0 {
				in.stats.Absent++
				continue
			}
			s := GPUSample{GPU: gpus[i+1], Time: at}
			v, reason := number(b)
			if reason == "" {
				reason = m.take(&s, v)
			}
			if reason != "" {
				in.reject(names[i+1], reason, b)
				continue
			}
			if s.Known == 0 {
				in.stats.Absent++
				continue
			}
			s.newXid(&last[i+1])
			if err := in.gpu(&s); err != nil {
				return err
			}
		}
	}
}

// newXid turns DCGM's last error, which stays, into the error since the sample before. The
// first sample of a GPU may have one from before.
func (s *GPUSample) newXid(last *int) {
	if !s.Has(Xid) {
		return
	}
	if s.Xid == *last {
		s.Xid = 0
	} else {
		*last = s.Xid
	}
}
