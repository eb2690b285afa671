package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
		return fmt.Errorf("line %d: the scrape has no times: --scrape-time says when it was made", in.line)
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

// detectPrometheusJSON recognises answers of Prometheus' HTTP API, and the lines of VictoriaMetrics' export.
func detectPrometheusJSON(head []byte) bool {
	head = bytes.TrimLeft(head, "\r\n \t")
	if !bytes.HasPrefix(head, []byte{'{'}) {
		return false
	}
	head = bytes.TrimLeft(head[1:], "\r\n \t")
	for _, key := range []string{`"status":`, `"data":`, `"metric":`, `"resultType":`, `"result":`} {
		if bytes.HasPrefix(head, []byte(key)) || bytes.HasPrefix(head, []byte(key[:len(key)-1]+" :")) {
			return true
		}
	}
	return false
}

// readPrometheusJSON reads series, of one answer or of several after each other, in order of time.
func readPrometheusJSON(in *input) error {
	p := newPoints(in)
	defer p.close()
	d := json.NewDecoder(in.source.Text)
	for {
		err := p.answer(d)
		if errors.Is(err, io.EOF) {
			return p.end()
		}
		if err != nil {
			return fmt.Errorf("at byte %d: %w", d.InputOffset(), err)
		}
	}
}

// series is a series of Prometheus' API or of VictoriaMetrics' export.
type series struct {
	Metric     map[string]string
	Values     json.RawMessage
	Value      json.RawMessage
	Timestamps []int64
}

// answer reads an object: an answer, the data of one, or a series.
func (p *points) answer(d *json.Decoder) error {
	if err := open(d, '{'); err != nil {
		return err
	}
	var one series
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return cut(err)
		}
		switch key {
		case "data":
			err = p.answer(d)
		case "result":
			if err = open(d, '['); err != nil {
				break
			}
			for d.More() && err == nil {
				var s series
				if err = d.Decode(&s); err == nil {
					err = p.series(&s)
				}
			}
			if err == nil {
				_, err = d.Token()
			}
		case "error":
			var text string
			if err = d.Decode(&text); err == nil && text != "" {
				return fmt.Errorf("%w: the answer is an error: %s", ErrFormat, text)
			}
		case "metric":
			err = d.Decode(&one.Metric)
		case "values":
			err = d.Decode(&one.Values)
		case "value":
			err = d.Decode(&one.Value)
		case "timestamps":
			err = d.Decode(&one.Timestamps)
		default:
			var other json.RawMessage
			err = d.Decode(&other)
		}
		if err != nil {
			return cut(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return cut(err)
	}
	if one.Metric != nil {
		return p.series(&one)
	}
	return nil
}

// open reads the beginning of an object or list.
func open(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err == nil && t != want {
		err = fmt.Errorf("%w: %v is no answer of Prometheus", ErrFormat, t)
	}
	return err
}

// cut is an error of an answer that ends too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// series takes the values of a series.
func (p *points) series(s *series) error {
	in := p.in
	name := []byte(s.Metric["__name__"])
	m := p.metric(name)
	if m == nil {
		return nil
	}
	delete(s.Metric, "__name__")
	var key []byte
	for _, label := range slices.Sorted(maps.Keys(s.Metric)) {
		key = append(strconv.AppendQuote(append(append(key, label...), '='), s.Metric[label]), ',')
	}
	t, err := p.targetOf(key, func() (map[string]string, bool) { return s.Metric, true })
	if err != nil {
		return err
	}
	if x := p.targets[t]; x.reason != "" {
		in.stats.Rows++
		in.reject(x.field, x.reason, key)
		return nil
	}
	number, k := p.number(m), 0
	take := func(clock, value []byte) error {
		in.stats.Rows++
		var at time.Duration
		if k++; clock == nil { // milliseconds beside the values
			if k > len(s.Timestamps) || s.Timestamps[k-1] < 0 || s.Timestamps[k-1] > int64(maxTime/time.Millisecond) {
				in.reject("timestamps", outOfRange, value)
				return nil
			}
			at = time.Duration(s.Timestamps[k-1]) * time.Millisecond
		} else if d, reason := scrapeTime(clock); reason == "" {
			at = d
		} else {
			in.reject("timestamp", reason, clock)
			return nil
		}
		v, ok := decimal(value)
		if !ok {
			if v, err = strconv.ParseFloat(string(value), 64); err != nil {
				in.reject(m.String(), notNumber, value)
				return nil
			}
		}
		if reason := p.check(m, v); reason != "" {
			in.reject(m.String(), reason, value)
			return nil
		}
		return p.add(point{at: at, value: v, target: t, metric: number}, true)
	}
	if s.Value != nil {
		return pairs(s.Value, take)
	}
	return pairs(s.Values, take)
}

// pairs gives out the values of a list: [[TIME, "VALUE"], ...], [TIME, "VALUE"], or [VALUE, ...] without times.
func pairs(b []byte, take func(clock, value []byte) error) error {
	var clock []byte
	depth, within := 0, bytes.Contains(b, []byte{'"'})
	for i := 0; i < len(b); {
		switch c := b[i]; c {
		case '[', ']':
			if depth++; c == ']' {
				depth -= 2
			}
			clock, i = nil, i+1
		case ',', ' ', '\t', '\r', '\n':
			i++
		default:
			token, from := b[i:], i
			if c == '"' {
				from, token = i+1, b[i+1:]
			}
			n := bytes.IndexAny(token, "\",] \t\r\n")
			if n < 0 {
				return io.ErrUnexpectedEOF
			}
			token, i = token[:n], from+n
			if c == '"' {
				i++
			}
			if within && c != '"' {
				clock = token
				continue
			}
			if err := take(clock, token); err != nil {
				return err
			}
		}
	}
	return nil
}
