package telemetry

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// detectPrometheus recognises a comment of the text format, or a metric with labels.
func detectPrometheus(head []byte) bool {
	line := bytes.TrimLeft(head, "\r\n \t")
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	for _, comment := range []string{"# HELP ", "# TYPE ", "# UNIT ", "# EOF"} {
		if bytes.HasPrefix(line, []byte(comment)) {
			return true
		}
	}
	name, rest, labels := bytes.Cut(line, []byte{'{'})
	if len(name) == 0 { // a name among the labels
		name, _, labels = bytes.Cut(rest, []byte{'='})
		return labels && !bytes.ContainsAny(name, `:{}`)
	}
	return labels && !bytes.ContainsAny(name, ", \"<")
}

// maxTargets bounds the GPUs and labels of one scrape.
const maxTargets = 1 << 18

// readPrometheus reads scrapes one after the other, or series one after the other.
func readPrometheus(in *input) error {
	p := newPoints(in)
	defer p.close()
	for {
		line, err := in.next()
		if err != nil {
			return err
		}
		if line == nil {
			return p.end()
		}
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if err := p.line(line); err != nil {
			return err
		}
	}
}

// line reads METRIC{LABELS} VALUE [TIME], where the name may also be a label.
func (p *points) line(line []byte) error {
	in := p.in
	n := bytes.IndexAny(line, "{ \t")
	labels, rest, ok := []byte(nil), []byte(nil), false
	if n >= 0 {
		labels, rest, ok = cutLabels(line[n:])
	}
	name := line[:max(n, 0)]
	if n == 0 && ok {
		name, labels = cutName(labels)
	}
	if len(name) == 0 {
		in.stats.Rows++
		in.reject("line", "is not METRIC{LABELS} VALUE", line)
		return nil
	}
	m := p.metric(name)
	if m == nil {
		return nil
	}
	in.stats.Rows++
	rest, _, _ = bytes.Cut(rest, []byte(" # ")) // an exemplar
	value, clock := bytes.Trim(rest, " \t"), []byte(nil)
	if end := bytes.IndexAny(value, " \t"); end >= 0 {
		value, clock = value[:end], bytes.TrimSpace(value[end:])
	}
	if !ok || len(value) == 0 {
		in.reject(m.String(), "is not METRIC{LABELS} VALUE", line)
		return nil
	}
	t, err := p.target(labels)
	if err != nil {
		return err
	}
	if x := p.targets[t]; x.reason != "" {
		in.reject(x.field, x.reason, labels)
		return nil
	}
	v, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		in.reject(m.String(), notNumber, value)
		return nil
	}
	at, reason := in.opts.At, ""
	if len(clock) > 0 {
		if at, reason = scrapeTime(clock); reason != "" {
			in.reject("timestamp", reason, clock)
			return nil
		}
	}
	if at == 0 {
		return fmt.Errorf("line %d: the scrape has no times, and when it was made is not given: 'telemetry validate' and "+
			"'import' take --at", in.line)
	}
	if reason := p.check(m, v); reason != "" {
		in.reject(m.String(), reason, value)
		return nil
	}
	return p.add(point{at: at, value: v, target: t, metric: p.number(m)}, len(clock) > 0)
}

// firstMillis is the least number that counts milliseconds since 1970; lesser ones count seconds. It is in 1973, and in
// the year 5138.
const firstMillis = 1e11

