package telemetry

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/autosched/autosched/internal/lines"
)

// Kind is the kind of a file's records.
type Kind string

// The kinds of files.
const (
	GPUs       Kind = "GPU samples"
	Queues     Kind = "queue samples"
	Iterations Kind = "iterations"
)

// Format is a way to write telemetry down. To add one, write its reader and add an entry
// to Formats.
type Format struct {
	Name   string // as in Options.Format
	About  string // one sentence
	Kind   Kind
	Header string // its beginning, to show
	// detect recognises the beginning of a text. At most one format may recognise it.
	detect func(head []byte) bool
	// read gives every row to a function of input.visit or to input.reject.
	read func(*input) error
}

// Formats are the known formats, in order of name. A function, because readers name them
// in their errors.
func Formats() []Format {
	return []Format{
		{"acme", "Shanghai AI Laboratory's DCGM files: a metric each, which the file's name says, a column per GPU",
			GPUs, "Time,SERVER-0,SERVER-1,...", detectAcme, readAcme},
		{"autosched", "this project's CSV; an empty field is unknown", GPUs, title(gpuColumns),
			has(gpuColumns), readGPUs},
		{"genai-pods", "Alibaba's inference pods of 2026, a GPU each", GPUs, title(podColumns),
			has(podColumns), readPods},
		{"iterations", "this project's CSV of training steps", Iterations, title(iterationColumns),
			has(iterationColumns), readIterations},
		{"nvidia-smi", "what nvidia-smi --query-gpu=... --format=csv prints of a node, with or without units; times of one clock",
			GPUs, "timestamp, index, utilization.gpu [%], ...", detectSMI, readSMI},
		{"nvidia-smi-xml", "what nvidia-smi -q -x prints of a node, once or often; times of one clock", GPUs,
			"<?xml version=\"1.0\" ?>", detectSMILog, readSMILog},
		{"pai-minibatch", "Alibaba PAI's iteration times, scaled to at most 1000 per job and read as milliseconds",
			Iterations, title(minibatchColumns), has(minibatchColumns), readMinibatches},
		{"philly", "Microsoft Philly's cluster_gpu_util: a row per machine and minute", GPUs,
			"time,machineId,gpu0_util,...,gpu7_util", detectPhilly, readPhilly},
		{"prometheus", "scrapes of dcgm-exporter and others in Prometheus' text format, and tsdb dumps", GPUs,
			`DCGM_FI_DEV_GPU_UTIL{gpu="0",...} 93`, detectPrometheus, readPrometheus},
		{"prometheus-json", "answers of Prometheus' HTTP API, and VictoriaMetrics' export", GPUs,
			`{"status":"success","data":{"resultType":"matrix",...`, detectPrometheusJSON, readPrometheusJSON},
		{"queue", "this project's CSV of queue samples", Queues, title(queueColumns), has(queueColumns), readQueues},
	}
}

// formatFor finds the format by its name or by the beginning of a text.
func formatFor(head []byte, name string) (*Format, error) {
	all := Formats()
	var names, headers []string
	for i := range all {
		f := &all[i]
		if name == f.Name || name == "" && f.detect(head) {
			return f, nil
		}
		names = append(names, f.Name)
		headers = append(headers, "\n  "+f.Name+": "+f.Header)
	}
	switch {
	case name != "":
		return nil, fmt.Errorf("%w: no format is called %q; known are %s", ErrFormat, name, strings.Join(names, ", "))
	case len(head) == 0:
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	if what := notSMI(head); what != "" {
		return nil, fmt.Errorf("%w: this is %s", ErrFormat, what)
	}
	return nil, fmt.Errorf("%w: it begins with %s; known formats begin with:%s", ErrFormat,
		lines.Excerpt(lines.Header(head)), strings.Join(headers, ""))
}

// FormatOf names the format of a text by its beginning, which has a whole line at least. A text that is read with
// Options.Format is read as it comes: it may still grow.
func FormatOf(head []byte) (string, error) {
	f, err := formatFor(head, "")
	if err != nil {
		return "", err
	}
	return f.Name, nil
}

// header reads the first line that is neither empty nor a comment, cut into fields.
func (in *input) header() ([]string, error) {
	for {
		line, err := in.next()
		if err != nil {
			return nil, err
		}
		if line == nil {
			return nil, fmt.Errorf("%w: there is no header", ErrFormat)
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		fields, reason := lines.Split(bytes.Clone(line), ',', nil)
		if reason != "" {
			return nil, fmt.Errorf("%w: line %d: the header %s", ErrFormat, in.line, reason)
		}
		names := make([]string, len(fields))
		for i := range fields {
			names[i] = trimmed(fields[i])
		}
		return names, nil
	}
}

// row reads the next row that is not empty, cut into fields; nil at the end.
func (in *input) row() ([][]byte, error) {
	for {
		line, err := in.next()
		if line == nil || err != nil {
			return nil, err
		}
		if len(line) == 0 {
			continue
		}
		in.stats.Rows++
		var reason string
		if in.fields, reason = lines.Split(line, cmp.Or(in.separator, ','), in.fields[:0]); reason != "" {
			in.reject("line", reason, line)
			continue
		}
		return in.fields, nil
	}
}
