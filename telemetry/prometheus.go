package telemetry

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// detectPrometheus recognises a comment of the text format, or a metric with labels.
func detectPrometheus(head []byte) bool {
	line := bytes.TrimLeft(head, "\r\n")
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	if bytes.HasPrefix(line, []byte("# HELP ")) || bytes.HasPrefix(line, []byte("# TYPE ")) {
		return true
	}
	name, _, labels := bytes.Cut(line, []byte{'{'})
	return labels && len(name) > 0 && !bytes.ContainsAny(name, ", \"")
}

// maxScrape bounds the GPUs of one scrape.
const maxScrape = 1 << 18

// scrape gathers the lines of one scrape: the exporter lists metric by metric, and a
// sample has all metrics of a GPU.
type scrape struct {
	in      *input
	samples []scraped
	at      map[instantOfGPU]int // in samples
	seen    map[string]bool      // metrics of this scrape
	metric  string               // of the line before
	labels  map[string]*target   // by their text, which recurs
	xids    map[GPU]int
}

type instantOfGPU struct {
	gpu  GPU
	time time.Duration
}

type scraped struct {
	GPUSample
	free    float64
	hasFree bool
	shared  bool // by several jobs
}

// target has the values of labels.
type target struct {
	gpu    GPU
	uuid   string
	job    string
	field  string // the fault, and why
	reason string
}

// readPrometheus reads scrapes one after the other. A scrape ends where a metric comes
// again after others, and at the end of the input.
func readPrometheus(in *input) error {
	s := &scrape{in: in, at: map[instantOfGPU]int{}, seen: map[string]bool{}, labels: map[string]*target{},
		xids: in.opts.Xids}
	if s.xids == nil {
		s.xids = map[GPU]int{}
	}
	for {
		line, err := in.next()
		if err != nil {
			return err
		}
		if line == nil {
			return s.end()
		}
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if err := s.line(line); err != nil {
			return err
		}
	}
}

func (s *scrape) line(line []byte) error {
	in := s.in
	n := bytes.IndexAny(line, "{ \t")
	if n <= 0 {
		in.stats.Rows++
		in.reject("line", "is not METRIC{LABELS} VALUE", line)
		return nil
	}
	name := bareMetric(in.text(line[:n]))
	m := metricOf(name)
	if m == nil && name != freeMemory {
		return nil
	}
	in.stats.Rows++
	labels, rest, ok := cutLabels(line[n:])
	value, clock := bytes.Trim(rest, " \t"), []byte(nil)
	if end := bytes.IndexAny(value, " \t"); end >= 0 {
		value, clock = value[:end], bytes.TrimSpace(value[end:])
	}
	if !ok || len(value) == 0 {
		in.reject(name, "is not METRIC{LABELS} VALUE", line)
		return nil
	}
	t := s.target(labels)
	if t.reason != "" {
		in.reject(t.field, t.reason, labels)
		return nil
	}
	v, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		in.reject(name, notNumber, value)
		return nil
	}
	at := in.opts.At
	if len(clock) > 0 {
		ms, err := strconv.ParseInt(string(clock), 10, 64)
		if err != nil || ms < 0 || ms > int64(maxTime/time.Millisecond) {
			in.reject("timestamp", "is not milliseconds since 1970", clock)
			return nil
		}
		at = time.Duration(ms) * time.Millisecond
	}
	if at == 0 {
		return fmt.Errorf("line %d: the scrape has no times, and when it was made is not given", in.line)
	}
	if name != s.metric {
		if s.seen[name] {
			if err := s.end(); err != nil {
				return err
			}
		}
		s.seen[name] = true
		s.metric = name
	}
	x, err := s.sample(t, at)
	if err != nil {
		return err
	}
	reason := ""
	switch {
	case blank(v):
		in.stats.Absent++
	case m != nil:
		reason = m.take(&x.GPUSample, v)
	case v >= 0 && v <= quantityOf(MemoryTotal).Most:
		x.free, x.hasFree = v, true
	default:
		reason = outOfRange
	}
	if reason != "" {
		in.reject(name, reason, value)
	}
	return nil
}

// sample is that of a GPU in the scrape. A GPU that jobs share is listed once for each:
// then none of them is the sample's.
func (s *scrape) sample(t *target, at time.Duration) (*scraped, error) {
	key := instantOfGPU{t.gpu, at}
	i, ok := s.at[key]
	if !ok {
		if len(s.samples) >= maxScrape {
			return nil, fmt.Errorf("line %d: %w: a scrape of more than %d GPUs", s.in.line, ErrLimit, maxScrape)
		}
		i = len(s.samples)
		s.at[key] = i
		s.samples = append(s.samples, scraped{GPUSample: GPUSample{GPU: t.gpu, UUID: t.uuid, Time: at, Job: t.job}})
	}
	x := &s.samples[i]
	if x.Job != t.job || x.shared {
		x.shared, x.Job = true, ""
	}
	return x, nil
}