// scrapeTime reads a time: milliseconds as in Prometheus' text format, or seconds as in OpenMetrics.
func scrapeTime(b []byte) (time.Duration, string) {
	if ms, reason := whole(b, math.MaxInt64/1000); reason == "" && ms >= firstMillis {
		if ms > int(maxTime/time.Millisecond) {
			return 0, "is neither seconds nor milliseconds since 1970"
		}
		return time.Duration(ms) * time.Millisecond, ""
	}
	if at, ok := seconds(b); ok && at > 0 && at <= maxTime {
		return at, ""
	}
	if s, err := strconv.ParseFloat(string(b), 64); err == nil && s > 0 && s <= maxTime.Seconds() {
		return time.Duration(math.Round(s*1e3)) * time.Millisecond, ""
	}
	return 0, "is neither seconds nor milliseconds since 1970"
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

// cutName cuts a name out of labels: the label __name__, or a text without a label before the others.
func cutName(labels []byte) (name, rest []byte) {
	const label = `__name__="`
	from := 0
	switch at := bytes.Index(labels, []byte(label)); {
	case bytes.HasPrefix(labels, []byte{'"'}):
		from = 1
	case at == 0 || at > 0 && (labels[at-1] == ',' || labels[at-1] == ' '):
		labels = slices.Concat(labels[:at], labels[at+len(label)-1:]) // as the first form, but in the middle
		from = at + 1
	default:
		return nil, labels
	}
	n := bytes.IndexByte(labels[from:], '"')
	if n < 0 {
		return nil, labels
	}
	name, rest = labels[from:from+n], bytes.TrimLeft(labels[from+n+1:], " ,")
	return name, slices.Concat(labels[:from-1], rest)
}

// target has the values of labels.
type target struct {
	gpu    GPU // the index is negative where no label says it
	uuid   string
	job    string
	podOf  bool   // the pod is the exporter's
	field  string // the fault, and why
	reason string
}

// target finds the number of labels, most of which were read before.
func (p *points) target(labels []byte) (int32, error) {
	return p.targetOf(labels, func() (map[string]string, bool) { return parseLabels(labels) })
}

// targetOf is target of labels that are identified by a text.
func (p *points) targetOf(labels []byte, parse func() (map[string]string, bool)) (int32, error) {
	if t, ok := p.byText[string(labels)]; ok {
		return t, nil
	}
	x := target{field: "labels", reason: `are not NAME="VALUE",...`}
	if all, ok := parse(); ok {
		x = p.newTarget(all)
	}
	if len(p.targets) >= 16*maxTargets {
		return 0, fmt.Errorf("line %d: %w: more than %d sets of labels", p.in.line, ErrLimit, 16*maxTargets)
	}
	t := int32(len(p.targets))
	p.targets = append(p.targets, x)
	p.byText[string(labels)] = t
	return t, nil
}

const exported = "exported_"

// level is how often a label was renamed: with every Prometheus between the exporter and this text, "exported_" comes
// before it once more.
func level(label string) (int, string) {
	n := 0
	for strings.HasPrefix(label, exported) {
		n, label = n+1, label[len(exported):]
	}
	return n, label
}

// ofTarget are the labels that a Prometheus gives to what it scrapes. The pod of their level is the exporter's.
var ofTarget = []string{"job", "instance", "endpoint", "service"}

func (p *points) newTarget(given map[string]string) target {
	labels, outer := map[string]string{}, -1 // in lower case, and the outermost level of a scrape
	for name, v := range given {
		if v == "" {
			continue
		}
		name = strings.ToLower(name)
		labels[name] = v
		if n, bare := level(name); slices.Contains(ofTarget, bare) {
			outer = max(outer, n)
		}
	}
	// first is the first label of a list that has a value, of the deepest level from one on.
	first := func(from int, lists ...[]string) string {
		for _, list := range lists {
			for _, name := range list {
				for n := outer + 2; n >= from; n-- {
					if v := labels[strings.Repeat(exported, n)+name]; v != "" {
						return v
					}
				}
			}
		}
		return ""
	}
	names := p.in.opts.Names
	t := target{gpu: GPU{Index: -1, Instance: -1}, uuid: first(0, names.own("uuid"), uuidLabels),
		job: first(0, names.own("job"), jobLabels)}
	if t.job == "" {
		t.job = first(outer+1, podLabels)
		t.podOf = t.job == "" && first(0, podLabels) != ""
	}
	if t.gpu.Node = p.node(first, labels, outer); t.gpu.Node == "" {
		return target{field: "Hostname", reason: "is missing: the GPU has no node, which --node names"}
	}
	var reason string
	if text := first(0, names.own("gpu"), indexLabels); text != "" {
		if t.gpu.Index, reason = whole([]byte(strings.TrimLeft(text, "/abcdefghijklmnopqrstuvwxyz")), maxGPU); reason != "" {
			if t.gpu.Index, reason = whole([]byte(text), maxGPU); reason != "" {
				return target{field: "gpu", reason: reason}
			}
		}
	} else if t.uuid == "" {
		return target{field: "gpu", reason: "is missing, as is a UUID"}
	}
	if id := first(0, names.own("instance"), instanceLabels); id != "" {
		if t.gpu.Instance, reason = whole([]byte(id), maxGPU); reason != "" {
			return target{field: "GPU_I_ID", reason: reason}
		}
	}
	return t
}

// node is the node of labels: a label of Kubernetes, the exporter's host unless that is its pod, or the host that was
// scraped.
func (p *points) node(first func(int, ...[]string) string, labels map[string]string, outer int) string {
	if node := first(0, p.in.opts.Names.own("node"), nodeLabels); node != "" {
		return host(node)
	}
	name := first(0, hostLabels)
	pod := strings.Contains(name, "exporter")
	for n := 0; n <= outer; n++ {
		for _, label := range podLabels {
			pod = pod || name != "" && labels[strings.Repeat(exported, n)+label] == name
		}
	}
	if name != "" && !pod {
		return name
	}
	if p.in.opts.Node != "" {
		return p.in.opts.Node
	}
	if scraped := host(first(0, []string{"instance"})); scraped != "" && scraped != "localhost" && scraped != "127.0.0.1" {
		return scraped
	}
	return name
}

// host is an address without its port.
func host(address string) string {
	i := strings.LastIndexByte(address, ':')
	if i < 0 || strings.Count(address, ":") > 1 && !strings.HasPrefix(address, "[") {
		return address
	}
	return strings.Trim(address[:i], "[]")
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
		if name = bytes.Trim(name, " \t\""); !ok || len(name) == 0 || len(rest) == 0 || rest[0] != '"' {
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

// metric finds a metric by its name, and notes the names that are not known.
func (p *points) metric(name []byte) *metric {
	m, known := p.metrics[string(name)]
	if !known {
		m = p.in.opts.Names.metric(string(name))
		if len(p.metrics) < maxTargets {
			p.metrics[string(name)] = m
		}
	}
	return m
}

// unknown are the names of metrics that are not known, those of GPUs first.
func (p *points) unknown() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p.metrics)) {
		if p.metrics[name] == nil {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Count(strings.ToLower(b), "gpu") - strings.Count(strings.ToLower(a), "gpu")
	})
	return names
}
