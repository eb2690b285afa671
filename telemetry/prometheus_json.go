package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"
)

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