// end gives the samples of the scrape out, in the order of their first lines.
func (s *scrape) end() error {
	for i := range s.samples {
		x := &s.samples[i]
		if x.hasFree && x.Has(MemoryUsed) && !x.Has(MemoryTotal) {
			x.MemoryTotal = x.MemoryUsed + x.free
			x.Known |= MemoryTotal
		}
		if x.Has(Xid) {
			last, old := s.xids[x.GPU]
			if !old && len(s.xids) >= maxScrape {
				return fmt.Errorf("%w: more than %d GPUs", ErrLimit, maxScrape)
			}
			x.newXid(&last)
			s.xids[x.GPU] = last
		}
		if x.Known == 0 {
			continue
		}
		if err := s.in.gpu(&x.GPUSample); err != nil {
			return err
		}
	}
	s.samples = s.samples[:0]
	clear(s.at)
	clear(s.seen)
	s.metric = ""
	return nil
}

// cutLabels cuts the text after a metric's name into the text of its labels and the rest.
func cutLabels(b []byte) (labels, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '{' {
		return nil, b, true
	}
	quoted := false
	for i := 1; i < len(b); i++ {
		switch {
		case quoted && b[i] == '\\':
			i++
		case b[i] == '"':
			quoted = !quoted
		case b[i] == '}' && !quoted:
			return b[1:i], b[i+1:], true
		}
	}
	return nil, nil, false
}

// target reads labels, most of which were read before.
func (s *scrape) target(labels []byte) *target {
	if t, ok := s.labels[string(labels)]; ok {
		return t
	}
	if len(s.labels) >= maxScrape {
		clear(s.labels)
	}
	t := s.newTarget(labels)
	s.labels[string(labels)] = t
	return t
}

// Labels of a target, the first one found counts: of the exporter, and as Prometheus
// renames them where its own have the names. HPC_JOB is of the exporter's job mapping.
var (
	nodeLabels = []string{"Hostname", "hostname", "node"}
	hostLabels = []string{"exported_instance", "instance"} // with a port
	uuidLabels = []string{"UUID", "uuid"}
	jobLabels  = []string{"hpc_job", "exported_job_id", "job_id"}
	podLabels  = []string{"exported_pod", "pod"}
)

func (s *scrape) newTarget(text []byte) *target {
	labels, ok := parseLabels(text)
	if !ok {
		return &target{field: "labels", reason: `are not NAME="VALUE",...`}
	}
	first := func(names []string) string {
		for _, name := range names {
			if v := labels[name]; v != "" {
				return v
			}
		}
		return ""
	}
	t := &target{gpu: GPU{Node: first(nodeLabels), Instance: -1}, uuid: first(uuidLabels), job: first(jobLabels)}
	if t.gpu.Node == "" {
		t.gpu.Node = s.in.opts.Node
	}
	if t.gpu.Node == "" {
		t.gpu.Node, _, _ = strings.Cut(first(hostLabels), ":")
	}
	if t.gpu.Node == "" {
		return &target{field: "Hostname", reason: "is missing: the GPU has no node"}
	}
	var reason string
	if t.gpu.Index, reason = whole([]byte(labels["gpu"]), maxGPU); reason != "" {
		return &target{field: "gpu", reason: reason}
	}
	if id := labels["GPU_I_ID"]; id != "" {
		if t.gpu.Instance, reason = whole([]byte(id), maxGPU); reason != "" {
			return &target{field: "GPU_I_ID", reason: reason}
		}
	}
	if t.job == "" {
		t.job = first(podLabels)
	}
	return t
}

// parseLabels reads NAME="VALUE" pairs, with commas between them and perhaps after them.
func parseLabels(b []byte) (map[string]string, bool) {
	labels := map[string]string{}
	for {
		if b = bytes.TrimLeft(b, " \t"); len(b) == 0 {
			return labels, true
		}
		name, rest, ok := bytes.Cut(b, []byte{'='})
		rest = bytes.TrimLeft(rest, " \t")
		if name = bytes.TrimSpace(name); !ok || len(name) == 0 || len(rest) == 0 || rest[0] != '"' {
			return nil, false
		}
		var value []byte
		i := 1
		for ; i < len(rest) && rest[i] != '"'; i++ {
			c := rest[i]
			if c == '\\' && i+1 < len(rest) {
				i++
				if c = rest[i]; c == 'n' {
					c = '\n'
				}
			}
			value = append(value, c)
		}
		if i >= len(rest) {
			return nil, false
		}
		labels[string(name)] = string(value)
		b = bytes.TrimLeft(rest[i+1:], " \t")
		if len(b) > 0 {
			if b[0] != ',' {
				return nil, false
			}
			b = b[1:]
		}
	}
}
